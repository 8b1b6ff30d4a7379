package missions

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// A sheet is one step of the records: what was read for it, what they become,
// and what is told of it. It is made, filled and written by one goroutine.
type sheet struct {
	sys      *System
	at       time.Time
	missions pile[dispatch.Mission]
	voyages  pile[dispatch.Voyage]
	captains pile[dispatch.Captain]
	docks    pile[dispatch.Dock]
	vessels  pile[dispatch.Vessel] // these are never changed here
	ended    []dispatch.Mission    // by this step

	openAfter map[string][]dispatch.Mission // every open mission, by what it depends on; nil: not known
}

func (s *System) newSheet() *sheet { return &sheet{sys: s, at: shown(s.now())} }

// shown is a time as records have it: UTC, to the millisecond.
func shown(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// pile is the records of one kind that a sheet has to do with.
type pile[R dispatch.Stored] struct {
	kept   map[string]dispatch.Kept[R] // as they become; the revision is as read
	events map[string][]broker.Event
	order  []string // of those that change
	gone   map[string]bool
}

// get reads a record, unless the sheet has it already.
func (p *pile[R]) get(from dispatch.Reader, id string) (R, error) {
	if k, ok := p.kept[id]; ok {
		return k.Value, nil
	}
	k, err := dispatch.Read[R](from, id)
	if err != nil {
		return k.Value, err
	}
	return p.add(k), nil
}

// add takes a record that was read. What the sheet has already stands.
func (p *pile[R]) add(k dispatch.Kept[R]) R {
	id := k.Value.Key()
	if have, ok := p.kept[id]; ok {
		return have.Value
	}
	if p.kept == nil {
		p.kept = map[string]dispatch.Kept[R]{}
	}
	p.kept[id] = k
	return k.Value
}

// list reads a list, as its records become by this sheet.
func (p *pile[R]) list(s *System, of string) ([]R, error) {
	all, err := readAll[R](s, of)
	if err != nil {
		return nil, err
	}
	out := make([]R, 0, len(all))
	for _, k := range all {
		out = append(out, p.add(k))
	}
	return out, nil
}

// put says what a record becomes. One that was not read is new.
func (p *pile[R]) put(r R, events ...broker.Event) {
	id := r.Key()
	p.add(dispatch.Kept[R]{Value: r})
	k := p.kept[id]
	k.Value = r
	p.kept[id] = k
	p.change(id, events)
}

// drop deletes a record that was read.
func (p *pile[R]) drop(id string) {
	if p.gone == nil {
		p.gone = map[string]bool{}
	}
	p.gone[id] = true
	p.change(id, nil)
}

func (p *pile[R]) change(id string, events []broker.Event) {
	if p.events == nil {
		p.events = map[string][]broker.Event{}
	}
	before, known := p.events[id]
	if !known {
		p.order = append(p.order, id)
	}
	p.events[id] = append(before, events...)
}

func (p *pile[R]) changes() ([]broker.RecordChange, error) {
	var out []broker.RecordChange
	for _, id := range p.order {
		k := p.kept[id]
		c, err := dispatch.Write(k.Value, k.Revision, p.events[id]...)
		if err != nil {
			return nil, err
		}
		if p.gone[id] {
			c.Value, c.Keys = nil, nil
		}
		out = append(out, c)
	}
	return out, nil
}

// changes is the sheet as the journal takes it.
func (b *sheet) changes() ([]broker.RecordChange, error) {
	var out []broker.RecordChange
	for _, of := range []func() ([]broker.RecordChange, error){b.missions.changes, b.captains.changes, b.docks.changes, b.voyages.changes} {
		more, err := of()
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func (b *sheet) store() dispatch.Reader { return b.sys.opts.Store }

func (b *sheet) mission(id string) (dispatch.Mission, error) { return b.missions.get(b.store(), id) }

// voyage reads the voyage of a mission; nil: it has none, or none any more.
func (b *sheet) voyage(of dispatch.Mission) (*dispatch.Voyage, error) {
	if of.VoyageID == nil {
		return nil, nil
	}
	v, err := b.voyages.get(b.store(), *of.VoyageID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return nil, nil
	}
	return &v, err
}

// moved is what an event says of a step.
type moved struct {
	From   string  `json:"From"`
	To     string  `json:"To"`
	Reason *string `json:"Reason,omitempty"`
	Commit *string `json:"Commit,omitempty"`
}

func payload(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // only what this package declares is encoded
	}
	return raw
}

// step makes a mission another and tells of it. from is the status before it.
func (b *sheet) step(from dispatch.MissionStatus, m dispatch.Mission) {
	told := moved{From: string(from), To: string(m.Status), Commit: m.Commit}
	message := "The mission is " + string(m.Status) + "."
	if m.FailureReason != nil {
		reason := string(*m.FailureReason)
		told.Reason, message = &reason, "The mission is "+string(m.Status)+": "+reason+"."
	}
	if m.Status.Final() || m.Status == dispatch.MissionLandingFailed {
		m.ProcessID, m.ProcessStarted = nil, nil
		if from == dispatch.MissionAssigned && m.Status == dispatch.MissionFailed {
			m.Assignment = dispatch.AssignmentFailed
		}
		b.ended = append(b.ended, m)
	}
	events := []broker.Event{dispatch.Event(m, "status_changed", message, payload(told))}
	switch m.Status {
	case dispatch.MissionComplete:
		events = append(events, dispatch.Event(m, "completed", "The mission "+m.Title+" is complete.", payload(told)))
	case dispatch.MissionFailed:
		events = append(events, dispatch.Event(m, "failed", "The mission "+m.Title+" failed.", payload(told)))
	}
	b.missions.put(m, events...)
}

// settle makes what follows from a mission as the sheet has it: missions that
// cannot be carried on, earlier stages of its chain, and voyages that are over.
func (b *sheet) settle(seed string) error {
	kin, err := b.kin(seed)
	if err != nil {
		return err
	}
	for _, c := range dispatch.Follow(kin.seen, b.at) {
		m := c.Mission
		if m.DependsOn != nil && kin.gone[*m.DependsOn] {
			text := "The mission that it depends on does not exist any more."
			m.FailureMessage = &text
		}
		b.step(c.From, m)
	}
	return b.endVoyages()
}

// family is missions that depend on each other.
type family struct {
	seen []dispatch.Mission // as they are to be judged
	have map[string]bool
	gone map[string]bool // dependencies without a record
}

func newFamily() *family { return &family{have: map[string]bool{}, gone: map[string]bool{}} }

// join takes another family in, whose missions may be of this one already.
func (f *family) join(other *family) {
	for _, m := range other.seen {
		if !f.have[m.ID] {
			f.have[m.ID], f.seen = true, append(f.seen, m)
		}
	}
	maps.Copy(f.gone, other.gone)
}

// kin gathers the missions that a mission's state bears on, or is born of: up to
// the first final one, and everything that builds on any of these.
func (b *sheet) kin(seed string) (*family, error) {
	f := newFamily()
	m, err := b.mission(seed)
	if err != nil {
		return nil, err
	}
	return f, b.gather(f, m)
}

// gather takes a mission into a family with all that it needs to be judged. What
// has ended and builds on another matters to work that is done alone, whose chain
// it is of; of others those that are open suffice, where they are known.
func (b *sheet) gather(f *family, m dispatch.Mission) error {
	type member struct {
		dispatch.Mission
		chain bool // of work that is done
	}
	for queue := []member{{m, false}}; len(queue) > 0; {
		m, chain := queue[0].Mission, queue[0].chain || queue[0].Status == dispatch.MissionWorkProduced
		queue = queue[1:]
		if f.have[m.ID] {
			continue
		}
		seen, err := b.masked(m)
		if err != nil {
			return err
		}
		f.have[m.ID], f.seen = true, append(f.seen, seen)
		if m.DependsOn != nil && !m.Status.Final() && !f.have[*m.DependsOn] {
			dep, err := b.mission(*m.DependsOn)
			switch {
			case errors.Is(err, broker.ErrRecordNotFound):
				f.have[*m.DependsOn], f.gone[*m.DependsOn] = true, true
				f.seen = append(f.seen, dispatch.Mission{ID: *m.DependsOn, Status: dispatch.MissionCancelled})
			case err != nil:
				return err
			default:
				queue = append(queue, member{dep, false})
			}
		}
		after := b.openAfter[m.ID]
		if chain || b.openAfter == nil {
			if after, err = b.missions.list(b.sys, dispatch.After(m.ID)); err != nil {
				return err
			}
		}
		for _, m := range after {
			queue = append(queue, member{m, chain})
		}
	}
	return nil
}

// underWay stands for the status of a mission that is not to be changed for
// another's sake.
const underWay = dispatch.MissionReview

// masked is a mission as others are judged by it. Those of a voyage that is not
// all there, and those that are being landed or cleared up after, are not to be
// changed for another's sake; seen as under way they never are, and what hangs on
// them waits.
func (b *sheet) masked(m dispatch.Mission) (dispatch.Mission, error) {
	switch m.Status {
	case dispatch.MissionPending:
		v, err := b.voyage(m)
		if err != nil {
			return m, err
		}
		if v != nil && !v.Materialized {
			m.Status = underWay
		}
	case dispatch.MissionWorkProduced:
		if m.Landing || b.sys.Running(m.ID) {
			m.Status = underWay
		}
	}
	return m, nil
}

// endVoyages ends the voyages of the missions that the sheet changes, where
// nothing of them is open any more.
func (b *sheet) endVoyages() error {
	for _, id := range b.missions.order {
		v, err := b.voyage(b.missions.kept[id].Value)
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := b.endVoyage(*v); err != nil {
			return err
		}
	}
	return nil
}

// endVoyage ends a voyage of which nothing is open. One that is being called off
// is ended by who does that.
func (b *sheet) endVoyage(v dispatch.Voyage) error {
	if b.sys.cancelling.has(v.ID) || !v.Materialized || v.Status.Over() {
		return nil
	}
	all, err := b.missions.list(b.sys, dispatch.OfVoyage(v.ID))
	if err != nil {
		return err
	}
	if status, ended := dispatch.Outcome(all); ended {
		return b.stepVoyage(v, status, nil)
	}
	return nil
}

// stepVoyage makes a voyage another and tells of it.
func (b *sheet) stepVoyage(v dispatch.Voyage, to dispatch.VoyageStatus, reason *string) error {
	next, err := v.Step(to, b.at)
	if err != nil {
		return err
	}
	if reason != nil {
		next.Reason = reason
	}
	var events []broker.Event
	told := payload(moved{From: string(v.Status), To: string(to), Reason: reason})
	switch to {
	case dispatch.VoyageCancelled:
		events = append(events, dispatch.Event(next, "cancelled", "The voyage "+v.Title+" was cancelled.", told))
	case dispatch.VoyageComplete, dispatch.VoyageFailed:
		events = append(events, dispatch.Event(next, "completed", "The voyage "+v.Title+" is over: "+string(to)+".", told))
	}
	b.voyages.put(next, events...)
	return nil
}

// reopen leads a voyage on in which a mission is to be carried on.
func (b *sheet) reopen(of dispatch.Mission) error {
	v, err := b.voyage(of)
	if err != nil || v == nil || v.Status != dispatch.VoyageOpen && v.Status != dispatch.VoyageFailed {
		return err
	}
	return b.stepVoyage(*v, dispatch.VoyageInProgress, nil)
}
