package condition

import (
	"encoding/json"
	"fmt"
	"strings"

	"berth/broker/shape"
)

// Condition asks one thing of a call. All conditions of a rule must hold.
type Condition struct {
	At    Pointer
	Op    string
	Value json.RawMessage // nil for present and absent
}

// The operators.
const (
	Present  = "present"
	Absent   = "absent"
	Eq       = "eq"
	In       = "in"
	Prefix   = "prefix"
	Contains = "contains"
)

// operators says of each what its value must be, and whether what was found
// satisfies it.
var operators = map[string]struct {
	value func(json.RawMessage) bool
	want  string
	holds func(found, value json.RawMessage) bool
}{
	Present: {none, "no value", func(json.RawMessage, json.RawMessage) bool { return true }},
	Absent:  {none, "no value", func(json.RawMessage, json.RawMessage) bool { return false }},
	Eq:      {some, "a value", Equal},
	In:      {aList, "a list of values", func(found, value json.RawMessage) bool { return has(value, found) }},
	Prefix: {aText, "a text that is not empty", func(found, value json.RawMessage) bool {
		return texts(found, value, strings.HasPrefix)
	}},
	Contains: {some, "a value", func(found, value json.RawMessage) bool {
		if kind(found) == '[' {
			return has(found, value)
		}
		return texts(found, value, strings.Contains)
	}},
}

// Parse makes a condition of its parts, as configuration has them. value is nil
// when there is none.
func Parse(at, op string, value json.RawMessage) (Condition, error) {
	p, err := ParsePointer(at)
	if err != nil {
		return Condition{}, err
	}
	o, ok := operators[op]
	if !ok {
		return Condition{}, fmt.Errorf("the operator %q is none of present, absent, eq, in, prefix, contains", op)
	}
	if !o.value(value) {
		return Condition{}, fmt.Errorf("the operator %s takes %s", op, o.want)
	}
	return Condition{At: p, Op: op, Value: value}, nil
}

// Call is what conditions are asked of. Result is nil before there is one.
type Call struct {
	Arguments json.RawMessage
	Result    json.RawMessage
}

// document gives the document that a pointer starts in; there is no result
// before the call ran.
func (c Call) document(p Pointer) (json.RawMessage, bool) {
	if p.Origin == Result {
		return c.Result, c.Result != nil
	}
	return c.Arguments, true
}

// Holds reports whether the condition is true of the call. Of several values
// (the pointer has `*`) each must satisfy it and none may be missing; absent
// holds when nothing at all was found.
func (c Condition) Holds(call Call) bool {
	document, ok := call.document(c.At)
	if !ok {
		return false
	}
	found := c.At.Find(document)
	if found.Doubtful {
		return false
	}
	if c.Op == Absent {
		return len(found.Values) == 0
	}
	if len(found.Values) == 0 || found.Missing > 0 {
		return false
	}
	o, ok := operators[c.Op]
	if !ok {
		return false
	}
	for _, v := range found.Values {
		if !o.holds(v, c.Value) {
			return false
		}
	}
	return true
}

// All reports whether every condition holds.
func All(conditions []Condition, call Call) bool {
	for _, c := range conditions {
		if !c.Holds(call) {
			return false
		}
	}
	return true
}

// String gives the condition as a person writes it, for descriptions.
func (c Condition) String() string {
	if c.Value == nil {
		return c.At.String() + " " + c.Op
	}
	return c.At.String() + " " + c.Op + " " + string(c.Value)
}

// MarshalJSON gives the condition in the form of configuration.
func (c Condition) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At    string          `json:"at"`
		Op    string          `json:"op"`
		Value json.RawMessage `json:"value,omitempty"`
	}{c.At.String(), c.Op, c.Value})
}

func none(v json.RawMessage) bool  { return v == nil }
func some(v json.RawMessage) bool  { return json.Valid(v) }
func aList(v json.RawMessage) bool { return some(v) && kind(v) == '[' && len(shape.Items(v)) > 0 }

func aText(v json.RawMessage) bool {
	s, ok := shape.Text(v)
	return ok && some(v) && s != ""
}

func has(list, v json.RawMessage) bool {
	for _, item := range shape.Items(list) {
		if Equal(item, v) {
			return true
		}
	}
	return false
}

func texts(found, value json.RawMessage, holds func(found, value string) bool) bool {
	f, ok := shape.Text(found)
	v, ok2 := shape.Text(value)
	return ok && ok2 && holds(f, v)
}
