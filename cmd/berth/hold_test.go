package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"berth/transport/rest"
)

// holdHouse is a broker whose operator may hold the verbs of one backend that
// start work.
func holdHouse(t *testing.T) (*house, *wire) {
	h := newHouse(t)
	h.configure(map[string]any{
		"mcpServers": map[string]any{"st": h.fixtureEntry(map[string]any{"max_in_flight": 1, "long": []string{"work"}})},
		"berth":      map[string]any{"hold": map[string]any{"verbs": []string{"st__work", "st__append"}}},
	})
	must(t, h.start())
	return h, newWire(h, "hold-client")
}

func (h *house) unfinished() []json.RawMessage {
	h.t.Helper()
	var s struct{ UnfinishedJobs []json.RawMessage }
	must(h.t, h.api("/api/v1/hold", url.Values{}, &s))
	return s.UnfinishedJobs
}

// holdEntries are the ways to start work that a hold stops. Each gives the code
// and the refusal's own members, wherever they stand. A family that starts work
// adds its rows.
var holdEntries = []struct {
	name  string
	start func(h *house, w *wire) (code string, body string)
}{
	{"a call that is a job", func(_ *house, w *wire) (string, string) { return w.refusedCall("st__work", nil, "") }},
	{"a call that is none", func(h *house, w *wire) (string, string) {
		return w.refusedCall("st__append", map[string]any{"file": h.dir + "/lines", "line": "a"}, "")
	}},
	{"a call with a key", func(_ *house, w *wire) (string, string) { return w.refusedCall("st__work", nil, "a-new-key") }},
	{"a call that is passed on", func(_ *house, w *wire) (string, string) {
		return w.refusedCall("call_write", map[string]any{"name": "st__work", "arguments": map[string]any{"seconds": 0}}, "")
	}},
	{"berth call", func(h *house, _ *wire) (string, string) {
		exit, _, errOut := h.berth("call", "st__work", `{"seconds":0}`)
		if exit != exitRefused {
			return errOut, ""
		}
		code := errOut[strings.LastIndex(errOut, "(")+1:]
		return code[:strings.Index(code, ")")], ""
	}},
	{"dispatch", func(_ *house, w *wire) (string, string) {
		return w.refusedCall("dispatch", aDispatch(), "")
	}},
	{"dispatch by its older name and with a key", func(_ *house, w *wire) (string, string) {
		return w.refusedCall("armada_dispatch", aDispatch(), "a-new-dispatch")
	}},
	{"create_mission", func(_ *house, w *wire) (string, string) {
		return w.refusedCall("create_mission", map[string]any{"title": "t", "description": "d", "vesselId": "vsl_none"}, "")
	}},
	{"restart_mission", func(_ *house, w *wire) (string, string) {
		return w.refusedCall("restart_mission", map[string]any{"missionId": "msn_none"}, "")
	}},
	{"POST voyages", func(h *house, _ *wire) (string, string) {
		return h.refusedPost("/api/v1/voyages", `{"Title":"t","VesselId":"vsl_none","Missions":[{"Title":"t","Description":"d"}]}`)
	}},
	{"POST missions", func(h *house, _ *wire) (string, string) {
		return h.refusedPost("/api/v1/missions", `{"Title":"t","Description":"d","VesselId":"vsl_none"}`)
	}},
	{"POST restart of a mission", func(h *house, _ *wire) (string, string) {
		return h.refusedPost("/api/v1/missions/msn_none/restart", `{}`)
	}},
}

func aDispatch() map[string]any {
	return map[string]any{"title": "t", "vesselId": "vsl_none", "missions": []any{map[string]any{"title": "t", "description": "d"}}}
}

// refusedPost is a request of the operator API that has to be answered 409.
func (h *house) refusedPost(path, body string) (string, string) {
	h.t.Helper()
	status, _, answer := h.operator("POST", path, body)
	var refused struct{ Code string }
	if err := json.Unmarshal(answer, &refused); err != nil || status != 409 {
		return string(answer), ""
	}
	return refused.Code, string(answer)
}

func (w *wire) refusedCall(tool string, arguments map[string]any, key string) (string, string) {
	if arguments == nil {
		arguments = map[string]any{"seconds": 0}
	}
	r, err := w.call(w.house.t.Context(), tool, arguments, key)
	must(w.house.t, err)
	return r.Code, r.Text
}

func TestAHoldStopsWhateverStartsWork(t *testing.T) {
	t.Parallel()
	h, w := holdHouse(t)
	done, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "first")
	must(t, err)
	w.want(done.JobID, "Succeeded", "")
	// One job runs and one waits for its seat when the hold comes.
	running, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 600}, "")
	must(t, err)
	h.queued("st", 1, 0)
	waiting, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "")
	must(t, err)
	h.queued("st", 1, 1)

	if code, _, errOut := h.berth("hold", "engage", "--reason", strings.Repeat("x", 501), "--by", "ops-1"); code != exitRefused || !strings.Contains(errOut, "reason: maxLength: wanted at most 500 characters") {
		t.Errorf("a reason that is too long: %d %q", code, errOut)
	}
	if code, out, errOut := h.berth("hold", "engage", "--reason", "node upgrade", "--by", "ops-1"); code != 0 || !strings.Contains(out, "node upgrade") {
		t.Fatalf("engage: exit %d, %s%s", code, out, errOut)
	}
	for _, entry := range holdEntries {
		code, body := entry.start(h, w)
		if code != "dispatch_hold_active" || body != "" && (!strings.Contains(body, "node upgrade") || !strings.Contains(body, "ops-1")) {
			t.Errorf("%s: %s %s", entry.name, code, body)
		}
	}
	if n := countLines(h.dir+"/lines", "a"); n != 0 {
		t.Errorf("%d lines were written", n)
	}
	if again, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "first"); err != nil || again.JobID != done.JobID || again.Status != "Succeeded" {
		t.Errorf("a repeat of the first key: %v %+v", err, again)
	}
	if jobs := h.unfinished(); len(jobs) != 2 || !strings.Contains(string(jobs[0]), running.JobID) || !strings.Contains(string(jobs[1]), waiting.JobID) {
		t.Errorf("unfinished: %s", jobs)
	}
	if code, _, errOut := h.berth("jobs", "cancel", running.JobID, "--reason", "make room"); code != exitOutcome && code != 0 {
		t.Errorf("cancel: exit %d %s", code, errOut)
	}
	w.want(waiting.JobID, "Failed", "dispatch_hold_active")
	if r, err := w.call(t.Context(), "st__echo", map[string]any{"x": 1}, ""); err != nil || r.IsError || r.Code != "" {
		t.Errorf("what is not held: %v %+v", err, r)
	}
	if jobs := h.unfinished(); len(jobs) != 0 {
		t.Errorf("unfinished: %s", jobs)
	}
}

func TestAHoldSurvivesKillUntilItIsCleared(t *testing.T) {
	t.Parallel()
	h, w := holdHouse(t)
	if code, _, errOut := h.berth("hold", "engage", "--reason", "node upgrade", "--by", "ops-1"); code != 0 {
		t.Fatal(errOut)
	}
	for range 2 {
		must(t, h.start()) // kills the broker before it
		w = newWire(h, "hold-client")
		if code, _ := w.refusedCall("st__work", nil, ""); code != "dispatch_hold_active" {
			t.Errorf("after a kill: %s", code)
		}
	}
	var s rest.Status
	must(t, h.api("/api/v1/status", url.Values{}, &s))
	if s.DispatchHold == nil || s.DispatchHold.SetBy != "ops-1" {
		t.Errorf("the status says %+v", s.DispatchHold)
	}
	if code, out, _ := h.berth("hold", "clear", "--by", "ops-2"); code != 0 || out != "The hold is cleared.\n" {
		t.Errorf("clear: exit %d %s", code, out)
	}
	if r, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, ""); err != nil || r.JobID == "" {
		t.Errorf("after the clear: %v %+v", err, r)
	}
	if code, out, _ := h.berth("hold"); code != 0 || !strings.Contains(out, "none") {
		t.Errorf("status: exit %d %s", code, out)
	}
	_, dump, _ := h.berth("journal", "dump")
	for _, want := range []string{`"EventType":"dispatch_hold.engaged"`, `"EventType":"dispatch_hold.cleared"`, `"SetBy":"ops-2"`} {
		if !strings.Contains(dump, want) {
			t.Errorf("the journal has no %s:\n%s", want, dump)
		}
	}
}

// TestAChangeIsTheSameByToolAndByREST sends each payload through both ways in
// and compares codes and bodies.
func TestAChangeIsTheSameByToolAndByREST(t *testing.T) {
	t.Parallel()
	h, w := holdHouse(t)
	for _, tt := range []struct{ verb, path, arguments string }{
		{"dispatch_hold", "/api/v1/hold", `{"action":"engage"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"engage","reason":"x"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"elsewhere"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"engage","reason":"` + strings.Repeat("x", 501) + `","setBy":"a"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"engage","reason":"x","setBy":"` + strings.Repeat("x", 129) + `"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"","reason":""}`},
		{"dispatch_hold", "/api/v1/hold", `{}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"status"}`},
		{"dispatch_hold", "/api/v1/hold", `{"action":"clear","setBy":"ops-2"}`},
	} {
		var arguments, upper map[string]any
		must(t, json.Unmarshal([]byte(tt.arguments), &arguments))
		tool, err := w.call(t.Context(), tt.verb, arguments, "")
		must(t, err)
		upper = map[string]any{}
		for name, value := range arguments {
			upper[strings.ToUpper(name[:1])+name[1:]] = value
		}
		body, code := h.post(tt.path, upper)
		if same := comparable(body) == comparable(tool.Text); !same || code != tool.Code {
			t.Errorf("%s: the tool says %s\n%s\nREST says %s\n%s", tt.arguments, tool.Code, tool.Text, code, body)
		}
	}
}

// comparable is a body without the moment at which it was made.
func comparable(body string) string {
	var v map[string]any
	if json.Unmarshal([]byte(body), &v) != nil {
		return body
	}
	delete(v, "ClearedUtc")
	text, _ := json.Marshal(v)
	return string(text)
}
