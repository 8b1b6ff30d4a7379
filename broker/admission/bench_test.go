package admission

import (
	"fmt"
	"testing"
)

func TestAnEmptyQueueDoesNotAllocate(t *testing.T) {
	q := New(Limits{Seats: 4, MaxQueuedCalls: 16, QueueTimeout: 1})
	call := func() {
		if r := q.Offer(Ticket{ID: "a", Principal: "p", Session: "s"}, start); r != nil {
			t.Fatal(r)
		}
		q.Next(start)
		q.Next(start)
		q.Done("a", start)
	}
	call()
	if n := testing.AllocsPerRun(1000, call); n >= 1 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkEmptyQueue(b *testing.B) {
	q := New(Limits{Seats: 4, MaxQueuedCalls: 16, QueueTimeout: 1})
	b.ReportAllocs()
	for b.Loop() {
		q.Offer(Ticket{ID: "a", Principal: "p", Session: "s"}, start)
		q.Next(start)
		q.Done("a", start)
	}
}

// BenchmarkBackloggedSessions is one call through a queue in which each of n
// sessions always has one waiting.
func BenchmarkBackloggedSessions(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			q := New(Limits{Seats: 1, MaxQueuedCalls: n, QueueTimeout: 1})
			ticket := func(i int) Ticket {
				return Ticket{ID: fmt.Sprint(i), Principal: fmt.Sprint("p", i%10), Session: fmt.Sprint("s", i), Weight: 1 + i%10}
			}
			for i := range n {
				q.Offer(ticket(i), start)
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := q.Next(start)
				q.Done(t.ID, start)
				q.Offer(t, start)
			}
		})
	}
}

func BenchmarkExplain(b *testing.B) {
	q := New(Limits{Seats: 1, MaxQueuedCalls: 1000})
	for i := range 1000 {
		q.Offer(Ticket{ID: fmt.Sprint(i), Principal: fmt.Sprint(i % 10), Session: fmt.Sprint(i % 100)}, start)
	}
	for b.Loop() {
		q.Explain("999", start)
	}
}
