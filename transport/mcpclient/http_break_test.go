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

func TestNothingListensIsNotDispatched(t *testing.T) {
	u := newUpstream(t, "s", nil)
	h, c := u.open(t, Options{})
	hopOf(c).base.CloseIdleConnections() // else the call may be faster than the news
	u.Server.Close()
	_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || !got.Gone || strings.Contains(got.Cause, u.URL) {
		t.Errorf("failure: %+v", got)
	}
	<-c.Incarnation().Done
	_, err = h.Open(t.Context(), nil)
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
	base := hopOf(c).base
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
		if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
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
	listening := make(chan struct{})
	u.get = func(w http.ResponseWriter, r *http.Request) { // keeps its connection, so that none is idle
		close(listening)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	_, c := u.open(t, Options{})
	<-listening
	base := hopOf(c).base
	base.CloseIdleConnections()
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialWire(ctx, network, address)
		if err == nil {
			conn.(*wire).seal(0)
		}
		return conn, err
	}
	_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
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
			_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
			if got := failure(t, err); !got.Dispatched || got.Gone || got.Abandoned || got.Refusal != nil {
				t.Errorf("failure: %+v", got)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls arrived", calls.Load())
			}
			if hopOf(c).life.over() {
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
			_, err := c.Call(t.Context(), call(`{"name":"big"}`), broker.Peer{})
			if got := failure(t, err); got.Refusal == nil || got.Refusal.Code != broker.CodeAnswerTooLarge || got.Gone {
				t.Errorf("failure: %+v", got)
			}
			if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil {
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
				a, err := c.Call(ctx, call(`{}`), broker.Peer{})
				done <- outcome{a, err}
			}()
			called := <-u.seen
			cancel()
			note := <-u.seen
			id := member(note.params, "requestId")
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
	hopOf(c).base.CloseIdleConnections()
	dialling, once := make(chan struct{}), sync.Once{}
	hopOf(c).base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		once.Do(func() { close(dialling) }) // the DELETE dials too
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-dialling; cancel() }()
	_, err := c.Call(ctx, call(`{}`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || got.Gone || got.Abandoned {
		t.Errorf("failure: %+v", got)
	}
	// Nor does the DELETE wait for a connection longer than Close may.
	if err := c.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-hopOf(c).finished
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
		_, err := c.Call(t.Context(), call(`{"slow":true}`), broker.Peer{})
		done <- err
	}()
	<-u.seen
	if _, err := c.Call(t.Context(), call(`{}`), broker.Peer{}); err != nil { // another is not delayed
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
	_, err := NewHTTP(HTTPConfig{URL: s.URL}, Options{OpenTimeout: 50 * time.Millisecond}).Open(t.Context(), nil)
	var open *broker.OpenError
	if !errors.As(err, &open) || !strings.Contains(open.Cause, "in time") {
		t.Errorf("Open: %v", err)
	}
}

func TestAStreamThatTheBackendEndedIsResumed(t *testing.T) {
	var answered message
	u := newUpstream(t, "s", nil)
	u.get = func(w http.ResponseWriter, r *http.Request) {
		switch id := r.Header.Get("Last-Event-ID"); {
		case id == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case id != "e7" || r.Header.Get("Mcp-Session-Id") != "s":
			t.Errorf("headers: %v", r.Header)
		default:
			events(w, response(answered, `{"resumed":true}`))
		}
	}
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		answered = m
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: e7\nretry: 1\ndata:\n\n")
	}
	_, c := u.open(t, Options{})
	a, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
	if err != nil || string(a.Result) != `{"resumed":true}` {
		t.Errorf("answer %s, %v", a.Result, err)
	}
}

func TestAStreamWithoutAnAnswerIsDispatched(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, _ message) { events(w) })
	_, c := u.open(t, Options{})
	_, err := c.Call(t.Context(), call(`{}`), broker.Peer{})
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
		_, err := c.Call(context.Background(), call(`{}`), broker.Peer{})
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
	_, err := c.Call(t.Context(), call(`{"a":`), broker.Peer{})
	if got := failure(t, err); got.Dispatched || got.Gone {
		t.Errorf("failure: %+v", got)
	}
}

func TestA400ToAMethodThatTheProtocolDoesNotNameSaysThatItIsUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		method, session, body string
		lost                  bool
		answer                string // the code; "" is a failure
	}{
		"unknown method":           {method: "acme/do", session: "s", body: "not handled", answer: "-32601"},
		"known method":             {method: "tools/call", session: "s", body: "not handled"},
		"no session":               {method: "acme/do", body: "not handled"},
		"unknown session":          {method: "acme/do", session: "s", body: "not handled", lost: true},
		"the backend says another": {method: "acme/do", session: "s", body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"too long"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, tc.session, func(w http.ResponseWriter, _ *http.Request, m message) {
				if m.method == "ping" && !tc.lost {
					events(w, response(m, `{}`))
					return
				}
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, tc.body)
			})
			_, c := u.open(t, Options{})
			request := call(`{}`)
			request.Method = tc.method
			a, err := c.Call(t.Context(), request, broker.Peer{})
			switch {
			case tc.answer == "":
				if got := failure(t, err); !got.Dispatched {
					t.Errorf("failure: %+v", got)
				}
			case err != nil || a.Error == nil || fmt.Sprint(a.Error.Code) != tc.answer:
				t.Errorf("answer %s %+v, %v", a.Result, a.Error, err)
			}
			if hopOf(c).helpersW.Wait(); hopOf(c).life.over() != tc.lost {
				t.Errorf("the life is over: %v", !tc.lost)
			}
		})
	}
}
