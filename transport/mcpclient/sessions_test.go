package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"berth/broker"
)

// newDual is an upstream of both eras. In a session its tools ask.
func newDual(t *testing.T, session string) (u *upstream, eras chan string) {
	eras = make(chan string, 100)
	var mu sync.Mutex
	waiting, questions := map[string]chan message{}, 0
	u = newUpstream(t, session, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			eras <- "stateless " + m.method
			events(w, response(m, `{"era":"stateless"}`))
			return
		}
		eras <- "session " + m.method
		if m.method != "tools/call" {
			events(w, response(m, `{}`))
			return
		}
		reply := make(chan message, 1)
		mu.Lock()
		questions++
		id := fmt.Sprint(questions)
		waiting[id] = reply
		mu.Unlock()
		events(w, `{"jsonrpc":"2.0","id":`+id+`,"method":"elicitation/create","params":{"message":"name?"}}`)
		select {
		case a := <-reply:
			events(w, response(m, string(a.result)))
		case <-r.Context().Done():
		}
	})
	u.reply = func(m message) {
		mu.Lock()
		defer mu.Unlock()
		waiting[string(m.id)] <- m
	}
	u.discover = func(w http.ResponseWriter, r *http.Request, m message) {
		u.answer(w, m, modern(`{"tools":{}}`))
	}
	return u, eras
}

func TestWhoCanBeAskedGetsASessionOfAnUpstreamOfBothEras(t *testing.T) {
	u, eras := newDual(t, "s")
	_, c := u.open(t, Options{})
	var wg sync.WaitGroup
	for range 8 { // they share the session that the first of them makes
		wg.Go(func() {
			if got := mustCall(t, c, ofEra(false, "tools/call", `{"name":"echo"}`), person(t)); !strings.Contains(got, "Ada") {
				t.Errorf("result %s", got)
			}
		})
	}
	wg.Wait()
	for range 8 {
		if era := <-eras; era != "session tools/call" {
			t.Error(era)
		}
	}
	mute := ofEra(false, "tools/call", `{}`)
	mute.Client.Capabilities = json.RawMessage(`{"experimental":{}}`)
	for name, tc := range map[string]struct {
		call *broker.Call
		peer broker.Peer
		want string
	}{
		"a stateless harness":         {ofEra(true, "tools/call", `{}`), person(t), "stateless tools/call"},
		"a harness that is no asker":  {mute, person(t), "stateless tools/call"},
		"a harness that is not there": {ofEra(false, "tools/call", `{}`), broker.Peer{}, "stateless tools/call"},
		"a list":                      {ofEra(false, "prompts/list", `{}`), person(t), "stateless prompts/list"},
		"a level":                     {ofEra(false, "logging/setLevel", `{"level":"info"}`), person(t), "session logging/setLevel"},
	} {
		t.Run(name, func(t *testing.T) {
			mustCall(t, c, tc.call, tc.peer)
			if era := <-eras; era != tc.want {
				t.Errorf("%s, want %s", era, tc.want)
			}
		})
	}
	c.Close(context.Background())
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.deleted) != 1 {
		t.Errorf("%d sessions were deleted", len(u.deleted))
	}
}

func TestALostSessionBesideAStatelessUpstreamIsMadeAnew(t *testing.T) {
	u, eras := newDual(t, "s")
	_, c := u.open(t, Options{})
	mustCall(t, c, ofEra(false, "tools/call", `{}`), person(t))
	script, lost := u.script, true
	u.mu.Lock()
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		if lost {
			lost = false
			w.WriteHeader(http.StatusNotFound)
			return
		}
		script(w, r, m)
	}
	u.mu.Unlock()
	if got := mustCall(t, c, ofEra(false, "tools/call", `{}`), person(t)); !strings.Contains(got, "Ada") {
		t.Errorf("result %s", got)
	}
	if a, b := <-eras, <-eras; a != "session tools/call" || b != a {
		t.Errorf("%s, %s", a, b)
	}
	select {
	case <-c.Incarnation().Done:
		t.Error("the life is over")
	default:
	}
}

func TestAnUpstreamWithoutSessionsIsAskedForOneOnce(t *testing.T) {
	u, eras := newDual(t, "")
	asked := 0
	u.initialize = func(string) { asked++ }
	_, c := u.open(t, Options{})
	for range 3 {
		mustCall(t, c, ofEra(false, "tools/call", `{}`), person(t))
		if era := <-eras; era != "stateless tools/call" {
			t.Error(era)
		}
	}
	if asked != 1 {
		t.Errorf("initialize was sent %d times", asked)
	}
}

// newKeeper is an upstream of the handshake era. Each initialize begins a
// session, named by what it declared; calls are answered with that.
func newKeeper(t *testing.T) (u *upstream, began chan string) {
	began = make(chan string, 100)
	u = newUpstream(t, "", nil)
	u.initialize = func(params string) {
		declared := string(member(json.RawMessage(params), "capabilities"))
		u.session = declared // initialize is answered by one at a time in these tests
		began <- declared
	}
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		events(w, response(m, fmt.Sprintf(`{"session":%q,"method":%q}`, r.Header.Get("Mcp-Session-Id"), m.method)))
	}
	return u, began
}

func ofModern(method, params, capabilities string) *broker.Call {
	c := ofEra(true, method, params)
	c.Client.Capabilities = json.RawMessage(capabilities)
	return c
}

func TestAStatelessHarnessGetsASessionThatDeclaresWhatItDoes(t *testing.T) {
	u, began := newKeeper(t)
	_, c := u.open(t, Options{})
	shared := <-began
	if shared != clientCapabilities {
		t.Fatalf("the shared session declares %s", shared)
	}
	for _, tc := range []struct {
		name string
		call *broker.Call
		peer broker.Peer
		want string // the session that the call is made in
		new  bool
	}{
		{"nothing", ofModern("tools/call", `{}`, `{}`), person(t), `{}`, true},
		{"nothing, unread", ofModern("tools/call", `{}`, ``), person(t), `{}`, false},
		{"something else", ofModern("prompts/get", `{}`, `{"experimental":{"x":{}}}`), person(t), `{}`, false},
		{"roots", ofModern("tools/call", `{}`, `{"roots":{"listChanged":true}}`), person(t), `{"roots":{}}`, true},
		{"parts", ofModern("resources/read", `{}`, `{"elicitation":{"url":{},"x":1},"sampling":{"tools":{"y":2}}}`), person(t), `{"sampling":{"tools":{}},"elicitation":{"url":{}}}`, true},
		{"the same in another order", ofModern("tools/call", `{}`, `{"sampling":{"tools":{}},"elicitation":{"url":{}}}`), person(t), `{"sampling":{"tools":{}},"elicitation":{"url":{}}}`, false},
		{"everything", ofModern("tools/call", `{}`, clientCapabilities), person(t), shared, false},
		{"a list", ofModern("prompts/list", `{}`, `{}`), person(t), shared, false},
		{"a task", ofModern("tools/call", `{"name":"t","task":{}}`, `{}`), person(t), shared, false},
		{"nobody there", ofModern("tools/call", `{}`, `{}`), broker.Peer{}, shared, false},
		{"the handshake era", ofEra(false, "tools/call", `{}`), person(t), shared, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := mustCall(t, c, tc.call, tc.peer)
			if s, _ := text(json.RawMessage(got), "session"); s != tc.want {
				t.Errorf("session %s, want %s", s, tc.want)
			}
			if fresh := len(began) == 1; fresh != tc.new {
				t.Errorf("a session began: %v", fresh)
			}
			for len(began) > 0 {
				<-began
			}
		})
	}
	c.Close(context.Background())
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.deleted) != 4 {
		t.Errorf("deleted: %q", u.deleted)
	}
}

func TestSessionsBesideTheSharedOneAreBounded(t *testing.T) {
	u, began := newKeeper(t)
	_, c := u.open(t, Options{})
	shared := <-began
	parts := []string{`"roots":{}`, `"sampling":{}`, `"sampling":{"tools":{}}`, `"elicitation":{}`, `"elicitation":{"url":{}}`}
	var last string
	for i := range 1 << len(parts) {
		var declared []string
		for bit, p := range parts {
			if i>>bit&1 == 1 {
				declared = append(declared, p)
			}
		}
		got := mustCall(t, c, ofModern("tools/call", `{}`, `{`+strings.Join(declared, ",")+`}`), person(t))
		last, _ = text(json.RawMessage(got), "session")
	}
	if len(began) != maxSiblings || last != shared {
		t.Errorf("%d sessions began; the last call was made in %s", len(began), last)
	}
}

func TestSessionsBesideTheSharedOneHaveItsLevel(t *testing.T) {
	u, _ := newKeeper(t)
	_, c := u.open(t, Options{})
	levels := func() (in []string) {
		for len(u.seen) > 0 {
			if m := <-u.seen; m.method == "logging/setLevel" {
				level, _ := text(m.params, "level")
				in = append(in, level)
			}
		}
		return in
	}
	mustCall(t, c, ofEra(false, "logging/setLevel", `{"level":"info"}`), person(t))
	mustCall(t, c, ofModern("tools/call", `{}`, `{}`), person(t))
	if got := levels(); !slices.Equal(got, []string{"info", "info"}) { // the shared one's, and the new one's
		t.Errorf("levels %q", got)
	}
	mustCall(t, c, ofEra(false, "logging/setLevel", `{"level":"debug"}`), person(t))
	if got := levels(); !slices.Equal(got, []string{"debug", "debug"}) {
		t.Errorf("levels %q", got)
	}
}

// TestANewSessionOfAnotherLifeEndsThisOne: a backend that was started anew
// between two calls knows the new session and not the shared one; what it
// answers must not pass for the first life's.
func TestANewSessionOfAnotherLifeEndsThisOne(t *testing.T) {
	for name, refuse := range map[string]int{"404": http.StatusNotFound, "400": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			u, began := newKeeper(t)
			_, c := u.open(t, Options{})
			shared := <-began
			mustCall(t, c, ofModern("tools/call", `{}`, `{}`), person(t))
			<-began
			answer, known := u.script, sync.Map{}
			u.mu.Lock()
			u.script = func(w http.ResponseWriter, r *http.Request, m message) {
				session := r.Header.Get("Mcp-Session-Id")
				if _, ok := known.Load(session); !ok {
					w.WriteHeader(refuse)
					return
				}
				answer(w, r, m)
			}
			u.mu.Unlock()
			initialize := u.initialize
			u.initialize = func(params string) {
				initialize(params)
				known.Store(u.session, true)
			}
			_, err := c.Call(t.Context(), ofModern("tools/call", `{}`, `{"roots":{}}`), person(t))
			f := failure(t, err)
			if f.Dispatched || !f.Gone || shared == "" {
				t.Errorf("failure: %+v", f)
			}
			<-c.Incarnation().Done
		})
	}
}

func TestASessionWithAnotherRuntimeIDEndsTheLife(t *testing.T) {
	u, eras := newDual(t, "s")
	u.life.Store("one")
	_, c := u.open(t, Options{})
	if id := c.Incarnation().RuntimeID; id != "one" {
		t.Fatalf("runtime id %q", id)
	}
	u.life.Store("two")
	_, err := c.Call(t.Context(), ofEra(false, "tools/call", `{}`), person(t))
	if f := failure(t, err); f.Dispatched || !f.Gone {
		t.Errorf("failure: %+v", f)
	}
	<-c.Incarnation().Done
	if len(eras) > 0 {
		t.Errorf("the other life got %s", <-eras)
	}
}

func TestASessionThatCannotBeBegunIsNotTriedWithEachCall(t *testing.T) {
	u, eras := newDual(t, "s")
	asked := 0
	inner := u.Config.Handler
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"method":"initialize"`)) {
			asked++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	})
	_, c := u.open(t, Options{})
	for range 3 {
		mustCall(t, c, ofEra(false, "tools/call", `{}`), person(t))
		if era := <-eras; era != "stateless tools/call" {
			t.Error(era)
		}
	}
	if asked != 1 {
		t.Errorf("initialize was sent %d times", asked)
	}
}

func TestWhatIsHeardInASessionBesideTheSharedOne(t *testing.T) {
	u, _ := newKeeper(t)
	heard := make(chan string, 100)
	u.get = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") != `{}` {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		for _, method := range []string{"notifications/resources/updated", "notifications/tasks/status", "notifications/tools/list_changed", "notifications/x"} {
			events(w, `{"jsonrpc":"2.0","method":"`+method+`"}`)
		}
		<-r.Context().Done()
	}
	c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), func(method string, _ json.RawMessage) { heard <- method })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	mustCall(t, c, ofModern("tools/call", `{}`, `{}`), person(t))
	if a, b := <-heard, <-heard; a != "notifications/tools/list_changed" || b != "notifications/x" {
		t.Errorf("heard %s and %s", a, b)
	}
}

// TestBothErasAtOnce: harnesses of both eras call the same upstream, sessions
// are lost under them, and each question finds who asked for it.
func TestBothErasAtOnce(t *testing.T) {
	u, eras := newDual(t, "s")
	_, c := u.open(t, Options{MaxInFlight: 32})
	script := u.script
	var n atomic.Int64
	u.mu.Lock()
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Header.Get("Mcp-Session-Id") != "" && n.Add(1)%7 == 0 {
			w.WriteHeader(http.StatusNotFound) // once, so that a second try goes through
			return
		}
		script(w, r, m)
	}
	u.mu.Unlock()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			name := fmt.Sprintf("caller %d", i)
			peer := broker.Peer{Request: func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
				return json.RawMessage(`{"who":"` + name + `"}`), nil
			}}
			for range 10 {
				stateless := i%2 == 0
				a, err := c.Call(t.Context(), ofEra(stateless, "tools/call", `{}`), peer)
				var f *broker.Failure
				switch {
				case errors.As(err, &f) && !f.Gone && !f.Dispatched && !stateless: // lost twice in a row
				case err != nil:
					t.Errorf("%s: %v", name, err)
				case stateless && !strings.Contains(string(a.Result), "stateless"), !stateless && !strings.Contains(string(a.Result), `"`+name+`"`):
					t.Errorf("%s got %s", name, a.Result)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(eras)
	}()
	for range eras { // read, so that no handler waits
	}
	if hopOf(c).life.over() {
		t.Error("the life is over")
	}
}

func TestASessionThatMeetsAnOldTokenIsBegunAgain(t *testing.T) {
	var i issuer
	b := newBouncer(t, true, "token-1")
	c, err := NewHTTP(HTTPConfig{URL: b.URL, Fresh: i.give}, Options{}).Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	next := "token-2"
	b.accepts.Store(&next)
	mustCall(t, c, ofEra(false, "tools/call", `{"name":"go"}`), person(t))
	if n := b.counts("initialize"); n["token-1"] != 1 || n["token-2"] != 1 || len(n) != 2 || i.runs.Load() != 2 {
		t.Errorf("sessions by token: %v, %d runs", n, i.runs.Load())
	}
}

// A session may be lost, and the next be on its way, before a call that waited
// for the first sees it. Answered over the shared connection, of the other era,
// its tools could not ask.
func TestACallThatMissedItsSessionWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		s := &sibling{making: first}
		m := &manifold{main: &httpConn{life: newLife()}, siblings: map[string]*sibling{"{}": s}, open: map[*session]struct{}{}}
		got := make(chan *session, 1)
		go func() { got <- m.sibling(t.Context(), "{}") }()
		synctest.Wait()
		m.mu.Lock()
		s.making = second // the first was made, used by another call, and lost
		m.mu.Unlock()
		close(first)
		synctest.Wait()
		select {
		case c := <-got:
			t.Fatalf("it did not wait: %v", c)
		default:
		}
		made := &session{httpConn: &httpConn{life: newLife()}}
		m.mu.Lock()
		s.making, s.now = nil, made
		m.mu.Unlock()
		close(second)
		if c := <-got; c != made || c.calls != 1 {
			t.Errorf("got %v", c)
		}
	})
}

func TestNoCallWaitsForSessionsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sibling{making: make(chan struct{})}
		m := &manifold{main: &httpConn{life: newLife()}, siblings: map[string]*sibling{"{}": s}, open: map[*session]struct{}{}}
		got := make(chan *session, 1)
		go func() { got <- m.sibling(t.Context(), "{}") }()
		for n := range sessionWaits {
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("it gave up after %d attempts", n)
			}
			m.mu.Lock()
			over := s.making
			s.making = make(chan struct{}) // that one was lost, too
			m.mu.Unlock()
			close(over)
		}
		if c := <-got; c != nil {
			t.Errorf("got %v", c)
		}
	})
}
