package shape

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// compactText gives a text that is JSON (an object, an array or a string)
// without white space between its tokens; ok is false for any other text.
func compactText(text string) (compact string, ok bool) {
	i := skipSpace(text, 0)
	if i == len(text) || (text[i] != '{' && text[i] != '[' && text[i] != '"') {
		return "", false
	}
	v := jsontext.Value(text)
	if v.Compact() != nil {
		return "", false
	}
	return string(v), true
}

// stride is how many items lie between two places that a list remembers.
const stride = 256

// list is an array inside a compact JSON text. It remembers where every
// stride-th item begins, so that a list of millions of items costs little.
type list struct {
	text        string
	open, close int // the place of [, and that after ]
	total       int
	starts      []int
}

// newList reads the array that begins at open and ends before close.
func newList(text string, open, close int) list {
	l := list{text: text, open: open, close: close}
	for i := open + 1; i < close-1; i++ {
		if l.total%stride == 0 {
			l.starts = append(l.starts, i)
		}
		i = skipValue(text, i)
		l.total++
	}
	return l
}

// end gives the place after the first k items.
func (l list) end(k int) int {
	if k == 0 {
		return l.open + 1
	}
	return skipValue(l.text, l.start(k-1))
}

// start gives the place where item k begins; for k = total the end of the last.
func (l list) start(k int) int {
	if k >= l.total {
		return l.close - 1
	}
	i := l.starts[k/stride]
	for range k % stride {
		i = skipValue(l.text, i) + 1
	}
	return i
}

// items gives the text of items from to before to, with the commas between them.
func (l list) items(from, to int) string {
	if from >= to {
		return ""
	}
	return l.text[l.start(from):l.end(to)]
}

// prefix gives the whole text with only the first k items.
func (l list) prefix(k int) string {
	return l.text[:l.end(k)] + l.text[l.close-1:]
}

// largestArray finds the array of a compact JSON text that has the most bytes;
// of two the first. ok is false when there is none with an item.
func largestArray(text string) (l list, ok bool) {
	var starts []int
	best, bestEnd := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '[', '{':
			starts = append(starts, i)
		case ']', '}':
			if len(starts) == 0 {
				return list{}, false
			}
			from := starts[len(starts)-1]
			starts = starts[:len(starts)-1]
			if n := i + 1 - from; text[from] == '[' && n > 2 && (n > bestEnd-best || (n == bestEnd-best && from < best)) {
				best, bestEnd = from, i+1
			}
		}
	}
	if bestEnd == 0 {
		return list{}, false
	}
	return newList(text, best, bestEnd), true
}

// quoteText gives text as a JSON string.
func quoteText(text string) string {
	out, _ := jsontext.AppendQuote(nil, text) // broken UTF-8 becomes U+FFFD
	return string(out)
}

// sameValue reports whether two JSON texts are the same value, spelled in any way.
func sameValue(a string, b json.RawMessage) bool {
	x, ok := compactText(a)
	y, err := Compact(b)
	if !ok || err != nil {
		return false
	}
	if x == string(y) {
		return true
	}
	// An escape is at most six times as long as what it stands for.
	if len(x) > 6*len(y)+6 || len(y) > 6*len(x)+6 {
		return false
	}
	p, errP := Canonical(json.RawMessage(x))
	q, errQ := Canonical(y)
	return errP == nil && errQ == nil && string(p) == string(q)
}

// cutAtRune gives the largest place up to n where a character begins.
func cutAtRune(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return n
}

// cutAtLine gives the place after the last line that ends within the first n
// bytes, or n at a character when no line does; the end of the text ends a line.
func cutAtLine(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	n = cutAtRune(text, n)
	if i := strings.LastIndexByte(text[:n], '\n'); i >= 0 {
		return i + 1
	}
	return n
}
