package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// lister is a backend whose lists are what the test says, and which counts how
// often it is asked.
type lister struct {
	mu    sync.Mutex
	pages map[string]string // by method
	asked []string
	fail  bool
}

func (l *lister) call(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, c.Method)
	if l.fail {
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "it does not answer"}
	}
	return broker.Answer{Result: json.RawMessage(l.pages[c.Method])}, nil
}

func (l *lister) set(method, page string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[method] = page
}

func (l *lister) times(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.asked {
		if m == method {
			n++
		}
	}
	return n
}

// watching is a world whose notices are collected.
type watching struct {
	*world
	l *lister
	n *Listener
}

func watch(t *testing.T) *watching {
	l := &lister{pages: map[string]string{"prompts/list": `{"prompts":[]}`, "resources/list": `{"resources":[]}`, "resources/templates/list": `{"resourceTemplates":[]}`}}
	w := &watching{world: start(t, &upstream{call: l.call}), l: l}
	w.do()
	w.n = w.Listen(func(n Notice) bool { return n.Method != CatalogChanged })
	t.Cleanup(w.n.Close)
	return w
}

func (w *watching) list(method, params string) {
	w.t.Helper()
	if r := w.do(func(r *Request) {
		r.Call.Method, r.Call.Params, r.Call.Effects = method, json.RawMessage(params), broker.Read
	}); r.Answer == nil {
		w.t.Fatalf("%+v", r)
	}
}

// news waits until changes have settled and gives what was told.
func (w *watching) news() []string {
	elapse(time.Second)
	synctest.Wait()
	all, _ := w.n.Take()
	var out []string
	for _, n := range all {
		out = append(out, n.Method)
	}
	return out
}

func (w *watching) expect(want ...string) {
	w.t.Helper()
	if got := w.news(); !slices.Equal(got, want) {
		w.t.Errorf("told %q, want %q", got, want)
	}
}

func TestAListThatDidNotChangeIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.list("prompts/list", `{}`)
		w.up.say(promptsChanged, "")
		w.expect()
		w.l.set("prompts/list", `{"prompts":[{"name":"new"}]}`)
		for i := range 20 { // a burst costs one look
			w.up.say(promptsChanged, fmt.Sprintf(`{"n":%d}`, i))
		}
		w.expect(promptsChanged)
		if n := w.l.times("prompts/list"); n != 3 {
			t.Errorf("asked %d times", n)
		}
		w.up.say(promptsChanged, "")
		w.expect() // it is as it was told
	})
}

func TestAListThatNobodyWasServedIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.up.say(resourcesChanged, "")
		w.expect(resourcesChanged)
		if w.l.times("resources/list")+w.l.times("resources/templates/list") != 0 {
			t.Error("it was asked for")
		}
	})
}

func TestTemplatesAreResourcesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.list("resources/list", `{}`)
		w.list("resources/templates/list", `{}`)
		w.up.say(resourcesChanged, "")
		w.expect()
		w.l.set("resources/templates/list", `{"resourceTemplates":[{}]}`)
		w.up.say(resourcesChanged, "")
		w.expect(resourcesChanged)
	})
}

func TestAListThatTwoWereServedInTwoFormsIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.list("prompts/list", `{}`)
		w.l.set("prompts/list", `{"prompts":[{"name":"new"}]}`)
		w.list("prompts/list", `{}`) // another caller has the new one already
		w.up.say(promptsChanged, "")
		w.expect(promptsChanged)
		w.up.say(promptsChanged, "")
		w.expect()
	})
}

func TestWhatCannotBeComparedIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.l.set("prompts/list", `{"prompts":[],"nextCursor":"2"}`)
		w.list("prompts/list", `{}`)
		w.list("prompts/list", `{"cursor":"2"}`)
		w.up.say(promptsChanged, "")
		w.expect(promptsChanged)
		w.l.set("prompts/list", `{"prompts":[]}`)
		w.list("prompts/list", `{}`)
		w.up.say(promptsChanged, "")
		w.expect(promptsChanged)
		w.l.mu.Lock()
		w.l.fail = true
		w.l.mu.Unlock()
		w.up.say(promptsChanged, "")
		w.expect(promptsChanged)
	})
}

func TestNextIncarnationTellsOnlyOfListsThatAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.list("prompts/list", `{}`)
		w.list("resources/list", `{}`)
		w.l.set("resources/list", `{"resources":[{"uri":"x://new"}]}`)
		w.up.last().die()
		synctest.Wait()
		w.do()
		w.expect(resourcesChanged)
	})
}

func TestOtherNoticesPassAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.up.say("notifications/resources/updated", `{"uri":"x://1"}`)
		synctest.Wait()
		if all, _ := w.n.Take(); len(all) != 1 || string(all[0].Params) != `{"uri":"x://1"}` {
			t.Errorf("%+v", all)
		}
	})
}
