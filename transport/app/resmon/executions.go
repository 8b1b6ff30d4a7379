package resmon

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"berth/broker/shape"
	"berth/transport/app"
)

// Bounds of a filtered list of runs, and of what a run's record repeats.
const (
	walkPages = 10
	walkPage  = 500
	walkTime  = 20 * time.Second
	maxEvents = 50 // progress events, the newest
)

var executionRow = app.Columns{{"id", "id"}, {"type", "execution_type"}, {"status", "status"}, {"started", "start_time"}, {"finished", "end_time"},
	{"result_count", "result_count"}, {"interrupted_reason", "interrupted_reason"}, {"restarted_from", "restarted_from"}}

// page is a page of runs before it is written down.
type page struct {
	rows  []app.Object
	total json.RawMessage // null unless the end was seen
	more  json.RawMessage // null when it is not known
}

func (p page) answer() app.Object {
	rows := each(p.rows, executionRow.Of)
	return app.Object{{Name: "executions", Value: app.Objects(rows)}, {Name: "count", Value: app.Int(len(rows))},
		{Name: "total", Value: app.OrNull(p.total)}, {Name: "has_more", Value: app.OrNull(p.more)}}
}

// listExecutions reads one page, or walks the runs from the newest when there
// is a filter, because the route has none.
func listExecutions(walk int) app.Run {
	return func(c *app.Call) (json.RawMessage, *app.Problem) {
		if c.Given("routine_id") || c.Given("status") {
			return walkExecutions(c, walk)
		}
		limit, offset := c.Int("limit"), c.Int("offset")
		rows, problem := executions(c, limit+1, offset)
		if problem != nil {
			return nil, problem
		}
		p := page{rows: rows[:min(limit, len(rows))], more: app.Bool(len(rows) > limit)}
		if len(rows) <= limit && (len(rows) > 0 || offset == 0) {
			p.total = app.Int(offset + len(rows))
		}
		return p.answer().JSON(), nil
	}
}

func executions(c *app.Call, limit, offset int) ([]app.Object, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeExecutions, Query: url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}})
	if problem != nil {
		return nil, problem
	}
	return c.Rows(reply)
}

func walkExecutions(c *app.Call, pages int) (json.RawMessage, *app.Problem) {
	limit, offset := c.Int("limit"), c.Int("offset")
	start, read, ended := c.Now(), 0, false
	seen := map[string]bool{} // runs that begin meanwhile push others onto the next page
	var found []app.Object
	for n := 0; n < pages && !ended && len(found) <= offset+limit && c.Now().Sub(start) < walkTime; n++ {
		rows, problem := executions(c, walkPage, n*walkPage)
		if problem != nil {
			return nil, problem
		}
		read += len(rows)
		ended = len(rows) < walkPage
		for _, row := range rows {
			id := string(row.Get("id"))
			if !seen[id] && matches(c, row) {
				found = append(found, row)
			}
			seen[id] = true
		}
	}
	from := min(offset, len(found))
	p := page{rows: found[from:min(from+limit, len(found))]}
	switch {
	case len(found) > offset+limit:
		p.more = app.Bool(true)
	case ended:
		p.more = app.Bool(false)
	}
	if ended {
		p.total = app.Int(len(found))
	}
	out := p.answer()
	if !ended && len(found) <= offset+limit {
		out = append(out, app.Field{Name: "truncated", Value: app.Bool(true)}, app.Field{Name: "searched", Value: app.Int(read)},
			app.Field{Name: "note", Value: app.Quote("The newest " + strconv.Itoa(read) + " runs were looked at; older ones were not.")})
	}
	return out.JSON(), nil
}

func matches(c *app.Call, row app.Object) bool {
	return (!c.Given("routine_id") || string(app.OrNull(row.Get("routine_id"))) == c.Text("routine_id")) &&
		(!c.Given("status") || row.Text("status") == c.Text("status"))
}

func getExecution(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeExecution, ID: c.Text("exec_id")})
	if problem != nil {
		return nil, problem
	}
	row, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	return executionWhole(row).JSON(), nil
}

// executionWhole is the record of a run, with its parameters readable, its
// newest progress events, and nothing that could be a credential in its error.
func executionWhole(row app.Object) app.Object {
	if text, ok := shape.Text(app.OrNull(row.Get("parameters"))); ok {
		if parameters, ok := app.ReadObject(json.RawMessage(text)); ok {
			row = row.Set("parameters", parameters.JSON())
		}
	}
	if text, ok := shape.Text(app.OrNull(row.Get("error_message"))); ok {
		row = row.Set("error_message", app.Quote(shape.Redact(text)))
	}
	return hidePlaces(newestEvents(row))
}

// newestEvents cuts a long list of progress events, which is an array or a
// string that holds one.
func newestEvents(row app.Object) app.Object {
	raw := row.Get("progress_events")
	text, quoted := shape.Text(app.OrNull(raw))
	list := raw
	if quoted {
		list = json.RawMessage(text)
	}
	events, ok := app.ReadArray(app.OrNull(list))
	if !ok || len(events) <= maxEvents {
		return row
	}
	kept := app.Array(events[len(events)-maxEvents:])
	if quoted {
		kept = app.Quote(string(kept))
	}
	return row.Set("progress_events", kept).Set("progress_events_truncated",
		app.Object{{Name: "kept", Value: app.Int(maxEvents)}, {Name: "total", Value: app.Int(len(events))}}.JSON())
}

func runSweep(c *app.Call) (json.RawMessage, *app.Problem) {
	body := app.Object{{Name: "query", Value: app.Quote(c.Text("query"))}, {Name: "repositories", Value: app.JSON(c.List("sources"))}, {Name: "max_results", Value: app.Int(c.Int("max_results"))}}
	body = append(body, given(c, "date_from", "date_to")...)
	body = append(body, flags(c, "ai_enabled")...)
	reply, problem := c.Send(app.Request{Route: routeSweep, Body: body.JSON()})
	if problem != nil {
		return nil, problem
	}
	started, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	id := started.Get("execution_id")
	if !isWhole(id) {
		return nil, c.Unreadable("id_missing")
	}
	return app.Object{{Name: "execution_id", Value: id},
		{Name: "detail", Value: app.Quote("The run was admitted and goes on in resmon. Poll get_execution with this id for its status.")}}.JSON(), nil
}

// flags are the boolean arguments of these names that came, as JSON booleans.
func flags(c *app.Call, names ...string) app.Object {
	var out app.Object
	for _, name := range names {
		if c.Given(name) {
			out = append(out, app.Field{Name: name, Value: app.Bool(c.Flag(name))})
		}
	}
	return out
}

// isWhole reports whether raw is a whole JSON number.
func isWhole(raw json.RawMessage) bool {
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil
}

// truthy reads a boolean that some routes write as 0 and 1.
func truthy(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == "1" }
