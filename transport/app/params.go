package app

import (
	"encoding/json"
	"strconv"
)

// Kind is what a parameter takes. The schema says the plain form; what is
// accepted beyond it stands with each.
type Kind int

// The kinds.
const (
	// Text is a string, passed on as it came.
	Text Kind = iota
	// ID is a whole number, or a string of decimal digits.
	ID
	// IDs is an array of these.
	IDs
	// Count is a whole number of at least Least, or a string of digits.
	Count
	// Limit is a page size: clamped to Least..Most; what is no number is the
	// default.
	Limit
	// Offset is a place in a list: what is negative or no number is 0.
	Offset
	// Texts is an array of strings. A bare string is refused, never split.
	Texts
	// TextOrTexts is the same, and takes a bare string as one element.
	TextOrTexts
	// Flag is a boolean, or "true" and "false" in any case.
	Flag
	// Word is one of Words.
	Word
	// Any is passed on unexamined.
	Any
	// Record is an object, whose members the tool examines.
	Record
)

// Param is one argument of a tool. The schema and the reading are made of it,
// so that what is advertised and what is accepted cannot drift apart.
type Param struct {
	Name     string
	Kind     Kind
	About    string
	Required bool     // present, not null, not "" and not []
	Words    []string // of a Word
	AnyCase  bool     // a Word counts in any case
	Default  string   // of a Word; empty: none
	Least    int      // of Count and Limit
	Most     int      // of Limit
	Else     int      // the default of Count and Limit
	// Schema replaces the schema of Any and Record.
	Schema json.RawMessage
	// Refused is why an argument of this name is not taken, whatever its value;
	// it stands in no schema.
	Refused string
}

// schema is the input schema of a tool. It forbids no further names: those
// are ignored.
func (t *Tool) schema() json.RawMessage {
	var properties Object
	var required []string
	for _, p := range t.Params {
		if p.Refused != "" {
			continue
		}
		properties = append(properties, Field{p.Name, p.schema()})
		if p.Required {
			required = append(required, p.Name)
		}
	}
	out := Object{{"type", text("object")}, {"properties", properties.JSON()}}
	if required != nil {
		out = append(out, Field{"required", JSON(required)})
	}
	return out.JSON()
}

func (p *Param) schema() json.RawMessage {
	out := p.typed()
	if p.About != "" {
		out = append(out, Field{"description", text(p.About)})
	}
	return out.JSON()
}

func (p *Param) typed() Object {
	named := func(name string) Object { return Object{{"type", text(name)}} }
	number := func(n int) json.RawMessage { return json.RawMessage(strconv.Itoa(n)) }
	switch p.Kind {
	case ID:
		return named("integer")
	case IDs:
		return append(named("array"), Field{"items", json.RawMessage(`{"type":"integer"}`)})
	case Count:
		return append(named("integer"), Field{"minimum", number(p.Least)}, Field{"default", number(p.Else)})
	case Limit:
		return append(named("integer"), Field{"minimum", number(p.Least)}, Field{"maximum", number(p.Most)}, Field{"default", number(p.Else)})
	case Offset:
		return append(named("integer"), Field{"minimum", number(0)}, Field{"default", number(0)})
	case Texts, TextOrTexts:
		return append(named("array"), Field{"items", json.RawMessage(`{"type":"string"}`)})
	case Flag:
		return named("boolean")
	case Word:
		out := append(named("string"), Field{"enum", JSON(p.Words)})
		if p.Default != "" {
			out = append(out, Field{"default", text(p.Default)})
		}
		return out
	case Any, Record:
		if o, ok := ReadObject(p.Schema); ok {
			return o
		}
		return named("object")
	}
	return named("string")
}
