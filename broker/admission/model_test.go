package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

// model is what a queue must account for, without any order between sessions.
type model struct {
	limits  Limits
	q       *Queue
	now     time.Time
	next    int
	queued  []waiting         // in order of arrival
	running map[string]Ticket // by id
	left    map[string]bool   // running, abandoned
	counts  Stats             // the counters only
}

type waiting struct {
	Ticket
	deadline time.Time
}

func (m *model) queuedIn(l broker.Lane) (n int) {
	for _, w := range m.queued {
		if w.Lane == l {
			n++
		}
	}
	return n
}

func (m *model) taken(lanes ...broker.Lane) (seats, tickets int) {
	for _, r := range m.running {
		if slices.Contains(lanes, r.Lane) {
			seats += r.Cost
			tickets++
		}
	}
	return seats, tickets
}

func (m *model) take(t *rapid.T, ticket Ticket, from string) {
	i := slices.IndexFunc(m.queued, func(w waiting) bool { return w.ID == ticket.ID })
	if i < 0 {
		t.Fatalf("%s gave %s, which does not wait", from, ticket.ID)
	}
	if m.queued[i].Ticket != ticket {
		t.Fatalf("%s gave %+v, offered was %+v", from, ticket, m.queued[i].Ticket)
	}
	m.queued = slices.Delete(m.queued, i, i+1)
}

func (m *model) anyID(t *rapid.T) string {
	return fmt.Sprint(rapid.IntRange(max(0, m.next-12), m.next).Draw(t, "id"))
}

func (m *model) offer(t *rapid.T) {
	m.next++
	ticket := Ticket{ID: fmt.Sprint(m.next), Lane: rapid.SampledFrom([]broker.Lane{broker.LaneCalls, broker.LaneCalls, broker.LaneJobs}).Draw(t, "lane"),
		Principal: rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "principal"), Session: rapid.SampledFrom([]string{"", "s", "t"}).Draw(t, "session"),
		Weight: rapid.IntRange(1, 3).Draw(t, "weight"), Cost: rapid.IntRange(1, m.limits.Seats).Draw(t, "cost"), Bytes: int64(m.next),
		QueueTimeout: time.Duration(rapid.IntRange(-1, 9).Draw(t, "timeout")) * time.Second}
	limit := m.limits.MaxQueuedCalls
	if ticket.Lane == broker.LaneJobs {
		limit = m.limits.MaxQueuedJobs
	}
	queued := m.queuedIn(ticket.Lane)
	ofPrincipal, ofSession := 0, 0
	for _, w := range m.queued {
		if w.Lane == ticket.Lane && w.Principal == ticket.Principal {
			ofPrincipal++
			if w.Session == ticket.Session {
				ofSession++
			}
		}
	}
	switch { // the reserve for those who have nothing waiting
	case ofPrincipal == 0:
		limit *= 2
	case ofSession == 0:
		limit += limit / 2
	}
	refusal := m.q.Offer(ticket, m.now)
	switch {
	case refusal == nil && queued >= limit && len(m.queued) > 0:
		t.Fatalf("a lane with %d tickets, %d of the principal, took one more past %d", queued, ofPrincipal, limit)
	case refusal == nil:
		w := waiting{Ticket: ticket}
		wait := m.limits.QueueTimeout
		if ticket.QueueTimeout != 0 {
			wait = ticket.QueueTimeout
		}
		if ticket.Lane == broker.LaneCalls && wait > 0 {
			w.deadline = m.now.Add(wait)
		}
		m.queued = append(m.queued, w)
	case refusal.Code != broker.CodeOverloaded || refusal.RetryAfter <= 0:
		t.Fatalf("refused with %v", refusal)
	case queued < limit:
		t.Fatalf("a lane with %d of %d refused", queued, limit)
	default:
		m.counts.Shed++
	}
}

func (m *model) start(t *rapid.T) {
	ticket, ok := m.q.Next(m.now)
	if !ok {
		if len(m.running) == 0 && len(m.queued) > 0 {
			t.Fatalf("%d wait and nothing runs", len(m.queued))
		}
		return
	}
	sameFlow := func(w waiting) bool {
		return w.Lane == ticket.Lane && w.Principal == ticket.Principal && w.Session == ticket.Session
	}
	if first := m.queued[slices.IndexFunc(m.queued, sameFlow)]; first.ID != ticket.ID {
		t.Fatalf("%s overtook %s of its own session", ticket.ID, first.ID)
	}
	m.take(t, ticket, "Next")
	m.running[ticket.ID] = ticket
	m.counts.Started++
	if seats, tickets := m.taken(broker.LaneJobs); seats > m.limits.JobSeats && tickets > 1 {
		t.Fatalf("%d jobs hold %d of %d seats", tickets, seats, m.limits.JobSeats)
	}
}

func (m *model) done(t *rapid.T) {
	id := m.anyID(t)
	_, runs := m.running[id]
	if m.q.Done(id, m.now) != runs {
		t.Fatalf("Done of %s, which runs: %v", id, runs)
	}
	if runs {
		delete(m.running, id)
		delete(m.left, id)
		m.counts.Finished++
	}
}

func (m *model) abandon(t *rapid.T) {
	id := m.anyID(t)
	i := slices.IndexFunc(m.queued, func(w waiting) bool { return w.ID == id })
	_, runs := m.running[id]
	want := Unknown
	switch {
	case runs:
		want = Running
		if !m.left[id] {
			m.left[id] = true
			m.counts.Abandoned++
		}
	case i >= 0:
		want = Queued
		m.queued = slices.Delete(m.queued, i, i+1)
		m.counts.Withdrawn++
	}
	if got := m.q.Abandon(id, m.now); got != want {
		t.Fatalf("Abandon of %s found it %v, want %v", id, got, want)
	}
}

func (m *model) keep(t *rapid.T) {
	id := m.anyID(t)
	i := slices.IndexFunc(m.queued, func(w waiting) bool { return w.ID == id })
	if m.q.Keep(id) != (i >= 0) {
		t.Fatalf("Keep of %s, which waits: %v", id, i >= 0)
	}
	if i >= 0 {
		m.queued[i].deadline = time.Time{}
	}
}

func (m *model) expire(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	want := 0
	for _, w := range m.queued {
		if !w.deadline.IsZero() && !w.deadline.After(m.now) {
			want++
		}
	}
	got := m.q.Expire(m.now)
	for _, ticket := range got {
		m.take(t, ticket, "Expire")
		m.counts.Expired++
	}
	if len(got) != want {
		t.Fatalf("%d expired, want %d", len(got), want)
	}
}

func (m *model) drain(t *rapid.T) {
	if !rapid.Bool().Draw(t, "really") { // or the queue would never fill
		return
	}
	var want []Ticket
	for _, w := range m.queued {
		want = append(want, w.Ticket)
	}
	if got := m.q.Drain(); !slices.Equal(got, want) {
		t.Fatalf("drained %v, want %v", got, want)
	}
	m.counts.Withdrawn += uint64(len(want))
	m.queued = nil
}

// check compares everything that can be seen with the model.
func (m *model) check(t *rapid.T) {
	got := m.q.Stats(m.now)
	want := m.counts
	want.Seats, want.OldestWait = m.limits.Seats, got.OldestWait
	want.SeatsTaken, want.InFlight = m.taken(broker.LaneCalls, broker.LaneJobs)
	want.QueuedCalls, want.QueuedJobs = m.queuedIn(broker.LaneCalls), m.queuedIn(broker.LaneJobs)
	for _, r := range m.running {
		want.Bytes += r.Bytes
	}
	var earliest time.Time
	for _, w := range m.queued {
		want.Bytes += w.Bytes
		if !w.deadline.IsZero() && (earliest.IsZero() || w.deadline.Before(earliest)) {
			earliest = w.deadline
		}
	}
	if got != want {
		t.Fatalf("stats\n got %+v\nwant %+v", got, want)
	}
	if want.SeatsTaken > m.limits.Seats {
		t.Fatalf("%d seats taken of %d", want.SeatsTaken, m.limits.Seats)
	}
	if at, ok := m.q.NextExpiry(); ok != !earliest.IsZero() || !at.Equal(earliest) {
		t.Fatalf("next expiry %v %v, want %v", at, ok, earliest)
	}
	checkMemory(t, m.q)
	for _, w := range m.queued {
		e, ok := m.q.Explain(w.ID, m.now)
		if !ok || e.Lane != w.Lane || e.Position < 1 || e.Position > m.queuedIn(w.Lane) || e.Ahead != e.Position-1 || e.WaitsFor == "" {
			t.Fatalf("explained %s as %+v %v", w.ID, e, ok)
		}
	}
}

// checkMemory holds what is remembered against what waits, and the places of
// the flows against the invariant of a group.
func checkMemory(t *rapid.T, q *Queue) {
	for _, l := range []*lane{&q.calls, &q.jobs} {
		groups := []*group{l.principals}
		for _, p := range l.principals.flows {
			groups = append(groups, p.sessions)
		}
		for _, g := range groups {
			g.checkInvariant(t)
			if len(g.flows) > 2*g.waiting+spareDebts+1 || (g.waiting == 0 && len(g.flows) > 0) {
				t.Fatalf("%d flows remembered, %d wait", len(g.flows), g.waiting)
			}
		}
	}
}

func (g *group) checkInvariant(t *rapid.T) {
	weight, waits := 0, 0
	for _, f := range g.flows {
		if f.poured {
			weight += f.weight
		}
		if f.cost > 0 {
			waits++
		}
		if (f.in != nil) != (f.cost > 0) || (f.cost == 0 && !f.poured) {
			t.Fatalf("flow %+v is in the wrong piles", f)
		}
		if left := float64(f.backlog()) / float64(f.weight); f.end > max(f.pass, g.clock)+left+1e-6 {
			t.Fatalf("the ideal serves flow %+v until %v, with %v waiting at %v", f, f.end, left, g.clock)
		}
	}
	if weight != g.weight || waits != g.waiting || g.size != len(g.flows) || g.ready.len()+g.later.len() != waits || (waits > 0 && g.ready.len() == 0) {
		t.Fatalf("group counts weight %d, waiting %d, size %d, ready %d, later %d; has %d, %d, %d", g.weight, g.waiting, g.size, g.ready.len(), g.later.len(), weight, waits, len(g.flows))
	}
}

// backlog is the seats of everything that waits in f.
func (f *flow) backlog() (seats int) {
	for e := f.tickets.first; e != nil; e = e.links[inSession].next {
		seats += e.Cost
	}
	if f.sessions != nil {
		for _, s := range f.sessions.flows {
			seats += s.backlog()
		}
	}
	return seats
}

func accountForEveryTicket(t *rapid.T) {
	limits := Limits{Seats: rapid.IntRange(1, 4).Draw(t, "seats"), MaxQueuedCalls: rapid.IntRange(0, 12).Draw(t, "calls"),
		MaxQueuedJobs: rapid.IntRange(0, 6).Draw(t, "jobs"), QueueTimeout: time.Duration(rapid.IntRange(0, 5).Draw(t, "timeout")) * time.Second}
	m := &model{limits: limits, q: New(limits), now: time.Unix(1000, 0), running: map[string]Ticket{}, left: map[string]bool{}}
	m.limits.JobSeats = max(1, limits.Seats-1)
	t.Repeat(map[string]func(*rapid.T){
		"offer": m.offer, "offer more": m.offer, "start": m.start, "start more": m.start, "done": m.done, "done too": m.done,
		"abandon": m.abandon, "keep": m.keep, "expire": m.expire, "drain": m.drain, "": m.check,
	})
}

// TestEveryTicketIsInExactlyOnePlace: refused, queued, running, done, abandoned
// or expired; never more than the seats run; a session is first in, first out.
func TestEveryTicketIsInExactlyOnePlace(t *testing.T) { rapid.Check(t, accountForEveryTicket) }

// FuzzQueue is the same under the fuzzer. Give -fuzzminimizetime 1x: making an
// input shorter takes far longer here than finding the next.
func FuzzQueue(f *testing.F) {
	f.Add([]byte(strings.Repeat("berth", 400)))
	f.Fuzz(rapid.MakeFuzz(accountForEveryTicket))
}
