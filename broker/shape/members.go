package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of a JSON object as it came.
type Member struct {
	Name  string          // decoded
	Raw   json.RawMessage // the name as written, with its quotes
	Value json.RawMessage
	Start int // offset of Value in the text
}

// scanner holds a decoder between uses: it is large, and most calls need one.
type scanner struct {
	dec jsontext.Decoder
	in  bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// free lets go of the text before the scanner is kept for its next user.
func (s *scanner) free() {
	s.in = bytes.Buffer{}
	s.dec.Reset(&s.in)
	scanners.Put(s)
}

// ErrNotObject is a text that is no JSON object.
var ErrNotObject = errors.New("not a JSON object")

// Members splits a JSON object into its members, in order, a repeated name
// included. The slices point into raw.
func Members(raw json.RawMessage) ([]Member, error) {
	s := scanners.Get().(*scanner)
	defer s.free()
	s.in = *bytes.NewBuffer(raw)
	d := &s.dec
	d.Reset(&s.in, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, ErrNotObject
	}
	var members []Member
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		m := Member{Name: unquote(name), Raw: within(raw, d.InputOffset(), len(name))}
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		m.Value = within(raw, d.InputOffset(), len(value))
		m.Start = int(d.InputOffset()) - len(value)
		members = append(members, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more follows it", ErrNotObject)
	}
	return members, nil
}

// within gives the n bytes of raw that end at end, so that no slice of the
// decoder's own buffer is kept.
func within(raw json.RawMessage, end int64, n int) json.RawMessage {
	return raw[int(end)-n : end : end]
}

// unquote decodes a JSON string; broken text in it becomes U+FFFD.
func unquote(v []byte) string {
	b, _ := jsontext.AppendUnquote(nil, v)
	return string(b)
}

// Text decodes raw if it is a JSON string.
func Text(raw json.RawMessage) (string, bool) {
	if jsontext.Value(raw).Kind() != '"' {
		return "", false
	}
	return unquote(bytes.TrimSpace(raw)), true
}

// Compact gives raw without white space between its tokens; strings and
// numbers stay as they are written.
func Compact(raw json.RawMessage) (json.RawMessage, error) {
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Compact(); err != nil {
		return nil, fmt.Errorf("compact JSON: %w", err)
	}
	return json.RawMessage(v), nil
}

// Canonical gives one text for all spellings of a JSON value: members sorted
// and strings minimal as in RFC 8785, but numbers as they are written, so that
// no digit is lost.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	v := jsontext.Value(bytes.Clone(raw))
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return json.RawMessage(v), nil
}
