package missions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// memory is a journal without a file. After each step it checks what must hold
// of the records together.
type memory struct {
	mu      sync.Mutex
	records map[[2]string]broker.Record
	events  []broker.Event
	ended   map[string][]string // by mission: the statuses it went through
	wrong   []string            // what a step broke
	// fault may fail a step before it is made, or after.
	fault func(changes []broker.RecordChange) (before, after error)
	// reads fails every read while it is set.
	reads error
}

func newMemory() *memory {
	return &memory{records: map[[2]string]broker.Record{}, ended: map[string][]string{}}
}

func (s *memory) Record(kind, id string) (broker.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads != nil {
		return broker.Record{}, s.reads
	}
	r, ok := s.records[[2]string{kind, id}]
	if !ok {
		return r, fmt.Errorf("%w: %s %s", broker.ErrRecordNotFound, kind, id)
	}
	return r, nil
}

func (s *memory) Records(q broker.RecordQuery) ([]broker.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads != nil {
		return nil, s.reads
	}
	var out []broker.Record
	for _, r := range s.records {
		if r.Kind == q.Kind && (q.Key == "" || slices.Contains(r.Keys, q.Key)) && r.ID > q.After {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b broker.Record) int { return strings.Compare(a.ID, b.ID) })
	return out[:min(len(out), q.Limit)], nil
}

func (s *memory) PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var after error
	if s.fault != nil {
		var before error
		if before, after = s.fault(changes); before != nil {
			return nil, before
		}
	}
	for _, c := range changes {
		if c.If != nil && s.records[[2]string{c.Kind, c.ID}].Revision != *c.If {
			return nil, fmt.Errorf("%w: %s %s", broker.ErrRecordRevision, c.Kind, c.ID)
		}
	}
	var out []broker.Record
	for _, c := range changes {
		at := [2]string{c.Kind, c.ID}
		r := broker.Record{Kind: c.Kind, ID: c.ID, Revision: s.records[at].Revision + 1, Value: c.Value, Keys: c.Keys}
		s.check(s.records[at], r)
		if s.records[at] = r; c.Value == nil {
			delete(s.records, at)
		}
		s.events = append(s.events, c.Events...)
		out = append(out, r)
	}
	s.together()
	return out, after
}

// value is the record of a journal's; the zero value of one that is none.
func value[R dispatch.Stored](r broker.Record) (v R) {
	if r.Value == nil || json.Unmarshal(r.Value, &v) != nil {
		return *new(R)
	}
	return v
}

// check holds one change against the transition tables.
func (s *memory) check(before, after broker.Record) {
	if before.Value == nil || after.Value == nil {
		return
	}
	var err error
	switch before.Kind {
	case dispatch.KindMission:
		was, is := value[dispatch.Mission](before), value[dispatch.Mission](after)
		if was.Status != is.Status {
			s.ended[is.ID] = append(s.ended[is.ID], string(is.Status))
			if _, err = was.Step(is.Status, "", "", time.Time{}); is.Status == dispatch.MissionPending {
				_, err = was.Restarted(time.Time{})
			}
		}
	case dispatch.KindVoyage:
		if was, is := value[dispatch.Voyage](before), value[dispatch.Voyage](after); was.Status != is.Status {
			_, err = was.Step(is.Status, time.Time{})
		}
	case dispatch.KindCaptain:
		if was, is := value[dispatch.Captain](before), value[dispatch.Captain](after); was.State != is.State {
			_, err = was.Step(is.State)
		}
	case dispatch.KindDock:
		was, is := value[dispatch.Dock](before), value[dispatch.Dock](after)
		if was.State == dispatch.DockProvisioning && is.State == dispatch.DockReclaiming {
			break // by Failed, in one step
		}
		if was.State != is.State {
			_, err = was.Step(is.State)
		}
	}
	if err != nil {
		s.wrong = append(s.wrong, err.Error())
	}
}

// together checks what must hold of all records after each step.
func (s *memory) together() {
	taken, leased := map[string]string{}, map[string]string{}
	all := slices.SortedFunc(maps.Values(s.records), func(a, b broker.Record) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range all {
		switch r.Kind {
		case dispatch.KindCaptain:
			c := value[dispatch.Captain](r)
			if !c.State.Busy() {
				continue
			}
			m := dispatch.Mission{}
			if c.MissionID != nil {
				m = value[dispatch.Mission](s.records[[2]string{dispatch.KindMission, *c.MissionID}])
			}
			if m.CaptainID == nil || *m.CaptainID != c.ID {
				s.wrong = append(s.wrong, fmt.Sprintf("captain %s is %s without a mission", c.ID, c.State))
			}
		case dispatch.KindMission:
			m := value[dispatch.Mission](r)
			if m.Status.Live() {
				if other, twice := taken[*m.CaptainID]; twice {
					s.wrong = append(s.wrong, fmt.Sprintf("captain %s has %s and %s", *m.CaptainID, other, m.ID))
				}
				taken[*m.CaptainID] = m.ID
			}
		case dispatch.KindDock:
			d := value[dispatch.Dock](r)
			v := value[dispatch.Vessel](s.records[[2]string{dispatch.KindVessel, d.VesselID}])
			if d.State != dispatch.DockLeased && d.State != dispatch.DockProvisioning || v.Concurrent {
				continue
			}
			if other, twice := leased[v.ID]; twice {
				s.wrong = append(s.wrong, fmt.Sprintf("vessel %s has the docks %s and %s", v.ID, other, d.ID))
			}
			leased[v.ID] = d.ID
		}
	}
}

func (s *memory) snapshot() []broker.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.records), func(a, b broker.Record) int { return strings.Compare(a.Kind+a.ID, b.Kind+b.ID) })
}

// count is how many events of a type were written.
func (s *memory) count(eventType string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.EventType == eventType {
			n++
		}
	}
	return n
}
