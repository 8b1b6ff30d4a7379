package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/transport/jsonrpc"
)

func TestABackendMayAskOnlyWhatTheClientDeclared(t *testing.T) {
	const (
		none = 0
		no   = jsonrpc.CodeMethodNotFound
		form = jsonrpc.CodeInvalidParams
	)
	for _, c := range []struct {
		capabilities, method, params string
		want                         int
	}{
		{``, "sampling/createMessage", `{}`, no},
		{`{}`, "sampling/createMessage", `{}`, no},
		{`{"sampling":null}`, "sampling/createMessage", `{}`, no},
		{`{"sampling":{}}`, "sampling/createMessage", ``, none},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, form},
		{`{"sampling":{}}`, "sampling/createMessage", `{"toolChoice":{}}`, form},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[]}`, none},
		{`{}`, "elicitation/create", `{}`, no},
		{`{"elicitation":{}}`, "elicitation/create", `{}`, none},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"form"}`, none},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, form},
		{`{"elicitation":{"form":{}}}`, "elicitation/create", `{"mode":"url"}`, form},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, form},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, none},
		{`{"elicitation":{"url":{},"form":{}}}`, "elicitation/create", ``, none},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"of-tomorrow"}`, none},
		{`{"roots":{"listChanged":true}}`, "roots/list", ``, none},
		{`{"sampling":{}}`, "roots/list", ``, no},
		{`{}`, "tasks/get", `{}`, no},
		{`{"tasks":{}}`, "tasks/get", `{}`, none},
		{`{}`, "ping", ``, none},
		{`{}`, "own/method", `{}`, none},
	} {
		problem := undeclared(json.RawMessage(c.capabilities), c.method, json.RawMessage(c.params))
		if got := 0; problem != nil {
			got = problem.Code
			if got != c.want || !strings.Contains(problem.Message, "did not declare") {
				t.Errorf("%+v: %+v", c, problem)
			}
		} else if c.want != none {
			t.Errorf("%+v: allowed", c)
		}
	}
}

func TestLongCapabilitiesKeepWhatDecidesWhatMayBeAsked(t *testing.T) {
	long := `"x":"` + strings.Repeat("y", maxCapabilities) + `"`
	for in, want := range map[string]string{
		`{"x":1}`:                       `{"x":1}`,
		`{"roots":{},` + long + `}`:     `{"roots":{}}`,
		`{` + long + `}`:                ``,
		`{"sampling":{` + long + `}}`:   ``,
		`{` + long + `,"sampling":{}}}`: ``,
	} {
		if got := kept(json.RawMessage(in)); string(got) != want {
			t.Errorf("%.40s: %s", in, got)
		}
	}
}

func TestAnExactProfileHasItsBackendsCapabilities(t *testing.T) {
	for in, want := range map[string]string{
		``:                          `{"tools":{"listChanged":true}}`,
		`{}`:                        `{}`,
		`{"logging":{},"tools":{}}`: `{"logging":{},"tools":{"listChanged":true}}`,
		`{ "tools":{"listChanged":true}, "own":1.0 }`:            `{ "tools":{"listChanged":true}, "own":1.0 }`,
		`{"tools":{"listChanged":false,"own":1.0},"prompts":{}}`: `{"tools":{"listChanged":true,"own":1.0},"prompts":{}}`,
		`{"resources":{"subscribe":true},"tasks":{"list":{}}}`:   `{"resources":{"subscribe":true}}`,
	} {
		if got := exactCapabilities(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// FuzzRelayedParams checks that what is relayed is what came, less the keys of
// this hop.
func FuzzRelayedParams(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"_meta":{"progressToken":1,"b":12345678901234567890}}`, `{"_meta":{"berth/x":1}}`, `{"_meta":null}`, `[]`, `{"a":1,"a":2,"_meta":{},"_meta":{"progressToken":2}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, problem := readRelayed(raw)
		if problem != "" {
			return
		}
		in, err := jsonrpc.ParseObject(raw)
		if err != nil {
			t.Fatal("accepted what is no object")
		}
		out, err := jsonrpc.ParseObject(h.params)
		if err != nil {
			t.Fatalf("%s is no object", h.params)
		}
		for _, m := range in.Members() {
			if m.Name == "_meta" {
				continue
			}
			want, _ := in.Get(m.Name)
			if got, ok := out.Get(m.Name); !ok || string(got) != string(want) {
				t.Fatalf("%q: %s became %s", m.Name, want, got)
			}
		}
		before, _ := in.Get("_meta")
		after, _ := out.Get("_meta")
		was, err := jsonrpc.ParseObject(before)
		if err != nil {
			return
		}
		is, err := jsonrpc.ParseObject(after)
		for _, m := range was.Members() {
			if hopKey(m.Name) {
				continue
			}
			want, _ := was.Get(m.Name)
			if err != nil {
				t.Fatalf("_meta %s became %s", before, after)
			}
			if got, _ := is.Get(m.Name); string(got) != string(want) {
				t.Fatalf("%q: %s became %s", m.Name, want, got)
			}
		}
		if err == nil {
			for _, m := range is.Members() {
				if hopKey(m.Name) {
					t.Fatalf("%q was relayed", m.Name)
				}
			}
		}
	})
}
