package admission_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/admission"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func shared(holder, backend string, s broker.Share) *broker.Call {
	return &broker.Call{Backend: backend, Share: &broker.CallShare{Holder: holder, Share: s}}
}

func TestACredentialHasNoMoreInFlightThanItsShare(t *testing.T) {
	s := admission.NewShares()
	two := broker.Share{InFlight: 2}
	calls := []*broker.Call{shared("a", "fs", two), shared("a", "fs", two)}
	for _, c := range calls {
		if r := s.Take(c, t0); r != nil {
			t.Fatal(r)
		}
	}
	r := s.Take(shared("a", "fs", two), t0)
	if r == nil || r.Code != broker.CodeOverloaded || !r.Retryable || r.RetryAfter <= 0 || r.Detail["of"] != "credential" || r.Detail["limit"] != 2 {
		t.Fatalf("%+v", r)
	}
	for name, c := range map[string]*broker.Call{
		"another credential":     shared("b", "fs", two),
		"another backend":        shared("a", "git", two),
		"nobody's share":         {Backend: "fs"},
		"of the control lane":    {Backend: "fs", Lane: broker.LaneControl, Share: calls[0].Share},
		"a share without number": shared("c", "fs", broker.Share{Weight: 3}),
	} {
		if r := s.Take(c, t0); r != nil {
			t.Errorf("%s: %v", name, r)
		}
		s.Give(c, t0)
	}
	s.Give(calls[0], t0)
	if r := s.Take(shared("a", "fs", two), t0); r != nil {
		t.Errorf("after one was given back: %v", r)
	}
}

func TestACredentialBeginsNoFasterThanItsRate(t *testing.T) {
	s := admission.NewShares()
	rate := broker.Share{PerSecond: 2, Burst: 3}
	now := t0
	begin := func() *broker.Refusal {
		c := shared("a", "fs", rate)
		r := s.Take(c, now)
		if r == nil {
			s.Give(c, now) // its end gives nothing back of the rate
		}
		return r
	}
	for i := range 3 {
		if r := begin(); r != nil {
			t.Fatalf("call %d of the burst: %v", i, r)
		}
	}
	r := begin()
	if r == nil || r.Code != broker.CodeRateLimited || r.RetryAfter != 500*time.Millisecond {
		t.Fatalf("%+v", r)
	}
	if begin() == nil {
		t.Error("a refused call used up nothing, and yet the next is let in")
	}
	now = now.Add(r.RetryAfter)
	if r := begin(); r != nil {
		t.Errorf("after the time that it was told: %v", r)
	}
	if begin() == nil {
		t.Error("one more is let in")
	}
}

// TestSharesAreTheirModel holds the account against a plain count of what is in
// flight and of what began in any time.
func TestSharesAreTheirModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, now := admission.NewShares(), t0
		share := map[string]broker.Share{}
		flying := map[string][]*broker.Call{}
		began := map[string][]time.Time{}
		for range rapid.IntRange(1, 120).Draw(r, "steps") {
			key := fmt.Sprint("c", rapid.IntRange(0, 2).Draw(r, "who"))
			if _, ok := share[key]; !ok {
				share[key] = broker.Share{InFlight: rapid.IntRange(0, 4).Draw(r, "in flight"), PerSecond: float64(rapid.IntRange(0, 3).Draw(r, "rate")), Burst: rapid.IntRange(1, 3).Draw(r, "burst")}
			}
			if rapid.Bool().Draw(r, "end") && len(flying[key]) > 0 {
				s.Give(flying[key][0], now)
				flying[key] = flying[key][1:]
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(r, "ms")) * time.Millisecond)
			c, limit := shared(key, "fs", share[key]), share[key]
			refusal := s.Take(c, now)
			full := limit.InFlight > 0 && len(flying[key]) >= limit.InFlight
			switch {
			case full && (refusal == nil || refusal.Code != broker.CodeOverloaded):
				r.Fatalf("%d in flight of %d: %v", len(flying[key]), limit.InFlight, refusal)
			case !full && refusal != nil && (limit.PerSecond == 0 || refusal.Code != broker.CodeRateLimited || refusal.RetryAfter <= 0):
				r.Fatalf("refused without a limit that is reached: %v", refusal)
			}
			if refusal != nil {
				continue
			}
			flying[key], began[key] = append(flying[key], c), append(began[key], now)
			if limit.PerSecond == 0 {
				continue
			}
			for i, from := range began[key] { // of every stretch of time: the burst and what came since
				n, most := len(began[key])-i, float64(limit.Burst)+now.Sub(from).Seconds()*limit.PerSecond+1e-6
				if float64(n) > most {
					r.Fatalf("%d began in %s, at most %f may", n, now.Sub(from), most)
				}
			}
		}
	})
}

func TestAWeightIsAPartOfTheStarts(t *testing.T) {
	q := admission.New(admission.Limits{Seats: 1, MaxQueuedCalls: 1000})
	for i := range 200 {
		for who, weight := range map[string]int{"light": 1, "heavy": 3} {
			c := shared(who, "fs", broker.Share{Weight: weight})
			c.ID, c.Principal = fmt.Sprint(who, i), broker.Principal{Tenant: "t", User: who}
			if r := q.Offer(admission.TicketOf(c, broker.LaneCalls, 0), t0); r != nil {
				t.Fatal(r)
			}
		}
	}
	began := map[string]int{}
	for range 100 {
		ticket, ok := q.Next(t0)
		if !ok {
			t.Fatal("nothing runs")
		}
		began[ticket.Principal]++
		q.Done(ticket.ID, t0)
	}
	if light, heavy := began["t/light"], began["t/heavy"]; light < 24 || light > 26 || light+heavy != 100 {
		t.Errorf("%v", began)
	}
}
