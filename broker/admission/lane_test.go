package admission

import (
	"testing"

	"berth/broker"
)

func TestLanesShareTheStartsThreeToOne(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 100, MaxQueuedJobs: 100})}
	for range 60 {
		s.offer(Ticket{})
		s.offer(jobTicket("", 1))
	}
	jobs := 0
	for i := 1; i <= 60; i++ {
		got := s.next()
		if got.Lane == broker.LaneJobs {
			jobs++
		}
		s.done(got.ID)
		if jobs < i/4 || jobs > (i+3)/4 {
			t.Fatalf("%d jobs in %d starts", jobs, i)
		}
	}
	// The calls are gone after 80 starts; jobs get everything.
	for range 60 {
		s.done(s.next().ID)
	}
	s.none()
}

func TestAnIdleLaneEarnsNoCredit(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 1, MaxQueuedCalls: 1000, MaxQueuedJobs: 1000})}
	for range 200 {
		s.offer(Ticket{})
	}
	for range 100 {
		s.done(s.next().ID)
	}
	for range 20 {
		s.offer(jobTicket("", 1))
	}
	jobs := 0
	for range 20 {
		got := s.next()
		s.done(got.ID)
		if got.Lane == broker.LaneJobs {
			jobs++
		}
	}
	if jobs < 4 || jobs > 6 {
		t.Fatalf("%d of 20 starts went to jobs", jobs)
	}
}

func TestJobsLeaveASeatForCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		jobs   []int // costs
		want   int   // how many run at once
	}{
		{"all but one", Limits{Seats: 4}, []int{1, 1, 1, 1}, 3},
		{"the only seat", Limits{Seats: 1}, []int{1, 1}, 1},
		{"a configured share", Limits{Seats: 4, JobSeats: 2}, []int{1, 1, 1}, 2},
		{"every seat, when configured", Limits{Seats: 4, JobSeats: 4}, []int{1, 1, 1, 1}, 4},
		{"one that costs more than the share runs alone", Limits{Seats: 4, JobSeats: 2}, []int{4, 1}, 1},
		{"one that costs more than the share waits for the others", Limits{Seats: 4, JobSeats: 2}, []int{1, 3}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.limits.MaxQueuedCalls, tt.limits.MaxQueuedJobs = 9, 9
			s := &script{t: t, q: New(tt.limits)}
			for _, cost := range tt.jobs {
				s.offer(jobTicket("", cost))
			}
			var ids []string
			for range tt.want {
				ids = append(ids, s.next().ID)
			}
			s.none()
			call := s.offer(Ticket{})
			if s.q.free() > 0 {
				if got := s.next(); got.ID != call {
					t.Fatalf("%s runs, want the call", got.ID)
				}
				s.done(call)
			}
			for _, id := range ids {
				s.done(id)
			}
			s.next()
		})
	}
}

func TestJobsHeldUpByJobsEarnNoCredit(t *testing.T) {
	s := &script{t: t, q: New(Limits{Seats: 4, MaxQueuedCalls: 1000, MaxQueuedJobs: 1000})}
	for range 10 {
		s.offer(jobTicket("", 1))
	}
	var jobs []string
	for range 3 {
		jobs = append(jobs, s.next().ID)
	}
	for range 200 {
		s.offer(Ticket{})
	}
	for range 100 { // the fourth seat turns over, the jobs do not
		s.done(s.next().ID)
	}
	s.offer(Ticket{Cost: 1})
	for _, id := range jobs {
		s.done(id)
	}
	started := 0
	for range 4 {
		if s.next().Lane == broker.LaneJobs {
			started++
		}
	}
	if started > 2 {
		t.Fatalf("%d of 4 seats went to jobs at once", started)
	}
}
