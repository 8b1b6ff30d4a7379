package schema

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"berth/broker"
)

func compile(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return s
}

func TestCheckNamesPlaceRuleAndWish(t *testing.T) {
	const big = `{"type":"object","properties":{
		"path":{"type":"string","minLength":2,"pattern":"^/"},
		"n":{"type":"integer","minimum":1,"maximum":9007199254740993},
		"mode":{"enum":["fast","slow"]},
		"either":{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]},
		"list":{"type":"array","items":{"type":"object","properties":{"a/b":{"type":"boolean"}}}}
	},"required":["path"],"additionalProperties":false}`
	tests := []struct {
		name, args string
		want       []Violation
	}{
		{"fits", `{"path":"/a","n":3,"mode":"fast"}`, nil},
		{"absent is the empty object", ``, []Violation{{"/path", "required", "a value"}}},
		{"null is the empty object", ` null `, []Violation{{"/path", "required", "a value"}}},
		{"type", `{"path":7}`, []Violation{{"/path", "type", "string"}}},
		{"two rules of one value", `{"path":"x"}`, []Violation{{"/path", "minLength", "at least 2 characters"}, {"/path", "pattern", "text that matches ^/"}}},
		{"enum", `{"path":"/a","mode":"hunter2"}`, []Violation{{"/mode", "enum", `one of ["fast","slow"]`}}},
		{"unknown property", `{"path":"/a","pth":1}`, []Violation{{"/pth", "additionalProperties", "no such property"}}},
		{"a choice is one violation", `{"path":"/a","either":{"y":1}}`, []Violation{{"/either", "anyOf", "a value that fits at least one of the alternatives"}}},
		{"pointer is escaped", `{"path":"/a","list":[{"a/b":1}]}`, []Violation{{"/list/0/a~1b", "type", "boolean"}}},
		{"integers over 2^53 are exact, inside", `{"path":"/a","n":9007199254740993}`, nil},
		{"integers over 2^53 are exact, outside", `{"path":"/a","n":9007199254740994}`, []Violation{{"/n", "maximum", "at most 9007199254740993"}}},
		{"five at most", `{"path":"/a","a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`, []Violation{
			{"/a", "additionalProperties", "no such property"}, {"/b", "additionalProperties", "no such property"}, {"/c", "additionalProperties", "no such property"},
			{"/d", "additionalProperties", "no such property"}, {"/e", "additionalProperties", "no such property"}}},
	}
	s := compile(t, big)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Check(json.RawMessage(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("violation %d: got %v, want %v", i, got[i], tt.want[i])
				}
			}
			if strings.Contains(string(must(t, got)), "hunter2") {
				t.Error("a violation repeats a value")
			}
		})
	}
}

func must(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCompileRefusesWhatItCannotUse(t *testing.T) {
	tests := []struct {
		name, raw string
		remote    bool
	}{
		{"no JSON", `{`, false},
		{"no object", `true`, false},
		{"reference to another host", `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`, true},
		{"reference to a file", `{"$ref":"file:///etc/hostname"}`, true},
		{"reference to a neighbour", `{"$ref":"other.json"}`, true},
		{"reference that is spelled with an escape", `{"$re\u0066":"https://example.com/a.json"}`, true},
		{"reference that moves", `{"$dynamicRef":"https://example.com/a.json"}`, true},
		{"reference to nothing", `{"$ref":"#/$defs/none"}`, false},
		{"unknown dialect", `{"$schema":"https://example.com/dialect","type":"object"}`, false},
		{"malformed keyword", `{"type":"object","required":"path"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(json.RawMessage(tt.raw))
			if err == nil {
				t.Fatal("compiled")
			}
			if errors.Is(err, ErrRemote) != tt.remote || errors.Is(err, ErrDialect) != (tt.name == "unknown dialect") {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, whole := range []string{
		`{"type":"object","properties":{"$ref":{"type":"string"}},"default":{"$ref":"https://example.com/a.json"}}`,
		`{"$id":"https://example.com/a","$defs":{"b":{"$id":"b","type":"string"}},"properties":{"x":{"$ref":"https://example.com/b"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"x":{"$ref":"#/definitions/b"}},"definitions":{"b":{}}}`,
		`{"properties":{"schema":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`,
	} {
		if _, err := Compile(json.RawMessage(whole)); err != nil {
			t.Errorf("%s: %v", whole, err)
		}
	}
	if _, err := Compile(json.RawMessage(`[]`)); !errors.Is(err, ErrNotObject) {
		t.Errorf("got %v, want ErrNotObject", err)
	}
}

func TestLocalReferencesAndEveryDialectAreFollowed(t *testing.T) {
	for _, dialect := range []string{"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"} {
		s := compile(t, `{"$schema":"`+dialect+`","type":"object","properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":"integer"}}}`)
		got, err := s.Check(json.RawMessage(`{"a":"x"}`))
		if err != nil || len(got) != 1 || got[0].Pointer != "/a" {
			t.Errorf("%s: got %v, %v", dialect, got, err)
		}
	}
}

func TestFormatsAndForeignPatternsAreLeftToTheBackend(t *testing.T) {
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"mail":{"type":"string","format":"email"},"look":{"type":"string","pattern":"^(?!x)"},"n":{"type":"integer"}}}`)
	if got, err := s.Check(json.RawMessage(`{"mail":"no mail","look":"x"}`)); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want no violation", got, err)
	}
	if got, _ := s.Check(json.RawMessage(`{"n":"x"}`)); len(got) != 1 {
		t.Errorf("the rest of the schema does not count: %v", got)
	}
}

func TestAHugeNumberIsNotComputed(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"n":{"type":"array","items":{"type":"integer"}}}}`)
	for _, n := range []string{"1e999999", "1E-999999", "1e99999999999999999999"} {
		if _, err := s.Check(json.RawMessage(`{"n":[` + n + `]}`)); !errors.Is(err, ErrUncheckable) {
			t.Errorf("%s: got %v, want ErrUncheckable", n, err)
		}
	}
	if got, err := s.Check(json.RawMessage(`{"n":[1e3]}`)); err != nil || len(got) != 0 {
		t.Errorf("1e3: got %v, %v", got, err)
	}
}

const nativeSchema = `{"type":"object","properties":{"jobId":{"type":"string"},"title":{"type":"string"},"note":{"type":"string"},"clear":{"type":"string","emptyStringClears":true},
	"yes":{"type":"boolean"},"n":{"type":"integer"},"x":{"type":"number"},"both":{"type":["string","integer"]},"maybe":{"type":["integer","null"]}},"required":["jobId"]}`

func TestNormaliseFollowsTheNativeRules(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"absent", ``, `{}`},
		{"null", `null`, `{}`},
		{"nothing to do keeps the bytes", `{ "jobId" : "a\u0062" }`, `{ "jobId" : "a\u0062" }`},
		{"empty optional is dropped", `{"jobId":"a","note":"","n":""}`, `{"jobId":"a"}`},
		{"empty required stays", `{"jobId":""}`, `{"jobId":""}`},
		{"empty clears where the schema says so", `{"clear":""}`, `{"clear":""}`},
		{"unknown property stays", `{"zz":""}`, `{"zz":""}`},
		{"booleans", `{"yes":" True "}`, `{"yes":true}`},
		{"integers keep every digit", `{"n":"9007199254740993"}`, `{"n":9007199254740993}`},
		{"numbers", `{"x":"-1.50e3"}`, `{"x":-1.50e3}`},
		{"a list of types", `{"maybe":"4"}`, `{"maybe":4}`},
		{"a possible string stays", `{"both":"4"}`, `{"both":"4"}`},
		{"what does not convert stays", `{"n":"1.5","yes":"ja","x":"0x1"}`, `{"n":"1.5","yes":"ja","x":"0x1"}`},
		{"order and spelling of the rest are kept", `{"zz":1.0, "n":"1", "note":"\u00e9"}`, `{"zz":1.0,"n":1,"note":"\u00e9"}`},
		{"no object stays", `[1]`, `[1]`},
	}
	s := compile(t, nativeSchema)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.Normalise(json.RawMessage(tt.args))
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if again := s.Normalise(got); string(again) != string(got) {
				t.Errorf("a second time: got %s, want %s", again, got)
			}
		})
	}
}

func TestNativeRefusalUsesTheVerbsOwnCode(t *testing.T) {
	tests := []struct {
		name, args string
		want       broker.Code
		part       string
	}{
		{"fits", `{"jobId":"a","extra":1}`, "", ""},
		{"missing", `{}`, broker.CodeMissingJobID, "jobId"},
		{"blank", `{"jobId":" \t"}`, broker.CodeMissingJobID, "jobId"},
		{"null", `{"jobId":null}`, broker.CodeMissingJobID, "jobId"},
		{"wrong type", `{"jobId":7}`, broker.CodeInvalidArguments, `"Path":"/jobId","Problem":"type: wanted string"`},
		{"does not convert", `{"jobId":"a","n":"many"}`, broker.CodeInvalidArguments, `"Path":"/n"`},
		{"no object", `[]`, broker.CodeInvalidArguments, `"Path":""`},
		{"cannot be judged", `{"jobId":"a","n":1e999999}`, broker.CodeInvalidArguments, `"Violations"`},
	}
	s := compile(t, nativeSchema)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.NativeRefusal(json.RawMessage(tt.args))
			if tt.want == "" {
				if got != nil {
					t.Fatalf("got %v, want none", got)
				}
				return
			}
			if got == nil || got.Code != tt.want {
				t.Fatalf("got %v, want %s", got, tt.want)
			}
			if body := string(got.NativeJSON()); !strings.Contains(body, tt.part) || strings.Contains(body, "many") {
				t.Errorf("body %s", body)
			}
		})
	}
	other := compile(t, `{"type":"object","properties":{"colour":{"type":"string"}},"required":["colour"]}`)
	if got := other.NativeRefusal(nil); got == nil || got.Code != broker.CodeInvalidArguments {
		t.Errorf("a property without a code of its own: got %v", got)
	}
}

// FuzzArguments holds that nothing panics, that normalising twice is
// normalising once, and that it leaves JSON behind.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"jobId":"a"}`, `{"n":"1","n":"2"}`, `{"clear":"","yes":"TRUE"}`, "{\"note\":\"\xff\"}", `{"x":"1e5"`, `{"maybe":{"a":[1e5]}}`} {
		f.Add(nativeSchema, seed)
	}
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(`{"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, raw, args string) {
		s, err := Compile(json.RawMessage(raw))
		if err != nil {
			return
		}
		once := s.Normalise(json.RawMessage(args))
		if twice := s.Normalise(once); string(twice) != string(once) {
			t.Errorf("normalised %q, then %q", once, twice)
		}
		if json.Valid([]byte(args)) && !json.Valid(once) {
			t.Errorf("%q became %q", args, once)
		}
		if got, _ := s.Check(once); len(got) > MaxViolations {
			t.Errorf("%d violations", len(got))
		}
		s.NativeRefusal(once)
	})
}

func TestAFormatIsNoRule(t *testing.T) {
	for _, format := range append([]string{"regex", "unheard-of"}, formatNames...) {
		for _, dialect := range []string{"", `"$schema":"http://json-schema.org/draft-07/schema#",`} {
			s := compile(t, `{`+dialect+`"properties":{"a":{"type":"string","format":"`+format+`"}}}`)
			if got, err := s.Check(json.RawMessage(`{"a":"( no such thing \u0000"}`)); err != nil || len(got) > 0 {
				t.Errorf("%s %s: %v, %v", dialect, format, got, err)
			}
		}
	}
}

func TestACacheCompilesATextOnceAndForgetsWhatIsNotAskedFor(t *testing.T) {
	c := &Cache{}
	raw := json.RawMessage(`{"type":"object"}`)
	first, err := c.Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * cacheSchemas {
		if _, err := c.Compile(json.RawMessage(`[` + strconv.Itoa(i) + `]`)); !errors.Is(err, ErrNotObject) {
			t.Fatal(err)
		}
		if i%(cacheSchemas/2) != 0 {
			continue
		}
		if again, _ := c.Compile(raw); again != first {
			t.Fatal("what is asked for is compiled again")
		}
	}
	if n := len(c.now) + len(c.old); n > 2*cacheSchemas {
		t.Errorf("%d schemas are kept", n)
	}
	for range 2 {
		if _, err := c.Compile(json.RawMessage(`"` + strings.Repeat("x", cacheBytes) + `"`)); err == nil {
			t.Fatal("compiled")
		}
	}
	if c.bytes > cacheBytes+2 || len(c.now) != 1 {
		t.Errorf("%d bytes and %d schemas are kept", c.bytes, len(c.now))
	}
	var none *Cache
	if s, err := none.Compile(raw); s == nil || err != nil {
		t.Error(err)
	}
}

// The compiler takes time by the square of what is in a schema: one of 30,000
// properties took more than a minute.
func TestASchemaThatIsTooLargeIsNotCompiled(t *testing.T) {
	wide := func(properties int, also string) string {
		var b strings.Builder
		b.WriteString(`{"type":"object","properties":{` + also + `"p":{}`)
		for i := range properties {
			b.WriteString(`,"p` + strconv.Itoa(i) + `":{}`)
		}
		return b.String() + `}}`
	}
	deep := func(levels int) string {
		return strings.Repeat(`{"items":`, levels) + `{}` + strings.Repeat(`}`, levels)
	}
	for name, tt := range map[string]struct {
		raw  string
		want error
	}{
		"many properties":             {wide(1900, ""), nil},
		"too many":                    {wide(30_000, ""), ErrTooLarge},
		"deep":                        {deep(100), nil},
		"too deep":                    {deep(5_000), ErrTooLarge},
		"too many, and one elsewhere": {wide(30_000, `"a":{"$ref":"https://example.com/a.json"},`), ErrRemote},
		"too many, and one inside":    {wide(30_000, `"a":{"$ref":"#/properties/p"},`), ErrTooLarge},
	} {
		if _, err := Compile(json.RawMessage(tt.raw)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
