package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

// told is a backend that writes down what it is told.
type told struct {
	mu    sync.Mutex
	heard []string
	fail  bool
	delay time.Duration
}

func (b *told) call(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	if b.delay > 0 {
		elapse(b.delay)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, c.Method+" "+string(c.Params))
	if b.fail {
		return broker.Answer{Error: &broker.RPCError{Code: -32602, Message: "no"}}, nil
	}
	return broker.Answer{Result: json.RawMessage("{}")}, nil
}

func (b *told) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.heard, "\n")
	b.heard = nil
	return text
}

// startTold brings the backend up, so that what it is told is what was asked
// for, and not that and what its incarnation was told at its start.
func startTold(t *testing.T, b *told, change ...func(*Options)) *world {
	w := start(t, &upstream{call: b.call}, change...)
	w.do()
	b.take()
	return w
}

// standing is a request of a session that goes on after it.
func (w *world) standing(session, method, params string) Request {
	return w.request(func(r *Request) {
		c := *r.Call
		c.Session, c.Method, c.Params, c.Effects, c.Lane = session, method, json.RawMessage(params), broker.Session, broker.LaneControl
		r.Call = &c
	})
}

func (w *world) subscribe(session, uri string) Reply {
	return w.Subscribe(context.Background(), session, uri, w.standing(session, methodSubscribe, `{"uri":"`+uri+`"}`))
}

func (w *world) unsubscribe(session, uri string) Reply {
	return w.Unsubscribe(context.Background(), session, uri, w.standing(session, methodUnsubscribe, `{"uri":"`+uri+`"}`))
}

func (w *world) setLevel(session, level string) Reply {
	return w.SetLevel(context.Background(), session, level, w.standing(session, methodSetLevel, `{"level":"`+level+`"}`))
}

func TestOneSessionsUnsubscribeDoesNotEndAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.session("other")
		w.subscribe("s", "x://1")
		w.subscribe("other", "x://1")
		if got := b.take(); got != "resources/subscribe {\"uri\":\"x://1\"}\nresources/subscribe {\"uri\":\"x://1\"}" {
			t.Fatal(got)
		}
		if r := w.unsubscribe("s", "x://1"); string(r.Answer.Result) != "{}" || b.take() != "" {
			t.Fatalf("%+v", r)
		}
		if w.Subscribed("b", "x://1", "s") || !w.Subscribed("b", "x://1", "other") || !w.Subscribed("b", "x://1/part", "other") {
			t.Fatal("who is subscribed is not known")
		}
		w.unsubscribe("other", "x://1")
		if got := b.take(); got != `resources/unsubscribe {"uri":"x://1"}` {
			t.Fatal(got)
		}
	})
}

func TestSubscriptionThatTheBackendRefusesIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{fail: true}
		w := startTold(t, b)
		if r := w.subscribe("s", "x://1"); r.Answer == nil || r.Answer.Error == nil || w.Subscribed("b", "x://1", "s") {
			t.Fatalf("%+v", r)
		}
		w.setLevel("s", "error")
		if _, said := w.Level("b", "info", "s"); said {
			t.Fatal("a level that was refused is kept")
		}
	})
}

func TestNextIncarnationIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.subscribe("s", "x://2")
		w.subscribe("s", "x://1")
		w.setLevel("s", "error")
		b.take()
		w.up.last().die()
		synctest.Wait()
		w.do() // brings the next one up
		synctest.Wait()
		heard := strings.Split(b.take(), "\n")
		heard = slices.DeleteFunc(heard, func(s string) bool { return strings.HasPrefix(s, "tools/call") })
		if want := []string{`logging/setLevel {"level":"error"}`, `resources/subscribe {"uri":"x://1"}`, `resources/subscribe {"uri":"x://2"}`}; !slices.Equal(heard, want) {
			t.Fatal(heard)
		}
	})
}

func TestEndOfASessionEndsItsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.session("other")
		for _, s := range []string{"s", "other"} {
			w.subscribe(s, "x://shared")
		}
		w.subscribe("s", "x://own")
		w.setLevel("s", "debug")
		b.take()
		w.End("s")
		synctest.Wait()
		if got := b.take(); got != `resources/unsubscribe {"uri":"x://own"}` {
			t.Fatal(got)
		}
		if _, said := w.Level("b", "info", "s"); said || !w.Subscribed("b", "x://shared", "other") {
			t.Fatal("the end of a session took too little, or too much")
		}
	})
}

func TestBackendIsToldTheLeastSevereLevelOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.session("other")
		for _, c := range []struct{ session, level, told string }{
			{"s", "warning", "warning"}, {"other", "error", "warning"}, {"other", "debug", "debug"},
			{"other", "emergency", "warning"}, {"s", "own", "own"},
		} {
			w.setLevel(c.session, c.level)
			if got := b.take(); got != `logging/setLevel {"level":"`+c.told+`"}` {
				t.Fatalf("%+v: %s", c, got)
			}
		}
		for level, wanted := range map[string]bool{"info": false, "warning": true, "alert": true} {
			if got, said := w.Level("b", level, "s"); got != wanted || !said {
				t.Error(level, got)
			}
		}
		w.KeepLevel(t.Context(), "s", []string{"b"}, "info")
		synctest.Wait()
		if got := b.take(); got != `logging/setLevel {"level":"info"}` {
			t.Fatal(got)
		}
	})
}

func TestSubscriptionThatCameInBetweenIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.session("other")
		w.subscribe("s", "x://1")
		b.take()
		b.delay = time.Second
		done := make(chan Reply, 2)
		go func() { done <- w.unsubscribe("s", "x://1") }()
		synctest.Wait()
		go func() { done <- w.subscribe("other", "x://1") }()
		<-done
		<-done
		elapse(2 * time.Second)
		if heard := strings.Split(b.take(), "\n"); heard[len(heard)-1] != `resources/subscribe {"uri":"x://1"}` || len(heard) != 3 {
			t.Fatal(heard)
		}
	})
}

func TestInstancesOfSessionsHaveTheirOwnSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b, func(o *Options) { o.Backends[0].PerSession = true })
		w.session("other")
		w.subscribe("s", "x://1")
		w.subscribe("other", "x://1")
		synctest.Wait()
		b.take()
		w.unsubscribe("s", "x://1")
		if got := b.take(); got != `resources/unsubscribe {"uri":"x://1"}` {
			t.Fatal("the instance of a session was not told: ", got)
		}
		if w.Subscribed("b", "x://1", "s") || !w.Subscribed("b", "x://1", "other") {
			t.Fatal("who is subscribed is not known")
		}
	})
}

func TestSubscriptionsAreBounded(t *testing.T) {
	var s subscriptions
	for i := range maxSubscriptionsHolder {
		if _, r := s.add("b", fmt.Sprint(i), "h"); r != nil {
			t.Fatal(r)
		}
	}
	if _, r := s.add("b", "one more", "h"); r == nil || r.Code != broker.CodeOverloaded {
		t.Fatalf("%+v", r)
	}
	if fresh, r := s.add("b", "0", "h"); fresh || r != nil {
		t.Fatal("one that is held was not taken again")
	}
	s.drop("h")
	if s.total != 0 || len(s.held) != 0 || len(s.backends) != 0 {
		t.Fatalf("something is left: %+v", s.backends)
	}
}

// TestSubscriptionsAgreeWithAModel compares the table with a set of triples.
func TestSubscriptionsAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s subscriptions
		type triple struct{ backend, uri, holder string }
		model := map[triple]bool{}
		of := rapid.Custom(func(t *rapid.T) triple {
			return triple{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "backend"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uri"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "holder")}
		})
		others := func(c triple) bool {
			for m := range model {
				if m.backend == c.backend && m.uri == c.uri {
					return true
				}
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c := of.Draw(t, "c")
				if fresh, _ := s.add(c.backend, c.uri, c.holder); fresh == model[c] {
					t.Fatal("fresh", fresh)
				}
				model[c] = true
			},
			"remove": func(t *rapid.T) {
				c := of.Draw(t, "c")
				last := s.remove(c.backend, c.uri, c.holder)
				delete(model, c)
				if last == others(c) {
					t.Fatal("last", last)
				}
			},
			"drop": func(t *rapid.T) {
				holder := of.Draw(t, "c").holder
				over := s.drop(holder)
				for m := range model {
					if m.holder == holder {
						delete(model, m)
						if !others(m) && !slices.Contains(over[m.backend], m.uri) {
							t.Fatal("not told of", m)
						}
					}
				}
			},
			"": func(t *rapid.T) {
				if s.total != len(model) {
					t.Fatal(s.total, len(model))
				}
				for _, b := range []string{"a", "b"} {
					for _, u := range []string{"1", "2"} {
						for _, h := range []string{"x", "y", "z"} {
							if s.wanted(b, u, h) != model[triple{b, u, h}] {
								t.Fatal(b, u, h)
							}
						}
					}
				}
			},
		})
	})
}
