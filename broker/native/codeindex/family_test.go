package codeindex_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/native/codeindex"
)

// world is a family over an index that a test makes up.
type world struct {
	t      *testing.T
	family *codeindex.Family
	clock  time.Time

	mu      sync.Mutex
	rows    map[string]broker.Record
	events  []broker.Event
	jobs    []broker.Job
	built   *codeindex.Built
	broken  error // of the finished index
	current string
	update  func(tell func(codeindex.Progress)) (codeindex.Built, []string, error)
	updates int
	only    codeindex.Filter
	failPut error
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, rows: map[string]broker.Record{}, current: "c1", clock: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)}
	w.family = codeindex.New(w, w, w, codeindex.Options{Options: native.Options{Now: func() time.Time { w.clock = w.clock.Add(time.Second); return w.clock }}})
	return w
}

func (w *world) Put(_ context.Context, c broker.RecordChange) (broker.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.rows[c.Kind+c.ID]
	switch {
	case w.failPut != nil:
		return before, w.failPut
	case c.If != nil && *c.If != before.Revision:
		return before, broker.ErrRecordRevision
	}
	r := broker.Record{Kind: c.Kind, ID: c.ID, Value: c.Value, Revision: before.Revision + 1, Expires: c.Expires}
	w.rows[c.Kind+c.ID], w.events = r, append(w.events, c.Events...)
	return r, nil
}

func (w *world) Record(kind, id string) (broker.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.rows[kind+id]
	if !ok {
		return r, broker.ErrRecordNotFound
	}
	return r, nil
}

func (w *world) Records(broker.RecordQuery) ([]broker.Record, error) {
	return nil, errors.New("no list is read")
}

func (w *world) Jobs(f broker.JobFilter) (page broker.JobPage, err error) {
	for _, j := range w.jobs {
		if f.Match(j) {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

func (w *world) Vessel(_ broker.Principal, id string) (dispatch.Vessel, error) {
	if id != "vsl_a" {
		return dispatch.Vessel{}, broker.Refuse(broker.CodeVesselNotFound, "Vessel not found", nil)
	}
	return dispatch.Vessel{ID: id, Owner: dispatch.Owner{TenantID: "default"}, Name: "a", DefaultBranch: "main"}, nil
}

func (w *world) Built(string) (codeindex.Built, error) {
	switch {
	case w.broken != nil:
		return codeindex.Built{}, w.broken
	case w.built == nil:
		return codeindex.Built{}, codeindex.ErrNone
	}
	return *w.built, nil
}

func (w *world) Current(context.Context, codeindex.Source) (string, error) {
	if w.current == "" {
		return "", errors.New("it is gone")
	}
	return w.current, nil
}

func (w *world) Update(_ context.Context, _ codeindex.Source, _ func() time.Time, tell func(codeindex.Progress)) (codeindex.Built, []string, error) {
	w.updates++
	b, warnings, err := w.update(tell)
	if err == nil {
		w.built = &b
	}
	return b, warnings, err
}

func (w *world) Search(_ context.Context, _ string, _ *codeindex.Query, only codeindex.Filter) ([]codeindex.Hit, codeindex.Built, error) {
	w.only = only
	return []codeindex.Hit{{Score: 44, Path: "a.go", Language: "go", Start: 1, End: 2, Content: "func aName() {}\n"}}, *w.built, nil
}

// ask calls a verb and gives its result, an error's body included.
func (w *world) ask(verb, arguments string) map[string]any {
	w.t.Helper()
	conn, err := w.family.Open(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(w.t.Context()) }()
	answer, err := conn.Call(w.t.Context(), &broker.Call{ID: "call-1", Verb: verb, Principal: broker.LocalOperator,
		Params: json.RawMessage(`{"name":"` + verb + `","arguments":` + arguments + `}`)}, broker.Peer{})
	if err != nil {
		w.t.Fatal(err)
	}
	var result struct{ StructuredContent map[string]any }
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		w.t.Fatal(err)
	}
	return result.StructuredContent
}

const vessel = `{"vesselId":"vsl_a"}`

func indexed(commit string, at time.Time) *codeindex.Built {
	return &codeindex.Built{Commit: commit, IndexedAt: at, Documents: 1, Chunks: 2}
}

func TestAnIndexIsCalledWhatItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		set    func(w *world)
		want   string
		search bool
	}{
		"never indexed":       {func(*world) {}, "Missing", false},
		"of the commit":       {func(w *world) { w.built = indexed("c1", w.clock) }, "Fresh", true},
		"of another":          {func(w *world) { w.built = indexed("c0", w.clock) }, "Stale", true},
		"of nobody knows":     {func(w *world) { w.built, w.current = indexed("c1", w.clock), "" }, "Stale", true},
		"unreadable":          {func(w *world) { w.broken = errors.New("it is damaged") }, "Error", false},
		"an update failed":    {func(w *world) { w.built = indexed("c1", w.clock); w.fails("the disk is full") }, "Error", false},
		"the first one fails": {func(w *world) { w.fails("the disk is full") }, "Error", false},
		"and then succeeded":  {func(w *world) { w.fails("the disk is full"); w.succeeds("c1") }, "Fresh", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.set(w)
			updates := w.updates
			status := w.ask("index_status", vessel)
			if status["Freshness"] != tc.want || (status["LastError"] != nil) != (tc.want == "Error") {
				t.Fatalf("%v, want %s", status, tc.want)
			}
			found := w.ask("code_search", `{"vesselId":"vsl_a","query":"aName"}`)
			_, has := found["Results"]
			if has != tc.search {
				t.Errorf("%v", found)
			}
			if !tc.search {
				reason := map[string]string{"Missing": "index_missing", "Error": "index_error"}[tc.want]
				ready, _ := found["Readiness"].(map[string]any)
				remedy, _ := ready["Remedy"].(string)
				if found["Available"] != false || found["UnavailableReason"] != reason || ready["Freshness"] != tc.want || !strings.Contains(remedy, "index_update") || found["Error"] != nil {
					t.Errorf("%v", found)
				}
			}
			if w.updates != updates {
				t.Error("a search started an update")
			}
		})
	}
}

func (w *world) fails(cause string) {
	w.update = func(func(codeindex.Progress)) (codeindex.Built, []string, error) {
		return codeindex.Built{}, nil, errors.New(cause)
	}
	if got := w.ask("index_update", vessel); got["Code"] != string(broker.CodeOperationFailed) || !strings.Contains(got["Error"].(string), cause) {
		w.t.Errorf("%v", got)
	}
}

func (w *world) succeeds(commit string) {
	w.update = func(func(codeindex.Progress)) (codeindex.Built, []string, error) {
		return *indexed(commit, w.clock.Add(time.Hour)), []string{"a warning"}, nil
	}
	if got := w.ask("index_update", vessel); got["IndexedCommitSha"] != commit || len(got["Warnings"].([]any)) != 1 {
		w.t.Errorf("%v", got)
	}
}

// TestAnUpdateIsSeenWhileItRuns: its progress, and what a search reads then.
func TestAnUpdateIsSeenWhileItRuns(t *testing.T) {
	for name, before := range map[string]*codeindex.Built{"the first": nil, "a later one": indexed("c0", time.Unix(0, 0))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.built = before
			w.jobs = []broker.Job{{ID: "job_1", Status: broker.JobRunning, Operation: codeindex.Operation, VesselID: "vsl_a", CallID: "call-1"}}
			w.update = func(tell func(codeindex.Progress)) (codeindex.Built, []string, error) {
				tell(codeindex.Progress{Stage: "Indexing", Done: 1, Total: 4})
				s := w.ask("index_status", vessel)
				if s["Freshness"] != "Updating" || s["UpdateInProgress"] != true || s["UpdateStage"] != "Indexing" || s["UpdateProgressDone"] != 1.0 || s["UpdateProgressPercent"] != 25.0 || s["UpdateHeartbeatUtc"] == nil {
					t.Errorf("%v", s)
				}
				found := w.ask("code_search", `{"vesselId":"vsl_a","query":"aName"}`)
				if _, has := found["Results"]; has != (before != nil) {
					t.Errorf("%v", found)
				}
				if again := w.ask("index_update", vessel); again["Code"] != string(broker.CodeIndexUpdating) || again["JobId"] != "job_1" {
					t.Errorf("%v", again)
				}
				return *indexed("c1", w.clock), nil, nil
			}
			if s := w.ask("index_update", vessel); s["Freshness"] != "Fresh" || s["UpdateInProgress"] != false {
				t.Errorf("%v", s)
			}
			if len(w.events) != 1 || w.events[0].EventType != "code_index.updated" || w.events[0].EntityID != "vsl_a" {
				t.Errorf("%+v", w.events)
			}
		})
	}
}

// TestAJobIsJudgedBeforeItsRecord: what it is called, and that a vessel has one.
func TestAJobIsJudgedBeforeItsRecord(t *testing.T) {
	w := newWorld(t)
	admit := func(verb, arguments string) (broker.Job, *broker.Refusal) {
		j := broker.Job{Operation: verb}
		r := w.family.Admit(&broker.Call{Verb: verb, Backend: "berth", Params: json.RawMessage(`{"name":"x","arguments":` + arguments + `}`)}, &j)
		return j, r
	}
	if j, r := admit("index_update", vessel); r != nil || j.Operation != "code_index_update" || j.VesselID != "vsl_a" {
		t.Errorf("%+v %v", j, r)
	}
	if j, r := admit("other", `{}`); r != nil || j.Operation != "other" {
		t.Errorf("%+v %v", j, r)
	}
	if _, r := admit("index_update", `{"vesselId":"vsl_b"}`); r == nil || r.Code != broker.CodeVesselNotFound {
		t.Errorf("%v", r)
	}
	if _, r := admit("index_update", `{"vesselId":" "}`); r == nil || r.Code != broker.CodeMissingVesselID {
		t.Errorf("%v", r)
	}
	w.jobs = []broker.Job{{ID: "job_1", Status: broker.JobAccepted, Operation: codeindex.Operation, VesselID: "vsl_a"}}
	if _, r := admit("index_update", vessel); r == nil || r.Code != broker.CodeIndexUpdating || r.Detail["JobId"] != "job_1" {
		t.Errorf("%v", r)
	}
}

func TestASearchIsCheckedAndShown(t *testing.T) {
	w := newWorld(t)
	w.built = indexed("c1", w.clock)
	for arguments, want := range map[string]broker.Code{
		`{"query":"x"}`:                     broker.CodeMissingVesselID,
		`{"vesselId":"vsl_a","query":"  "}`: broker.CodeMissingQuery,
		`{"vesselId":"vsl_b","query":"x"}`:  broker.CodeVesselNotFound,

		`{"vesselId":"vsl_a","query":"x","language":"golang"}`: broker.CodeInvalidArguments,
	} {
		if got := w.ask("code_search", arguments); got["Code"] != string(want) {
			t.Errorf("%s: %v, want %s", arguments, got, want)
		}
	}
	got := w.ask("code_search", `{"vesselId":"vsl_a","query":"aName","limit":1000,"pathPrefix":"./x/","language":"Go","includeReferenceOnly":true}`)
	if w.only != (codeindex.Filter{PathPrefix: "x/", Language: "go", Reference: true, Limit: 100}) {
		t.Errorf("%+v", w.only)
	}
	hit := got["Results"].([]any)[0].(map[string]any)
	record := hit["Record"].(map[string]any)
	if _, has := record["Content"]; has || hit["Score"] != 44.0 || hit["Excerpt"] != "func aName() {}" || record["CommitSha"] != "c1" || record["Freshness"] != "Fresh" {
		t.Errorf("%v", hit)
	}
	got = w.ask("code_search", `{"vesselId":"vsl_a","query":"aName","includeContent":true}`)
	if record := got["Results"].([]any)[0].(map[string]any)["Record"].(map[string]any); record["Content"] != "func aName() {}\n" {
		t.Errorf("%v", record)
	}
}
