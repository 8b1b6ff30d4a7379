package admission

import (
	"fmt"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

// TestPositionsAreTheOrderInWhichTicketsRun explains everything that waits, then
// lets it run, and compares.
func TestPositionsAreTheOrderInWhichTicketsRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seats := rapid.IntRange(1, 3).Draw(t, "seats")
		s := &script{t: t, q: New(Limits{Seats: seats, MaxQueuedCalls: 100, MaxQueuedJobs: 100})}
		lane := rapid.SampledFrom([]broker.Lane{broker.LaneCalls, broker.LaneJobs})
		offer := func() {
			p := rapid.IntRange(1, 3).Draw(t, "principal")
			s.offer(Ticket{Lane: lane.Draw(t, "lane"), Principal: fmt.Sprint(p), Weight: p, Session: fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "session")), Cost: rapid.IntRange(1, seats).Draw(t, "cost")})
		}
		running := map[string]bool{}
		run := func() (ran []Ticket) {
			for {
				got, ok := s.q.Next(start)
				if !ok {
					return ran
				}
				running[got.ID] = true
				ran = append(ran, got)
			}
		}
		stop := func() {
			for id := range running {
				s.done(id)
			}
			clear(running)
		}
		for range rapid.IntRange(1, 20).Draw(t, "before") {
			offer()
		}
		for range rapid.IntRange(0, 5).Draw(t, "rounds") {
			run()
			if rapid.Bool().Draw(t, "stop") {
				stop()
			}
			offer()
		}
		position := map[string]int{}
		before := s.q.Stats(start)
		for id, e := range s.q.known {
			if w, ok := s.q.Explain(id, start); ok != !e.running {
				t.Fatalf("explained %s: %v", id, ok)
			} else if ok {
				position[id] = w.Position
			}
		}
		if after := s.q.Stats(start); after != before {
			t.Fatalf("explaining changed %+v to %+v", before, after)
		}
		ran := map[broker.Lane]int{}
		for len(position) > 0 {
			started := run()
			if len(started) == 0 && len(running) == 0 {
				t.Fatalf("nothing runs, left are %v", position)
			}
			for _, ticket := range started {
				ran[ticket.Lane]++
				if position[ticket.ID] != ran[ticket.Lane] {
					t.Fatalf("%s ran as number %d of its lane, its position was %d", ticket.ID, ran[ticket.Lane], position[ticket.ID])
				}
				delete(position, ticket.ID)
			}
			stop()
		}
	})
}

func TestWhatATicketWaitsFor(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 3, MaxQueuedCalls: 9, MaxQueuedJobs: 9})}
	want := func(id, what string) {
		t.Helper()
		if w, ok := s.q.Explain(id, start); !ok || w.WaitsFor != what {
			t.Fatalf("%s waits for %q (%v), want %q", id, w.WaitsFor, ok, what)
		}
	}
	first := s.offer(jobTicket("a", 2))
	want(first, WaitsForDispatch)
	s.next()
	second := s.offer(jobTicket("b", 1))
	s.none()
	want(second, WaitsForJobSeat)
	big := s.offer(Ticket{Cost: 2})
	s.none()
	want(big, WaitsForSeat)
	small := s.offer(Ticket{Session: "other", Cost: 1})
	want(small, WaitsForTurn)
	for _, id := range []string{first, "nobody"} {
		if w, ok := s.q.Explain(id, start); ok {
			t.Fatalf("%s does not wait, but: %+v", id, w)
		}
	}
}

func TestAWaitSaysHowLongItLastedAndWhenItEnds(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 9, MaxQueuedJobs: 9, QueueTimeout: time.Minute})}
	call, job := s.offer(Ticket{}), s.offer(jobTicket("", 1))
	w, _ := s.q.Explain(call, start.Add(3*time.Second))
	if w.Waited != 3*time.Second || w.Expires == nil || !w.Expires.Equal(start.Add(time.Minute)) {
		t.Errorf("call: %+v", w)
	}
	if w, _ = s.q.Explain(job, start.Add(-time.Second)); w.Waited != 0 || w.Expires != nil {
		t.Errorf("job, with a clock that went back: %+v", w)
	}
}

// steady is a queue with one seat and many calls, of which n ran for each.
func steady(t *testing.T, n int, each time.Duration) (*Queue, time.Time) {
	q := New(Limits{Seats: 1, MaxQueuedCalls: 20})
	now := start
	for i := range 21 {
		if r := q.Offer(Ticket{ID: fmt.Sprint(i)}, now); r != nil {
			t.Fatal(r)
		}
		q.Next(now)
	}
	for i := range n {
		now = now.Add(each)
		q.Done(fmt.Sprint(i), now)
		q.Next(now)
		q.Next(now)
	}
	return q, now
}

func TestEstimatesAreNullUntilMeasured(t *testing.T) {
	for n := range rateSamples {
		q, now := steady(t, n, time.Second)
		if w, ok := q.Explain("20", now); !ok || w.Estimate != nil {
			t.Fatalf("after %d starts: %+v", n, w)
		}
	}
	q, now := steady(t, rateSamples, time.Second)
	if w, ok := q.Explain("20", now); !ok || w.Estimate == nil {
		t.Fatalf("measured, but %+v", w)
	}
}

func TestEstimatesFollowTheDrainRate(t *testing.T) {
	q, now := steady(t, 8, 2*time.Second) // 8 runs; 9 to 20 wait
	for _, tt := range []struct {
		name  string
		id    string
		after time.Duration
		want  time.Duration
	}{
		{"the next", "9", 0, 2 * time.Second},
		{"the next, half-way", "9", time.Second, time.Second},
		{"the last", "20", 0, 24 * time.Second},
		// 8 samples that fade by a tenth weigh 5.7 starts: 11.4 s, and 100 s more.
		{"a standstill counts", "9", 100 * time.Second, 19559 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := q.Explain(tt.id, now.Add(tt.after))
			if w.Estimate == nil || (*w.Estimate-tt.want).Abs() > time.Millisecond {
				t.Fatalf("estimate %v, want %v", w.Estimate, tt.want)
			}
		})
	}
}

func TestIdleSeatsAreNotMeasured(t *testing.T) {
	q, now := steady(t, 8, 2*time.Second)
	q.Done("8", now.Add(2*time.Second))
	now = now.Add(time.Hour) // the owner did not ask: its backend was down
	q.Next(now)
	if w, _ := q.Explain("10", now); w.Estimate == nil || (*w.Estimate-2*time.Second).Abs() > time.Millisecond {
		t.Fatalf("estimate %v, want 2s", w.Estimate)
	}
}

func TestARefusalSaysWhenToComeBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int
		each time.Duration
		want time.Duration
	}{
		{"not measured", 1, time.Minute, unknownRetry},
		{"a quarter of the queue", 8, time.Second, 5 * time.Second},
		{"not sooner", 8, time.Microsecond, leastRetry},
		{"not later", 8, time.Hour, mostRetry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, now := steady(t, tt.n, tt.each)
			var got *broker.Refusal
			for i := 0; got == nil; i++ {
				got = q.Offer(Ticket{ID: fmt.Sprint("more", i)}, now)
			}
			if got.RetryAfter != tt.want {
				t.Fatalf("retry after %v, want %v", got.RetryAfter, tt.want)
			}
		})
	}
}
