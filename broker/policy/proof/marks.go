package proof

import (
	"container/list"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/condition"
)

// The bounds of a store of marks.
const (
	// MaxMarks is how many marks a principal has at one backend; the oldest is dropped.
	MaxMarks = 10_000
	// maxWrites is how many targets are remembered as written, so that an answer
	// which was asked for before a write grants nothing after it.
	maxWrites = 10_000
	// memory is how long a mark that no longer counts is remembered, so that a
	// refusal can say what became of it.
	memory = time.Hour
)

// Caller is whose marks count: the principal, and the session for kinds that
// are bound to one.
type Caller struct {
	Principal broker.Principal
	Session   string // empty without a session, which then has no marks of such a kind
}

// holder is a caller, as far as a kind looks at it.
type holder struct{ tenant, user, session string }

// state is what became of a mark.
type state uint8

const (
	fresh state = iota
	reserved
	used
	written // by somebody else
)

// mark is the proof that a holder has seen a target.
type mark struct {
	target  Target
	holder  holder
	runtime string
	expires time.Time
	state   state
	by      *Reservation  // that holds it, in state reserved
	holds   int           // reservations that watch it, those of a reusable mark too
	place   *list.Element // in its account; nil: dropped
}

// markKey finds a mark.
type markKey struct {
	target [32]byte
	holder holder
}

// write is the last gated call that was sent to a target.
type write struct {
	by    holder
	at    time.Time
	place *list.Element
}

// Marks is what callers have seen of one backend. See the package's doc for
// who may do what with it.
type Marks struct {
	mu       sync.Mutex
	kinds    map[string]Kind
	runtime  string // the incarnation whose marks count
	marks    map[markKey]*mark
	byTarget map[[32]byte]map[*mark]bool
	accounts map[holder]*list.List // by principal, without a session: its marks, the oldest first
	writes   map[[32]byte]*write
	written  *list.List // of [32]byte, the oldest first
}

// NewMarks makes an empty store for kinds.
func NewMarks(kinds map[string]Kind) *Marks {
	return &Marks{kinds: kinds, marks: map[markKey]*mark{}, byTarget: map[[32]byte]map[*mark]bool{}, accounts: map[holder]*list.List{},
		writes: map[[32]byte]*write{}, written: list.New()}
}

// Incarnation says which life of the backend runs now; marks of another do not
// count. A backend without identity has the empty id in every life.
func (m *Marks) Incarnation(runtimeID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runtime = runtimeID
}

// Configure replaces the kinds after the configuration was read anew. Marks
// keep the life that they were given.
func (m *Marks) Configure(kinds map[string]Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kinds = kinds
}

func (m *Marks) holder(who Caller, kind string) (h holder, ok bool) {
	h = holder{tenant: who.Principal.Tenant, user: who.Principal.User}
	if !m.kinds[kind].Session {
		return h, true
	}
	h.session = who.Session
	return h, who.Session != ""
}

// Grant gives a caller marks for targets, just before the answer that shows
// them is released. asked is when the call was sent: what somebody else wrote
// since then is not what the answer shows, and such a target gets a mark that
// says so. runtimeID is the incarnation that answered.
func (m *Marks) Grant(now, asked time.Time, who Caller, runtimeID string, targets []Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range targets {
		kind, known := m.kinds[t.Kind]
		h, ok := m.holder(who, t.Kind)
		if !known || !ok {
			continue
		}
		ttl := kind.TTL
		if ttl <= 0 {
			ttl = DefaultTTL
		}
		key := markKey{t.id, h}
		if old := m.marks[key]; old != nil {
			m.drop(old)
		}
		t.value = nil // the caller's own spelling is of no use here
		k := &mark{target: t, holder: h, runtime: runtimeID, expires: now.Add(ttl)}
		if w := m.writes[t.id]; w != nil && w.by != h && !w.at.Before(asked) {
			k.state = written
		}
		m.add(now, key, k)
	}
}

// add keeps a mark, and drops the principal's oldest over MaxMarks and those
// that nobody will ask about any more.
func (m *Marks) add(now time.Time, key markKey, k *mark) {
	m.marks[key] = k
	if m.byTarget[key.target] == nil {
		m.byTarget[key.target] = map[*mark]bool{}
	}
	m.byTarget[key.target][k] = true
	principal := holder{tenant: k.holder.tenant, user: k.holder.user}
	a := m.accounts[principal]
	if a == nil {
		a = list.New()
		m.accounts[principal] = a
	}
	k.place = a.PushBack(k)
	for a.Len() > 1 {
		oldest := a.Front().Value.(*mark)
		if a.Len() <= MaxMarks && now.Before(oldest.expires.Add(memory)) {
			break
		}
		m.drop(oldest)
	}
}

// drop forgets a mark; a reservation that holds it goes on to hold it, and to
// hear of what others write.
func (m *Marks) drop(k *mark) {
	if k.place == nil {
		return
	}
	principal := holder{tenant: k.holder.tenant, user: k.holder.user}
	a := m.accounts[principal]
	a.Remove(k.place)
	k.place = nil
	if a.Len() == 0 {
		delete(m.accounts, principal)
	}
	delete(m.marks, markKey{k.target.id, k.holder})
	if k.holds == 0 {
		m.unwatch(k)
	}
}

func (m *Marks) unwatch(k *mark) {
	delete(m.byTarget[k.target.id], k)
	if len(m.byTarget[k.target.id]) == 0 {
		delete(m.byTarget, k.target.id)
	}
}

// Look says what of a demand is unproven; nil is all proven. Nothing changes.
func (m *Marks) Look(now time.Time, who Caller, d Demand) []Unproven {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, unproven := m.look(now, who, d)
	return unproven
}

func (m *Marks) look(now time.Time, who Caller, d Demand) (found []*mark, unproven []Unproven) {
	unproven = append(unproven, d.Faults...)
	for _, t := range d.Targets {
		k := m.find(who, t)
		if reason := m.against(now, k, t); reason != "" {
			unproven = append(unproven, Unproven{Target: t, Reason: reason})
			continue
		}
		found = append(found, k)
	}
	return found, unproven
}

func (m *Marks) find(who Caller, t Target) *mark {
	h, ok := m.holder(who, t.Kind)
	if !ok {
		return nil
	}
	return m.marks[markKey{t.id, h}]
}

// against says what speaks against a mark; empty is nothing.
func (m *Marks) against(now time.Time, k *mark, t Target) Reason {
	switch {
	case k == nil:
		return NoMark
	case k.state == written:
		return WrittenSince
	case k.state != fresh:
		return Used
	case k.runtime != m.runtime:
		return OtherIncarnation
	case !now.Before(k.expires):
		return Expired
	case t.wants && (k.target.version == nil || !condition.Equal(k.target.version, t.version)):
		return VersionChanged
	}
	return ""
}

// Reservation is what one admitted call holds until it is sent. The zero value
// holds nothing. It belongs to the actor of the backend.
type Reservation struct {
	marks   []*mark
	targets []Target
	who     Caller
	sent    bool
	over    bool
}

// Reserve looks again and takes the marks of a demand for one call: until they
// are given back, no other call may use those that are used up by one. It is
// nil, with what is unproven, when the demand is not met; nothing is taken then.
func (m *Marks) Reserve(now time.Time, who Caller, d Demand) (*Reservation, []Unproven) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, unproven := m.look(now, who, d)
	if len(unproven) > 0 {
		return nil, unproven
	}
	r := &Reservation{marks: found, targets: d.Targets, who: who}
	for _, k := range found {
		k.holds++
		if !m.kinds[k.target.Kind].Reusable {
			k.state, k.by = reserved, r
		}
	}
	return r, nil
}

// Return gives back what a call held that was not sent. What became of a mark
// meanwhile stays: somebody else wrote, or it expired. It does nothing for a
// call that was sent.
func (m *Marks) Return(r *Reservation) {
	if r == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveBack(r)
}

func (m *Marks) giveBack(r *Reservation) {
	if r.over {
		return
	}
	r.over = true
	m.letGo(r, fresh)
}

// letGo ends a reservation; what it alone held is in a new state.
func (m *Marks) letGo(r *Reservation, next state) {
	for _, k := range r.marks {
		if k.state == reserved && k.by == r {
			k.state, k.by = next, nil
		}
		if k.holds--; k.holds == 0 && k.place == nil {
			m.unwatch(k)
		}
	}
}

// Spend is said just before the call is sent, whatever comes of it: its marks
// are used up, and every other caller's marks on its targets no longer count.
// When somebody else wrote since the marks were reserved, or the backend is
// another incarnation, the call must not be sent: the answer is what is
// unproven then, and what was held is given back.
//
// Say it again when a call that was sent has ended: what others were granted
// while it ran may be older than what it wrote.
func (m *Marks) Spend(now time.Time, r *Reservation) []Unproven {
	if r == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.sent {
		if r.over {
			return m.unproven(r, NoMark)
		}
		if unproven := m.overtaken(r); len(unproven) > 0 {
			m.giveBack(r)
			return unproven
		}
		r.sent, r.over = true, true
		m.letGo(r, used)
	}
	for _, t := range r.targets {
		m.wrote(now, r.who, t)
	}
	return nil
}

// overtaken says which reserved marks no longer count.
func (m *Marks) overtaken(r *Reservation) (unproven []Unproven) {
	for i, k := range r.marks {
		switch {
		case k.state == written:
			unproven = append(unproven, Unproven{Target: r.targets[i], Reason: WrittenSince})
		case k.runtime != m.runtime:
			unproven = append(unproven, Unproven{Target: r.targets[i], Reason: OtherIncarnation})
		}
	}
	return unproven
}

func (m *Marks) unproven(r *Reservation, reason Reason) (out []Unproven) {
	for _, t := range r.targets {
		out = append(out, Unproven{Target: t, Reason: reason})
	}
	return out
}

// wrote drops the marks of all others on a target.
func (m *Marks) wrote(now time.Time, who Caller, t Target) {
	h, _ := m.holder(who, t.Kind)
	for k := range m.byTarget[t.id] {
		if k.holder != h && k.state != used {
			k.state, k.by = written, nil
		}
	}
	w := m.writes[t.id]
	if w == nil {
		w = &write{place: m.written.PushBack(t.id)}
		m.writes[t.id] = w
	}
	w.by, w.at = h, now
	m.written.MoveToBack(w.place)
	for m.written.Len() > maxWrites {
		delete(m.writes, m.written.Remove(m.written.Front()).([32]byte))
	}
}

// Len is how many marks are kept, those that no longer count included.
func (m *Marks) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.marks)
}
