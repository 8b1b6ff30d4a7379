package resmontest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
)

type execution struct {
	ID                     int64    `json:"id"`
	ExecutionType          string   `json:"execution_type"`
	RoutineID              *int64   `json:"routine_id"`
	SavedConfigurationID   *int64   `json:"saved_configuration_id"`
	Parameters             string   `json:"parameters"` // JSON in a string
	StartTime              string   `json:"start_time"`
	EndTime                *string  `json:"end_time"`
	Status                 string   `json:"status"`
	ResultCount            int      `json:"result_count"`
	NewResultCount         int      `json:"new_result_count"`
	LogPath                *string  `json:"log_path"`
	ResultPath             *string  `json:"result_path"`
	ErrorMessage           *string  `json:"error_message"`
	ProgressEvents         *string  `json:"progress_events"` // JSON in a string
	CurrentStage           *string  `json:"current_stage"`
	CancelReason           *string  `json:"cancel_reason"`
	DedupTotal             *int     `json:"dedup_total"`
	DedupNew               *int     `json:"dedup_new"`
	DedupDuplicates        *int     `json:"dedup_duplicates"`
	DedupInvalid           *int     `json:"dedup_invalid"`
	DedupCrossSource       *int     `json:"dedup_cross_source"`
	SavedConfigurationName *string  `json:"saved_configuration_name"`
	Query                  string   `json:"query"`
	Keywords               []string `json:"keywords"`
	Repositories           []string `json:"repositories"`
	TotalResults           int      `json:"total_results"`
	NewResults             int      `json:"new_results"`
	InterruptedReason      *string  `json:"interrupted_reason"`
	OwnerPID               *int     `json:"owner_pid"`
	OwnerRuntimeID         *string  `json:"owner_runtime_id"`
	LastSeenAtUTC          *string  `json:"last_seen_at_utc"`
	RestartedFrom          *int64   `json:"restarted_from"`
	AILane                 *string  `json:"ai_lane"`
	RequestID              *string  `json:"request_id,omitempty"`
	SourceOutcomes         object   `json:"source_outcomes"`

	inPart      bool  // a source answered in part
	oldRecord   bool  // from before queries_as_sent, and with a source that failed
	restartedTo int64 // the run that restarted it
	results     []int64
}

// detailed is an execution as it is answered alone.
type detailed struct {
	*execution
	RestartedInto []int64 `json:"restarted_into"`
	Coverage      object  `json:"coverage"`
	Identity      any     `json:"identity,omitempty"`
	Stamp         string  `json:"stamp,omitempty"`
}

// Executions of the data set with something of their own, counted from the
// oldest, which has number 1. ExecutionID gives their ids.
const (
	RunWithEvents      = 5  // 60 progress events, a log and a report
	RunWithStarts      = 6  // default_starts
	RunInPart          = 7  // a source answered in part
	RunInterrupted     = 8  // owner_dead; restarted as RunRestart
	RunRestart         = 9  //
	RunDaemonRestart   = 10 // interrupted by daemon_restart
	RunUnknownReason   = 11 // interrupted, unknown
	RunNoReason        = 12 // interrupted, null
	RunFailed          = 13
	RunCancelled       = 14
	RunUnknownStatus   = 15 // a word from the future
	RunRunning         = 16
	RunOldRecord       = 17 // no queries_as_sent
	RunWithPlannedRule = 18 // of the person watch
)

// ExecutionID is the id of the n-th execution of the data set.
func (f *Fake) ExecutionID(n int) int64 { return f.world.id(n) }

func (w *world) makeExecutions() {
	for n := 1; n <= w.amounts.executions; n++ {
		e := w.newExecution(n, "deep_sweep", topics[n%len(topics)], []string{"arxiv", "openalex"})
		e.StartTime, e.EndTime = moment((w.amounts.executions - n) / 4)[:10]+"T08:00:00Z", ptr(moment((w.amounts.executions - n) / 4)[:10]+"T08:00:41Z")
		e.Status, e.CurrentStage = "completed", ptr("finalizing")
		if n%4 != 0 {
			e.ExecutionType, e.RoutineID = "automated_sweep", ptr(w.id(n%4))
		}
		for i := range 3 + n%5 {
			e.results = append(e.results, w.documents[(n*3+i)%len(w.documents)].ID)
		}
		if n == 1 {
			e.results = nil
			for _, d := range w.documents[:len(w.documents)*3/4] {
				e.results = append(e.results, d.ID)
			}
		}
		e.found(len(e.results))
		w.executions = append(w.executions, e)
		w.special(n, e)
	}
}

func (e *execution) found(n int) {
	e.ResultCount, e.NewResultCount, e.TotalResults, e.NewResults = n, n/2, n, n/2
	e.DedupTotal, e.DedupNew, e.DedupDuplicates, e.DedupInvalid, e.DedupCrossSource = ptr(n), ptr(n/2), ptr(n-n/2), ptr(0), ptr(0)
}

// special makes the executions that tests look for.
func (w *world) special(n int, e *execution) {
	interrupted := func(reason *string) {
		e.Status, e.InterruptedReason, e.EndTime, e.LastSeenAtUTC = "interrupted", reason, nil, ptr(e.StartTime)
		e.CurrentStage = ptr("querying")
	}
	switch n {
	case RunWithEvents:
		e.ProgressEvents = ptr(progress(e, 60))
		e.LogPath, e.ResultPath = ptr("/path/to/reports/logs/log.txt"), ptr("/path/to/reports/markdowns/report.md")
	case RunWithStarts:
		e.Repositories = []string{"biorxiv", "arxiv"}
		e.Parameters = string(encode(object{"query": e.Query, "keywords": e.Keywords, "date_from": nil, "date_to": nil, "max_results": 100, "repositories": e.Repositories,
			"default_starts": object{"biorxiv": object{"date_from": day(3), "days": 3, "before": "run", "sentence": "bioRxiv was asked from 3 days before the run."}}}))
	case RunInPart:
		e.Repositories, e.inPart = []string{"biorxiv", "arxiv"}, true
	case RunInterrupted:
		interrupted(ptr("owner_dead"))
		e.restartedTo = w.id(RunRestart)
		e.OwnerPID, e.OwnerRuntimeID = ptr(4100), ptr("0b0e7f4a-6a4e-4c39-9c58-3c9f0a7c1d11")
	case RunRestart:
		e.RestartedFrom = ptr(w.id(RunInterrupted))
	case RunDaemonRestart:
		interrupted(ptr("daemon_restart"))
	case RunUnknownReason:
		interrupted(ptr("unknown"))
	case RunNoReason:
		interrupted(nil)
	case RunFailed:
		e.Status, e.ErrorMessage = "failed", ptr("Every source failed: HTTP 503 from arxiv, a timeout of openalex.")
	case RunCancelled:
		e.Status, e.CancelReason = "cancelled", ptr("user")
	case RunUnknownStatus:
		e.Status = "archived"
	case RunRunning:
		e.Status, e.EndTime, e.CurrentStage = "running", nil, ptr("querying")
	case RunOldRecord:
		e.oldRecord = true
		e.DedupTotal, e.DedupNew, e.DedupDuplicates, e.DedupInvalid, e.DedupCrossSource = nil, nil, nil, nil, nil
	case RunWithPlannedRule:
		e.RoutineID, e.ExecutionType = ptr(w.id(RoutineWatch)), "automated_sweep"
	}
	e.SourceOutcomes = outcomes(e)
}

func progress(e *execution, n int) string {
	events := []object{{"type": "execution_start", "execution_id": e.ID, "execution_type": e.ExecutionType, "repositories": e.Repositories, "total_repos": len(e.Repositories), "timestamp": e.StartTime}}
	for i := 1; i < n-1; i++ {
		events = append(events, object{"type": "query_progress", "repository": e.Repositories[0], "phase": "searching",
			"message": fmt.Sprintf("still querying %s (%ds elapsed)", e.Repositories[0], 2*i), "elapsed": real(2 * i), "timestamp": e.StartTime})
	}
	events = append(events, object{"type": "complete", "status": e.Status, "result_count": e.ResultCount, "new_count": e.NewResultCount, "elapsed": real(10.11), "timestamp": e.StartTime})
	return string(encode(events))
}

func outcomes(e *execution) object {
	inPart := 0
	if e.inPart {
		inPart = 1
	}
	return object{"selected": len(e.Repositories), "answered": len(e.Repositories), "failed": 0, "in_part": inPart}
}

func (w *world) newExecution(n int, kind, query string, sources []string) *execution {
	e := &execution{ID: w.id(n), ExecutionType: kind, Query: w.stamped(query), Keywords: []string{query}, Repositories: sources, StartTime: w.now(), Status: "running"}
	e.Parameters = string(encode(object{"query": e.Query, "keywords": nil, "date_from": nil, "date_to": nil, "max_results": 50, "repositories": sources}))
	e.SourceOutcomes = outcomes(e)
	return e
}

func (w *world) execution(id int64) *execution {
	i, found := slices.BinarySearchFunc(w.executions, id, func(e *execution, id int64) int { return cmp.Compare(e.ID, id) })
	if !found {
		return nil
	}
	return w.executions[i]
}

// found are the documents of a run.
func (w *world) found(e *execution) []*document {
	var out []*document
	for _, id := range e.results {
		if d := w.document(id); d != nil {
			out = append(out, d)
		}
	}
	return out
}

func listExecutions(w *world, r *request) answer {
	limit, bad := bound(r, "limit", 50, 1, 500)
	if bad != nil {
		return *bad
	}
	offset, bad := bound(r, "offset", 0, 0, math.MaxInt64)
	if bad != nil {
		return *bad
	}
	rows := []*execution{}
	for i := len(w.executions) - 1 - int(min(offset, int64(len(w.executions)))); i >= 0 && len(rows) < int(limit); i-- {
		rows = append(rows, w.executions[i])
	}
	return ok(rows)
}

func getExecution(w *world, r *request) answer {
	if a := expected(r); a != nil {
		return *a
	}
	e := w.execution(r.id)
	if e == nil {
		return plain(http.StatusNotFound, "Execution not found")
	}
	if n, live := w.live[e.ID]; live {
		w.live[e.ID] = n + 1
		if w.options.FinishAfter > 0 && n+1 >= w.options.FinishAfter {
			w.finish(e, "completed")
		}
	}
	into := []int64{}
	if e.restartedTo != 0 {
		into = append(into, e.restartedTo)
	}
	return ok(detailed{execution: e, RestartedInto: into, Coverage: w.coverage(e), Identity: r.identity, Stamp: r.stamp})
}

// coverage says of each source of a run whether and how it answered.
func (w *world) coverage(e *execution) object {
	rows, inPart, empty := []object{}, 0, 0
	for i, slug := range e.Repositories {
		row := object{"source": slug, "name": w.source(slug)["name"], "category": "answered", "in_part": false, "returned": e.ResultCount / len(e.Repositories),
			"zero_reason": nil, "zero_detail": nil}
		switch {
		case e.inPart && i == 0:
			inPart++
			row["in_part"], row["zero_reason"] = true, "answered_in_part"
			row["zero_detail"] = object{"read": object{"order": "newest_first", "from": day(2), "to": day(0), "records": 400, "of": 1900},
				"sentence": "It read the newest 400 of the 1900 records of the window; the older ones were not read."}
		case e.ResultCount == 0:
			empty++
			row["zero_reason"] = "genuine_empty"
		}
		rows = append(rows, row)
	}
	summary := fmt.Sprintf("%d answered", len(rows))
	if inPart > 0 {
		summary = fmt.Sprintf("%d answered (%d in part)", len(rows), inPart)
	}
	return object{"summary": summary, "sources": rows,
		"counts": object{"selected": len(rows), "answered": len(rows), "genuine_empty": empty, "partial": 0, "in_part": inPart, "failed": 0, "not_asked": 0}}
}

var sweepModel = []field{{name: "query", kind: text, required: true}, {name: "repositories", kind: texts, required: true}, {name: "keywords", kind: texts, nullable: true},
	{name: "date_from", kind: text, nullable: true}, {name: "date_to", kind: text, nullable: true}, {name: "max_results", kind: whole}, {name: "ai_enabled", kind: flag}}

func sweep(w *world, r *request) answer {
	body, bad := read(r.body, sweepModel)
	if bad != nil {
		return *bad
	}
	if len(w.live) >= w.options.MaxRuns {
		return plain(http.StatusTooManyRequests, "resmon is already running the maximum of %d concurrent executions. Wait for one to finish or raise the limit in Settings → Advanced.",
			w.options.MaxRuns).with("Retry-After", "5")
	}
	e := w.begin("deep_sweep", str(body, "query"), list(body, "repositories"), nil)
	e.Parameters = string(r.body)
	r.applied = true
	return r.whole(object{"execution_id": e.ID})
}

// begin starts a run.
func (w *world) begin(kind, query string, sources []string, routine *int64) *execution {
	n := int(w.executions[len(w.executions)-1].ID-w.options.FirstID) + 1
	e := w.newExecution(n, kind, query, sources)
	e.Query, e.Keywords, e.RoutineID = query, []string{query}, routine
	e.CurrentStage, e.LastSeenAtUTC = ptr("querying"), ptr(w.now())
	e.OwnerPID, e.OwnerRuntimeID = ptr(4242), ptr(w.runtimeID)
	w.executions = append(w.executions, e)
	w.live[e.ID] = 0
	return e
}

// finish ends a run and lets the next of the queue start.
func (w *world) finish(e *execution, status string) {
	delete(w.live, e.ID)
	e.Status, e.EndTime = status, ptr(w.now())
	switch status {
	case "completed":
		e.CurrentStage = ptr("finalizing")
		for _, d := range w.documents[:min(2, len(w.documents))] {
			e.results = append(e.results, d.ID)
		}
		e.found(len(e.results))
	case "failed":
		e.ErrorMessage = ptr("The source answered HTTP 503.")
	case "cancelled":
		e.CancelReason = ptr("user")
	case "interrupted":
		e.InterruptedReason = ptr("owner_dead")
	}
	if len(w.queue) > 0 && len(w.live) < w.options.MaxRuns {
		next := w.queue[0]
		w.queue = w.queue[1:]
		if routine := w.routine(next.routine); routine != nil {
			started := w.begin("automated_sweep", routine.query, routine.sources, &routine.ID)
			if next.requestID != "" {
				started.RequestID = &next.requestID
			}
		}
	}
}

// Finish ends a run with a status: completed, failed, cancelled, interrupted or
// a word that nobody knows. The first run of the queue starts in its place.
func (f *Fake) Finish(id int64, status string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.world.execution(id)
	if e == nil {
		return fmt.Errorf("resmontest: no execution %d", id)
	}
	f.world.finish(e, status)
	return nil
}

// SetStatus changes the word alone, and leaves the run without an end.
func (f *Fake) SetStatus(id int64, status string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.world.execution(id)
	if e == nil {
		return fmt.Errorf("resmontest: no execution %d", id)
	}
	e.Status = status
	return nil
}

// Running lists the runs that this life started and that have not ended.
func (f *Fake) Running() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []int64
	for id := range f.world.live {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Executions is how many there are: a write that took effect adds one.
func (f *Fake) Executions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.world.executions)
}

func runConflict(executionID string) answer {
	said := "This routine is already running."
	if executionID != "" {
		said = "This routine is already running, as execution " + executionID + "."
	}
	return plain(http.StatusConflict, "%s", said).with("X-Resmon-Conflict", "routine_already_running").with("X-Resmon-Execution-Id", executionID)
}

func queueFull(limit int) answer {
	return plain(http.StatusConflict, "resmon is at its run limit and its queue of %d runs is full.", limit)
}

func queuedAnswer(r *request, position int, requestID string) answer {
	body := object{"execution_id": nil, "routine_id": r.id, "queued": true, "queue_position": position,
		"detail": "resmon is at its run limit. The run is number " + strconv.Itoa(position) + " of the queue and starts by itself when a slot is free."}
	if requestID != "" {
		body["request_id"] = requestID
	}
	return r.wholeAs(http.StatusAccepted, body)
}
