package resmon

import "strings"

// records parts an exported file into whole references (contracts/resmon.md
// section 5.15). Joined they are the file. The format is known by how a file of
// it begins.
func records(text string) []string {
	switch start := strings.TrimLeft(text, " \t\r\n"); {
	case strings.HasPrefix(start, "@"):
		return splitBefore(text, "\n@")
	case strings.HasPrefix(start, "TY  -"):
		return splitBefore(text, "\nTY  -")
	}
	return csvRows(text)
}

// splitBefore parts a text before each line that begins with what stands after
// the line break in mark.
func splitBefore(text, mark string) (out []string) {
	for {
		at := strings.Index(text[min(1, len(text)):], mark)
		if at < 0 {
			return append(out, text)
		}
		at += min(1, len(text)) + 1 // the line break belongs to what is before
		out = append(out, text[:at])
		text = text[at:]
	}
}

// csvRows parts a text after each line break that stands in no quotes.
func csvRows(text string) (out []string) {
	quoted, begin := false, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\n':
			if !quoted {
				out = append(out, text[begin:i+1])
				begin = i + 1
			}
		}
	}
	if begin < len(text) {
		out = append(out, text[begin:])
	}
	return out
}
