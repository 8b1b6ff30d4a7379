package minimal

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/broker/catalog/catalogtest"
	"berth/broker/catalog/schema"

	"pgregory.net/rapid"
)

func TestCallIsTheSmallestThatFits(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"nothing required", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{}`},
		{"an empty schema", `{}`, `{}`},
		{"a free string is its name", `{"properties":{"path":{"type":"string"}},"required":["path"]}`, `{"path":"<path>"}`},
		{"without a type too", `{"required":["path"]}`, `{"path":"<path>"}`},
		{"const before all", `{"required":["a"],"properties":{"a":{"const":3,"default":4}}}`, `{"a":3}`},
		{"the first of an enum that fits", `{"required":["a"],"properties":{"a":{"enum":["long",7,"b"],"type":"string","maxLength":2}}}`, `{"a":"b"}`},
		{"an example before the default", `{"required":["a"],"properties":{"a":{"type":"string","default":"d","examples":[1,"e"]}}}`, `{"a":"e"}`},
		{"default", `{"required":["a"],"properties":{"a":{"type":"integer","default":10}}}`, `{"a":10}`},
		{"a default that does not fit is none", `{"required":["a"],"properties":{"a":{"type":"integer","default":"10"}}}`, `{"a":0}`},
		{"numbers", `{"required":["a","b","c","d","e"],"properties":{"a":{"type":"integer","minimum":2.5},"b":{"type":"number","exclusiveMinimum":0},"c":{"type":"integer","maximum":-3},
			"d":{"type":"integer","minimum":10,"multipleOf":7},"e":{"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":0.75}}}`, `{"a":3,"b":1,"c":-3,"d":14,"e":0.625}`},
		{"draft 4 limits", `{"$schema":"http://json-schema.org/draft-04/schema#","required":["a"],"properties":{"a":{"type":"integer","minimum":1,"exclusiveMinimum":true}}}`, `{"a":2}`},
		{"lengths", `{"required":["a","path"],"properties":{"a":{"type":"string","minLength":5},"path":{"type":"string","maxLength":2}}}`, `{"a":"xxxxx","path":"x"}`},
		{"an empty string where nothing else fits", `{"required":["a"],"properties":{"a":{"type":"string","maxLength":0}}}`, `{"a":""}`},
		{"formats", `{"required":["at","url"],"properties":{"at":{"type":"string","format":"date-time"},"url":{"type":"string","format":"uri"}}}`, `{"at":"2000-01-01T00:00:00Z","url":"https://example.com/"}`},
		{"patterns", `{"required":["a","b","c"],"properties":{"a":{"type":"string","pattern":"^[A-Z]{2}-\\d+$"},"b":{"type":"string","pattern":"^(?:foo|ba+r)?$","maxLength":4},"c":{"type":"string","pattern":"^\\w+$","minLength":9}}}`,
			`{"a":"XX-0","b":"","c":"xxxxxxxxx"}`},
		{"references", `{"$defs":{"n":{"$ref":"#/$defs/m"},"m":{"type":"integer","minimum":4}},"required":["a"],"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":4}`},
		{"allOf joins limits", `{"required":["a"],"properties":{"a":{"allOf":[{"type":"integer"},{"minimum":4},{"multipleOf":3}]}}}`, `{"a":6}`},
		{"the first branch that validates", `{"required":["a"],"properties":{"a":{"minLength":3,"anyOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^z+$"}]}}}`, `{"a":"zzz"}`},
		{"exactly one branch", `{"required":["a"],"properties":{"a":{"oneOf":[{"type":"string"},{"type":"string","minLength":1},{"type":"integer"}]}}}`, `{"a":""}`},
		{"null is a branch", `{"required":["a"],"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"}]}}}`, `{"a":null}`},
		{"a root with branches", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"anyOf":[{"required":["b"]},{"required":["a"]}]}`, `{"b":0}`},
		{"if, then", `{"required":["k"],"properties":{"k":{"enum":["x"]}},"if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"],"properties":{"v":{"type":"boolean"}}}}`, `{"k":"x","v":false}`},
		{"what one property asks for", `{"required":["a"],"dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"required":["c"],"properties":{"c":{"const":1}}}},"properties":{"a":{"const":1},"b":{"const":2}}}`, `{"a":1,"b":2,"c":1}`},
		{"arrays are as short as they may be", `{"required":["a","b"],"properties":{"a":{"type":"array","items":{"type":"string"}},"b":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer","minimum":1}}},"minItems":1}}}`,
			`{"a":[],"b":[{"id":1}]}`},
		{"no item twice", `{"required":["a","b","c"],"properties":{"a":{"type":"array","items":{"enum":["p","q","r"]},"minItems":2,"uniqueItems":true},"b":{"type":"array","items":{"type":"string"},"minItems":2,"uniqueItems":true},
			"c":{"type":"array","items":{"type":"integer"},"minItems":3,"uniqueItems":true}}}`, `{"a":["p","q"],"b":["<b>","<b>1"],"c":[0,1,2]}`},
		{"places with schemas of their own", `{"required":["a"],"properties":{"a":{"prefixItems":[{"const":1},{"type":"string"}],"items":{"type":"boolean"},"minItems":3}}}`, `{"a":[1,"<a>",false]}`},
		{"contains", `{"required":["a"],"properties":{"a":{"type":"array","contains":{"const":7}}}}`, `{"a":[7]}`},
		{"as many properties as there must be", `{"required":["a"],"properties":{"a":{"type":"object","minProperties":2,"properties":{"z":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}}}`, `{"a":{"key1":false,"z":0}}`},
		{"a pattern of names", `{"required":["x_a"],"patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":false}`, `{"x_a":0}`},
		{"a type list", `{"required":["a"],"properties":{"a":{"type":["null","boolean"]}}}`, `{"a":false}`},
		{"integers over 2^53 are exact", `{"required":["a"],"properties":{"a":{"type":"integer","minimum":9007199254740993}}}`, `{"a":9007199254740993}`},
		{"a recursion that may end", `{"$defs":{"n":{"type":"object","required":["v"],"properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}}}},"required":["n"],"properties":{"n":{"$ref":"#/$defs/n"}}}`, `{"n":{"v":0}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Call(s)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestCallRefusesWithAReason(t *testing.T) {
	tests := []struct{ name, schema, reason string }{
		{"no object", `{"type":"array"}`, "types exclude"},
		{"nothing fits", `{"required":["a"],"properties":{"a":false}}`, "a: its types exclude"},
		{"required and not allowed", `{"required":["a"],"additionalProperties":false}`, "a: it is required and not allowed"},
		{"types that exclude one another", `{"required":["a"],"properties":{"a":{"allOf":[{"type":"string"},{"type":"integer"}]}}}`, "a: its types exclude"},
		{"a pattern of another dialect", `{"required":["a"],"properties":{"a":{"type":"string","pattern":"^(?!x)y"}}}`, "a: its pattern is in a dialect"},
		{"a pattern that its length excludes", `{"required":["a"],"properties":{"a":{"type":"string","pattern":"^aaa$","maxLength":2}}}`, "a: the smallest string"},
		{"a long string", `{"required":["a"],"properties":{"a":{"type":"string","minLength":2000000000}}}`, "more than 1024 characters"},
		{"many items", `{"required":["a"],"properties":{"a":{"type":"array","minItems":2000000000}}}`, "more than 64 items"},
		{"many contained", `{"required":["a"],"properties":{"a":{"type":"array","contains":true,"minContains":2000000000}}}`, "more than 64 items"},
		{"many properties", `{"minProperties":2000000000}`, "more than 64 properties"},
		{"no end", `{"type":"object","required":["n"],"properties":{"n":{"$ref":"#"}}}`, "deeper than 6"},
		{"an enum that does not fit", `{"required":["a"],"properties":{"a":{"enum":[1],"minimum":2}}}`, "none of the values"},
		{"too few that differ", `{"required":["a"],"properties":{"a":{"type":"array","items":{"const":1},"minItems":2,"uniqueItems":true}}}`, "differ"},
		{"not anything", `{"required":["a"],"properties":{"a":{"not":{}}}}`, "a: the smallest"},
		{"too long together", `{"required":["a","b","c","d","e"],"additionalProperties":{"type":"string","minLength":1000}}`, "longer than 4096 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schema.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Call(s)
			var impossible *Impossible
			if !errors.As(err, &impossible) || got != nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestChoicesAreBounded(t *testing.T) {
	// Sixteen choices of ten branches, none of which fits: 10^16 ways.
	branch := `{"type":"string","maxLength":1,"minLength":2}`
	group := `{"anyOf":[` + strings.Repeat(branch+",", 9) + branch + `]}`
	s, err := schema.Compile(json.RawMessage(`{"required":["a"],"properties":{"a":{"allOf":[` + strings.Repeat(group+",", 15) + group + `]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Call(s); got != nil || !errors.Is(err, errSteps) {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestEveryRealVerbHasACall names the verbs of public servers that have none.
func TestEveryRealVerbHasACall(t *testing.T) {
	lists, err := catalogtest.Real()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range append(lists, catalogtest.Generate(2000)...) {
		for _, tool := range list.Tools {
			var entry struct{ InputSchema json.RawMessage }
			if err := json.Unmarshal(tool.Raw, &entry); err != nil {
				t.Fatal(err)
			}
			s, err := schema.Compile(entry.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Call(s); err != nil {
				t.Errorf("%s of %s: %v", tool.Name, list.Backend, err)
			}
		}
	}
}

func TestAnExampleIsJudgedAsACallIs(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"required":["a"],"properties":{"a":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		example string
		ok      bool
	}{{`{"a":1}`, true}, {` {"a":1,"b":2} `, true}, {`{"a":"secret"}`, false}, {`[]`, false}, {``, false}, {`{`, false}, {`{"a":1,"b":"` + strings.Repeat("x", MaxBytes) + `"}`, false}} {
		err := Check(s, json.RawMessage(tt.example))
		if (err == nil) != tt.ok {
			t.Errorf("%.20s: %v", tt.example, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the reason holds the value: %v", err)
		}
	}
}

// judge holds what is true of every schema: a call that fits, or a reason.
func judge(t interface{ Fatalf(string, ...any) }, raw []byte) {
	s, err := schema.Compile(raw)
	if err != nil {
		return
	}
	got, err := Call(s)
	if err != nil {
		var impossible *Impossible
		if !errors.As(err, &impossible) || impossible.Reason == "" || got != nil {
			t.Fatalf("%s: %s, %v", raw, got, err)
		}
		return
	}
	if violations, err := s.Check(got); err != nil || len(violations) > 0 || len(got) > MaxBytes {
		t.Fatalf("%s: %s is not valid: %v, %v", raw, got, violations, err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(got, &object); err != nil {
		t.Fatalf("%s: %s is no object", raw, got)
	}
	again, err := Call(s)
	if err != nil || string(again) != string(got) {
		t.Fatalf("%s: first %s, then %s, %v", raw, got, again, err)
	}
}

func drawSchema(r *rapid.T, depth int) any {
	if depth == 0 {
		return rapid.SampledFrom([]any{true, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"$ref": "#/$defs/a"}, map[string]any{"type": "null"}}).Draw(r, "leaf")
	}
	sub := func() any { return drawSchema(r, depth-1) }
	subs := func() []any {
		out := make([]any, rapid.IntRange(1, 3).Draw(r, "branches"))
		for i := range out {
			out[i] = sub()
		}
		return out
	}
	small := rapid.IntRange(0, 4)
	keyword := map[string]func() any{
		"type": func() any {
			return rapid.SampledFrom([]any{"object", "string", "integer", "number", "array", "boolean", []any{"null", "string"}}).Draw(r, "type")
		},
		"properties":           func() any { return map[string]any{"a": sub(), "b": sub()} },
		"required":             func() any { return rapid.SampledFrom([][]string{{"a"}, {"b", "a"}, {"c"}}).Draw(r, "required") },
		"additionalProperties": func() any { return rapid.SampledFrom([]any{false, true, sub()}).Draw(r, "additional") },
		"patternProperties":    func() any { return map[string]any{"^a": sub()} },
		"minProperties":        func() any { return small.Draw(r, "n") },
		"dependentRequired":    func() any { return map[string]any{"a": []string{"b"}} },
		"anyOf":                func() any { return subs() },
		"oneOf":                func() any { return subs() },
		"allOf":                func() any { return subs() },
		"not":                  sub,
		"if":                   sub,
		"then":                 sub,
		"else":                 sub,
		"$ref":                 func() any { return rapid.SampledFrom([]string{"#/$defs/a", "#/$defs/b", "#"}).Draw(r, "ref") },
		"enum": func() any {
			return []any{rapid.SampledFrom([]any{1, "x", nil, map[string]any{"a": 1}}).Draw(r, "v"), "yy"}
		},
		"const":            func() any { return rapid.SampledFrom([]any{1, "x", nil}).Draw(r, "v") },
		"default":          func() any { return rapid.SampledFrom([]any{1, "x", nil, []any{}}).Draw(r, "v") },
		"examples":         func() any { return []any{rapid.SampledFrom([]any{2, "e", false}).Draw(r, "v")} },
		"minimum":          func() any { return rapid.Float64Range(-9, 9).Draw(r, "n") },
		"exclusiveMaximum": func() any { return rapid.Float64Range(-9, 9).Draw(r, "n") },
		"multipleOf":       func() any { return rapid.SampledFrom([]float64{1, 0.25, 3}).Draw(r, "n") },
		"minLength":        func() any { return small.Draw(r, "n") },
		"maxLength":        func() any { return small.Draw(r, "n") },
		"pattern": func() any {
			return rapid.SampledFrom([]string{"^a+$", "[0-9]{2,3}", "^(x|yz)*$", "\\S"}).Draw(r, "pattern")
		},
		"minItems":    func() any { return small.Draw(r, "n") },
		"items":       sub,
		"prefixItems": func() any { return subs() },
		"contains":    sub,
		"uniqueItems": func() any { return true },
		"unevaluatedProperties": func() any {
			return rapid.SampledFrom([]any{false, true}).Draw(r, "unevaluated")
		},
	}
	out := map[string]any{}
	names := make([]string, 0, len(keyword))
	for name := range keyword {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(r, "keywords") {
		out[name] = keyword[name]()
	}
	return out
}

func TestACallFitsOrIsRefused(t *testing.T) {
	built := 0
	rapid.Check(t, func(r *rapid.T) {
		root := map[string]any{"type": "object", "required": []string{"a"}, "properties": map[string]any{"a": drawSchema(r, 2)}, "$defs": map[string]any{"a": drawSchema(r, 1), "b": drawSchema(r, 0)}}
		raw, err := json.Marshal(root)
		if err != nil {
			r.Fatal(err)
		}
		judge(r, raw)
		if s, err := schema.Compile(raw); err == nil {
			if _, err := Call(s); err == nil {
				built++
			}
		}
	})
	if built == 0 {
		t.Error("every schema was refused")
	}
}

func FuzzCall(f *testing.F) {
	for _, seed := range []string{`{}`, `{"required":["a"],"properties":{"a":{"type":"string","pattern":"^[a-z]{3}$"}}}`, `{"required":["n"],"properties":{"n":{"$ref":"#"}}}`,
		`{"$defs":{"a":{"$dynamicAnchor":"x"}},"required":["a"],"properties":{"a":{"$dynamicRef":"#x"}}}`, `{"default":{"a":1e400},"required":["a"]}`,
		`{"required":["a"],"properties":{"a":{"type":"array","items":{"enum":[1,2]},"minItems":2,"uniqueItems":true}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","required":["a"],"dependencies":{"a":["b"],"b":{"required":["c"]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { judge(t, raw) })
}
