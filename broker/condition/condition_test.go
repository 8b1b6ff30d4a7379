package condition

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func TestConditionsHold(t *testing.T) {
	const args = `{"dryRun":true,"s":"/srv/a.go","n":1.0,"z":null,"list":["a",{"x":1}],"edits":[{"path":"a","mode":"m"},{"path":"b","mode":"m"}],"some":[{"p":1},{}],"none":[],"a/b":{"~":2},"twice":1,"twice":1,"*":3}`
	tests := []struct {
		at, op, value string
		want          bool
	}{
		{"args:/dryRun", Eq, `true`, true},
		{"args:/dryRun", Eq, `"true"`, false}, // by JSON type
		{"args:/dryRun", Eq, `1`, false},
		{"args:/n", Eq, `1`, true},
		{"args:/n", Eq, `10e-1`, true},
		{"args:/n", Eq, `2`, false},
		{"args:/z", Eq, `null`, true},
		{"args:/z", Present, ``, true},
		{"args:/z", Absent, ``, false},
		{"args:/no", Absent, ``, true},
		{"args:/no", Present, ``, false},
		{"args:/no", Eq, `null`, false}, // an absent argument satisfies only absent
		{"args:/no/deeper", Absent, ``, true},
		{"args:/s", In, `["x","/srv/a.go"]`, true},
		{"args:/s", In, `["x"]`, false},
		{"args:/s", Prefix, `"/srv/"`, true},
		{"args:/s", Prefix, `"srv"`, false},
		{"args:/n", Prefix, `"1"`, false},
		{"args:/s", Contains, `"a.g"`, true},
		{"args:/list", Contains, `{"x":1.0}`, true},
		{"args:/list", Contains, `"b"`, false},
		{"args:/list/0", Eq, `"a"`, true},
		{"args:/list/00", Present, ``, false},
		{"args:/list/2", Absent, ``, true},
		{"args:/edits/*/mode", Eq, `"m"`, true},
		{"args:/edits/*/path", Eq, `"a"`, false}, // each must
		{"args:/some/*/p", Present, ``, false},
		{"args:/some/*/p", Absent, ``, false},
		{"args:/some/*/q", Absent, ``, true},
		{"args:/none/*", Present, ``, false},
		{"args:/none/*", Absent, ``, true},
		{"args:/a~1b/~0", Eq, `2`, true},
		{"args:/*", Present, ``, false}, // for arrays only
		// Readers may disagree about a name that stands twice, so nothing holds.
		{"args:/twice", Eq, `1`, false},
		{"args:/twice", Present, ``, false},
		{"args:/twice", Absent, ``, false},
		{"result:/isError", Absent, ``, false}, // there is no result yet
	}
	for _, tt := range tests {
		c, err := Parse(tt.at, tt.op, raw(tt.value))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Holds(Call{Arguments: raw(args)}); got != tt.want {
			t.Errorf("%s: %v", c, got)
		}
	}
}

func TestADoubtfulDocumentSatisfiesNothing(t *testing.T) {
	for _, args := range []string{`{"a":1`, `{"a":1,"a":2}`, "nope"} {
		for _, op := range []string{Present, Absent} {
			c, _ := Parse("args:/a", op, nil)
			if c.Holds(Call{Arguments: raw(args)}) {
				t.Errorf("%s holds of %s", c, args)
			}
		}
	}
	for _, args := range []string{``, `null`, `{}`, ` { } `, `[]`, `7`} {
		c, _ := Parse("args:/a", Absent, nil)
		if !c.Holds(Call{Arguments: raw(args)}) {
			t.Errorf("%s does not hold of %s", c, args)
		}
	}
}

func TestResultConditionsLookAtTheResult(t *testing.T) {
	c, err := Parse("result:/content/0/text", Contains, raw(`"ENOENT"`))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Holds(Call{Result: raw(`{"content":[{"type":"text","text":"Error: ENOENT: no such file"}],"isError":true}`)}) {
		t.Error("not found")
	}
	if c.Holds(Call{Arguments: raw(`{"content":[{"text":"ENOENT"}]}`), Result: raw(`{"content":[]}`)}) {
		t.Error("found in the arguments")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ at, op, value string }{
		{"/a", Present, ""}, {"args", Present, ""}, {"body:/a", Present, ""}, {"args:a", Present, ""}, {"args:/a~2", Present, ""}, {"args:/a~", Present, ""},
		{"args:/a", "like", `"a"`}, {"args:/a", Present, `1`}, {"args:/a", Absent, `null`}, {"args:/a", Eq, ""}, {"args:/a", Eq, "{"},
		{"args:/a", In, `"a"`}, {"args:/a", In, `[]`}, {"args:/a", Prefix, `1`}, {"args:/a", Prefix, `""`}, {"args:/a", Contains, ""},
	} {
		if c, err := Parse(tt.at, tt.op, raw(tt.value)); err == nil {
			t.Errorf("%s was taken", c)
		}
	}
	if _, err := ParsePointer("x"); !errors.Is(err, ErrPointer) {
		t.Errorf("got %v", err)
	}
}

func TestEqualIsExact(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`9007199254740993`, `9007199254740992`, false}, {`9007199254740993`, `9007199254740993.0`, true}, {`-0`, `0.00`, true}, {`1e2`, `100`, true}, {`0.10`, `1E-1`, true},
		{`1e999999999999`, `1e999999999999`, true}, {`1e999999999999`, `1e999999999998`, false}, {`-1`, `1`, false}, {`100`, `10`, false},
		{`{"a":1,"b":[2]}`, ` { "b" : [ 2.0 ], "a" : 1 } `, true}, {`{"a":1}`, `{"a":1,"b":2}`, false}, {`{"a":1,"a":1}`, `{"a":1}`, false}, {`[1,2]`, `[2,1]`, false},
		{`"\u00e9"`, `"é"`, true}, {`null`, `false`, false}, {`true`, `false`, false},
	} {
		if got := Equal(raw(tt.a), raw(tt.b)); got != tt.want {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
		if got := Equal(raw(tt.b), raw(tt.a)); got != tt.want {
			t.Errorf("%s and %s: %v", tt.b, tt.a, got)
		}
	}
}

func TestPointersAreResolvedAgainstSchemas(t *testing.T) {
	const schema = `{"type":"object","$defs":{"edit":{"type":"object","properties":{"path":{"type":"string"},"next":{"$ref":"#/$defs/edit"}}}},
	 "properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"$ref":"#/$defs/edit"}},"pair":{"prefixItems":[{"properties":{"x":{}}}]},"off":false,
	 "open":{"type":"object"},"map":{"additionalProperties":{"properties":{"v":{}}}},"either":{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]},"loop":{"$ref":"#/properties/loop"}}}`
	for text, want := range map[string]bool{
		"args:/path": true, "args:": true, "args:/nope": false, "args:/path/deeper": false, "args:/edits/*/path": true, "args:/edits/0/next/next/path": true,
		"args:/edits/path": false, "args:/pair/0/x": true, "args:/open/x": false, "args:/map/any/v": true, "args:/map/any/w": false,
		"args:/either/a": true, "args:/either/b": true, "args:/either/c": false, "args:/off": false, "args:/loop/x": false,
	} {
		p, err := ParsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.InSchema(raw(schema)); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if p.InSchema(raw(`{`)) || p.InSchema(nil) {
			t.Errorf("%s is found in no schema", text)
		}
	}
	for text, want := range map[string]bool{
		"result:/content/0/text": true, "result:/content/*/text": true, "result:/content/x": false, "result:/structuredContent/path": true, "result:/structuredContent/no": false,
		"result:/isError": true, "result:/_meta/etag": true, "result:/path": false, "result:": false,
	} {
		p, _ := ParsePointer(text)
		if got := p.InResult(raw(schema)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestFindAgreesWithADecoder compares with the plain way: decode and walk.
func TestFindAgreesWithADecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(t, 3)
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "spaced") {
			var out bytes.Buffer
			if json.Indent(&out, doc, "", " ") == nil {
				doc = out.Bytes()
			}
		}
		tokens := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "0", "1", Each}), 0, 3).Draw(t, "tokens")
		got := Pointer{Origin: Arguments, Tokens: tokens}.Find(doc)
		if v == nil {
			return // an absent document is the empty object
		}
		want, missing := plain(v, tokens)
		if len(got.Values) != len(want) || got.Missing != missing || got.Doubtful {
			t.Fatalf("%s at %v: found %d, missing %d; want %d, %d", doc, tokens, len(got.Values), got.Missing, len(want), missing)
		}
		for i, w := range want {
			text, _ := json.Marshal(w)
			if !Equal(got.Values[i], text) {
				t.Fatalf("%s at %v: %s, want %s", doc, tokens, got.Values[i], text)
			}
		}
	})
}

func plain(v any, tokens []string) (found []any, missing int) {
	if len(tokens) == 0 {
		return []any{v}, 0
	}
	switch v := v.(type) {
	case map[string]any:
		if w, ok := v[tokens[0]]; ok {
			return plain(w, tokens[1:])
		}
	case []any:
		if tokens[0] == Each {
			for _, w := range v {
				f, m := plain(w, tokens[1:])
				found, missing = append(found, f...), missing+m
			}
			return found, missing
		}
		if i, ok := index(tokens[0]); ok && i < len(v) {
			return plain(v[i], tokens[1:])
		}
	}
	return nil, 1
}

func value(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.SampledFrom([]string{"", "a]}", `\"`, "é,["}).Draw(t, "text")
	case 2:
		return rapid.Float64Range(-9, 9).Draw(t, "number")
	case 3:
		return rapid.Bool().Draw(t, "flag")
	case 4:
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			out = append(out, value(t, depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "size") {
		out[rapid.SampledFrom([]string{"a", "b", "0"}).Draw(t, "name")] = value(t, depth-1)
	}
	return out
}

func FuzzFind(f *testing.F) {
	f.Add("args:/a/*/b", `{"a":[{"b":1},{}]}`)
	f.Add("result:/content/0", `{"content":[]}`)
	f.Add("args:/a", `{"a":1,"a":2}`)
	f.Fuzz(func(t *testing.T, pointer, document string) {
		p, err := ParsePointer(pointer)
		if err != nil {
			return
		}
		found := p.Find(raw(document))
		for _, v := range found.Values {
			if !found.Doubtful && json.Valid([]byte(document)) && !json.Valid(v) {
				t.Fatalf("%q of %q is no JSON", v, document)
			}
		}
		p.InSchema(raw(document))
		p.InResult(raw(document))
	})
}
