package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"

	"berth/transport/app/resmontest"
)

var resmonPage = filepath.Join("..", "..", "docs", "resmon.md")

const (
	costsBegin = "<!-- costs: written by go test ./cmd/berth -run TestTheCostsOfAnswers -update -->\n"
	costsEnd   = "<!-- end of costs -->"
	// mostOfAList is the cost over which a list at its default arguments is a
	// finding.
	mostOfAList = 4000
	mostOfTools = 10_000
)

// explained are lists that may cost more, and why.
var explained = map[string]string{
	"list_watch_profiles":   "60 profiles; the contract gives it no page, and each row keeps its `basis_warning`",
	"get_watchdog_findings": "60 findings; the contract gives it no page, and what it says of each, and what it cannot judge, is passed on whole",
}

// costly are the reads in the order of the page: arguments besides what is
// required are left at their defaults.
var costly = []struct {
	verb      string
	arguments func(f *resmontest.Fake) map[string]any
	list      bool
}{
	{"search_corpus", func(*resmontest.Fake) map[string]any { return map[string]any{"query": "a"} }, true},
	{"find_similar", func(*resmontest.Fake) map[string]any { return map[string]any{"doc_id": 1} }, true},
	{"list_sources", none, true}, {"list_routines", none, true}, {"list_executions", none, true},
	{"get_execution_results", ofExecution, true}, {"list_watch_profiles", none, true}, {"get_profile_matches", ofProfile, true},
	{"get_watchdog_findings", none, true},
	{"get_routine", func(f *resmontest.Fake) map[string]any { return map[string]any{"routine_id": f.RoutineID(1)} }, false},
	{"get_execution", ofExecution, false}, {"get_search_record", ofExecution, false},
	{"get_watch_profile", ofProfile, false}, {"health", none, false},
}

func none(*resmontest.Fake) map[string]any { return map[string]any{} }
func ofExecution(f *resmontest.Fake) map[string]any {
	return map[string]any{"exec_id": f.ExecutionID(1)}
}
func ofProfile(f *resmontest.Fake) map[string]any {
	return map[string]any{"profile_id": f.ProfileID(1)}
}

// The page's table is what is measured on the fake's large data set. Ids and
// times of a run change a count a little.
func TestTheCostsOfAnswers(t *testing.T) {
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Large})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, map[string]any{"log_level": "warn"})
	c := h.caller("resmon", handshake)
	counter := codec.NewO200kBase()
	count := func(text string) int {
		n, err := counter.Count(text)
		must(t, err)
		return n
	}
	costs := map[string]int{"tools/list": count(string(c.want("tools/list", nil)))}
	if costs["tools/list"] > mostOfTools {
		t.Errorf("the list of tools costs %d tokens, over %d", costs["tools/list"], mostOfTools)
	}
	table := "| answer | o200k tokens |\n|---|---|\n| `tools/list`, all 25 | " + strconv.Itoa(costs["tools/list"]) + " |\n"
	for _, tt := range costly {
		got := c.call(tt.verb, tt.arguments(f)).ok()
		costs[tt.verb] = count(got.text)
		why := explained[tt.verb]
		if tt.list && costs[tt.verb] > mostOfAList && why == "" {
			t.Errorf("%s costs %d tokens at its default arguments, over %d, and nothing explains it", tt.verb, costs[tt.verb], mostOfAList)
		}
		if why != "" {
			why = ": " + why
		}
		table += fmt.Sprintf("| `%s`%s | %d |\n", tt.verb, why, costs[tt.verb])
	}
	page, err := os.ReadFile(resmonPage)
	must(t, err)
	head, rest, ok := strings.Cut(string(page), costsBegin)
	old, tail, ended := strings.Cut(rest, costsEnd)
	if !ok || !ended {
		t.Fatal("the page has no place for the costs")
	}
	if *update {
		must(t, os.WriteFile(resmonPage, []byte(head+costsBegin+table+costsEnd+tail), 0o644))
		return
	}
	written := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_/]+)`.*\\| (\\d+) \\|$").FindAllStringSubmatch(old, -1) {
		written[m[1]], _ = strconv.Atoi(m[2])
	}
	if have, want := slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(costs)); !slices.Equal(have, want) {
		t.Fatalf("the page has %v, want %v", have, want)
	}
	for name, n := range costs {
		if off := written[name] - n; off*20 > n || -off*20 > n {
			t.Errorf("%s costs %d tokens; the page says %d. Write it with -update", name, n, written[name])
		}
	}
}

// The page names every refusal of the surface and every tool.
func TestThePageOfResmonNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(resmonPage)
	must(t, err)
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	var list struct{ Tools []struct{ Name string } }
	must(t, json.Unmarshal(h.caller("resmon", handshake).want("tools/list", nil), &list))
	for _, tool := range list.Tools {
		if !strings.Contains(string(page), "`"+tool.Name+"`") {
			t.Errorf("the page does not name %s", tool.Name)
		}
	}
	for _, code := range []string{"backend_unavailable", "not_found", "invalid_argument", "conflict", "upstream_error", "internal_error", "instance_mismatch", "identity_unavailable",
		"no_port_named", "no_token", "token_refused", "not_resmon", "malformed", "outcome_unknown", "read_only", "route_missing", "withheld_keys", "refused_keys", "routine_already_running"} {
		if !strings.Contains(string(page), code) {
			t.Errorf("the page does not name %s", code)
		}
	}
}
