package resmon

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"berth/broker/shape"
	"berth/transport/app"
)

func listRoutines(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeRoutines})
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.Rows(reply)
	if problem != nil {
		return nil, problem
	}
	kept := make([]app.Object, 0, len(rows))
	for _, row := range rows {
		if truthy(row.Get("is_active")) || !c.Flag("active_only") {
			kept = append(kept, routineRow(row))
		}
	}
	return app.Object{{Name: "routines", Value: app.Objects(kept)}, {Name: "count", Value: app.Int(len(kept))}}.JSON(), nil
}

func routineRow(row app.Object) app.Object {
	parameters := embedded(row.Get("parameters"))
	keywords := parameters.Get("keywords")
	if list, ok := app.ReadArray(app.OrNull(keywords)); !ok || len(list) == 0 {
		keywords = nil
		if query := parameters.Text("query"); query != "" {
			keywords = app.JSON([]string{query})
		}
	}
	out := app.Columns{{"id", "id"}, {"name", "name"}, {"schedule", "schedule_cron"}}.Of(row)
	return append(out,
		app.Field{Name: "sources", Value: app.OrNull(parameters.Get("repositories"))},
		app.Field{Name: "keywords", Value: app.OrNull(keywords)},
		app.Field{Name: "last_run", Value: app.OrNull(row.Get("last_executed_at"))},
		app.Field{Name: "active", Value: app.Bool(truthy(row.Get("is_active")))},
		app.Field{Name: "missed_fires", Value: app.OrNull(row.Get("missed_fires"))})
}

// embedded reads an object, or a string that holds one.
func embedded(raw json.RawMessage) app.Object {
	if s, ok := shape.Text(app.OrNull(raw)); ok {
		raw = json.RawMessage(s)
	}
	o, _ := app.ReadObject(app.OrNull(raw))
	return o
}

// audit is what is answered of a routine's coverage: totals, not the two lists,
// which stop at 25.
var audit = app.Columns{{"summary", "summary"}, {"intent", "intent"}, {"intent_source", "intent_source"}, {"results", "results"}, {"results_embedded", "results_embedded"},
	{"off_target_count", "off_target_total"}, {"missed_in_corpus_count", "missed_in_corpus_total"},
	{"missed_in_corpus_count_is_lower_bound", "missed_in_corpus_total_is_lower_bound"}, {"reason", "reason"}, {"cannot_see", "cannot_see"}}

// getRoutine answers the record whole. Only its own request can fail the call:
// what the other two do not give is left off, and never zero.
func getRoutine(c *app.Call) (json.RawMessage, *app.Problem) {
	id := c.Text("routine_id")
	reply, problem := c.Send(app.Request{Route: routeRoutine, ID: id})
	if problem != nil {
		return nil, problem
	}
	record, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	record = routineWhole(record)
	if reply, problem := c.Send(app.Request{Route: routeCoverage, ID: id}); problem == nil {
		if body, ok := app.ReadObject(reply.Body); ok {
			record = record.Set("coverage", audit.Of(body).JSON())
		}
	}
	if reply, problem := c.Send(app.Request{Route: routeDeliveries, ID: id, Query: url.Values{"limit": {"1"}}}); problem == nil {
		if summary, ok := delivery(reply.Body); ok {
			record = record.Set("delivery", summary.JSON())
		}
	}
	return record.JSON(), nil
}

// routineWhole is a routine's record without destinations. Deliveries have
// their own route and form.
func routineWhole(record app.Object) app.Object {
	return hidePlaces(record.Without("delivery").Without("deliveries"))
}

// delivery sums up where a routine's reports go, by named key, so that what the
// route grows later stays out.
func delivery(body json.RawMessage) (app.Object, bool) {
	answer, _ := app.ReadObject(body)
	summary, ok := app.ReadObject(app.OrNull(answer.Get("summary")))
	if !ok {
		return nil, false
	}
	channels, _ := app.ReadObject(app.OrNull(summary.Get("targets")))
	total := 0
	var counts app.Object
	for _, f := range channels {
		if n, err := strconv.Atoi(string(f.Value)); err == nil {
			counts = append(counts, f)
			total += n
		}
	}
	var snapshots []string
	rows, _ := app.ReadRows(app.OrNull(answer.Get("deliveries")))
	for _, row := range rows {
		snapshots = append(snapshots, stringsIn(row.Get("target_snapshot"), maxDepth)...)
	}
	last, _ := app.ReadObject(app.OrNull(summary.Get("last")))
	lastError := app.OrNull(last.Get("last_error"))
	if s, ok := shape.Text(lastError); ok {
		lastError = app.Quote(shape.Redact(hideText(s, snapshots...)))
	}
	return app.Object{
		{Name: "targets_by_channel", Value: counts.JSON()},
		{Name: "enabled_target_count", Value: app.Int(total)},
		{Name: "awaiting_review", Value: app.OrNull(summary.Get("awaiting_review"))},
		{Name: "last_state", Value: app.OrNull(last.Get("state"))},
		{Name: "last_channel", Value: app.OrNull(last.Get("channel"))},
		{Name: "last_attempts", Value: app.OrNull(last.Get("attempts"))},
		{Name: "last_error", Value: lastError},
		{Name: "last_delivered_at_utc", Value: app.OrNull(last.Get("delivered_at_utc"))},
	}, true
}

// stringsIn lists the strings in a value: a snapshot is one, or an object of
// them.
func stringsIn(raw json.RawMessage, depth int) []string {
	if depth == 0 {
		return nil
	}
	if s, ok := shape.Text(app.OrNull(raw)); ok {
		if !holdsJSON(s) {
			return []string{s}
		}
		raw = json.RawMessage(s)
	}
	var out []string
	o, _ := app.ReadObject(app.OrNull(raw))
	for _, f := range o {
		out = append(out, stringsIn(f.Value, depth-1)...)
	}
	rows, _ := app.ReadArray(app.OrNull(raw))
	for _, r := range rows {
		out = append(out, stringsIn(r, depth-1)...)
	}
	return out
}

func createRoutine(c *app.Call) (json.RawMessage, *app.Problem) {
	keywords := c.List("keywords")
	parameters := app.Object{{Name: "query", Value: app.Quote(strings.Join(keywords, " "))}, {Name: "keywords", Value: app.JSON(keywords)}, {Name: "repositories", Value: app.JSON(c.List("sources"))}}
	parameters = append(parameters, given(c, "entity")...)
	// The route's own default is active: it is always said.
	body := app.Object{{Name: "name", Value: app.Quote(c.Text("name"))}, {Name: "schedule_cron", Value: app.Quote(c.Text("schedule"))},
		{Name: "parameters", Value: parameters.JSON()}, {Name: "is_active", Value: app.Bool(false)}}
	body = append(body, flags(c, "ai_enabled", "email_enabled", "email_ai_summary_enabled", "notify_on_complete")...)
	if strings.TrimSpace(c.Text("intent")) != "" {
		body = append(body, given(c, "intent")...)
	}
	reply, problem := c.Send(app.Request{Route: routeCreateRoutine, Body: body.JSON()})
	if problem != nil {
		return nil, problem
	}
	created, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	id := created.Get("id")
	if !isWhole(id) {
		return nil, c.Unreadable("id_missing")
	}
	c.Settled()
	warning := created.Text("entity_warning")
	record, readBack := created, false
	if reply, problem := c.Send(app.Request{Route: routeRoutine, ID: string(id)}); problem == nil {
		if body, ok := app.ReadObject(reply.Body); ok {
			record, readBack = routineWhole(body), true
		}
	}
	detail := "The routine was created; its record could not be read back, so that it is inactive was not seen. "
	switch {
	case readBack && truthy(record.Get("is_active")):
		detail = "The routine was created, and its record says that it is active although it was asked to be inactive. "
	case readBack:
		detail = "The routine was created inactive; activate_routine starts its schedule. "
	}
	out := app.Object{{Name: "routine", Value: record.JSON()}, {Name: "detail", Value: app.Quote(strings.TrimSpace(detail + warning))}}
	if warning != "" {
		out = append(out, app.Field{Name: "entity_warning", Value: app.Quote(warning)})
	}
	if !readBack {
		out = append(out, app.Field{Name: "read_back", Value: app.Bool(false)})
	}
	return out.JSON(), nil
}

// alreadyRunning is the one conflict of a run that says which run is in the way.
const alreadyRunning = "routine_already_running"

func runRoutine(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeRunRoutine, ID: c.Text("routine_id")})
	if problem != nil {
		if r := problem.Reply(); r != nil && r.Status == http.StatusConflict {
			return nil, runConflict(problem, r)
		}
		return nil, problem
	}
	started, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	// queued comes first: a queued run has no id.
	if !truthy(started.Get("queued")) && !isWhole(started.Get("execution_id")) {
		return nil, c.Unreadable("id_missing")
	}
	return reply.Body, nil
}

// runConflict adds what the headers of a 409 say for a program, or an object in
// its body.
func runConflict(p *app.Problem, r *app.Reply) *app.Problem {
	conflict, id := r.Header.Get("X-Resmon-Conflict"), r.Header.Get("X-Resmon-Execution-Id")
	if conflict == "" {
		body, _ := app.ReadObject(r.Body)
		detail, _ := app.ReadObject(app.OrNull(body.Get("detail")))
		conflict, id = detail.Text("conflict"), string(detail.Get("execution_id"))
	}
	if conflict != alreadyRunning {
		return p
	}
	p = p.With("conflict", alreadyRunning)
	if n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 64); err == nil {
		return p.With("execution_id", n)
	}
	return p.With("execution_id", nil)
}
