package metrics

// Metric is one metric as it is documented. Names stay: dashboards and alerts
// of others stand on them.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// Table is every metric of Berth's own, in the order of docs/metrics.md.
// Besides them there are those of the Go runtime (go_*) and of the process
// (process_*).
var Table = []Metric{
	{"berth_build_info", "gauge", []string{"version"}, "1, with the version that runs."},

	{"berth_calls_total", "counter", []string{"backend", "outcome"}, "Calls that ended, by outcome: ok, tool_error, rpc_error, job, cancelled or the refusal's code."},
	{"berth_refusals_total", "counter", []string{"code"}, "Refusals by code, of calls that were handed to a backend's queue and of those that were refused before; and of requests that were turned away before any handler saw them, such as unauthorized."},
	{"berth_queue_wait_seconds", "histogram", []string{"backend"}, "Time between the offer of a call and its start."},
	{"berth_run_seconds", "histogram", []string{"backend"}, "Time between the start of a call and its answer."},
	{"berth_bytes_in_flight", "gauge", nil, "Bytes of arguments of the calls that wait or run."},
	{"berth_sessions", "gauge", nil, "Sessions that have an actor."},

	{"berth_backend_state", "gauge", []string{"backend", "state"}, "1 for the state a backend is in."},
	{"berth_backend_seats", "gauge", []string{"backend"}, "Seats of a backend."},
	{"berth_backend_in_flight", "gauge", []string{"backend"}, "Seats that calls and jobs hold."},
	{"berth_backend_queued", "gauge", []string{"backend", "lane"}, "Calls and jobs that wait for a seat."},
	{"berth_backend_oldest_wait_seconds", "gauge", []string{"backend"}, "How long the longest waiting call has waited."},
	{"berth_backend_shed_total", "counter", []string{"backend"}, "Calls refused because a lane was full."},
	{"berth_backend_abandoned_total", "counter", []string{"backend"}, "Cancelled calls that were not answered within the grace."},
	{"berth_backend_failed_starts", "gauge", []string{"backend"}, "Starts that failed since the backend last came up. One that nobody needed since then is idle, and would be tried by the next call."},
	{"berth_backend_incarnations_total", "counter", []string{"backend"}, "Lives since the broker started; each after the first is a restart."},

	{"berth_jobs_unfinished", "gauge", []string{"status"}, "Jobs in the journal that are Accepted or Running. Absent when the journal cannot be read."},
	{"berth_jobs_accepted_total", "counter", nil, "Jobs written to the journal since the broker started."},
	{"berth_jobs_ended_total", "counter", []string{"status", "reason"}, "Jobs that ended since the broker started, those that its start found unfinished among them. The reason is a code, empty for success: job_lost_on_restart, reaped_as_stale, cancelled, ..."},

	{"berth_missions", "gauge", []string{"status"}, "Missions that have not ended, and those that could not be landed (LandingFailed). Absent when the journal cannot be read."},
	{"berth_captains", "gauge", []string{"state"}, "Captains by what they do. Absent when the journal cannot be read."},

	{"berth_journal_commit_seconds", "histogram", nil, "Time of one commit, sync to the disk included."},
	{"berth_journal_commits_total", "counter", nil, "Commits since the journal was opened."},
	{"berth_journal_writes_total", "counter", nil, "Writes in those commits."},
	{"berth_journal_waiting", "gauge", nil, "Writes that wait for a commit."},
	{"berth_journal_file_bytes", "gauge", nil, "Size of journal.db. It does not shrink; space is used again."},

	{"berth_trace_spans_total", "counter", []string{"result"}, "Spans by what became of them: exported, dropped (the queue was full) or failed (the collector did not take them). Absent when there is no collector."},
}

// entry gives a metric of the table.
func entry(name string) Metric {
	for _, m := range Table {
		if m.Name == name {
			return m
		}
	}
	panic("metrics: " + name + " is not in the table")
}
