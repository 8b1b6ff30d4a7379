package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// issuer gives numbered tokens.
type issuer struct {
	runs  atomic.Int64
	hold  chan struct{} // nil: at once
	began chan struct{} // nil: nobody wants to know
	fail  atomic.Pointer[HeadersError]
}

func (i *issuer) give(ctx context.Context) (map[string]string, error) {
	n := i.runs.Add(1)
	if i.began != nil {
		i.began <- struct{}{}
	}
	if i.hold != nil {
		select {
		case <-i.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := i.fail.Load(); err != nil {
		return nil, err
	}
	return map[string]string{"authorization": fmt.Sprint("token-", n)}, nil
}

func TestFreshHeadersAreGivenOnceUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i issuer
		f := newFresh(HTTPConfig{Fresh: i.give, FreshTTL: time.Minute})
		get := func(want string) *credentials {
			t.Helper()
			c, err := f.get(t.Context())
			if err != nil || c.header.Get("Authorization") != want {
				t.Fatalf("got %v, error %v, want %s", c, err, want)
			}
			return c
		}
		first := get("token-1")
		<-time.After(time.Minute - 1)
		get("token-1")
		<-time.After(1)
		second := get("token-2")
		if f.answered(second, http.StatusOK) || f.answered(second, http.StatusInternalServerError) {
			t.Error("an answer ended them")
		}
		get("token-2")
		// Many requests that had them are turned away: one run.
		for range 3 {
			if !f.answered(second, http.StatusUnauthorized) {
				t.Error("headers that were good have not expired")
			}
		}
		third := get("token-3")
		if f.answered(second, http.StatusUnauthorized); get("token-3") != third {
			t.Error("a late refusal of old headers ended the new ones")
		}
		f.answered(first, http.StatusForbidden)
		if f.answered(third, http.StatusForbidden) {
			t.Error("headers that were never good have expired")
		}
		get("token-4")
	})
}

func TestFreshHeadersAreSharedByAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuer{hold: make(chan struct{})}
		f := newFresh(HTTPConfig{Fresh: i.give})
		var got sync.WaitGroup
		for range 20 {
			got.Go(func() {
				if c, err := f.get(t.Context()); err != nil || c.header.Get("Authorization") != "token-1" {
					t.Errorf("got %v, error %v", c, err)
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, err := f.get(ctx); left <- err }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("one that left: %v", err)
		}
		close(i.hold)
		got.Wait()
		if n := i.runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

func TestAnAttemptEndsWhenNobodyWaitsAndTheNextBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuer{hold: make(chan struct{})}
		f := newFresh(HTTPConfig{Fresh: i.give})
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, err := f.get(ctx); left <- err }()
		synctest.Wait()
		cancel()
		<-left
		close(i.hold)
		if c, err := f.get(t.Context()); err != nil || c.header.Get("Authorization") != "token-2" {
			t.Errorf("got %v, error %v", c, err)
		}
		if f.last().header.Get("Authorization") != "token-2" {
			t.Error("an attempt that was given up has the last word")
		}
	})
}

func TestAFailureStandsForAMomentAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i issuer
		i.fail.Store(&HeadersError{Cause: "it is broken"})
		f := newFresh(HTTPConfig{Fresh: i.give})
		for range 5 {
			if _, err := f.get(t.Context()); err == nil || err.Error() != "it is broken" {
				t.Fatal(err)
			}
		}
		if n := i.runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
		i.fail.Store(nil)
		<-time.After(failurePause)
		if _, err := f.get(t.Context()); err != nil || i.runs.Load() != 2 {
			t.Errorf("error %v after %d runs", err, i.runs.Load())
		}
	})
}

// bouncer is a server that accepts one token. Its sessions outlive a token.
type bouncer struct {
	*httptest.Server
	accepts   atomic.Pointer[string]
	stateless bool
	status    atomic.Int64 // with which it turns away

	mu   sync.Mutex
	seen []string // method and token of each request
}

func newBouncer(t *testing.T, stateless bool, accepts string) *bouncer {
	b := &bouncer{stateless: stateless}
	b.accepts.Store(&accepts)
	b.status.Store(http.StatusUnauthorized)
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bouncer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&m) // a GET has none
	token := r.Header.Get("Authorization")
	b.mu.Lock()
	b.seen = append(b.seen, strings.TrimSpace(m.Method+" "+token))
	b.mu.Unlock()
	if token != *b.accepts.Load() {
		w.WriteHeader(int(b.status.Load()))
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"tools":[{"name":"go"}],"content":[],"resultType":"complete"}`
	switch {
	case m.Method == "server/discover" && b.stateless:
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"resultType":"complete"}`
	case m.Method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
		return
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// counts gives how often a request came with each token.
func (b *bouncer) counts(method string) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[string]int{}
	for _, s := range b.seen {
		if m, token, ok := strings.Cut(s, " "); ok && m == method {
			n[token]++
		}
	}
	return n
}

func goCall() *broker.Call {
	return &broker.Call{Backend: "up", Verb: "up__go", Effects: broker.Write, Method: "tools/call", Params: json.RawMessage(`{"name":"go"}`)}
}

// A token that ends in the middle of a life costs one call, which is refused
// and not sent again; the life goes on with the next token.
func TestATokenThatEndsCostsOneCallAndNotTheLife(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			t.Run(fmt.Sprintf("stateless %v, %d", stateless, status), func(t *testing.T) {
				var i issuer
				b := newBouncer(t, stateless, "token-1")
				b.status.Store(int64(status))
				h := NewHTTP(HTTPConfig{URL: b.URL, Headers: map[string]string{"Authorization": "static"}, Fresh: i.give}, Options{})
				conn, err := h.Open(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				life := conn.Incarnation()
				if _, err := conn.Call(t.Context(), goCall(), broker.Peer{}); err != nil {
					t.Fatal(err)
				}
				next := "token-2"
				b.accepts.Store(&next)
				_, err = conn.Call(t.Context(), goCall(), broker.Peer{})
				var f *broker.Failure
				if !errors.As(err, &f) || f.Gone || f.Refusal == nil || f.Refusal.Code != broker.CodeBackendRefused {
					t.Fatalf("the call with the old token: %+v", err)
				}
				if _, err = conn.Call(t.Context(), goCall(), broker.Peer{}); err != nil {
					t.Fatalf("the call after it: %v", err)
				}
				select {
				case <-life.Done:
					t.Error("the life ended: " + life.Cause())
				default:
				}
				if n := b.counts("tools/call"); n["token-1"] != 2 || n["token-2"] != 1 || len(n) != 2 || i.runs.Load() != 2 {
					t.Errorf("calls by token: %v, %d runs", n, i.runs.Load())
				}
			})
		}
	}
}

func TestATokenThatWasNeverAcceptedEndsTheLife(t *testing.T) {
	var i issuer
	b := newBouncer(t, false, "token-1")
	h := NewHTTP(HTTPConfig{URL: b.URL, Fresh: i.give}, Options{})
	conn, err := h.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	none := "nobody's"
	b.accepts.Store(&none)
	for n, gone := range []bool{false, true} {
		_, err = conn.Call(t.Context(), goCall(), broker.Peer{})
		var f *broker.Failure
		if !errors.As(err, &f) || f.Gone != gone || f.Refusal == nil || f.Refusal.Code != broker.CodeBackendRefused {
			t.Errorf("call %d: %+v", n+1, err)
		}
	}
	// The next life asks once more, and is turned away like any other.
	_, err = h.Open(t.Context(), nil)
	var open *broker.OpenError
	if !errors.As(err, &open) || !open.Auth || i.runs.Load() != 3 {
		t.Errorf("%+v after %d runs", err, i.runs.Load())
	}
}

// A life that begins with a token from before finds out at its first request,
// and begins again: the era must not depend on it.
func TestALifeThatBeginsWithAnOldTokenBeginsAgain(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			t.Run(fmt.Sprintf("stateless %v, %d", stateless, status), func(t *testing.T) {
				var i issuer
				b := newBouncer(t, stateless, "token-1")
				b.status.Store(int64(status))
				h := NewHTTP(HTTPConfig{URL: b.URL, Fresh: i.give}, Options{})
				conn, err := h.Open(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				was := conn.Incarnation().Server.ProtocolVersion
				if err := conn.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				next := "token-2"
				b.accepts.Store(&next)
				if conn, err = h.Open(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				if is := conn.Incarnation().Server.ProtocolVersion; is != was || i.runs.Load() != 2 {
					t.Errorf("version %s, then %s; %d runs", was, is, i.runs.Load())
				}
				if n := b.counts("server/discover"); n["token-1"] != 2 || n["token-2"] != 1 {
					t.Errorf("first requests by token: %v", n)
				}
			})
		}
	}
}

func TestACallWithoutHeadersIsNotSent(t *testing.T) {
	var i issuer
	b := newBouncer(t, false, "token-1")
	h := NewHTTP(HTTPConfig{URL: b.URL, Fresh: i.give}, Options{Redact: func(s string) string { return strings.ReplaceAll(s, "s3cr3t", "***") }})
	conn, err := h.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	i.fail.Store(&HeadersError{Cause: "the command ended with s3cr3t", Stderr: "no s3cr3t today"})
	h.fresh.answered(h.fresh.last(), http.StatusUnauthorized)
	_, err = conn.Call(t.Context(), goCall(), broker.Peer{})
	var f *broker.Failure
	if !errors.As(err, &f) || f.Dispatched || f.Gone || f.Cause != "the command ended with ***" || f.Stderr != "no *** today" {
		t.Errorf("%+v", err)
	}
	if r := f.Refuse(goCall()); r.Code != broker.CodeBackendUnavailable {
		t.Errorf("%+v", r)
	}
	if n := b.counts("tools/call"); len(n) != 0 {
		t.Errorf("sent: %v", n)
	}
	_, err = h.Open(t.Context(), nil)
	var open *broker.OpenError
	if !errors.As(err, &open) || open.Auth || open.Cause != "the command ended with ***" || open.Stderr != "no *** today" {
		t.Errorf("a life without headers: %+v", err)
	}
}

// A call that is cancelled while it waits for headers has not been sent.
func TestACallIsCancelledWhileItWaitsForHeaders(t *testing.T) {
	i := issuer{hold: make(chan struct{}, 1), began: make(chan struct{}, 2)}
	i.hold <- struct{}{}
	b := newBouncer(t, false, "token-1")
	h := NewHTTP(HTTPConfig{URL: b.URL, Fresh: i.give}, Options{})
	conn, err := h.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	h.fresh.answered(h.fresh.last(), http.StatusUnauthorized)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	<-i.began
	go func() { _, err := conn.Call(ctx, goCall(), broker.Peer{}); ended <- err }()
	<-i.began
	cancel()
	var f *broker.Failure
	if err := <-ended; !errors.As(err, &f) || f.Dispatched {
		t.Errorf("%+v", err)
	}
	if n := b.counts("tools/call"); len(n) != 0 {
		t.Errorf("sent: %v", n)
	}
}
