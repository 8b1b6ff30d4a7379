package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Envelope is the outermost object of a message as it stands, before anybody
// judges it. Values are slices of the input; what is absent is nil.
type Envelope struct {
	Version json.RawMessage // of the member "jsonrpc"
	ID      json.RawMessage
	Method  json.RawMessage
	Params  json.RawMessage
	Result  json.RawMessage
	Error   json.RawMessage
	Extra   []Member // members that JSON-RPC does not name, in order
	// Repeated is true when a name stands more than once; of a name that JSON-RPC
	// knows the last value is the one here.
	Repeated bool
}

// ReadEnvelope reads the outermost object of exactly one JSON value; the error
// for another kind of value is ErrNoObject. [Decode] is for messages that must
// be right; this is for those that a reader has to make the best of. Invalid
// UTF-8 is not looked for.
func ReadEnvelope(data []byte) (Envelope, error) {
	s := newScanner(data)
	defer s.free()
	var e Envelope
	isObject := s.dec.PeekKind() == '{'
	if isObject {
		if err := s.members(e.add); err != nil {
			return Envelope{}, err
		}
	} else if _, err := s.dec.ReadValue(); err != nil {
		return Envelope{}, err
	}
	if err := s.end(); err != nil {
		return Envelope{}, err
	}
	if !isObject {
		return Envelope{}, ErrNoObject
	}
	return e, nil
}

func (e *Envelope) add(key, value []byte) error {
	var field *json.RawMessage
	switch n := named(key); string(n) {
	case "jsonrpc":
		field = &e.Version
	case "id":
		field = &e.ID
	case "method":
		field = &e.Method
	case "params":
		field = &e.Params
	case "result":
		field = &e.Result
	case "error":
		field = &e.Error
	default:
		for _, x := range e.Extra {
			e.Repeated = e.Repeated || x.Name == string(n)
		}
		e.Extra = append(e.Extra, Member{Name: string(n), Value: value})
		return nil
	}
	e.Repeated = e.Repeated || *field != nil
	*field = value
	return nil
}

// scanner holds a decoder between uses: a decoder is large and every message
// needs one.
type scanner struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// Repeated names are looked for where they matter (the envelope), and UTF-8 is
// checked over the whole input at once; so that an escaped lone surrogate,
// which JSON allows, is passed on as it came.
var scanOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func newScanner(data []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.buf = *bytes.NewBuffer(data)
	s.dec.Reset(&s.buf, scanOptions...)
	return s
}

// free lets go of the input before the scanner is kept for its next user.
func (s *scanner) free() {
	s.buf = bytes.Buffer{}
	s.dec.Reset(&s.buf)
	scanners.Put(s)
}

// end fails unless only white space follows.
func (s *scanner) end() error {
	_, err := s.dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return errors.New("something follows the value")
	}
	return err
}

// members calls each for every member of the object that the scanner stands
// before. The key is raw text with its quotes.
func (s *scanner) members(each func(key, value []byte) error) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for s.dec.PeekKind() == '"' {
		key, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		value, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := each(key, value); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// plain decodes a raw string that was scanned already; without escapes it is a
// slice of raw.
func plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	// Only a lone surrogate can be reported, and what comes back then is the text
	// with U+FFFD in its place.
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// named decodes a raw name. One with a lone surrogate stays as it was written,
// quotes included: it is nobody's, and two that differ stay different.
func named(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return raw
	}
	return text
}

// usual are the texts that nearly every message has; they cost no allocation.
var usual = func() map[string]string {
	m := map[string]string{}
	for _, text := range []string{"initialize", "ping", "tools/list", "tools/call", "notifications/progress", "notifications/cancelled"} {
		m[text] = text
	}
	return m
}()

// Unquote gives the text of a raw JSON string; another raw value has none.
func Unquote(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	text := plain(raw)
	if known, ok := usual[string(text)]; ok {
		return known, true
	}
	return string(text), true
}
