package mcpclient

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"berth/broker"
)

// newDual is an upstream of both eras. In a session its tools ask.
func newDual(t *testing.T, session string) (u *upstream, eras chan string) {
	eras = make(chan string, 100)
	var mu sync.Mutex
	waiting := map[string]chan message{}
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
		waiting[string(m.id)] = reply
		mu.Unlock()
		events(w, `{"jsonrpc":"2.0","id":`+string(m.id)+`,"method":"elicitation/create","params":{"message":"name?"}}`)
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
