package resmon

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

func TestAFilterLooksBeyondTheFirstPage(t *testing.T) {
	r := run(t, resmontest.Options{})
	failed := r.good("list_executions", `{"status":"failed"}`) // one of the oldest of 1,300
	if fmt.Sprint(ids(t, failed["executions"], "id")) != "["+r.id(r.fake.ExecutionID(resmontest.RunFailed))+"]" || fmt.Sprint(failed["total"]) != "1" || failed["has_more"] != false || failed["truncated"] != nil {
		t.Errorf("%v", failed)
	}
	of := r.good("list_executions", `{"routine_id":"2","limit":3,"offset":2}`)
	if len(of["executions"].([]any)) != 3 || of["total"] != nil || of["has_more"] != true {
		t.Errorf("%v", of)
	}
	if none := r.good("list_executions", `{"status":"paused"}`); len(none["executions"].([]any)) != 0 || fmt.Sprint(none["total"]) != "0" {
		t.Errorf("%v", none)
	}
	plain := r.good("list_executions", `{"limit":1000,"offset":1250}`)
	if fmt.Sprint(plain["count"]) != "50" || fmt.Sprint(plain["total"]) != "1300" || plain["has_more"] != false {
		t.Errorf("%v %v %v", plain["count"], plain["total"], plain["has_more"])
	}
	if first := r.good("list_executions", `{}`); fmt.Sprint(first["count"]) != "25" || first["total"] != nil || first["has_more"] != true {
		t.Errorf("%v", first)
	}
	if beyond := r.good("list_executions", `{"offset":5000}`); fmt.Sprint(beyond["count"]) != "0" || beyond["total"] != nil {
		t.Errorf("a total that was not seen: %v", beyond)
	}

	bounded := *Surface()
	bounded.Tools = newTools(1)
	b := reachBy(t, &bounded, r.fake, app.Options{Env: r.fake.Env()})
	got := b.good("list_executions", `{"status":"failed"}`)
	if got["truncated"] != true || fmt.Sprint(got["searched"]) != "500" || got["note"] == nil || got["total"] != nil || got["has_more"] != nil {
		t.Errorf("%v", got)
	}
	if got := b.good("list_executions", `{"status":"completed","limit":2}`); got["truncated"] != nil || got["has_more"] != true {
		t.Errorf("%v", got)
	}
}

func TestAFilterLooksNoLongerThanItsTime(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{})
	var asked atomic.Int64
	at := time.Date(2026, 10, 1, 9, 0, 0, 0, time.UTC)
	now := func() time.Time { return at.Add(time.Duration(asked.Add(1)) * 9 * time.Second) } // each look takes nine seconds
	r := reach(t, fake, app.Options{Env: fake.Env(), Now: now})
	got := r.good("list_executions", `{"status":"paused"}`)
	if got["truncated"] != true || fmt.Sprint(got["searched"]) != "1000" || got["total"] != nil || got["has_more"] != nil || len(r.sent()) != 2 {
		t.Errorf("after %q: %v", r.sent(), got)
	}
}

// Runs that begin while the pages are walked push others onto the next page.
func TestARunThatIsPushedOntoTheNextPageIsListedOnce(t *testing.T) {
	r := small(t)
	page := func(from int) (rows []map[string]any) {
		for id := from; id > from-500 && id > 0; id-- {
			rows = append(rows, map[string]any{"id": id, "status": map[bool]string{true: "failed", false: "completed"}[id == 101]})
		}
		return rows
	}
	// One began in between, so that 101 comes again.
	r.fake.Inject(resmontest.Body(200, page(600)), resmontest.Scope{Template: "/api/executions", Times: 1})
	r.fake.Inject(resmontest.Body(200, page(101)), resmontest.Scope{Template: "/api/executions", Skip: 1})
	got := r.good("list_executions", `{"status":"failed"}`)
	if fmt.Sprint(ids(t, got["executions"], "id")) != "[101]" || fmt.Sprint(got["total"]) != "1" || len(r.sent()) != 2 {
		t.Errorf("%v", got)
	}
}

func TestARunHoldsNoPlaceAndNoKey(t *testing.T) {
	r := small(t)
	r.fake.Inject(resmontest.Body(200, map[string]any{"id": 5, "status": "failed", "error_message": "401 for Authorization: Bearer hunter2hunter2", "ai_settings": map[string]any{"endpoint": "https://h.example"},
		"parameters": `{"query":"q","storage_settings":{"export_directory":"/home/u/planted"}}`}), resmontest.Scope{Template: "/api/executions/{exec_id}"})
	got := r.good("get_execution", `{"exec_id":5}`)
	if e := fmt.Sprint(got["error_message"]); strings.Contains(e, "hunter2") || !strings.Contains(e, "401") {
		t.Errorf("%s", e)
	}
	if fmt.Sprint(got["ai_settings"]) != "map[endpoint:<target>]" || fmt.Sprint(got["parameters"]) != "map[query:q storage_settings:map[export_directory:<target>]]" {
		t.Errorf("%v", got)
	}
}

func TestARunIsWholeWithReadableParameters(t *testing.T) {
	r := small(t)
	get := func(n int) map[string]any {
		return r.good("get_execution", `{"exec_id":`+r.id(r.fake.ExecutionID(n))+`}`)
	}
	starts := get(resmontest.RunWithStarts)["parameters"].(map[string]any)["default_starts"].(map[string]any)["biorxiv"].(map[string]any)
	if fmt.Sprint(starts["days"]) != "3" || starts["sentence"] == nil {
		t.Errorf("%v", starts)
	}
	long := get(resmontest.RunWithEvents)
	events, ok := long["progress_events"].(string)
	var list []map[string]any
	if err := json.Unmarshal([]byte(events), &list); !ok || err != nil || len(list) != 50 || list[49]["type"] != "complete" {
		t.Errorf("%d events: %v", len(list), err)
	}
	if fmt.Sprint(long["progress_events_truncated"]) != "map[kept:50 total:60]" {
		t.Errorf("%v", long["progress_events_truncated"])
	}
	if _, there := get(resmontest.RunFailed)["progress_events_truncated"]; there {
		t.Error("nothing was cut, and it says so")
	}
	if run := get(resmontest.RunInterrupted); run["status"] != "interrupted" || run["interrupted_reason"] != "owner_dead" || fmt.Sprint(run["restarted_into"]) != "[9]" {
		t.Errorf("%v", run)
	}
	coverage := get(resmontest.RunInPart)["coverage"].(map[string]any)
	source := coverage["sources"].([]any)[0].(map[string]any)
	if source["in_part"] != true || source["zero_reason"] != "answered_in_part" || source["zero_detail"].(map[string]any)["read"] == nil || fmt.Sprint(coverage["counts"].(map[string]any)["in_part"]) != "1" {
		t.Errorf("%v", coverage)
	}
}
