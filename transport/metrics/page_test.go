package metrics

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/metrics.md and docs/grafana/berth.json")

const docs = "../../docs"

// fresh compares a generated file with what it should be.
func fresh(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(docs, name)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/%s is stale: go test ./transport/metrics -update", name)
	}
}

const pageHead = `# Metrics

Prometheus reads them at ` + "`GET /metrics`" + `, with the credential of a global administrator. [Operators](operators.md#metrics) has a scrape configuration, the dashboard and alerts worth having.

Names and labels stay. No label holds a principal, a session, a verb or anything else that callers choose: the number of series follows from the configuration. Times are seconds, sizes bytes. Counters begin at zero with each start of the broker.

| metric | type | labels | meaning |
|---|---|---|---|
`

func TestTheMetricsPageIsFresh(t *testing.T) {
	b := bytes.NewBufferString(pageHead)
	for _, m := range Table {
		labels := "-"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Help)
	}
	b.WriteString("\nBesides them: the Go runtime (`go_*`) and the process (`process_*`: memory, CPU, open files, start time).\n")
	fresh(t, "metrics.md", b.Bytes())
}

// word is what may be a metric in an expression.
var word = regexp.MustCompile(`\b(berth|process|go)_[a-z0-9_]+\b`)

// selector is a metric with its labels.
var selector = regexp.MustCompile(`\b(berth_[a-z0-9_]+)\{([^}]*)\}`)

var labelName = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"`)

// grouped are the labels that an aggregation keeps.
var grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)

// checkExpression says what is wrong with a PromQL expression, as far as it can
// be told without Prometheus: a name, a label or a bracket that is not there.
func checkExpression(t *testing.T, where, expr string) {
	t.Helper()
	shown := families(t, full(t))
	names := map[string]Metric{}
	for _, m := range Table {
		names[m.Name] = m
		if m.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				s := m
				s.Labels = append(slices.Clone(m.Labels), "le")
				names[m.Name+suffix] = s
			}
		}
	}
	labels := []string{"instance", "job"} // that a scrape adds
	found := false
	for _, name := range word.FindAllString(expr, -1) {
		m, ours := names[name]
		_, others := shown[name]
		if !ours && !others {
			t.Errorf("%s: %s is no metric of Berth: %s", where, name, expr)
		}
		labels, found = append(labels, m.Labels...), true
	}
	if !found {
		t.Errorf("%s: no metric in %q", where, expr)
	}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		for _, l := range labelName.FindAllStringSubmatch(s[2], -1) {
			if of := append([]string{"instance", "job"}, names[s[1]].Labels...); !slices.Contains(of, l[1]) {
				t.Errorf("%s: %s has no label %s: %s", where, s[1], l[1], expr)
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if !slices.Contains(labels, strings.TrimSpace(l)) {
				t.Errorf("%s: nothing here has a label %s: %s", where, l, expr)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			t.Errorf("%s: unbalanced %s in %s", where, pair, expr)
		}
	}
	if strings.Count(expr, `"`)%2 != 0 {
		t.Errorf("%s: unbalanced quotes in %s", where, expr)
	}
}

func TestTheDashboardIsFreshAndAsksForWhatThereIs(t *testing.T) {
	text, err := json.MarshalIndent(dashboard(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "grafana/berth.json", append(text, '\n'))
	used := map[string]bool{}
	for _, row := range rows {
		for _, p := range row.panels {
			for _, q := range p.queries {
				checkExpression(t, p.title, strings.ReplaceAll(q.expr, "$__rate_interval", "5m"))
				for _, name := range word.FindAllString(q.expr, -1) {
					used[name] = true
				}
			}
		}
	}
	for _, m := range Table {
		if !used[m.Name] && !used[m.Name+"_bucket"] && !used[m.Name+"_count"] {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
	// Whoever imports it chooses the source.
	for _, uid := range regexp.MustCompile(`"uid": "[^"]*"`).FindAllString(string(text), -1) {
		if uid != `"uid": "${datasource}"` && uid != `"uid": "berth"` {
			t.Errorf("a source is fixed: %s", uid)
		}
	}
}

func TestTheAlertsAskForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "grafana", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			checkExpression(t, r.Alert, r.Expr)
			if r.Alert == "" || seen[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("the alert %q is not whole, or stands there twice", r.Alert)
			}
			if !strings.Contains(string(page), "`"+r.Alert+"`") {
				t.Errorf("docs/operators.md does not tell of %s", r.Alert)
			}
			seen[r.Alert] = true
		}
	}
	if len(seen) == 0 {
		t.Error("there are no alerts")
	}
}
