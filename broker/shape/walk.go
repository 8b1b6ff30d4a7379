package shape

import "encoding/json"

// The functions of this file walk JSON that is known to be valid: they look at
// brackets and quotes only, which makes them several times as fast as a
// decoder, and they hold no copy. On anything else they end early and do not panic.

// skipSpace gives the first place at or after i that is no white space.
func skipSpace[T ~[]byte | ~string](b T, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString gives the place after the string that begins at i.
func skipString[T ~[]byte | ~string](b T, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue gives the place after the value that begins at i.
func skipValue[T ~[]byte | ~string](b T, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i // the end of what holds a bare value
				}
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// Items splits a valid JSON array into its items, which are slices of it; what
// is no array has none.
func Items(array json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	i := skipSpace(array, 0)
	if i >= len(array) || array[i] != '[' {
		return nil
	}
	for i = skipSpace(array, i+1); i < len(array) && array[i] != ']'; {
		end := skipValue(array, i)
		if end == i {
			return nil
		}
		items = append(items, array[i:end:end])
		if i = skipSpace(array, end); i < len(array) && array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return items
}
