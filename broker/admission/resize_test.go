package admission

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

func TestResizeTakesMoreOrLessFromTheNextOn(t *testing.T) {
	q, now := New(Limits{Seats: 1, MaxQueuedCalls: 2}), start
	for _, id := range []string{"a", "b", "c"} {
		if r := q.Offer(Ticket{ID: id, Principal: "p"}, now); r != nil {
			t.Fatalf("%s: %v", id, r)
		}
		q.Next(now)
	}
	if _, ok := q.Next(now); ok {
		t.Fatal("two ran on one seat")
	}
	q.Resize(Limits{Seats: 2, MaxQueuedCalls: 2})
	if got, ok := q.Next(now); !ok || got.ID != "b" {
		t.Fatalf("a second seat runs %v", got.ID)
	}
	q.Resize(Limits{Seats: 1, MaxQueuedCalls: 0})
	q.Done("a", now)
	if _, ok := q.Next(now); ok {
		t.Fatal("the seat that was taken away was given out")
	}
	if r := q.Offer(Ticket{ID: "d", Principal: "p"}, now); r == nil || r.Code != broker.CodeOverloaded {
		t.Fatalf("nothing may wait any more: %v", r)
	}
	q.Done("b", now)
	if got, ok := q.Next(now); !ok || got.ID != "c" {
		t.Fatalf("what waited runs: %v", got.ID)
	}
}

// Whatever the limits become and in whatever order, all that was let in runs.
func TestResizeLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.Custom(func(t *rapid.T) Limits {
			return Limits{Seats: rapid.IntRange(0, 4).Draw(t, "seats"), MaxQueuedCalls: rapid.IntRange(0, 9).Draw(t, "calls"),
				MaxQueuedJobs: rapid.IntRange(0, 9).Draw(t, "jobs"), QueueTimeout: time.Minute}
		})
		q, now := New(limits.Draw(t, "first")), start
		in, running := map[string]bool{}, []string{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Millisecond)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				id := fmt.Sprint(i)
				if q.Offer(Ticket{ID: id, Lane: rapid.SampledFrom([]broker.Lane{broker.LaneCalls, broker.LaneJobs}).Draw(t, "lane"),
					Principal: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "principal"), Session: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "session"),
					Cost: rapid.IntRange(1, 5).Draw(t, "cost")}, now) == nil {
					in[id] = true
				}
			case 1:
				if got, ok := q.Next(now); ok {
					running = append(running, got.ID)
				}
			case 2:
				if len(running) > 0 {
					q.Done(running[0], now)
					delete(in, running[0])
					running = running[1:]
				}
			case 3:
				q.Resize(limits.Draw(t, "limits"))
			}
		}
		for range len(in) * 2 {
			if got, ok := q.Next(now); ok {
				running = append(running, got.ID)
			} else if len(running) > 0 {
				q.Done(running[0], now)
				delete(in, running[0])
				running = running[1:]
			}
		}
		for _, id := range running {
			q.Done(id, now)
			delete(in, id)
		}
		if len(in) > 0 {
			t.Fatalf("let in and never run: %v", in)
		}
	})
}
