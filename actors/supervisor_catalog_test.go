package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// listing is a backend whose list is what its test says last.
func listing(first ...broker.Tool) (*upstream, func(...broker.Tool)) {
	var now atomic.Value
	now.Store(first)
	return &upstream{list: func() []broker.Tool { return now.Load().([]broker.Tool) }}, func(tools ...broker.Tool) { now.Store(tools) }
}

func described(name, description string) broker.Tool {
	return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","description":"` + description + `","inputSchema":{"type":"object"}}`)}
}

// shapeless is a verb that no list of several backends can hold.
func shapeless(name string) broker.Tool {
	return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":7}`)}
}

// relist has the backend list anew, as after a crash.
func (w *world) relist() {
	w.t.Helper()
	w.up.last().die()
	synctest.Wait()
	w.AwaitCatalog(context.Background(), "b")
	if r := w.do(reading); r.Refusal != nil {
		w.t.Fatal(r.Refusal)
	}
	synctest.Wait()
}

// remember gives the next start what the journal has of the backend, as a broker
// does.
func (w *world) remember(rules catalog.Rules) {
	w.t.Helper()
	stored, err := w.journal.Catalogs()
	if err != nil || len(stored) != 1 {
		w.t.Fatalf("stored %v, %v", stored, err)
	}
	w.opts.Sources = []catalog.Source{{Backend: "b", Listed: true, Stale: true, Server: stored[0].Server, Tools: stored[0].Tools, Rules: rules}}
	if rules.Pin {
		w.opts.Sources[0].Accepted = stored[0].Tools
	}
	w.opts.Backends[0].Told = stored[0].Told
}

// toldOf lists the events of the catalog: type and verb.
func (w *world) toldOf() (out []string) {
	w.t.Helper()
	events, err := w.journal.Events("", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if strings.HasPrefix(e.EventType, "catalog.") {
			out = append(out, strings.TrimPrefix(e.EventType, "catalog.")+" "+e.EntityID)
		}
	}
	return out
}

func (w *world) expectTold(when string, want ...string) {
	w.t.Helper()
	if got := w.toldOf(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: the events are %q, wanted %q", when, got, want)
	}
}

// TestAChangeOfAListIsToldOnce: one event for each episode of a quarantine and
// for each change of an entry; none for a list that says the same again, over a
// restart too.
func TestAChangeOfAListIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, say := listing(described("echo", "One."), shapeless("odd"))
		w := start(t, up, func(o *Options) { o.Backends[0].Eager = true })
		synctest.Wait()
		want := []string{"verb_quarantined b__odd"}
		w.expectTold("after the first list", want...)

		w.relist()
		w.expectTold("after the same list", want...)

		say(described("echo", "Two."), shapeless("odd"), described("new", "One."))
		w.relist()
		want = append(want, "verb_changed b__echo")
		w.expectTold("after another description and a new verb", want...)

		say(described("echo", "Two."))
		w.relist()
		w.expectTold("after the verb at fault went", want...)
		say(described("echo", "Two."), shapeless("odd"))
		w.relist()
		want = append(want, "verb_quarantined b__odd")
		w.expectTold("after it came back", want...)

		w.remember(catalog.Rules{})
		w.halt()
		w.boot()
		synctest.Wait()
		w.expectTold("after a restart", want...)

		w.remember(catalog.Rules{})
		w.halt()
		say(described("echo", "Three."), shapeless("odd"))
		w.boot()
		synctest.Wait()
		want = append(want, "verb_changed b__echo")
		w.expectTold("after a restart with another list", want...)
	})
}

// TestAPinnedChangeIsToldOnce: what is listed and not served is told once for
// each list, and no more over a restart.
func TestAPinnedChangeIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pinned := catalog.Rules{Pin: true}
		up, say := listing(described("echo", "One."))
		w := start(t, up, func(o *Options) {
			o.Backends[0].Eager, o.Sources = true, []catalog.Source{{Backend: "b", Rules: pinned}}
		})
		synctest.Wait()
		w.expectTold("after the first list")
		say(described("echo", "Two."))
		w.relist()
		w.relist()
		w.expectTold("after a change that stays", "verb_changed b__echo")

		w.remember(pinned)
		w.halt()
		w.boot()
		synctest.Wait()
		w.expectTold("after a restart", "verb_changed b__echo")

		say(described("echo", "Three."))
		w.relist()
		w.expectTold("after another change", "verb_changed b__echo", "verb_changed b__echo")
		events, err := w.journal.Events("", 0)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Before, Now string
			Pinned      bool
		}
		if err := json.Unmarshal(events[len(events)-1].Payload, &p); err != nil || !p.Pinned || p.Before == "" || p.Now == "" || p.Before == p.Now {
			t.Errorf("the payload is %s", events[len(events)-1].Payload)
		}
	})
}

// TestAFloodOfFaultsIsToldShortly: a backend cannot fill the journal with what is
// wrong with its list.
func TestAFloodOfFaultsIsToldShortly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tools []broker.Tool
		for i := range 400 {
			tools = append(tools, shapeless(fmt.Sprintf("odd%03d", i)))
		}
		up, _ := listing(tools...)
		w := start(t, up, func(o *Options) { o.Backends[0].Eager = true })
		synctest.Wait()
		events, err := w.journal.Events("", 0)
		if err != nil || len(events) != 50 || !strings.Contains(events[49].Message, "350 more") {
			t.Errorf("%d events, error %v", len(events), err)
		}
	})
}

// TestAnEventThatCouldNotBeWrittenIsWrittenWithTheNextList: the journal was away.
func TestAnEventThatCouldNotBeWrittenIsWrittenWithTheNextList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, _ := listing(described("echo", "One."), shapeless("odd"))
		w := start(t, up)
		w.faults.down.Store(true)
		w.AwaitCatalog(context.Background(), "b")
		synctest.Wait()
		w.expectTold("while the journal is away")
		w.faults.down.Store(false)
		w.relist()
		w.expectTold("when it is back", "verb_quarantined b__odd")
	})
}

// TestWhatIsWrongInTheCatalogIsCalledWhatItIs: a profile is no verb.
func TestWhatIsWrongInTheCatalogIsCalledWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, _ := listing(described("echo", "One."), shapeless("odd"))
		w := start(t, up, func(o *Options) {
			o.Backends[0].Eager = true
			o.Sources = []catalog.Source{{Backend: "b", Rules: catalog.Rules{Essential: []string{"none_*"}}}}
			o.Catalog = catalog.Settings{Costs: shape.NewCosts(bytesCounter{}, nil), Profiles: []catalog.ProfileSpec{
				{Name: "editor", Select: []catalog.Selector{{Backend: "b"}, {Verb: "gone_*", Backend: "b"}}}}}
		})
		synctest.Wait()
		log := w.log.String()
		for _, want := range []string{
			`msg="a profile is not as it is configured" code=selects_nothing reason="A selector (verb gone_*, backend b) selects nothing." profile=editor`,
			`msg="a pattern of the configuration selects nothing" code=selects_nothing`, `pattern=none_*`,
			`msg="a verb is not served as it was listed" code=verb_schema_invalid`, `verb=odd`,
		} {
			if !strings.Contains(log, want) {
				t.Errorf("%s is not in\n%s", want, log)
			}
		}
		if strings.Contains(log, `verb=""`) {
			t.Errorf("a verb without a name in\n%s", log)
		}
	})
}

// bytesCounter counts a token a byte.
type bytesCounter struct{}

func (bytesCounter) Count(text string) shape.Count {
	return shape.Count{Tokens: len(text), Exact: true}
}

// TestACatalogWithABroughtInstanceIsCheckedLikeEveryOther: one that does not pass
// is not served, and nobody can bring such an instance.
func TestACatalogWithABroughtInstanceIsCheckedLikeEveryOther(t *testing.T) {
	for name, tt := range map[string]struct {
		follow string
		served bool
	}{"one that passes": {"look", true}, "one that follows its work with a verb that is none": {"gone", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := appTestSource("app")
				follow := *appFollow
				follow.Verb = tt.follow
				source.Surface.Follows = map[string]*broker.Follow{"start": &follow}
				opened := 0
				w := start(t, &upstream{}, func(o *Options) {
					o.Bindable = []Bindable{{Source: source, Open: func(map[string]string) (BackendConfig, *broker.Refusal) {
						opened++
						return BackendConfig{Name: "app", Upstream: &upstream{}}, nil
					}}}
				})
				if snapshot, ok := w.BoundCatalog("app"); ok != tt.served || ok != (snapshot != nil) {
					t.Errorf("served: %v", ok)
				}
				_, done, refusal := w.boundFor(context.Background(), broker.LocalOperator, &Binding{Key: strings.Repeat("k", 32), Surface: "app"})
				if (refusal == nil) != tt.served || (opened == 1) != tt.served {
					t.Errorf("brought: %v, %d opened", refusal, opened)
				}
				if refusal == nil {
					done()
				}
				if said := strings.Contains(w.log.String(), "does not pass its self-check"); said == tt.served {
					t.Errorf("logged: %v", said)
				}
			})
		})
	}
}

// TestALifeThatListsAnotherEntryThanWasAcceptedRunsNoCallOfIt: a call is judged by
// what is known before the backend is up, and the life that it waits for may come
// with another list.
func TestALifeThatListsAnotherEntryThanWasAcceptedRunsNoCallOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, say := listing(described("echo", "One."), described("other", "One."))
		var ran atomic.Int64
		up.call = func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			ran.Add(1)
			return echo(ctx, c, peer)
		}
		w := start(t, up, func(o *Options) {
			o.Backends[0].Eager = true
			o.Sources = []catalog.Source{{Backend: "b", Rules: catalog.Rules{Pin: true}}}
		})
		synctest.Wait()
		full, _ := w.Catalog().Profile(catalog.Full)
		call := func(verb string) *broker.Refusal {
			v, _ := full.Resolve(verb)
			if v.Pinned() == nil {
				t.Fatalf("%s is not pinned", verb)
			}
			return w.do(func(r *Request) { r.Call.Verb, r.Call.Pinned = verb, v.Pinned() }).Refusal
		}
		if r := call("b__echo"); r != nil || ran.Load() != 1 {
			t.Fatalf("%v", r)
		}
		say(described("echo", "Two."), described("other", "One."))
		up.last().die()
		synctest.Wait()
		if r := call("b__echo"); r == nil || r.Code != broker.CodeVerbChanged || r.Detail["accepted"] == r.Detail["listed"] || ran.Load() != 1 {
			t.Errorf("%v, %d calls were sent", r, ran.Load())
		}
		if r := call("b__other"); r != nil || ran.Load() != 2 {
			t.Errorf("a verb that stayed as it was: %v", r)
		}
		say(described("echo", "One."), described("other", "One."))
		up.say(toolsChanged, "{}")
		elapse(time.Second)
		if r := call("b__echo"); r != nil || ran.Load() != 3 {
			t.Errorf("after it is listed as before: %v", r)
		}
	})
}
