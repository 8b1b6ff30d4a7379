package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"berth/broker"
)

const (
	jobsAPage = 50
	// visited bounds how many records one filtered page looks at.
	visited   = 100_000
	maxFilter = 200 // bytes of a filter's text
)

type jobRow struct {
	broker.Job
	Submitted, Completed *moment
	Waited, Ran          string
	Long                 bool // it was not final and is past its limit
}

func (d *Dashboard) jobRow(j broker.Job) jobRow {
	row := jobRow{Job: j, Submitted: d.moment(j.SubmittedAt), Completed: d.atPtr(j.CompletedAt)}
	until := d.Now()
	if j.CompletedAt != nil {
		until = *j.CompletedAt
	}
	if j.StartedAt == nil {
		row.Waited = lasting(until.Sub(j.SubmittedAt))
	} else {
		row.Waited, row.Ran = lasting(j.StartedAt.Sub(j.SubmittedAt)), lasting(until.Sub(*j.StartedAt))
	}
	row.Long = !j.Status.Final() && d.Now().After(j.StaleAt())
	return row
}

// filterText reads a filter, cut.
func filterText(q url.Values, name string) string {
	text := strings.TrimSpace(q.Get(name))
	text = strings.ToValidUTF8(text[:min(len(text), maxFilter)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// filterStatus reads the filter by status: none, or one that there is.
func filterStatus[S ~string](q url.Values, known []S) (S, error) {
	word := S(filterText(q, "status"))
	if word != "" && !slices.Contains(known, word) {
		return "", &refusedError{http.StatusBadRequest, broker.Refuse(broker.CodeInvalidStatus, "There is no such status; choose one of the list.", nil)}
	}
	return word, nil
}

func pageNumber(q url.Values) int {
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		return 1
	}
	return min(max(n, 1), 10_000)
}

// pager leads to the pages before and after one.
type pager struct {
	Newer, Older string
	First, Last  int  // of the rows, counted from 1
	Capped       bool // more than the newest were not looked at
}

func pages(r *http.Request, at, size, rows int, more bool) pager {
	p := pager{First: (at-1)*size + 1, Last: (at-1)*size + rows}
	to := func(n int) string {
		q := r.URL.Query()
		q.Del("done")
		q.Set("page", strconv.Itoa(n))
		return r.URL.Path + "?" + q.Encode()
	}
	if at > 1 {
		p.Newer = to(at - 1)
	}
	if more {
		p.Older = to(at + 1)
	}
	return p
}

func (d *Dashboard) jobList(r *http.Request) (*page, error) {
	if err := d.gate(r, "/api/v1/jobs"); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	at := pageNumber(q)
	f := broker.JobFilter{Operation: filterText(q, "operation"), Text: filterText(q, "text"), Limit: jobsAPage, Offset: (at - 1) * jobsAPage, Brief: true, Visit: visited}
	var err error
	if f.Status, err = filterStatus(q, jobStatuses); err != nil {
		return nil, err
	}
	principal := filterText(q, "principal")
	if tenant, user, found := strings.Cut(principal, "/"); found {
		f.Tenant, f.User = tenant, user
	} else {
		f.User = principal
	}
	found, err := d.Jobs.Jobs(f)
	if err != nil {
		return nil, err
	}
	rows := make([]jobRow, 0, len(found.Jobs))
	for _, j := range found.Jobs {
		if j.Expired(d.Now()) { // past its retention and not pruned yet
			continue
		}
		rows = append(rows, d.jobRow(j))
	}
	turn := pages(r, at, jobsAPage, len(rows), found.Total > f.Offset+len(found.Jobs))
	turn.Capped = found.Capped
	return &page{Title: "Jobs", At: "/jobs", Parts: []part{
		{ID: "filter", Name: "jobfilter", Data: map[string]any{"Statuses": jobStatuses, "Status": f.Status, "Operation": f.Operation, "Principal": principal, "Text": f.Text}},
		{ID: "jobs", Name: "jobs", Live: at == 1 && f.Text == "", Data: map[string]any{"Rows": rows, "Pager": turn, "Unreadable": found.Unreadable, "Visited": visited}},
	}}, nil
}

func (d *Dashboard) job(r *http.Request) (*page, error) {
	id := r.PathValue("id")
	if err := d.gate(r, "/api/v1/jobs"); err != nil {
		return nil, err
	}
	j, err := d.Jobs.JobWithoutResult(id)
	if err != nil {
		return nil, err
	}
	if j.Expired(d.Now()) {
		return nil, broker.ErrJobNotFound
	}
	history, err := d.historyOf(r, id)
	if err != nil {
		return nil, err
	}
	var end *broker.Event
	for i := range history {
		if e := &history[i]; e.EventType == broker.EventJobFailed || e.EventType == broker.EventJobLost {
			end = &broker.Event{ID: e.ID, EventType: e.EventType, CreatedAt: e.created}
		}
	}
	told, next := j.Explain(end, d.Now(), true)
	if end == nil && len(told) > 0 { // without the list of events nothing is known of one
		told = without(told, "No event of its end is kept.")
	}
	parts := []part{
		{ID: "job", Name: "job", Live: true, Status: false, Data: map[string]any{"Job": d.jobRow(j), "Told": told, "Next": next, "Tracking": j.Tracking, "Seen": d.seen(j)}},
		{ID: "history", Name: "history", Live: true, Data: d.historyRows(j, history)},
	}
	if !j.Status.Final() {
		parts = append(parts, part{ID: "cancel", Name: "cancel", Data: map[string]any{"ID": id, "CSRF": d.Guard.CSRF(r)}})
	}
	return &page{Title: "Job " + id, At: "/jobs", Parts: parts}, nil
}

func without(list []string, one string) []string {
	var out []string
	for _, s := range list {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}

func (d *Dashboard) seen(j broker.Job) *moment {
	if j.Tracking == nil {
		return nil
	}
	return d.moment(j.Tracking.LastGood)
}

type historyRow struct {
	At            *moment
	Type, Message string
	when          time.Time
}

// historyRows joins what the record says of its own steps with its events.
func (d *Dashboard) historyRows(j broker.Job, events []event) map[string]any {
	rows := []historyRow{{At: d.moment(j.SubmittedAt), Type: "Accepted", Message: "by " + j.Tenant + "/" + j.User, when: j.SubmittedAt}}
	if j.StartedAt != nil {
		rows = append(rows, historyRow{At: d.moment(*j.StartedAt), Type: "Running", Message: "on " + j.Backend, when: *j.StartedAt})
	}
	if j.CompletedAt != nil {
		rows = append(rows, historyRow{At: d.moment(*j.CompletedAt), Type: string(j.Status), Message: string(j.Reason), when: *j.CompletedAt})
	}
	for _, e := range events {
		rows = append(rows, historyRow{At: d.moment(e.created), Type: e.EventType, Message: e.Message, when: e.created})
	}
	return map[string]any{"Rows": rows}
}

func (d *Dashboard) cancelJob(r *http.Request) (string, error) {
	id := r.PathValue("id")
	err := d.change(r, "/api/v1/jobs/"+url.PathEscape(id)+"/cancel", map[string]string{"Reason": r.PostForm.Get("reason")}, nil)
	if err != nil {
		return "", err
	}
	return "/jobs/" + url.PathEscape(id) + "?done=cancelled", nil
}
