package resmon

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"

	"github.com/tiktoken-go/tokenizer/codec"
)

var o200k = sync.OnceValue(codec.NewO200kBase)

func tokens(t *testing.T, text string) int {
	t.Helper()
	n, err := o200k().Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dear is what a list may cost at default arguments before it is a finding.
const dear = 4000

// explained are the answers that cost more, and why they do.
var explained = map[string]string{
	"get_analytics":         "answered whole, as the contract says; it grows with the number of routines (40 here)",
	"get_watchdog_findings": "answered whole, its caveats included; the contract has no page argument (60 findings here)",
	"list_watch_profiles":   "one row a profile with its names and its basis_warning; the contract has no page argument (60 profiles here)",
}

// The page for people has the costs between these lines.
const (
	userPage   = "../../../docs/resmon.md"
	costsBegin = "<!-- costs: written by go test ./transport/app/resmon -run TestWhatAnAnswerCosts -update -->\n"
	costsEnd   = "<!-- end of costs -->"
)

// TestWhatAnAnswerCosts measures each read at default arguments on the large
// data set, and holds the page to it; -update writes it.
func TestWhatAnAnswerCosts(t *testing.T) {
	at := time.Date(2026, 10, 1, 9, 0, 0, 0, time.UTC)
	r := run(t, resmontest.Options{Data: resmontest.Large, Now: func() time.Time { return at }})
	var table strings.Builder
	table.WriteString("| tool | arguments | o200k tokens | rows | why over 4,000 |\n|---|---|---|---|---|\n")
	fmt.Fprintf(&table, "| `tools/list`, all 25 | | %d | 25 | |\n", tokens(t, listed()))
	over := map[string]bool{}
	calls := append([][2]string{}, every...)
	calls = append(calls, [2]string{"search_corpus", `{"query":"on","mode":"semantic"}`}, [2]string{"list_executions", `{"status":"completed"}`})
	for _, c := range calls {
		tool, _ := Surface().Tool(c[0])
		if tool.Confirm || c[0] == "export_references" {
			continue // writes answer a few fields; an export is as long as what was asked for
		}
		arguments := strings.Replace(c[1], `"graph"`, `"on"`, 1)
		a := r.call(c[0], arguments)
		if a.isError {
			t.Fatalf("%s: %s", c[0], a.text)
		}
		n := tokens(t, strings.ReplaceAll(a.text, r.fake.RuntimeID(), foreign))
		why := ""
		if n > dear {
			over[c[0]] = true
			if why = explained[c[0]]; why == "" {
				t.Errorf("%s %s costs %d tokens, and nothing explains it", c[0], arguments, n)
			}
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %d | %s | %s |\n", c[0], arguments, n, rowsIn(a.text), why)
	}
	for name := range explained {
		if !over[name] {
			t.Errorf("%s is explained and costs little", name)
		}
	}
	text, err := os.ReadFile(userPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begun := strings.Cut(string(text), costsBegin)
	_, tail, ended := strings.Cut(rest, costsEnd)
	if !begun || !ended {
		t.Fatal("the page has no place for the costs")
	}
	golden(t, userPage, head+costsBegin+table.String()+costsEnd+tail)
}

// rowsIn says how many rows an answer lists, where it says so.
func rowsIn(text string) string {
	var o struct{ Count json.Number }
	if json.Unmarshal([]byte(text), &o) != nil || o.Count == "" {
		return ""
	}
	return o.Count.String()
}

func listed() string {
	var raw []json.RawMessage
	for _, tool := range Surface().List(false) {
		raw = append(raw, tool.Raw)
	}
	return string(app.Object{{Name: "tools", Value: app.Array(raw)}}.JSON())
}

func TestTheListOfToolsIsShortAndAlwaysTheSame(t *testing.T) {
	first := listed()
	if listed() != first {
		t.Error("two lists differ")
	}
	if n := tokens(t, first); n > 10_000 {
		t.Errorf("the list costs %d tokens", n)
	}
	golden(t, "testdata/tools.json", pretty(t, first))
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not what comes now (-update writes it):\n%s", path, got)
	}
}
