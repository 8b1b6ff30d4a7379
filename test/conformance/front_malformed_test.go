package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// held is a backend whose tool "held" answers when it is told to; others at
// once.
type held struct {
	backend
	started chan struct{} // capacity 16
	release chan struct{}
}

func newHeld() *held {
	h := &held{started: make(chan struct{}, 16), release: make(chan struct{})}
	h.tools = `[{"name":"t","inputSchema":{"type":"object"}},{"name":"held","inputSchema":{"type":"object"}}]`
	h.handle = func(out *reply, m message) {
		if strings.Contains(string(m.Params), `"held"`) {
			h.started <- struct{}{}
			<-h.release
		}
		out.result(`{"content":[],"echo":` + orNull(m.Params) + `}`)
	}
	return h
}

func orNull(raw json.RawMessage) string {
	if raw == nil {
		return "null"
	}
	return string(raw)
}

// hold starts a call that runs until the returned function is called, which
// gives its outcome.
func (h *held) hold(t testing.TB, s *session) func() error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.call("held")
		done <- err
	}()
	await(t, "the held call to reach the backend", h.started)
	return func() error {
		t.Helper()
		h.release <- struct{}{}
		return await(t, "the held call's answer", done)
	}
}

const bom = "\xef\xbb\xbf"

// wrong is what a client sends, and what it hears.
type wrong struct {
	name, body string
	status     int
	code       int    // 0: no body is asked for
	id         string // of the error; "" is null
}

// In both eras the same: what is no message, and what nobody answers.
var malformed = []wrong{
	{"an empty body", ``, 400, -32700, ""},
	{"white space only", " \n", 400, -32700, ""},
	{"no JSON at all", `hello`, 400, -32700, ""},
	{"cut off", `{"jsonrpc":"2.0","id":1,`, 400, -32700, ""},
	{"cut off in a string", `{"jsonrpc":"2.0","id":1,"method":"pi`, 400, -32700, ""},
	{"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, 400, -32700, ""},
	{"two lines", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n", 400, -32700, ""},
	{"a trailing comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, 400, -32700, ""},
	{"single quotes", `{'jsonrpc':'2.0'}`, 400, -32700, ""},
	{"a comment", `{"jsonrpc":"2.0","id":1,"method":"ping"/*x*/}`, 400, -32700, ""},
	{"NaN", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}`, 400, -32700, ""},
	{"a number with a leading zero", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":01}}`, 400, -32700, ""},
	{"a control character in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\x01\"}}", 400, -32700, ""},
	{"a byte order mark", bom + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 400, -32700, ""},
	{"a NUL behind it", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\x00", 400, -32700, ""},
	{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", 400, -32700, ""},
	{"an overlong encoding", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xc0\xaf\"}}", 400, -32700, ""},
	{"an encoded surrogate", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xed\xa0\x80\"}}", 400, -32700, ""},
	{"a character cut off", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xe6\x97\"}}", 400, -32700, ""},
	{"UTF-16", "\xfe\xff\x00{\x00}", 400, -32700, ""},
	{"nested too deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`, 400, -32700, ""},

	{"no object", `1`, 400, -32600, ""},
	{"a string", `"ping"`, 400, -32600, ""},
	{"null", `null`, 400, -32600, ""},
	{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, -32600, ""},
	{"an empty batch", `[]`, 400, -32600, ""},
	{"an empty object", `{}`, 400, -32600, ""},
	{"no version", `{"id":1,"method":"ping"}`, 400, -32600, "1"},
	{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, -32600, "1"},
	{"the version as a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, 400, -32600, "1"},
	{"no method", `{"jsonrpc":"2.0","id":1}`, 400, -32600, "1"},
	{"the method as a number", `{"jsonrpc":"2.0","id":1,"method":7}`, 400, -32600, "1"},
	{"an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, 400, -32600, "1"},
	{"a null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, ""},
	{"a fraction as the id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, -32600, ""},
	{"an exponent in the id", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, 400, -32600, ""},
	{"an object as the id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, -32600, ""},
	{"a list as the id", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, 400, -32600, ""},
	{"true as the id", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, 400, -32600, ""},
	{"a huge text as the id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"ping"}`, 400, -32600, ""},
	{"a huge number as the id", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 2000) + `,"method":"ping"}`, 400, -32600, ""},
	{"a text as params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}`, 400, -32600, "1"},
	{"a number as params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}`, 400, -32600, "1"},
	{"a repeated member", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, 400, -32600, "1"},
	{"a request with a result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, 400, -32600, ""},
	{"a response with both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, 400, -32600, ""},

	{"an unknown notification", `{"jsonrpc":"2.0","method":"notifications/no-such","params":{"a":1}}`, 202, 0, ""},
	{"a request's method without an id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}`, 202, 0, ""},
	{"a cancel of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nothing"}}`, 202, 0, ""},
	{"a cancel without params", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, 202, 0, ""},
	{"a cancel of an object", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1},"reason":7}}`, 202, 0, ""},
	{"a cancel with a list", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`, 202, 0, ""},
	{"progress of nothing", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":"x"}}`, 202, 0, ""},
	{"an answer to nothing", `{"jsonrpc":"2.0","id":99,"result":{}}`, 202, 0, ""},
	{"an error to nothing", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, 202, 0, ""},
}

// Requests of the handshake era that ask for nothing that there is.
var malformedRequests = []wrong{
	{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 200, -32601, "1"},
	{"a list as the params of a call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["t",{}]}`, 200, -32602, "1"},
	{"a call without params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, -32602, "1"},
	{"a call without a name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, 200, -32602, "1"},
	{"a number as the name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, 200, -32602, "1"},
	{"a name that is nobody's", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}`, 200, -32602, "1"},
	{"a text as the arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":"x"}}`, 200, -32602, "1"},
	{"a list as the arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":[]}}`, 200, -32602, "1"},
	{"a text as _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":"x"}}`, 200, -32602, "1"},
	{"a URI twice", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://1","uri":"x://2"}}`, 200, -32602, "1"},
	{"_meta twice", `{"jsonrpc":"2.0","id":1,"method":"own/method","params":{"_meta":{"berth/x":1},"_meta":{}}}`, 200, -32602, "1"},
	{"a key of _meta twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,"progressToken":2}}}`, 200, -32602, "1"},
	{"a cursor that is none", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"\ud800"}}`, 200, -32602, "1"},
}

func TestAMalformedMessageIsAnsweredAndHarmsNobody(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		h := newHeld()
		r, s := pair(t, p, &h.backend)
		defer r.close()
		end := h.hold(t, s)
		all := malformed
		if p.client == handshake {
			all = append(all[:len(all):len(all)], malformedRequests...)
		}
		for _, tt := range all {
			t.Run(tt.name, func(t *testing.T) {
				checkWrong(t, s, tt, s.post([]byte(tt.body)))
			})
		}
		if err := end(); err != nil {
			t.Errorf("the call that was running: %v", err)
		}
		if lives := h.lived(); lives != 1 {
			t.Errorf("the backend had %d lives: a client's message ended one", lives)
		}
	})
}

// checkWrong judges an answer, and whether the next call is answered.
func checkWrong(t *testing.T, s *session, want wrong, a answer) {
	t.Helper()
	if a.status != want.status {
		t.Errorf("status %d, want %d: %s", a.status, want.status, a.body)
	}
	checkError(t, a, want.code, want.id)
	if _, err := s.call("t"); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}

// checkError looks for a JSON-RPC error with a code and an id; code 0 is none.
func checkError(t *testing.T, a answer, code int, id string) {
	t.Helper()
	if code == 0 {
		if len(a.body) > 0 {
			t.Errorf("a body: %s", a.body)
		}
		return
	}
	all, err := a.messages()
	if err != nil || len(all) != 1 {
		t.Errorf("no JSON-RPC message: %q, %v", a.body, err)
		return
	}
	var e struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal(all[0].Error, &e); err != nil || e.Code != code || e.Message == "" {
		t.Errorf("error %s, want code %d", all[0].Error, code)
	}
	if id == "" {
		id = "null"
	}
	if !bytes.Contains(a.body, []byte(`"id":`+id)) || all[0].JSONRPC != "2.0" {
		t.Errorf("the answer %s, want the id %s", a.body, id)
	}
	if bytes.Contains(a.body, []byte("goroutine ")) {
		t.Errorf("a stack trace: %s", a.body)
	}
}

func TestAnIDComesBackAsItWas(t *testing.T) {
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) {
			r, s := pair(t, pairing{overPipes, e, handshake}, &backend{})
			defer r.close()
			for _, id := range []string{`0`, `-1`, `9007199254740993`, `123456789012345678901234567890`, `-0`, `""`, `"1"`, `"é\u00e9\ud83d\ude00"`, `"\ud800"`, `"null"`,
				`"` + strings.Repeat("x", 1000) + `"`, strings.Repeat("9", 1000)} {
				for _, method := range []string{"ping", "tools/list", "tools/call", "no/such"} {
					a := s.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, s.params(`"name":"t"`)))
					all, err := a.messages()
					if err != nil || len(all) != 1 || string(all[0].ID) != id {
						t.Errorf("%s with the id %s is answered %s, %v", method, id, a.body, err)
					}
				}
			}
		})
	}
}

// What a request may be besides its message.
func TestAMalformedRequestIsAnsweredAndHarmsNobody(t *testing.T) {
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) { malformedHTTP(t, e) })
	}
}

func malformedHTTP(t *testing.T, e era) {
	h := newHeld()
	r, s := pair(t, pairing{overPipes, e, handshake}, &h.backend)
	defer r.close()
	end := h.hold(t, s)
	ping := map[era]string{handshake: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, stateless: asks("tools/list", "")}[e]
	in := func(first, second int) int { return map[era]int{handshake: first, stateless: second}[e] }
	for _, tt := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		status                   int
	}{
		{"a form", "POST", "/mcp/b", ping, header("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"plain text", "POST", "/mcp/b", ping, header("Content-Type", "text/plain"), 415},
		{"JSON with parameters", "POST", "/mcp/b", ping, header("Content-Type", "Application/JSON; charset=utf-8"), 200},
		{"an unknown version", "POST", "/mcp/b", ping, header("MCP-Protocol-Version", "1999-01-01"), 400},
		{"a version twice", "POST", "/mcp/b", ping, func(r *http.Request) { r.Header.Add("MCP-Protocol-Version", s.version) }, 400},
		{"two versions", "POST", "/mcp/b", ping, func(r *http.Request) { r.Header.Add("MCP-Protocol-Version", "2025-06-18") }, 400},
		{"GET of the stateless era", "GET", "/mcp/b", "", header("MCP-Protocol-Version", statelessVersion), 405},
		{"DELETE of the stateless era", "DELETE", "/mcp/b", "", header("MCP-Protocol-Version", statelessVersion), 405},
		{"GET of no known version", "GET", "/mcp/b", "", header("MCP-Protocol-Version", "1999-01-01"), 400},
		{"GET that takes no stream", "GET", "/mcp/b", "", header("Accept", "application/json"), in(406, 405)},
		{"GET without a session", "GET", "/mcp/b", "", func(r *http.Request) { r.Header.Del("Mcp-Session-Id") }, in(400, 405)},
		{"GET of a forged session", "GET", "/mcp/b", "", header("Mcp-Session-Id", "AAAA"), in(404, 405)},
		{"a forged session", "POST", "/mcp/b", ping, header("Mcp-Session-Id", "AAAA"), 200},
		{"a huge session", "POST", "/mcp/b", ping, header("Mcp-Session-Id", strings.Repeat("A", 20_000)), 200},
		{"two tokens", "POST", "/mcp/b", ping, func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+token) }, 401},
		{"another's page", "POST", "/mcp/b", ping, header("Origin", "http://evil.example"), 403},
		{"another's host", "POST", "/mcp/b", ping, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"an unknown profile", "POST", "/mcp/nobody", ping, nil, 404},
		{"an unknown path", "POST", "/mcp/b/c", ping, nil, 404},
		{"a path with an escape", "POST", "/mcp/%62", ping, nil, 200},
		{"a path out of it", "POST", "/mcp/../api", ping, nil, 404},
		{"PUT", "PUT", "/mcp/b", ping, nil, 405},
		{"PATCH", "PATCH", "/mcp/b", ping, nil, 405},
		{"OPTIONS", "OPTIONS", "/mcp/b", "", nil, 405},
		{"GET where nothing is pushed", "GET", "/rpc", "", nil, 405},
		{"an unknown coding", "POST", "/mcp/b", "\x1f\x8b\x08", header("Content-Encoding", "gzip"), 400},
		{"an Accept of JSON alone", "POST", "/mcp/b", ping, header("Accept", "application/json"), 200},
		{"an Accept of streams alone", "POST", "/mcp/b", ping, header("Accept", "text/event-stream"), 200},
		{"a token of nobody", "POST", "/mcp/b", ping, header("Authorization", "Bearer x"), 401},
		{"an Accept of nothing known", "POST", "/mcp/b", ping, header("Accept", "image/png;q=x, ,;"), 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req := s.message(ctx, []byte(tt.body))
			req.Method = tt.method
			req.URL.Opaque = tt.path // as it stands, not cleaned
			if tt.change != nil {
				tt.change(req)
			}
			a, err := s.do(req)
			if err != nil {
				t.Fatal(err)
			}
			if a.status != tt.status {
				t.Errorf("status %d, want %d: %.300s", a.status, tt.status, a.body)
			}
			if a.status >= 400 && !json.Valid(a.body) {
				t.Errorf("the refusal is no JSON: %.300q", a.body)
			}
			if _, err := s.call("t"); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		})
	}
	if err := end(); err != nil {
		t.Errorf("the call that was running: %v", err)
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// raw sends bytes on a connection of their own and gives all that came back.
func (r *rig) raw(t *testing.T, pieces ...string) string {
	t.Helper()
	conn, err := r.pipes.dial(t.Context(), "tcp", "")
	must(t, err)
	defer conn.Close()
	got := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn) // what came before the end
		got <- string(all)
	}()
	for _, p := range pieces {
		if _, err := io.WriteString(conn, p); err != nil {
			break // it was refused before its end
		}
	}
	return await(t, "the end of the connection", got)
}

func head(length string, more ...string) string {
	lines := append([]string{"POST /mcp/b HTTP/1.1", "Host: 127.0.0.1:7420", "Authorization: Bearer " + token, "Content-Type: application/json", "Connection: close"}, more...)
	if length != "" {
		lines = append(lines, "Content-Length: "+length)
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func TestBytesThatAreNoHTTPAreAnsweredAndHarmNobody(t *testing.T) {
	h := newHeld()
	r := newRig(t, overPipes, &h.backend)
	defer r.close()
	s := r.handshake()
	end := h.hold(t, s)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name   string
		pieces []string
		want   string // prefix of the answer
	}{
		{"no HTTP", []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"}, "HTTP/1.1 400"},
		{"a bare message", []string{ping + "\n\r\n\r\n"}, "HTTP/1.1 400"},
		{"no length that is a number", []string{head("x"), ping}, "HTTP/1.1 400"},
		{"two lengths", []string{head("40", "Content-Length: 41"), ping}, "HTTP/1.1 400"},
		{"a negative length", []string{head("-1"), ping}, "HTTP/1.1 400"},
		{"a body over the limit", []string{head(fmt.Sprint(maxBody + 1)), strings.Repeat(" ", maxBody+1)}, "HTTP/1.1 413"},
		{"a length far over the limit", []string{head("99999999999")}, "HTTP/1.1 413"},
		{"chunks over the limit", []string{head("", "Transfer-Encoding: chunked"), fmt.Sprintf("%x\r\n", 2*maxBody), strings.Repeat(" ", 2*maxBody)}, "HTTP/1.1 413"},
		{"a body over the limit, in the stateless era", []string{head(fmt.Sprint(maxBody+1), "MCP-Protocol-Version: "+statelessVersion, "Mcp-Method: tools/list"), strings.Repeat(" ", maxBody+1)}, "HTTP/1.1 413"},
		{"chunks over the limit, in the stateless era", []string{head("", "Transfer-Encoding: chunked", "MCP-Protocol-Version: "+statelessVersion, "Mcp-Method: tools/list"), fmt.Sprintf("%x\r\n", 2*maxBody), strings.Repeat(" ", 2*maxBody)}, "HTTP/1.1 413"},
		{"broken chunks", []string{head("", "Transfer-Encoding: chunked"), "zz\r\n" + ping + "\r\n0\r\n\r\n"}, "HTTP/1.1 400"},
		{"headers over the limit", []string{head("40", "X-A: "+strings.Repeat("a", 200<<10)), ping}, "HTTP/1.1 431"},
		{"a header with a line break in it", []string{head("40", "X-A: a\r b"), ping}, "HTTP/1.1 400"},
		{"one byte at a time", strings.Split(head(fmt.Sprint(len(ping)))+ping, ""), "HTTP/1.1 200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.raw(t, tt.pieces...); !strings.HasPrefix(got, tt.want) {
				t.Errorf("answered %.300q, want %s", got, tt.want)
			}
			if _, err := s.call("t"); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		})
	}
	if err := end(); err != nil {
		t.Errorf("the call that was running: %v", err)
	}
}

// TestACharacterSplitOverReadsIsWhole sends every byte of a message by itself.
func TestACharacterSplitOverReadsIsWhole(t *testing.T) {
	m := newMirror()
	r := newRig(t, overPipes, &m.backend)
	defer r.close()
	m.set(`{"content":[]}`, "")
	const params = `{"name":"t","arguments":{"a":"é日本😀"}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	var pieces []string
	for _, b := range []byte(head(fmt.Sprint(len(body))) + body) {
		pieces = append(pieces, string([]byte{b}))
	}
	if got := r.raw(t, pieces...); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("answered %.300q", got)
	}
	if err := same([]byte(params), m.got()); err != nil {
		t.Errorf("%v: %s", err, m.got())
	}
}
