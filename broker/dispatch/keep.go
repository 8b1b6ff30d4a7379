package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"berth/broker"
)

// The kinds of the records that are kept.
const (
	KindVessel  = "vessel"
	KindCaptain = "captain"
	KindDock    = "dock"
	KindMission = "mission"
	KindVoyage  = "voyage"
)

// Stored is a record of this package as a journal keeps it: what kind it is,
// its id, and the lists that it stands in. A list is named in words and ids
// joined by slashes, such as vessel/vsl_x/live.
type Stored interface {
	Vessel | Captain | Dock | Mission | Voyage
	Kind() string
	Key() string
	Lists() []string
	Whose() Owner
}

// Whose gives the owner of the record.
func (o Owner) Whose() Owner { return o }

// Kind is the kind of a vessel's record.
func (Vessel) Kind() string { return KindVessel }

// Key is its id.
func (v Vessel) Key() string { return v.ID }

// Lists are those of its tenant.
func (v Vessel) Lists() []string { return []string{InTenant(v.TenantID)} }

// Kind is the kind of a captain's record.
func (Captain) Kind() string { return KindCaptain }

// Key is its id.
func (c Captain) Key() string { return c.ID }

// Lists are those of its tenant and of its state.
func (c Captain) Lists() []string {
	return []string{InTenant(c.TenantID), InState(string(c.State))}
}

// Kind is the kind of a dock's record.
func (Dock) Kind() string { return KindDock }

// Key is its id.
func (d Dock) Key() string { return d.ID }

// Lists are those of its tenant, its vessel, its mission and its state.
func (d Dock) Lists() []string {
	lists := []string{InTenant(d.TenantID), OfVessel(d.VesselID), InState(string(d.State))}
	if d.MissionID != nil {
		lists = append(lists, OfMission(*d.MissionID))
	}
	return lists
}

// Kind is the kind of a mission's record.
func (Mission) Kind() string { return KindMission }

// Key is its id.
func (m Mission) Key() string { return m.ID }

// Lists are those of its tenant, voyage, vessel, captain and status; while it is
// live also vessel/x/live and captain/x/live, and while its voyage goes on for
// it, open.
func (m Mission) Lists() []string {
	lists := []string{InTenant(m.TenantID), OfVessel(m.VesselID), InState(string(m.Status))}
	if m.VoyageID != nil {
		lists = append(lists, OfVoyage(*m.VoyageID))
	}
	if m.CaptainID != nil {
		lists = append(lists, OfCaptain(*m.CaptainID))
	}
	if m.DependsOn != nil {
		lists = append(lists, After(*m.DependsOn))
	}
	if m.Status.Open() {
		lists = append(lists, Open)
	}
	if m.Status.Live() {
		lists = append(lists, Live(OfVessel(m.VesselID)))
		if m.CaptainID != nil {
			lists = append(lists, Live(OfCaptain(*m.CaptainID)))
		}
	}
	return lists
}

// Kind is the kind of a voyage's record.
func (Voyage) Kind() string { return KindVoyage }

// Key is its id.
func (v Voyage) Key() string { return v.ID }

// Lists are those of its tenant, vessel, status and job, and open until it has
// ended.
func (v Voyage) Lists() []string {
	lists := []string{InTenant(v.TenantID), OfVessel(v.VesselID), InState(string(v.Status))}
	if v.SourceJobID != nil {
		lists = append(lists, OfJob(*v.SourceJobID))
	}
	if !v.Status.Over() {
		lists = append(lists, Open)
	}
	return lists
}

// Open lists what has not ended.
const Open = "open"

// InTenant names the list of a tenant's records.
func InTenant(tenant string) string { return list("tenant", tenant) }

// InState names the list of the records in a state or status.
func InState(state string) string { return list("state", state) }

// OfVessel names the list of a vessel's records.
func OfVessel(id string) string { return list("vessel", id) }

// OfCaptain names the list of a captain's missions.
func OfCaptain(id string) string { return list("captain", id) }

// OfVoyage names the list of a voyage's missions.
func OfVoyage(id string) string { return list("voyage", id) }

// OfMission names the list of a mission's docks.
func OfMission(id string) string { return list("mission", id) }

// OfJob names the list of a job's voyages.
func OfJob(id string) string { return list("job", id) }

// After names the list of the missions that depend on one.
func After(mission string) string { return list("after", mission) }

// Live narrows a list of missions to those that an agent works on.
func Live(of string) string { return of + "/live" }

func list(of, id string) string { return of + "/" + id }

// Reader reads what a journal keeps; *journal.Journal satisfies it.
type Reader interface {
	Record(kind, id string) (broker.Record, error)
	Records(q broker.RecordQuery) ([]broker.Record, error)
}

// Kept is a record with the revision that it was read at; 0: it is new.
type Kept[R Stored] struct {
	Value    R
	Revision uint64
}

// Read gives a record; broker.ErrRecordNotFound when there is none.
func Read[R Stored](from Reader, id string) (Kept[R], error) {
	var kept Kept[R]
	raw, err := from.Record(kept.Value.Kind(), id)
	if err != nil {
		return kept, err
	}
	return Decode[R](raw)
}

// Decode reads a record as a journal gave it.
func Decode[R Stored](raw broker.Record) (Kept[R], error) {
	kept := Kept[R]{Revision: raw.Revision}
	if err := json.Unmarshal(raw.Value, &kept.Value); err != nil {
		return kept, fmt.Errorf("the %s %s cannot be read: %w", raw.Kind, raw.ID, err)
	}
	return kept, nil
}

// maxRead is how many records of a list are read at once.
const maxRead = 1000

// ErrPartly is a list of which some records cannot be read; the others come with
// the error.
var ErrPartly = errors.New("some records cannot be read")

// ReadAll gives the records of a list, oldest first, all of them; an empty name
// is every record of the kind. With an error that wraps ErrPartly come those that
// can be read.
func ReadAll[R Stored](from Reader, of string) ([]Kept[R], error) {
	var out []Kept[R]
	var zero R
	var bad []error
	for after := ""; ; {
		page, err := from.Records(broker.RecordQuery{Kind: zero.Kind(), Key: of, After: after, Limit: maxRead})
		if err != nil && len(page) == 0 && len(bad) == 0 {
			return nil, err
		}
		if err != nil {
			bad = append(bad, err) // a journal leaves out what it cannot read
		}
		for _, raw := range page {
			kept, err := Decode[R](raw)
			if err != nil {
				bad = append(bad, err)
				continue
			}
			out = append(out, kept)
		}
		if len(page) == 0 || err == nil && len(page) < maxRead {
			break
		}
		after = page[len(page)-1].ID
	}
	if len(bad) > 0 {
		return out, fmt.Errorf("%w: %w", ErrPartly, errors.Join(bad...))
	}
	return out, nil
}

// Values are the records without their revisions.
func Values[R Stored](kept []Kept[R]) []R {
	out := make([]R, 0, len(kept))
	for _, k := range kept {
		out = append(out, k.Value)
	}
	return out
}

// Write is the change that makes a record what it is given as, where it is
// still at the revision at which it was read.
func Write[R Stored](r R, revision uint64, events ...broker.Event) (broker.RecordChange, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return broker.RecordChange{}, fmt.Errorf("encode the %s %s: %w", r.Kind(), r.Key(), err)
	}
	return broker.RecordChange{Kind: r.Kind(), ID: r.Key(), If: &revision, Value: value, Keys: r.Lists(), Events: events}, nil
}

// Event tells of a record: word follows its kind, as in mission.completed. What
// the record knows of captain, mission, vessel and voyage stands in it.
func Event[R Stored](r R, word, message string, payload json.RawMessage) broker.Event {
	e := broker.Event{EventType: r.Kind() + "." + word, EntityType: r.Kind(), EntityID: r.Key(), TenantID: r.Whose().TenantID, Message: message, Payload: payload}
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	switch r := any(r).(type) {
	case Vessel:
		e.VesselID = r.ID
	case Captain:
		e.CaptainID, e.MissionID = r.ID, text(r.MissionID)
	case Dock:
		e.VesselID, e.CaptainID, e.MissionID = r.VesselID, text(r.CaptainID), text(r.MissionID)
	case Mission:
		e.MissionID, e.VesselID, e.VoyageID, e.CaptainID = r.ID, r.VesselID, text(r.VoyageID), text(r.CaptainID)
	case Voyage:
		e.VoyageID, e.VesselID = r.ID, r.VesselID
	}
	return e
}

// Fault is why a mission could not be carried on, in a word of the contract and
// a sentence without credentials.
type Fault struct {
	Reason  FailureReason
	Message string
}

// Error gives both.
func (f *Fault) Error() string { return strings.TrimSpace(string(f.Reason) + ": " + f.Message) }
