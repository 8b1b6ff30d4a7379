package actors

import (
	"slices"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/drain"
)

// This file is the part of the backend actor that lets an operator drain it and
// begin another life: new calls are refused, what was admitted goes on.

// setDraining has the backend refuse new calls, or (nil) take them again.
type setDraining struct{ notice *drain.Notice }

// awaitIdle asks to be told once nothing is left: no call or job runs or waits.
// Calls of the control lane do not count; polls of followed work go on.
type awaitIdle struct {
	reply chan<- struct{} // capacity 1
	left  <-chan struct{} // closed when nobody waits any more
	once  sync.Once
}

func (m *awaitIdle) settle() { m.once.Do(func() { m.reply <- struct{}{} }) }

// Reject says so: what has stopped has nothing left.
func (m *awaitIdle) Reject(error) { m.settle() }

// renewLife ends the present incarnation and begins another. What still runs
// ends with it and is answered as such.
type renewLife struct {
	reply chan<- renewal // capacity 1
	once  sync.Once
}

type renewal struct {
	ended   int
	refusal *broker.Refusal
}

func (m *renewLife) settle(r renewal) { m.once.Do(func() { m.reply <- r }) }

// Reject begins no life.
func (m *renewLife) Reject(error) { m.settle(renewal{refusal: stoppingRefusal()}) }

// turnsAway refuses a new call while the backend is drained. A job was accepted
// before, and its record says so: it goes on.
func (b *backend) turnsAway(o *offer) *broker.Refusal {
	if b.draining == nil || o.isJob.Load() || o.call.Lane == broker.LaneControl {
		return nil
	}
	return b.draining.Refuse(b.cfg.Name)
}

// remaining is how many calls and jobs run or wait.
func (b *backend) remaining() int {
	n := len(b.waiting)
	for _, r := range b.runs {
		if r.offer.call.Lane != broker.LaneControl {
			n++
		}
	}
	return n
}

func (b *backend) awaitIdle(m *awaitIdle) {
	b.idlers = slices.DeleteFunc(b.idlers, func(i *awaitIdle) bool {
		select {
		case <-i.left:
			return true
		default:
			return false
		}
	})
	b.idlers = append(b.idlers, m)
}

// tellIdle tells those who wait that nothing is left.
func (b *backend) tellIdle() {
	if len(b.idlers) == 0 || b.remaining() > 0 {
		return
	}
	for _, m := range b.idlers {
		m.settle()
	}
	b.idlers = nil
}

// renew ends the present life and begins the next, whose turn comes when this one
// is closed. One that is being opened is new already, one that drains gives way
// to a new one anyhow, and an instance that is not up has nothing to end.
func (b *backend) renew(m *renewLife) {
	if b.opening || b.blocked() || b.conn == nil && b.session != "" {
		m.settle(renewal{})
		return
	}
	conn, ended := b.conn, 0
	for _, r := range b.runs {
		if r.offer.call.Lane != broker.LaneControl && !slices.Contains(b.parked, r) {
			ended++
		}
	}
	if conn == nil {
		m.settle(renewal{ended: ended})
	} else {
		b.drop("an operator restarted it")
		b.sys.work.Go(func() {
			b.sys.closeNow(conn)
			m.settle(renewal{ended: ended})
		})
	}
	// Without regard to earlier failures.
	b.backoff.Reset()
	b.failures, b.backoffUntil, b.triedEarly = 0, time.Time{}, false
	b.open()
}
