package resmontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// What resmon accepts is checked by the library that it is written with; these
// are the kinds of its models and the errors of that library.
type kind int

const (
	text kind = iota
	whole
	flag
	texts
	wholes
	dict
	dicts
)

// field is one line of a request model.
type field struct {
	name     string
	kind     kind
	required bool
	nullable bool
}

// invalid is one entry of a 422 answer.
type invalid struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
	Ctx   object `json:"ctx,omitempty"`
}

func unprocessable(list ...invalid) answer {
	return encoded(http.StatusUnprocessableEntity, object{"detail": list})
}

// read decodes a body by a model. A non-nil second result is the refusal.
func read(body []byte, model []field) (object, *answer) {
	refuse := func(list ...invalid) (object, *answer) {
		a := unprocessable(list...)
		return nil, &a
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return refuse(invalid{Type: "missing", Loc: []any{"body"}, Msg: "Field required"})
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return refuse(invalid{Type: "json_invalid", Loc: []any{"body", dec.InputOffset()}, Msg: "JSON decode error", Input: object{},
			Ctx: object{"error": "Expecting value"}})
	}
	given, isObject := v.(object)
	if !isObject {
		return refuse(invalid{Type: "model_attributes_type", Loc: []any{"body"},
			Msg: "Input should be a valid dictionary or object to extract fields from", Input: v})
	}
	out, bad := object{}, []invalid{}
	for _, f := range model {
		value, there := given[f.name]
		switch {
		case !there && f.required:
			bad = append(bad, invalid{Type: "missing", Loc: []any{"body", f.name}, Msg: "Field required", Input: given})
		case !there, value == nil && f.nullable:
		default:
			converted, wrong := convert(f.kind, value, []any{"body", f.name})
			bad = append(bad, wrong...)
			out[f.name] = converted
		}
	}
	if len(bad) > 0 {
		return refuse(bad...)
	}
	return out, nil
}

func convert(k kind, v any, loc []any) (any, []invalid) {
	wrong := func(kind, msg string) (any, []invalid) {
		return nil, []invalid{{Type: kind, Loc: loc, Msg: msg, Input: v}}
	}
	switch k {
	case text:
		if s, is := v.(string); is {
			return s, nil
		}
		return wrong("string_type", "Input should be a valid string")
	case whole:
		return convertWhole(v, loc)
	case flag:
		if b, is := truth(v); is {
			return b, nil
		}
		if _, is := v.(string); is {
			return wrong("bool_parsing", "Input should be a valid boolean, unable to interpret input")
		}
		return wrong("bool_type", "Input should be a valid boolean")
	case dict:
		if m, is := v.(object); is {
			return m, nil
		}
		return wrong("dict_type", "Input should be a valid dictionary")
	}
	list, is := v.([]any)
	if !is {
		return wrong("list_type", "Input should be a valid list")
	}
	element := map[kind]kind{texts: text, wholes: whole, dicts: dict}[k]
	var bad []invalid
	out := make([]any, 0, len(list))
	for i, e := range list {
		c, errs := convert(element, e, append(slices.Clone(loc), i))
		bad = append(bad, errs...)
		out = append(out, c)
	}
	return out, bad
}

func convertWhole(v any, loc []any) (any, []invalid) {
	one := func(kind, msg string) (any, []invalid) {
		return nil, []invalid{{Type: kind, Loc: loc, Msg: msg, Input: v}}
	}
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), nil
		}
		return one("int_from_float", "Input should be a valid integer, got a number with a fractional part")
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return n, nil
		}
		return one("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return one("int_type", "Input should be a valid integer")
}

func truth(v any) (value, is bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case json.Number:
		return v.String() == "1", v.String() == "1" || v.String() == "0"
	case string:
		switch strings.ToLower(v) {
		case "true", "1", "t", "y", "yes", "on":
			return true, true
		case "false", "0", "f", "n", "no", "off":
			return false, true
		}
	}
	return false, false
}

func str(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func number(o object, key string, otherwise int64) int64 {
	if n, is := o[key].(int64); is {
		return n
	}
	return otherwise
}

func list(o object, key string) []string {
	var out []string
	values, _ := o[key].([]any)
	for _, v := range values {
		if s, is := v.(string); is {
			out = append(out, s)
		}
	}
	return out
}

// bound reads a whole number of the query, between low and high.
func bound(r *request, name string, otherwise, low, high int64) (int64, *answer) {
	given := r.query.Get(name)
	if !r.query.Has(name) {
		return otherwise, nil
	}
	loc := []any{"query", name}
	n, err := strconv.ParseInt(given, 10, 64)
	var bad invalid
	switch {
	case err != nil:
		bad = invalid{Type: "int_parsing", Loc: loc, Msg: "Input should be a valid integer, unable to parse string as an integer", Input: given}
	case n < low:
		bad = invalid{Type: "greater_than_equal", Loc: loc, Msg: fmt.Sprintf("Input should be greater than or equal to %d", low), Input: given, Ctx: object{"ge": low}}
	case n > high:
		bad = invalid{Type: "less_than_equal", Loc: loc, Msg: fmt.Sprintf("Input should be less than or equal to %d", high), Input: given, Ctx: object{"le": high}}
	default:
		return n, nil
	}
	a := unprocessable(bad)
	return 0, &a
}
