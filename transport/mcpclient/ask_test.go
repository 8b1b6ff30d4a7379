package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// questions are the requests of a backend that a harness is asked, with params
// that must arrive as they were sent.
var questions = map[string]string{
	"sampling/createMessage": `{"messages":[],"maxTokens":12345678901234567890,"x":null}`,
	"elicitation/create":     `{"mode":"url","url":"https://e.example/","elicitationId":"e"}`,
	"roots/list":             `{"_meta":{"a":1.0}}`,
}

// of makes a call of a session.
func of(session string) *broker.Call {
	c := call(`{}`)
	c.ID, c.Session, c.Principal = "call of "+session, session, broker.LocalOperator
	return c
}

// answering is a caller that answers what it is asked and says what it was.
func answering(asked chan<- string, result string) broker.Peer {
	return broker.Peer{Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
		asked <- method + " " + string(params)
		return json.RawMessage(result), nil
	}}
}

func TestABackendIsToldWhatAHarnessMayBeAbleToDo(t *testing.T) {
	got := make(chan string, 2)
	f := newFake(nil)
	f.initialize = func(params string) { got <- params }
	f.open(t, Options{})
	u := newUpstream(t, "s", nil)
	u.initialize = func(params string) { got <- params }
	u.open(t, Options{})
	for range 2 {
		var p struct {
			Capabilities map[string]map[string]map[string]any `json:"capabilities"`
		}
		if err := json.Unmarshal([]byte(<-got), &p); err != nil {
			t.Fatal(err)
		}
		c := p.Capabilities
		if c["roots"] == nil || c["sampling"] == nil || c["elicitation"]["form"] == nil || c["elicitation"]["url"] == nil || len(c) != 3 {
			t.Errorf("capabilities %v", c)
		}
	}
}

func TestAQuestionOnStdioGoesToTheOnlySessionThatHasCallsInFlight(t *testing.T) {
	for method, params := range questions {
		t.Run(method, func(t *testing.T) {
			f := newFake(func(f *fake, m message) {
				if m.method == "tools/call" {
					f.send(`{"jsonrpc":"2.0","id":"q\u00e9","method":"` + method + `","params":` + params + `}`)
					return
				}
				if string(m.id) != `"q\u00e9"` {
					t.Errorf("the answer has id %s", m.id)
				}
				f.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
				f.send(`{"jsonrpc":"2.0","id":3,"result":` + string(m.result) + `}`)
			})
			s, c := f.open(t, Options{})
			c.(*stdioConn).lastID.Store(2) // initialize and tools/list
			asked := make(chan string, 1)
			a, err := c.Call(t.Context(), of("a"), answering(asked, `{"n":12345678901234567890}`))
			if err != nil || string(a.Result) != `{"n":12345678901234567890}` {
				t.Fatalf("answer %s, %v", a.Result, err)
			}
			if got := <-asked; got != method+" "+params {
				t.Errorf("asked %s", got)
			}
			if s.Noise().Requests != 0 {
				t.Errorf("noise %+v", s.Noise())
			}
		})
	}
}

// hold makes calls that stay in flight until the test ends; they have been
// seen by the backend when it returns.
func hold(t *testing.T, f *fake, c broker.Conn, peer broker.Peer, sessions ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for _, s := range sessions {
		wg.Go(func() { c.Call(ctx, of(s), peer) })
		if m := <-f.seen; m.method != "tools/call" {
			t.Fatalf("seen %+v", m)
		}
	}
}

func TestAQuestionOnStdioThatIsNobodysIsRefusedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		sessions []string
		peer     broker.Peer
		method   string
		want     string
	}{
		"no call":            {nil, broker.Peer{}, "roots/list", "No call is in flight"},
		"two sessions":       {[]string{"a", "b", "a"}, answering(make(chan string, 9), `{}`), "elicitation/create", "several sessions"},
		"no session at all":  {[]string{"", "x"}, answering(make(chan string, 9), `{}`), "elicitation/create", "several sessions"},
		"cannot be asked":    {[]string{"a", "a"}, broker.Peer{}, "sampling/createMessage", "cannot be asked"},
		"an unknown request": {[]string{"a"}, answering(make(chan string, 9), `{}`), "tasks/get", "-32601"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(func(*fake, message) {})
			s, c := f.open(t, Options{CancelGrace: time.Millisecond})
			hold(t, f, c, tc.peer, tc.sessions...)
			f.send(`{"jsonrpc":"2.0","id":7,"method":"` + tc.method + `"}`)
			m := <-f.seen
			if string(m.id) != "7" || !strings.Contains(string(m.err), tc.want) {
				t.Errorf("answer %s %s", m.id, m.err)
			}
			if s.Noise().Requests != 1 {
				t.Errorf("noise %+v", s.Noise())
			}
		})
	}
}

func TestAHarnessThatRefusesIsQuotedToTheBackend(t *testing.T) {
	const object = `{"code":-1,"message":"the user said no","data":{"z":12345678901234567890}}`
	f := newFake(func(f *fake, m message) {
		if m.method == "tools/call" {
			f.send(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}`)
			return
		}
		if string(m.err) != object {
			t.Errorf("error %s", m.err)
		}
		f.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	})
	_, c := f.open(t, Options{})
	c.(*stdioConn).lastID.Store(2)
	_, err := c.Call(t.Context(), of("a"), broker.Peer{Request: func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
		return nil, &broker.RPCError{Code: -1, Raw: json.RawMessage(object)}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// asking is a caller that is asked and never answers by itself.
func asking() (peer broker.Peer, asked chan struct{}, ended chan error) {
	asked, ended = make(chan struct{}, 100), make(chan error, 100)
	return broker.Peer{Request: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, *broker.RPCError) {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, broker.NoPeer("over")
	}}, asked, ended
}

func TestAQuestionEndsWithItsCallAndWhenTheBackendWithdrawsIt(t *testing.T) {
	for name, end := range map[string]string{
		"withdrawn":      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"r"}}`,
		"answered first": `{"jsonrpc":"2.0","id":3,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(func(f *fake, m message) {
				if m.method == "tools/call" {
					f.send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`)
				}
			})
			_, c := f.open(t, Options{})
			c.(*stdioConn).lastID.Store(2)
			peer, asked, ended := asking()
			done := make(chan error, 1)
			go func() {
				_, err := c.Call(t.Context(), of("a"), peer)
				done <- err
			}()
			<-asked
			<-f.seen // the call
			f.send(end)
			<-ended
			if name == "withdrawn" {
				f.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
				if m := <-f.seen; string(m.id) != `"p"` {
					t.Errorf("a withdrawn question was answered: %s %s%s", m.id, m.result, m.err)
				}
				f.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
			} else if m := <-f.seen; string(m.id) != `"q"` || m.err == nil {
				t.Errorf("the backend got %s %s", m.id, m.err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheEndOfAChildEndsItsQuestions(t *testing.T) {
	f := newFake(func(f *fake, m message) {
		if m.method == "tools/call" {
			f.send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`)
		}
	})
	_, c := f.open(t, Options{})
	peer, asked, ended := asking()
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), of("a"), peer)
		done <- err
	}()
	<-asked
	f.exit()
	<-ended
	if got := failure(t, <-done); !got.Gone {
		t.Errorf("failure %+v", got)
	}
}

func TestOpenQuestionsAreBoundedAndAnIdIsOpenOnce(t *testing.T) {
	f := newFake(func(*fake, message) {})
	_, c := f.open(t, Options{MaxInFlight: 1, CancelGrace: time.Millisecond})
	limit := c.(*stdioConn).desk.limit
	peer, asked, _ := asking()
	hold(t, f, c, peer, "a")
	for i := range limit {
		f.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
		<-asked
		if i > 0 {
			continue
		}
		f.send(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
		if m := <-f.seen; string(m.id) != "0" || !strings.Contains(string(m.err), "-32600") {
			t.Errorf("answer %s %s", m.id, m.err)
		}
	}
	f.send(`{"jsonrpc":"2.0","id":-1,"method":"roots/list"}`)
	if m := <-f.seen; string(m.id) != "-1" || !strings.Contains(string(m.err), "Too many") {
		t.Errorf("answer %s %s", m.id, m.err)
	}
}

// heard collects what comes outside of calls.
func heard() (broker.Hear, chan string) {
	got := make(chan string, 100)
	return func(method string, params json.RawMessage) { got <- method + " " + string(params) }, got
}

func TestNotificationsOnStdio(t *testing.T) {
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}`
	const list = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	const own = `{"jsonrpc":"2.0","method":"notifications/own","params":[1]}`
	for name, tc := range map[string]struct {
		sessions []string
		called   string // the caller got this
		heard    string
	}{
		"no call in flight": {nil, "", "notifications/message {\"level\":\"info\",\"data\":1.0}"},
		"one session":       {[]string{"a", "a"}, "notifications/message {\"level\":\"info\",\"data\":1.0}", ""},
		"two sessions":      {[]string{"a", "b"}, "", "notifications/message {\"level\":\"info\",\"data\":1.0}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(func(*fake, message) {})
			hear, outside := heard()
			s := NewStdio(StdioConfig{Start: f.start}, Options{CancelGrace: time.Millisecond})
			c, err := s.Open(t.Context(), hear)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(context.Background()) })
			called := make(chan string, 10)
			hold(t, f, c, broker.Peer{Notify: func(method string, params json.RawMessage) { called <- method + " " + string(params) }}, tc.sessions...)
			f.send(log)
			if tc.called != "" {
				if got := <-called; got != tc.called {
					t.Errorf("the caller got %s", got)
				}
			} else if got := <-outside; got != tc.heard {
				t.Errorf("heard %s", got)
			}
			f.send(list)
			f.send(own)
			if got := <-outside; got != "notifications/tools/list_changed " {
				t.Errorf("heard %s", got)
			}
			if got := <-outside; got != "notifications/own [1]" {
				t.Errorf("heard %s", got)
			}
			if len(called)+len(outside) > 0 || s.Noise() != (Noise{}) {
				t.Errorf("%d more to callers, %d outside, noise %+v", len(called), len(outside), s.Noise())
			}
		})
	}
}

// An HTTP backend that asks on the stream of each call: many sessions at once
// are asked for what is theirs.
func TestQuestionsOverHTTPGoToTheCallWhoseStreamTheyCameOn(t *testing.T) {
	var mu sync.Mutex
	replies := map[string]chan message{}
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
		reply := make(chan message, 1)
		id := string(m.id)
		mu.Lock()
		replies[id] = reply
		mu.Unlock()
		events(w, `{"jsonrpc":"2.0","id":`+id+`,"method":"elicitation/create","params":`+string(m.params)+`}`)
		answer := <-reply
		events(w, response(m, string(answer.result)))
	})
	u.reply = func(m message) {
		mu.Lock()
		defer mu.Unlock()
		replies[string(m.id)] <- m
	}
	_, c := u.open(t, Options{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			cl := of(fmt.Sprint("s", i))
			cl.Params = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
			a, err := c.Call(t.Context(), cl, broker.Peer{Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
				if string(params) != string(cl.Params) {
					t.Errorf("session %d was asked %s", i, params)
				}
				return json.RawMessage(fmt.Sprintf(`{"answer":%d}`, i)), nil
			}})
			if err != nil || string(a.Result) != fmt.Sprintf(`{"answer":%d}`, i) {
				t.Errorf("answer %s, %v", a.Result, err)
			}
		})
	}
	wg.Wait()
}

func TestNotificationsOnTheStreamOfACall(t *testing.T) {
	u := newUpstream(t, "s", func(w http.ResponseWriter, _ *http.Request, m message) {
		events(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/own"}`,
			`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u"}}`,
			response(m, `{}`))
	})
	hear, outside := heard()
	c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), hear)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var got []string
	if _, err := c.Call(t.Context(), of("a"), broker.Peer{Notify: func(method string, params json.RawMessage) { got = append(got, method+" "+string(params)) }}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, ";") != `notifications/message {"n":1};notifications/own ` {
		t.Errorf("the caller got %q", got)
	}
	if a, b := <-outside, <-outside; a != "notifications/prompts/list_changed {}" || b != `notifications/resources/updated {"uri":"u"}` {
		t.Errorf("heard %s, %s", a, b)
	}
}

// getStream serves a standalone stream that a test writes to.
func getStream(u *upstream) (opened chan *http.Request, send chan string) {
	opened, send = make(chan *http.Request, 10), make(chan string)
	u.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		opened <- r
		for {
			select {
			case text := <-send:
				if text == "" {
					return
				}
				io.WriteString(w, text+"\n\n")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	return opened, send
}

func TestTheStandaloneStream(t *testing.T) {
	u := newUpstream(t, "s", nil)
	release := make(chan struct{})
	u.script = func(w http.ResponseWriter, r *http.Request, m message) {
		<-release
		events(w, response(m, `{}`))
	}
	opened, send := getStream(u)
	hear, outside := heard()
	replies := make(chan message, 10)
	u.reply = func(m message) { replies <- m }
	c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), hear)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	r := <-opened
	if r.Header.Get("Mcp-Session-Id") != "s" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" || r.Header.Get("Accept") != "text/event-stream" {
		t.Errorf("headers %v", r.Header)
	}
	send <- `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	if got := <-outside; got != "notifications/tools/list_changed " {
		t.Errorf("heard %s", got)
	}
	send <- `data: {"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	if m := <-replies; !strings.Contains(string(m.err), "No call is in flight") {
		t.Errorf("reply %s", m.err)
	}

	// Progress and questions of a call that come here find the call.
	cl := of("a")
	cl.WantProgress = true
	peer := answering(make(chan string, 1), `{"roots":[]}`)
	progress := make(chan string, 1)
	peer.Progress = func(p broker.Progress) { progress <- string(p.Params) }
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), cl, peer)
		done <- err
	}()
	m := <-u.seen
	for m.method != "tools/call" {
		m = <-u.seen
	}
	send <- `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.id) + `,"progress":1}}`
	if got := <-progress; got != `{"progress":1}` {
		t.Errorf("progress %s", got)
	}
	send <- `data: {"jsonrpc":"2.0","id":2,"method":"roots/list"}`
	if m := <-replies; string(m.result) != `{"roots":[]}` {
		t.Errorf("reply %s %s", m.result, m.err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheStandaloneStreamIsOpenedAgain(t *testing.T) {
	u := newUpstream(t, "s", nil)
	u.introduction = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{}},"serverInfo":{}}`
	opened, send := getStream(u)
	hear, outside := heard()
	c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(t.Context(), hear)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	<-opened
	send <- "retry: 1\ndata:"
	send <- "" // its end
	if r := <-opened; r.Header.Get("Last-Event-ID") != "" {
		t.Errorf("headers %v", r.Header)
	}
	if a, b := <-outside, <-outside; a != "notifications/tools/list_changed " || b != "notifications/prompts/list_changed " {
		t.Errorf("heard %s, %s", a, b)
	}
	send <- "id: e1\ndata:"
	send <- ""
	if r := <-opened; r.Header.Get("Last-Event-ID") != "e1" {
		t.Errorf("headers %v", r.Header)
	}
	send <- `data: {"jsonrpc":"2.0","method":"notifications/own"}`
	if got := <-outside; got != "notifications/own " {
		t.Errorf("heard %s, although the backend replays", got)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The waits between tries, and which answers end them: in a bubble, with a
// transport that answers by itself.
func TestTheStandaloneStreamIsAskedForWithBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		statuses []int // then 405
		tries    int
		atLeast  time.Duration
	}{
		"405 is none":          {nil, 1, 0},
		"404 is none":          {[]int{404}, 1, 0},
		"no stream of events":  {[]int{200}, 1, 0},
		"busy, then none":      {[]int{503, 429, 409, 0}, 5, time.Second},
		"an hour of no answer": {make([]int, 60), 61, 40 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := NewHTTP(HTTPConfig{URL: "http://backend.example/mcp"}, Options{}).newConn(nil)
				if err != nil {
					t.Fatal(err)
				}
				tries := 0
				c.target.Scheme = "scripted"
				c.base.RegisterProtocol("scripted", roundTrip(func(*http.Request) (*http.Response, error) {
					tries++
					status := http.StatusMethodNotAllowed
					if tries <= len(tc.statuses) {
						status = tc.statuses[tries-1]
					}
					if status == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}}, nil
				}))
				began := time.Now()
				s := &standalone{stream: &stream{c: c, x: &exchange{}}, known: make(chan struct{})}
				s.run(c.ctx)
				if took := time.Since(began); tries != tc.tries || took < tc.atLeast || took > tc.atLeast+2*time.Hour {
					t.Errorf("%d tries in %s", tries, took)
				}
				c.cancel()
				c.desk.close()
			})
		})
	}
}
