package main

import (
	"net/url"
	"strings"
	"testing"

	"berth/transport/rest"
)

func (h *house) backend(name string) rest.Backend {
	h.t.Helper()
	var list rest.Page[rest.Backend]
	must(h.t, h.api("/api/v1/backends", url.Values{}, &list))
	for _, b := range list.Objects {
		if b.Name == name {
			return b
		}
	}
	h.t.Fatalf("there is no backend %s", name)
	return rest.Backend{}
}

func TestADrainSurvivesKillUntilItIsResumed(t *testing.T) {
	t.Parallel()
	h, w := stopHouse(t, "10s")
	running := w.begin(t.Context(), "st__work", map[string]any{"seconds": 600})
	job := (<-running).reply
	h.queued("st", 1, 0)
	code, out, errOut := h.berth("backends", "drain", "st", "--reason", "new version")
	if code != 0 || !strings.Contains(out, "draining") || !strings.Contains(out, "Unfinished jobs     1") {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	if code, body := w.refusedCall("st__echo", map[string]any{"x": 1}, ""); code != "backend_draining" || !strings.Contains(body, "new version") {
		t.Errorf("a call: %s %s", code, body)
	}
	if _, out, _ := h.berth("backends"); !strings.Contains(out, "draining since") {
		t.Errorf("shown as\n%s", out)
	}
	must(t, h.start()) // kills the broker before it
	w = newWire(h, "drain-client")
	w.want(job.JobID, "Lost", "job_lost_on_restart")
	if code, _ := w.refusedCall("st__echo", map[string]any{"x": 1}, ""); code != "backend_draining" {
		t.Errorf("after a kill: %s", code)
	}
	if d := h.backend("st").Draining; d == nil || d.By != "default/operator" || *d.Reason != "new version" {
		t.Errorf("shown as %+v", d)
	}
	if code, out, _ := h.berth("backends", "drain", "st", "--wait", "5s"); code != 0 || !strings.Contains(out, "drained") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out, errOut := h.berth("backends", "resume", "st"); code != 0 || !strings.Contains(out, "resumed") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if r, err := w.call(t.Context(), "st__echo", map[string]any{"x": 1}, ""); err != nil || r.IsError {
		t.Errorf("after the resume: %v %+v", err, r)
	}
	_, dump, _ := h.berth("journal", "dump")
	for kind, want := range map[string]int{"backend.drained": 2, "backend.resumed": 1} {
		if n := strings.Count(dump, `"EventType":"`+kind+`"`); n != want {
			t.Errorf("%d events %s", n, kind)
		}
	}
}

func TestARestartedBackendIsAnotherProcess(t *testing.T) {
	t.Parallel()
	h, w := stopHouse(t, "10s")
	if r, err := w.call(t.Context(), "st__echo", map[string]any{"x": 1}, ""); err != nil || r.IsError {
		t.Fatalf("%v %+v", err, r)
	}
	before := h.backend("st")
	working := w.begin(t.Context(), "st__hang", map[string]any{"seconds": 600})
	h.queued("st", 1, 0)
	code, out, errOut := h.berth("backends", "restart", "st", "--wait", "1s", "--reason", "it leaks")
	if code != 0 || !strings.Contains(out, "restarted") || !strings.Contains(out, "Ended while running  1") {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	if got := <-working; got.err != nil || got.reply.Code != "outcome_unknown" {
		t.Errorf("what ran: %v %+v", got.err, got.reply)
	}
	if r, err := w.call(t.Context(), "st__echo", map[string]any{"x": 1}, ""); err != nil || r.IsError {
		t.Errorf("then: %v %+v", err, r)
	}
	after := h.backend("st")
	if after.PID == nil || before.PID == nil || *after.PID == *before.PID || *after.RuntimeID == *before.RuntimeID || after.Draining != nil {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if _, dump, _ := h.berth("journal", "dump"); !strings.Contains(dump, `"EventType":"backend.restarted"`) || !strings.Contains(dump, "it leaks") {
		t.Errorf("the journal:\n%s", dump)
	}
}

func TestOnlyConfiguredBackendsAreDrained(t *testing.T) {
	t.Parallel()
	h, _ := stopHouse(t, "10s")
	for _, name := range []string{"berth", "nowhere"} {
		for _, change := range []string{"drain", "resume", "restart"} {
			if _, code := h.post("/api/v1/backends/"+name+"/"+change, map[string]any{}); code != "not_found" {
				t.Errorf("%s %s: %s", change, name, code)
			}
		}
	}
	if _, code := h.post("/api/v1/backends/st/drain", map[string]any{"Reason": strings.Repeat("x", 501)}); code != "invalid_arguments" {
		t.Errorf("a long reason: %s", code)
	}
}
