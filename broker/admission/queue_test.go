package admission

import (
	"fmt"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

var start = time.Unix(1_000_000, 0)

// script drives a queue at one moment and fails on what is not expected.
type script struct {
	t rapidOrTest
	q *Queue
	n int
}

type rapidOrTest interface {
	Helper()
	Fatalf(string, ...any)
}

// A lane that others have filled takes the first ticket of who has none there,
// within a reserve.
func TestAFullLaneTakesAnothersFirstTicket(t *testing.T) {
	q := New(Limits{Seats: 1, MaxQueuedCalls: 4})
	now := time.Unix(1000, 0)
	offer := func(id, principal, session string) bool {
		return q.Offer(Ticket{ID: id, Principal: principal, Session: session}, now) == nil
	}
	offer("runs", "p", "flood")
	q.Next(now)
	for i := range 4 {
		if !offer(fmt.Sprint("flood", i), "p", "flood") {
			t.Fatalf("ticket %d of four was refused", i)
		}
	}
	for _, tt := range []struct {
		id, principal, session string
		taken                  bool
	}{
		{"more of the flood", "p", "flood", false},
		{"another session's first", "p", "a", true},
		{"its second", "p", "a", false},
		{"a third session's first", "p", "b", true},
		{"a fourth session's first: half as many again is all", "p", "c", false},
		{"another principal's first", "q", "a", true},
		{"its second", "q", "a", false},
		{"a third principal's first", "r", "a", true},
		{"a fourth principal's first: as many again is all", "s", "a", false},
	} {
		if got := offer(tt.id, tt.principal, tt.session); got != tt.taken {
			t.Errorf("%s: taken %v", tt.id, got)
		}
	}
}

func (s *script) offer(t Ticket) string {
	s.t.Helper()
	if t.ID == "" {
		s.n++
		t.ID = fmt.Sprintf("%s/%s#%d", t.Principal, t.Session, s.n)
	}
	if r := s.q.Offer(t, start); r != nil {
		s.t.Fatalf("%s refused: %v", t.ID, r)
	}
	return t.ID
}

func (s *script) next() Ticket {
	s.t.Helper()
	t, ok := s.q.Next(start)
	if !ok {
		s.t.Fatalf("nothing runs: %+v", s.q.Stats(start))
	}
	return t
}

func (s *script) none() {
	s.t.Helper()
	if t, ok := s.q.Next(start); ok {
		s.t.Fatalf("%s runs", t.ID)
	}
}

func (s *script) done(id string) {
	s.t.Helper()
	if !s.q.Done(id, start) {
		s.t.Fatalf("%s did not run", id)
	}
}

func jobTicket(principal string, cost int) Ticket {
	return Ticket{Lane: broker.LaneJobs, Principal: principal, Cost: cost}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		before []Ticket
		run    int // how many of them run
		offer  Ticket
		want   broker.Code
		detail map[string]any
	}{
		{"a full calls lane", Limits{Seats: 1, MaxQueuedCalls: 2, MaxQueuedJobs: 2}, []Ticket{{ID: "a"}, {ID: "b"}, {ID: "c"}}, 1, Ticket{ID: "d"},
			broker.CodeOverloaded, map[string]any{"lane": "calls", "queue_length": 2, "in_flight": 1, "seats": 1, "seats_taken": 1}},
		{"a full jobs lane", Limits{Seats: 4, MaxQueuedCalls: 2, MaxQueuedJobs: 1}, []Ticket{jobWithID("a", 2), jobWithID("b", 2)}, 1, jobWithID("c", 1),
			broker.CodeOverloaded, map[string]any{"lane": "jobs", "queue_length": 1, "in_flight": 1, "seats": 4, "seats_taken": 2}},
		{"no place to wait and no free seat", Limits{Seats: 1}, []Ticket{{ID: "a"}}, 1, Ticket{ID: "b"},
			broker.CodeOverloaded, map[string]any{"lane": "calls", "queue_length": 0, "in_flight": 1, "seats": 1, "seats_taken": 1}},
		{"no place to wait and somebody before it", Limits{Seats: 1}, []Ticket{{ID: "a"}}, 0, Ticket{ID: "b"},
			broker.CodeOverloaded, map[string]any{"lane": "calls", "queue_length": 1, "in_flight": 0, "seats": 1, "seats_taken": 0}},
		{"an id that waits", Limits{Seats: 1, MaxQueuedCalls: 9}, []Ticket{{ID: "a"}}, 0, Ticket{ID: "a"}, broker.CodeInternal, map[string]any{"id": "a"}},
		{"an id that runs", Limits{Seats: 1, MaxQueuedCalls: 9}, []Ticket{{ID: "a"}}, 1, Ticket{ID: "a"}, broker.CodeInternal, map[string]any{"id": "a"}},
		{"no id", Limits{Seats: 1, MaxQueuedCalls: 9}, nil, 0, Ticket{}, broker.CodeInternal, nil},
		{"the control lane", Limits{Seats: 1, MaxQueuedCalls: 9}, nil, 0, Ticket{ID: "a", Lane: broker.LaneControl}, broker.CodeInternal, map[string]any{"id": "a"}},
		{"a lane that does not exist", Limits{Seats: 1, MaxQueuedCalls: 9}, nil, 0, Ticket{ID: "a", Lane: 77}, broker.CodeInternal, map[string]any{"id": "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{t: t, q: New(tt.limits)}
			for i, ticket := range tt.before {
				s.offer(ticket)
				if i < tt.run {
					s.next()
				}
			}
			before := s.q.Stats(start)
			got := s.q.Offer(tt.offer, start)
			if got == nil || got.Code != tt.want || fmt.Sprint(got.Detail) != fmt.Sprint(tt.detail) {
				t.Fatalf("got %+v, want %s %v", got, tt.want, tt.detail)
			}
			if overloaded := tt.want == broker.CodeOverloaded; got.Retryable != overloaded || (got.RetryAfter > 0) != overloaded {
				t.Errorf("retryable %v after %v", got.Retryable, got.RetryAfter)
			} else if overloaded {
				before.Shed++
			}
			if after := s.q.Stats(start); after != before {
				t.Errorf("a refusal changed %+v to %+v", before, after)
			}
		})
	}
}

func jobWithID(id string, cost int) Ticket {
	return Ticket{ID: id, Lane: broker.LaneJobs, Cost: cost}
}

func TestWithoutPlacesToWaitATicketRunsAtOnce(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 2})}
	for range 2 {
		id := s.offer(Ticket{})
		if got := s.next(); got.ID != id {
			t.Fatalf("%s runs, want %s", got.ID, id)
		}
	}
}

func TestOutOfRangeValuesAreClamped(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: -1, JobSeats: 9, MaxQueuedCalls: 9})}
	s.offer(Ticket{Cost: 99, Weight: -5, Bytes: -7})
	if got := s.next(); got.Cost != 1 || got.Weight != 1 || got.Bytes != 0 {
		t.Fatalf("got %+v", got)
	}
	if st := s.q.Stats(start); st.Seats != 1 || st.SeatsTaken != 1 || st.Bytes != 0 {
		t.Fatalf("stats %+v", st)
	}
}

// TestAFloodDoesNotDelayAnothersFirstCall: however long the flood has lasted,
// the first seat that comes back goes to the newcomer.
func TestAFloodDoesNotDelayAnothersFirstCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seats := rapid.IntRange(1, 8).Draw(t, "seats")
		s := &script{t: t, q: New(Limits{Seats: seats, MaxQueuedCalls: 1000})}
		for range 100 + seats {
			s.offer(Ticket{Principal: "p", Session: "flood"})
		}
		var running []string
		for range seats {
			running = append(running, s.next().ID)
		}
		for range rapid.IntRange(0, 90).Draw(t, "served") {
			s.done(running[0])
			running = append(running[1:], s.next().ID)
		}
		newcomer := Ticket{Principal: "p", Session: "other"}
		if rapid.Bool().Draw(t, "of another principal") {
			newcomer.Principal = "q"
		}
		id := s.offer(newcomer)
		s.none()
		s.done(running[rapid.IntRange(0, seats-1).Draw(t, "ends")])
		if got := s.next(); got.ID != id {
			t.Fatalf("%s runs before %s", got.ID, id)
		}
	})
}

func TestAStreamOfNewSessionsDoesNotStarveOneThatWaits(t *testing.T) {
	for _, level := range []string{"sessions", "principals"} {
		t.Run(level, func(t *testing.T) {
			s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 1000})}
			for range 100 {
				s.offer(Ticket{Principal: "p", Session: "waits"})
			}
			served := 0
			for i := range 100 { // as many come as run
				newcomer := Ticket{Principal: "p", Session: fmt.Sprint(i)}
				if level == "principals" {
					newcomer.Principal = newcomer.Session
				}
				s.offer(newcomer)
				got := s.next()
				if got.Session == "waits" {
					served++
				}
				s.done(got.ID)
			}
			// Each of its starts leaves one more newcomer waiting, so its share
			// falls: the ideal gives it about the root of the starts.
			if served < 8 || served > 11 {
				t.Fatalf("served %d of 100", served)
			}
		})
	}
}

func TestOneCallAtATimeEscapesNoWeight(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 1000})}
	for range 300 {
		s.offer(Ticket{Principal: "heavy", Weight: 9})
	}
	s.offer(Ticket{Principal: "light", Weight: 1})
	light := 0
	for range 200 {
		got := s.next()
		s.done(got.ID)
		if got.Principal == "light" {
			light++
			s.offer(Ticket{Principal: "light", Weight: 1}) // its queue was empty meanwhile
		}
	}
	if light < 19 || light > 21 {
		t.Fatalf("weight 1 of 10 got %d of 200", light)
	}
}

func TestAChangedWeightHoldsFromThenOn(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 1000})}
	for range 100 {
		s.offer(Ticket{Principal: "a", Weight: 1})
		s.offer(Ticket{Principal: "b", Weight: 1})
	}
	count := func(n int) (a int) {
		for range n {
			got := s.next()
			s.done(got.ID)
			if got.Principal == "a" {
				a++
			}
		}
		return a
	}
	if a := count(40); a != 20 {
		t.Fatalf("equal weights: a got %d of 40", a)
	}
	s.offer(Ticket{Principal: "a", Weight: 3})
	if a := count(40); a < 29 || a > 31 {
		t.Fatalf("weight 3 to 1: a got %d of 40", a)
	}
}

func TestADebtIsWorthLessAtAHigherWeight(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 1000})}
	for range 30 {
		s.offer(Ticket{Principal: "b", Weight: 1})
	}
	s.offer(Ticket{Principal: "a", Weight: 1})
	for range 3 { // a is served and ahead
		s.done(s.next().ID)
	}
	for range 30 {
		s.offer(Ticket{Principal: "a", Weight: 1000})
	}
	for i := range 20 {
		got := s.next()
		s.done(got.ID)
		if got.Principal != "a" && i > 1 {
			t.Fatalf("start %d went to %s", i, got.Principal)
		}
	}
}

func TestAnExpensiveTicketIsNotStarvedByCheapOnes(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 4, MaxQueuedCalls: 1000})}
	var running []string
	for range 4 {
		s.offer(Ticket{Session: "cheap", Cost: 1})
		running = append(running, s.next().ID)
	}
	expensive := s.offer(Ticket{Session: "expensive", Cost: 4})
	for i := range 40 {
		s.offer(Ticket{Session: fmt.Sprint("cheap ", i%3), Cost: 1})
		s.done(running[0])
		running = running[1:]
		for {
			got, ok := s.q.Next(start)
			if !ok {
				break
			}
			if got.ID == expensive {
				if st := s.q.Stats(start); st.SeatsTaken != 4 || st.InFlight != 1 {
					t.Fatalf("it shares its seats: %+v", st)
				}
				return
			}
			running = append(running, got.ID)
		}
	}
	t.Fatal("40 cheap ones went before it")
}

func TestATurnThatIsGivenUpGoesToTheNext(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(s *script, id string)
	}{
		{"abandoned", func(s *script, id string) { s.q.Abandon(id, start) }},
		{"expired", func(s *script, _ string) { s.q.Expire(start.Add(time.Minute)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{t: t, q: New(Limits{Seats: 2, MaxQueuedCalls: 9})}
			s.offer(Ticket{})
			s.next()
			big := s.offer(Ticket{Session: "s", Cost: 2, QueueTimeout: time.Minute})
			s.none()
			small := s.offer(Ticket{Session: "t"})
			s.none() // one seat is free, but it is not its turn
			tt.end(s, big)
			if got := s.next(); got.ID != small {
				t.Fatalf("%s runs, want %s", got.ID, small)
			}
		})
	}
}

func TestWhatLeavesBehindATurnLeavesTheTurn(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 2, MaxQueuedCalls: 9})}
	first := s.offer(Ticket{})
	s.next()
	big := s.offer(Ticket{Session: "s", Cost: 2})
	s.none()
	gone := s.offer(Ticket{Session: "t"})
	s.offer(Ticket{Session: "u"})
	s.q.Abandon(gone, start)
	s.none()
	s.done(first)
	if got := s.next(); got.ID != big {
		t.Fatalf("%s runs, want %s", got.ID, big)
	}
}

func TestJobsNeverExpireAndKeptCallsDoNot(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 9, MaxQueuedJobs: 9, QueueTimeout: time.Minute})}
	s.offer(Ticket{ID: "runs"})
	s.next()
	s.offer(Ticket{ID: "default"})
	s.offer(Ticket{ID: "short", QueueTimeout: time.Second})
	s.offer(Ticket{ID: "endless", QueueTimeout: -1})
	s.offer(Ticket{ID: "kept"})
	s.offer(Ticket{ID: "job", Lane: broker.LaneJobs, QueueTimeout: time.Second})
	if !s.q.Keep("kept") || s.q.Keep("runs") || s.q.Keep("nobody") {
		t.Fatal("Keep is for what waits")
	}
	if at, ok := s.q.NextExpiry(); !ok || !at.Equal(start.Add(time.Second)) {
		t.Fatalf("next expiry %v %v", at, ok)
	}
	if got := s.q.Expire(start.Add(time.Second - 1)); len(got) != 0 {
		t.Fatalf("expired early: %v", got)
	}
	got := s.q.Expire(start.Add(time.Hour))
	if len(got) != 2 || got[0].ID != "short" || got[1].ID != "default" {
		t.Fatalf("expired %v", got)
	}
	if _, ok := s.q.NextExpiry(); ok {
		t.Fatal("something can still expire")
	}
	if left := s.q.Drain(); len(left) != 3 {
		t.Fatalf("left %v", left)
	}
}

func TestAnAbandonedRunKeepsItsSeatUntilDone(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 9})}
	id := s.offer(Ticket{})
	s.next()
	for range 2 {
		if got := s.q.Abandon(id, start); got != Running {
			t.Fatalf("found %v", got)
		}
	}
	s.offer(Ticket{})
	s.none()
	s.done(id)
	s.next()
	if st := s.q.Stats(start); st.Abandoned != 1 || st.Finished != 1 {
		t.Fatalf("stats %+v", st)
	}
	if s.q.Done(id, start) || s.q.Abandon(id, start) != Unknown {
		t.Fatal("a ticket ended twice")
	}
}

func TestOldestWait(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 9})}
	for _, id := range []string{"a", "b", "c"} {
		if r := s.q.Offer(Ticket{ID: id, Session: id}, start.Add(time.Duration(s.n)*time.Second)); r != nil {
			t.Fatal(r)
		}
		s.n++
	}
	now := start.Add(10 * time.Second)
	for _, want := range []time.Duration{10, 9, 8} {
		if got := s.q.Stats(now).OldestWait; got != want*time.Second {
			t.Fatalf("oldest waits %v, want %v", got, want*time.Second)
		}
		s.q.Abandon(string(rune('a'+10-int(want))), now)
	}
	if got := s.q.Stats(now).OldestWait; got != 0 {
		t.Fatalf("nothing waits, oldest waits %v", got)
	}
}
