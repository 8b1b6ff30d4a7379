package dispatch

import (
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native/status"
)

// This file is what the family adds to the verbs enumerate, status and inbox.
// Only global administrators call them: they see every tenant's records.

// Entities are the types of records that enumerate lists: of a broker without
// missions, vessels alone.
func (f *Family) Entities() []status.Entity {
	vessels := entity[dispatch.Vessel](f, "vessels", func(status.Query, dispatch.Vessel) bool { return true }, func(q status.Query, v dispatch.Vessel) any { return vesselRow(v, q.IncludeContext) })
	if f.opts.Runner == nil {
		return []status.Entity{vessels}
	}
	return []status.Entity{vessels,
		entity(f, "captains", func(q status.Query, c dispatch.Captain) bool {
			return is(q.CaptainID, &c.ID) && is(q.MissionID, c.MissionID)
		}, func(_ status.Query, c dispatch.Captain) any { return c }),
		entity(f, "docks", func(q status.Query, d dispatch.Dock) bool {
			return is(q.VesselID, &d.VesselID) && is(q.MissionID, d.MissionID) && is(q.CaptainID, d.CaptainID)
		}, func(_ status.Query, d dispatch.Dock) any { return d }),
		entity(f, "voyages", func(q status.Query, v dispatch.Voyage) bool {
			return is(q.VoyageID, &v.ID) && is(q.VesselID, &v.VesselID) && is(q.JobID, v.SourceJobID)
		}, func(q status.Query, v dispatch.Voyage) any { return voyageRow(v, q.IncludeDescription) }),
		entity(f, "missions", func(q status.Query, m dispatch.Mission) bool {
			return is(q.MissionID, &m.ID) && is(q.VesselID, &m.VesselID) && is(q.VoyageID, m.VoyageID) && is(q.CaptainID, m.CaptainID)
		}, func(q status.Query, m dispatch.Mission) any { return missionRow(m, q.IncludeDescription) }),
	}
}

// is reports whether a record has what a filter asks for; an empty filter asks
// for nothing.
func is(filter string, has *string) bool {
	return filter == "" || has != nil && *has == filter
}

// words are the statuses of a kind; nil: it has none.
func words(kind string) (out []string) {
	switch kind {
	case dispatch.KindVoyage:
		return texts(dispatch.VoyageStatuses())
	case dispatch.KindMission:
		return texts(dispatch.MissionStatuses())
	case dispatch.KindCaptain:
		return texts(dispatch.CaptainStates())
	case dispatch.KindDock:
		return texts(dispatch.DockStates())
	}
	return nil
}

func texts[S ~string](of []S) []string {
	out := make([]string, 0, len(of))
	for _, s := range of {
		out = append(out, string(s))
	}
	return out
}

// listed is the narrowest list of the journal that holds what a query asks for;
// "" is every record of the kind. exact says that the list has nothing else.
func listed(kind, state string, q status.Query) (name string, exact bool) {
	filters := 0
	for _, narrow := range []struct {
		kinds []string // whose records the filter is for
		id    string
		name  func(string) string // nil: the journal has no such list
	}{
		{[]string{dispatch.KindVoyage}, q.JobID, dispatch.OfJob},
		{[]string{dispatch.KindDock}, q.MissionID, dispatch.OfMission},
		{[]string{dispatch.KindMission}, q.VoyageID, dispatch.OfVoyage},
		{[]string{dispatch.KindMission}, q.CaptainID, dispatch.OfCaptain},
		{[]string{dispatch.KindVoyage, dispatch.KindMission, dispatch.KindDock}, q.VesselID, dispatch.OfVessel},
		{[]string{dispatch.KindVoyage, dispatch.KindMission, dispatch.KindDock, dispatch.KindCaptain}, state, dispatch.InState},
		{[]string{dispatch.KindVoyage}, q.VoyageID, nil},
		{[]string{dispatch.KindMission, dispatch.KindCaptain}, q.MissionID, nil},
		{[]string{dispatch.KindCaptain, dispatch.KindDock}, q.CaptainID, nil},
	} {
		if narrow.id == "" || !slices.Contains(narrow.kinds, kind) {
			continue
		}
		filters++
		if name == "" && narrow.name != nil {
			name = narrow.name(narrow.id)
		}
	}
	lists := 0
	if name != "" {
		lists = 1
	}
	return name, filters == lists && q.CreatedAfter.IsZero() && q.CreatedBefore.IsZero()
}

// maxWalk is how far a page may be from the beginning of its list to be read
// without the whole list.
const maxWalk = 10_000

// unlimited is a limit that no list reaches.
const unlimited = 1 << 30

// pageOf gives a page of a list of the journal, and how many records that has,
// without reading more than stand before the page; false: it is too far down.
func pageOf[R dispatch.Stored](f *Family, of string, p broker.PageRequest) (page []R, total int, ok bool, err error) {
	var zero R
	q := broker.RecordQuery{Kind: zero.Kind(), Key: of, Newest: !p.OldestFirst, Limit: p.Offset() + p.Size}
	if q.Limit > maxWalk {
		return nil, 0, false, nil
	}
	raw, err := f.store.Records(q)
	if err != nil {
		return nil, 0, true, f.unreadable(err)
	}
	for _, r := range raw[min(p.Offset(), len(raw)):] {
		kept, err := dispatch.Decode[R](r)
		if err != nil {
			return nil, 0, true, f.unreadable(err)
		}
		page = append(page, kept.Value)
	}
	total, err = f.count(zero.Kind(), of)
	return page, max(total, len(raw)), true, err
}

// count is how many records a list has; "" is every record of the kind.
func (f *Family) count(kind, of string) (int, error) {
	n, err := f.store.CountRecords(broker.RecordQuery{Kind: kind, Key: of, Limit: unlimited})
	if err != nil {
		return 0, f.unreadable(err)
	}
	return n, nil
}

// entity lists the records of a kind.
func entity[R dispatch.Stored](f *Family, plural string, selects func(status.Query, R) bool, row func(status.Query, R) any) status.Entity {
	var zero R
	kind := zero.Kind()
	return status.Entity{Names: [2]string{plural, kind}, List: func(q status.Query) (any, error) {
		began := f.opts.Now()
		state := ""
		if known := words(kind); q.Status != "" && known != nil {
			at := slices.IndexFunc(known, func(s string) bool { return strings.EqualFold(s, q.Status) })
			if at < 0 {
				return nil, broker.Refuse(broker.CodeInvalidStatus, "There is no such status of "+plural+".", map[string]any{"Statuses": known})
			}
			state = known[at]
		}
		name, exact := listed(kind, state, q)
		if exact {
			page, total, ok, err := pageOf[R](f, name, q.Page)
			if err != nil {
				return nil, err
			}
			if ok {
				rows := make([]any, 0, len(page))
				for _, r := range page {
					rows = append(rows, row(q, r))
				}
				return broker.NewPage(q.Page, rows, total, f.opts.Now().Sub(began)), nil
			}
		}
		found, err := list[R](f, name)
		if err != nil {
			return nil, err
		}
		if !q.Page.OldestFirst {
			slices.Reverse(found) // ids sort by age
		}
		rows, total := []any{}, 0
		for _, kept := range found {
			r := kept.Value
			if made := created(r); state != "" && stateOf(r) != state || !selects(q, r) || !q.CreatedAfter.IsZero() && made.Before(q.CreatedAfter) ||
				!q.CreatedBefore.IsZero() && !made.Before(q.CreatedBefore) {
				continue
			}
			if total++; total > q.Page.Offset() && len(rows) < q.Page.Size {
				rows = append(rows, row(q, r))
			}
		}
		return broker.NewPage(q.Page, rows, total, f.opts.Now().Sub(began)), nil
	}}
}

func created(record any) time.Time {
	switch r := record.(type) {
	case dispatch.Vessel:
		return r.CreatedUTC
	case dispatch.Captain:
		return r.CreatedUTC
	case dispatch.Dock:
		return r.CreatedUTC
	case dispatch.Mission:
		return r.CreatedUTC
	case dispatch.Voyage:
		return r.CreatedUTC
	}
	return time.Time{}
}

func stateOf(record any) string {
	switch r := record.(type) {
	case dispatch.Captain:
		return string(r.State)
	case dispatch.Dock:
		return string(r.State)
	case dispatch.Mission:
		return string(r.Status)
	case dispatch.Voyage:
		return string(r.Status)
	}
	return ""
}

// voyageNumbers is a voyage that goes on, in the answer of status.
type voyageNumbers struct {
	Voyage     VoyageRow `json:"Voyage"`
	Total      int       `json:"TotalMissions"`
	Completed  int       `json:"CompletedMissions"`
	Failed     int       `json:"FailedMissions"`
	InProgress int       `json:"InProgressMissions"`
}

// maxVoyages is how many voyages stand in the answer of status, the newest; its
// number is of all.
const maxVoyages = 50

// Standing counts captains, voyages and missions.
func (f *Family) Standing() (status.Work, error) {
	w := status.Work{MissionsByStatus: map[string]int{}, Voyages: []any{}}
	for _, c := range []struct {
		to       *int
		kind, of string
	}{
		{&w.TotalCaptains, dispatch.KindCaptain, ""}, {&w.IdleCaptains, dispatch.KindCaptain, dispatch.InState(string(dispatch.CaptainIdle))},
		{&w.WorkingCaptains, dispatch.KindCaptain, dispatch.InState(string(dispatch.CaptainWorking))},
		{&w.StalledCaptains, dispatch.KindCaptain, dispatch.InState(string(dispatch.CaptainStalled))},
	} {
		n, err := f.count(c.kind, c.of)
		if err != nil {
			return w, err
		}
		*c.to = n
	}
	for _, s := range dispatch.MissionStatuses() {
		n, err := f.count(dispatch.KindMission, dispatch.InState(string(s)))
		if err != nil {
			return w, err
		}
		if n > 0 {
			w.MissionsByStatus[string(s)] = n
		}
	}
	open, err := list[dispatch.Voyage](f, dispatch.Open)
	if err != nil {
		return w, err
	}
	slices.Reverse(open)
	w.ActiveVoyages = len(open)
	for _, v := range dispatch.Values(open[:min(len(open), maxVoyages)]) {
		numbers, err := f.numbers(v)
		if err != nil {
			return w, err
		}
		w.Voyages = append(w.Voyages, numbers)
	}
	return w, nil
}

// numbers counts the missions of a voyage.
func (f *Family) numbers(v dispatch.Voyage) (voyageNumbers, error) {
	missions, err := list[dispatch.Mission](f, dispatch.OfVoyage(v.ID))
	n := voyageNumbers{Voyage: voyageRow(v, false), Total: len(missions)}
	for _, m := range missions {
		switch m.Value.Status {
		case dispatch.MissionComplete:
			n.Completed++
		case dispatch.MissionFailed, dispatch.MissionLandingFailed:
			n.Failed++
		case dispatch.MissionInProgress:
			n.InProgress++
		}
	}
	return n, err
}

// Waiting lists what waits for an operator: landings that failed and captains
// that stall for as long as they do, missions that failed and dispatches that
// came to nothing for a day.
func (f *Family) Waiting() ([]status.Waits, error) {
	var out []status.Waits
	landing, err := list[dispatch.Mission](f, dispatch.InState(string(dispatch.MissionLandingFailed)))
	if err != nil {
		return nil, err
	}
	failed, err := list[dispatch.Mission](f, dispatch.InState(string(dispatch.MissionFailed)))
	if err != nil {
		return nil, err
	}
	stalled, err := list[dispatch.Captain](f, dispatch.InState(string(dispatch.CaptainStalled)))
	if err != nil {
		return nil, err
	}
	since := f.opts.Now().Add(-status.LostFor)
	jobs, err := f.store.Jobs(broker.JobFilter{Status: broker.JobFailed, Operation: Operation, CompletedAfter: since})
	if err != nil {
		return nil, f.unreadable(err)
	}
	for _, m := range dispatch.Values(landing) {
		out = append(out, missionWaits("landing_failed", "Critical", "Landing failed: "+m.Title, m))
	}
	for _, m := range dispatch.Values(failed) {
		if m.CompletedUTC != nil && !m.CompletedUTC.Before(since) {
			out = append(out, missionWaits("failed", "Warning", "Mission failed: "+m.Title, m))
		}
	}
	for _, c := range dispatch.Values(stalled) {
		out = append(out, status.Waits{At: c.LastUpdateUTC, Item: status.Item{Kind: "stalled_captain", Severity: "Warning", Title: "Captain stalled: " + c.Name,
			Detail: "Its agent has printed nothing for a while.", EntityType: dispatch.KindCaptain, EntityID: c.ID, Href: "/api/v1/captains/" + c.ID}})
	}
	for _, j := range jobs.Jobs {
		if j.Reason == broker.CodeCancelled || j.CompletedAt == nil {
			continue
		}
		out = append(out, status.Waits{At: *j.CompletedAt, Item: status.Item{Kind: "voyage_dispatch_failed", Severity: "Warning", Title: "Dispatch failed: " + string(j.Reason),
			Detail: j.FailureMessage, EntityType: "job", EntityID: j.ID, Href: "/api/v1/jobs/" + j.ID}})
	}
	return out, nil
}

func missionWaits(kind, severity, title string, m dispatch.Mission) status.Waits {
	detail := ""
	if m.FailureReason != nil {
		detail = string(*m.FailureReason)
	}
	if m.FailureMessage != nil && *m.FailureMessage != "" {
		detail = strings.TrimPrefix(detail+": "+*m.FailureMessage, ": ")
	}
	return status.Waits{At: m.LastUpdateUTC, Item: status.Item{Kind: kind, Severity: severity, Title: title, Detail: detail, EntityType: dispatch.KindMission, EntityID: m.ID, Href: "/api/v1/missions/" + m.ID}}
}
