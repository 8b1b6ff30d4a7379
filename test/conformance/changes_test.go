package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// changing is a backend whose lists are what the test says.
type changing struct {
	backend
	mu    sync.Mutex
	lists map[string]string // by method: the result
}

func newChanging() *changing {
	c := &changing{lists: map[string]string{
		"prompts/list":   `{"prompts":[{"name":"p"}]}`,
		"resources/list": `{"resources":[{"uri":"x://1","name":"one"}]}`,
	}}
	c.tools, c.listening = oneTool, make(chan struct{}, 16)
	c.handle = func(out *reply, m message) {
		c.mu.Lock()
		result, ok := c.lists[m.Method]
		c.mu.Unlock()
		if !ok {
			result = `{}`
		}
		out.result(result)
	}
	return c
}

// change makes another list of a kind, and with a different name for each n.
func (c *changing) change(kind string, n int) {
	if kind == "tools" {
		c.setTools(fmt.Sprintf(`[{"name":"t","inputSchema":{"type":"object"}},{"name":"t%d","inputSchema":{"type":"object"}}]`, n))
		return
	}
	entry := fmt.Sprintf(`{"%s":[{"name":"n%d","uri":"x://%d"}]}`, kind, n, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists[kind+"/list"] = entry
}

// ear is how a client hears what is no answer.
type ear struct {
	told  chan string // methods as they come; capacity 64
	began time.Time
	mu    sync.Mutex
	heard []string // methods, each with the time since the last take
	end   func()
}

func newEar() *ear { return &ear{told: make(chan string, 64), began: time.Now()} }

// take gives what was heard since the last time.
func (e *ear) take() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.heard
	e.heard, e.began = nil, time.Now()
	return out
}

func (e *ear) hear(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Method == "" || m.Method == "notifications/subscriptions/acknowledged" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told <- m.Method
	e.heard = append(e.heard, fmt.Sprintf("%s after %s", m.Method, time.Since(e.began)))
}

// read hears a stream of lines until its end.
func (e *ear) read(in io.Reader, prefix string) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			e.hear([]byte(data))
		}
	}
}

// onStream hears on the GET stream of a session, or on a subscription.
func (s *session) onStream(t *testing.T) *ear {
	e := newEar()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":%s}`,
		s.params(`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`))
	req := s.message(ctx, []byte(body))
	if s.era() == handshake {
		req = s.request(ctx, nil)
		req.Method = "GET"
	}
	resp, err := s.rig.client.Do(req)
	must(t, err)
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.read(resp.Body, "data: ")
	}()
	e.end = func() {
		cancel()
		_ = resp.Body.Close()
		<-done
	}
	return e
}

// overStdio hears what the bridge writes.
func overStdio(r *rig, profile string) (*ear, func(line string)) {
	e := newEar()
	say, end := bridge(r, profile, e.hear)
	e.end = end
	return e, func(line string) {
		say(line + "\n")
		synctest.Wait()
	}
}

// TestAChangedListIsToldWithinTwoSecondsAndOnlyWhereItDiffers has a backend say
// that lists changed, when they did and when they did not.
func TestAChangedListIsToldWithinTwoSecondsAndOnlyWhereItDiffers(t *testing.T) {
	for _, p := range over(overPipes) { // the network of a bubble is in memory
		for _, profile := range []string{"b", ""} {
			for _, carrier := range []string{"stream", "stdio"} {
				t.Run(fmt.Sprintf("%s-%s-%s", p, carrier, profile), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { changes(t, p, profile, carrier) })
				})
			}
		}
	}
}

func changes(t *testing.T, p pairing, profile, carrier string) {
	c := newChanging()
	r, s := pair(t, p, &c.backend)
	r.patience = time.Hour
	defer func() {
		r.close()
		elapse(time.Minute)
	}()
	s.path = strings.TrimSuffix("/mcp/"+profile, "/")
	if p.client == handshake {
		s = r.open(s.path)
	}
	_, _, err := s.roundTrip("tools/list", s.params("")) // waits for the backend's
	must(t, err)
	var e *ear
	list := func(kind string) {
		_, _, err := s.roundTrip(kind+"/list", s.params(""))
		must(t, err)
	}
	if carrier == "stream" {
		e = s.onStream(t)
	} else {
		var say func(string)
		e, say = overStdio(r, profile)
		if p.client == handshake {
			say(initializeLine)
			say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		} else {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":%s}`,
				s.params(`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)))
		}
		list = func(kind string) {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, kind, kind+"/list", s.params("")))
		}
	}
	defer e.end()
	for _, kind := range []string{"tools", "prompts", "resources"} {
		list(kind)
	}
	elapse(5 * time.Second)
	if heard := e.take(); len(heard) > 0 {
		t.Errorf("before anything changed: %q", heard)
	}
	for n, kind := range []string{"tools", "prompts", "resources"} {
		method := "notifications/" + kind + "/list_changed"
		// Said, and not so.
		if c.say(method) == 0 {
			t.Fatal("the backend has nobody to tell")
		}
		elapse(5 * time.Second)
		if heard := e.take(); len(heard) > 0 {
			t.Errorf("%s are as they were: %q", kind, heard)
		}
		// Changed, and said more often than once.
		c.change(kind, n)
		for range 3 {
			c.say(method)
		}
		elapse(2 * time.Second)
		if heard := e.take(); len(heard) != 1 || !strings.HasPrefix(heard[0], method) {
			t.Errorf("2 s after %s changed: %q", kind, heard)
		}
		list(kind)
		elapse(time.Minute)
		if heard := e.take(); len(heard) > 0 {
			t.Errorf("a minute after that: %q", heard)
		}
	}
}

// TestAStreamHearsWhatABackendOverHTTPSays is the same over HTTP, without a
// clock: what was changed is told at last.
func TestAStreamHearsWhatABackendOverHTTPSays(t *testing.T) {
	for _, p := range over(overHTTP) {
		t.Run(p.String(), func(t *testing.T) {
			c := newChanging()
			r, s := pair(t, p, &c.backend)
			defer r.close()
			_, _, err := s.roundTrip("tools/list", s.params(""))
			must(t, err)
			await(t, "a stream that the backend can speak on", c.listening)
			e := s.onStream(t)
			defer e.end()
			c.change("tools", 1)
			if c.say("notifications/tools/list_changed") == 0 {
				t.Fatal("the backend has nobody to tell")
			}
			if got := await(t, "the change", e.told); got != "notifications/tools/list_changed" {
				t.Errorf("heard %s", got)
			}
			response, _, err := s.roundTrip("tools/list", s.params(""))
			if err != nil || !strings.Contains(string(response.Result), `"t1"`) {
				t.Errorf("listed %s, %v", response.Result, err)
			}
		})
	}
}
