package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// headed is a tool with an argument that travels in a header too.
const headed = `{"name":"headed","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`

// rpc is a request of the stateless era with the given params.
func rpc(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// whole are the members of a right `_meta`.
var whole = strings.Join(eraMembers, ",")

// withMeta is a call of t with a `_meta` of the test's.
func withMeta(meta string) string { return rpc("tools/call", `{"name":"t","_meta":`+meta+`}`) }

// asks is a request with a right `_meta`.
func asks(method, members string) string {
	if members != "" {
		members += ","
	}
	return rpc(method, "{"+members+`"_meta":{`+whole+"}}")
}

func set(name string, values ...string) func(http.Header) {
	return func(h http.Header) { h[http.CanonicalHeaderKey(name)] = values }
}

// What is wrong with a request of the stateless era, and what its client hears.
// The headers repeat the body, but for what change does to them.
var statelessRequests = []struct {
	wrong
	change func(http.Header)
}{
	{wrong{"an unknown method", asks("no/such", ""), 404, -32601, "1"}, nil},
	{wrong{"a method of the other era: ping", asks("ping", ""), 404, -32601, "1"}, nil},
	{wrong{"a method of the other era: initialize", asks("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}`), 404, -32601, "1"}, nil},
	{wrong{"a method of the other era: resources/subscribe", asks("resources/subscribe", `"uri":"x://"`), 404, -32601, "1"}, nil},
	{wrong{"a method of the other era: logging/setLevel", asks("logging/setLevel", `"level":"debug"`), 404, -32601, "1"}, nil},
	{wrong{"a method that no header can carry", asks("no/such\u00e9", ""), 404, -32601, "1"}, nil},

	{wrong{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 400, -32602, "1"}, nil},
	{wrong{"a list as the params", rpc("tools/call", `["t",{}]`), 400, -32602, "1"}, nil},
	{wrong{"no _meta", rpc("tools/call", `{"name":"t"}`), 400, -32602, "1"}, nil},
	{wrong{"a text as _meta", withMeta(`"x"`), 400, -32602, "1"}, nil},
	{wrong{"null as _meta", withMeta(`null`), 400, -32602, "1"}, nil},
	{wrong{"a list as _meta", withMeta(`[]`), 400, -32602, "1"}, nil},
	{wrong{"an empty _meta", withMeta(`{}`), 400, -32602, "1"}, nil},
	{wrong{"no version", withMeta(`{` + eraMembers[1] + `,` + eraMembers[2] + `}`), 400, -32602, "1"}, nil},
	{wrong{"a number as the version", withMeta(`{"io.modelcontextprotocol/protocolVersion":20260728,` + eraMembers[2] + `}`), 400, -32602, "1"}, nil},
	{wrong{"null as the version", withMeta(`{"io.modelcontextprotocol/protocolVersion":null,` + eraMembers[2] + `}`), 400, -32602, "1"}, nil},
	{wrong{"no capabilities", withMeta(`{` + eraMembers[0] + `}`), 400, -32602, "1"}, nil},
	{wrong{"a list as the capabilities", withMeta(`{` + eraMembers[0] + `,"io.modelcontextprotocol/clientCapabilities":[]}`), 400, -32602, "1"}, nil},
	{wrong{"null as the capabilities", withMeta(`{` + eraMembers[0] + `,"io.modelcontextprotocol/clientCapabilities":null}`), 400, -32602, "1"}, nil},
	{wrong{"a text as the client", withMeta(`{` + eraMembers[0] + `,` + eraMembers[2] + `,"io.modelcontextprotocol/clientInfo":"me"}`), 400, -32602, "1"}, nil},
	{wrong{"a version said twice", withMeta(`{` + eraMembers[0] + `,` + whole + `}`), 400, -32602, "1"}, nil},
	{wrong{"_meta twice", rpc("resources/read", `{"uri":"x://","_meta":{},"_meta":{`+whole+`}}`), 400, -32602, "1"}, nil},
	{wrong{"a name twice", asks("tools/call", `"name":"other","name":"t"`), 400, -32602, "1"}, nil},
	{wrong{"a URI twice", asks("resources/read", `"uri":"x://1","uri":"x://2"`), 400, -32602, "1"}, nil},
	{wrong{"a name twice, once in escapes", asks("prompts/get", `"n\u0061me":"other","name":"t"`), 400, -32602, "1"}, nil},

	{wrong{"another version in _meta than in the header", withMeta(`{"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + eraMembers[2] + `}`), 400, -32020, "1"}, nil},
	{wrong{"a version that nobody speaks in _meta", withMeta(`{"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + eraMembers[2] + `}`), 400, -32020, "1"}, nil},
	{wrong{"the version of the other era in the header", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("MCP-Protocol-Version", "2025-11-25")},
	{wrong{"no version in the header", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("MCP-Protocol-Version")},
	{wrong{"a version that nobody speaks in the header", asks("tools/call", `"name":"t"`), 400, -32022, "1"}, set("MCP-Protocol-Version", "2099-01-01")},
	{wrong{"no version at all in the header", asks("tools/call", `"name":"t"`), 400, -32022, "1"}, set("MCP-Protocol-Version", "\u00e9")},
	{wrong{"two versions in the header", asks("tools/call", `"name":"t"`), 400, -32022, "1"}, set("MCP-Protocol-Version", "2026-07-28", "2025-11-25")},
	{wrong{"two versions in one header", asks("tools/call", `"name":"t"`), 400, -32022, "1"}, set("MCP-Protocol-Version", "2026-07-28, 2025-11-25")},
	{wrong{"one version twice in the header", asks("tools/call", `"name":"t"`), 400, -32022, "1"}, set("MCP-Protocol-Version", "2026-07-28", "2026-07-28")},

	{wrong{"no Mcp-Method", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Method")},
	{wrong{"another Mcp-Method", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Method", "tools/list")},
	{wrong{"an empty Mcp-Method", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Method", "")},
	{wrong{"Mcp-Method in capitals", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Method", "Tools/Call")},
	{wrong{"Mcp-Method twice", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Method", "tools/call", "tools/list")},
	{wrong{"no Mcp-Name", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name")},
	{wrong{"another Mcp-Name", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name", "held")},
	{wrong{"another Mcp-Name of a prompt", asks("prompts/get", `"name":"p"`), 400, -32020, "1"}, set("Mcp-Name", "q")},
	{wrong{"another Mcp-Name of a resource", asks("resources/read", `"uri":"x://1"`), 400, -32020, "1"}, set("Mcp-Name", "x://2")},
	{wrong{"Mcp-Name twice", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name", "t", "t")},
	{wrong{"an Mcp-Name that is not decoded", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name", "=?base64?!!?=")},
	{wrong{"an Mcp-Name of another in Base64", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name", "=?base64?aGVsZA==?=")},
	{wrong{"an Mcp-Name with bytes that are no text", asks("tools/call", `"name":"t"`), 400, -32020, "1"}, set("Mcp-Name", "=?base64?dP8=?=")},
	{wrong{"a name that lacks its half", asks("tools/call", `"name":"\ud800"`), 400, -32020, "1"}, set("Mcp-Name", "t")},

	{wrong{"no Mcp-Param", asks("tools/call", `"name":"headed","arguments":{"a":"x"}`), 400, -32020, "1"}, nil},
	{wrong{"another Mcp-Param", asks("tools/call", `"name":"headed","arguments":{"a":"x"}`), 400, -32020, "1"}, set("Mcp-Param-Region", "y")},
	{wrong{"an Mcp-Param of nothing", asks("tools/call", `"name":"headed","arguments":{}`), 400, -32020, "1"}, set("Mcp-Param-Region", "y")},
	{wrong{"an Mcp-Param twice", asks("tools/call", `"name":"headed","arguments":{"a":"x"}`), 400, -32020, "1"}, set("Mcp-Param-Region", "x", "x")},
	{wrong{"an Mcp-Param that is not decoded", asks("tools/call", `"name":"headed","arguments":{"a":"x"}`), 400, -32020, "1"}, set("Mcp-Param-Region", "=?base64?%?=")},
	{wrong{"another number in Mcp-Param", asks("tools/call", `"name":"headed","arguments":{"n":1}`), 400, -32020, "1"}, set("Mcp-Param-Count", "2")},

	{wrong{"a call without a name", asks("tools/call", ""), 400, -32602, "1"}, nil},
	{wrong{"a number as the name", asks("tools/call", `"name":7`), 400, -32602, "1"}, nil},
	{wrong{"a name that is nobody's", asks("tools/call", `"name":"nobody"`), 400, -32602, "1"}, nil},
	{wrong{"a text as the arguments", asks("tools/call", `"name":"t","arguments":"x"`), 400, -32602, "1"}, nil},
	{wrong{"a list as the arguments", asks("tools/call", `"name":"t","arguments":[]`), 400, -32602, "1"}, nil},
	{wrong{"a number as the cursor", asks("tools/list", `"cursor":7`), 400, -32602, "1"}, nil},
	{wrong{"a cursor that is none", asks("tools/list", `"cursor":"\ud800"`), 400, -32602, "1"}, nil},
	{wrong{"a subscription to nothing", asks("subscriptions/listen", ""), 400, -32602, "1"}, nil},
	{wrong{"a subscription of a wrong type", asks("subscriptions/listen", `"notifications":["toolsListChanged"]`), 400, -32602, "1"}, nil},
	{wrong{"a subscription with a text for true", asks("subscriptions/listen", `"notifications":{"toolsListChanged":"true"}`), 400, -32602, "1"}, nil},
	{wrong{"a subscription to no texts", asks("subscriptions/listen", `"notifications":{"resourceSubscriptions":[1]}`), 400, -32602, "1"}, nil},
	{wrong{"a subscription that nobody could read", asks("subscriptions/listen", `"notifications":{}`), 400, -32600, "1"}, set("Accept", "application/json")},
	{wrong{"a task that is nobody's", asks("tasks/get", `"taskId":"job_none"`), 400, -32021, "1"}, set("Mcp-Name", "job_none")},
	{wrong{"a forged state", asks("tools/call", `"name":"t","requestState":"berth1.AAAA","inputResponses":{}`), 400, -32602, "1"}, nil},

	{wrong{"a notification with headers that differ", `{"jsonrpc":"2.0","method":"notifications/x"}`, 202, 0, ""}, set("Mcp-Method", "tools/call")},
	{wrong{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, 202, 0, ""}, nil},
}

func TestAMalformedRequestOfTheStatelessEraIsAnsweredAndHarmsNobody(t *testing.T) {
	for _, backend := range []era{handshake, stateless} {
		t.Run(backend.String(), func(t *testing.T) {
			h := newHeld()
			h.tools = `[{"name":"t","inputSchema":{"type":"object"}},{"name":"held","inputSchema":{"type":"object"}},` + headed + `]`
			r, s := pair(t, pairing{overHTTP, stateless, backend}, &h.backend)
			defer r.close()
			end := h.hold(t, s)
			for _, tt := range statelessRequests {
				t.Run(tt.name, func(t *testing.T) {
					checkWrong(t, s, tt.wrong, s.send(t, []byte(tt.body), tt.change))
				})
			}
			if err := end(); err != nil {
				t.Errorf("the call that was running: %v", err)
			}
			if lives := h.lived(); lives != 1 {
				t.Errorf("the backend had %d lives", lives)
			}
		})
	}
}

// What stands in headers in another way than in the body, and is the same.
func TestHeadersMaySayTheSameInOtherWords(t *testing.T) {
	h := newHeld()
	h.tools = `[{"name":"t","inputSchema":{"type":"object"}},{"name":"é t","inputSchema":{"type":"object"}},` + headed + `]`
	r, s := pair(t, pairing{overPipes, stateless, stateless}, &h.backend)
	defer r.close()
	for _, tt := range []struct {
		name, body string
		change     func(http.Header)
	}{
		{"plain", asks("tools/call", `"name":"t"`), nil},
		{"escapes in the body", asks("tools/call", `"n\u0061me":"\u0074"`), set("Mcp-Name", "t")},
		{"Base64 without need", asks("tools/call", `"name":"t"`), set("Mcp-Name", "=?base64?dA==?=")},
		{"Base64 with need", asks("tools/call", `"name":"é t"`), nil},
		{"a name where there is none", asks("prompts/list", ""), set("Mcp-Name", "x")},
		{"an argument", asks("tools/call", `"name":"headed","arguments":{"a":"x"}`), set("Mcp-Param-Region", "x")},
		{"an argument that is null", asks("tools/call", `"name":"headed","arguments":{"a":null}`), nil},
		{"a number in other digits", asks("tools/call", `"name":"headed","arguments":{"n":1e1}`), set("Mcp-Param-Count", "10")},
		{"a number that no header has", asks("tools/call", `"name":"headed","arguments":{"n":9007199254740993}`), nil},
		{"a session of somebody", asks("tools/call", `"name":"t"`), set("Mcp-Session-Id", "AAAA")},
		{"any name in other letters", asks("tools/call", `"name":"t"`), func(h http.Header) {
			h["MCP-METHOD"] = h["Mcp-Method"]
			delete(h, "Mcp-Method")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.send(t, []byte(tt.body), tt.change)
			all, err := a.messages()
			if err != nil || a.status != 200 || len(all) == 0 || all[len(all)-1].Result == nil {
				t.Errorf("%d %s, %v", a.status, a.body, err)
			}
		})
	}
}
