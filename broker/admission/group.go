package admission

import "cmp"

// spareDebts is how many flows a group remembers for their debt alone, beyond
// the number of its flows that have something waiting.
const spareDebts = 64

// flow is one competitor in a group: a principal in a lane, or a session in a
// principal.
type flow struct {
	key    string
	weight int
	pass   float64 // virtual time up to which it was served
	finish float64 // pass after its next ticket; valid in group.ready
	end    float64 // when the ideal has served everything of it
	resume float64 // least pass after the next ticket: what follows it came after end
	cost   int     // seats of its next ticket; 0: nothing waits, only a debt is remembered
	served uint64  // when it was served last, counted in services of the group; 0: not yet
	born   uint64  // order in which the group's flows came

	in      *pile[*flow] // ready or later
	index   int
	poured  bool
	fluidAt int

	parent   *flow  // the principal, of a session
	sessions *group // of a principal, else nil
	tickets  fifo   // of a session
}

// idle reports whether nothing of the flow waits; an unknown flow is idle.
func (f *flow) idle() bool { return f == nil || f.cost == 0 }

// group shares its parent's turn among its flows (package comment, Order).
//
// Its clock is that of the ideal scheduler that serves all flows at once, each
// at its weight, with the seats that were granted so far: it has served a flow
// up to min(clock, end). A flow whose pass is above the clock is ahead of the
// ideal, one whose pass is below and below its end is behind it.
//
// Invariant between calls: a flow with something waiting is in ready (pass <=
// clock) or in later, and when there is one, ready is not empty; a flow with
// end > clock is in fluid; a flow that is in neither is dropped.
type group struct {
	flows    map[string]*flow // nil in a copy
	ready    pile[*flow]      // by finish
	later    pile[*flow]      // by pass
	fluid    pile[*flow]      // by end
	clock    float64
	weight   int // of the flows in fluid
	size     int // flows, the merely remembered too
	waiting  int // flows that have a ticket
	services uint64
	births   uint64
	pool     *pool // nil in a copy
}

func newGroup(p *pool) *group {
	g := &group{flows: map[string]*flow{}, pool: p}
	g.order()
	return g
}

func (g *group) order() {
	moved := func(f *flow, i int) { f.index = i }
	g.ready.moved, g.later.moved = moved, moved
	g.fluid.moved = func(f *flow, i int) { f.fluidAt = i }
	g.ready.less = func(a, b *flow) bool {
		return cmp.Or(cmp.Compare(a.finish, b.finish), cmp.Compare(a.served, b.served), cmp.Compare(a.born, b.born)) < 0
	}
	g.later.less = func(a, b *flow) bool {
		return cmp.Or(cmp.Compare(a.pass, b.pass), cmp.Compare(a.born, b.born)) < 0
	}
	g.fluid.less = func(a, b *flow) bool { return a.end < b.end }
}

// top is the flow whose turn it is, or nil when nothing waits.
func (g *group) top() *flow {
	if g.ready.len() == 0 {
		return nil
	}
	return g.ready.items[0]
}

// cost is that of the ticket whose turn it is, 0 when nothing waits.
func (g *group) cost() int {
	if f := g.top(); f != nil {
		return f.cost
	}
	return 0
}

// find gives the flow of key, made at the clock when it is new; add follows. A
// weight that changed holds from now on.
func (g *group) find(key string, weight int, parent *flow, leaf bool) *flow {
	f := g.flows[key]
	if f == nil {
		f = g.pool.take(leaf)
		g.births++
		g.size++
		f.key, f.parent, f.weight, f.born = key, parent, weight, g.births
		f.pass, f.end = g.clock, g.clock
		g.flows[key] = f
	}
	if f.weight != weight {
		g.unpour(f)
		// What f is ahead or behind, in seats, stays what it was.
		scale := float64(f.weight) / float64(weight)
		for _, at := range []*float64{&f.pass, &f.end, &f.resume} { // a resume of 0 stays below pass
			*at = g.clock + (*at-g.clock)*scale
		}
		f.weight = weight
	}
	return f
}

// add says that seats more wait in f, and what its next ticket costs.
func (g *group) add(f *flow, next, seats int) {
	if f.end < g.clock {
		// The ideal has served f to its end, only the queue has not yet: what
		// comes now starts now.
		f.resume, f.end = g.clock, g.clock
	}
	f.end += float64(seats) / float64(f.weight)
	g.file(f, next)
	g.settle()
}

// cut says that a ticket of f left without being served, and what its next one
// costs (0: none). It may drop f.
func (g *group) cut(f *flow, next, seats int) {
	f.end -= float64(seats) / float64(f.weight)
	g.file(f, next)
	g.settle()
}

// charge books a ticket of f that was served, and what its next one costs (0:
// none). It may drop f.
func (g *group) charge(f *flow, next, seats int) {
	g.services++
	f.served = g.services
	f.pass = max(f.pass+float64(seats)/float64(f.weight), f.resume)
	f.resume = 0
	g.file(f, next)
	g.advance(float64(seats))
	g.settle()
}

// file puts f into the piles it belongs to, or drops it.
func (g *group) file(f *flow, next int) {
	switch {
	case f.cost == 0 && next > 0:
		g.waiting++
	case f.cost > 0 && next == 0:
		g.waiting--
	}
	if next == 0 {
		f.end, f.resume = f.pass, 0
	}
	f.cost = next
	if f.in != nil {
		f.in.remove(f.index)
		f.in = nil
	}
	g.unpour(f)
	owes := g.size-g.waiting <= g.waiting+spareDebts
	if f.end > g.clock && (next > 0 || owes) {
		f.poured = true
		g.fluid.push(f)
		g.weight += f.weight
	}
	switch {
	case next == 0 && !f.poured:
		g.forget(f)
	case next == 0: // remembered for its debt
	case f.pass > g.clock:
		f.in = &g.later
		g.later.push(f)
	default:
		g.ripen(f)
	}
}

func (g *group) ripen(f *flow) {
	f.finish = f.pass + float64(f.cost)/float64(f.weight)
	f.in = &g.ready
	g.ready.push(f)
}

func (g *group) unpour(f *flow) {
	if f.poured {
		g.fluid.remove(f.fluidAt)
		g.weight -= f.weight
		f.poured = false
	}
}

// advance moves the clock by seats that were granted, piece by piece: each flow
// that is served to its end leaves its part of the rest to the others.
func (g *group) advance(seats float64) {
	for g.fluid.len() > 0 {
		f := g.fluid.items[0]
		need := (f.end - g.clock) * float64(g.weight)
		if need > seats {
			g.clock += seats / float64(g.weight)
			return
		}
		seats -= max(0, need)
		g.clock = max(g.clock, f.end)
		g.unpour(f)
		if f.cost == 0 {
			g.forget(f)
		}
	}
}

// settle restores the invariant: what the clock has reached moves to ready, and
// the clock jumps when nobody would be ready although somebody waits.
func (g *group) settle() {
	if g.waiting == 0 {
		g.reset()
		return
	}
	if g.ready.len() == 0 && g.later.items[0].pass > g.clock {
		jump := g.later.items[0].pass
		for g.fluid.len() > 0 && g.fluid.items[0].end <= jump {
			f := g.fluid.items[0]
			g.unpour(f)
			if f.cost == 0 {
				g.forget(f)
			}
		}
		g.clock = jump
	}
	for g.later.len() > 0 && g.later.items[0].pass <= g.clock {
		f := g.later.items[0]
		g.later.remove(0)
		g.ripen(f)
	}
}

// reset forgets every debt: nobody waits, so nobody is owed anything.
func (g *group) reset() {
	for _, f := range g.flows {
		g.pool.give(f)
	}
	clear(g.flows)
	g.ready.drop()
	g.later.drop()
	g.fluid.drop()
	g.clock, g.weight, g.size, g.services, g.births = 0, 0, 0, 0, 0
}

func (g *group) forget(f *flow) {
	g.size--
	delete(g.flows, f.key)
	g.pool.give(f)
}

// copy is a group that can be played through without changing g. Tickets are
// shared and must only be read.
func (g *group) copy() *group {
	c := &group{clock: g.clock, weight: g.weight, size: g.size, waiting: g.waiting, services: g.services, births: g.births}
	c.order()
	copies := make(map[*flow]*flow, len(g.fluid.items)+g.waiting)
	c.ready.items = copyFlows(g.ready.items, &c.ready, copies)
	c.later.items = copyFlows(g.later.items, &c.later, copies)
	c.fluid.items = copyFlows(g.fluid.items, nil, copies)
	return c
}

func copyFlows(from []*flow, in *pile[*flow], copies map[*flow]*flow) []*flow {
	to := make([]*flow, len(from))
	for i, f := range from {
		c := copies[f]
		if c == nil {
			c = new(flow)
			*c = *f
			c.in = in
			if f.sessions != nil {
				c.sessions = f.sessions.copy()
			}
			copies[f] = c
		}
		to[i] = c
	}
	return to
}

// readyFlow finds a flow of a copy, which has no index by key.
func (g *group) readyFlow(key string) *flow {
	for _, f := range g.ready.items {
		if f.key == key {
			return f
		}
	}
	return nil
}

// pool keeps a few dropped flows, so that a queue that is mostly empty does not
// allocate. A nil pool keeps none.
type pool struct {
	leaves, parents []*flow
}

const poolSize = 64

func (p *pool) take(leaf bool) *flow {
	list := &p.parents
	if leaf {
		list = &p.leaves
	}
	if n := len(*list); n > 0 {
		f := (*list)[n-1]
		(*list)[n-1] = nil
		*list = (*list)[:n-1]
		return f
	}
	if leaf {
		return &flow{}
	}
	return &flow{sessions: newGroup(p)}
}

func (p *pool) give(f *flow) {
	if p == nil {
		return
	}
	sessions := f.sessions
	*f = flow{sessions: sessions} // drops the strings and whatever it pointed to
	list := &p.leaves
	if sessions != nil {
		list = &p.parents
	}
	if len(*list) < poolSize {
		*list = append(*list, f)
	}
}
