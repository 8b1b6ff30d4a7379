package resmontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type routine struct {
	ID                    int64   `json:"id"`
	Name                  string  `json:"name"`
	ScheduleCron          string  `json:"schedule_cron"`
	Parameters            string  `json:"parameters"` // JSON in a string
	IsActive              bool    `json:"is_active"`
	EmailEnabled          bool    `json:"email_enabled"`
	EmailAISummaryEnabled bool    `json:"email_ai_summary_enabled"`
	AIEnabled             bool    `json:"ai_enabled"`
	NotifyOnComplete      bool    `json:"notify_on_complete"`
	AISettings            any     `json:"ai_settings"`
	StorageSettings       any     `json:"storage_settings"`
	ExecutionLocation     string  `json:"execution_location"`
	CreatedAt             string  `json:"created_at"`
	UpdatedAt             string  `json:"updated_at"`
	LastExecutedAt        *string `json:"last_executed_at"`
	Intent                *string `json:"intent"`
	MissedFires           object  `json:"missed_fires"`

	query             string
	keywords, sources []string
	missed            []object
	audit             object
	deliveries        []object
	targets           object
	awaiting          int
}

// listed is a routine as a row of the list: booleans are numbers there.
type listed struct {
	*routine
	IsActive              int     `json:"is_active"`
	EmailEnabled          int     `json:"email_enabled"`
	EmailAISummaryEnabled int     `json:"email_ai_summary_enabled"`
	AIEnabled             int     `json:"ai_enabled"`
	NotifyOnComplete      int     `json:"notify_on_complete"`
	LastExecution         *string `json:"last_execution"`
	LastStatus            *string `json:"last_status"`
}

type detailedRoutine struct {
	*routine
	MissedFireDetails []object `json:"missed_fire_details"`
	Stamp             string   `json:"stamp,omitempty"`
}

// Routines of the data set, by number; RoutineID gives their ids.
const (
	RoutineActive   = 1 // deliveries on all four channels, missed fires, 312 results off target
	RoutineInactive = 2 // deliveries are there, none was made yet
	RoutineIntent   = 3 // with an intent and a lower bound
	RoutineWatch    = 4 // follows a person; no deliveries at all
)

// RoutineID is the id of the n-th routine of the data set.
func (f *Fake) RoutineID(n int) int64 { return f.world.id(n) }

func (w *world) makeRoutines() {
	for n := 1; n <= w.amounts.routines; n++ {
		topic := topics[(n-1)%len(topics)]
		sources := []string{"arxiv", "openalex"}
		if w.amounts.long {
			sources = []string{"arxiv", "openalex", "crossref", "pubmed", "europepmc", "semantic_scholar"}
		}
		r := &routine{ID: w.id(n), Name: w.stamped(fmt.Sprintf("Watch on %s %d", topic, n)), ScheduleCron: "0 8 * * *", IsActive: n != RoutineInactive,
			ExecutionLocation: "local", CreatedAt: moment(90), UpdatedAt: moment(9), query: topic, keywords: strings.Fields(topic), sources: sources}
		r.Parameters = string(encode(object{"query": r.query, "keywords": r.keywords, "repositories": r.sources}))
		r.MissedFires = object{"count": 0, "last_due_at_utc": nil}
		r.audit = audit(r, 4, 2, false)
		r.targets = object{}
		w.routines = append(w.routines, r)
		w.specialRoutine(n, r)
	}
}

func (w *world) specialRoutine(n int, r *routine) {
	switch n {
	case RoutineActive:
		due := day(4) + "T08:00:00+00:00"
		r.LastExecutedAt = ptr(day(1) + "T08:00:00+00:00")
		r.missed = []object{{"id": 1, "routine_id": r.ID, "due_at_utc": day(5) + "T08:00:00+00:00", "state": "skipped"}, {"id": 2, "routine_id": r.ID, "due_at_utc": due, "state": "skipped"}}
		r.MissedFires = object{"count": 2, "last_due_at_utc": due}
		r.EmailEnabled, r.AIEnabled = true, true
		r.AISettings = string(encode(object{"provider": "custom", "model": "large", "custom_base_url": "https://" + Planted + ".example/v1", "local_endpoint": "http://10.0.0.7/" + Planted, "temperature": "0.2"}))
		r.StorageSettings = string(encode(object{"pdf_policy": "save", "export_directory": "/home/user/" + Planted + "/exports"}))
		r.audit = audit(r, 312, 40, false)
		r.targets, r.awaiting = object{"email": 2, "folder": 1, "webhook": 1, "feed": 1}, 1
		r.deliveries = w.deliveriesOf(r)
	case RoutineInactive:
		r.targets = object{"email": 1}
	case RoutineIntent:
		r.Intent = ptr("Find what makes " + r.query + " cheaper.")
		r.audit = audit(r, 0, 63, true)
	case RoutineWatch:
		r.Parameters = string(encode(object{"query": r.query, "keywords": r.keywords, "repositories": r.sources, "entity": object{"profile_id": w.id(1), "mode": "new_papers"}}))
		r.StorageSettings = object{"txt_policy": "save", "export_directory": "/srv/" + Planted}
		r.AISettings = object{"provider": "local", "local_endpoint": "http://127.0.0.1:11434/" + Planted}
	}
}

// deliveriesOf has one of each channel and state; addresses and paths are planted.
func (w *world) deliveriesOf(r *routine) []object {
	targets := []struct{ channel, snapshot, state, err string }{
		{"email", Planted + "-team@example.org", "failed", "550 refused the recipient " + Planted + "-team@example.org of https://" + Planted + ".example/mail"},
		{"email", Planted + "-second@example.org", "awaiting_review", ""},
		{"folder", "/home/user/" + Planted + "/reports", "failed", "No such directory: /home/user/" + Planted + "/reports"},
		{"webhook", "https://hooks.example.org/" + Planted, "delivered", ""},
		{"feed", "/var/www/" + Planted + "/feed.xml", "queued", ""},
		{"webhook", "https://hooks.example.org/" + Planted + "/other", "skipped", ""},
		{"folder", "/home/user/" + Planted + "/late", "delivering", ""},
	}
	var out []object
	for i, t := range targets {
		row := object{"id": i + 1, "routine_id": r.ID, "execution_id": w.id(RunWithEvents), "target_id": i + 1, "channel": t.channel, "target_snapshot": t.snapshot,
			"state": t.state, "attempts": 3, "next_attempt_at_utc": nil, "last_error": nil, "delivered_at_utc": nil, "created_at_utc": day(1) + "T08:01:00Z"}
		if t.err != "" {
			row["last_error"] = t.err
		}
		if t.state == "delivered" {
			row["delivered_at_utc"] = day(1) + "T08:01:09Z"
		}
		out = append(out, row)
	}
	return out
}

// audit is the answer of the coverage route; its lists stop at 25.
func audit(r *routine, offTarget, missed int, floor bool) object {
	rows := func(n int) []object {
		out := []object{}
		for i := range min(n, 25) {
			out = append(out, object{"id": i + 1, "title": fmt.Sprintf("Paper %d of the audit", i+1), "distance": real(0.5 + float64(i)/100), "source_repository": "arxiv", "publication_date": day(i), "url": nil})
		}
		return out
	}
	intent, from := strings.Join(r.keywords, " "), "keywords"
	if r.Intent != nil {
		intent, from = *r.Intent, "stated"
	}
	return object{"routine_id": r.ID, "routine_name": r.Name, "intent": intent, "intent_source": from, "model": embeddingModel,
		"cannot_see": "Only what is stored and embedded was compared, and a distance is no verdict on relevance.", "results": 400, "results_embedded": 392,
		"off_target": rows(offTarget), "off_target_total": offTarget, "missed_in_corpus": rows(missed), "missed_in_corpus_total": missed,
		"missed_in_corpus_total_is_lower_bound": floor, "distribution": object{"count": 392, "min": real(0.02), "median": real(0.31), "p75_cutoff": real(0.55), "max": real(0.9)},
		"reason": nil, "summary": fmt.Sprintf("%d of 392 embedded results are far from the intent; %d stored papers near it were never returned.", offTarget, missed)}
}

func (w *world) routine(id int64) *routine {
	i := slices.IndexFunc(w.routines, func(r *routine) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return w.routines[i]
}

func noRoutine() answer { return plain(http.StatusNotFound, "Routine not found") }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func listRoutines(w *world, _ *request) answer {
	rows := []listed{}
	for _, r := range w.routines {
		row := listed{routine: r, IsActive: bit(r.IsActive), EmailEnabled: bit(r.EmailEnabled), EmailAISummaryEnabled: bit(r.EmailAISummaryEnabled), AIEnabled: bit(r.AIEnabled), NotifyOnComplete: bit(r.NotifyOnComplete)}
		for _, e := range slices.Backward(w.executions) {
			if e.RoutineID != nil && *e.RoutineID == r.ID {
				row.LastStatus = &e.Status
				break
			}
		}
		rows = append(rows, row)
	}
	return ok(rows)
}

func getRoutine(w *world, r *request) answer {
	of := w.routine(r.id)
	if of == nil {
		return noRoutine()
	}
	return ok(detailedRoutine{routine: of, MissedFireDetails: append([]object{}, of.missed...), Stamp: r.stamp})
}

func routineCoverage(w *world, r *request) answer {
	of := w.routine(r.id)
	if of == nil {
		return plain(http.StatusNotFound, "No routine with id %s.", r.idText)
	}
	body := object{}
	for k, v := range of.audit {
		body[k] = v
	}
	return r.whole(body)
}

func routineDeliveries(w *world, r *request) answer {
	limit, bad := bound(r, "limit", 50, 1, 500)
	if bad != nil {
		return *bad
	}
	of := w.routine(r.id)
	if of == nil {
		return noRoutine()
	}
	var last any
	if len(of.deliveries) > 0 {
		d := of.deliveries[0]
		last = object{"id": d["id"], "target_id": d["target_id"], "state": d["state"], "channel": d["channel"], "attempts": d["attempts"], "last_error": d["last_error"], "delivered_at_utc": d["delivered_at_utc"]}
	}
	enabled := 0
	for _, n := range of.targets {
		enabled += n.(int)
	}
	return r.whole(object{"routine_id": of.ID, "deliveries": append([]object{}, of.deliveries[:min(len(of.deliveries), int(limit))]...),
		"summary": object{"targets": of.targets, "enabled_target_count": enabled, "awaiting_review": of.awaiting, "last": last}})
}

func activate(active bool) handler {
	return func(w *world, r *request) answer {
		of := w.routine(r.id)
		if of == nil {
			return noRoutine()
		}
		of.IsActive, r.applied = active, true
		return r.whole(object{"id": of.ID, "is_active": active})
	}
}

var routineModel = []field{{name: "name", kind: text, required: true}, {name: "schedule_cron", kind: text, required: true}, {name: "parameters", kind: dict, required: true},
	{name: "is_active", kind: flag}, {name: "email_enabled", kind: flag}, {name: "email_ai_summary_enabled", kind: flag}, {name: "ai_enabled", kind: flag},
	{name: "notify_on_complete", kind: flag}, {name: "ai_settings", kind: dict, nullable: true}, {name: "storage_settings", kind: dict, nullable: true}, {name: "intent", kind: text, nullable: true}}

func createRoutine(w *world, r *request) answer {
	body, bad := read(r.body, routineModel)
	if bad != nil {
		return *bad
	}
	if len(strings.Fields(str(body, "schedule_cron"))) != 5 {
		return plain(http.StatusBadRequest, "Invalid cron expression: %s", quoted(str(body, "schedule_cron")))
	}
	on := func(name string, otherwise bool) bool {
		if b, is := body[name].(bool); is {
			return b
		}
		return otherwise
	}
	parameters, _ := body["parameters"].(object)
	warning, refusal := w.entity(parameters)
	if refusal != nil {
		return *refusal
	}
	made := &routine{ID: w.routines[len(w.routines)-1].ID + 1, Name: str(body, "name"), ScheduleCron: str(body, "schedule_cron"), Parameters: string(encode(parameters)),
		IsActive: on("is_active", true), EmailEnabled: on("email_enabled", false), EmailAISummaryEnabled: on("email_ai_summary_enabled", false), AIEnabled: on("ai_enabled", false), NotifyOnComplete: on("notify_on_complete", false),
		AISettings: body["ai_settings"], StorageSettings: body["storage_settings"], ExecutionLocation: "local", CreatedAt: moment(0), UpdatedAt: moment(0),
		MissedFires: object{"count": 0, "last_due_at_utc": nil}, query: str(parameters, "query"), keywords: list(parameters, "keywords"), sources: list(parameters, "repositories"), targets: object{}}
	if intent := str(body, "intent"); intent != "" {
		made.Intent = &intent
	}
	made.audit = audit(made, 0, 0, false)
	made.audit["results"], made.audit["results_embedded"], made.audit["reason"] = 0, 0, "This routine has no results yet."
	w.routines = append(w.routines, made)
	r.applied = true
	answered := object{"id": made.ID, "name": made.Name}
	if warning != "" {
		answered["entity_warning"] = warning
	}
	return r.wholeAs(http.StatusCreated, answered)
}

// entity judges the person that a routine follows.
func (w *world) entity(parameters object) (warning string, refusal *answer) {
	given, there := parameters["entity"]
	if !there || given == nil {
		return "", nil
	}
	refuse := func(format string, args ...any) (string, *answer) {
		a := plain(http.StatusBadRequest, format, args...)
		return "", &a
	}
	entity, is := given.(object)
	if !is {
		return refuse("entity must be an object with profile_id and mode.")
	}
	if mode := str(entity, "mode"); mode != "new_papers" && mode != "retractions" {
		return refuse("entity.mode must be 'new_papers' or 'retractions'.")
	}
	number, _ := entity["profile_id"].(json.Number)
	id, err := number.Int64()
	of := w.profile(id)
	switch {
	case err != nil:
		return refuse("entity.profile_id must be a whole number.")
	case of == nil:
		return refuse("No watch profile with id %d.", id)
	case of.Kind != "person":
		return refuse("A routine can follow a person; profile %d is of kind %s.", id, quoted(of.Kind))
	}
	asked := list(parameters, "repositories")
	if !slices.ContainsFunc(asked, func(slug string) bool {
		return slices.Contains([]string{"openalex", "crossref", "pubmed", "semantic_scholar", "nasa_ads"}, slug)
	}) {
		return "None of these sources can be asked about an author, so this watch will find nothing.", nil
	}
	return "", nil
}

func runRoutine(w *world, r *request) answer {
	of := w.routine(r.id)
	if of == nil {
		return noRoutine()
	}
	for id := range w.live {
		if e := w.execution(id); e.RoutineID != nil && *e.RoutineID == of.ID {
			return runConflict(fmt.Sprint(id))
		}
	}
	if slices.ContainsFunc(w.queue, func(q queued) bool { return q.routine == of.ID }) {
		return runConflict("")
	}
	if len(w.live) >= w.options.MaxRuns {
		if len(w.queue) >= w.options.MaxQueue {
			return queueFull(w.options.MaxQueue)
		}
		q := queued{routine: of.ID}
		if w.options.RequestIDs {
			q.requestID = fmt.Sprintf("req-%d-%d", of.ID, len(w.executions))
		}
		w.queue = append(w.queue, q)
		r.applied = true
		return queuedAnswer(r, len(w.queue), q.requestID)
	}
	e := w.begin("automated_sweep", of.query, of.sources, &of.ID)
	late := len(of.missed)
	of.missed, of.MissedFires = nil, object{"count": 0, "last_due_at_utc": nil}
	r.applied = true
	detail := "Started."
	if !of.IsActive {
		detail = "Started. The routine is inactive, which stops its schedule and not a run by hand."
	}
	return r.whole(object{"execution_id": e.ID, "routine_id": of.ID, "was_inactive": !of.IsActive, "missed_fires_marked_ran_late": late, "detail": detail})
}

// Routine is what a test may look at to see whether a write took effect.
type Routine struct {
	ID     int64
	Name   string
	Active bool
	Intent *string
}

// Routines lists them by id.
func (f *Fake) Routines() []Routine {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Routine
	for _, r := range f.world.routines {
		out = append(out, Routine{r.ID, r.Name, r.IsActive, r.Intent})
	}
	return out
}
