package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// modern is what a server of the stateless era says of itself.
func modern(capabilities string) string {
	return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities +
		`,"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","extra":12345678901234567890}}}`
}

// newModern is an HTTP server of the stateless era.
func newModern(t *testing.T, capabilities string, script func(w http.ResponseWriter, r *http.Request, m message)) *upstream {
	u := newUpstream(t, "", script)
	u.discover = func(w http.ResponseWriter, r *http.Request, m message) { u.answer(w, m, modern(capabilities)) }
	return u
}

// modernFake is a child of the stateless era.
func modernFake(capabilities string, script func(f *fake, m message)) *fake {
	f := newFake(script)
	f.discover = func(f *fake, m message) { f.answer(m, modern(capabilities)) }
	return f
}

func TestOnlyAnAnswerOfTheStatelessEraKeepsFromTheHandshake(t *testing.T) {
	status := func(code int, body string) func(w http.ResponseWriter, m message) {
		return func(w http.ResponseWriter, m message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			io.WriteString(w, strings.ReplaceAll(body, "ID", string(m.id)))
		}
	}
	result := func(r string) func(w http.ResponseWriter, m message) {
		return status(200, `{"jsonrpc":"2.0","id":ID,"result":`+r+`}`)
	}
	for name, answer := range map[string]func(w http.ResponseWriter, m message){
		"only older versions":       result(`{"supportedVersions":["2025-11-25","2025-06-18"],"capabilities":{}}`),
		"only a newer version":      result(`{"supportedVersions":["2099-01-01"],"capabilities":{}}`),
		"tasks of an older version": result(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tasks":{"list":{}}}}`),
		"another result":            result(`{"ok":true}`),
		"broken capabilities":       result(`{"supportedVersions":["2026-07-28"],"capabilities":[]}`),
		"an unknown method":         status(200, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}`),
		"an unsupported version":    status(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`),
		"not initialized":           status(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`),
		"a plain 400":               status(400, `no`),
		"a 403":                     status(403, ``),
		"a 404":                     status(404, `not found`),
		"a 405":                     status(405, ``),
		"a 500":                     status(500, ``),
		"a redirect":                status(307, ``),
		"accepted and no answer":    status(202, ``),
		"no response":               status(200, `{"jsonrpc":"2.0","id":ID}`),
		"another one's answer":      status(200, `{"jsonrpc":"2.0","id":99,"result":`+modern(`{}`)+`}`),
		"a result that is no JSON":  status(200, `{"jsonrpc":"2.0","id":ID,"result":{`),
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "s", func(w http.ResponseWriter, r *http.Request, m message) {
				if r.Header.Get("Mcp-Method") != "" || strings.Contains(string(m.params), eraPrefix) {
					t.Errorf("%v %s", r.Header, m.params)
				}
				events(w, response(m, `{}`))
			})
			u.discover = func(w http.ResponseWriter, r *http.Request, m message) {
				if r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" || r.Header.Get("Mcp-Method") != "server/discover" || r.Header.Get("Mcp-Session-Id") != "" {
					t.Errorf("headers %v", r.Header)
				}
				for _, key := range []string{"protocolVersion", "clientInfo", "clientCapabilities"} {
					if meta, _ := get(m.params, "_meta"); !strings.Contains(string(meta), `"`+eraPrefix+"/"+key+`":`) {
						t.Errorf("no %s in %s", key, m.params)
					}
				}
				answer(w, m)
			}
			_, c := u.open(t, Options{})
			if inc := c.Incarnation(); inc.Server.ProtocolVersion != "2025-11-25" || inc.RuntimeID == "" {
				t.Errorf("incarnation %+v", inc)
			}
			mustCall(t, c, ofEra(true, "tools/call", `{"name":"echo"}`), broker.Peer{})
		})
	}
}

func TestAServerOfTheStatelessEraSaysWhoItIs(t *testing.T) {
	check := func(t *testing.T, c broker.Conn) {
		t.Helper()
		s := c.Incarnation().Server
		if s.ProtocolVersion != "2026-07-28" || string(s.Info) != `{"name":"m","extra":12345678901234567890}` || s.Instructions != "i" || string(s.Capabilities) != `{"tools":{}}` {
			t.Errorf("server %+v", s)
		}
	}
	t.Run("http", func(t *testing.T) {
		_, c := newModern(t, `{"tools":{}}`, nil).open(t, Options{})
		check(t, c)
		if inc := c.Incarnation(); inc.RuntimeID != "" || len(inc.Tools) != 1 {
			t.Errorf("incarnation %+v", inc)
		}
	})
	t.Run("stdio", func(t *testing.T) {
		_, c := modernFake(`{"tools":{}}`, nil).open(t, Options{})
		check(t, c)
		if inc := c.Incarnation(); inc.RuntimeID == "" || inc.PID != 4711 || len(inc.Tools) != 1 {
			t.Errorf("incarnation %+v", inc)
		}
	})
}

func TestARefusalOfCredentialsIsNoReasonForAHandshake(t *testing.T) {
	u := newUpstream(t, "", nil)
	u.discover = func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(401) }
	u.initialize = func(string) { t.Error("initialize was sent") }
	_, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), nil)
	if open, ok := err.(*broker.OpenError); !ok || !open.Auth {
		t.Errorf("error %v", err)
	}
}

func TestAChildThatIsSilentToTheQuestionGetsAHandshake(t *testing.T) {
	for name, tc := range map[string]struct {
		late   string // what it answers to the question after initialize
		refuse bool   // it refuses initialize
		era    string
	}{
		"never answers":     {"", false, "2025-11-25"},
		"answers late, yes": {modern(`{"tools":{}}`), true, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(nil)
				var question message
				f.discover = func(_ *fake, m message) { question = m }
				if tc.refuse {
					f.refuse = func(f *fake, m message) {
						f.send(unknownMethod(m))
						elapse(time.Second)
						f.answer(question, tc.late)
					}
				}
				began := time.Now()
				c, err := NewStdio(StdioConfig{Start: f.start}, Options{}).Open(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < probeWait || took > probeWait+2*time.Second {
					t.Errorf("it took %s", took)
				}
				if v := c.Incarnation().Server.ProtocolVersion; v != tc.era {
					t.Errorf("version %s", v)
				}
				c.Close(context.Background())
			})
		})
	}
}

func TestAChildThatEndsBecauseOfTheQuestionIsStartedAgainWithoutIt(t *testing.T) {
	starts := 0
	start := func(ctx context.Context) (Child, error) {
		starts++
		f := newFake(func(f *fake, m message) { f.answer(m, `{}`) })
		f.discover = func(f *fake, _ message) { f.exit() }
		return f.start(ctx)
	}
	c, err := NewStdio(StdioConfig{Start: start}, Options{}).Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	mustCall(t, c, call(`{}`), broker.Peer{})
	if starts != 2 {
		t.Errorf("%d starts", starts)
	}
}

func TestAChildThatEndsAnywayIsStartedTwiceAndNotMore(t *testing.T) {
	starts := 0
	start := func(ctx context.Context) (Child, error) {
		starts++
		f := newFake(nil)
		f.deafAfter = 1
		child, err := f.start(ctx)
		f.exit()
		return child, err
	}
	_, err := NewStdio(StdioConfig{Start: start}, Options{}).Open(t.Context(), nil)
	if open, ok := err.(*broker.OpenError); !ok || !strings.Contains(open.Cause, "status 7") || open.Stderr != "last words" {
		t.Errorf("error %#v", err)
	}
	if starts != 2 {
		t.Errorf("%d starts", starts)
	}
}

func TestTheHandshakeIsKeptToWhenToldSo(t *testing.T) {
	f := modernFake(`{"tools":{}}`, nil)
	f.discover = func(*fake, message) { t.Error("it was asked") }
	f.open(t, Options{Handshake: true})
	u := newModern(t, `{}`, nil)
	u.discover = func(http.ResponseWriter, *http.Request, message) { t.Error("it was asked") }
	u.open(t, Options{Handshake: true})
}

func TestRequestsOfTheStatelessEraCarryTheirHeaders(t *testing.T) {
	got := make(chan http.Header, 1)
	u := newModern(t, `{"tools":{}}`, func(w http.ResponseWriter, r *http.Request, m message) {
		got <- r.Header
		events(w, response(m, `{}`))
	})
	u.tools = &atomic.Pointer[string]{}
	list := `{"tools":[
		{"name":"echo","inputSchema":{"type":"object","properties":{
			"s":{"type":"string","x-mcp-header":"Text"},"b":{"type":"boolean","x-mcp-header":"Truth"},
			"n":{"type":["integer","null"],"x-mcp-header":"Number"},"plain":{"type":"string"},
			"o":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}}}}},
		{"name":"twice","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"Same"},"b":{"type":"string","x-mcp-header":"same"}}}},
		{"name":"object","inputSchema":{"properties":{"a":{"type":"object","x-mcp-header":"Object"}}}},
		{"name":"bad","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nInjected: 1"}}}},
		{"name":"truth","inputSchema":true},
		{"name":"Zürich\n"}]}`
	u.tools.Store(&list)
	_, c := u.open(t, Options{})
	for name, tc := range map[string]struct {
		method, params string
		want           map[string]string
	}{
		"all kinds": {"tools/call", `{"name":"echo","arguments":{"s":"us west","b":true,"n":42,"plain":"p","o":{"deep":"d"}}}`,
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Param-Text": "us west", "Mcp-Param-Truth": "true", "Mcp-Param-Number": "42", "Mcp-Param-Deep": "d"}},
		"what a header cannot carry": {"tools/call", `{"name":"Zürich\n","arguments":{"s":"x"}}`,
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?WsO8cmljaAo=?="}},
		"encoded, an integer in other words, null": {"tools/call", `{"name":"echo","arguments":{"s":" \u00e9","b":null,"n":4.2e1,"o":[]}}`,
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Param-Text": "=?base64?IMOp?=", "Mcp-Param-Number": "42"}},
		"numbers that differ between readers": {"tools/call", `{"name":"echo","arguments":{"n":9007199254740993}}`,
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo"}},
		"a fraction":             {"tools/call", `{"name":"echo","arguments":{"n":1.5}}`, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo"}},
		"two of one name":        {"tools/call", `{"name":"twice","arguments":{"a":"x","b":"y"}}`, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "twice"}},
		"of an object":           {"tools/call", `{"name":"object","arguments":{"a":{}}}`, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "object"}},
		"no header at all":       {"tools/call", `{"name":"bad","arguments":{"a":"x"}}`, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "bad"}},
		"a resource":             {"resources/read", `{"uri":"test://r?x=1"}`, map[string]string{"Mcp-Method": "resources/read", "Mcp-Name": "test://r?x=1"}},
		"a task":                 {"tasks/get", `{"taskId":"t1"}`, map[string]string{"Mcp-Method": "tasks/get", "Mcp-Name": "t1"}},
		"a method without names": {"completion/complete", `{}`, map[string]string{"Mcp-Method": "completion/complete"}},
		"a method of its own":    {"own/\u00fc", `{}`, map[string]string{"Mcp-Method": "=?base64?b3duL8O8?="}},
	} {
		t.Run(name, func(t *testing.T) {
			mustCall(t, c, ofEra(false, tc.method, tc.params), broker.Peer{})
			h := <-got
			if h.Get("Mcp-Protocol-Version") != "2026-07-28" || h.Get("X-Key") != "hunter22" {
				t.Errorf("headers %v", h)
			}
			for key := range h {
				if _, ok := tc.want[key]; !ok && strings.HasPrefix(key, "Mcp-") && key != "Mcp-Protocol-Version" {
					t.Errorf("%s is %q", key, h.Get(key))
				}
			}
			for key, want := range tc.want {
				if h.Get(key) != want {
					t.Errorf("%s is %q, want %q", key, h.Get(key), want)
				}
			}
		})
	}
}

func TestRequestsOfTheStatelessEraSayWhomTheyAreFrom(t *testing.T) {
	got := make(chan string, 1)
	u := newModern(t, `{"tools":{}}`, func(w http.ResponseWriter, r *http.Request, m message) {
		got <- string(m.params)
		events(w, response(m, `{}`))
	})
	_, c := u.open(t, Options{Version: "v9"})
	const handshakeMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"harness","version":"7"},"io.modelcontextprotocol/clientCapabilities":`
	job := ofEra(false, "tools/call", `{"name":"e"}`)
	job.Client.Capabilities = json.RawMessage(`{"roots":{},"experimental":{"x":1.0},"sampling":{},"elicitation":{}}`)
	unknown := ofEra(false, "tools/call", `{"name":"e"}`)
	unknown.Client = broker.Client{}
	stateless := ofEra(false, "tools/call", `{"name":"e","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":12345678901234567890},"io.modelcontextprotocol/protocolVersion":"2099-01-01","own":1},"z":0}`)
	stateless.Client.Stateless = true
	for name, tc := range map[string]struct {
		call *broker.Call
		peer broker.Peer
		want string
	}{
		"a harness": {ofEra(false, "tools/call", `{"name":"e","_meta":{"own":1.0}}`), person(t),
			`{"name":"e","_meta":{"own":1.0,` + handshakeMeta + `{"roots":{},"sampling":{},"elicitation":{}}}}`},
		"a harness that does not wait": {job, broker.Peer{}, `{"name":"e","_meta":{` + handshakeMeta + `{"experimental":{"x":1.0}}}}`},
		"nobody knows who": {unknown, broker.Peer{},
			`{"name":"e","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"berth","version":"v9"},"io.modelcontextprotocol/clientCapabilities":{}}}`},
		"a stateless harness": {stateless, broker.Peer{},
			`{"name":"e","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":12345678901234567890},"io.modelcontextprotocol/protocolVersion":"2026-07-28","own":1,"io.modelcontextprotocol/clientInfo":{"name":"harness","version":"7"}},"z":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			mustCall(t, c, tc.call, tc.peer)
			if params := <-got; params != tc.want {
				t.Errorf("params\n got %s\nwant %s", params, tc.want)
			}
		})
	}
	for _, params := range []string{`[]`, `{"_meta":7}`, `{`} {
		_, err := c.Call(t.Context(), ofEra(false, "tools/call", params), broker.Peer{})
		if f := failure(t, err); f.Dispatched || f.Refusal == nil || f.Refusal.Code != broker.CodeInvalidArguments {
			t.Errorf("%s: %+v", params, f)
		}
	}
}

func TestLogLevelsBelongToTheirSessions(t *testing.T) {
	got := make(chan string, 1)
	f := modernFake(`{"tools":{}}`, func(f *fake, m message) {
		got <- string(m.params)
		f.answer(m, `{}`)
	})
	_, c := f.open(t, Options{})
	set := func(session, level string) broker.Answer {
		cl := of(session)
		cl.Method, cl.Params = "logging/setLevel", json.RawMessage(`{"level":"`+level+`"}`)
		a, err := c.Call(t.Context(), cl, broker.Peer{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := set("a", "warning"); string(a.Result) != `{}` {
		t.Errorf("answer %+v", a)
	}
	if a := set("b", "loud"); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("answer %+v", a)
	}
	for session, want := range map[string]bool{"a": true, "b": false, "": false} {
		mustCall(t, c, of(session), broker.Peer{})
		if params := <-got; strings.Contains(params, `"io.modelcontextprotocol/logLevel":"warning"`) != want {
			t.Errorf("session %q sent %s", session, params)
		}
	}
	var l levels
	for i := range maxLevels + 1 {
		l.set(fmt.Sprint(i), "info")
		l.set(fmt.Sprint(i), "debug")
	}
	if len(l.level) != maxLevels || len(l.order) != maxLevels || l.get("0") != "" || l.get(fmt.Sprint(maxLevels)) != "debug" {
		t.Errorf("%d levels, %d in order", len(l.level), len(l.order))
	}
}

func TestAStatelessBackendThatChangesItsEraEndsItsLife(t *testing.T) {
	var supported atomic.Value
	supported.Store(`["2025-11-25"]`)
	u := newModern(t, `{}`, func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"m","data":{"supported":%s}}}`, m.id, supported.Load())
	})
	_, c := u.open(t, Options{})
	_, err := c.Call(t.Context(), ofEra(false, "tools/call", `{}`), broker.Peer{})
	if f := failure(t, err); !f.Gone || f.Dispatched {
		t.Errorf("failure %+v", f)
	}
	<-c.Incarnation().Done

	supported.Store(`["2026-07-28"]`)
	_, c = u.open(t, Options{})
	a, err := c.Call(t.Context(), ofEra(false, "tools/call", `{}`), broker.Peer{})
	if err != nil || a.Error == nil || a.Error.Code != -32022 {
		t.Errorf("answer %+v, %v", a, err)
	}
}

func TestACancelOverStatelessHTTPIsTheEndOfTheStream(t *testing.T) {
	closed := make(chan struct{})
	u := newModern(t, `{}`, func(w http.ResponseWriter, r *http.Request, m message) {
		events(w, `{"jsonrpc":"2.0","method":"notifications/message"}`)
		<-r.Context().Done()
		close(closed)
	})
	_, c := u.open(t, Options{CancelGrace: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Call(ctx, ofEra(false, "tools/call", `{}`), broker.Peer{Notify: func(string, json.RawMessage) { cancel() }})
	if f := failure(t, err); !f.Dispatched || f.Abandoned || f.Gone || !strings.Contains(f.Cause, "cancelled") {
		t.Errorf("failure %+v", f)
	}
	<-closed
	if m := <-u.seen; m.method != "tools/call" || len(u.seen) > 0 {
		t.Errorf("seen %s and %d more", m.method, len(u.seen))
	}
}

// A tool list that was changed gives a header that was not wanted before.
func TestAHeaderMismatchMakesTheToolsBeListedAgain(t *testing.T) {
	u := newModern(t, `{"tools":{}}`, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Header.Get("Mcp-Param-New") == "v" {
			events(w, response(m, `{}`))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"m"}}`, m.id)
	})
	u.tools = &atomic.Pointer[string]{}
	before := `{"tools":[{"name":"t"}]}`
	u.tools.Store(&before)
	hear, outside := heard()
	c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), hear)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	cl := ofEra(false, "tools/call", `{"name":"t","arguments":{"a":"v"}}`)
	if a, err := c.Call(t.Context(), cl, broker.Peer{}); err != nil || a.Error == nil || a.Error.Code != -32020 {
		t.Fatalf("answer %+v, %v", a, err)
	}
	if got := <-outside; got != toolsChanged+" " {
		t.Errorf("heard %s", got)
	}
	after := `{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"New"}}}}]}`
	u.tools.Store(&after)
	if _, _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCall(t, c, cl, broker.Peer{})
}

// rounds is a backend that answers each round of a call with the next of
// results, and shows what it got.
func roundsOf(t *testing.T, results ...string) (broker.Conn, chan string) {
	got := make(chan string, 100)
	n := 0
	f := modernFake(`{"tools":{}}`, func(f *fake, m message) {
		got <- string(m.params)
		f.answer(m, results[min(n, len(results)-1)])
		n++
	})
	_, c := f.open(t, Options{})
	return c, got
}

const asksName = `{"resultType":"input_required","requestState":"s\u00e9","inputRequests":{"n\"1":{"method":"elicitation/create","params":{"message":"name?","big":12345678901234567890}},"r":{"method":"roots/list"}}}`

func TestRoundsCarryAnswersAndStateAsTheyCame(t *testing.T) {
	c, got := roundsOf(t, asksName, `{"resultType":"input_required","inputRequests":{"again":{"method":"sampling/createMessage","params":{}}}}`, `{"resultType":"complete","done":1.0}`)
	var mu sync.Mutex
	asked := map[string]string{}
	result := mustCall(t, c, ofEra(false, "tools/call", `{"name":"e","arguments":{"z":1.0}}`), broker.Peer{
		Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
			mu.Lock()
			defer mu.Unlock()
			asked[method] = string(params)
			return json.RawMessage(`{"answer to":"` + method + `","n":1.0}`), nil
		}})
	if result != `{"resultType":"complete","done":1.0}` {
		t.Errorf("result %s", result)
	}
	if asked["elicitation/create"] != `{"message":"name?","big":12345678901234567890}` || len(asked) != 3 {
		t.Errorf("asked %v", asked)
	}
	first, second, third := <-got, <-got, <-got
	base := strings.TrimSuffix(first, "}")
	if want := base + `,"inputResponses":{"n\"1":{"answer to":"elicitation/create","n":1.0},"r":{"answer to":"roots/list","n":1.0}},"requestState":"s\u00e9"}`; second != want {
		t.Errorf("second round\n got %s\nwant %s", second, want)
	}
	if want := base + `,"inputResponses":{"again":{"answer to":"sampling/createMessage","n":1.0}}}`; third != want {
		t.Errorf("third round\n got %s\nwant %s", third, want)
	}
}

func TestRoundsThatCannotGoOn(t *testing.T) {
	refusing := broker.Peer{Request: func(ctx context.Context, method string, _ json.RawMessage) (json.RawMessage, *broker.RPCError) {
		if method == "roots/list" { // ended by the other's refusal
			<-ctx.Done()
		}
		return nil, &broker.RPCError{Code: -1, Message: "the user said no"}
	}}
	accepting := answering(make(chan string, 1000), `{"action":"accept"}`)
	many := make([]string, maxInputs+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d":{"method":"roots/list"}`, i)
	}
	for name, tc := range map[string]struct {
		result string
		peer   broker.Peer
		rounds int
		code   int    // of an error; 0: a failure
		want   string // in its text
	}{
		"the harness refuses":     {asksName, refusing, 1, -32000, "error -1, the user said no"},
		"nobody can be asked":     {asksName, broker.Peer{}, 1, -32000, "cannot be asked"},
		"too many rounds":         {asksName, accepting, maxRounds, -32000, "after 10 rounds"},
		"an unknown question":     {`{"resultType":"input_required","inputRequests":{"a":{"method":"own/thing"}}}`, accepting, 1, 0, `"own/thing"`},
		"a question of no form":   {`{"resultType":"input_required","inputRequests":{"a":7}}`, accepting, 1, 0, `asks for`},
		"questions of no form":    {`{"resultType":"input_required","inputRequests":[]}`, accepting, 1, 0, `not understood`},
		"too many questions":      {`{"resultType":"input_required","inputRequests":{` + strings.Join(many, ",") + `}}`, accepting, 1, 0, "33 inputs"},
		"it is always put off":    {`{"resultType":"input_required","requestState":"s"}`, accepting, maxSheds + 1, -32000, "too busy"},
		"asked of a later answer": {`{"resultType":"input_required","inputRequests":{}}`, accepting, maxSheds + 1, -32000, "too busy"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, got := roundsOf(t, tc.result)
				a, err := c.Call(t.Context(), ofEra(false, "tools/call", `{}`), tc.peer)
				switch {
				case tc.code == 0:
					if f := failure(t, err); !f.Dispatched || f.Gone || !strings.Contains(f.Cause, tc.want) {
						t.Errorf("failure %+v", f)
					}
				case err != nil:
					t.Error(err)
				case a.Error == nil || a.Error.Code != tc.code || !strings.Contains(a.Error.Message, tc.want):
					t.Errorf("answer %s %+v", a.Result, a.Error)
				}
				if len(got) != tc.rounds {
					t.Errorf("%d rounds", len(got))
				}
				c.Close(context.Background())
			})
		})
	}
}

func TestACallThatEndsBetweenRoundsIsOver(t *testing.T) {
	c, got := roundsOf(t, asksName)
	ctx, cancel := context.WithCancel(t.Context())
	peer, asked, _ := asking()
	go func() {
		<-asked
		cancel()
	}()
	_, err := c.Call(ctx, ofEra(false, "tools/call", `{}`), peer)
	if f := failure(t, err); !f.Dispatched || f.Gone || f.Abandoned {
		t.Errorf("failure %+v", f)
	}
	if len(got) != 1 {
		t.Errorf("%d rounds", len(got))
	}
}

func TestMetaOfTheOtherEraDoesNotCross(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"nothing of it":      {`{"a":1,"_meta":{"own":1.0}}`, `{"a":1,"_meta":{"own":1.0}}`},
		"all of it":          {`{"a":1,"_meta":{"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol\/clientInfo":{}}}`, `{"a":1}`},
		"some of it":         {`{"_meta":{"io.modelcontextprotocol/protocolVersion":"x","own":1.0,"io.modelcontextprotocol/related-task":{}},"z":1}`, `{"_meta":{"own":1.0,"io.modelcontextprotocol/related-task":{}},"z":1}`},
		"elsewhere":          {`{"arguments":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}}`, `{"arguments":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}}`},
		"of another form":    {`{"_meta":"io.modelcontextprotocol/logLevel"}`, `{"_meta":"io.modelcontextprotocol/logLevel"}`},
		"none at all, alone": {``, ``},
	} {
		t.Run(name, func(t *testing.T) {
			c := call(tc.object)
			c.Client.Stateless = true
			if got, err := undressed(c); err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func FuzzMetaOfBothEras(f *testing.F) {
	for _, s := range []string{rich, `{"_meta":{"io.modelcontextprotocol/logLevel":"x"}}`, asksName, `{"_meta":null}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		client := broker.Client{Info: json.RawMessage(`{"name":"f"}`)}
		dressed, err := dress(raw, statelessVersion, client, "info")
		if err != nil {
			return
		}
		if !json.Valid(dressed) {
			t.Fatalf("dressed %q", dressed)
		}
		if again, err := dress(dressed, statelessVersion, client, "info"); err != nil || string(again) != string(dressed) {
			t.Errorf("dressed twice: %q, %v", again, err)
		}
		bare, err := trimMeta(dressed, ofRequest)
		if err != nil || !json.Valid(bare) {
			t.Errorf("undressed %q, %v", bare, err)
		}
		if meta, ok := get(bare, "_meta"); ok {
			for _, key := range []string{"protocolVersion", "clientInfo", "clientCapabilities", "logLevel"} {
				if _, left := get(meta, eraPrefix+"/"+key); left {
					t.Errorf("%s is left in %q", key, bare)
				}
			}
		}
	})
}

func FuzzInputsAndBindings(f *testing.F) {
	f.Add([]byte(asksName))
	f.Add([]byte(`{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":["integer"],"x-mcp-header":"C"}}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if inputs, state, err := readInputs(raw); err == nil {
			for _, in := range inputs {
				if !askable(in.method) || in.params != nil && !json.Valid(in.params) {
					t.Errorf("input %+v", in)
				}
			}
			if len(inputs) > maxInputs || state != nil && !json.Valid(state) {
				t.Errorf("%d inputs, state %q", len(inputs), state)
			}
		}
		for _, b := range bindings(raw) {
			if !isToken(b.header) || len(b.path) == 0 {
				t.Errorf("binding %+v", b)
			}
		}
	})
}
