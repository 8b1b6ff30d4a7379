package admission

import (
	"time"

	"berth/broker"
)

// What a waiting ticket waits for.
const (
	WaitsForSeat     = "seat"     // fewer seats are free than it costs
	WaitsForJobSeat  = "job_seat" // jobs hold as many seats as they may
	WaitsForTurn     = "turn"     // its seats are free, but another goes first
	WaitsForDispatch = "dispatch" // it would run; its backend has not taken it
)

// Wait is why a ticket does not run yet.
type Wait struct {
	Lane     broker.Lane
	Position int // 1-based, in its lane, in the order in which tickets would run if nothing came or left
	Ahead    int // tickets of its lane that run before it
	WaitsFor string
	Waited   time.Duration
	Expires  *time.Time     // when the wait ends with queue_timeout; nil: never
	Estimate *time.Duration // until it runs, from the measured drain rate; nil until measured
}

// Explain says why id waits. It is false when id does not wait.
func (q *Queue) Explain(id string, now time.Time) (Wait, bool) {
	e := q.known[id]
	if e == nil || e.running {
		return Wait{}, false
	}
	l := q.laneOf(e.Lane)
	w := Wait{Lane: e.Lane, Waited: max(0, now.Sub(e.offered))}
	if e.due >= 0 {
		at := e.deadline
		w.Expires = &at
	}
	var first *entry
	if q.turn != nil && q.turn.Lane == e.Lane {
		first = q.turn
	}
	seats := e.Cost
	l.inOrder(first, func(other *entry) bool {
		if other == e {
			return false
		}
		w.Ahead++
		seats += other.Cost
		return true
	})
	w.Position = w.Ahead + 1
	w.WaitsFor = q.waitsFor(e)
	if d, measured := l.rate.drain(seats, now); measured {
		w.Estimate = &d
	}
	return w, true
}

func (q *Queue) waitsFor(e *entry) string {
	turn := q.turn
	if turn == nil {
		turn = q.pick()
	}
	switch {
	case e.Lane == broker.LaneJobs && !q.jobFits(e.Cost):
		return WaitsForJobSeat
	case e.Cost > q.free():
		return WaitsForSeat
	case turn != e:
		return WaitsForTurn
	}
	return WaitsForDispatch
}
