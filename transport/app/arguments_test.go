package app

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// all is a tool with an argument of each kind.
var all = Tool{Name: "all", Params: []Param{
	{Name: "text", Kind: Text}, {Name: "id", Kind: ID}, {Name: "ids", Kind: IDs}, {Name: "count", Kind: Count, Least: 1, Else: 50}, {Name: "limit", Kind: Limit, Least: 1, Most: 100, Else: 25},
	{Name: "offset", Kind: Offset}, {Name: "list", Kind: Texts}, {Name: "words", Kind: TextOrTexts}, {Name: "flag", Kind: Flag},
	{Name: "word", Kind: Word, Words: []string{"one", "two"}, Default: "one"}, {Name: "loose", Kind: Word, Words: []string{"one", "two"}, AnyCase: true},
	{Name: "any", Kind: Any}, {Name: "record", Kind: Record}, {Name: "banned", Refused: "banned is not taken."},
}}

func read(t testing.TB, tool *Tool, arguments string) (*Args, *Problem) {
	t.Helper()
	o, ok := ReadObject(json.RawMessage(arguments))
	if !ok {
		t.Fatalf("no object: %s", arguments)
	}
	return tool.Read(o)
}

func TestWhatAnArgumentAccepts(t *testing.T) {
	huge := strings.Repeat("9", 500)
	tests := []struct {
		name string
		get  func(*Args) any
		want map[string]any // value as JSON -> what is read; nil: refused
	}{
		{"text", func(a *Args) any { return a.Text("text") }, map[string]any{`"x"`: "x", `""`: "", `" y "`: " y ", `"\u00e9"`: "é", `null`: "", `1`: nil, `true`: nil, `[]`: nil}},
		{"id", func(a *Args) any { return a.Text("id") }, map[string]any{`1`: "1", `"12"`: "12", `1.0`: "1", `12e1`: "120", `-4`: "-4", `null`: "", `""`: nil, `1.5`: nil, `"1.0"`: nil, `"x"`: nil, `"-1"`: nil, `true`: nil, `{}`: nil, `1e999`: nil, huge: nil, `"` + huge + `"`: nil, `1e-999`: nil}},
		{"ids", func(a *Args) any { return strings.Join(a.List("ids"), ",") }, map[string]any{`[1,"2"]`: "1,2", `[]`: nil, `1`: nil, `[1.5]`: nil, `[[1]]`: nil, `null`: ""}},
		{"count", func(a *Args) any { return a.Int("count") }, map[string]any{`1`: 1, `"7"`: 7, `null`: 50, `0`: nil, `-1`: nil, `1.5`: nil, `"x"`: nil, huge: nil, `true`: nil}},
		{"limit", func(a *Args) any { return a.Int("limit") }, map[string]any{`1`: 1, `"7"`: 7, `0`: 1, `-9`: 1, `100`: 100, `101`: 100, `1e400`: 100, `12.9`: 12, `"many"`: 25, `true`: 25, `null`: 25, `[5]`: 25, `""`: 25, `"NaN"`: 25, `"0x10"`: 25, `" 5 "`: 5, huge: 100}},
		{"offset", func(a *Args) any { return a.Int("offset") }, map[string]any{`0`: 0, `5`: 5, `"5"`: 5, `-5`: 0, `"x"`: 0, `null`: 0, `1e400`: math.MaxInt32, `{}`: 0}},
		{"list", func(a *Args) any { return strings.Join(a.List("list"), "|") }, map[string]any{`["a","b"]`: "a|b", `[]`: "", `"ab"`: nil, `[1]`: nil, `{}`: nil, `null`: ""}},
		{"words", func(a *Args) any { return strings.Join(a.List("words"), "|") }, map[string]any{`"a b"`: "a b", `["a","b"]`: "a|b", `1`: nil, `[null]`: nil}},
		{"flag", func(a *Args) any { return a.Flag("flag") }, map[string]any{`true`: true, `false`: false, `"TRUE"`: true, `"False"`: false, `null`: false, `1`: nil, `"yes"`: nil, `""`: nil, `" true"`: nil}},
		{"word", func(a *Args) any { return a.Text("word") }, map[string]any{`"two"`: "two", `null`: "one", `"TWO"`: nil, `"three"`: nil, `1`: nil, `""`: nil}},
		{"loose", func(a *Args) any { return a.Text("loose") }, map[string]any{`"TWO"`: "two", `null`: "", `"three"`: nil}},
		{"any", func(a *Args) any { return string(a.Raw("any")) }, map[string]any{`{"a": 1.50}`: `{"a": 1.50}`, `"x"`: `"x"`, `null`: ""}},
		{"record", func(a *Args) any { return string(a.Raw("record")) }, map[string]any{`{"a":1}`: `{"a":1}`, `"x"`: nil, `[]`: nil}},
		{"banned", func(a *Args) any { return a.Given("banned") }, map[string]any{`1`: nil, `""`: nil, `false`: nil, `null`: false}},
	}
	for _, tt := range tests {
		for value, want := range tt.want {
			t.Run(tt.name+" "+value[:min(len(value), 20)], func(t *testing.T) {
				a, problem := read(t, &all, `{"unknown":{"x":1},"`+tt.name+`":`+value+`}`)
				switch {
				case problem != nil && want != nil:
					t.Errorf("refused: %s", problem.JSON())
				case problem != nil:
					if problem.Code != InvalidArgument || problem.Detail["argument"] != tt.name || !strings.Contains(problem.Message, tt.name) {
						t.Errorf("%s", problem.JSON())
					}
				case want == nil:
					t.Errorf("accepted as %v", tt.get(a))
				case tt.get(a) != want:
					t.Errorf("read as %v, want %v", tt.get(a), want)
				}
			})
		}
	}
}

func TestARequiredArgumentIsNotEmpty(t *testing.T) {
	for _, kind := range []Kind{Text, ID, IDs, Texts, TextOrTexts, Word, Any, Record} {
		tool := Tool{Params: []Param{{Name: "x", Kind: kind, Required: true, Words: []string{"a"}}}}
		for _, arguments := range []string{`{}`, `{"x":null}`, `{"x":""}`, `{"x":[]}`, `{"X":1}`} {
			if _, problem := read(t, &tool, arguments); problem == nil || !strings.Contains(problem.Message, "x is required") {
				t.Errorf("%d %s: %v", kind, arguments, problem)
			}
		}
	}
}

func TestOfARepeatedArgumentTheLastCounts(t *testing.T) {
	a, problem := read(t, &all, `{"text":"a","text":"b"}`)
	if problem != nil || a.Text("text") != "b" {
		t.Errorf("%v %v", a, problem)
	}
}

// A limit lies in its bounds and an id is digits, whatever number came.
func TestNumbersStayInTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(
			rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }),
			rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
			rapid.StringMatching(`-?[0-9]{1,30}(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?`),
		).Draw(t, "number")
		quoted := rapid.Bool().Draw(t, "quoted")
		value := raw
		if quoted {
			value = strconv.Quote(raw)
		}
		if !json.Valid([]byte(value)) {
			t.Skip("no JSON")
		}
		o, _ := ReadObject(json.RawMessage(`{"limit":` + value + `,"offset":` + value + `}`))
		a, problem := all.Read(o)
		if problem != nil {
			t.Fatalf("%s: %s", value, problem.JSON())
		}
		if l, off := a.Int("limit"), a.Int("offset"); l < 1 || l > 100 || off < 0 || off > maxOffset {
			t.Fatalf("%s: limit %d, offset %d", value, l, off)
		}
		id, ok := wholeNumber(json.RawMessage(value))
		f, err := strconv.ParseFloat(raw, 64)
		switch {
		case ok && strings.Trim(strings.TrimPrefix(id, "-"), "0123456789") != "":
			t.Fatalf("%s: an id %q", value, id)
		case ok && f != parse(id):
			t.Fatalf("%s became %s", value, id)
		case !ok && !quoted && err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 && len(raw) < maxDigits && !strings.ContainsAny(raw, ".eE"):
			t.Fatalf("%s is whole and was refused", value)
		}
	})
}

func parse(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// FuzzArguments holds the reading of arguments: it refuses by name or gives
// what fits, echoes nothing and does not panic.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"text":"x","id":1,"ids":[1]}`, `{"limit":1e400,"count":"7"}`, `{"list":["a"],"word":"two","flag":"TRUE"}`, `{"record":{"a":{}}}`, `{"id":"\u0031"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := ReadObject(json.RawMessage(text))
		if !ok {
			return
		}
		a, problem := all.Read(o)
		if problem != nil {
			if problem.Code != InvalidArgument || problem.Detail["argument"] == nil || len(problem.JSON()) > 300 {
				t.Errorf("%s: %s", text, problem.JSON())
			}
			return
		}
		if n := a.Int("limit"); n < 1 || n > 100 {
			t.Errorf("%s: limit %d", text, n)
		}
		for _, id := range append(a.List("ids"), a.Text("id")) {
			if strings.Trim(strings.TrimPrefix(id, "-"), "0123456789") != "" || len(id) > maxDigits+2 {
				t.Errorf("%s: id %q", text, id)
			}
		}
		if path := (Endpoint{Path: "/a/{id}/b"}).path(a.Text("id")); strings.Count(path, "/") != 3 {
			t.Errorf("%s: %s", text, path)
		}
		expectation(o, "")
	})
}
