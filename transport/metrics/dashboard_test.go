package metrics

// The dashboard for Grafana, from which docs/grafana/berth.json is written.

type query struct{ expr, legend string }

type panel struct {
	title   string
	unit    string
	kind    string // timeseries or stat
	width   int    // of 24
	queries []query
}

type row struct {
	title  string
	panels []panel
}

func quantiles(name string) []query {
	of := func(q, word string) query {
		return query{`histogram_quantile(` + q + `, sum by (backend, le) (rate(` + name + `_bucket{backend=~"$backend"}[$__rate_interval])))`, word + " {{backend}}"}
	}
	return []query{of("0.5", "p50"), of("0.99", "p99")}
}

const series, stat = "timeseries", "stat"

var rows = []row{
	{"Now", []panel{
		{"Version", "none", stat, 4, []query{{`berth_build_info`, "{{version}}"}}},
		{"Backends that are not up", "none", stat, 4, []query{{`count(sum by (instance, backend) (berth_backend_state{state=~"backoff|refused"}) > 0 or sum by (instance, backend) (berth_backend_failed_starts) > 0) or vector(0)`, ""}}},
		{"Sessions", "none", stat, 4, []query{{`sum(berth_sessions)`, ""}}},
		{"Calls a second", "reqps", stat, 4, []query{{`sum(rate(berth_calls_total[$__rate_interval]))`, ""}}},
		{"Unfinished jobs", "none", stat, 4, []query{{`sum(berth_jobs_unfinished)`, ""}}},
		{"Lost jobs, last day", "none", stat, 4, []query{{`sum(increase(berth_jobs_ended_total{status="Lost"}[1d])) or vector(0)`, ""}}},
	}},
	{"Calls", []panel{
		{"Calls by backend", "reqps", series, 12, []query{{`sum by (backend) (rate(berth_calls_total{backend=~"$backend"}[$__rate_interval]))`, "{{backend}}"}}},
		{"Calls by outcome", "reqps", series, 12, []query{{`sum by (outcome) (rate(berth_calls_total{backend=~"$backend"}[$__rate_interval]))`, "{{outcome}}"}}},
		{"Wait for a seat", "s", series, 12, quantiles("berth_queue_wait_seconds")},
		{"Run", "s", series, 12, quantiles("berth_run_seconds")},
		{"Refusals by code", "reqps", series, 12, []query{{`sum by (code) (rate(berth_refusals_total[$__rate_interval]))`, "{{code}}"}}},
		{"Bytes in flight", "bytes", series, 12, []query{{`sum(berth_bytes_in_flight)`, "arguments"}}},
	}},
	{"Backends", []panel{
		{"State", "none", series, 12, []query{{`sum by (backend, state) (berth_backend_state{backend=~"$backend"})`, "{{backend}} {{state}}"}}},
		{"Seats in use", "percentunit", series, 12, []query{{`berth_backend_in_flight{backend=~"$backend"} / berth_backend_seats{backend=~"$backend"}`, "{{backend}}"}}},
		{"Queue", "none", series, 12, []query{{`berth_backend_queued{backend=~"$backend"}`, "{{backend}} {{lane}}"}}},
		{"Longest wait now", "s", series, 12, []query{{`berth_backend_oldest_wait_seconds{backend=~"$backend"}`, "{{backend}}"}}},
		{"Shed and abandoned", "reqps", series, 12, []query{{`rate(berth_backend_shed_total{backend=~"$backend"}[$__rate_interval])`, "shed {{backend}}"}, {`rate(berth_backend_abandoned_total{backend=~"$backend"}[$__rate_interval])`, "abandoned {{backend}}"}}},
		{"Lives begun in 10 minutes", "none", series, 12, []query{{`increase(berth_backend_incarnations_total{backend=~"$backend"}[10m])`, "{{backend}}"}}},
	}},
	{"Missions", []panel{
		{"Missions", "none", series, 12, []query{{`sum by (status) (berth_missions)`, "{{status}}"}}},
		{"Captains", "none", series, 12, []query{{`sum by (state) (berth_captains)`, "{{state}}"}}},
	}},
	{"Jobs and journal", []panel{
		{"Unfinished jobs", "none", series, 12, []query{{`sum by (status) (berth_jobs_unfinished)`, "{{status}}"}}},
		{"Jobs accepted and ended", "reqps", series, 12, []query{{`rate(berth_jobs_accepted_total[$__rate_interval])`, "accepted"}, {`sum by (status, reason) (rate(berth_jobs_ended_total[$__rate_interval]))`, "{{status}} {{reason}}"}}},
		{"Commit", "s", series, 12, []query{{`histogram_quantile(0.5, sum by (le) (rate(berth_journal_commit_seconds_bucket[$__rate_interval])))`, "p50"}, {`histogram_quantile(0.99, sum by (le) (rate(berth_journal_commit_seconds_bucket[$__rate_interval])))`, "p99"}}},
		{"Writes and commits", "ops", series, 12, []query{{`rate(berth_journal_writes_total[$__rate_interval])`, "writes"}, {`rate(berth_journal_commits_total[$__rate_interval])`, "commits"}, {`berth_journal_waiting`, "waiting"}}},
		{"Journal size", "bytes", series, 12, []query{{`berth_journal_file_bytes`, "journal.db"}}},
		{"Spans", "ops", series, 12, []query{{`sum by (result) (rate(berth_trace_spans_total[$__rate_interval]))`, "{{result}}"}}},
	}},
	{"Process", []panel{
		{"Memory", "bytes", series, 8, []query{{`process_resident_memory_bytes{job=~"berth.*"}`, "resident"}, {`go_memstats_heap_alloc_bytes{job=~"berth.*"}`, "heap"}}},
		{"CPU", "percentunit", series, 8, []query{{`rate(process_cpu_seconds_total{job=~"berth.*"}[$__rate_interval])`, "cores"}}},
		{"Goroutines and files", "none", series, 8, []query{{`go_goroutines{job=~"berth.*"}`, "goroutines"}, {`process_open_fds{job=~"berth.*"}`, "files"}}},
	}},
}

func dashboard() map[string]any {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []map[string]any
	id, y := 0, 0
	for _, r := range rows {
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": map[string]int{"h": 1, "w": 24, "x": 0, "y": y}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			id++
			h := 8
			if p.kind == stat {
				h = 4
			}
			if x+p.width > 24 {
				x, y = 0, y+height
			}
			var targets []map[string]any
			for i, q := range p.queries {
				targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": source})
			}
			panels = append(panels, map[string]any{"id": id, "type": p.kind, "title": p.title, "datasource": source, "targets": targets,
				"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit}, "overrides": []any{}},
				"gridPos":     map[string]int{"h": h, "w": p.width, "x": x, "y": y}})
			x, height = x+p.width, h
		}
		y += height
	}
	return map[string]any{
		"uid": "berth", "title": "Berth", "tags": []string{"berth", "mcp"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "30s", "time": map[string]string{"from": "now-6h", "to": "now"}, "timezone": "browser", "panels": panels,
		"templating": map[string]any{"list": []map[string]any{
			{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
			{"name": "backend", "label": "Backend", "type": "query", "datasource": source, "query": "label_values(berth_backend_seats, backend)",
				"refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "current": map[string]any{"text": "All", "value": "$__all"}},
		}},
	}
}
