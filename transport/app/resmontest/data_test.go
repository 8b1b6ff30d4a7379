package resmontest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSearchWalksTheCorpusOnce(t *testing.T) {
	f := Run(t, Options{})
	for _, sort := range []string{"newest", "similarity"} {
		var ids []int64
		var cursor any
		for pages := 0; pages == 0 || cursor != nil; pages++ {
			body := encode(object{"query": QueryAll, "limit": 25, "sort": sort, "cursor": cursor})
			var page struct {
				Results []document
				HasMore bool `json:"has_more"`
				Next    any  `json:"next_cursor"`
				Total   int
			}
			if err := json.Unmarshal(must(t, f, "POST", "/api/explorer/search", string(body)).body, &page); err != nil {
				t.Fatal(err)
			}
			for _, d := range page.Results {
				ids = append(ids, d.ID)
			}
			if cursor = page.Next; page.HasMore != (cursor != nil) || page.Total != 130 || len(page.Results) > 25 {
				t.Fatalf("%d rows, has_more %v, next %v, total %d", len(page.Results), page.HasMore, cursor, page.Total)
			}
		}
		if sort == "similarity" && !slices.Equal(ids, f.SemanticOrder(QueryAll)) {
			t.Error("the pages do not follow the ranking")
		}
		slices.Sort(ids)
		if len(ids) != 130 || len(slices.Compact(ids)) != 130 {
			t.Errorf("%s: %d documents, %d of them once", sort, len(ids), len(slices.Compact(ids)))
		}
	}
}

func TestSearchNarrows(t *testing.T) {
	f := Run(t, Options{})
	total := func(body object) int {
		n, _ := must(t, f, "POST", "/api/explorer/search", string(encode(body))).object(t)["total"].(json.Number).Int64()
		return int(n)
	}
	all := total(object{})
	tests := []struct {
		name string
		body object
		want func(int) bool
	}{
		{"by all words", object{"query": "neural operators"}, func(n int) bool { return n > 0 && n < all/2 }},
		{"by a word and one that is nowhere", object{"query": "neural zebra"}, func(n int) bool { return n == 0 }},
		{"by a source", object{"sources": []string{"arxiv"}}, func(n int) bool { return n == 26 }},
		{"by a first date, without the undated", object{"date_from": "2000-01-01"}, func(n int) bool { return n == 127 }},
		{"by a last date, without the undated", object{"date_to": "2026-10-01"}, func(n int) bool { return n == 127 }},
		{"by a last date", object{"date_to": "2026-08-01"}, func(n int) bool { return n > 0 && n < all/2 }},
		{"not by words where it ranks", object{"query": "a zebra", "sort": "similarity"}, func(n int) bool { return n == all }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n := total(tt.body); !tt.want(n) {
				t.Errorf("%d of %d", n, all)
			}
		})
	}
	for _, cursor := range []string{"garbage", "2026-01-01|", "|x", "a'b"} {
		if got := ask(t, f, "POST", "/api/explorer/search", string(encode(object{"cursor": cursor}))); got.status != 400 {
			t.Errorf("cursor %q: %d %s", cursor, got.status, got.body)
		}
	}
	// Two papers of one date, and the undated ones last: ids decide, descending.
	var order []int64
	for _, row := range must(t, f, "POST", "/api/explorer/search", `{"limit":130}`).object(t)["results"].([]any) {
		id, _ := row.(object)["id"].(json.Number).Int64()
		order = append(order, id)
	}
	if !slices.Equal(order[:4], []int64{1, 2, 5, 4}) || !slices.Equal(order[127:], []int64{130, 9, 3}) {
		t.Errorf("newest first begins with %v and ends with %v", order[:4], order[127:])
	}
	// A page behind a row that is gone begins at the next one.
	o := must(t, f, "POST", "/api/explorer/search", `{"cursor":"2026-09-01|999999","limit":1}`).object(t)
	if row := o["results"].([]any)[0].(object); row["pub_sort"].(string) > "2026-09-01" {
		t.Errorf("it begins at %v", row)
	}
}

func TestSemanticRanksInTheKnownOrder(t *testing.T) {
	f := Run(t, Options{})
	up, down := f.SemanticOrder(QueryAscending), f.SemanticOrder(QueryDescending)
	if !slices.IsSorted(up[:104]) || len(up) != 130 || up[0] != 1 {
		t.Errorf("%s ranks %v", QueryAscending, up)
	}
	slices.Reverse(down[:104])
	if !slices.Equal(up[:104], down[:104]) {
		t.Error("the two queries do not rank in opposite orders")
	}
	o := must(t, f, "POST", "/api/explorer/search", string(encode(object{"query": QueryAscending, "sort": "similarity", "limit": 130}))).object(t)
	nulls, last := 0, -1.0
	for _, row := range o["results"].([]any) {
		d, is := row.(object)["distance"].(json.Number)
		if !is {
			nulls++
			continue
		}
		v, _ := d.Float64()
		if nulls > 0 || v <= last {
			t.Fatalf("distance %v after %v, with %d unranked before", v, last, nulls)
		}
		last = v
	}
	if nulls != 26 || o["ranked_count"] != json.Number("104") || o["unranked_count"] != json.Number("26") || o["model"] != embeddingModel {
		t.Errorf("%d unranked; %v %v %v", nulls, o["ranked_count"], o["unranked_count"], o["model"])
	}
}

func TestSimilarNamesTheNearestOrTheReason(t *testing.T) {
	f := Run(t, Options{})
	for path, want := range map[string]int{"/api/documents/1/similar": 10, "/api/documents/1/similar?k=50": 50, "/api/documents/1/similar?k=90": 50, "/api/documents/1/similar?k=0": 1,
		"/api/documents/5/similar": 0, "/api/documents/999999/similar": 0} {
		o := must(t, f, "GET", path, "").object(t)
		if rows := o["neighbours"].([]any); len(rows) != want || (o["reason"] != nil) != (want == 0) {
			t.Errorf("%s: %d rows, reason %v", path, len(rows), o["reason"])
		}
	}
	if got := get(t, f, "/api/documents/1/similar?k=x"); got.status != 422 {
		t.Errorf("k=x: %d", got.status)
	}
}

// The rows that the tests of the surface look for.
func TestStandardDataHasOneOfEverything(t *testing.T) {
	f := Run(t, Options{})
	t.Run("documents", func(t *testing.T) {
		w := f.world
		for name, is := range map[string]func(*document) bool{
			"undated": func(d *document) bool { return d.PublicationDate == nil }, "no doi": func(d *document) bool { return d.DOI == nil },
			"no authors": func(d *document) bool { return d.Authors == nil }, "no vector": func(d *document) bool { return !d.embedded },
		} {
			n := countOf(w.documents, is)
			if n == 0 || n > 30 || (name == "undated" && n != 3) {
				t.Errorf("%d with %s", n, name)
			}
		}
	})
	t.Run("executions", func(t *testing.T) {
		seen := map[string]int{}
		var all []object
		for offset := 0; offset < 1300; offset += 500 {
			all = append(all, must(t, f, "GET", fmt.Sprintf("/api/executions?limit=500&offset=%d", offset), "").list(t)...)
		}
		for i, e := range all {
			seen["status "+e["status"].(string)]++
			seen[fmt.Sprint("reason ", e["interrupted_reason"])]++
			seen[fmt.Sprint("routine ", e["routine_id"])]++
			if i > 0 && e["id"].(float64) >= all[i-1]["id"].(float64) {
				t.Fatal("not newest first")
			}
		}
		for _, want := range []string{"status running", "status completed", "status failed", "status cancelled", "status interrupted", "status archived",
			"reason owner_dead", "reason daemon_restart", "reason unknown", "reason <nil>", "routine 1", "routine 2", "routine 3", "routine 4", "routine <nil>"} {
			if seen[want] == 0 {
				t.Errorf("none has %s", want)
			}
		}
		if len(all) != 1300 {
			t.Errorf("%d executions", len(all))
		}
	})
	t.Run("special executions", func(t *testing.T) {
		one := func(n int) object {
			return must(t, f, "GET", fmt.Sprintf("/api/executions/%d", f.ExecutionID(n)), "").object(t)
		}
		var events []object
		if err := json.Unmarshal([]byte(one(RunWithEvents)["progress_events"].(string)), &events); err != nil || len(events) != 60 {
			t.Errorf("%d events, %v", len(events), err)
		}
		var parameters struct {
			Starts map[string]object `json:"default_starts"`
		}
		if err := json.Unmarshal([]byte(one(RunWithStarts)["parameters"].(string)), &parameters); err != nil || len(parameters.Starts["biorxiv"]) != 4 {
			t.Errorf("default starts %v, %v", parameters, err)
		}
		coverage := one(RunInPart)["coverage"].(object)
		if counts := coverage["counts"].(object); counts["in_part"] != json.Number("1") || counts["answered"] != json.Number("2") {
			t.Errorf("counts %v", counts)
		}
		if from, into := one(RunRestart)["restarted_from"], one(RunInterrupted)["restarted_into"].([]any); fmt.Sprint(from) != fmt.Sprint(f.ExecutionID(RunInterrupted)) || fmt.Sprint(into[0]) != fmt.Sprint(f.ExecutionID(RunRestart)) {
			t.Errorf("restarted from %v into %v", from, into)
		}
	})
	t.Run("routines", func(t *testing.T) {
		for n, want := range map[int]struct {
			off, missed float64
			floor       bool
			source      string
		}{RoutineActive: {312, 40, false, "keywords"}, RoutineIntent: {0, 63, true, "stated"}} {
			o := must(t, f, "GET", fmt.Sprintf("/api/routines/%d/coverage", f.RoutineID(n)), "").object(t)
			offTarget, _ := o["off_target_total"].(json.Number).Float64()
			missed, _ := o["missed_in_corpus_total"].(json.Number).Float64()
			if offTarget != want.off || missed != want.missed || o["missed_in_corpus_total_is_lower_bound"] != want.floor || o["intent_source"] != want.source || len(o["missed_in_corpus"].([]any)) != 25 {
				t.Errorf("routine %d: %v", n, o)
			}
		}
		delivered := must(t, f, "GET", fmt.Sprintf("/api/routines/%d/deliveries?limit=1", f.RoutineID(RoutineActive)), "").object(t)
		summary := delivered["summary"].(object)
		if len(summary["targets"].(object)) != 4 || summary["enabled_target_count"] != json.Number("5") || summary["last"].(object)["state"] != "failed" || len(delivered["deliveries"].([]any)) != 1 ||
			!strings.Contains(summary["last"].(object)["last_error"].(string), Planted) {
			t.Errorf("%v", delivered)
		}
		for _, n := range []int{RoutineInactive, RoutineWatch} {
			if last := must(t, f, "GET", fmt.Sprintf("/api/routines/%d/deliveries", f.RoutineID(n)), "").object(t)["summary"].(object)["last"]; last != nil {
				t.Errorf("routine %d had a delivery: %v", n, last)
			}
		}
		for _, n := range []int{RoutineActive, RoutineWatch} {
			if got := get(t, f, fmt.Sprintf("/api/routines/%d", f.RoutineID(n))); strings.Count(got.text(), Planted) < 2 {
				t.Errorf("routine %d has nothing planted in its settings: %s", n, got.body)
			}
		}
	})
	t.Run("profiles", func(t *testing.T) {
		bases := map[int][3]bool{ProfileWithORCID: {true, true, true}, ProfileNameOnly: {false, false, true}, ProfileInstitution: {}, ProfileUnmatched: {}}
		for n, want := range bases {
			o := must(t, f, "GET", fmt.Sprintf("/api/profiles/%d/matches?limit=1", f.ProfileID(n)), "").object(t)
			by := o["by_basis"].(object)
			for i, basis := range []string{"identifier", "name+affiliation", "name_only"} {
				if (by[basis] != json.Number("0")) != want[i] {
					t.Errorf("profile %d: %v", n, by)
				}
			}
		}
		for n, warned := range map[int]bool{ProfileWithORCID: false, ProfileNameOnly: true, ProfileInstitution: false} {
			if o := must(t, f, "GET", fmt.Sprintf("/api/profiles/%d", f.ProfileID(n)), "").object(t); (o["basis_warning"] != nil) != warned {
				t.Errorf("profile %d: %v", n, o)
			}
		}
		if rows := must(t, f, "GET", "/api/profiles?kind=institution", "").object(t)["profiles"].([]any); len(rows) != 1 {
			t.Errorf("%d institutions", len(rows))
		}
		first := must(t, f, "GET", "/api/profiles/1/matches?limit=7&offset=38", "").object(t)
		if len(first["matches"].([]any)) != 2 || first["total"] != json.Number("40") {
			t.Errorf("the last page has %d of %v", len(first["matches"].([]any)), first["total"])
		}
	})
	t.Run("findings", func(t *testing.T) {
		o := must(t, f, "GET", "/api/watchdog", "").object(t)
		seen := map[any]bool{}
		for _, row := range o["findings"].([]any) {
			finding := row.(object)
			seen[finding["severity"]], seen[finding["kind"]] = true, true
			seen[finding["muted"]] = true
		}
		for _, want := range []any{"broken", "unusual", "advice", "withdrawn", "curious", "source_in_part", true, false} {
			if !seen[want] {
				t.Errorf("no finding is %v", want)
			}
		}
		if counts := o["counts"].(object); counts["muted"] != json.Number("1") || counts["broken"] != json.Number("1") || counts["alarms"] != json.Number("2") {
			t.Errorf("counts %v", counts)
		}
	})
	t.Run("sources", func(t *testing.T) {
		seen := map[any]bool{}
		status := must(t, f, "GET", "/api/credentials", "").object(t)["credentials"].(object)
		for _, row := range must(t, f, "GET", "/api/repositories/catalog", "").list(t) {
			seen[row["api_key_requirement"]] = true
			if alias, is := row["credential_name"].(string); is {
				seen[status[alias].(object)["status"]] = true
			}
		}
		for _, want := range []any{"none", "optional", "recommended", "required", "present", "absent", "unreadable"} {
			if !seen[want] {
				t.Errorf("no source has %v", want)
			}
		}
	})
	t.Run("lifecycle and search records", func(t *testing.T) {
		for n, want := range map[int]struct {
			events int
			looked bool
		}{1: {1, true}, 2: {0, true}, 4: {2, true}, 5: {0, false}} {
			o := must(t, f, "GET", fmt.Sprintf("/api/documents/%d/lifecycle", n), "").object(t)
			if len(o["events"].([]any)) != want.events || (o["checked_at"] != nil) != want.looked {
				t.Errorf("document %d: %v", n, o)
			}
		}
		for n, kept := range map[int]bool{RunOldRecord: false, RunWithEvents: true} {
			o := must(t, f, "GET", fmt.Sprintf("/api/executions/%d/search-record", f.ExecutionID(n)), "").object(t)
			if (o["search"].(object)["queries_as_sent"] != nil) != kept || len(o["caveats"].([]any)) < 3 {
				t.Errorf("execution %d: %v", n, o)
			}
		}
	})
}

func TestReferencesOfAnExecution(t *testing.T) {
	f := Run(t, Options{})
	rows := must(t, f, "GET", "/api/executions/1/references?format=json&include_ids=true", "").list(t)
	if len(rows) != 97 {
		t.Fatalf("%d papers", len(rows))
	}
	ids := map[float64]bool{}
	for i, row := range rows {
		id, _ := row["id"].(float64)
		ids[id] = true
		if len(row) != 10 {
			t.Fatalf("row %v", row)
		}
		if i > 0 && fmt.Sprint(row["publication_date"]) > fmt.Sprint(rows[i-1]["publication_date"]) && row["publication_date"] != nil {
			t.Fatal("not by date, newest first")
		}
		must(t, f, "GET", fmt.Sprintf("/api/documents/%.0f/why", id), "")
	}
	if len(ids) != 97 {
		t.Errorf("%d ids", len(ids))
	}
	if rows := must(t, f, "GET", "/api/executions/1/references?format=json", "").list(t); len(rows[0]) != 9 {
		t.Errorf("without ids: %v", rows[0])
	}
	if got := must(t, f, "GET", "/api/executions/1/references?format=csv&include_ids=true", ""); !strings.HasPrefix(got.text(), "id,title,") {
		t.Errorf("%.60s", got.body)
	}
	for body, want := range map[string]string{`{"document_ids":[999999]}`: "", `{"document_ids":[]}`: "", `{"document_ids":[999999],"format":"json"}`: "[]"} {
		if got := must(t, f, "POST", "/api/export/references", body); got.text() != want || got.header.Get("X-Resmon-Document-Count") != "0" {
			t.Errorf("%s: %q", body, got.body)
		}
	}
	if got := must(t, f, "POST", "/api/export/references", `{"document_ids":[3,1,3,2]}`); got.header.Get("X-Resmon-Document-Count") != "3" || strings.Count(got.text(), "@") != 3 {
		t.Errorf("a document twice: %s", got.body)
	}
}

func TestBoundsOfLists(t *testing.T) {
	f := Run(t, Options{Data: Small})
	for path, want := range map[string]int{
		"/api/executions?limit=501": 422, "/api/executions?limit=x": 422, "/api/executions?offset=-1": 422, "/api/executions?limit=500": 200, "/api/executions?offset=1000": 200,
		"/api/profiles/1/matches?limit=0": 422, "/api/profiles/99/matches": 404, "/api/profiles/99": 404, "/api/routines/99/deliveries": 404, "/api/routines/99/coverage": 404, "/api/routines/1/deliveries?limit=0": 422,
	} {
		if got := get(t, f, path); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
	if rows := must(t, f, "GET", "/api/executions", "").list(t); len(rows) != 24 {
		t.Errorf("%d rows", len(rows))
	}
}

// What is planted stands only where the adapter must not look, or must clean.
func TestPlantedValuesStandOnlyWhereTheyBelong(t *testing.T) {
	for _, size := range []Size{Small, Standard, Large} {
		f := Run(t, Options{Data: size})
		for _, p := range Pairs() {
			if p.Method != "GET" {
				continue
			}
			allowed := slices.Contains([]string{"/api/routines", "/api/routines/{routine_id}", "/api/routines/{routine_id}/deliveries",
				"/api/settings/ai", "/api/settings/email", "/api/settings/embeddings", "/api/settings/storage"}, p.Template)
			if got := get(t, f, instance(f, p.Template)); strings.Contains(got.text(), Planted) != allowed {
				t.Errorf("data %d, %s: planted %v, want %v", size, p, !allowed, allowed)
			}
		}
	}
}

func TestLargeDataIsLarge(t *testing.T) {
	f := Run(t, Options{Data: Large})
	for path, least := range map[string]int{"/api/routines": 40, "/api/repositories/catalog": 30, "/api/executions": 50} {
		if rows := must(t, f, "GET", path, "").list(t); len(rows) < least {
			t.Errorf("%s: %d rows", path, len(rows))
		}
	}
	o := must(t, f, "POST", "/api/explorer/search", `{"query":"study","limit":100}`)
	if len(o.body) < 100_000 || o.object(t)["total"] != json.Number("2000") {
		t.Errorf("%d bytes, total %v", len(o.body), o.object(t)["total"])
	}
	if rows := must(t, f, "GET", "/api/profiles", "").object(t)["profiles"].([]any); len(rows) != 60 {
		t.Errorf("%d profiles", len(rows))
	}
}
