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
	"time"

	"berth/broker"
)

// upstream is a streamable HTTP server whose answers a test decides.
type upstream struct {
	*httptest.Server
	session string // empty: stateless
	sse     bool   // the handshake's answers come as a stream

	mu      sync.Mutex
	script  func(w http.ResponseWriter, r *http.Request, m message)
	deleted []string
	conns   atomic.Int64
	seen    chan message // what is no part of the handshake
}

func newUpstream(t *testing.T, session string, script func(w http.ResponseWriter, r *http.Request, m message)) *upstream {
	u := &upstream{session: session, script: script, seen: make(chan message, 100)}
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
	if r.Method == http.MethodDelete {
		u.mu.Lock()
		u.deleted = append(u.deleted, r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("X-Key"))
		u.mu.Unlock()
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := decodeMessage(body)
	if r.Method == http.MethodPost && err != nil {
		http.Error(w, "not JSON-RPC", http.StatusBadRequest)
		return
	}
	switch m.method {
	case "initialize":
		if u.session != "" {
			w.Header().Set("Mcp-Session-Id", u.session)
		}
		u.answer(w, m, plainIntroduction)
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case "tools/list":
		u.answer(w, m, `{"tools":[{"name":"echo"}]}`)
	default:
		select {
		case u.seen <- m:
		default:
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
	c, err := h.Open(t.Context())
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
			// mcp-go encodes the params again: white space and escapes that mean
			// nothing may change, so the sample has none of its own choice.
			const p = `{"name":"echo","arguments":{"z":1,"a":12345678901234567890,"f":1.0e+2,"s":"\u003c"},"unknown":null}`
			for range 3 {
				a, err := c.Call(t.Context(), call(p), nil)
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
	a, err := c.Call(t.Context(), call(`{}`), nil)
	if err != nil || string(a.Result) != rich {
		t.Errorf("result %s, %v", a.Result, err)
	}
}

func TestAStatelessServerHasNoIdentity(t *testing.T) {
	u := newUpstream(t, "", nil)
	u.script = func(w http.ResponseWriter, _ *http.Request, m message) { u.answer(w, m, `{}`) }
	_, c := u.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), nil)
	if err != nil || a.RuntimeID != "" || c.Incarnation().RuntimeID != "" {
		t.Errorf("answer %+v, %v", a, err)
	}
	c.Close(t.Context())
	if len(u.deleted) != 0 {
		t.Errorf("deleted: %q", u.deleted)
	}
}

func TestHTTPErrorDataComesBackRaw(t *testing.T) {
	for name, status := range map[string]int{"with 200": 200, "with 500": 500, "with 400": 400} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "", func(w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.id)+`,"error":{"code":-32042,"message":"no","data":{"z":12345678901234567890}}}`)
			})
			_, c := u.open(t, Options{})
			a, err := c.Call(t.Context(), call(`{}`), nil)
			if err != nil || a.Error == nil || a.Error.Code != -32042 || string(a.Error.Data) != `{"z":12345678901234567890}` {
				t.Errorf("answer %+v, %v", a.Error, err)
			}
		})
	}
}

func TestHTTPProgressAndNoiseOnTheStream(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
		meta, _, _, _ := get(m.params, "_meta")
		token, _, _, _ := get(meta, "progressToken")
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
	a, err := c.Call(t.Context(), cl, func(p broker.Progress) { got = append(got, string(p.Params)) })
	if err != nil || string(a.Result) != `{"right":true}` {
		t.Fatalf("answer %s, %v", a.Result, err)
	}
	if strings.Join(got, " ") != `{"progress":1} {"progress":2}` {
		t.Errorf("progress: %q", got)
	}
	<-u.seen // the call
	reply := <-u.seen
	if string(reply.id) != `"q"` || !strings.Contains(string(reply.err), "-32601") {
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
				if _, err := c.Call(t.Context(), call(`{}`), nil); err != nil {
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
	}{
		"lost session":         {"s", 404, false, true, "lost our session"},
		"404 without session":  {"", 404, true, false, "HTTP 404"},
		"credentials":          {"s", 401, false, true, "credentials (HTTP 401)"},
		"forbidden":            {"s", 403, false, false, "forbids"},
		"server error":         {"s", 503, true, false, "HTTP 503"},
		"redirect":             {"s", 307, true, false, "redirect (HTTP 307)"},
		"accepted, no answer":  {"s", 202, true, false, "without JSON"},
		"bad gateway, no life": {"", 502, true, false, "HTTP 502"},
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
			_, err := c.Call(t.Context(), call(`{}`), nil)
			got := failure(t, err)
			if got.Dispatched != tc.dispatched || got.Gone != tc.gone || !strings.Contains(got.Cause, tc.cause) {
				t.Errorf("failure: %+v", got)
			}
			if over := c.(*httpConn).life.over(); over != tc.gone {
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
	c.Call(t.Context(), call(`{}`), nil)
	<-c.Incarnation().Done
	if why := c.Incarnation().Cause(); !strings.Contains(why, "lost our session") {
		t.Errorf("cause: %s", why)
	}
	_, err := c.Call(t.Context(), call(`{}`), nil)
	if got := failure(t, err); got.Dispatched || !got.Gone {
		t.Errorf("the next call: %+v", got)
	}
	c.Close(t.Context())
	if len(u.deleted) != 0 {
		t.Errorf("a lost session was deleted: %q", u.deleted)
	}
	u.session = "second"
	next, err := h.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close(context.Background())
	if _, err := next.Call(t.Context(), call(`{}`), nil); err != nil {
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
			_, err := c.Call(t.Context(), call(`{}`), nil)
			if got := failure(t, err); !got.Dispatched || got.Gone || !strings.Contains(got.Cause, "No valid session") {
				t.Errorf("failure: %+v", got)
			}
			if lost {
				<-c.Incarnation().Done
				return
			}
			c.(*httpConn).helpersW.Wait()
			if c.(*httpConn).life.over() {
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
			_, err := NewHTTP(HTTPConfig{URL: at, Headers: map[string]string{"X-Key": "hunter22"}}, Options{}).Open(t.Context())
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

func TestNothingListensIsNotDispatched(t *testing.T) {
	u := newUpstream(t, "s", nil)
	h, c := u.open(t, Options{})
	c.(*httpConn).base.CloseIdleConnections() // else the call may be faster than the news
	u.Server.Close()
	_, err := c.Call(t.Context(), call(`{}`), nil)
	if got := failure(t, err); got.Dispatched || !got.Gone || strings.Contains(got.Cause, u.URL) {
		t.Errorf("failure: %+v", got)
	}
	<-c.Incarnation().Done
	_, err = h.Open(t.Context())
	var open *broker.OpenError
	if !errors.As(err, &open) || open.Auth || !strings.Contains(open.Cause, "refuses connections") {
		t.Errorf("Open: %v", err)
	}
}

func TestADeadPooledConnectionIsReplacedAndTheCallSentOnce(t *testing.T) {
	var calls atomic.Int64
	u := newUpstream(t, "s", nil)
	u.script = func(w http.ResponseWriter, _ *http.Request, m message) {
		calls.Add(1)
		u.answer(w, m, `{}`)
	}
	_, c := u.open(t, Options{})
	var mu sync.Mutex
	var wires []*wire
	base := c.(*httpConn).base
	base.CloseIdleConnections()
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialWire(ctx, network, address)
		if err == nil {
			mu.Lock()
			wires = append(wires, conn.(*wire))
			mu.Unlock()
		}
		return conn, err
	}
	for n := int64(1); n <= 3; n++ {
		if _, err := c.Call(t.Context(), call(`{}`), nil); err != nil {
			t.Fatal(err)
		}
		if calls.Load() != n {
			t.Errorf("%d calls arrived after %d", calls.Load(), n)
		}
		mu.Lock()
		for _, w := range wires {
			w.seal(w.mark()) // from now on a write fails before a byte has left
		}
		mu.Unlock()
	}
}

func TestAFreshConnectionThatTakesNothingIsNotDispatched(t *testing.T) {
	u := newUpstream(t, "s", nil)
	_, c := u.open(t, Options{})
	base := c.(*httpConn).base
	base.CloseIdleConnections()
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialWire(ctx, network, address)
		if err == nil {
			conn.(*wire).seal(0)
		}
		return conn, err
	}
	_, err := c.Call(t.Context(), call(`{}`), nil)
	if got := failure(t, err); got.Dispatched || got.Gone {
		t.Errorf("failure: %+v", got)
	}
}

func TestAConnectionThatBreaksIsDispatchedAndNoEnd(t *testing.T) {
	for name, partial := range map[string]string{
		"before the first byte": "",
		"in the headers":        "HTTP/1.1 200 OK\r\nContent-Ty",
		"in a JSON body":        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"",
		"in a stream":           "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			u := newUpstream(t, "s", func(w http.ResponseWriter, r *http.Request, m message) {
				calls.Add(1)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, partial)
				conn.(*net.TCPConn).SetLinger(0) // a reset, no end
				conn.Close()
			})
			_, c := u.open(t, Options{})
			_, err := c.Call(t.Context(), call(`{}`), nil)
			if got := failure(t, err); !got.Dispatched || got.Gone || got.Abandoned || got.Refusal != nil {
				t.Errorf("failure: %+v", got)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls arrived", calls.Load())
			}
			if c.(*httpConn).life.over() {
				t.Error("the life is over")
			}
		})
	}
}

func TestHTTPOversizedAnswers(t *testing.T) {
	const limit = 100_000
	big := `"` + strings.Repeat("x", limit) + `"`
	for name, script := range map[string]func(w http.ResponseWriter, m message){
		"json, length known": func(w http.ResponseWriter, m message) {
			body := response(m, big)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			io.WriteString(w, body)
		},
		"json, chunked": func(w http.ResponseWriter, m message) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			io.WriteString(w, response(m, big))
		},
		"an event": func(w http.ResponseWriter, m message) { events(w, response(m, big)) },
		"an event of many lines": func(w http.ResponseWriter, m message) {
			events(w, "{\n"+strings.Repeat("data:"+strings.Repeat(" ", 1000)+"\n", 120)+"data: }")
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "s", nil)
			u.script = func(w http.ResponseWriter, _ *http.Request, m message) {
				if strings.Contains(string(m.params), "big") {
					script(w, m)
					return
				}
				u.answer(w, m, `{}`)
			}
			h, c := u.open(t, Options{MaxAnswer: limit})
			_, err := c.Call(t.Context(), call(`{"name":"big"}`), nil)
			if got := failure(t, err); got.Refusal == nil || got.Refusal.Code != broker.CodeAnswerTooLarge || got.Gone {
				t.Errorf("failure: %+v", got)
			}
			if _, err := c.Call(t.Context(), call(`{}`), nil); err != nil {
				t.Error(err)
			}
			if h.Noise().Oversized != 1 {
				t.Errorf("noise: %+v", h.Noise())
			}
		})
	}
}

func TestHTTPCancelIsSentAndTheGraceKept(t *testing.T) {
	for name, honoured := range map[string]bool{"honoured": true, "ignored": false} {
		t.Run(name, func(t *testing.T) {
			cancelled, over := make(chan struct{}), make(chan struct{})
			u := newUpstream(t, "s", func(w http.ResponseWriter, r *http.Request, m message) {
				select {
				case <-cancelled:
					events(w, response(m, `{"late":true}`))
				case <-over:
				}
			})
			defer close(over)
			grace := 50 * time.Millisecond
			if honoured {
				grace = time.Hour
			}
			_, c := u.open(t, Options{CancelGrace: grace})
			ctx, cancel := context.WithCancel(t.Context())
			type outcome struct {
				a   broker.Answer
				err error
			}
			done := make(chan outcome, 1)
			go func() {
				a, err := c.Call(ctx, call(`{}`), nil)
				done <- outcome{a, err}
			}()
			called := <-u.seen
			cancel()
			note := <-u.seen
			id, _, _, _ := get(note.params, "requestId")
			if note.method != "notifications/cancelled" || string(id) != string(called.id) {
				t.Errorf("note: %s %s", note.method, note.params)
			}
			if honoured {
				close(cancelled)
			}
			got := <-done
			if honoured {
				if got.err != nil || string(got.a.Result) != `{"late":true}` {
					t.Errorf("answer %s, %v", got.a.Result, got.err)
				}
				return
			}
			if f := failure(t, got.err); !f.Dispatched || !f.Abandoned || f.Gone {
				t.Errorf("failure: %+v", f)
			}
		})
	}
}

func TestACallThatWaitsForAConnectionIsNotDispatched(t *testing.T) {
	u := newUpstream(t, "s", nil)
	_, c := u.open(t, Options{})
	c.(*httpConn).base.CloseIdleConnections()
	dialling, once := make(chan struct{}), sync.Once{}
	c.(*httpConn).base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		once.Do(func() { close(dialling) }) // the DELETE dials too
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-dialling; cancel() }()
	_, err := c.Call(ctx, call(`{}`), nil)
	if got := failure(t, err); got.Dispatched || got.Gone || got.Abandoned {
		t.Errorf("failure: %+v", got)
	}
	// Nor does the DELETE wait for a connection longer than Close may.
	if err := c.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-c.(*httpConn).finished
}

func TestSlowHeadersDoNotEndACall(t *testing.T) {
	release := make(chan struct{})
	u := newUpstream(t, "s", nil)
	u.script = func(w http.ResponseWriter, _ *http.Request, m message) {
		if string(m.params) == `{"slow":true}` {
			<-release
		}
		u.answer(w, m, `{}`)
	}
	_, c := u.open(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), call(`{"slow":true}`), nil)
		done <- err
	}()
	<-u.seen
	if _, err := c.Call(t.Context(), call(`{}`), nil); err != nil { // another is not delayed
		t.Error(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnOpenThatGetsNoHeadersEndsInTime(t *testing.T) {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer s.Close()
	defer close(over)
	_, err := NewHTTP(HTTPConfig{URL: s.URL}, Options{OpenTimeout: 50 * time.Millisecond}).Open(t.Context())
	var open *broker.OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Cause, "in time") {
		t.Errorf("Open: %v", err)
	}
}

func TestAStreamThatTheBackendEndedIsResumed(t *testing.T) {
	var answered message
	u := newUpstream(t, "s", nil)
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet {
			if r.Header.Get("Last-Event-ID") != "e7" || r.Header.Get("Mcp-Session-Id") != "s" {
				t.Errorf("headers: %v", r.Header)
			}
			events(w, response(answered, `{"resumed":true}`))
			return
		}
		answered = m
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: e7\nretry: 1\ndata:\n\n")
	}
	_, c := u.open(t, Options{})
	// The GET has no body and so no method; ServeHTTP takes it for a response
	// of ours unless told otherwise.
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			u.script(w, r, message{})
			return
		}
		u.ServeHTTP(w, r)
	})
	a, err := c.Call(t.Context(), call(`{}`), nil)
	if err != nil || string(a.Result) != `{"resumed":true}` {
		t.Errorf("answer %s, %v", a.Result, err)
	}
}

func TestAStreamWithoutAnAnswerIsDispatched(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, _ message) { events(w) })
	_, c := u.open(t, Options{})
	_, err := c.Call(t.Context(), call(`{}`), nil)
	if got := failure(t, err); !got.Dispatched || got.Gone || !strings.Contains(got.Cause, "before its answer was complete") {
		t.Errorf("failure: %+v", got)
	}
}

func TestHTTPCloseFailsWhatRunsAndIsIdempotent(t *testing.T) {
	over := make(chan struct{})
	u := newUpstream(t, "s", func(http.ResponseWriter, *http.Request, message) { <-over })
	defer close(over)
	_, c := u.open(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(context.Background(), call(`{}`), nil)
		done <- err
	}()
	<-u.seen
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := failure(t, <-done); !got.Gone || !got.Dispatched || !strings.Contains(got.Cause, "closed by the broker") {
		t.Errorf("failure: %+v", got)
	}
	if len(u.deleted) != 1 {
		t.Errorf("deleted: %q", u.deleted)
	}
}

func TestHTTPMalformedParamsAreNotDispatched(t *testing.T) {
	u := newUpstream(t, "s", nil)
	_, c := u.open(t, Options{})
	_, err := c.Call(t.Context(), call(`{"a":`), nil)
	if got := failure(t, err); got.Dispatched || got.Gone {
		t.Errorf("failure: %+v", got)
	}
}
