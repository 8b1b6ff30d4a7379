package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/transport/jsonrpc"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func object(t testing.TB, text string) *jsonrpc.Object {
	o, err := jsonrpc.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestRoutingHeadersRepeatTheBody(t *testing.T) {
	encoded := encodedPrefix + base64.StdEncoding.EncodeToString([]byte("näme")) + encodedSuffix
	for _, tt := range []struct {
		name, method, params string
		h                    http.Header
		says                 string // empty: they agree
	}{
		{"method alone", "tools/list", `{}`, headers("mcp-method", "tools/list"), ""},
		{"no method", "tools/list", `{}`, headers(), "Mcp-Method is missing"},
		{"other method", "tools/list", `{}`, headers("Mcp-Method", "prompts/list"), "prompts/list"},
		{"another case is another method", "tools/list", `{}`, headers("Mcp-Method", "TOOLS/LIST"), "TOOLS/LIST"},
		{"two methods", "tools/list", `{}`, headers("Mcp-Method", "tools/list", "Mcp-Method", "tools/call"), "tools/call"},
		{"name", "tools/call", `{"name":"a"}`, headers("Mcp-Method", "tools/call", "Mcp-Name", "a"), ""},
		{"no name", "tools/call", `{"name":"a"}`, headers("Mcp-Method", "tools/call"), "Mcp-Name is missing"},
		{"other name", "prompts/get", `{"name":"a"}`, headers("Mcp-Method", "prompts/get", "Mcp-Name", "b"), "params.name is a"},
		{"uri", "resources/read", `{"uri":"x://y"}`, headers("Mcp-Method", "resources/read", "Mcp-Name", "x://y"), ""},
		{"task", "tasks/get", `{"taskId":"t"}`, headers("Mcp-Method", "tasks/get", "Mcp-Name", "u"), "params.taskId is t"},
		{"wrapped name", "tools/call", `{"name":"n\u00e4me"}`, headers("Mcp-Method", "tools/call", "Mcp-Name", encoded), ""},
		{"two names", "tools/call", `{"name":"a"}`, headers("Mcp-Method", "tools/call", "Mcp-Name", "a", "Mcp-Name", "b"), "a, b"},
		{"a body without a name is another fault", "tools/call", `{"name":5}`, headers("Mcp-Method", "tools/call", "Mcp-Name", "b"), ""},
		{"no name is asked for", "prompts/list", `{"name":"a"}`, headers("Mcp-Method", "prompts/list", "Mcp-Name", "b"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := checkHeaders(tt.h, tt.method, object(t, tt.params))
			if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
				t.Errorf("got %q, want it to say %q", got, tt.says)
			}
		})
	}
}

func TestArgumentHeadersRepeatTheArguments(t *testing.T) {
	const tool = `{"name":"x","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"anything":true}},
		"on":{"type":"boolean","x-mcp-header":"On"},
		"plain":{"type":"string"},"odd":{"x-mcp-header":5}}}}`
	hello := base64.StdEncoding.EncodeToString([]byte("Hello"))
	for _, tt := range []struct {
		name, arguments string
		h               http.Header
		says            string
	}{
		{"nothing", `{}`, headers(), ""},
		{"equal", `{"region":"eu"}`, headers("Mcp-Param-Region", "eu"), ""},
		{"different", `{"region":"eu"}`, headers("Mcp-Param-Region", "us"), "not the argument region"},
		{"missing", `{"region":"eu"}`, headers(), "Mcp-Param-Region is missing"},
		{"given for nothing", `{}`, headers("Mcp-Param-Region", "eu"), "is given, but the argument region is not"},
		{"given for null", `{"region":null}`, headers("Mcp-Param-Region", "eu"), "is not"},
		{"wrapped", `{"region":"Hello"}`, headers("Mcp-Param-Region", "=?base64?"+hello+"?="), ""},
		{"wrapped without padding", `{"region":"Hello"}`, headers("Mcp-Param-Region", "=?base64?SGVsbG8?="), "Base64"},
		{"wrapped with other characters", `{"region":"Hello"}`, headers("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?="), "Base64"},
		{"half a wrapper is a literal", `{"region":"=?base64?` + hello + `"}`, headers("Mcp-Param-Region", "=?base64?"+hello), ""},
		{"deep integer", `{"deep":{"n":7}}`, headers("Mcp-Param-N", "7"), ""},
		{"integers are compared as numbers", `{"deep":{"n":7.0}}`, headers("Mcp-Param-N", "7"), ""},
		{"other integer", `{"deep":{"n":7}}`, headers("Mcp-Param-N", "8"), "deep.n"},
		{"an integer that JavaScript rounds needs no header", `{"deep":{"n":9007199254740993}}`, headers(), ""},
		{"a fraction has no header", `{"deep":{"n":7.5}}`, headers("Mcp-Param-N", "7.5"), "no form as a header"},
		{"an object has no header", `{"region":{}}`, headers("Mcp-Param-Region", "{}"), "no form as a header"},
		{"boolean", `{"on":true}`, headers("Mcp-Param-On", "true"), ""},
		{"boolean as text is no boolean", `{"on":true}`, headers("Mcp-Param-On", "True"), "not the argument on"},
		{"a number is no text", `{"region":"7"}`, headers("Mcp-Param-Region", "7.0"), "not the argument region"},
		{"twice", `{"region":"eu"}`, headers("Mcp-Param-Region", "eu", "Mcp-Param-Region", "us"), "repeated"},
		{"unbound headers do not matter", `{"plain":"a"}`, headers("Mcp-Param-Plain", "b"), ""},
		{"arguments that are none", `[]`, headers("Mcp-Param-Region", "eu"), "is not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for _, b := range bindings(json.RawMessage(tool)) {
				if got = b.check(tt.h, json.RawMessage(tt.arguments)); got != "" {
					break
				}
			}
			if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
				t.Errorf("got %q, want it to say %q", got, tt.says)
			}
		})
	}
}

// Whatever text a client wraps as the rules say arrives as it was.
func TestAnyTextCanTravelInAHeader(t *testing.T) {
	b := binding{path: []string{"a"}, header: "Mcp-Param-A"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		arguments, err := json.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]string
		if err := json.Unmarshal(arguments, &decoded); err != nil {
			t.Fatal(err)
		}
		value := encodedPrefix + base64.StdEncoding.EncodeToString([]byte(decoded["a"])) + encodedSuffix
		if problem := b.check(headers("Mcp-Param-A", value), arguments); problem != "" {
			t.Fatal(problem)
		}
		other := encodedPrefix + base64.StdEncoding.EncodeToString([]byte(decoded["a"]+"x")) + encodedSuffix
		if problem := b.check(headers("Mcp-Param-A", other), arguments); problem == "" {
			t.Fatal("another text was taken for it")
		}
	})
}

// FuzzBindings walks whatever a backend lists as a tool.
func FuzzBindings(f *testing.F) {
	f.Add([]byte(`{"inputSchema":{"properties":{"a":{"x-mcp-header":"A"},"b":true}}}`), []byte(`{"a":"x"}`), "A", "x")
	f.Add([]byte(`{"inputSchema":true}`), []byte(`[]`), "B", "=?base64?!?=")
	f.Add([]byte(strings.Repeat(`{"inputSchema":{"properties":{"properties":`, 50)), []byte(`null`), "", "")
	f.Fuzz(func(t *testing.T, tool, arguments []byte, header, value string) {
		h := http.Header{}
		h.Add(headerParamPrefix+header, value)
		if !json.Valid(arguments) {
			arguments = []byte("{}")
		}
		for _, b := range bindings(tool) {
			_ = b.check(h, arguments)
		}
	})
}
