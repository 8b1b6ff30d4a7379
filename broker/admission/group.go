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
	cost   int     // seats of its next ticket; 0: nothing waits, only a debt is remembered
	served uint64  // when it was served last, counted in services of the group; 0: not yet
	born   uint64  // order in which the group's flows came

	in    *pile[*flow]
	index int

	parent   *flow  // the principal, of a session
	sessions *group // of a principal, else nil
	tickets  fifo   // of a session
}

// group shares its parent's turn among its flows (package comment, Order).
//
// Invariant between calls: when a flow has something waiting, ready is not
// empty; flows in ready have pass <= clock and a ticket, those in later have
// pass > clock.
type group struct {
	flows    map[string]*flow // nil in a copy
	ready    pile[*flow]      // by finish
	later    pile[*flow]      // by pass
	clock    float64
	weight   int // of all flows, the merely remembered too
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
	g.ready.less = func(a, b *flow) bool {
		return cmp.Or(cmp.Compare(a.finish, b.finish), cmp.Compare(a.served, b.served), cmp.Compare(a.born, b.born)) < 0
	}
	g.later.less = func(a, b *flow) bool {
		return cmp.Or(cmp.Compare(a.pass, b.pass), cmp.Compare(a.born, b.born)) < 0
	}
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

// find gives the flow of key, made at the clock when it is new. The caller
// follows up with set. A weight that changed holds from now on.
func (g *group) find(key string, weight int, parent *flow, leaf bool) *flow {
	f := g.flows[key]
	if f == nil {
		f = g.pool.take(leaf)
		g.births++
		f.key, f.parent, f.pass, f.born = key, parent, g.clock, g.births
		g.flows[key] = f
	}
	g.weight += weight - f.weight
	f.weight = weight
	return f
}

// set says what the next ticket of f costs now, 0 when nothing waits. It may
// drop f, which the caller must then not use again.
func (g *group) set(f *flow, cost int) {
	switch {
	case f.cost == 0 && cost > 0:
		g.waiting++
	case f.cost > 0 && cost == 0:
		g.waiting--
	}
	f.cost = cost
	if f.in != nil {
		f.in.remove(f.index)
		f.in = nil
	}
	if g.waiting == 0 {
		g.reset()
		return
	}
	g.place(f)
	g.settle()
}

// charge books one ticket of f, whose next one costs next (0: none). It may
// drop f.
func (g *group) charge(f *flow, cost, next int) {
	g.services++
	f.served = g.services
	f.pass += float64(cost) / float64(f.weight)
	g.clock += float64(cost) / float64(g.weight)
	g.set(f, next)
}

func (g *group) place(f *flow) {
	debts := g.ready.len() + g.later.len() - g.waiting
	switch {
	case f.pass > g.clock && (f.cost > 0 || debts < g.waiting+spareDebts):
		f.in = &g.later
		g.later.push(f)
	case f.cost == 0:
		g.forget(f)
	default:
		f.finish = f.pass + float64(f.cost)/float64(f.weight)
		f.in = &g.ready
		g.ready.push(f)
	}
}

// settle restores the invariant: what the clock has reached moves to ready, and
// the clock jumps when nobody would be ready although somebody waits.
func (g *group) settle() {
	for g.later.len() > 0 {
		f := g.later.items[0]
		if f.pass > g.clock {
			if g.ready.len() > 0 {
				return
			}
			g.clock = f.pass
		}
		g.later.remove(0)
		f.in = nil
		g.place(f)
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
	g.clock, g.weight, g.services, g.births = 0, 0, 0, 0
}

func (g *group) forget(f *flow) {
	g.weight -= f.weight
	delete(g.flows, f.key)
	g.pool.give(f)
}

// copy is a group that can be played through without changing g. Tickets are
// shared and must only be read.
func (g *group) copy() *group {
	c := &group{clock: g.clock, weight: g.weight, waiting: g.waiting, services: g.services, births: g.births}
	c.order()
	c.ready.items = copyFlows(g.ready.items, &c.ready)
	c.later.items = copyFlows(g.later.items, &c.later)
	return c
}

func copyFlows(from []*flow, in *pile[*flow]) []*flow {
	to := make([]*flow, len(from))
	for i, f := range from {
		c := *f
		c.in = in
		if f.sessions != nil {
			c.sessions = f.sessions.copy()
		}
		to[i] = &c
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
