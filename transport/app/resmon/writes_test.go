package resmon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

func askFake(t *testing.T, fake *resmontest.Fake, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fake.Base()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fake.Token())
	req.Close = true
	resp, err := new(http.Transport).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	return string(body)
}

// last is the body of the last write.
func (r *rig) last() string {
	body := ""
	for _, q := range r.fake.Requests() {
		if q.Method != "GET" {
			body = q.Body
		}
	}
	return body
}

func TestASweepSendsWhatItWasGiven(t *testing.T) {
	r := run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 9})
	tests := []struct{ arguments, body string }{
		{`{"query":"x","sources":["arxiv","none"]}`, `{"query":"x","repositories":["arxiv","none"],"max_results":50}`},
		{`{"query":"x","sources":["arxiv"],"max_results":"7","date_from":"whenever","date_to":"later","ai_enabled":"True","further":1}`, `{"query":"x","repositories":["arxiv"],"max_results":7,"date_from":"whenever","date_to":"later","ai_enabled":true}`},
	}
	for _, tt := range tests {
		r.good("run_sweep", tt.arguments)
		if got := r.last(); got != tt.body {
			t.Errorf("sent %s, want %s", got, tt.body)
		}
	}
	r.fake.Forget()
	for _, bad := range []string{`{"query":"x"}`, `{"query":"","sources":["arxiv"]}`, `{"query":"x","sources":[]}`, `{"query":"x","sources":"arxiv"}`, `{"query":"x","sources":[1]}`,
		`{"query":"x","sources":["a"],"max_results":0}`, `{"query":"x","sources":["a"],"max_results":1.5}`, `{"query":"x","sources":["a"],"ai_enabled":"yes"}`, `{"query":7,"sources":["a"]}`,
		`{"query":"x","sources":["a"],"date_from":20260101}`} {
		if got := r.refused("run_sweep", bad); got.Error != "invalid_argument" || got.Detail["argument"] == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if len(r.sent()) > 0 {
		t.Errorf("sent %q", r.sent())
	}
}

func TestARoutineIsCreatedInactiveAndReadBack(t *testing.T) {
	r := small(t)
	got := r.good("create_routine", `{"name":"n","keywords":["a b","c"],"sources":["arxiv"],"schedule":"0 8 * * *"}`)
	if r.last() != `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"query":"a b c","keywords":["a b","c"],"repositories":["arxiv"]},"is_active":false}` {
		t.Errorf("%s", r.last())
	}
	routine := got["routine"].(map[string]any)
	if routine["is_active"] != false || routine["intent"] != nil || !strings.Contains(got["detail"].(string), "activate_routine") || got["read_back"] != nil {
		t.Errorf("%v", got)
	}
	got = r.good("create_routine", `{"name":"n","keywords":"one phrase","sources":["arxiv"],"schedule":"0 8 * * *","intent":"Find x.","entity":{"profile_id":1,"mode":"retractions","more":[1]},"ai_enabled":true,"email_enabled":"false"}`)
	want := `{"name":"n","schedule_cron":"0 8 * * *","parameters":{"query":"one phrase","keywords":["one phrase"],"repositories":["arxiv"],"entity":{"profile_id":1,"mode":"retractions","more":[1]}},"is_active":false,"ai_enabled":true,"email_enabled":false,"intent":"Find x."}`
	if r.last() != want {
		t.Errorf("%s", r.last())
	}
	if warning, _ := got["entity_warning"].(string); warning == "" || !strings.Contains(got["detail"].(string), warning) {
		t.Errorf("%v", got)
	}
	r.good("create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","intent":"  "}`)
	if strings.Contains(r.last(), "intent") {
		t.Errorf("an intent was made up: %s", r.last())
	}
	for _, entity := range []string{`"x"`, `{"profile_id":99,"mode":"new_papers"}`, `{"profile_id":1,"mode":"gossip"}`, `{"profile_id":3,"mode":"new_papers"}`} {
		if got := r.refused("create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","entity":`+entity+`}`); got.Error != "invalid_argument" || got.Detail["argument"] != nil {
			t.Errorf("%s is resmon's to judge: %+v", entity, got)
		}
	}
	r.fake.Forget()
	for _, name := range []string{"is_active", "ai_settings", "storage_settings"} {
		if got := r.refused("create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","`+name+`":true}`); !strings.Contains(got.Message, name) {
			t.Errorf("%+v", got)
		}
	}
	if len(r.sent()) > 0 {
		t.Errorf("sent %q", r.sent())
	}
	r.fake.Inject(resmontest.Status(500), resmontest.Scope{Method: "GET", Template: "/api/routines/{routine_id}"})
	got = r.good("create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`)
	if got["read_back"] != false || got["routine"].(map[string]any)["id"] == nil || strings.Contains(got["detail"].(string), "created inactive") {
		t.Errorf("%v", got)
	}
	r.fake.Clear()
	r.fake.Inject(resmontest.Body(200, map[string]any{"id": 9, "is_active": 1}), resmontest.Scope{Method: "GET", Template: "/api/routines/{routine_id}"})
	if got = r.good("create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`); !strings.Contains(got["detail"].(string), "active although") {
		t.Errorf("%v", got)
	}
}

// A routine's record may have deliveries and places of its own: neither leaves,
// however it was read.
func TestARoutineLeavesWithoutItsPlaces(t *testing.T) {
	r := small(t)
	record := map[string]any{"id": 9, "is_active": 0, "delivery": "planted@example.org", "deliveries": []string{"planted"}, "storage_settings": `{"export_directory":"/planted"}`}
	r.fake.Inject(resmontest.Body(200, record), resmontest.Scope{Method: "GET", Template: "/api/routines/{routine_id}"})
	r.fake.Inject(resmontest.Status(500), resmontest.Scope{Template: "/api/routines/{routine_id}/deliveries"})
	for _, c := range [][2]string{{"get_routine", `{"routine_id":9}`}, {"create_routine", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *"}`}} {
		if a := r.call(c[0], c[1]); a.isError || strings.Contains(a.text, "planted") || !strings.Contains(a.text, "<target>") {
			t.Errorf("%s: %s", c[0], a.text)
		}
	}
}

func TestAProfileSaysWhatItsMatchesRestOn(t *testing.T) {
	r := small(t)
	got := r.good("create_watch_profile", `{"name":"Jane Doe","aliases":["J. Doe"],"affiliations":["X"]}`)
	warning, _ := got["basis_warning"].(string)
	if warning == "" || !strings.Contains(got["detail"].(string), warning) || got["profile"].(map[string]any)["basis_warning"] != warning {
		t.Errorf("%v", got)
	}
	if r.last() != `{"kind":"person","display_name":"Jane Doe","names":[{"value":"Jane Doe"},{"value":"J. Doe"}],"identifiers":{},"affiliations":["X"],"field_hints":[]}` {
		t.Errorf("%s", r.last())
	}
	got = r.good("create_watch_profile", `{"name":"Jane Doe","orcid":"0000-0002-1825-0097"}`)
	if _, there := got["basis_warning"]; there || !strings.Contains(got["detail"].(string), "0000-0002-1825-0097") {
		t.Errorf("%v", got)
	}
	if !strings.Contains(r.last(), `"identifiers":{"orcid":{"cited":"Given through an MCP client.","value":"0000-0002-1825-0097"}}`) {
		t.Errorf("%s", r.last())
	}
	r.good("create_watch_profile", `{"name":"Jane Doe","orcid":"0000-0002-1825-0097","orcid_cited":"Her page."}`)
	if !strings.Contains(r.last(), `"cited":"Her page."`) {
		t.Errorf("%s", r.last())
	}
	r.fake.Inject(resmontest.Body(201, map[string]any{"id": 9, "identifiers": map[string]any{}}), resmontest.Scope{Method: "POST", Template: "/api/profiles"})
	if got = r.good("create_watch_profile", `{"name":"Jane","orcid":"0000-0002-1825-0097"}`); strings.Contains(got["detail"].(string), "ORCID") {
		t.Errorf("it claims what the record does not have: %v", got)
	}
}

func TestWhatComesOfARunOfARoutine(t *testing.T) {
	t.Run("at once, an inactive one too", func(t *testing.T) {
		r := small(t)
		got := r.good("run_routine", `{"routine_id":2}`)
		if got["was_inactive"] != true || got["execution_id"] == nil || r.last() != "" {
			t.Errorf("%v", got)
		}
		conflict := r.refused("run_routine", `{"routine_id":2}`)
		if conflict.Error != "conflict" {
			t.Errorf("%+v", conflict)
		}
		conflict.detail(t, fmt.Sprintf(`{"conflict":"routine_already_running","execution_id":%v}`, got["execution_id"]))
	})
	t.Run("queued, then full", func(t *testing.T) {
		r := run(t, resmontest.Options{Data: resmontest.Small, MaxRuns: 1, MaxQueue: 1})
		r.good("run_routine", `{"routine_id":1}`)
		a := r.call("run_routine", `{"routine_id":2}`)
		got := decode(t, a.text)
		if a.isError || got["queued"] != true || fmt.Sprint(got["queue_position"]) != "1" || got["execution_id"] != nil {
			t.Errorf("%s", a.text)
		}
		waits := r.refused("run_routine", `{"routine_id":2}`)
		waits.detail(t, `{"conflict":"routine_already_running","execution_id":null}`)
		full := r.refused("run_routine", `{"routine_id":3}`)
		if full.Error != "conflict" {
			t.Errorf("%+v", full)
		}
		full.detail(t, `{}`)
	})
	t.Run("a conflict in the body", func(t *testing.T) {
		r := small(t)
		r.fake.Inject(resmontest.Body(409, map[string]any{"detail": map[string]any{"conflict": "routine_already_running", "execution_id": 7}}), resmontest.Scope{Method: "POST"})
		r.refused("run_routine", `{"routine_id":1}`).detail(t, `{"conflict":"routine_already_running","execution_id":7}`)
	})
}

func TestAnIDIsAWholeNumber(t *testing.T) {
	r := small(t)
	for given, sent := range map[string]string{`1`: "1", `"1"`: "1", `"007"`: "7", `1.0`: "1", `1e0`: "1", `-3`: "-3", `123456789012345678901234567890`: "123456789012345678901234567890"} {
		r.fake.Forget()
		r.call("explain_match", `{"doc_id":`+given+`}`)
		if got := r.sent(); len(got) != 1 || got[0] != "GET /api/documents/"+sent+"/why" {
			t.Errorf("%s: %q", given, got)
		}
	}
	r.fake.Forget()
	for _, bad := range []string{`1.5`, `"x"`, `"1 "`, `"-1"`, `"1/../2"`, `"%31"`, `true`, `[1]`, `{}`, `""`, `null`, `1e400`, `1e99`, `"` + strings.Repeat("9", 50) + `"`} {
		if got := r.refused("explain_match", `{"doc_id":`+bad+`}`); got.Error != "invalid_argument" || got.Detail["argument"] != "doc_id" {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if len(r.sent()) > 0 {
		t.Errorf("sent %q", r.sent())
	}
}

func TestAReadOnlySurfaceRefusesBeforeItLooks(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	env := fake.Env()
	env["RESMON_MCP_READ_ONLY"] = "1"
	down := map[string]string{"RESMON_MCP_READ_ONLY": "1"}
	for name, o := range map[string]app.Options{"by the variable": {Env: env}, "by its owner": {Env: fake.Env(), ReadOnly: true}, "with resmon down": {Env: down}} {
		t.Run(name, func(t *testing.T) {
			r := reach(t, fake, o)
			if n := len(r.conn.Incarnation().Tools); n != 18 {
				t.Errorf("%d tools", n)
			}
			for _, tool := range Surface().Tools {
				if !tool.Confirm {
					continue
				}
				for _, arguments := range []string{`{}`, `{"settings":{"api_key":1}}`, `[]`, `{"expected_runtime_id":1}`} {
					got := r.refused(tool.Name, arguments)
					if got.Error != "invalid_argument" {
						t.Errorf("%s: %+v", tool.Name, got)
					}
					got.detail(t, `{"read_only":true}`)
				}
			}
		})
	}
	if n := len(fake.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
	for _, other := range []string{"true", "0", "yes", ""} {
		env["RESMON_MCP_READ_ONLY"] = other
		r := reach(t, fake, app.Options{Env: env})
		if n := len(r.conn.Incarnation().Tools); n != 25 {
			t.Errorf("%q: %d tools", other, n)
		}
	}
}
