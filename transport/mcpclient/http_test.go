package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/broker"
)

// upstream is a streamable HTTP server whose answers a test decides.
type upstream struct {
	*httptest.Server
	session string       // empty: stateless
	sse     bool         // the handshake's answers come as a stream
	life    atomic.Value // string: what it calls this life of it in a header

	initialize   func(params string) // sees those of initialize
	introduction string
	tools        *atomic.Pointer[string]                                 // the result of tools/list; nil: one tool
	discover     func(w http.ResponseWriter, r *http.Request, m message) // nil: it is unknown
	reply        func(m message)                                         // sees our answers
	// get serves the standalone stream; nil: there is none.
	get func(w http.ResponseWriter, r *http.Request)

	mu      sync.Mutex
	script  func(w http.ResponseWriter, r *http.Request, m message)
	deleted []string
	conns   atomic.Int64
	seen    chan message // what is no part of the handshake
}

// hopOf gives the connection that everybody shares.
func hopOf(c broker.Conn) *httpConn {
	if m, ok := c.(*manifold); ok {
		return m.main
	}
	return c.(*httpConn)
}

func newUpstream(t *testing.T, session string, script func(w http.ResponseWriter, r *http.Request, m message)) *upstream {
	u := &upstream{session: session, script: script, seen: make(chan message, 100), introduction: plainIntroduction}
	u.Server = httptest.NewUnstartedServer(u)
	u.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			u.conns.Add(1)
		}
	}
	u.Start()
	t.Cleanup(u.Server.Close)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if life, ok := u.life.Load().(string); ok {
		w.Header().Set(headerRuntimeID, life)
	}
	if r.Method == http.MethodDelete {
		u.mu.Lock()
		u.deleted = append(u.deleted, r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("X-Key"))
		u.mu.Unlock()
		return
	}
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "" && u.get == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.Method == http.MethodGet && u.get != nil {
		u.get(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := decodeMessage(body)
	if r.Method == http.MethodPost && err != nil {
		http.Error(w, "not JSON-RPC", http.StatusBadRequest)
		return
	}
	switch m.method {
	case "server/discover":
		if u.discover != nil {
			u.discover(w, r, m)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, unknownMethod(m))
	case "initialize":
		if u.initialize != nil {
			u.initialize(string(m.params))
		}
		if u.session != "" {
			w.Header().Set("Mcp-Session-Id", u.session)
		}
		u.answer(w, m, u.introduction)
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case "tools/list":
		tools := `{"tools":[{"name":"echo"}]}`
		if u.tools != nil {
			tools = *u.tools.Load()
		}
		u.answer(w, m, tools)
	default:
		select {
		case u.seen <- m:
		default:
		}
		if m.method == "" && u.reply != nil {
			u.reply(m)
		}
		if m.method == "" || m.method == "notifications/cancelled" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		u.mu.Lock()
		script := u.script
		u.mu.Unlock()
		script(w, r, m)
	}
}

func (u *upstream) answer(w http.ResponseWriter, m message, result string) {
	if u.sse {
		events(w, response(m, result))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, response(m, result))
}

func response(m message, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.id) + `,"result":` + result + `}`
}

func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		io.WriteString(w, "event: message\ndata: "+d+"\n\n")
		w.(http.Flusher).Flush()
	}
}

func (u *upstream) open(t *testing.T, opts Options) (*HTTP, broker.Conn) {
	t.Helper()
	h := NewHTTP(HTTPConfig{URL: u.URL, Headers: map[string]string{"X-Key": "hunter22"}}, opts)
	c, err := h.Open(t.Context(), nil)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return h, c
}

func TestHTTPKeepsParamsAndResult(t *testing.T) {
	for name, sse := range map[string]bool{"json": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "s1", nil)
			u.sse = sse
			u.script = func(w http.ResponseWriter, r *http.Request, m message) {
				if s := r.Header.Get("Mcp-Session-Id"); s != "s1" {
					t.Errorf("session %q", s)
				}
				if v := r.Header.Get("Mcp-Protocol-Version"); v != "2025-11-25" {
					t.Errorf("version %q", v)
				}
				if r.Header.Get("X-Key") != "hunter22" || r.Header.Get("Idempotency-Key") != "" {
					t.Errorf("headers %v", r.Header)
				}
				u.answer(w, m, string(m.params))
			}
			_, c := u.open(t, Options{})
			const p = `{"name":"echo", "arguments":{"z":1,"a":12345678901234567890,"f":1.0e+2,"s":"\u003c<"},"unknown":null}`
			for range 3 {
				a, err := c.Call(t.Context(), call(p), broker.Peer{})
				if err != nil || string(a.Result) != p {
					t.Fatalf("result %s, %v", a.Result, err)
				}
				if a.RuntimeID == "" || a.RuntimeID != c.Incarnation().RuntimeID || c.Incarnation().Reported {
					t.Errorf("identity: %q", a.RuntimeID)
				}
			}
			c.Close(t.Context())
			if len(u.deleted) != 1 || u.deleted[0] != "s1 hunter22" {
				t.Errorf("deleted: %q", u.deleted)
			}
		})
	}
}

func TestHTTPResultIsKeptByteForByte(t *testing.T) {
	u := newUpstream(t, "", nil)
	u.script = func(w http.ResponseWriter, _ *http.Request, m message) { u.answer(w, m, rich) }
	_, c := u.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || string(a.Result) != rich {
		t.Errorf("result %s, %v", a.Result, err)
	}
}

func TestAStatelessServerHasNoIdentity(t *testing.T) {
	u := newUpstream(t, "", nil)
	u.script = func(w http.ResponseWriter, _ *http.Request, m message) { u.answer(w, m, `{}`) }
	_, c := u.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || a.RuntimeID != "" || c.Incarnation().RuntimeID != "" {
		t.Errorf("answer %+v, %v", a, err)
	}
	c.Close(t.Context())
	if len(u.deleted) != 0 {
		t.Errorf("deleted: %q", u.deleted)
	}
}

func TestHTTPErrorComesBackAsItCame(t *testing.T) {
	const object = `{ "code":-32042,"own":[],"message":"no","data":{"z":12345678901234567890}}`
	for name, status := range map[string]int{"with 200": 200, "with 500": 500, "with 400": 400} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "", func(w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.id)+`,"error":`+object+`}`)
			})
			_, c := u.open(t, Options{})
			a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
			if err != nil || a.Error == nil || a.Error.Code != -32042 || string(a.Error.Data) != `{"z":12345678901234567890}` || string(a.Error.Object()) != object {
				t.Errorf("answer %+v, %v", a.Error, err)
			}
		})
	}
}

func TestHTTPProgressAndNoiseOnTheStream(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
		token := member(m.params, "_meta", "progressToken")
		note := func(token []byte, i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i)
		}
		events(w)
		io.WriteString(w, ": a comment\n\n")
		events(w,
			note(token, 1), note([]byte(`"other"`), 8), note([]byte("424242"), 9), note(token, 2),
			"broken", `{"jsonrpc":"2.0","id":424242,"result":{"wrong":true}}`,
			`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/message"}`,
			"{\"jsonrpc\":\"2.0\",\ndata: \"id\":"+string(m.id)+`,"result":{"right":true}}`,
			note(token, 3))
	})
	h, c := u.open(t, Options{})
	cl := call(`{"name":"x"}`)
	cl.WantProgress = true
	var got []string
	a, err := c.Call(t.Context(), cl, broker.Peer{Progress: func(p broker.Progress) { got = append(got, string(p.Params)) }})
	if err != nil || string(a.Result) != `{"right":true}` {
		t.Fatalf("answer %s, %v", a.Result, err)
	}
	if strings.Join(got, " ") != `{"progress":1} {"progress":2}` {
		t.Errorf("progress: %q", got)
	}
	<-u.seen // the call
	reply := <-u.seen
	if string(reply.id) != `"q"` || !strings.Contains(string(reply.err), "cannot be asked for roots") {
		t.Errorf("reply: %s %s", reply.id, reply.err)
	}
	want := Noise{Broken: 2, Unknown: 1, Notifications: 1, LateProgress: 1, Requests: 1}
	if n := h.Noise(); n != want {
		t.Errorf("noise\n got %+v\nwant %+v", n, want)
	}
}

func TestHTTPConnectionsAreUsedAgain(t *testing.T) {
	for name, sse := range map[string]bool{"json": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "s", nil)
			u.sse = sse
			u.script = func(w http.ResponseWriter, _ *http.Request, m message) { u.answer(w, m, `{}`) }
			_, c := u.open(t, Options{})
			for range 100 {
				if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
					t.Fatal(err)
				}
			}
			// The rest of a stream is read in the background, so a call may find
			// its connection not free yet; a new one for each is what must not be.
			if n := u.conns.Load(); n > 30 {
				t.Errorf("%d connections for 100 calls", n)
			}
		})
	}
}

func TestStatusOfACall(t *testing.T) {
	for name, tc := range map[string]struct {
		session          string
		status           int
		dispatched, gone bool
		cause            string
		code             broker.Code // that a caller gets; the verb writes
	}{
		"lost session":         {"s", 404, false, true, "lost our session", broker.CodeBackendUnavailable},
		"404 without session":  {"", 404, true, false, "HTTP 404", broker.CodeOutcomeUnknown},
		"credentials":          {"s", 401, true, true, "credentials (HTTP 401)", broker.CodeBackendRefused},
		"forbidden":            {"s", 403, true, false, "forbids", broker.CodeBackendRefused},
		"server error":         {"s", 503, true, false, "HTTP 503", broker.CodeOutcomeUnknown},
		"redirect":             {"s", 307, true, false, "redirect (HTTP 307)", broker.CodeOutcomeUnknown},
		"accepted, no answer":  {"s", 202, true, false, "without JSON", broker.CodeOutcomeUnknown},
		"bad gateway, no life": {"", 502, true, false, "HTTP 502", broker.CodeOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			var elsewhere atomic.Bool
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
			defer other.Close()
			u := newUpstream(t, tc.session, func(w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Location", other.URL)
				w.WriteHeader(tc.status)
			})
			_, c := u.open(t, Options{})
			write := call(`{}`)
			write.Backend, write.Effects = "b", broker.Write
			_, err := c.Call(t.Context(), write, broker.Peer{})
			got := failure(t, err)
			if got.Dispatched != tc.dispatched || got.Gone != tc.gone || !strings.Contains(got.Cause, tc.cause) {
				t.Errorf("failure: %+v", got)
			}
			r := got.Refuse(write)
			if status := r.Detail["http_status"]; r.Code != tc.code || r.Code == broker.CodeBackendRefused && (status != tc.status || r.Detail["outcome_unknown"] != true || r.Detail["backend"] != "b") {
				t.Errorf("the caller gets %s", r.JSON())
			}
			if over := hopOf(c).life.over(); over != tc.gone {
				t.Errorf("the life is over: %v", over)
			}
			if elsewhere.Load() {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestALostSessionEndsTheLifeAndOpenStartsANewOne(t *testing.T) {
	u := newUpstream(t, "first", nil)
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Header.Get("Mcp-Session-Id") != "second" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		u.answer(w, m, `{}`)
	}
	h, c := u.open(t, Options{})
	c.Call(t.Context(), call(`{}`), broker.Peer{})
	<-c.Incarnation().Done
	if why := c.Incarnation().Cause(); !strings.Contains(why, "lost our session") {
		t.Errorf("cause: %s", why)
	}
	_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || !got.Gone {
		t.Errorf("the next call: %+v", got)
	}
	c.Close(t.Context())
	if len(u.deleted) != 0 {
		t.Errorf("a lost session was deleted: %q", u.deleted)
	}
	u.session = "second"
	next, err := h.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close(context.Background())
	if _, err := next.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
		t.Error(err)
	}
	if next.Incarnation().RuntimeID == c.Incarnation().RuntimeID {
		t.Error("two sessions have one runtime id")
	}
}

func TestA400EndsTheLifeOnlyIfAPingIsRefusedToo(t *testing.T) {
	for name, lost := range map[string]bool{"unknown session": true, "bad request": false} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
				if m.method == "ping" && !lost {
					events(w, response(m, `{}`))
					return
				}
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
			})
			_, c := u.open(t, Options{})
			_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
			if got := failure(t, err); !got.Dispatched || got.Gone || !strings.Contains(got.Cause, "No valid session") {
				t.Errorf("failure: %+v", got)
			}
			if lost {
				<-c.Incarnation().Done
				return
			}
			hopOf(c).helpersW.Wait()
			if hopOf(c).life.over() {
				t.Error("the life is over")
			}
		})
	}
}

func TestHTTPOpenRefusals(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"key hunter22 of tok3n is wrong"}}`)
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		url     string
		auth    bool
		cause   string
	}{
		"401":        {handler: status(401), auth: true, cause: "HTTP 401"},
		"403":        {handler: status(403), auth: true, cause: "HTTP 403"},
		"404":        {handler: status(404), cause: "HTTP 404"},
		"405":        {handler: status(405), cause: "HTTP 405"},
		"redirect":   {handler: status(301), cause: "redirect"},
		"no MCP":     {handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, cause: "without JSON"},
		"scheme":     {url: "ftp://user:tok3n@host/", cause: "http or https"},
		"no address": {url: "http://user:tok3n@[::1", cause: "http or https"},
		"other answer": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":77,"result":{}}`)
		}, cause: "another request"},
	} {
		t.Run(name, func(t *testing.T) {
			at := tc.url
			if at == "" {
				s := httptest.NewServer(tc.handler)
				defer s.Close()
				at = strings.Replace(s.URL, "http://", "http://user:tok3n@", 1) + "/?key=querysecret"
			}
			hide := strings.NewReplacer("hunter22", "*", "tok3n", "*", "querysecret", "*")
			_, err := NewHTTP(HTTPConfig{URL: at, Headers: map[string]string{"X-Key": "hunter22"}}, Options{Redact: hide.Replace}).Open(t.Context(), nil)
			var open *broker.OpenError
			if !errors.As(err, &open) || open.Auth != tc.auth || !strings.Contains(open.Cause, tc.cause) {
				t.Fatalf("Open: %#v", err)
			}
			for _, secret := range []string{"hunter22", "tok3n", "querysecret"} {
				if strings.Contains(open.Cause, secret) {
					t.Errorf("the cause holds %s: %s", secret, open.Cause)
				}
			}
		})
	}
}

func TestHTTPUserinfoBecomesBasicAuthenticationUnlessAHeaderIsConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		headers map[string]string
		want    string
	}{
		"userinfo alone": {nil, "Basic dTpw"},
		"a header too":   {map[string]string{"authorization": "Bearer x"}, "Bearer x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			u := newUpstream(t, "", nil)
			u.script = func(w http.ResponseWriter, r *http.Request, m message) {
				got <- r.Header.Get("Authorization")
				u.answer(w, m, `{}`)
			}
			conn, err := NewHTTP(HTTPConfig{URL: strings.Replace(u.URL, "http://", "http://u:p@", 1), Headers: c.headers}, Options{}).Open(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			if _, err := conn.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
				t.Fatal(err)
			}
			if header := <-got; header != c.want {
				t.Errorf("Authorization: %q", header)
			}
		})
	}
}

func TestHTTPRequestWithoutBodySaysNothingOfContent(t *testing.T) {
	h := NewHTTP(HTTPConfig{URL: "http://127.0.0.1:1/"}, Options{})
	c, err := h.newConn(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.cancel()
	for method, body := range map[string][]byte{http.MethodDelete: nil, http.MethodPost: []byte(`{}`)} {
		req := c.newRequest(t.Context(), method, body, nil)
		if got := req.Header.Get("Content-Type"); (got != "") != (body != nil) {
			t.Errorf("%s: content type %q", method, got)
		}
		if req.GetBody != nil {
			t.Errorf("%s can be sent twice", method)
		}
	}
}

// A Berth's sessions outlive it: the header alone tells that another life
// answers. Its answer says so, and ours is over.
func TestHTTPAnswerOfAnotherLifeEndsOurs(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.id)+`,"result":{}}`)
	})
	u.life.Store("first")
	_, c := u.open(t, Options{})
	if inc := c.Incarnation(); inc.RuntimeID != "first" || !inc.Reported {
		t.Fatalf("%+v", inc)
	}
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || a.RuntimeID != "first" {
		t.Fatalf("%+v, %v", a, err)
	}
	u.life.Store("second")
	if a, err = c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil || a.RuntimeID != "second" {
		t.Fatalf("%+v, %v", a, err)
	}
	<-c.Incarnation().Done
}
