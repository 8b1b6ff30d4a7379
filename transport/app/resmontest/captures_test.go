package resmontest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// capture is one recorded answer of resmon 1.6.1.
type capture struct {
	Request struct {
		Method, Path string
		Body         json.RawMessage
	}
	Status   int
	Headers  map[string]string
	BodyKind string `json:"body_kind"`
	Body     json.RawMessage
}

// asked says how the fake is asked for what a capture shows. The zero value asks
// as it was recorded.
type asked struct {
	path    string       // instead of the recorded one, where the data has it elsewhere
	with    Options      // beside the small data set
	first   [3]string    // a request before: method, path, body
	fault   func() Fault // what makes a newer resmon answer as the old one
	newer   string       // why the fake answers otherwise: 1.6.1 is older than the contract
	body    string       // and what it answers then, where that is an error
	outside bool         // no route of the contract: the fake does not have it
	texts   func(*testing.T, *Fake, string)
}

var captured = map[string]asked{
	"analytics_discovery-lag":        {},
	"analytics_keyword-contribution": {},
	"analytics_overview":             {},
	"analytics_overview_window":      {},
	"analytics_publication-volume":   {},
	"analytics_routine-health":       {},
	"analytics_source-contribution":  {},
	"catalog":                        {},
	"credentials":                    {},
	"execution_finished_no_network":  {path: "/api/executions/5"},
	"execution_get":                  {},
	"execution_get_404":              {},
	"execution_running":              {path: "/api/executions/16"},
	"executions_list":                {},
	"executions_list_422":            {},
	"explorer_search":                {},
	"explorer_search_bad_body":       {},
	"explorer_search_bad_cursor":     {},
	"explorer_search_empty":          {},
	"explorer_search_page2":          {},
	"export_references":              {texts: capturedDocuments},
	"export_references_422":          {},
	"export_references_badfmt":       {newer: "json became a format", body: `{"detail":"Unknown export format 'xml'. Expected one of: bibtex, csv, json, ris."}`},
	"health":                         {},
	"lifecycle":                      {path: "/api/documents/5/lifecycle"},
	"lifecycle_404":                  {},
	"lifecycle_retraction":           {},
	"method_not_allowed":             {},
	"not_found":                      {},
	"profiles_absent":                {newer: "watch profiles became a route", fault: RouteMissing},
	"references_404":                 {},
	"references_bibtex":              {texts: capturedDocuments},
	"references_csv":                 {texts: capturedDocuments},
	"references_json":                {newer: "json became a format"},
	"references_ris":                 {texts: capturedDocuments},
	"routine_activate":               {},
	"routine_activate_404":           {},
	"routine_create":                 {},
	"routine_create_422":             {},
	"routine_deactivate":             {},
	"routine_get":                    {},
	"routine_get_404":                {},
	"routine_get_422":                {},
	"routine_run_absent":             {newer: "a run by hand became a route", fault: RouteMissing},
	"routines_list":                  {},
	"search_record":                  {path: "/api/executions/17/search-record"},
	"search_record_404":              {},
	"search_record_no_network":       {path: "/api/executions/5/search-record"},
	"settings_execution_put":         {outside: true},
	"settings_get_ai":                {},
	"settings_get_ai_after":          {first: [3]string{"PUT", "/api/settings/ai", `{"settings":{"ai_model":"opus"}}`}},
	"settings_get_assistant":         {newer: "the assistant became a group", fault: RouteMissing},
	"settings_get_cloud":             {outside: true},
	"settings_get_email":             {},
	"settings_get_embeddings":        {newer: "embeddings became a group", fault: RouteMissing},
	"settings_get_execution":         {outside: true},
	"settings_get_notifications":     {},
	"settings_get_storage":           {},
	"settings_put_422":               {},
	"settings_put_ai":                {},
	"settings_put_notifications":     {},
	"settings_put_notifications_400": {},
	"similar_absent":                 {newer: "similar papers became a route", fault: RouteMissing},
	"sweep":                          {},
	"sweep_422":                      {},
	"sweep_429":                      {with: Options{MaxRuns: 1}, first: [3]string{"POST", "/api/search/sweep", `{"query":"perovskite","repositories":["arxiv"],"max_results":5}`}},
	"sweep_emptysources":             {},
	"sweep_slot1":                    {},
	"watchdog":                       {},
	"watchdog_findings":              {},
	"watchdog_include_muted":         {},
	"why":                            {path: "/api/documents/6/why"},
	"why_404":                        {},
	"why_nomatch":                    {path: "/api/documents/1/why"},
}

// additions are the keys that the contract promises and 1.6.1 does not have, by
// route. A key below one of them needs no line of its own.
var additions = []struct {
	route, why string
	keys       []string
}{
	{"GET /api/health", "identity of the serving process; states of the parts", []string{".identity", ".embeddings", ".scheduler", ".daemon"}},
	{"GET /api/executions/{exec_id}", "interruption, ownership, AI lane, coverage and identity", []string{".interrupted_reason", ".owner_pid", ".owner_runtime_id", ".last_seen_at_utc",
		".restarted_from", ".restarted_into", ".ai_lane", ".coverage", ".identity", ".source_outcomes"}},
	{"GET /api/executions", "interruption and outcomes", []string{"[].interrupted_reason", "[].owner_pid", "[].owner_runtime_id", "[].last_seen_at_utc", "[].restarted_from", "[].ai_lane", "[].source_outcomes"}},
	{"GET /api/executions/{exec_id}/search-record", "what each source was sent, and why it has no records", []string{".search.queries_as_sent", ".sources[].zero_reason", ".sources[].zero_detail"}},
	{"POST /api/explorer/search", "the order that was served", []string{".sort"}},
	{"GET /api/repositories/catalog", "attribution and the limits of a source", []string{"[].attribution", "[].attribution_requirement", "[].constraints", "[].notices", "[].result_order"}},
	{"GET /api/routines", "intent and missed fires", []string{"[].intent", "[].missed_fires"}},
	{"GET /api/routines/{routine_id}", "intent and missed fires", []string{".intent", ".missed_fires", ".missed_fire_details"}},
	{"GET /api/analytics/routine-health", "missed fires", []string{".routines[].missed_fires", ".routines[].last_missed_fire_at"}},
	{"GET /api/analytics/overview", "missed fires", []string{".routine_health.routines[].missed_fires", ".routine_health.routines[].last_missed_fire_at"}},
	{"GET /api/settings/ai", "keys that the contract counts", []string{".ai_chain", ".ai_local_endpoint", ".ai_cli_path", ".ai_subscription_doc_cap", ".ai_effort"}},
}

// dictionaries are objects whose keys are data.
var dictionaries = []string{".credentials", ".series[].groups", ".publication_volume.series[].groups"}

func TestEveryCaptureIsAskedFor(t *testing.T) {
	dir := captures(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	slices.Sort(names)
	if known := slices.Sorted(maps.Keys(captured)); !slices.Equal(names, known) {
		t.Errorf("the captures are\n%q\nand the table has\n%q", names, known)
	}
}

func TestAnswersHaveTheShapeOfTheCapturedOnes(t *testing.T) {
	dir := captures(t)
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(captured)) {
		t.Run(name, func(t *testing.T) { compareCapture(t, dir, name, captured[name], used) })
	}
	for _, a := range additions {
		for _, key := range a.keys {
			if !used[a.route+" "+key] {
				t.Errorf("%s: no answer has the added key %s, or a capture has it already", a.route, key)
			}
		}
	}
}

func compareCapture(t *testing.T, dir, name string, how asked, used map[string]bool) {
	c := load(t, dir, name)
	o := how.with
	o.Data = Small
	f := Run(t, o)
	if how.texts != nil {
		how.texts(t, f, dir)
	}
	if how.first[0] != "" {
		must(t, f, how.first[0], how.first[1], how.first[2])
	}
	path, body := c.Request.Path, string(c.Request.Body)
	if how.path != "" {
		path = how.path
	}
	if body == "null" {
		body = ""
	}
	got := ask(t, f, c.Request.Method, path, body)
	switch {
	case how.outside:
		if got.status != http.StatusNotFound || got.text() != `{"detail":"Not Found"}` {
			t.Errorf("a route that the contract keeps out of reach answers %d %s", got.status, got.body)
		}
		return
	case how.newer != "" && how.body != "":
		sameJSON(t, got.body, []byte(how.body))
		if got.status != c.Status {
			t.Errorf("status %d, want %d", got.status, c.Status)
		}
		return
	case how.newer != "":
		if got.status != http.StatusOK {
			t.Fatalf("%s, but it answers %d %s", how.newer, got.status, got.body)
		}
		if how.fault == nil {
			return
		}
		f.Inject(how.fault(), Scope{})
		got = ask(t, f, c.Request.Method, path, body)
	}
	if got.status != c.Status {
		t.Fatalf("status %d, want %d: %s", got.status, c.Status, got.body)
	}
	sameHeaders(t, got.header, c.Headers)
	switch {
	case c.BodyKind == "text":
		var want string
		if err := json.Unmarshal(c.Body, &want); err != nil {
			t.Fatal(err)
		}
		if got.text() != want {
			t.Errorf("got\n%s\nwant\n%s", got.body, want)
		}
	case c.Status >= 400:
		sameJSON(t, got.body, c.Body)
	default:
		requests := f.Requests()
		sameShape(t, requests[len(requests)-1].Pair().String(), got.body, c.Body, used)
	}
}

func captures(t *testing.T) string {
	t.Helper()
	dir, found := ContractsDir()
	if !found {
		t.Skip("no shared/contracts beside the project: the captured answers stay there")
	}
	return filepath.Join(dir, "resmon-captures")
}

func load(t *testing.T, dir, name string) capture {
	t.Helper()
	var c capture
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// capturedDocuments puts the documents of the captures into the corpus, so that
// exported text can be compared letter by letter.
func capturedDocuments(t *testing.T, f *Fake, dir string) {
	var text string
	if err := json.Unmarshal(load(t, dir, "references_csv").Body, &text); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var page struct{ Results []*document }
	if err := json.Unmarshal(load(t, dir, "explorer_search_page2").Body, &page); err != nil {
		t.Fatal(err)
	}
	docs := page.Results
	for i, row := range rows[1:] {
		docs = append(docs, &document{ID: int64(2 - i), Title: row[0], Authors: &row[1], PublicationDate: &row[2], PubSort: row[2], DOI: &row[3], URL: &row[4],
			SourceRepository: row[5], ExternalID: row[6], Categories: &row[7], Abstract: &row[8]})
	}
	slices.SortFunc(docs, func(a, b *document) int { return int(a.ID - b.ID) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.documents = docs
	f.world.executions[0].results = []int64{1, 2}
}

func sameHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, got.Get(name), value)
		}
	}
}

func sameJSON(t *testing.T, got, want []byte) {
	t.Helper()
	canonical := func(text []byte) string {
		var v any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return string(encode(v))
	}
	if g, w := canonical(got), canonical(want); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

var pairLine = regexp.MustCompile(`^(GET|POST|PUT) (/api/\S+)$`)

func TestPairsAreThoseOfTheContract(t *testing.T) {
	dir, found := ContractsDir()
	if !found {
		t.Skip("no shared/contracts beside the project")
	}
	text, err := os.ReadFile(filepath.Join(dir, "resmon-pairs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][2]string
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var want []Pair
	for _, p := range list {
		want = append(want, Pair{p[0], p[1]})
	}
	if got := Pairs(); !slices.Equal(got, want) || len(got) != 44 {
		t.Errorf("%d pairs\n%v\nwant %d\n%v", len(got), got, len(want), want)
	}
	for _, p := range Pairs() {
		if !pairLine.MatchString(p.String()) {
			t.Errorf("%s is a route that no surface may have", p)
		}
	}
}

func TestSettingsAreThoseOfTheContract(t *testing.T) {
	dir, found := ContractsDir()
	if !found {
		t.Skip("no shared/contracts beside the project")
	}
	text, err := os.ReadFile(filepath.Join(dir, "resmon-settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct{ Writable, Withheld []string }
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	total := 0
	for group, keys := range SettingKeys() {
		all := slices.Sorted(slices.Values(slices.Concat(want[group].Writable, want[group].Withheld)))
		slices.Sort(keys)
		if !slices.Equal(keys, all) {
			t.Errorf("%s has %v, want %v", group, keys, all)
		}
		total += len(keys)
		for _, s := range settingKeys[group] {
			if strings.Contains(fmt.Sprint(s.value), Planted) && !slices.Contains(want[group].Withheld, s.key) {
				t.Errorf("%s is writable, so that its value may be shown, and is planted", s.key)
			}
		}
	}
	if total != 39 {
		t.Errorf("%d keys, want 39", total)
	}
}
