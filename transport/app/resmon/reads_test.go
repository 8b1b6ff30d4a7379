package resmon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

func ids(t *testing.T, list any, key string) []string {
	t.Helper()
	var out []string
	for _, row := range list.([]any) {
		out = append(out, fmt.Sprint(row.(map[string]any)[key]))
	}
	return out
}

func TestACursorWalksEveryPaperOnce(t *testing.T) {
	r := run(t, resmontest.Options{})
	seen := map[string]int{}
	arguments := `{"query":"on","limit":"7"}`
	pages := 0
	var total any
	for arguments != "" && pages < 100 {
		got := r.good("search_corpus", arguments)
		for _, id := range ids(t, got["papers"], "id") {
			seen[id]++
		}
		if total = got["total"]; got["mode"] != "keyword" {
			t.Fatalf("mode %v", got["mode"])
		}
		pages++
		arguments = ""
		if cursor, ok := got["next_cursor"].(string); ok {
			arguments = `{"query":"on","limit":"7","cursor":` + string(app.Quote(cursor)) + `}`
		}
	}
	if len(seen) != 130 || fmt.Sprint(total) != "130" || pages != 19 {
		t.Errorf("%d papers of %v on %d pages", len(seen), total, pages)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("paper %s came %d times", id, n)
		}
	}
	for _, q := range r.fake.Requests() {
		if strings.Contains(q.Body, "include") || strings.Contains(q.Body, "offset") {
			t.Errorf("sent: %s", q.Body)
		}
	}
}

func TestASearchSendsWhatItWasGiven(t *testing.T) {
	r := small(t)
	r.good("search_corpus", `{"query":"x","mode":"semantic","sources":["arxiv"],"date_from":"2026-01-01","date_to":"2026-02-01","limit":3,"further":1}`)
	if got := r.last(); got != `{"query":"x","limit":3,"sort":"similarity","sources":["arxiv"],"date_from":"2026-01-01","date_to":"2026-02-01"}` {
		t.Errorf("sent %s", got)
	}
}

func TestAnOffsetIsRefusedAndNotIgnored(t *testing.T) {
	r := small(t)
	for _, v := range []string{"0", "5", `"0"`, "false", "{}"} {
		got := r.refused("search_corpus", `{"query":"x","offset":`+v+`}`)
		if got.Error != "invalid_argument" || !strings.Contains(got.Message, "cursor") {
			t.Errorf("%s: %+v", v, got)
		}
	}
	if len(r.sent()) > 0 {
		t.Errorf("sent %q", r.sent())
	}
	r.good("search_corpus", `{"query":"x","offset":null}`)
}

func TestTheModeIsTheOneThatWasServed(t *testing.T) {
	r := small(t)
	got := r.good("search_corpus", `{"query":"graph","mode":"SEMANTIC"}`)
	if got["mode"] != "semantic" || got["model"] == nil || fmt.Sprint(got["ranked_count"]) != "10" || fmt.Sprint(got["unranked_count"]) != "2" || got["mode_unavailable"] != nil {
		t.Errorf("%v", got)
	}
	for _, p := range got["papers"].([]any) {
		if _, ok := p.(map[string]any)["distance"]; !ok {
			t.Errorf("no distance: %v", p)
		}
	}
	const refused = "The embedding model refused."
	for sentence, fault := range map[string]resmontest.Fault{refused: resmontest.DeclineSemantic(refused), "": resmontest.Body(200, map[string]any{"sort": "newest", "results": []any{}})} {
		r.fake.Clear()
		r.fake.Inject(fault, resmontest.Scope{})
		got := r.good("search_corpus", `{"query":"graph","mode":"semantic"}`)
		why, _ := got["mode_unavailable"].(string)
		if got["mode"] != "keyword" || why == "" || sentence != "" && why != sentence || got["ranked_count"] != nil {
			t.Errorf("%v", got)
		}
	}
	if got := r.refused("search_corpus", `{"query":"x","mode":"fuzzy"}`); !strings.Contains(got.Message, "keyword, semantic") {
		t.Errorf("%+v", got)
	}
}

func TestAnEmptyListOfSimilarPapersSaysWhy(t *testing.T) {
	r := small(t)
	for _, reason := range []string{"This paper is not embedded.", "Nothing else is embedded.", "This build cannot load the extension.", ""} {
		r.fake.Clear()
		r.fake.Inject(resmontest.EmptySimilar(reason), resmontest.Scope{})
		got := r.good("find_similar", `{"doc_id":1}`)
		why, _ := got["reason"].(string)
		if len(got["papers"].([]any)) != 0 || why == "" || reason != "" && why != reason {
			t.Errorf("%q: %v", reason, got)
		}
	}
	r.fake.Clear()
	r.good("find_similar", `{"doc_id":"999","limit":100}`)
	if last := r.sent()[len(r.sent())-1]; last != "GET /api/documents/999/similar?k=50" {
		t.Errorf("%s", last)
	}
}

func TestSourcesSayWhetherAKeyIsThere(t *testing.T) {
	r := small(t)
	states := map[any]bool{}
	required := 0
	for _, row := range r.good("list_sources", `{}`)["sources"].([]any) {
		s := row.(map[string]any)
		states[s["credential_status"]] = true
		if (s["credential_status"] == nil) != (s["credential_alias"] == nil) {
			t.Errorf("%v", s)
		}
		if s["key_required"] == true {
			required++
		}
		if len(s) != 8 {
			t.Errorf("%d fields: %v", len(s), s)
		}
	}
	for _, want := range []any{"present", "absent", "unreadable", nil} {
		if !states[want] {
			t.Errorf("no source is %v", want)
		}
	}
	if required == 0 {
		t.Error("no source requires a key")
	}
	for _, fault := range []resmontest.Fault{resmontest.Status(500), resmontest.NotJSON(), resmontest.WrongType(), resmontest.DropBefore(), resmontest.RouteMissing()} {
		r.fake.Clear()
		r.fake.Inject(fault, resmontest.Scope{Template: "/api/credentials"})
		got := r.good("list_sources", `{}`)
		if why, _ := got["credentials_unavailable"].(string); why == "" || len(got["sources"].([]any)) == 0 {
			t.Errorf("%v", got)
		}
		for _, row := range got["sources"].([]any) {
			if row.(map[string]any)["credential_status"] != nil {
				t.Errorf("a state that nobody told: %v", row)
			}
		}
	}
}

// Whatever stands where a word for the state of a key should, it is none.
func TestAStateOfAKeyIsOneOfThreeWords(t *testing.T) {
	r := small(t)
	r.fake.Inject(resmontest.Body(200, map[string]any{"credentials": map[string]any{"x_key": map[string]any{"status": "hunter2-the-key"}, "y_key": map[string]any{"status": "present", "value": "hunter2"}}}), resmontest.Scope{Template: "/api/credentials"})
	r.fake.Inject(resmontest.Body(200, []map[string]any{{"slug": "x", "credential_name": "x_key"}, {"slug": "y", "credential_name": "y_key"}}), resmontest.Scope{Template: "/api/repositories/catalog"})
	a := r.call("list_sources", `{}`)
	if strings.Contains(a.text, "hunter2") || strings.Count(a.text, `"credential_status":null`) != 1 || !strings.Contains(a.text, `"credential_status":"present"`) {
		t.Errorf("%s", a.text)
	}
}

func TestRoutinesAreFilteredHere(t *testing.T) {
	r := small(t)
	all, active := r.good("list_routines", `{}`), r.good("list_routines", `{"active_only":"TRUE"}`)
	if len(all["routines"].([]any)) != 4 || len(active["routines"].([]any)) != 3 || fmt.Sprint(active["count"]) != "3" {
		t.Errorf("%v", active)
	}
	r.fake.Inject(resmontest.Body(200, []map[string]any{
		{"id": 1, "name": "old", "schedule_cron": "* * * * *", "parameters": `{"query":"only a query","repositories":["arxiv"]}`, "is_active": 0},
		{"id": 2, "name": "broken", "parameters": "{", "is_active": 1},
	}), resmontest.Scope{Template: "/api/routines"})
	got := r.call("list_routines", `{}`).text
	want := `{"routines":[{"id":1,"name":"old","schedule":"* * * * *","sources":["arxiv"],"keywords":["only a query"],"last_run":null,"active":false,"missed_fires":null},` +
		`{"id":2,"name":"broken","schedule":null,"sources":null,"keywords":null,"last_run":null,"active":true,"missed_fires":null}],"count":2}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestARoutineIsTotalsAndHoldsNoAddress(t *testing.T) {
	r := small(t)
	a := r.call("get_routine", `{"routine_id":1}`)
	got := decode(t, a.text)
	coverage, delivery := got["coverage"].(map[string]any), got["delivery"].(map[string]any)
	if fmt.Sprint(coverage["off_target_count"]) != "312" || coverage["off_target"] != nil || coverage["cannot_see"] == nil {
		t.Errorf("%v", coverage)
	}
	if fmt.Sprint(delivery["enabled_target_count"]) != "5" || delivery["last_state"] != "failed" || delivery["last_channel"] != "email" || fmt.Sprint(delivery["awaiting_review"]) != "1" ||
		fmt.Sprint(delivery["targets_by_channel"]) != "map[email:2 feed:1 folder:1 webhook:1]" || len(delivery) != 8 {
		t.Errorf("%v", delivery)
	}
	if e := fmt.Sprint(delivery["last_error"]); e != "550 refused the recipient <target> of <target>" {
		t.Errorf("last_error: %s", e)
	}
	if strings.Contains(a.text, resmontest.Planted) {
		t.Errorf("an address is in it: %s", a.text)
	}
	if settings := got["storage_settings"]; settings != `{"export_directory":"<target>","pdf_policy":"save"}` {
		t.Errorf("%v", settings)
	}
	floor := r.good("get_routine", `{"routine_id":3}`)["coverage"].(map[string]any)
	if floor["missed_in_corpus_count_is_lower_bound"] != true || floor["intent_source"] != "stated" {
		t.Errorf("%v", floor)
	}
	none := r.good("get_routine", `{"routine_id":2}`)["delivery"].(map[string]any)
	for _, key := range []string{"last_state", "last_channel", "last_attempts", "last_error", "last_delivered_at_utc"} {
		if v, there := none[key]; !there || v != nil {
			t.Errorf("%s without a delivery: %v", key, v)
		}
	}
	for key, template := range map[string]string{"coverage": "/api/routines/{routine_id}/coverage", "delivery": "/api/routines/{routine_id}/deliveries"} {
		for _, fault := range []resmontest.Fault{resmontest.Status(500), resmontest.NotJSON(), resmontest.WrongType(), resmontest.RouteMissing(), resmontest.CutBody()} {
			r.fake.Clear()
			r.fake.Inject(fault, resmontest.Scope{Template: template})
			if _, there := r.good("get_routine", `{"routine_id":1}`)[key]; there {
				t.Errorf("%s stands there although it was not read", key)
			}
		}
	}
	r.fake.Clear()
	if got := r.refused("get_routine", `{"routine_id":99}`); got.Error != "not_found" {
		t.Errorf("%+v", got)
	}
}

func TestAWholeRecordHidesPlacesInItsSettings(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"an object", `{"storage_settings":{"export_directory":"/home/u/x","pdf_policy":"save","n":3}}`, `{"storage_settings":{"export_directory":"<target>","pdf_policy":"save","n":3}}`},
		{"a string", `{"ai_settings":"{\"local_endpoint\":\"http://h/\",\"model\":\"m\"}"}`, `{"ai_settings":"{\"local_endpoint\":\"<target>\",\"model\":\"m\"}"}`},
		{"inside parameters", `{"parameters":{"ai_settings":{"custom_base_url":"https://h"}}}`, `{"parameters":{"ai_settings":{"custom_base_url":"<target>"}}}`},
		{"a mail address", `{"storage_settings":{"x":"a@example.org"}}`, `{"storage_settings":{"x":"<address>"}}`},
		{"nested", `{"ai_settings":{"lanes":[{"endpoint":"h:1"},"https://h/p","plain"]}}`, `{"ai_settings":{"lanes":[{"endpoint":"<target>"},"<target>","plain"]}}`},
		{"a path without a telling name", `{"ai_settings":{"cmd":"/usr/bin/x --a","w":"C:\\x\\y"}}`, `{"ai_settings":{"cmd":"<target> --a","w":"<target>"}}`},
		{"a credential", `{"ai_settings":{"api_key":"sk-1234","max_tokens":5}}`, `{"ai_settings":{"api_key":"[redacted]","max_tokens":5}}`},
		{"deeper than is looked", `{"ai_settings":` + strings.Repeat(`[`, 20) + `"http://h"` + strings.Repeat(`]`, 20) + `}`, `{"ai_settings":` + strings.Repeat(`[`, 16) + `"<target>"` + strings.Repeat(`]`, 16) + `}`},
		{"nothing to hide", `{"ai_settings":null,"storage_settings":"","url":"https://h"}`, `{"ai_settings":null,"storage_settings":"","url":"https://h"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record, _ := app.ReadObject(json.RawMessage(tt.in))
			if got := string(hidePlaces(record).JSON()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestResultsOfARunArePapersWithIDs(t *testing.T) {
	r := run(t, resmontest.Options{})
	got := r.good("get_execution_results", `{"exec_id":1,"limit":10,"offset":5}`)
	if fmt.Sprint(got["count"]) != "10" || fmt.Sprint(got["total"]) != "97" {
		t.Errorf("%v of %v", got["count"], got["total"])
	}
	for _, id := range ids(t, got["papers"], "id") {
		r.good("explain_match", `{"doc_id":`+id+`}`)
	}
	for _, q := range r.fake.Requests() {
		if strings.Contains(q.Path, "report") {
			t.Errorf("%s", q.Path)
		}
	}
	if end := r.good("get_execution_results", `{"exec_id":1,"offset":97}`); fmt.Sprint(end["count"]) != "0" || fmt.Sprint(end["total"]) != "97" {
		t.Errorf("%v", end)
	}
}

// What resmon refuses to claim must reach the caller: these fields of the answer
// are those of the app, as they are.
func TestCaveatsArePassedOnUnchanged(t *testing.T) {
	asked := time.Now() // of both: the app says when it looked
	r := run(t, resmontest.Options{Data: resmontest.Small, Now: func() time.Time { return asked }})
	tests := []struct {
		name, arguments, path string
		fields                []string
	}{
		{"explain_match", `{"doc_id":1}`, "/api/documents/1/why", []string{"what_resmon_cannot_see", "verdict", "headline", "source"}},
		{"get_search_record", `{"exec_id":1}`, "/api/executions/1/search-record", []string{"caveats", "search", "sources", "deduplication", "identification"}},
		{"get_search_record", `{"exec_id":17}`, "/api/executions/17/search-record", []string{"caveats", "search"}},
		{"get_watchdog_findings", `{"include_muted":true}`, "/api/watchdog?include_muted=true", []string{"findings", "counts", "not_enough_data", "thresholds", "watching", "sufficient", "checked_at"}},
		{"get_watchdog_findings", `{}`, "/api/watchdog", []string{"counts", "not_enough_data", "thresholds", "watching", "sufficient"}},
		{"get_paper_lifecycle", `{"doc_id":2}`, "/api/documents/2/lifecycle", []string{"events", "checked_at", "check_status"}},
		{"get_analytics", `{"view":"discovery-lag"}`, "/api/analytics/discovery-lag", []string{"insufficient_reason", "sufficient", "sample_size"}},
		{"get_execution", `{"exec_id":7}`, "/api/executions/7", []string{"coverage", "interrupted_reason", "identity"}},
		{"get_watch_profile", `{"profile_id":2}`, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name+tt.arguments, func(t *testing.T) {
			got := r.good(tt.name, tt.arguments)
			if tt.path == "" {
				if got["profile"].(map[string]any)["basis_warning"] == nil {
					t.Errorf("%v", got)
				}
				return
			}
			want := decode(t, r.ask(tt.path))
			for _, field := range tt.fields {
				if _, there := want[field]; !there {
					t.Errorf("the fake has no %s", field)
				}
				if g, w := string(app.JSON(got[field])), string(app.JSON(want[field])); g != w {
					t.Errorf("%s: %s, resmon says %s", field, g, w)
				}
			}
		})
	}
}

func TestMutedFindingsAreLeftOutUnlessAskedFor(t *testing.T) {
	r := small(t)
	some, all := r.good("get_watchdog_findings", `{}`), r.good("get_watchdog_findings", `{"include_muted":"true"}`)
	n, m := len(some["findings"].([]any)), len(all["findings"].([]any))
	if n != m-1 || string(app.JSON(some["counts"])) != string(app.JSON(all["counts"])) {
		t.Errorf("%d of %d; %v %v", n, m, some["counts"], all["counts"])
	}
	severities := ids(t, all["findings"], "severity")
	for _, known := range []string{"broken", "unusual", "advice", "withdrawn"} {
		severities = slices.DeleteFunc(severities, func(s string) bool { return s == known })
	}
	if len(severities) == 0 {
		t.Error("a word that nobody knows did not pass")
	}
}

func TestAWindowThatNobodyConfirmedIsSaid(t *testing.T) {
	r := small(t)
	if got := r.good("get_analytics", `{"view":"overview"}`); got["window_note"] != nil {
		t.Errorf("%v", got["window_note"])
	}
	if got := r.good("get_analytics", `{"view":"volume","window":"30d"}`); got["window_note"] == nil {
		t.Error("no note")
	}
	if last := r.sent()[len(r.sent())-1]; last != "GET /api/analytics/publication-volume?window=30d" {
		t.Errorf("%s", last)
	}
	r.fake.Inject(resmontest.Body(200, map[string]any{"window": "30d", "n": 1}), resmontest.Scope{})
	if got := r.good("get_analytics", `{"view":"volume","window":"30d"}`); got["window_note"] != nil {
		t.Error("it was confirmed")
	}
	if got := r.refused("get_analytics", `{"view":"growth"}`); !strings.Contains(got.Message, "overview, volume, sources, keywords, routine-health, discovery-lag") {
		t.Errorf("%+v", got)
	}
}

func TestReferencesAreOneTextOrTheArray(t *testing.T) {
	r := small(t)
	for format, part := range map[string]string{"bibtex": "@", "ris": "TY  -", "csv": "title,authors"} {
		for _, form := range []string{`"exec_id":1`, `"doc_ids":[1,"2"]`} {
			var text string
			if a := r.call("export_references", `{`+form+`,"format":"`+format+`"}`); json.Unmarshal([]byte(a.text), &text) != nil || !strings.Contains(text, part) {
				t.Errorf("%s %s: %s", form, format, a.text)
			}
		}
	}
	for _, form := range []string{`"exec_id":1`, `"doc_ids":[1,2]`} {
		var list []map[string]any
		if a := r.call("export_references", `{`+form+`,"format":"json"}`); json.Unmarshal([]byte(a.text), &list) != nil || len(list) == 0 {
			t.Errorf("%s: %s", form, a.text)
		}
	}
	for format, want := range map[string]string{"bibtex": `""`, "json": `[]`} {
		if a := r.call("export_references", `{"doc_ids":[99999],"format":"`+format+`"}`); a.text != want {
			t.Errorf("unknown ids: %s", a.text)
		}
	}
	r.fake.Forget()
	for _, bad := range []string{`{}`, `{"exec_id":1,"doc_ids":[1]}`, `{"doc_ids":[]}`, `{"doc_ids":"12"}`, `{"doc_ids":[1.5]}`, `{"exec_id":1,"format":"xml"}`, `{"exec_id":"x"}`} {
		if got := r.refused("export_references", bad); got.Error != "invalid_argument" {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if len(r.sent()) > 0 {
		t.Errorf("sent %q", r.sent())
	}
}

func TestAProfileInAListIsItsNamesAndSchemes(t *testing.T) {
	r := small(t)
	r.fake.Inject(resmontest.Body(200, map[string]any{"profiles": []map[string]any{{"id": 1, "kind": "person", "display_name": "Jane Doe", "names": []any{map[string]string{"value": "Jane Doe"}, map[string]string{"value": "J. Doe"}},
		"identifiers": rawJSON(`{"scopus":{"value":"7"},"orcid":{"value":"0000-0002-1825-0097"}}`), "affiliations": []string{"X"}, "more": 1}}}), resmontest.Scope{Template: "/api/profiles"})
	want := `{"profiles":[{"id":1,"kind":"person","name":"Jane Doe","display_name":"Jane Doe","names":["Jane Doe","J. Doe"],"aliases":["J. Doe"],"identifiers":["orcid","scopus"],"orcid":"0000-0002-1825-0097","affiliations":["X"],"basis_warning":null}],"count":1}`
	if a := r.call("list_watch_profiles", `{}`); a.text != want {
		t.Errorf("got  %s\nwant %s", a.text, want)
	}
}

func TestEveryMatchSaysOnWhatBasis(t *testing.T) {
	r := small(t)
	got := r.good("get_profile_matches", `{"profile_id":1}`)
	bases := map[string]bool{}
	for _, row := range got["matches"].([]any) {
		m := row.(map[string]any)
		for _, key := range []string{"basis", "matched_author", "evidence"} {
			if m[key] == nil {
				t.Errorf("no %s: %v", key, m)
			}
		}
		bases[m["basis"].(string)] = true
	}
	if len(bases) != 3 {
		t.Errorf("%v", bases)
	}
	for _, id := range []string{"1", "4"} {
		means := r.good("get_profile_matches", `{"profile_id":`+id+`}`)["what_a_basis_means"].(map[string]any)
		for _, basis := range []string{"identifier", "name+affiliation", "name_only"} {
			if means[basis] == nil {
				t.Errorf("profile %s: %s is not explained", id, basis)
			}
		}
	}
	warned := 0
	for _, row := range r.good("list_watch_profiles", `{}`)["profiles"].([]any) {
		warning, there := row.(map[string]any)["basis_warning"]
		if !there {
			t.Errorf("%v", row)
		}
		if warning != nil {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("%d warnings", warned)
	}
	if got := r.refused("list_watch_profiles", `{"kind":"robot"}`); got.Error != "invalid_argument" {
		t.Errorf("%+v", got)
	}
	if got := r.good("list_watch_profiles", `{"kind":"institution"}`); len(got["profiles"].([]any)) != 1 {
		t.Errorf("%v", got)
	}
	r.fake.Inject(resmontest.Status(500), resmontest.Scope{Template: "/api/profiles/{profile_id}/matches"})
	if got := r.refused("get_watch_profile", `{"profile_id":1}`); got.Error != "upstream_error" {
		t.Errorf("a profile without its counts: %+v", got)
	}
}

// ask gets what the app itself says, past the adapter.
func (r *rig) ask(path string) string {
	r.t.Helper()
	return askFake(r.t, r.fake, path)
}
