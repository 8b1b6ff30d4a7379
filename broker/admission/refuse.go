package admission

import (
	"time"

	"berth/broker"
)

// What a refused caller is told to wait, at least, at most, and while the lane
// was never measured.
const (
	leastRetry   = 100 * time.Millisecond
	mostRetry    = 30 * time.Second
	unknownRetry = time.Second
)

// check finds the lane of a ticket, or refuses one that only a fault in the
// broker can have made.
func (q *Queue) check(t Ticket) (*lane, *broker.Refusal) {
	switch {
	case t.ID == "":
		return nil, broker.Refuse(broker.CodeInternal, "The broker queued a call without an id.", nil)
	case q.known[t.ID] != nil:
		return nil, broker.Refuse(broker.CodeInternal, "The broker queued a call under an id that is already in use.", map[string]any{"id": t.ID})
	case t.Lane != broker.LaneCalls && t.Lane != broker.LaneJobs:
		return nil, broker.Refuse(broker.CodeInternal, "The broker queued a call in a lane that has no queue.", map[string]any{"id": t.ID})
	}
	return q.laneOf(t.Lane), nil
}

func (q *Queue) overloaded(which broker.Lane, now time.Time) *broker.Refusal {
	l := q.laneOf(which)
	return broker.Refuse(broker.CodeOverloaded, "The backend has as many "+laneName(which)+" waiting as it may; nothing was started.", map[string]any{
		"lane":         laneName(which),
		"queue_length": l.queued,
		"in_flight":    len(q.known) - q.calls.queued - q.jobs.queued,
		"seats":        q.limits.Seats,
		"seats_taken":  q.taken,
	}).Retry(retryAfter(l, now))
}

// retryAfter is about how long a quarter of the lane takes to drain: soon
// enough that the place is not lost, late enough that there is one.
func retryAfter(l *lane, now time.Time) time.Duration {
	wait, measured := l.rate.drain(max(1, l.queued/4), now)
	if !measured {
		return unknownRetry
	}
	return min(max(wait.Round(time.Millisecond), leastRetry), mostRetry)
}
