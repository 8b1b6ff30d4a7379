package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// scriptedHop is a hop whose streams a test decides.
type scriptedHop struct {
	hop
	mu      sync.Mutex
	filters []string
	script  func(n int, ctx context.Context, take func(*message)) (broker.Answer, error)
}

func (h *scriptedHop) listen(ctx context.Context, method string, params json.RawMessage, take func(*message)) (broker.Answer, error) {
	filter, _ := get(params, "notifications")
	h.mu.Lock()
	h.filters = append(h.filters, string(filter))
	n := len(h.filters)
	h.mu.Unlock()
	if method != "subscriptions/listen" {
		return broker.Answer{}, &broker.Failure{Cause: "another method"}
	}
	return h.script(n, ctx, take)
}

func (h *scriptedHop) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.filters...)
}

// ack agrees to what the last filter asks for.
func (h *scriptedHop) ack(take func(*message)) {
	h.mu.Lock()
	filter := h.filters[len(h.filters)-1]
	h.mu.Unlock()
	take(&message{method: acknowledged, params: json.RawMessage(`{"notifications":` + filter + `,"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)})
}

// staysOpen agrees and lasts until it is ended.
func (h *scriptedHop) staysOpen(_ int, ctx context.Context, take func(*message)) (broker.Answer, error) {
	h.ack(take)
	<-ctx.Done()
	return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "ended"}
}

const watchable = `{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"subscribe":true}}`

// watching runs a watch in a bubble until the test is done.
func watching(t *testing.T, h *scriptedHop, capabilities string, overlap bool, f func(w *watch, outside chan string)) {
	synctest.Test(t, func(t *testing.T) {
		hear, outside := heard()
		over := make(chan struct{})
		w := newWatch(h, Options{}.withDefaults(), &noise{}, hear, json.RawMessage(capabilities), over)
		w.overlap = overlap
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.run(ctx)
		}()
		synctest.Wait()
		f(w, outside)
		cancel()
		<-done
		close(over)
		if refused, err := w.subscribe(context.Background(), "test://after the end"); refused == nil && err == nil {
			t.Error("subscribed after the end")
		}
	})
}

func TestWhatIsWatchedIsWhatTheBackendDeclares(t *testing.T) {
	h := &scriptedHop{}
	h.script = h.staysOpen
	watching(t, h, `{}`, true, func(w *watch, _ chan string) {
		if refused, err := w.subscribe(context.Background(), "test://r"); refused == nil || refused.Code != -32601 || err != nil {
			t.Errorf("%+v, %v", refused, err)
		}
	})
	if n := len(h.seen()); n != 0 {
		t.Errorf("%d streams although nothing is wanted", n)
	}
	watching(t, h, watchable, true, func(w *watch, outside chan string) {
		if got := h.seen(); len(got) != 1 || got[0] != `{"toolsListChanged":true}` {
			t.Errorf("filters %q", got)
		}
		if len(outside) > 0 {
			t.Errorf("heard %s although nothing happened", <-outside)
		}
	})
}

func TestSubscriptionsOpenTheStreamAnew(t *testing.T) {
	for name, overlap := range map[string]bool{"one stream at a time": false, "two at once": true} {
		t.Run(name, func(t *testing.T) {
			h := &scriptedHop{}
			open, most := 0, 0
			var mu sync.Mutex
			h.script = func(n int, ctx context.Context, take func(*message)) (broker.Answer, error) {
				mu.Lock()
				open++
				most = max(most, open)
				mu.Unlock()
				defer func() { mu.Lock(); open--; mu.Unlock() }()
				return h.staysOpen(n, ctx, take)
			}
			watching(t, h, watchable, overlap, func(w *watch, outside chan string) {
				for _, uri := range []string{"test://b", "test://a\u00e9", "test://b"} {
					if refused, err := w.subscribe(context.Background(), uri); refused != nil || err != nil {
						t.Errorf("%s: %+v, %v", uri, refused, err)
					}
				}
				w.unsubscribe("test://b")
				w.unsubscribe("test://never")
				synctest.Wait()
				want := []string{`{"toolsListChanged":true}`, `{"toolsListChanged":true,"resourceSubscriptions":["test://b"]}`,
					`{"toolsListChanged":true,"resourceSubscriptions":["test://aé","test://b"]}`, `{"toolsListChanged":true,"resourceSubscriptions":["test://aé"]}`}
				if got := h.seen(); strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("filters %q", got)
				}
				// With a gap between the streams something may have been missed.
				if gaps := len(outside); (gaps > 0) == overlap {
					t.Errorf("%d told although two at once is %v", gaps, overlap)
				}
			})
			if overlap != (most == 2) {
				t.Errorf("%d at once", most)
			}
		})
	}
}

func TestAStreamThatEndsIsOpenedAgainWithBackoff(t *testing.T) {
	h := &scriptedHop{}
	var at []time.Time
	h.script = func(n int, ctx context.Context, take func(*message)) (broker.Answer, error) {
		at = append(at, time.Now())
		switch {
		case n == 1:
			h.ack(take)
			take(&message{method: resourceUpdated, params: json.RawMessage(`{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":3,"own":1.0}}`)})
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "broke"}
		case n < 8:
			return broker.Answer{Error: &broker.RPCError{Code: -32603}}, nil
		}
		return h.staysOpen(n, ctx, take)
	}
	watching(t, h, watchable, true, func(w *watch, outside chan string) {
		elapse(10 * time.Minute)
		synctest.Wait()
		if len(at) != 8 {
			t.Fatalf("%d streams", len(at))
		}
		if first, last := at[1].Sub(at[0]), at[7].Sub(at[6]); first > time.Second || last < 2*time.Second || last > 2*maxStreamBackoff {
			t.Errorf("waits from %s to %s", first, last)
		}
		if a, b := <-outside, <-outside; a != resourceUpdated+` {"uri":"u","_meta":{"own":1.0}}` || b != toolsChanged+" " {
			t.Errorf("heard %s, %s", a, b)
		}
		if len(outside) > 0 {
			t.Errorf("heard %s", <-outside)
		}
	})
}

func TestAnAnswerThatIsFinalIsNotAskedForAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		answer broker.Answer
		acked  bool
		again  bool
	}{
		"an unknown method":            {broker.Answer{Error: &broker.RPCError{Code: -32601, Message: "no"}}, false, false},
		"an end without an agreement":  {broker.Answer{Result: json.RawMessage(`{}`)}, false, false},
		"an end after an agreement":    {broker.Answer{Result: json.RawMessage(`{}`)}, true, true},
		"an error that may be passing": {broker.Answer{Error: &broker.RPCError{Code: -32000}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &scriptedHop{}
			h.script = func(_ int, _ context.Context, take func(*message)) (broker.Answer, error) {
				if tc.acked {
					h.ack(take)
				}
				return tc.answer, nil
			}
			watching(t, h, watchable, true, func(w *watch, _ chan string) {
				elapse(5 * time.Minute)
				if n := len(h.seen()); (n > 1) != tc.again || n > 40 {
					t.Errorf("%d streams", n)
				}
			})
		})
	}
}

func TestASubscriptionThatIsNotAgreedToIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		script func(h *scriptedHop, ctx context.Context, take func(*message)) (broker.Answer, error)
		code   int    // of a refusal
		cause  string // of a failure
	}{
		"not agreed": {func(h *scriptedHop, ctx context.Context, take func(*message)) (broker.Answer, error) {
			take(&message{method: acknowledged, params: json.RawMessage(`{"notifications":{"toolsListChanged":true}}`)})
			<-ctx.Done()
			return broker.Answer{}, errors.New("ended")
		}, -32000, ""},
		"refused": {func(*scriptedHop, context.Context, func(*message)) (broker.Answer, error) {
			return broker.Answer{Error: &broker.RPCError{Code: -32602, Message: "no"}}, nil
		}, -32602, ""},
		"never acknowledged": {func(_ *scriptedHop, ctx context.Context, take func(*message)) (broker.Answer, error) {
			take(&message{method: acknowledged, params: json.RawMessage(`[]`)})
			<-ctx.Done()
			return broker.Answer{}, errors.New("ended")
		}, 0, "did not acknowledge"},
		"broken": {func(*scriptedHop, context.Context, func(*message)) (broker.Answer, error) {
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "broke"}
		}, 0, "broke"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &scriptedHop{}
			h.script = func(n int, ctx context.Context, take func(*message)) (broker.Answer, error) {
				if n == 1 {
					return h.staysOpen(n, ctx, take)
				}
				return tc.script(h, ctx, take)
			}
			watching(t, h, watchable, false, func(w *watch, _ chan string) {
				refused, err := w.subscribe(context.Background(), "test://r")
				switch {
				case tc.code != 0 && (refused == nil || refused.Code != tc.code || err != nil):
					t.Errorf("%+v, %v", refused, err)
				case tc.cause != "" && (err == nil || !strings.Contains(err.Error(), tc.cause)):
					t.Errorf("%+v, %v", refused, err)
				}
				if len(w.uris) != 0 {
					t.Errorf("%v are watched on", w.uris)
				}
			})
		})
	}
}

func TestASubscriptionEndsWithTheTimeOfItsCall(t *testing.T) {
	h := &scriptedHop{}
	h.script = func(_ int, ctx context.Context, _ func(*message)) (broker.Answer, error) {
		<-ctx.Done()
		return broker.Answer{}, errors.New("ended")
	}
	watching(t, h, `{"resources":{"subscribe":true}}`, false, func(w *watch, _ chan string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := w.subscribe(ctx, "test://r")
		if f, ok := err.(*broker.Failure); !ok || !f.Dispatched || f.Gone {
			t.Errorf("error %v", err)
		}
	})
}

func TestWatchedResourcesAreBounded(t *testing.T) {
	h := &scriptedHop{}
	h.script = h.staysOpen
	watching(t, h, watchable, true, func(w *watch, _ chan string) {
		w.mu.Lock()
		for i := range maxWatched {
			w.uris[fmt.Sprint(i)] = true
		}
		w.mu.Unlock()
		if refused, err := w.subscribe(context.Background(), "test://r"); refused == nil || err != nil {
			t.Errorf("%+v, %v", refused, err)
		}
	})
}

// A child's notifications say which stream they belong to; those of another
// stream, or of one that is over, are nobody's.
func TestNotificationsOfAStreamOnStdio(t *testing.T) {
	streams := make(chan message, 10)
	f := modernFake(watchable, func(f *fake, m message) {
		if m.method == "subscriptions/listen" {
			f.send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.id) + `},"notifications":{"toolsListChanged":true}}}`)
			streams <- m
		}
	})
	hear, outside := heard()
	s := NewStdio(StdioConfig{Start: f.start}, Options{})
	c, err := s.Open(t.Context(), hear)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	id := string((<-streams).id)
	note := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
	}
	f.send(note("999999"))
	f.send(note(id))
	if got := <-outside; got != toolsChanged+" {}" {
		t.Errorf("heard %s", got)
	}
	if n := s.Noise(); n.Notifications != 1 || len(outside) > 0 {
		t.Errorf("noise %+v, %d heard", n, len(outside))
	}
}
