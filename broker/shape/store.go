package shape

import (
	lru "container/list"
	"fmt"
	"sync"
	"time"

	"berth/broker"
)

// The bounds of a store (contracts/catalog.md section 10).
const (
	DefaultIdle  = 15 * time.Minute
	MaxIdle      = 60 * time.Minute
	MaxPrincipal = 64 << 20 // bytes of one principal
	MaxStore     = 256 << 20
)

// overhead is what a piece takes beside its text, in bytes, at most: its index
// and its entries in the maps. It counts, so that a flood of small pieces is
// bounded, too.
const overhead = 1 << 10

// StoreOptions sets the bounds of a store; the zero value is the contract's.
type StoreOptions struct {
	Idle         time.Duration // how long a handle lives after it was last used; at most MaxIdle
	MaxPrincipal int           // bytes; of one principal
	MaxStore     int           // bytes; in all
}

// Store keeps what was cut from answers until it is asked for, dropped, or
// forgotten. It is state and has one owner: the front that answers sessions
// makes one, puts into it what [Shape] gave before it sends the answer, and
// asks it for `more`. It is safe for concurrent use: calls end in many
// goroutines, so it has a lock, which is held for map work only; parts are cut
// and counted by the caller, outside it.
type Store struct {
	idle         time.Duration
	maxPrincipal int
	maxStore     int

	mu       sync.Mutex
	pieces   map[string]*lru.Element // by handle; of *piece
	recent   *lru.List               // the least recently used last; so the first to expire
	accounts map[owner]int           // bytes
	bytes    int
}

// owner is whom a handle is bound to.
type owner struct{ tenant, user string }

// piece is what stands under one handle.
type piece struct {
	kept     Kept
	owner    owner
	expires  time.Time
	next     int // the first unit that was not delivered: the default offset
	delivery *delivery
	key      string // of the piece in its delivery
	children map[int]string
}

// delivery is one answer whose parts are delivered: then is given back when
// none is left.
type delivery struct {
	open map[string]bool // the pieces that are not delivered to their end
	then any
}

// NewStore makes an empty store.
func NewStore(o StoreOptions) *Store {
	s := &Store{idle: min(o.Idle, MaxIdle), maxPrincipal: o.MaxPrincipal, maxStore: o.MaxStore,
		pieces: map[string]*lru.Element{}, recent: lru.New(), accounts: map[owner]int{}}
	if s.idle <= 0 {
		s.idle = DefaultIdle
	}
	if s.maxPrincipal <= 0 {
		s.maxPrincipal = MaxPrincipal
	}
	if s.maxStore <= 0 {
		s.maxStore = MaxStore
	}
	return s
}

// Until is when what is kept now expires, if nobody asks for it.
func (s *Store) Until(now time.Time) time.Time { return now.Add(s.idle) }

// Put keeps the pieces of one answer for a principal. then is anything that
// its caller wants back when the last part has been delivered (the marks that
// the answer grants); it is kept with the pieces and dropped with them. What is
// over a bound drops what was used least recently, of the same principal first.
func (s *Store) Put(now time.Time, who broker.Principal, keep []Kept, then any) {
	if len(keep) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	d := &delivery{open: map[string]bool{}, then: then}
	for _, k := range keep {
		d.open[k.Handle] = !k.Repeats
		if k.Repeats {
			continue
		}
		if k.Dropped > 0 {
			d.open[k.Handle+" dropped"] = true // nobody will ever see the last part
		}
	}
	for _, k := range keep {
		s.add(now, &piece{kept: k, owner: owner{who.Tenant, who.User}, next: k.First, delivery: d, key: k.Handle})
	}
}

// add makes room for a piece and keeps it.
func (s *Store) add(now time.Time, p *piece) {
	size := p.kept.Size() + overhead
	for s.accounts[p.owner]+size > s.maxPrincipal || s.bytes+size > s.maxStore {
		if !s.dropOldest(p.owner, s.accounts[p.owner]+size > s.maxPrincipal) {
			return // larger than everything that may be kept
		}
	}
	p.expires = now.Add(s.idle)
	s.pieces[p.kept.Handle] = s.recent.PushFront(p)
	s.accounts[p.owner] += size
	s.bytes += size
}

// dropOldest drops the least recently used piece, of one owner if own is set.
func (s *Store) dropOldest(of owner, own bool) bool {
	for e := s.recent.Back(); e != nil; e = e.Prev() {
		if !own || e.Value.(*piece).owner == of {
			s.drop(e)
			return true
		}
	}
	return false
}

func (s *Store) drop(e *lru.Element) {
	p := s.recent.Remove(e).(*piece)
	size := p.kept.Size() + overhead
	delete(s.pieces, p.kept.Handle)
	s.bytes -= size
	if s.accounts[p.owner] -= size; s.accounts[p.owner] <= 0 {
		delete(s.accounts, p.owner)
	}
}

// expire drops what nobody asked for. All live equally long after their last
// use, so the oldest stand at the end.
func (s *Store) expire(now time.Time) {
	for e := s.recent.Back(); e != nil && !now.Before(e.Value.(*piece).expires); e = s.recent.Back() {
		s.drop(e)
	}
}

// Expire drops what nobody asked for in time. Every other method does so too;
// whoever owns the store calls it now and then, so that an idle broker holds
// nothing.
func (s *Store) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
}

// Find gives what a handle stands for and the default offset, and counts as a
// use of it. Unknown, expired, dropped and another principal's are one answer.
func (s *Store) Find(now time.Time, who broker.Principal, handle string) (kept *Kept, next int, refusal *broker.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.use(now, who, handle)
	if p == nil {
		return nil, 0, broker.Refuse(broker.CodeHandleUnknown, "Nothing is kept under this handle. What is kept is dropped some time after it was last asked for; ask for it anew with the first call if that was a read.", nil)
	}
	return &p.kept, p.next, nil
}

// use finds a principal's piece and makes it the most recent one.
func (s *Store) use(now time.Time, who broker.Principal, handle string) *piece {
	s.expire(now)
	e, ok := s.pieces[handle]
	if !ok {
		return nil
	}
	p := e.Value.(*piece)
	if p.owner != (owner{who.Tenant, who.User}) {
		return nil
	}
	p.expires = now.Add(s.idle)
	s.recent.MoveToFront(e)
	return p
}

// Child gives the handle of an item that is kept under one of its own, for [Kept.Page].
func (s *Store) Child(now time.Time, who broker.Principal, handle string) func(item int) (string, bool) {
	return func(item int) (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p := s.use(now, who, handle)
		if p == nil {
			return "", false
		}
		child := p.children[item]
		return child, s.use(now, who, child) != nil
	}
}

// Delivered says that a part of a handle is about to be sent. It keeps the
// part's child, moves the default offset on, and gives back what was put with
// the answer when this was the last part of it that had not been delivered.
// Parts count from the beginning without a gap: one that leaves a gap behind it
// moves nothing.
func (s *Store) Delivered(now time.Time, who broker.Principal, handle string, page Page) (then any, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.use(now, who, handle)
	if p == nil {
		return nil, false
	}
	d := p.delivery
	if page.Split {
		key := fmt.Sprintf("%s %d", p.key, page.Offset)
		if page.Child != nil {
			if _, seen := d.open[key]; !seen { // it may be kept a second time, after it was dropped
				d.open[key] = true
			}
			child := &piece{kept: *page.Child, owner: p.owner, next: page.Child.First, delivery: d, key: key}
			if page.Child.Dropped > 0 {
				d.open[key+" dropped"] = true
			}
			if p.children == nil {
				p.children = map[int]string{}
			}
			p.children[page.Offset] = page.Child.Handle
			s.add(now, child)
		}
	}
	if page.Offset <= p.next {
		p.next = max(p.next, page.Offset+page.Count)
	}
	if p.next >= p.kept.Total && d.open[p.key] {
		d.open[p.key] = false
		for _, open := range d.open {
			if open {
				return nil, false
			}
		}
		return d.then, true
	}
	return nil, false
}

// Stats says how much is kept.
func (s *Store) Stats() (handles, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pieces), s.bytes
}
