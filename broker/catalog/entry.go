package catalog

import (
	"bytes"
	"encoding/json"
	"errors"

	"berth/broker"
	"berth/broker/shape"
)

// entry is a backend's tools/list entry, taken apart.
type entry struct {
	members []shape.Member // compact
	hints   hints
	input   json.RawMessage // nil when it is no object
	output  bool

	description string // empty when it is no string
	task        TaskSupport
}

var errEntryName = errors.New("the entry's name is not the name that it came under")

// readEntry takes a tool's entry apart. Of a member that is repeated the last
// counts, as it does for most readers.
func readEntry(tool broker.Tool) (entry, error) {
	compact, err := shape.Compact(tool.Raw)
	if err != nil {
		return entry{}, err
	}
	all, err := shape.Members(compact)
	if err != nil {
		return entry{}, err
	}
	var e entry
	at := map[string]int{}
	for _, m := range all {
		if i, seen := at[m.Name]; seen {
			e.members[i].Value = m.Value
			continue
		}
		at[m.Name] = len(e.members)
		e.members = append(e.members, m)
	}
	name, named := "", false
	for _, m := range e.members {
		switch m.Name {
		case "name":
			name, named = shape.Text(m.Value)
		case "inputSchema":
			if bytes.HasPrefix(m.Value, []byte("{")) {
				e.input = m.Value
			}
		case "description":
			e.description, _ = shape.Text(m.Value)
		case "outputSchema":
			e.output = true
		case "annotations":
			e.hints = readHints(m.Value)
		case "execution":
			e.task = readTaskSupport(m.Value)
		}
	}
	if !named || name != tool.Name {
		return entry{}, errEntryName
	}
	return e, nil
}

// forms are the members that the protocol knows, by what each begins with. One
// that is otherwise makes strict clients refuse the whole list.
var forms = map[string]byte{"title": '"', "description": '"', "icons": '[', "execution": '{', "outputSchema": '{', "_meta": '{'}

// render gives the entry under another name: outputSchema left out unless it is
// kept, annotations put in their place or at the end, a member without its form
// left out, an input schema without a type given the one that it must have, the
// rest as it came.
func (e entry) render(name string, keepOutput bool, annotations json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	sep := byte('{')
	put := func(raw []byte, value []byte) {
		out.WriteByte(sep)
		sep = ','
		out.Write(raw)
		out.WriteByte(':')
		out.Write(value)
	}
	annotated := false
	for _, m := range e.members {
		if form, known := forms[m.Name]; known && m.Value[0] != form {
			continue
		}
		switch m.Name {
		case "inputSchema":
			if e.input != nil && typeOf(e.input) == nil {
				m.Value = typed(m.Value)
			}
			put(m.Raw, m.Value)
		case "name":
			put(m.Raw, []byte(`"`+name+`"`)) // an outward name needs no escape
		case "outputSchema":
			if keepOutput {
				put(m.Raw, m.Value)
			}
		case "annotations":
			annotated = true
			put(m.Raw, annotations)
		default:
			put(m.Raw, m.Value)
		}
	}
	if !annotated {
		put([]byte(`"annotations"`), annotations)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// typed is a compact schema that names no type, with the one that it must have.
func typed(schema []byte) []byte {
	out := append([]byte(`{"type":"object"`), ',')
	if len(schema) == len("{}") {
		out = out[:len(out)-1]
	}
	return append(out, schema[1:]...)
}
