package proof

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

var kinds = map[string]Kind{
	"once":    {Canonical: "exact", TTL: 10 * time.Minute},
	"again":   {Canonical: "exact", TTL: 10 * time.Minute, Reusable: true},
	"session": {Canonical: "exact", TTL: 10 * time.Minute, Session: true},
}

func target(kind, name string) Target {
	t, ok := newTarget(kind, kinds[kind], json.RawMessage(quote(name)))
	if !ok {
		panic(name)
	}
	return t
}

func demand(targets ...Target) Demand { return Demand{Verb: "v", Targets: targets} }

func reasons(unproven []Unproven) string {
	var out []Reason
	for _, u := range unproven {
		out = append(out, u.Reason)
	}
	return fmt.Sprint(out)
}

func TestAMarkCountsForOneCallerForATime(t *testing.T) {
	a := target("once", "a")
	m := NewMarks(kinds)
	m.Incarnation("r1")
	m.Grant(noon, noon, alice, "r1", []Target{a})
	otherSession := alice
	otherSession.Session = "s9"
	otherTenant := alice
	otherTenant.Principal.Tenant = "t2"
	for name, tt := range map[string]struct {
		who  Caller
		at   time.Time
		of   Target
		want string
	}{
		"the caller": {alice, noon, a, "[]"}, "in another session": {otherSession, noon, a, "[]"}, "another user": {bob, noon, a, "[no_mark]"}, "another tenant": {otherTenant, noon, a, "[no_mark]"},
		"another target": {alice, noon, target("once", "b"), "[no_mark]"}, "another kind": {alice, noon, target("again", "a"), "[no_mark]"},
		"at its end": {alice, noon.Add(10 * time.Minute), a, "[expired]"}, "just before": {alice, noon.Add(10*time.Minute - 1), a, "[]"},
	} {
		if got := reasons(m.Look(tt.at, tt.who, demand(tt.of))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	m.Incarnation("r2")
	if got := reasons(m.Look(noon, alice, demand(a))); got != "[other_incarnation]" {
		t.Error(got)
	}
	m.Grant(noon, noon, alice, "r2", []Target{a})
	if got := reasons(m.Look(noon, alice, demand(a))); got != "[]" {
		t.Error(got)
	}
}

func TestAMarkOfASessionCountsInItOnly(t *testing.T) {
	a := target("session", "a")
	m := NewMarks(kinds)
	other, none := alice, alice
	other.Session, none.Session = "s9", ""
	m.Grant(noon, noon, alice, "", []Target{a})
	m.Grant(noon, noon, other, "", []Target{a})
	m.Grant(noon, noon, none, "", []Target{a})
	if got := reasons(m.Look(noon, none, demand(a))); got != "[no_mark]" {
		t.Errorf("without a session: %s", got)
	}
	r, unproven := m.Reserve(noon, alice, demand(a))
	if unproven != nil || m.Spend(noon, r) != nil {
		t.Fatal(unproven)
	}
	if got := reasons(m.Look(noon, other, demand(a))); got != "[written_since]" {
		t.Errorf("the other session of the principal: %s", got)
	}
}

func TestAMarkIsUsedUpByTheCallThatWasSent(t *testing.T) {
	a, b := target("once", "a"), target("again", "a")
	m := NewMarks(kinds)
	m.Grant(noon, noon, alice, "", []Target{a, b})
	r, _ := m.Reserve(noon, alice, demand(a, b))
	if got := reasons(m.Look(noon, alice, demand(a, b))); got != "[used]" {
		t.Errorf("while it is held: %s", got)
	}
	m.Return(r)
	m.Return(r)
	if got := reasons(m.Look(noon, alice, demand(a, b))); got != "[]" {
		t.Errorf("given back: %s", got)
	}
	if got := reasons(m.Spend(noon, r)); got != "[no_mark no_mark]" {
		t.Errorf("what was given back cannot be spent: %s", got)
	}
	r, _ = m.Reserve(noon, alice, demand(a, b))
	if unproven := m.Spend(noon, r); unproven != nil {
		t.Fatal(unproven)
	}
	m.Return(r) // it was sent: nothing comes back
	if got := reasons(m.Look(noon, alice, demand(a, b))); got != "[used]" {
		t.Errorf("spent: %s", got)
	}
	if m.Spend(noon, nil) != nil {
		t.Error("a call without a demand is held back")
	}
	m.Return(nil)
}

func TestAReservationIsAllOrNothing(t *testing.T) {
	a, b := target("once", "a"), target("once", "b")
	m := NewMarks(kinds)
	m.Grant(noon, noon, alice, "", []Target{a})
	if r, unproven := m.Reserve(noon, alice, demand(a, b)); r != nil || reasons(unproven) != "[no_mark]" {
		t.Errorf("%v, %v", r, unproven)
	}
	if r, unproven := m.Reserve(noon, alice, Demand{Targets: []Target{a}, Faults: []Unproven{{Reason: NoTarget}}}); r != nil || reasons(unproven) != "[no_target]" {
		t.Errorf("%v, %v", r, unproven)
	}
	if got := reasons(m.Look(noon, alice, demand(a))); got != "[]" {
		t.Errorf("a call that was refused took the mark: %s", got)
	}
}

func TestOfTwoConcurrentUsesOnePasses(t *testing.T) {
	m := NewMarks(kinds)
	for range 50 {
		m.Grant(noon, noon, alice, "", []Target{target("once", "a")})
		passed := make(chan bool, 8)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r, _ := m.Reserve(noon, alice, demand(target("once", "a")))
				passed <- r != nil && m.Spend(noon, r) == nil
			})
		}
		wg.Wait()
		close(passed)
		n := 0
		for ok := range passed {
			if ok {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d passed", n)
		}
	}
}

func TestNobodyOverwritesWhatHeHasNotSeen(t *testing.T) {
	a := target("once", "a")
	both := func() (*Marks, *Reservation, *Reservation) {
		m := NewMarks(kinds)
		m.Grant(noon, noon, alice, "", []Target{a})
		m.Grant(noon, noon, bob, "", []Target{a})
		x, _ := m.Reserve(noon, alice, demand(a))
		y, _ := m.Reserve(noon, bob, demand(a))
		return m, x, y
	}
	m, x, y := both()
	if x == nil || y == nil || m.Spend(noon, x) != nil {
		t.Fatal("the first was held back")
	}
	if got := reasons(m.Spend(noon, y)); got != "[written_since]" {
		t.Errorf("both were admitted, and the second: %s", got)
	}
	if got := reasons(m.Look(noon, bob, demand(a))); got != "[written_since]" {
		t.Errorf("afterwards: %s", got)
	}

	// The mark that a call holds was granted anew while the call waited.
	m, x, y = both()
	m.Grant(noon, noon, bob, "", []Target{a})
	m.Spend(noon, x)
	if got := reasons(m.Spend(noon, y)); got != "[written_since]" {
		t.Errorf("the held one: %s", got)
	}

	// An answer that was asked for before the write shows what was there before.
	m, x, _ = both()
	m.Spend(noon.Add(time.Second), x)
	m.Grant(noon.Add(2*time.Second), noon, bob, "", []Target{a})
	if got := reasons(m.Look(noon.Add(2*time.Second), bob, demand(a))); got != "[written_since]" {
		t.Errorf("asked before: %s", got)
	}
	m.Grant(noon.Add(3*time.Second), noon.Add(2*time.Second), bob, "", []Target{a})
	if got := reasons(m.Look(noon.Add(3*time.Second), bob, demand(a))); got != "[]" {
		t.Errorf("asked after: %s", got)
	}
	// While the write ran: said again when it ended.
	m.Spend(noon.Add(4*time.Second), x)
	if got := reasons(m.Look(noon.Add(4*time.Second), bob, demand(a))); got != "[written_since]" {
		t.Errorf("asked while it ran: %s", got)
	}
}

func TestACallForAnotherIncarnationIsNotSent(t *testing.T) {
	a := target("once", "a")
	m := NewMarks(kinds)
	m.Incarnation("r1")
	m.Grant(noon, noon, alice, "r1", []Target{a})
	r, _ := m.Reserve(noon, alice, demand(a))
	m.Incarnation("r2")
	if got := reasons(m.Spend(noon, r)); got != "[other_incarnation]" {
		t.Error(got)
	}
	if got := reasons(m.Spend(noon, r)); got != "[no_mark]" {
		t.Errorf("a second try: %s", got)
	}
}

func TestVersionsAreCompared(t *testing.T) {
	m := NewMarks(kinds)
	seen, wanted := target("again", "a"), target("again", "a")
	seen.version, wanted.version, wanted.wants = json.RawMessage(`7`), json.RawMessage(`7.0`), true
	m.Grant(noon, noon, alice, "", []Target{seen})
	if got := reasons(m.Look(noon, alice, demand(wanted))); got != "[]" {
		t.Errorf("equal: %s", got)
	}
	wanted.version = json.RawMessage(`"7"`)
	if got := reasons(m.Look(noon, alice, demand(wanted))); got != "[version_changed]" {
		t.Errorf("another: %s", got)
	}
	m.Grant(noon, noon, alice, "", []Target{target("again", "a")})
	if got := reasons(m.Look(noon, alice, demand(wanted))); got != "[version_changed]" {
		t.Errorf("no version was seen: %s", got)
	}
}

func TestVersionsComeFromArgumentsAndResults(t *testing.T) {
	c := filesystem(t)
	c.Needs[1].Version = "args:/etag"
	c.Grants[0].Version = "result:/structuredContent/etag"
	r := compile(t, c)
	m := NewMarks(r.Kinds())
	read := func(result string) {
		m.Grant(noon, noon, alice, "", r.Grants("fs__read_text_file", conditionCall(`{"path":"a"}`, result), false))
	}
	look := func(args string) string {
		return reasons(m.Look(noon, alice, r.Demand("fs__edit_file", broker.Write, json.RawMessage(args))))
	}
	read(`{"content":[]}`)
	if got := look(`{"path":"a","etag":"v1"}`); got != "[no_mark]" {
		t.Errorf("a result without version grants nothing: %s", got)
	}
	read(`{"content":[],"structuredContent":{"etag":"v1"}}`)
	for args, want := range map[string]string{`{"path":"a","etag":"v1"}`: "[]", `{"path":"a","etag":"v2"}`: "[version_changed]", `{"path":"a"}`: "[unresolvable]", `{"path":"a","etag":""}`: "[unresolvable]"} {
		if got := look(args); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestTheOldestMarkMakesRoom(t *testing.T) {
	m := NewMarks(kinds)
	m.Grant(noon, noon, bob, "", []Target{target("once", "0")})
	for i := range MaxMarks + 10 {
		m.Grant(noon, noon, alice, "", []Target{target("once", fmt.Sprint(i))})
	}
	if n := m.Len(); n != MaxMarks+1 {
		t.Errorf("%d marks", n)
	}
	for name, want := range map[string]string{"9": "[no_mark]", "10": "[]"} {
		if got := reasons(m.Look(noon, alice, demand(target("once", name)))); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := reasons(m.Look(noon, bob, demand(target("once", "0")))); got != "[]" {
		t.Error("another principal's mark was dropped")
	}
	later := noon.Add(10*time.Minute + memory)
	m.Grant(later, later, alice, "", []Target{target("once", "x")})
	if n := m.Len(); n != 2 {
		t.Errorf("%d marks are left of those that nobody asks about", n)
	}
	for i := range maxWrites + 10 {
		m.Grant(later, later, bob, "", []Target{target("once", fmt.Sprint(i))})
		r, _ := m.Reserve(later, bob, demand(target("once", fmt.Sprint(i))))
		m.Spend(later, r)
	}
	if len(m.writes) != maxWrites || m.written.Len() != maxWrites {
		t.Errorf("%d writes are remembered", len(m.writes))
	}
}

// event is one line of the log that the model judges from.
type event struct {
	what    string // grant, hold, send
	who     Caller
	target  string
	at      time.Time
	asked   time.Time
	runtime string
	grant   int // of a hold and a send: the grant's place in the log
	open    *Reservation
}

// TestMarksModel compares with a log of everything that happened, which is read
// from its end for each question.
func TestMarksModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"once", "again", "session"}).Draw(t, "kind")
		m := NewMarks(kinds)
		var log []event
		now, runtime := noon, ""
		var held []*Reservation
		over := map[*Reservation]bool{}
		sessions := []Caller{alice, bob, {Principal: alice.Principal, Session: "s9"}}
		same := func(a, b Caller) bool {
			return a.Principal == b.Principal && (kind != "session" || a.Session == b.Session)
		}
		others := func(from int, who Caller, name string) bool {
			for _, e := range log[from:] {
				if e.what == "send" && e.target == name && !same(e.who, who) {
					return true
				}
			}
			return false
		}
		judge := func(who Caller, name string) (Reason, int) {
			for i := len(log) - 1; i >= 0; i-- {
				g := log[i]
				if g.what != "grant" || g.target != name || !same(g.who, who) {
					continue
				}
				stale := false
				for j := i - 1; j >= 0 && !stale; j-- { // the last write before the grant
					if e := log[j]; e.what == "send" && e.target == name {
						stale = !same(e.who, who) && !e.at.Before(g.asked)
						break
					}
				}
				taken := false
				for _, e := range log[i:] {
					taken = taken || (e.grant == i && kind != "again" && ((e.what == "hold" && !over[e.open]) || (e.what == "send")))
				}
				spent := false
				for _, e := range log[i:] {
					spent = spent || (e.what == "send" && e.grant == i && kind != "again")
				}
				switch {
				case !spent && (stale || others(i, who, name)):
					return WrittenSince, i
				case taken:
					// What others wrote after it was spent changes nothing; before, it could not be spent.
					return Used, i
				case g.runtime != runtime:
					return OtherIncarnation, i
				case !now.Before(g.at.Add(10 * time.Minute)):
					return Expired, i
				}
				return "", i
			}
			return NoMark, -1
		}
		who := rapid.SampledFrom(sessions)
		name := rapid.SampledFrom([]string{"a", "b"})
		names := rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}})
		holds := map[*Reservation][]event{}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				wait := time.Duration(rapid.IntRange(0, 5).Draw(t, "min")) * time.Minute
				if now.Add(wait).Sub(noon) >= memory {
					t.Skip("the model forgets nothing and marks are remembered for an hour, so rapid draws another action")
				}
				now = now.Add(wait)
			},
			"restart": func(t *rapid.T) {
				runtime = rapid.SampledFrom([]string{"", "r1"}).Draw(t, "id")
				m.Incarnation(runtime)
			},
			"grant": func(t *rapid.T) {
				e := event{what: "grant", who: who.Draw(t, "who"), target: name.Draw(t, "target"), at: now, asked: now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "ago")) * time.Minute), runtime: runtime, grant: -1}
				log = append(log, e)
				m.Grant(now, e.asked, e.who, runtime, []Target{target(kind, e.target)})
			},
			"reserve": func(t *rapid.T) {
				w, wanted := who.Draw(t, "who"), names.Draw(t, "targets")
				var want []Reason
				var d Demand
				var mine []event
				for _, n := range wanted {
					reason, g := judge(w, n)
					if reason != "" {
						want = append(want, reason)
					}
					d.Targets = append(d.Targets, target(kind, n))
					mine = append(mine, event{what: "hold", who: w, target: n, at: now, grant: g})
				}
				if got := reasons(m.Look(now, w, d)); got != fmt.Sprint(want) {
					t.Fatalf("look: %s, want %v", got, want)
				}
				r, unproven := m.Reserve(now, w, d)
				if got := reasons(unproven); got != fmt.Sprint(want) || (r == nil) != (len(want) > 0) {
					t.Fatalf("reserve: %s, want %v", got, want)
				}
				if r != nil {
					for i := range mine {
						mine[i].open = r
					}
					log, held, holds[r] = append(log, mine...), append(held, r), mine
				}
			},
			"return": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held in this state, so rapid draws another action")
				}
				r := rapid.SampledFrom(held).Draw(t, "held")
				m.Return(r)
				over[r] = true
			},
			"spend": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held in this state, so rapid draws another action")
				}
				r := rapid.SampledFrom(held).Draw(t, "held")
				if over[r] {
					t.Skip("it was spent or returned before, so rapid draws another action")
				}
				over[r] = true
				var want []Reason
				for _, h := range holds[r] {
					switch g := log[h.grant]; {
					case others(h.grant, h.who, h.target):
						want = append(want, WrittenSince)
					case g.runtime != runtime:
						want = append(want, OtherIncarnation)
					}
				}
				if got := reasons(m.Spend(now, r)); got != fmt.Sprint(want) {
					t.Fatalf("spend: %s, want %v", got, want)
				}
				if len(want) == 0 {
					for _, h := range holds[r] {
						h.what, h.at = "send", now
						log = append(log, h)
					}
				}
			},
			"": func(t *rapid.T) {
				watched := 0
				for _, of := range m.byTarget {
					watched += len(of)
				}
				if extra := watched - len(m.marks); extra < 0 || extra > 2*len(held) {
					t.Fatalf("%d marks are watched, %d kept", watched, len(m.marks))
				}
			},
		})
	})
}
