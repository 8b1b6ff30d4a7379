package condition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"berth/broker/shape"

	"github.com/go-json-experiment/json/jsontext"
)

// Origin is the document that a pointer starts in.
type Origin string

// The origins, as they are written.
const (
	Arguments Origin = "args"
	Result    Origin = "result"
)

// Each is the reference token that stands for every item of an array.
const Each = "*"

// MaxFound bounds how many values one pointer may find; with more it counts as
// unresolvable.
const MaxFound = 10_000

// Pointer names values of one of the two documents of a call. The zero value
// names nothing.
type Pointer struct {
	Origin Origin
	Tokens []string // unescaped; Each for every item of an array
	text   string
}

// String is the pointer as it was written.
func (p Pointer) String() string { return p.text }

// ErrPointer is a text that is no pointer.
var ErrPointer = errors.New("a pointer is args: or result: and then a JSON Pointer, such as args:/path")

// ParsePointer reads a pointer.
func ParsePointer(text string) (Pointer, error) {
	origin, path, ok := strings.Cut(text, ":")
	if !ok || (origin != string(Arguments) && origin != string(Result)) || (path != "" && path[0] != '/') {
		return Pointer{}, fmt.Errorf("%w, not %q", ErrPointer, text)
	}
	p := Pointer{Origin: Origin(origin), text: text}
	if path == "" {
		return p, nil
	}
	for token := range strings.SplitSeq(path[1:], "/") {
		plain, ok := unescape(token)
		if !ok {
			return Pointer{}, fmt.Errorf("%w: in %q a ~ is written ~0 and a / inside a name ~1", ErrPointer, text)
		}
		p.Tokens = append(p.Tokens, plain)
	}
	return p, nil
}

func unescape(token string) (string, bool) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || (token[i+1] != '0' && token[i+1] != '1')) {
			return "", false
		}
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token), true
}

// Found is what a pointer found in a document.
type Found struct {
	Values []json.RawMessage // in the order of the document; slices of it
	// Missing counts the places where the way ended: an absent member, an index
	// past the end, a value that has no members. An array without items under
	// Each is none.
	Missing int
	// Doubtful is set when readers could disagree: a member stands twice, the
	// document cannot be read, or there are more than MaxFound values.
	Doubtful bool
}

// Find follows the pointer. An absent document is the empty object.
func (p Pointer) Find(document json.RawMessage) Found {
	var f Found
	if text := bytes.TrimSpace(document); len(text) == 0 || string(text) == "null" {
		document = json.RawMessage("{}")
	}
	if !jsontext.Value(document).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		f.Doubtful = true
		return f
	}
	f.walk(document, p.Tokens)
	return f
}

func (f *Found) walk(v json.RawMessage, tokens []string) {
	if len(f.Values)+f.Missing >= MaxFound {
		f.Doubtful = true
	}
	if f.Doubtful {
		return
	}
	if len(tokens) == 0 {
		f.Values = append(f.Values, v)
		return
	}
	switch kind(v) {
	case '{':
		f.member(v, tokens)
	case '[':
		f.item(v, tokens)
	default:
		f.Missing++
	}
}

func (f *Found) member(object json.RawMessage, tokens []string) {
	if tokens[0] == Each {
		f.Missing++ // it is for arrays; a member of that name is not meant
		return
	}
	members, err := shape.Members(object)
	if err != nil {
		f.Doubtful = true
		return
	}
	var value json.RawMessage
	for _, m := range members {
		if m.Name != tokens[0] {
			continue
		}
		if value != nil {
			f.Doubtful = true // one reader takes the first, another the last
			return
		}
		value = m.Value
	}
	if value == nil {
		f.Missing++
		return
	}
	f.walk(value, tokens[1:])
}

func (f *Found) item(array json.RawMessage, tokens []string) {
	items := shape.Items(array)
	if tokens[0] == Each {
		for _, item := range items {
			f.walk(item, tokens[1:])
		}
		return
	}
	i, ok := index(tokens[0])
	if !ok || i >= len(items) {
		f.Missing++
		return
	}
	f.walk(items[i], tokens[1:])
}

// index reads an array index as RFC 6901 writes it.
func index(token string) (int, bool) {
	i, err := strconv.Atoi(token)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == token
}

func kind(v json.RawMessage) byte { return byte(jsontext.Value(v).Kind()) }
