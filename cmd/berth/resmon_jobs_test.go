package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"berth/transport/app/resmontest"
)

var sweep = map[string]any{"query": "q", "sources": []string{"arxiv"}}

func TestAnExpectedRuntimeBindsAnyVerb(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	for _, e := range []era{handshake, stateless} {
		c := h.caller("resmon", e)
		f.Forget()
		other := uuid.NewString()
		if detail := c.call("run_sweep", sweep, "berth/expectedRuntimeId", other).refused("instance_mismatch"); detail["expected_runtime_id"] != other || detail["actual_runtime_id"] != f.RuntimeID() {
			t.Errorf("%v", detail)
		}
		c.call("run_sweep", sweep, "berth/expectedRuntimeId", "nonsense").refused("invalid_argument")
		for _, r := range f.Requests() {
			if r.Method != http.MethodGet {
				t.Errorf("sent %s %s", r.Method, r.Path)
			}
		}
		if got := c.call("run_sweep", sweep, "berth/expectedRuntimeId", f.RuntimeID()).ok(); *got.call.RuntimeID != f.RuntimeID() {
			t.Errorf("%s", got.raw)
		}
		// The same words come whether the broker has met the process or not.
		c.call("health", map[string]any{}, "berth/expectedRuntimeId", other).refused("instance_mismatch")
	}
}

func TestARunEndsAsResmonSaysThatItDid(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 100})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	c := h.caller("resmon", handshake)
	start := func() (job string, execution int64) {
		got := c.call("run_sweep", sweep).ok()
		if got.job.ID == "" || got.job.RuntimeID != f.RuntimeID() || len(got.document) != 2 {
			t.Fatalf("answered %s", got.raw)
		}
		if job := h.job(got.job.ID); job.Status != "Running" {
			t.Errorf("the job is %+v when its caller hears of it", job)
		}
		return got.job.ID, got.id("execution_id")
	}
	type run struct {
		id             string
		status, reason string
		message        string
	}
	var runs []run
	for _, tt := range []struct{ word, status, reason, message string }{
		{"completed", "Succeeded", "", ""},
		{"failed", "Failed", "upstream_error", ""},
		{"cancelled", "Failed", "cancelled", ""},
		{"interrupted", "Lost", "interrupted", "interrupted_reason"},
	} {
		job, execution := start()
		must(t, f.Finish(execution, tt.word))
		runs = append(runs, run{job, tt.status, tt.reason, tt.message})
	}
	unknown, execution := start()
	must(t, f.SetStatus(execution, "resting")) // a word that nobody knows, and no end
	for _, r := range runs {
		result, message := h.ends(r.id, r.status, r.reason)
		if !strings.Contains(message, r.message) {
			t.Errorf("%s: %q", r.reason, message)
		}
		if r.status == "Succeeded" && (!strings.Contains(string(result), "execution_id") || !strings.Contains(string(result), f.RuntimeID())) {
			t.Errorf("the result is %s", result)
		}
	}
	// All of the others had an end, so this one has been looked at, too.
	if job := h.job(unknown); job.Status != "Running" {
		t.Errorf("an unknown word made it %+v", job)
	}
	must(t, f.Finish(execution, "resting"))
	h.ends(unknown, "Lost", "unknown_status")

	replaced, execution := start()
	old := f.RuntimeID()
	must(t, f.Restart())
	if _, message := h.ends(replaced, "Lost", "instance_mismatch"); !strings.Contains(message, fmt.Sprint(execution)) || !strings.Contains(message, old) {
		t.Errorf("the message is %q", message)
	}
	// A merged profile follows it by job_status.
	c = h.caller("", handshake)
	again := c.call("resmon__run_sweep", sweep).ok()
	must(t, f.Finish(again.id("execution_id"), "completed"))
	h.ends(again.job.ID, "Succeeded", "")
	status, _, err := c.ask("tools/call", map[string]any{"name": "job_status", "arguments": map[string]any{"jobId": again.job.ID}})
	if err != nil || !strings.Contains(string(status), `\"Status\":\"Succeeded\"`) {
		t.Errorf("job_status: %v %s", err, status)
	}
}

func TestAQueuedRunIsFollowedByItsRequestOnly(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 2, RequestIDs: true})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	c := h.caller("resmon", handshake)
	first := c.call("run_routine", map[string]any{"routine_id": f.RoutineID(1)}).ok() // an earlier run of the same routine, later
	must(t, f.Finish(first.id("execution_id"), "completed"))
	for range 2 {
		c.call("run_sweep", sweep).ok()
	}
	running := f.Running()
	queued := c.call("run_routine", map[string]any{"routine_id": f.RoutineID(1)}).ok()
	if queued.document["queued"] != true || queued.document["execution_id"] != nil || queued.job.ID == "" {
		t.Fatalf("answered %s", queued.raw)
	}
	if job := h.job(queued.job.ID); job.Status != "Accepted" {
		t.Errorf("a queued run is %+v", job)
	}
	must(t, f.Finish(running[0], "completed"))
	eventually(t, "the job runs", func() bool { return h.job(queued.job.ID).Status == "Running" })
	for _, id := range f.Running() {
		must(t, f.Finish(id, "completed"))
	}
	result, _ := h.ends(queued.job.ID, "Succeeded", "")
	var wrapped struct{ Content []struct{ Text string } }
	var got struct {
		ID int64 `json:"execution_id"`
	}
	if json.Unmarshal(result, &wrapped) != nil || len(wrapped.Content) == 0 || json.Unmarshal([]byte(wrapped.Content[0].Text), &got) != nil || got.ID == 0 || got.ID == first.id("execution_id") {
		t.Errorf("the result is %s, and the first run was %d", result, first.id("execution_id"))
	}
}

func TestAQueuedRunThatCannotBeToldApartIsNoJob(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 1})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	c := h.caller("resmon", stateless)
	for len(f.Running()) < 1 {
		c.call("run_sweep", sweep).ok()
	}
	got := c.call("run_routine", map[string]any{"routine_id": f.RoutineID(1)}).ok()
	if got.document["queued"] != true || got.job.ID != "" || strings.Contains(got.raw, "berth/job") {
		t.Errorf("answered %s", got.raw)
	}
}

func posts(f *resmontest.Fake, path string) (n int) {
	for _, r := range f.Requests() {
		if r.Method == http.MethodPost && r.Path == path {
			n++
		}
	}
	return n
}

func TestTheSameKeyIsOneRequestOneJobAndOneAnswer(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 100})
	servers := map[string]any{"resmon": appEntry(f, nil)}
	h := newHall(t, servers, nil)
	answers := make([]said, 20)
	var calls sync.WaitGroup
	for i := range answers {
		c := h.caller("resmon", era(i%2 == 0))
		calls.Go(func() {
			var err error
			if answers[i], err = c.try("run_sweep", sweep, "berth/idempotencyKey", "k"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for _, a := range answers {
		if a.isError || a.text != answers[0].text || a.job != answers[0].job || a.job.ID == "" || *a.call.RuntimeID != f.RuntimeID() {
			t.Errorf("answered %s, want as %s", a.raw, answers[0].raw)
		}
	}
	c := h.caller("resmon", handshake)
	if detail := c.call("run_sweep", map[string]any{"query": "other", "sources": []string{"arxiv"}}, "berth/idempotencyKey", "k").refused("conflict"); detail["berth"].(map[string]any)["code"] != "idempotency_conflict" {
		t.Errorf("%v", detail)
	}
	must(t, f.Finish(answers[0].id("execution_id"), "completed"))
	h.ends(answers[0].job.ID, "Succeeded", "")
	if again := c.call("run_sweep", sweep, "berth/idempotencyKey", "k").ok(); again.text != answers[0].text || again.job != answers[0].job {
		t.Errorf("after its end it is answered %s", again.raw)
	}
	// Other verbs, and answers that say no, are the same twice as well.
	for _, tt := range []struct {
		verb      string
		arguments map[string]any
	}{
		{"create_watch_profile", map[string]any{"name": "A"}}, {"get_routine", map[string]any{"routine_id": 999_999}}, {"run_sweep", map[string]any{"query": ""}},
	} {
		one := c.call(tt.verb, tt.arguments, "berth/idempotencyKey", tt.verb)
		two := c.call(tt.verb, tt.arguments, "berth/idempotencyKey", tt.verb)
		if one.text != two.text || one.isError != two.isError {
			t.Errorf("%s: %s and then %s", tt.verb, one.raw, two.raw)
		}
	}
	h.stop()
	h.start(servers, nil)
	t.Cleanup(func() { h.stop() })
	if again := h.caller("resmon", handshake).call("run_sweep", sweep, "berth/idempotencyKey", "k").ok(); again.text != answers[0].text || again.job != answers[0].job {
		t.Errorf("after a restart of the broker it is answered %s", again.raw)
	}
	if n := posts(f, "/api/search/sweep"); n != 1 {
		t.Errorf("%d sweeps were sent", n)
	}
	if n := posts(f, "/api/profiles"); n != 1 {
		t.Errorf("%d profiles were sent", n)
	}
}

func TestARunIsFollowedOverARestartOfTheBroker(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 100})
	servers := map[string]any{"resmon": appEntry(f, nil)}
	h := newHall(t, servers, nil)
	c := h.caller("resmon", handshake)
	goesOn, replaced := c.call("run_sweep", sweep).ok(), c.call("run_sweep", sweep).ok()
	h.stop()
	must(t, f.Finish(goesOn.id("execution_id"), "completed"))
	h.start(servers, nil)
	t.Cleanup(func() { h.stop() })
	h.ends(goesOn.job.ID, "Succeeded", "")
	h.stop()
	must(t, f.Restart())
	h.start(servers, nil)
	t.Cleanup(func() { h.stop() })
	h.ends(replaced.job.ID, "Lost", "instance_mismatch")
}

func TestAHundredCallsWithResmonDownShareWhatTheyFind(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	must(t, f.Crash())
	h := newHall(t, map[string]any{"resmon": appEntry(f, map[string]any{"max_in_flight": 100})}, nil)
	c := h.caller("resmon", stateless)
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			s, err := c.try("list_routines", map[string]any{})
			if err != nil || s.document["message"] != "resmon is not running. Start the resmon app and try again." {
				t.Errorf("%v %s", err, s.raw)
			}
		})
	}
	calls.Wait()
}

// A caller whose connection drops finds its run among its jobs.
func TestARunWhoseCallerHasGoneIsFound(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	c := h.caller("resmon", handshake)
	held := f.Inject(resmontest.Hold(), resmontest.Scope{Template: "/api/search/sweep"})
	ctx, leave := context.WithCancel(context.Background())
	c.ctx = ctx
	gone := make(chan error, 1)
	go func() {
		_, err := c.try("run_sweep", sweep)
		gone <- err
	}()
	<-held.Reached()
	leave()
	if err := <-gone; err == nil {
		t.Error("the caller was answered")
	}
	var list struct {
		Objects []struct{ JobID, Operation, Status string }
	}
	eventually(t, "the call is a job", func() bool {
		must(t, h.api("/api/v1/jobs", &list))
		return len(list.Objects) == 1
	})
	held.Release()
	eventually(t, "the run has begun", func() bool { return len(f.Running()) > 0 })
	running := f.Running()
	must(t, f.Finish(running[len(running)-1], "completed"))
	if result, _ := h.ends(list.Objects[0].JobID, "Succeeded", ""); !strings.Contains(string(result), `\"status\":\"completed\"`) || list.Objects[0].Operation != "resmon__run_sweep" {
		t.Errorf("%+v ended with %s", list.Objects[0], result)
	}
}

func TestACallFromTheCommandLineNamesTheJobBesideItsAnswer(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, FinishAfter: 1})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	call := []string{"call", "resmon__run_sweep", `{"query":"q","sources":["arxiv"]}`, "--state-dir", h.state}
	code, out, errOut := execute(t.Context(), &app{}, call...)
	job, named := strings.CutPrefix(strings.TrimSpace(errOut), "A job follows what it started: berth jobs wait ")
	if code != exitOK || !named || !strings.Contains(out, `"execution_id":`) {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	h.ends(job, "Succeeded", "")
	code, out, errOut = execute(t.Context(), &app{}, append(call, "--wait")...)
	if code != exitOK || !strings.Contains(out, `"status":"completed"`) {
		t.Errorf("with --wait: exit %d, %s%s", code, out, errOut)
	}
	code, out, errOut = execute(t.Context(), &app{}, append(call, "--json")...)
	if code != exitOK || !strings.Contains(out, `"Tracked": {`) {
		t.Errorf("with --json: exit %d, %s%s", code, out, errOut)
	}
}
