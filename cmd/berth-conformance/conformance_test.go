//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAScenarioIsJudgedByItsWorstCheck(t *testing.T) {
	check1 := func(id, status string) check { return check{ID: id, Status: status, Description: "what it is about"} }
	for _, tt := range []struct {
		name   string
		checks []check
		want   verdict
		passed int
		why    string
	}{
		{"nothing", nil, nothing, 0, ""},
		{"only the schema", []check{check1(schemaCheck, "SUCCESS")}, nothing, 1, ""},
		{"skipped", []check{check1("a", "SKIPPED"), check1("b", "INFO")}, nothing, 0, ""},
		{"all passed", []check{check1("a", "SUCCESS"), check1(schemaCheck, "SUCCESS")}, passed, 2, ""},
		{"a warning", []check{check1("a", "SUCCESS"), check1("b", "WARNING")}, warned, 1, "warning b: what it is about"},
		{"a failure", []check{check1("a", "SUCCESS"), check1("b", "WARNING"), {ID: "c", Status: "FAILURE", ErrorMessage: "said so"}}, failed, 1, "failure c: said so"},
		{"the schema broken", []check{check1("a", "SUCCESS"), check1(schemaCheck, "FAILURE")}, failed, 1, "failure wire-schema-valid: what it is about"},
	} {
		got := judge(tt.checks)
		if got.verdict != tt.want || got.checks != tt.passed || (tt.why != "" && !slices.Contains(got.why, tt.why)) || (tt.why == "") != (len(got.why) == 0) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestAScenarioWithoutAResultHasNotPassed(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"server-here-2026-11-30T06-00-52-860Z", "server-broken-off-2026-11-30T06-00-52-860Z", "server-not-asked-2026-11-30T06-00-52-860Z", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if text := []byte(`[{"id":"a","status":"SUCCESS"}]`); d != "server-broken-off-2026-11-30T06-00-52-860Z" {
			if err := os.WriteFile(filepath.Join(dir, d, "checks.json"), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := readOutcomes(dir, []string{"here", "broken-off", "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if got["here"].verdict != passed || got["broken-off"].verdict != absent || got["gone"].verdict != absent || len(got) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestEveryLossAndEveryStaleDifferenceIsAFault(t *testing.T) {
	ok, none := outcome{verdict: passed}, outcome{verdict: nothing}
	bad, warn := outcome{verdict: failed, why: []string{"why"}, bad: []string{"a"}}, outcome{verdict: warned, why: []string{"hm"}, bad: []string{"a"}}
	named := func(least verdict, checks ...string) leg {
		return leg{whole: true, named: map[string]difference{"s": {least, checks, "why"}}}
	}
	for _, tt := range []struct {
		name            string
		direct, through []outcome // by round
		leg             leg
		optional        bool
		want            string // in the fault; "" is none
	}{
		{name: "both pass", direct: []outcome{ok, ok}, through: []outcome{ok, ok}},
		{name: "lost", direct: []outcome{ok}, through: []outcome{bad}, want: "is lost"},
		{name: "lost once", direct: []outcome{ok, ok}, through: []outcome{ok, bad}, want: "pass directly, 1/2 through"},
		{name: "lost, and passed directly once", direct: []outcome{bad, ok}, through: []outcome{bad, bad}, want: "is lost"},
		{name: "lost, not required", direct: []outcome{ok}, through: []outcome{warn}, optional: true, want: "is lost"},
		{name: "a warning directly, a failure through Berth", direct: []outcome{warn}, through: []outcome{bad}, optional: true, want: "is worse"},
		{name: "a warning as well", direct: []outcome{warn}, through: []outcome{warn}},
		{name: "a warning more", direct: []outcome{ok}, through: []outcome{warn}, want: "is lost"},
		{name: "both fail", direct: []outcome{bad}, through: []outcome{bad}},
		{name: "both fail where all must pass", direct: []outcome{bad}, through: []outcome{bad}, leg: leg{whole: true}, want: "does not pass"},
		{name: "both fail where all must pass, not required", direct: []outcome{bad}, through: []outcome{bad}, leg: leg{whole: true}, optional: true},
		{name: "named", direct: []outcome{bad}, through: []outcome{bad}, leg: named(failed, "a", "b")},
		{name: "named, and another check", direct: []outcome{bad}, through: []outcome{bad}, leg: named(failed, "b"), want: "is not the difference"},
		{name: "named and lost", direct: []outcome{ok}, through: []outcome{bad}, leg: named(failed, "a"), want: "is lost"},
		{name: "named and lost once", direct: []outcome{bad, ok}, through: []outcome{bad, bad}, leg: named(failed, "a"), want: "is lost"},
		{name: "named for nothing", direct: []outcome{bad}, through: []outcome{ok}, leg: named(failed, "a"), want: "take that out"},
		{name: "named, passes once", direct: []outcome{bad, bad}, through: []outcome{ok, bad}, leg: named(failed, "a")},
		{name: "a warning that is named", direct: []outcome{ok}, through: []outcome{warn}, leg: named(warned, "a")},
		{name: "a warning that is named, and a failure", direct: []outcome{ok, ok}, through: []outcome{warn, bad}, leg: named(warned, "a"), want: "is lost"},
		{name: "a warning that is named, and another", direct: []outcome{ok}, through: []outcome{warn}, leg: named(warned, "b"), want: "is lost"},
		{name: "nothing to test, and named", direct: []outcome{warn}, through: []outcome{none}, leg: named(nothing), optional: true},
		{name: "nothing to test, named and lost", direct: []outcome{ok}, through: []outcome{none}, leg: named(nothing), want: "is lost"},
		{name: "nothing to test", direct: []outcome{warn}, through: []outcome{none}, optional: true, want: "is worse"},
		{name: "nothing to test directly", direct: []outcome{none}, through: []outcome{bad}, optional: true, want: "is worse"},
		{name: "better", direct: []outcome{bad}, through: []outcome{ok}},
		{name: "no direct column", through: []outcome{bad}, leg: leg{whole: true}, want: "does not pass"},
	} {
		p := newTally(plan{leg: tt.leg, scenarios: []string{"s"}, required: map[string]bool{"s": !tt.optional}})
		for _, o := range tt.direct {
			p.direct.add(map[string]outcome{"s": o})
		}
		for _, o := range tt.through {
			p.through.add(map[string]outcome{"s": o})
		}
		got := strings.Join(p.faults(), "; ")
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		var out strings.Builder
		p.print(&out, false)
		if last := tt.through[len(tt.through)-1]; len(last.why) > 0 && !tt.optional && !strings.Contains(out.String(), last.why[0]) {
			t.Errorf("%s: the suite's message is not printed:\n%s", tt.name, out.String())
		}
	}
}

func TestPatternsNameLegsAndScenarios(t *testing.T) {
	l := leg{revision: "2026-07-28", server: stateful}
	for _, tt := range []struct {
		only string
		want bool
	}{
		{"", true}, {"2026-07-28/stateful", true}, {"*/stateful", true}, {"tools-*", true}, {"ping,tools-list", true},
		{"2026-07-28/stateful/tools-*", true}, {"ping", false}, {"2025-11-25/*", false}, {"*", true},
	} {
		if got := (&options{only: tt.only}).wants(l, "tools-list"); got != tt.want {
			t.Errorf("%q: %v", tt.only, got)
		}
	}
}

func TestTheRelayAddsTheTokenAndNothingElse(t *testing.T) {
	var seen *http.Request
	next := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(r.Context())
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "data: 2\n\n")
	}))
	defer target.Close()
	host := strings.TrimPrefix(target.URL, "http://")
	r, err := startRelay(host, "secret", filepath.Join(t.TempDir(), "wire.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range []struct{ host, given, wantHost, want string }{
		{"", "", host, "Bearer secret"},
		{"evil.example", "", "evil.example", "Bearer secret"},
		{"", "Bearer other", host, "Bearer other"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.addr+"/mcp/b", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "http://evil.example")
		if tt.host != "" {
			req.Host = tt.host
		}
		if tt.given != "" {
			req.Header.Set("Authorization", tt.given)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		if line, err := in.ReadString('\n'); err != nil || line != "data: 1\n" { // before the stream has ended
			t.Errorf("%q, %v", line, err)
		}
		next <- struct{}{}
		if _, err := io.ReadAll(in); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if seen.Host != tt.wantHost || seen.Header.Get("Authorization") != tt.want || seen.Header.Get("Origin") != "http://evil.example" || seen.URL.Path != "/mcp/b" {
			t.Errorf("Host %q, %v", seen.Host, seen.Header)
		}
	}
}

// TestTheSuiteIsPinned holds the manifest, its lock and what a reader is told
// together.
func TestTheSuiteIsPinned(t *testing.T) {
	dir := filepath.Join("..", "..", "test", "conformance")
	manifest, lock := map[string]any{}, map[string]any{}
	for file, into := range map[string]*map[string]any{"package.json": &manifest, "package-lock.json": &lock} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "http://") || strings.Contains(string(text), `"resolved"`) {
			t.Errorf("%s names a registry", file)
		}
	}
	packages := lock["packages"].(map[string]any)
	for _, kind := range []string{"dependencies", "optionalDependencies"} {
		for name, version := range manifest[kind].(map[string]any) {
			locked := packages["node_modules/"+name].(map[string]any)
			if locked["version"] != version || locked["integrity"] == nil {
				t.Errorf("%s %v is locked as %v", name, version, locked)
			}
		}
	}
}
