package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Object is one JSON object, one level deep: its members in order, with raw
// keys and values. What was not replaced keeps its bytes.
type Object struct {
	source  json.RawMessage // nil once changed
	members []member
}

type member struct {
	key   []byte // raw, with quotes
	value json.RawMessage
}

// is reports whether the member has this name. It makes no string.
func (m *member) is(name string) bool { return string(named(m.key)) == name }

func (m *member) name() string { return string(named(m.key)) }

// ErrNoObject is returned for JSON that is not an object.
var ErrNoObject = errors.New("not a JSON object")

// ParseObject reads raw, which must be one JSON object. The object keeps
// slices of raw.
func ParseObject(raw []byte) (*Object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not valid UTF-8")
	}
	s := newScanner(raw)
	defer s.free()
	if kind := s.dec.PeekKind(); kind != '{' {
		if _, err := s.dec.ReadValue(); err != nil {
			return nil, err
		}
		return nil, ErrNoObject
	}
	o := &Object{source: raw, members: make([]member, 0, 4)}
	err := s.members(func(key, value []byte) error {
		o.members = append(o.members, member{key: key, value: value})
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Len is the number of members.
func (o *Object) Len() int { return len(o.members) }

// Members lists the members in order; repeated names are listed each time.
func (o *Object) Members() []Member {
	out := make([]Member, len(o.members))
	for i, m := range o.members {
		out[i] = Member{Name: m.name(), Value: m.value}
	}
	return out
}

// Repeated gives the first name that stands more than once. Such an object
// means different things to different readers.
func (o *Object) Repeated() (string, bool) {
	for i := range o.members {
		for j := range i {
			if a, b := named(o.members[i].key), named(o.members[j].key); bytes.Equal(a, b) {
				return string(a), true
			}
		}
		if i == 64 {
			return o.repeatedMany()
		}
	}
	return "", false
}

// repeatedMany is Repeated for objects so large that comparing all pairs
// would be work that a caller could make us do.
func (o *Object) repeatedMany() (string, bool) {
	seen := make(map[string]struct{}, len(o.members))
	for i := range o.members {
		name := o.members[i].name()
		if _, again := seen[name]; again {
			return name, true
		}
		seen[name] = struct{}{}
	}
	return "", false
}

// Get gives the value of name: the last one, as encoding/json and JavaScript
// read it, when the name is repeated.
func (o *Object) Get(name string) (json.RawMessage, bool) {
	for i := len(o.members) - 1; i >= 0; i-- {
		if o.members[i].is(name) {
			return o.members[i].value, true
		}
	}
	return nil, false
}

// Text gives the value of name when it is a string.
func (o *Object) Text(name string) (string, bool) {
	raw, _ := o.Get(name)
	return Unquote(raw)
}

// Set replaces the value of name where it first stands and removes its
// repetitions, or appends it. value must be valid JSON; it is not copied.
func (o *Object) Set(name string, value []byte) {
	o.source = nil
	kept, found := o.members[:0], false
	for _, m := range o.members {
		if m.is(name) {
			if found {
				continue
			}
			found = true
			m.value = value
		}
		kept = append(kept, m)
	}
	if !found {
		kept = append(kept, member{key: Quote(name), value: value})
	}
	o.members = kept
}

// Delete removes every member of name and reports whether there was one.
func (o *Object) Delete(name string) bool {
	return o.delete(func(m *member) bool { return m.is(name) })
}

// DeleteFunc removes every member whose name is chosen and reports whether
// there was one.
func (o *Object) DeleteFunc(chosen func(name string) bool) bool {
	return o.delete(func(m *member) bool { return chosen(m.name()) })
}

func (o *Object) delete(chosen func(m *member) bool) bool {
	kept := o.members[:0]
	for _, m := range o.members {
		if !chosen(&m) {
			kept = append(kept, m)
		}
	}
	found := len(kept) < len(o.members)
	if found {
		o.source = nil
	}
	o.members = kept
	return found
}

// Append appends the object to dst. One that was not changed is appended as it
// came; otherwise keys and values are, without white space between them.
func (o *Object) Append(dst []byte) []byte {
	if o.source != nil {
		return append(dst, o.source...)
	}
	dst = append(dst, '{')
	for i, m := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.key...)
		dst = append(dst, ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// Bytes is the object as JSON: its source when it was not changed.
func (o *Object) Bytes() json.RawMessage {
	if o.source != nil {
		return o.source
	}
	size := 2
	for _, m := range o.members {
		size += len(m.key) + len(m.value) + 2
	}
	return o.Append(make([]byte, 0, size))
}

// Quote gives text as a JSON string; invalid UTF-8 becomes U+FFFD.
func Quote(text string) json.RawMessage { return AppendQuote(nil, text) }

// AppendQuote appends text as Quote gives it.
func AppendQuote(dst []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(text, "\uFFFD"))
	}
	return quoted
}
