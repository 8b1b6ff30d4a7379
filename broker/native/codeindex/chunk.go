package codeindex

import "strings"

// The size of a chunk. A new one begins at a definition once the present one has
// minLines, and anywhere at maxLines or maxChunk bytes.
const (
	minLines = 8
	maxLines = 80
	maxChunk = 16 << 10
)

// Chunk is a piece of a file. Lines count from 1, both ends belong to it.
type Chunk struct {
	Start, End int
	Text       string
	Defines    []string // names, as they are written, in order
}

// Split cuts a text into chunks that follow each other and together are the text.
func Split(text string, language *Language) []Chunk {
	var out []Chunk
	define := language.definer()
	var c Chunk
	from, at, line := 0, 0, 0 // where the chunk begins, where the line does, its number
	lead := -1                // where the comment directly above the line begins
	leadLine := 0
	cut := func(end, lastLine int) {
		if end > from {
			c.Text, c.Start, c.End = text[from:end], max(c.Start, 1), lastLine
			out = append(out, c)
		}
		from, c = end, Chunk{Start: lastLine + 1}
	}
	c.Start = 1
	for at < len(text) {
		line++
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		content := strings.TrimRight(text[at:end], "\r\n")
		name := define(content)
		switch {
		case name != "" && lead >= 0 && leadLine-c.Start >= minLines:
			cut(lead, leadLine-1)
		case name != "" && line-c.Start >= minLines:
			cut(at, line-1)
		case line-c.Start >= maxLines || end-from > maxChunk && at > from:
			cut(at, line-1)
			lead = -1
		}
		if name != "" && (len(c.Defines) == 0 || c.Defines[len(c.Defines)-1] != name) {
			c.Defines = append(c.Defines, name)
		}
		switch {
		case !language.comments(content):
			lead = -1
		case lead < 0:
			lead, leadLine = at, line
		}
		for end-from > maxChunk { // one line, longer than a chunk may be
			piece := from + maxChunk
			for piece > from && text[piece]&0xC0 == 0x80 {
				piece--
			}
			cut(piece, line)
			c.Start = line
			lead = -1
		}
		at = end
	}
	cut(len(text), line)
	return out
}
