package dashboard

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/rest"
)

// How much of what there may be a lot of is shown on the overview.
const (
	shownBackends = 200
	shownSessions = 30
)

// plots are an hour of one backend, or of all.
type plots struct {
	InFlight, Queued, Wait template.HTML
}

func plotsOf(h History, ok bool) plots {
	if !ok {
		h = History{}
	}
	return plots{plot("In flight", h.InFlight, whole), plot("Queued", h.Queued, whole), plot("Longest wait", h.Wait, seconds)}
}

type backendRow struct {
	rest.Backend
	Since, Backoff *moment
	Queued         int
	Oldest         string
	Plots          plots
}

type sessionRow struct {
	rest.Session
	Started, LastSeen *moment
}

type statusCount struct {
	Status broker.JobStatus
	Count  *int
}

var jobStatuses = []broker.JobStatus{broker.JobAccepted, broker.JobRunning, broker.JobSucceeded, broker.JobFailed, broker.JobLost}

// overview is the page at the root.
func (d *Dashboard) overview(r *http.Request) (*page, error) {
	var status rest.Status
	var backends rest.Page[rest.Backend]
	var sessions rest.Page[rest.Session]
	for path, into := range map[string]any{"/api/v1/status": &status, "/api/v1/backends": &backends, "/api/v1/sessions": &sessions} {
		if err := d.get(r, path, nil, into); err != nil {
			return nil, err
		}
	}
	var held *holdState
	if d.has["GET /api/v1/hold"] {
		held = &holdState{}
		if err := d.get(r, "/api/v1/hold", nil, held); err != nil {
			return nil, err
		}
	}
	return &page{Title: "Overview", At: "/", Parts: []part{
		{ID: "health", Name: "health", Live: true, Status: true, Data: health(backends.Objects, held)},
		{ID: "summary", Name: "summary", Live: true, Data: map[string]any{
			"Status": status, "Started": d.at(&status.StartedUTC), "Plots": plotsOf(d.Sampler.All(), true), "Ready": ready(backends.Objects), "Backends": len(backends.Objects)}},
		{ID: "backends", Name: "backends", Live: true, Data: d.backendRows(backends.Objects)},
		{ID: "jobs", Name: "jobcounts", Live: true, Data: d.jobCounts(status)},
		{ID: "sessions", Name: "sessions", Live: true, Data: d.sessionRows(sessions.Objects)},
	}}, nil
}

func ready(backends []rest.Backend) (n int) {
	for _, b := range backends {
		if b.State.Availability() == "ready" && b.FailedStarts == 0 && b.Draining == nil {
			n++
		}
	}
	return n
}

// health is one sentence on how the broker is, and whether it is good; what an
// operator keeps from work, all or a backend, is told beside it.
func health(backends []rest.Backend, held *holdState) map[string]any {
	var bad, drained []string
	for _, b := range backends {
		if b.Draining != nil {
			drained = append(drained, plain(b.Name))
		}
		switch {
		case b.State == actors.StateBackoff || b.State == actors.StateRefused || b.State == actors.StateStopped:
			bad = append(bad, plain(b.Name)+" ("+string(b.State)+")")
		case b.FailedStarts > 0: // nobody needs it now, but it did not come up when somebody did
			bad = append(bad, plain(b.Name)+" (could not be started)")
		}
	}
	said, good := "Every backend answers or comes up with the first call.", true
	switch {
	case len(bad) > 5:
		said, good = fmt.Sprintf("%d backends do not answer: %s, …", len(bad), strings.Join(bad[:5], ", ")), false
	case len(bad) > 0:
		said, good = "Does not answer: "+strings.Join(bad, ", ")+".", false
	case len(drained) > 0:
		said = "Every other backend answers or comes up with the first call."
	}
	out := ""
	if len(drained) > 0 {
		out = strings.Join(drained[:min(len(drained), 5)], ", ")
		if len(drained) > 5 {
			out += ", …"
		}
	}
	return map[string]any{"Drained": out, "Said": said, "Good": good, "Held": held != nil && held.Active, "Hold": held}
}

func (d *Dashboard) backendRows(backends []rest.Backend) map[string]any {
	rows := make([]backendRow, 0, min(len(backends), shownBackends))
	for _, b := range backends[:min(len(backends), shownBackends)] {
		row := backendRow{Backend: b, Since: d.at(b.SinceUTC), Backoff: d.at(b.BackoffUntilUTC), Queued: b.QueuedCalls + b.QueuedJobs,
			Plots: plotsOf(d.Sampler.History(b.Name))}
		if row.Queued > 0 {
			row.Oldest = lasting(time.Duration(b.OldestWaitMS) * time.Millisecond)
		}
		rows = append(rows, row)
	}
	return map[string]any{"Rows": rows, "More": len(backends) - len(rows)}
}

func (d *Dashboard) jobCounts(status rest.Status) map[string]any {
	counts := d.Sampler.Counts()
	var rows []statusCount
	for _, s := range jobStatuses {
		row := statusCount{Status: s}
		if !s.Final() { // these are few, and an index has them
			if found, err := d.Jobs.Jobs(broker.JobFilter{Status: s, Limit: 1}); err == nil {
				row.Count = &found.Total
			}
		} else if n, ok := counts.Jobs[s]; ok {
			row.Count = &n
		}
		rows = append(rows, row)
	}
	return map[string]any{"Rows": rows, "At": d.moment(counts.At), "Unfinished": status.Counts.UnfinishedJobs}
}

func (d *Dashboard) sessionRows(sessions []rest.Session) map[string]any {
	slices.SortFunc(sessions, func(a, b rest.Session) int {
		if c := strings.Compare(pointed(b.LastSeenUTC), pointed(a.LastSeenUTC)); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	rows := make([]sessionRow, 0, shownSessions)
	for _, s := range sessions[:min(len(sessions), shownSessions)] {
		rows = append(rows, sessionRow{s, d.at(s.StartedUTC), d.at(s.LastSeenUTC)})
	}
	return map[string]any{"Rows": rows, "More": len(sessions) - len(rows), "Total": len(sessions)}
}
