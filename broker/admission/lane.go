package admission

import (
	"time"

	"berth/broker"
)

// entry is a ticket with its places in the queue.
type entry struct {
	Ticket
	offered  time.Time
	deadline time.Time // zero: none
	due      int       // index in Queue.deadlines; -1: not there
	running  bool
	left     bool // running, but nobody waits for its answer any more
	session  *flow
	links    [2]link
}

type link struct{ prev, next *entry }

// The lists an entry is in while it waits.
const (
	inSession = iota
	inArrival
)

// fifo is a list through the entries themselves.
type fifo struct{ first, last *entry }

func (l *fifo) push(e *entry, which int) {
	e.links[which] = link{prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.links[which].next = e
	}
	l.last = e
}

func (l *fifo) remove(e *entry, which int) {
	at := e.links[which]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.links[which].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.links[which].prev = at.prev
	}
	e.links[which] = link{}
}

func costOf(e *entry) int {
	if e == nil {
		return 0
	}
	return e.Cost
}

// lane is one of the two parts of a queue that share its seats.
type lane struct {
	share  float64 // of the starts, against the other lane's
	limit  int     // tickets that may wait
	pass   float64 // virtual time up to which the lane was served
	queued int
	held   int // seats its running tickets hold
	rate   rate

	principals *group
}

// room is how many tickets the lane may hold for this one to be let in. Past
// the limit there is a reserve for those who have nothing waiting, so that who
// fills the lane does not shut others out: half of the limit for sessions, all
// of it for principals.
func (l *lane) room(t Ticket) int {
	p := l.principals.flows[t.Principal]
	switch {
	case p.idle():
		return 2 * l.limit
	case p.sessions.flows[t.Session].idle():
		return l.limit + l.limit/2
	}
	return l.limit
}

func (l *lane) add(e *entry) {
	p := l.principals.find(e.Principal, e.Weight, nil, false)
	s := p.sessions.find(e.Session, 1, p, true)
	e.session = s
	s.tickets.push(e, inSession)
	l.queued++
	p.sessions.add(s, s.tickets.first.Cost, e.Cost)
	l.principals.add(p, p.sessions.cost(), e.Cost)
}

// head is the ticket whose turn it is, or nil.
func (l *lane) head() *entry {
	p := l.principals.top()
	if p == nil {
		return nil
	}
	return p.sessions.top().tickets.first
}

// take removes the first ticket of a session that is ready, and books it.
func (l *lane) take(e *entry) {
	s := e.session
	s.tickets.remove(e, inSession)
	e.session = nil
	l.queued--
	book(l.principals, s.parent, s, e.Cost)
}

// remove takes out a ticket that was not served.
func (l *lane) remove(e *entry) {
	s := e.session
	p := s.parent
	s.tickets.remove(e, inSession)
	e.session = nil
	l.queued--
	p.sessions.cut(s, costOf(s.tickets.first), e.Cost)
	l.principals.cut(p, p.sessions.cost(), e.Cost)
}

func book(principals *group, p, s *flow, cost int) {
	p.sessions.charge(s, costOf(s.tickets.first), cost)
	principals.charge(p, p.sessions.cost(), cost)
}

// inOrder visits what waits in the order in which it would run if nothing came
// and nothing left, until visit says stop. first, when not nil, is the ticket
// of this lane that already has the turn.
func (l *lane) inOrder(first *entry, visit func(*entry) bool) {
	principals := l.principals.copy()
	for principals.waiting > 0 {
		p := principals.top()
		s := p.sessions.top()
		if first != nil {
			p = principals.readyFlow(first.Principal)
			s = p.sessions.readyFlow(first.Session)
			first = nil
		}
		e := s.tickets.first
		if !visit(e) {
			return
		}
		s.tickets.first = e.links[inSession].next
		book(principals, p, s, e.Cost)
	}
}

func laneName(l broker.Lane) string {
	if l == broker.LaneJobs {
		return "jobs"
	}
	return "calls"
}
