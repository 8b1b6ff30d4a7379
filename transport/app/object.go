package app

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"berth/broker/shape"

	"github.com/go-json-experiment/json/jsontext"
)

// Field is one member of an object that is being written.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Object is a JSON object with its members in order; of a name that was
// repeated the last counts. Values are the bytes that came.
type Object []Field

// ReadObject splits a JSON object; ok is false when raw is none.
func ReadObject(raw json.RawMessage) (o Object, ok bool) {
	members, err := shape.Members(raw)
	if err != nil {
		return nil, false
	}
	o = make(Object, 0, len(members))
	at := make(map[string]int, len(members))
	for _, m := range members {
		if i, seen := at[m.Name]; seen {
			o[i].Value = m.Value
			continue
		}
		at[m.Name] = len(o)
		o = append(o, Field{m.Name, m.Value})
	}
	return o, true
}

// Get gives the value of a name; nil when it is not there.
func (o Object) Get(name string) json.RawMessage {
	if i := o.at(name); i >= 0 {
		return o[i].Value
	}
	return nil
}

// Set replaces the value of a name in its place, or adds it at the end.
func (o Object) Set(name string, value json.RawMessage) Object {
	if i := o.at(name); i >= 0 {
		o[i].Value = value
		return o
	}
	return append(o, Field{name, value})
}

// Without gives the object without the member of a name.
func (o Object) Without(name string) Object {
	if i := o.at(name); i >= 0 {
		return slices.Delete(slices.Clone(o), i, i+1)
	}
	return o
}

// Text gives the string of a name; empty when there is none.
func (o Object) Text(name string) string {
	s, _ := shape.Text(OrNull(o.Get(name)))
	return s
}

func (o Object) at(name string) int {
	return slices.IndexFunc(o, func(f Field) bool { return f.Name == name })
}

// JSON is the object's text.
func (o Object) JSON() json.RawMessage { return appendObject(nil, o...) }

// ReadArray splits a JSON array; ok is false when raw is none.
func ReadArray(raw json.RawMessage) (rows []json.RawMessage, ok bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) || json.Unmarshal(raw, &rows) != nil {
		return nil, false
	}
	return rows, true
}

// ReadRows splits a JSON array of objects; ok is false when raw is none.
func ReadRows(raw json.RawMessage) (rows []Object, ok bool) {
	elements, ok := ReadArray(raw)
	if !ok {
		return nil, false
	}
	rows = make([]Object, len(elements))
	for i, e := range elements {
		if rows[i], ok = ReadObject(e); !ok {
			return nil, false
		}
	}
	return rows, true
}

// Array is a JSON array of elements.
func Array(elements []json.RawMessage) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(rawBytes(elements), []byte(","))...), ']')
}

func rawBytes(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i, e := range in {
		out[i] = e
	}
	return out
}

// Columns is how a row of the app becomes one of an answer: what it is called
// there, and here. Nothing else of a row is answered, so that a key which the
// app grows later stays out.
type Columns [][2]string

// Of projects one row; a column that did not come is null.
func (c Columns) Of(row Object) Object {
	out := make(Object, len(c))
	for i, names := range c {
		out[i] = Field{names[0], OrNull(row.Get(names[1]))}
	}
	return out
}

// Null is JSON null.
var Null = json.RawMessage("null")

// OrNull gives raw, or null where there is nothing.
func OrNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return Null
	}
	return raw
}

// IsNull reports whether raw is absent or null.
func IsNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// JSON encodes a value without escaping what HTML would need. A value that
// cannot be encoded is a programming error and gives null.
func JSON(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return Null
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Quote gives a string as JSON; broken UTF-8 becomes U+FFFD.
func Quote(s string) json.RawMessage { return text(s) }

// Bool is a JSON boolean.
func Bool(b bool) json.RawMessage { return JSON(b) }

// Int is a JSON number.
func Int(n int) json.RawMessage { return json.RawMessage(strconv.Itoa(n)) }

// Objects are the texts of rows.
func Objects(rows []Object) json.RawMessage {
	out := make([]json.RawMessage, len(rows))
	for i, r := range rows {
		out[i] = r.JSON()
	}
	return Array(out)
}

// text quotes a string; broken UTF-8 becomes U+FFFD.
func text(s string) json.RawMessage {
	out, _ := jsontext.AppendQuote(nil, s)
	return out
}

func appendObject(out []byte, fields ...Field) json.RawMessage {
	out = append(out, '{')
	for i, f := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, f.Name)
		out = append(append(out, ':'), f.Value...)
	}
	return append(out, '}')
}
