package admission

import "time"

// Stats is what a queue holds now, and what it has counted since it was made.
type Stats struct {
	InFlight   int // tickets that run
	Seats      int
	SeatsTaken int

	QueuedCalls, QueuedJobs int
	OldestWait              time.Duration // of what waits now
	Bytes                   int64         // of what waits and runs

	Started   uint64 // taken by Next
	Finished  uint64 // ended by Done
	Shed      uint64 // refused because a lane was full
	Abandoned uint64 // left by their callers while they ran
	Withdrawn uint64 // taken out of the queue by Abandon or Drain
	Expired   uint64 // taken out of the queue by Expire
}

// Stats counts.
func (q *Queue) Stats(now time.Time) Stats {
	s := Stats{
		InFlight: len(q.known) - q.calls.queued - q.jobs.queued, Seats: q.limits.Seats, SeatsTaken: q.taken,
		QueuedCalls: q.calls.queued, QueuedJobs: q.jobs.queued, Bytes: q.bytes,
		Started: q.started, Finished: q.finished, Shed: q.shed,
		Abandoned: q.abandoned, Withdrawn: q.withdrawn, Expired: q.expired,
	}
	if oldest := q.arrival.first; oldest != nil {
		s.OldestWait = max(0, now.Sub(oldest.offered))
	}
	return s
}
