package resmontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// started runs a routine and gives the answer.
func started(t *testing.T, f *Fake, n int) reply {
	t.Helper()
	return ask(t, f, "POST", fmt.Sprintf("/api/routines/%d/run", f.RoutineID(n)), "")
}

func executionID(t *testing.T, r reply) int64 {
	t.Helper()
	n, err := r.object(t)["execution_id"].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRunsAreAdmittedQueuedAndRefused(t *testing.T) {
	f := Run(t, Options{Data: Small, MaxRuns: 2, MaxQueue: 1, RequestIDs: true})
	swept := executionID(t, must(t, f, "POST", "/api/search/sweep", sweepBody))
	first := started(t, f, RoutineActive)
	o := first.object(t)
	if first.status != 200 || o["was_inactive"] != false || o["missed_fires_marked_ran_late"] != json.Number("2") || o["detail"] == "" {
		t.Errorf("%d %v", first.status, o)
	}
	running := executionID(t, first)
	if got := started(t, f, RoutineActive); got.status != 409 || got.header.Get("X-Resmon-Conflict") != "routine_already_running" || got.header.Get("X-Resmon-Execution-Id") != fmt.Sprint(running) {
		t.Errorf("the same routine again: %d %v %s", got.status, got.header, got.body)
	}
	if got := ask(t, f, "POST", "/api/search/sweep", sweepBody); got.status != 429 || got.header.Get("Retry-After") != "5" {
		t.Errorf("a sweep at the limit: %d %s", got.status, got.body)
	}
	waits := started(t, f, RoutineIntent)
	o = waits.object(t)
	request := o["request_id"]
	if waits.status != 202 || o["execution_id"] != nil || o["queued"] != true || o["queue_position"] != json.Number("1") || request == nil {
		t.Errorf("a routine at the limit: %d %v", waits.status, o)
	}
	if got := started(t, f, RoutineIntent); got.status != 409 || got.header.Get("X-Resmon-Conflict") == "" || got.header.Get("X-Resmon-Execution-Id") != "" {
		t.Errorf("a queued routine again: %d %v", got.status, got.header)
	}
	if got := started(t, f, RoutineWatch); got.status != 409 || got.header.Get("X-Resmon-Conflict") != "" {
		t.Errorf("a full queue: %d %v", got.status, got.header)
	}
	if err := f.Finish(swept, "completed"); err != nil {
		t.Fatal(err)
	}
	now := f.Running()
	if len(now) != 2 || now[0] != running {
		t.Fatalf("running %v after one ended, want %d and the queued one", now, running)
	}
	if e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", now[1]), "").object(t); e["request_id"] != request || e["status"] != "running" || e["routine_id"] != json.Number(fmt.Sprint(f.RoutineID(RoutineIntent))) {
		t.Errorf("the queued run is %v, want request %v", e, request)
	}
	if e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", swept), "").object(t); e["status"] != "completed" || e["result_count"] == json.Number("0") || e["end_time"] == nil {
		t.Errorf("the run that ended is %v", e)
	}
	if f.Finish(1<<40, "completed") == nil || f.SetStatus(1<<40, "x") == nil {
		t.Error("a run that does not exist ends")
	}
}

func TestInactiveRoutineRunsByHand(t *testing.T) {
	f := Run(t, Options{Data: Small})
	if o := started(t, f, RoutineInactive).object(t); o["was_inactive"] != true || o["execution_id"] == nil {
		t.Errorf("%v", o)
	}
	if got := started(t, f, 99); got.status != 404 {
		t.Errorf("no routine: %d", got.status)
	}
}

func TestQueuedRunsWithoutAnIDAreTheDefault(t *testing.T) {
	f := Run(t, Options{Data: Small, MaxRuns: 1})
	started(t, f, RoutineActive)
	if o := started(t, f, RoutineInactive).object(t); o["queued"] != true || o["request_id"] != nil || o["queue_position"] != json.Number("1") {
		t.Errorf("%v", o)
	}
	if o := started(t, f, RoutineIntent).object(t); o["queue_position"] != json.Number("2") {
		t.Errorf("%v", o)
	}
	// They run one after the other, in the order in which they came.
	for _, n := range []int{RoutineInactive, RoutineIntent} {
		if err := f.Finish(f.Running()[0], "completed"); err != nil {
			t.Fatal(err)
		}
		if e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", f.Running()[0]), "").object(t); e["routine_id"] != json.Number(fmt.Sprint(f.RoutineID(n))) || e["request_id"] != nil {
			t.Errorf("%v runs, want routine %d", e["routine_id"], n)
		}
	}
}

func TestRunsEndAsTheyAreTold(t *testing.T) {
	f := Run(t, Options{Data: Small, MaxRuns: 9})
	for _, status := range []string{"completed", "failed", "cancelled", "interrupted", "evaporated"} {
		id := executionID(t, must(t, f, "POST", "/api/search/sweep", sweepBody))
		if err := f.Finish(id, status); err != nil {
			t.Fatal(err)
		}
		e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", id), "").object(t)
		if e["status"] != status || e["end_time"] == nil || (e["error_message"] != nil) != (status == "failed") || (e["interrupted_reason"] != nil) != (status == "interrupted") || (e["cancel_reason"] != nil) != (status == "cancelled") {
			t.Errorf("%s: %v", status, e)
		}
	}
	id := executionID(t, must(t, f, "POST", "/api/search/sweep", sweepBody))
	if err := f.SetStatus(id, "thinking"); err != nil {
		t.Fatal(err)
	}
	if e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", id), "").object(t); e["status"] != "thinking" || e["end_time"] != nil {
		t.Errorf("%v", e)
	}
}

func TestRunsFinishAfterTheyWereLookedAt(t *testing.T) {
	at := time.Date(2026, 10, 2, 3, 4, 5, 0, time.UTC)
	f := Run(t, Options{Data: Small, FinishAfter: 2, Now: func() time.Time { return at }})
	id := executionID(t, must(t, f, "POST", "/api/search/sweep", sweepBody))
	var seen []any
	for range 3 {
		seen = append(seen, must(t, f, "GET", fmt.Sprintf("/api/executions/%d", id), "").object(t)["status"])
	}
	if !slices.Equal(seen, []any{"running", "completed", "completed"}) {
		t.Errorf("statuses %v", seen)
	}
	if e := must(t, f, "GET", fmt.Sprintf("/api/executions/%d", id), "").object(t); e["start_time"] != "2026-10-02T03:04:05Z" || e["end_time"] != e["start_time"] {
		t.Errorf("the clock was not asked: %v", e)
	}
}

func TestCreatedRoutineIsReadBack(t *testing.T) {
	f := Run(t, Options{Data: Small})
	tests := []struct {
		name, body string
		status     int
		active     any // of the record
		intent     any
		warning    bool
	}{
		{"inactive", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"query":"a b","keywords":["a","b"],"repositories":["arxiv"]},"is_active":false}`, 201, false, nil, false},
		{"active by default", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{}}`, 201, true, nil, false},
		{"with an intent", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{},"is_active":false,"intent":"why"}`, 201, false, "why", false},
		{"of a person", `{"name":"n","schedule_cron":"0 8 * * *","is_active":false,"parameters":{"repositories":["openalex"],"entity":{"profile_id":1,"mode":"new_papers"}}}`, 201, false, nil, false},
		{"of a person that no source knows", `{"name":"n","schedule_cron":"0 8 * * *","is_active":false,"parameters":{"repositories":["arxiv"],"entity":{"profile_id":1,"mode":"retractions"}}}`, 201, false, nil, true},
		{"of nobody", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"entity":{"profile_id":99,"mode":"new_papers"}}}`, 400, nil, nil, false},
		{"of an institution", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"entity":{"profile_id":3,"mode":"new_papers"}}}`, 400, nil, nil, false},
		{"in no known mode", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"entity":{"profile_id":1,"mode":"all"}}}`, 400, nil, nil, false},
		{"of a profile that is a word", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"entity":{"profile_id":"x","mode":"new_papers"}}}`, 400, nil, nil, false},
		{"of something that is no object", `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"entity":"Ada"}}`, 400, nil, nil, false},
		{"on a bad schedule", `{"name":"n","schedule_cron":"daily","parameters":{}}`, 400, nil, nil, false},
		{"with a string for its parameters", `{"name":"n","schedule_cron":"0 8 * * *","parameters":"{}"}`, 422, nil, nil, false},
		{"without a name", `{"schedule_cron":"0 8 * * *","parameters":{}}`, 422, nil, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(f.Routines())
			got := ask(t, f, "POST", "/api/routines", tt.body)
			if got.status != tt.status {
				t.Fatalf("%d %s", got.status, got.body)
			}
			made := got.object(t)
			if got.status != http.StatusCreated {
				if len(f.Routines()) != before || newestRequest(f).Applied {
					t.Error("a refused routine was made")
				}
				return
			}
			if (made["entity_warning"] != nil) != tt.warning || made["name"] != "n" || !newestRequest(f).Applied {
				t.Errorf("%v", made)
			}
			record := must(t, f, "GET", fmt.Sprintf("/api/routines/%v", made["id"]), "").object(t)
			if record["is_active"] != tt.active || record["intent"] != tt.intent {
				t.Errorf("%v", record)
			}
			must(t, f, "GET", fmt.Sprintf("/api/routines/%v/coverage", made["id"]), "")
			must(t, f, "GET", fmt.Sprintf("/api/routines/%v/deliveries?limit=1", made["id"]), "")
		})
	}
}

func TestCreatedProfileWarnsWithoutAnIdentifier(t *testing.T) {
	f := Run(t, Options{Data: Small})
	tests := []struct {
		name, body string
		status     int
		warning    bool
	}{
		{"without", `{"kind":"person","display_name":"New One","names":[{"value":"New One"}],"identifiers":{},"affiliations":["Somewhere"],"field_hints":[]}`, 201, true},
		{"with an ORCID", `{"kind":"person","display_name":"New Two","names":[],"identifiers":{"orcid":{"value":"0000-0002-1825-0097","cited":"x"}}}`, 201, false},
		{"with something else for an ORCID", `{"kind":"person","display_name":"New","identifiers":{"orcid":{"value":"17"}}}`, 400, false},
		{"of no kind", `{"kind":"robot","display_name":"New"}`, 400, false},
		{"with a name that is no object", `{"kind":"person","display_name":"New","names":["New"]}`, 422, false},
		{"without a name", `{"kind":"person"}`, 422, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := f.Profiles()
			got := ask(t, f, "POST", "/api/profiles", tt.body)
			if got.status != tt.status || (f.Profiles() > before) != (tt.status == 201) {
				t.Fatalf("%d %s, %d profiles", got.status, got.body, f.Profiles())
			}
			if made := got.object(t); tt.status == 201 && (made["basis_warning"] != nil) != tt.warning {
				t.Errorf("%v", made)
			}
		})
	}
}

func TestSettingsTakeWhatTheirGroupHas(t *testing.T) {
	f := Run(t, Options{Data: Small})
	tests := []struct {
		name, group, body string
		status            int
		key               string
		value             any
	}{
		{"a text", "ai", `{"settings":{"ai_model":"opus"}}`, 200, "ai_model", "opus"},
		{"a key that it does not have", "ai", `{"settings":{"smtp_from":"x"}}`, 200, "smtp_from", nil},
		{"a number", "storage", `{"settings":{"archive_after_days":30}}`, 200, "archive_after_days", "30"},
		{"a boolean where text is kept", "embeddings", `{"settings":{"embedding_enabled":true}}`, 200, "embedding_enabled", "True"},
		{"null", "ai", `{"settings":{"ai_model":null}}`, 200, "ai_model", ""},
		{"false", "notifications", `{"settings":{"notify_manual":false}}`, 200, "notify_manual", false},
		{"the text False, which is true", "notifications", `{"settings":{"notify_manual":"False"}}`, 200, "notify_manual", true},
		{"a mode", "notifications", `{"settings":{"notify_automatic_mode":"all"}}`, 200, "notify_automatic_mode", "all"},
		{"no mode", "notifications", `{"settings":{"notify_automatic_mode":"some"}}`, 400, "notify_automatic_mode", "all"},
		{"a provider that cannot embed", "embeddings", `{"settings":{"embedding_provider":"anthropic"}}`, 400, "embedding_provider", "local"},
		{"no settings", "ai", `{"ai_model":"x"}`, 422, "ai_model", ""},
		{"no object", "ai", `{"settings":["ai_model"]}`, 422, "ai_model", ""},
		{"no JSON", "ai", `{`, 422, "ai_model", ""},
		{"nothing", "ai", ``, 422, "ai_model", ""},
		{"an array", "ai", `[]`, 422, "ai_model", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, f, "PUT", "/api/settings/"+tt.group, tt.body)
			if got.status != tt.status || (tt.status == 200 && got.text() != `{"success":true}`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			values := must(t, f, "GET", "/api/settings/"+tt.group, "").object(t)
			if nested, is := values["settings"].(object); is {
				values = nested
			}
			if f.Setting(tt.group, tt.key) != tt.value || values[tt.key] != tt.value {
				t.Errorf("%s is %v, want %v", tt.key, values[tt.key], tt.value)
			}
		})
	}
	f.Inject(IgnoreKeys("ai_effort"), Scope{})
	must(t, f, "PUT", "/api/settings/ai", `{"settings":{"ai_effort":"high","ai_temperature":"0.3"}}`)
	if f.Setting("ai", "ai_effort") != "" || f.Setting("ai", "ai_temperature") != "0.3" {
		t.Error("the wrong key was ignored")
	}
	f.SetSetting("ai", "ai_novelty", "7")
	if o := must(t, f, "GET", "/api/settings/ai", "").object(t); o["ai_novelty"] != "7" || len(o) != 17 {
		t.Errorf("%v", o)
	}
}
