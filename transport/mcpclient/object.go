package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// This file edits one level of a JSON object and leaves every other byte as it
// was: nothing is decoded and encoded again.

var errNotObject = errors.New("not a JSON object")

type reader struct {
	buf bytes.Buffer
	dec *jsontext.Decoder
}

// Names may repeat and text may be invalid UTF-8: what to do about either is
// not for the scan to decide.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

var readers = sync.Pool{New: func() any {
	r := &reader{}
	r.dec = jsontext.NewDecoder(&r.buf, lenient...)
	return r
}}

// member is one name and value of an object, as offsets into its bytes.
type member struct {
	nameStart, valueStart, valueEnd int
}

// eachMember walks over the members of the object in raw and then makes sure
// that nothing follows it. The slices that visit gets alias raw. An error of
// visit ends the walk and is returned.
func eachMember(raw []byte, visit func(name []byte, m member) error) error {
	r := readers.Get().(*reader)
	r.buf = *bytes.NewBuffer(raw)
	r.dec.Reset(&r.buf, lenient...)
	defer func() {
		r.buf = bytes.Buffer{}
		r.dec.Reset(&r.buf, lenient...)
		readers.Put(r)
	}()
	if r.dec.PeekKind() != '{' {
		if _, err := r.dec.ReadValue(); err != nil {
			return err
		}
		return errNotObject
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		nameEnd := int(r.dec.InputOffset())
		m := member{nameStart: nameEnd - len(name)}
		plain := raw[m.nameStart+1 : nameEnd-1]
		if bytes.IndexByte(plain, '\\') >= 0 {
			if plain, err = jsontext.AppendUnquote(nil, raw[m.nameStart:nameEnd]); err != nil {
				return err
			}
		}
		value, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		m.valueEnd = int(r.dec.InputOffset())
		m.valueStart = m.valueEnd - len(value)
		if err := visit(plain, m); err != nil {
			return err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// get finds the value of key; of a repeated name the last counts.
func get(object []byte, key string) (value []byte, found member, ok bool, err error) {
	err = eachMember(object, func(name []byte, m member) error {
		if string(name) == key {
			found, ok, value = m, true, object[m.valueStart:m.valueEnd]
		}
		return nil
	})
	return value, found, ok, err
}

// with gives object with key set to value: in its place when it is there, else
// as the last member.
func with(object []byte, key string, value []byte) ([]byte, error) {
	_, at, ok, err := get(object, key)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(object)+len(key)+len(value)+4)
	if ok {
		out = append(out, object[:at.valueStart]...)
		out = append(out, value...)
		return append(out, object[at.valueEnd:]...), nil
	}
	body := bytes.TrimRight(object, " \t\r\n")
	body = body[:len(body)-1] // the closing brace
	out = append(out, body...)
	if last := bytes.TrimRight(body, " \t\r\n"); last[len(last)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, key...)
	out = append(out, '"', ':')
	out = append(out, value...)
	return append(out, '}'), nil
}

// without gives object without the members named key.
func without(object []byte, key string) ([]byte, error) {
	return withoutSome(object, func(name []byte) bool { return string(name) == key })
}

// withoutSome gives object without the members that drop names.
func withoutSome(object []byte, drop func(name []byte) bool) ([]byte, error) {
	type span struct{ from, to int }
	var kept []span
	first, dropped := -1, false
	end := 0
	err := eachMember(object, func(name []byte, m member) error {
		if first < 0 {
			first = m.nameStart
		}
		end = m.valueEnd
		if drop(name) {
			dropped = true
			return nil
		}
		kept = append(kept, span{m.nameStart, m.valueEnd})
		return nil
	})
	if err != nil || !dropped {
		return object, err
	}
	out := make([]byte, 0, len(object))
	out = append(out, object[:first]...)
	for i, s := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, object[s.from:s.to]...)
	}
	return append(out, object[end:]...), nil
}

// withProgressToken puts token into params._meta.progressToken.
func withProgressToken(params json.RawMessage, token []byte) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 {
		params = json.RawMessage(`{}`)
	}
	meta, _, ok, err := get(params, "_meta")
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	if !ok || string(meta) == "null" {
		meta = []byte(`{}`)
	}
	meta, err = with(meta, "progressToken", token)
	if err != nil {
		return nil, fmt.Errorf("params._meta: %w", err)
	}
	return with(params, "_meta", meta)
}
