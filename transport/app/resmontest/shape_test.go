package resmontest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// shape is what was seen at each path of a document.
type shape struct {
	types map[string]map[string]bool
	keys  map[string]*keySet
}

// keySet are the keys of the objects at one path.
type keySet struct{ ever, always map[string]bool }

func shapeOf(t *testing.T, text []byte) shape {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	s := shape{map[string]map[string]bool{}, map[string]*keySet{}}
	s.see("", v)
	return s
}

func (s shape) see(path string, v any) {
	kind := "null"
	switch v := v.(type) {
	case bool:
		kind = "bool"
	case string:
		kind = "string"
	case json.Number:
		kind = "int"
		if strings.ContainsAny(v.String(), ".eE") {
			kind = "float"
		}
	case []any:
		kind = "array"
		for _, e := range v {
			s.see(path+"[]", e)
		}
	case object:
		kind = "object"
		if slices.Contains(dictionaries, path) {
			for _, e := range v {
				s.see(path+".*", e)
			}
			break
		}
		set := s.keys[path]
		if set == nil {
			set = &keySet{map[string]bool{}, map[string]bool{}}
			for k := range v {
				set.always[k] = true
			}
			s.keys[path] = set
		}
		for k := range set.always {
			if _, there := v[k]; !there {
				delete(set.always, k)
			}
		}
		for k, e := range v {
			set.ever[k] = true
			s.see(path+"."+k, e)
		}
	}
	if s.types[path] == nil {
		s.types[path] = map[string]bool{}
	}
	s.types[path][kind] = true
}

// sameShape compares keys, types and nesting. Null goes with every type: what
// was null in a capture may have a value, and where a capture has a value some
// answer of the fake must have one of the same type.
func sameShape(t *testing.T, route string, got, want []byte, used map[string]bool) {
	t.Helper()
	g, w := shapeOf(t, got), shapeOf(t, want)
	for path, types := range w.types {
		for kind := range types {
			if kind != "null" && !g.types[path][kind] {
				t.Errorf("%s is %v, in the capture %s", path, slices.Sorted(maps.Keys(g.types[path])), kind)
			}
		}
		for kind := range g.types[path] {
			if kind != "null" && !types[kind] && !(len(types) == 1 && types["null"]) {
				t.Errorf("%s is also %s, in the capture %v", path, kind, slices.Sorted(maps.Keys(types)))
			}
		}
	}
	for path, set := range w.keys {
		have := g.keys[path]
		if have == nil {
			continue // its type was complained about
		}
		for key := range set.always {
			if !have.always[key] {
				t.Errorf("%s.%s is missing", path, key)
			}
		}
		for key := range have.ever {
			if set.ever[key] {
				continue
			}
			if !added(route, path+"."+key, used) {
				t.Errorf("%s.%s is in no capture and not among the additions of %s", path, key, route)
			}
		}
	}
}

func added(route, key string, used map[string]bool) bool {
	for _, a := range additions {
		if a.route == route && slices.Contains(a.keys, key) {
			used[route+" "+key] = true
			return true
		}
	}
	return false
}

// The comparison itself: each pair of documents must be told apart, or not.
func TestShapesThatDifferAreFound(t *testing.T) {
	tests := []struct {
		name, got, want string
		same            bool
	}{
		{"the same", `{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, true},
		{"a value for a null", `{"a":"x"}`, `{"a":null}`, true},
		{"a null for every value", `{"a":null}`, `{"a":"x"}`, false},
		{"another type", `{"a":"1"}`, `{"a":1}`, false},
		{"a whole number for a fraction", `{"a":1}`, `{"a":1.0}`, false},
		{"a key less", `{}`, `{"a":1}`, false},
		{"a key more", `{"a":1,"b":1}`, `{"a":1}`, false},
		{"a key less in one row", `[{"a":1},{}]`, `[{"a":1}]`, false},
		{"no rows for rows", `[]`, `[{"a":1}]`, false},
		{"an object for an array", `{"a":{}}`, `{"a":[]}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			probe := &testing.T{}
			sameShape(probe, "", []byte(tt.got), []byte(tt.want), map[string]bool{})
			if probe.Failed() == tt.same {
				t.Errorf("found a difference: %v, want %v", probe.Failed(), !tt.same)
			}
		})
	}
}
