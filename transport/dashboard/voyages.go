package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"berth/broker/dispatch"
	"berth/transport/rest"
)

// How much of what there may be a lot of is shown of voyages.
const (
	voyagesAPage  = 25
	shownCaptains = 100
	shownMissions = 200 // of one voyage
	shownHistory  = 50
)

var voyageStatuses = []dispatch.VoyageStatus{dispatch.VoyageOpen, dispatch.VoyageInProgress, dispatch.VoyageComplete, dispatch.VoyageFailed, dispatch.VoyageCancelled}

type voyageRow struct {
	rest.Voyage
	Created, Completed *moment
	Counts             []missionCount
	Missions           int
}

// missionCount is how many missions of a voyage have a status.
type missionCount struct {
	Status dispatch.MissionStatus
	Count  int
}

// counted counts missions by status, in the order in which they come.
func counted(missions []rest.Mission) (out []missionCount) {
	for _, m := range missions {
		i := slices.IndexFunc(out, func(c missionCount) bool { return c.Status == m.Status })
		if i < 0 {
			i, out = len(out), append(out, missionCount{Status: m.Status})
		}
		out[i].Count++
	}
	return out
}

// listed is a page of records as the operator API gives it.
type listed[T any] struct {
	Objects                  []T
	TotalRecords, TotalPages int
}

func (d *Dashboard) voyageList(r *http.Request) (*page, error) {
	q := r.URL.Query()
	at, vessel := pageNumber(q), filterText(q, "vessel")
	status, err := filterStatus(q, voyageStatuses)
	if err != nil {
		return nil, err
	}
	query := url.Values{"pageNumber": {strconv.Itoa(at)}, "pageSize": {strconv.Itoa(voyagesAPage)}}
	if status != "" {
		query.Set("status", string(status))
	}
	if vessel != "" {
		query.Set("vesselId", vessel)
	}
	var found listed[rest.Voyage]
	if err := d.get(r, "/api/v1/voyages", query, &found); err != nil {
		return nil, err
	}
	rows := make([]voyageRow, 0, len(found.Objects))
	for _, v := range found.Objects {
		row := d.voyageRow(v)
		var whole rest.VoyageView
		if err := d.get(r, "/api/v1/voyages/"+url.PathEscape(v.ID), nil, &whole); err == nil { // else it was deleted meanwhile
			row.Counts, row.Missions = counted(whole.Missions), len(whole.Missions)
		}
		rows = append(rows, row)
	}
	captains, err := d.captains(r)
	if err != nil {
		return nil, err
	}
	return &page{Title: "Voyages", At: "/voyages", Parts: []part{
		{ID: "filter", Name: "voyagefilter", Data: map[string]any{"Statuses": voyageStatuses, "Status": status, "Vessel": vessel}},
		{ID: "voyages", Name: "voyages", Live: at == 1, Data: map[string]any{"Rows": rows, "Pager": pages(r, at, voyagesAPage, len(rows), at < found.TotalPages)}},
		{ID: "captains", Name: "captains", Live: true, Data: captains},
	}}, nil
}

func (d *Dashboard) voyageRow(v rest.Voyage) voyageRow {
	return voyageRow{Voyage: v, Created: d.at(v.CreatedUTC), Completed: d.at(v.CompletedUTC)}
}

type captainRow struct {
	rest.Captain
	Heard, Until *moment
}

func (d *Dashboard) captains(r *http.Request) (map[string]any, error) {
	var found listed[rest.Captain]
	if err := d.get(r, "/api/v1/captains", url.Values{"pageSize": {strconv.Itoa(shownCaptains)}}, &found); err != nil {
		return nil, err
	}
	rows := make([]captainRow, 0, len(found.Objects))
	for _, c := range found.Objects {
		rows = append(rows, captainRow{c, d.at(c.LastHeartbeat), d.at(c.BenchUntil)})
	}
	return map[string]any{"Rows": rows, "More": found.TotalRecords - len(rows), "Total": found.TotalRecords}, nil
}

func (d *Dashboard) voyage(r *http.Request) (*page, error) {
	id := r.PathValue("id")
	var v rest.VoyageView
	if err := d.get(r, "/api/v1/voyages/"+url.PathEscape(id), nil, &v); err != nil {
		return nil, err
	}
	history, err := d.told(r, url.Values{"voyageId": {id}})
	if err != nil {
		return nil, err
	}
	missions := v.Missions[:min(len(v.Missions), shownMissions)]
	more := len(v.Missions) - len(missions)
	row := d.voyageRow(v.Voyage)
	row.Counts, row.Missions = counted(v.Missions), len(v.Missions)
	parts := []part{
		{ID: "voyage", Name: "voyage", Live: true, Data: row},
		{ID: "graph", Name: "graph", Live: true, Data: map[string]any{"Graph": graphOf(missions), "More": more}},
		{ID: "missions", Name: "missions", Live: true, Data: map[string]any{"Rows": d.missionRows(missions), "More": more}},
		{ID: "cancel", Name: "cancelvoyage", Live: true, Data: map[string]any{"ID": id, "CSRF": d.Guard.CSRF(r), "Over": v.Voyage.Status.Over()}},
		{ID: "history", Name: "history", Live: true, Data: history},
	}
	return &page{Title: "Voyage " + id, At: "/voyages", Parts: parts}, nil
}

// told are the events of a record, as rows of a history.
func (d *Dashboard) told(r *http.Request, of url.Values) (map[string]any, error) {
	if !d.has["GET /api/v1/events"] {
		return map[string]any{}, nil
	}
	of.Set("pageSize", strconv.Itoa(shownHistory))
	found, err := d.eventsOf(r, of)
	if err != nil {
		return nil, err
	}
	rows := make([]historyRow, 0, len(found.Objects))
	for _, e := range slices.Backward(found.Objects) {
		rows = append(rows, historyRow{At: d.moment(e.created), Type: e.EventType, Message: e.Message, when: e.created})
	}
	return map[string]any{"Rows": rows, "More": found.TotalRecords - len(rows)}, nil
}

type missionRow struct {
	rest.Mission
	Waits   string // what it waits for, or why it ended
	After   string // what it goes on from, by alias
	Started *moment
	Ended   *moment
}

func (d *Dashboard) missionRows(missions []rest.Mission) []missionRow {
	rows := make([]missionRow, 0, len(missions))
	for _, m := range missions {
		row := missionRow{Mission: m, Waits: waits(m), After: pointed(m.DependsOn), Started: d.at(m.StartedUTC), Ended: d.at(m.CompletedUTC)}
		for _, before := range missions {
			if before.ID == row.After && before.Alias != nil {
				row.After = *before.Alias
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// waiting is what a pending mission waits for, in words.
var waiting = map[dispatch.Assignment]string{
	dispatch.WaitingForMission:   "waits for the mission before it",
	dispatch.WaitingForVessel:    "waits for the vessel",
	dispatch.WaitingForCaptain:   "waits for an idle captain",
	dispatch.WaitingForResources: "waits for room",
	dispatch.Provisioning:        "its dock is made ready",
}

func waits(m rest.Mission) string {
	switch {
	case m.FailureReason != nil:
		return *m.FailureReason
	case m.Status == dispatch.MissionPending, m.Status == dispatch.MissionAssigned:
		return waiting[m.Assignment]
	}
	return ""
}

func (d *Dashboard) cancelVoyage(r *http.Request) (string, error) {
	id := url.PathEscape(r.PathValue("id"))
	return "/voyages/" + id + "?done=voyage-cancelled", d.send(r, http.MethodDelete, "/api/v1/voyages/"+id, nil)
}

// refusal is what the operator API said no with; empty: it did not.
func refusal(err error) (said string, ok bool) {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused.refusal.Message, true
	}
	return "", false
}
