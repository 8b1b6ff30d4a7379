package admission

import (
	"time"

	"berth/broker"
)

// The shares of the starts that the lanes get while both have something
// waiting.
const (
	callsShare = 3
	jobsShare  = 1
)

// maxWeight keeps the arithmetic of weights far from its limits.
const maxWeight = 1_000_000

// Limits is how much one backend takes on.
type Limits struct {
	Seats    int // taken at the same time at most; less than 1 is 1
	JobSeats int // of them, how many jobs may hold together; less than 1: all but one, and all when there is one

	MaxQueuedCalls, MaxQueuedJobs int // waiting; 0 or less: a ticket runs at once or is refused

	QueueTimeout time.Duration // of the calls lane; 0 or less: none
}

// Ticket is one call or job on its way to a seat.
type Ticket struct {
	ID        string // unique among what waits and runs
	Lane      broker.Lane
	Principal string // fairness key
	Session   string // fairness key inside the principal; empty is a session like any other
	Weight    int    // of the principal: 1 to 1,000,000, other values are clamped; the newest holds
	Cost      int    // seats: 1 to Limits.Seats, other values are clamped
	Bytes     int64  // only counted; see Budget

	QueueTimeout time.Duration // calls lane only; overrides Limits when above 0, none when below 0
}

// Where is where Abandon found a ticket.
type Where uint8

// The places. The zero value is Unknown.
const (
	Unknown Where = iota
	Queued
	Running
)

func (w Where) String() string {
	switch w {
	case Queued:
		return "queued"
	case Running:
		return "running"
	}
	return "unknown"
}

// Queue is the admission queue of one backend. It is not safe for concurrent
// use. Make one with New.
type Queue struct {
	limits Limits // as clamped

	known     map[string]*entry // what waits and what runs
	calls     lane
	jobs      lane
	arrival   fifo // what waits, oldest first
	deadlines pile[*entry]
	turn      *entry  // has the turn and waits for its seats
	clock     float64 // virtual time that the lanes share
	taken     int     // seats
	lastDone  time.Time

	bytes                                                  int64
	shed, abandoned, withdrawn, expired, started, finished uint64

	spare []*entry
}

// New makes an empty queue.
func New(l Limits) *Queue {
	l = l.clamped()
	flows := &pool{}
	q := &Queue{
		limits: l,
		known:  map[string]*entry{},
		calls:  lane{share: callsShare, limit: l.MaxQueuedCalls, principals: newGroup(flows)},
		jobs:   lane{share: jobsShare, limit: l.MaxQueuedJobs, principals: newGroup(flows)},
	}
	q.deadlines.moved = func(e *entry, i int) { e.due = i }
	q.deadlines.less = func(a, b *entry) bool { return a.deadline.Before(b.deadline) }
	return q
}

func (l Limits) clamped() Limits {
	l.Seats = max(1, l.Seats)
	if l.JobSeats < 1 {
		l.JobSeats = l.Seats - 1
	}
	l.JobSeats = min(max(1, l.JobSeats), l.Seats)
	return l
}

// Resize puts other limits in force. Nothing that was let in is turned away:
// what runs keeps its seats, what waits keeps its place and its deadline. A
// ticket that costs more than there are seats now costs all of them, and goes
// behind the others of its session.
func (q *Queue) Resize(l Limits) {
	q.limits = l.clamped()
	q.calls.limit, q.jobs.limit = l.MaxQueuedCalls, l.MaxQueuedJobs
	for e := q.arrival.first; e != nil; e = e.links[inArrival].next {
		if e.Cost > q.limits.Seats {
			if q.turn == e {
				q.turn = nil
			}
			lane := q.laneOf(e.Lane)
			lane.remove(e)
			e.Cost = q.limits.Seats
			lane.add(e)
		}
	}
}

// Offer puts a ticket into its lane and returns nil, or refuses it. A ticket
// that may run at once still comes out of Next.
func (q *Queue) Offer(t Ticket, now time.Time) *broker.Refusal {
	l, refusal := q.check(t)
	if refusal != nil {
		return refusal
	}
	t.Weight = min(max(1, t.Weight), maxWeight)
	t.Cost = min(max(1, t.Cost), q.limits.Seats)
	t.Bytes = max(0, t.Bytes)
	if l.queued >= l.room(t) && !q.atOnce(t) {
		q.shed++
		return q.overloaded(t.Lane, now)
	}

	e := q.newEntry()
	e.Ticket, e.offered = t, now
	if l.queued == 0 {
		l.pass = max(l.pass, q.clock)
	}
	l.add(e)
	q.known[t.ID] = e
	q.arrival.push(e, inArrival)
	q.bytes += t.Bytes
	if wait := q.timeout(t); wait > 0 {
		e.deadline = now.Add(wait)
		q.deadlines.push(e)
	}
	return nil
}

// Next takes out the ticket that runs now, with its seats, if its seats are
// free. Call it until it says no.
func (q *Queue) Next(now time.Time) (Ticket, bool) {
	if q.turn == nil {
		if job := q.jobs.head(); job != nil && !q.jobFits(job.Cost) {
			// Held up by its own kind: as if it came when that is over, without credit.
			q.jobs.pass = max(q.jobs.pass, q.clock)
		}
		q.turn = q.pick()
	}
	e := q.turn
	if e == nil || e.Cost > q.free() {
		q.watch(now)
		return Ticket{}, false
	}
	l := q.laneOf(e.Lane)
	until := now
	if q.taken == 0 && !q.lastDone.IsZero() {
		until = q.lastDone // after that it waited for its owner, not for a seat
	}
	l.rate.start(e.Cost, until, now)

	q.clock = max(q.clock, l.pass)
	l.pass += float64(e.Cost) / l.share
	l.take(e)
	q.leave(e, l)
	e.running = true
	l.held += e.Cost
	q.taken += e.Cost
	q.started++
	return e.Ticket, true
}

// Done gives back the seats of a running ticket. It is false when id does not
// run.
func (q *Queue) Done(id string, now time.Time) bool {
	e := q.known[id]
	if e == nil || !e.running {
		return false
	}
	q.laneOf(e.Lane).held -= e.Cost
	q.taken -= e.Cost
	q.lastDone = now
	q.finished++
	q.forget(e)
	return true
}

// Abandon says that nobody waits for id any more. A queued ticket is removed; a
// running one is counted, and keeps its seats until Done.
func (q *Queue) Abandon(id string, _ time.Time) Where {
	e := q.known[id]
	switch {
	case e == nil:
		return Unknown
	case e.running:
		if !e.left {
			e.left = true
			q.abandoned++
		}
		return Running
	}
	q.withdraw(e)
	q.withdrawn++
	return Queued
}

// Keep takes the deadline off a queued ticket: its call became a job and waits
// in its old place for as long as it takes. It is false when id is not queued.
func (q *Queue) Keep(id string) bool {
	e := q.known[id]
	if e == nil || e.running {
		return false
	}
	q.undue(e)
	return true
}

// Expire removes and returns the calls whose wait is over, earliest deadline
// first. Jobs never expire here.
func (q *Queue) Expire(now time.Time) []Ticket {
	var out []Ticket
	for q.deadlines.len() > 0 && !q.deadlines.items[0].deadline.After(now) {
		e := q.deadlines.items[0]
		out = append(out, e.Ticket)
		q.withdraw(e)
		q.expired++
	}
	return out
}

// NextExpiry is when Expire next has something to do.
func (q *Queue) NextExpiry() (time.Time, bool) {
	if q.deadlines.len() == 0 {
		return time.Time{}, false
	}
	return q.deadlines.items[0].deadline, true
}

// Drain removes and returns everything that waits, oldest first. What runs is
// left alone.
func (q *Queue) Drain() []Ticket {
	out := make([]Ticket, 0, q.calls.queued+q.jobs.queued)
	for q.arrival.first != nil {
		e := q.arrival.first
		out = append(out, e.Ticket)
		q.withdraw(e)
		q.withdrawn++
	}
	return out
}

// pick decides whose turn it is: the lane whose next ticket would end first at
// its share, calls when equal.
func (q *Queue) pick() *entry {
	call, job := q.calls.head(), q.jobs.head()
	if job != nil && !q.jobFits(job.Cost) {
		job = nil
	}
	if call == nil {
		return job
	}
	if job != nil && q.jobs.pass+float64(job.Cost)/q.jobs.share < q.calls.pass+float64(call.Cost)/q.calls.share {
		return job
	}
	return call
}

// jobFits says whether jobs may hold cost more seats.
func (q *Queue) jobFits(cost int) bool {
	return q.jobs.held == 0 || q.jobs.held+cost <= q.limits.JobSeats
}

// atOnce says whether t would run if it were asked for now.
func (q *Queue) atOnce(t Ticket) bool {
	return q.arrival.first == nil && t.Cost <= q.free() && (t.Lane == broker.LaneCalls || q.jobFits(t.Cost))
}

func (q *Queue) free() int { return q.limits.Seats - q.taken }

func (q *Queue) laneOf(l broker.Lane) *lane {
	if l == broker.LaneJobs {
		return &q.jobs
	}
	return &q.calls
}

func (q *Queue) timeout(t Ticket) time.Duration {
	switch {
	case t.Lane != broker.LaneCalls:
		return 0
	case t.QueueTimeout != 0:
		return t.QueueTimeout
	}
	return q.limits.QueueTimeout
}

// watch notes that what waits is held up.
func (q *Queue) watch(now time.Time) {
	for _, l := range []*lane{&q.calls, &q.jobs} {
		if l.queued > 0 {
			l.rate.watch(now)
		}
	}
}

// withdraw removes a queued ticket that was not served.
func (q *Queue) withdraw(e *entry) {
	l := q.laneOf(e.Lane)
	l.remove(e)
	q.leave(e, l)
	q.forget(e)
}

// leave takes e, which its lane no longer holds, out of what waits.
func (q *Queue) leave(e *entry, l *lane) {
	if q.turn == e {
		q.turn = nil
	}
	q.arrival.remove(e, inArrival)
	q.undue(e)
	if l.queued == 0 {
		l.rate.stop()
	}
	if q.arrival.first == nil {
		q.clock, q.calls.pass, q.jobs.pass = 0, 0, 0
	}
}

func (q *Queue) undue(e *entry) {
	if e.due >= 0 {
		q.deadlines.remove(e.due)
		e.due = -1
	}
}

const spareEntries = 64

func (q *Queue) newEntry() *entry {
	if n := len(q.spare); n > 0 {
		e := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return e
	}
	return &entry{due: -1}
}

func (q *Queue) forget(e *entry) {
	delete(q.known, e.ID)
	q.bytes -= e.Bytes
	*e = entry{due: -1}
	if len(q.spare) < spareEntries {
		q.spare = append(q.spare, e)
	}
}
