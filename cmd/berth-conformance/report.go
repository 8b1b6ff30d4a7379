//go:build unix

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// column is what came of each scenario of a leg, over all rounds.
type column struct {
	rounds    int
	scenarios map[string]*count
}

// count is one scenario's.
type count struct {
	passed      int
	worst, best verdict
	why         map[string]int  // message -> rounds
	bad         map[string]bool // checks that failed or gave warnings
}

func (c *column) add(found map[string]outcome) {
	c.rounds++
	for name, o := range found {
		n := c.scenarios[name]
		if n == nil {
			n = &count{worst: passed, why: map[string]int{}, bad: map[string]bool{}}
			c.scenarios[name] = n
		}
		n.worst, n.best = min(n.worst, o.verdict), max(n.best, o.verdict)
		if o.verdict == passed {
			n.passed++
		}
		for _, w := range slices.Compact(slices.Sorted(slices.Values(o.why))) {
			n.why[w]++
		}
		for _, id := range o.bad {
			n.bad[id] = true
		}
	}
}

// word is a scenario's cell.
func (c *column) word(name string) string {
	n := c.scenarios[name]
	switch {
	case n == nil:
		return "-"
	case n.worst != passed && n.best == passed:
		return fmt.Sprintf("%d/%d", n.passed, c.rounds)
	}
	return map[verdict]string{absent: "FAIL", failed: "FAIL", nothing: "none", warned: "warn", passed: "pass"}[n.worst]
}

// tally is what came of a leg.
type tally struct {
	plan
	direct, through column
}

func newTally(p plan) *tally {
	return &tally{plan: p, direct: column{scenarios: map[string]*count{}}, through: column{scenarios: map[string]*count{}}}
}

// print writes the columns, and under each scenario that Berth does not pass
// the suite's own words.
func (t *tally) print(out io.Writer, brief bool) {
	fmt.Fprintf(out, "\n%-58s %-8s %s\n", t.leg.name(), "direct", "through")
	for _, name := range t.scenarios {
		through := t.through.scenarios[name]
		if brief && through != nil && through.worst == passed {
			continue
		}
		label := name
		if !t.required[name] {
			label += " (not required)"
		}
		fmt.Fprintf(out, "  %-56s %-8s %s\n", label, t.direct.word(name), t.through.word(name))
		if through == nil || through.worst == passed {
			continue
		}
		if d, ok := t.leg.named[name]; ok {
			fmt.Fprintf(out, "      known: %s\n", d.why)
		}
		if t.required[name] || t.lost(name) || len(t.scenarios) < 5 {
			printWhy(out, through)
		}
	}
	if t.leg.note != "" {
		fmt.Fprintf(out, "  %s\n", t.leg.note)
	}
	line := fmt.Sprintf("  %d required", t.countRequired(func(string) bool { return true }))
	if t.leg.direct != "" {
		line += fmt.Sprintf(", %d pass directly", t.countRequired(t.direct.passes))
	}
	fmt.Fprintf(out, "%s, %d pass through Berth\n", line, t.countRequired(t.through.passes))
}

// maxWhy bounds what is said of one scenario.
const maxWhy = 12

func printWhy(out io.Writer, n *count) {
	messages := slices.SortedFunc(maps.Keys(n.why), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.why[b], n.why[a]), cmp.Compare(a, b))
	})
	for i, m := range messages {
		if i == maxWhy {
			fmt.Fprintf(out, "      and %d more\n", len(messages)-maxWhy)
			return
		}
		fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(clip(m), "\n", "\n        "))
	}
}

func clip(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

func (c *column) passes(name string) bool {
	n := c.scenarios[name]
	return n != nil && n.worst == passed
}

func (t *tally) countRequired(fits func(string) bool) int {
	n := 0
	for _, name := range t.scenarios {
		if t.required[name] && fits(name) {
			n++
		}
	}
	return n
}

// lost reports whether the server alone ever passed what Berth once did not. A
// scenario that is not clean without Berth has nothing to lose.
func (t *tally) lost(name string) bool {
	direct, through := t.direct.scenarios[name], t.through.scenarios[name]
	return direct != nil && direct.best == passed && through != nil && through.worst != passed
}

// worse reports whether Berth made something worse that is not clean without
// it either.
func (t *tally) worse(name string) bool {
	direct, through := t.direct.scenarios[name], t.through.scenarios[name]
	return direct != nil && through != nil && direct.worst != absent && through.worst < direct.worst
}

// known reports whether what came of a scenario is the difference that is
// named for it.
func (t *tally) known(name string) bool {
	d, ok := t.leg.named[name]
	n := t.through.scenarios[name]
	if !ok || n == nil || n.worst < d.least {
		return false
	}
	for id := range n.bad {
		if !slices.Contains(d.checks, id) {
			return false
		}
	}
	return d.least >= warned || !t.lost(name)
}

// faults are the reasons for which the run fails.
func (t *tally) faults() []string {
	var faults []string
	for _, name := range t.scenarios {
		_, named := t.leg.named[name]
		passes := t.through.passes(name)
		columns := fmt.Sprintf("%s directly, %s through Berth", t.direct.word(name), t.through.word(name))
		switch {
		case named && passes:
			faults = append(faults, fmt.Sprintf("%s/%s passes and is named as a difference: take that out", t.leg.name(), name))
		case t.known(name):
		case t.lost(name):
			faults = append(faults, fmt.Sprintf("%s/%s is lost: %s", t.leg.name(), name, columns))
		case named:
			faults = append(faults, fmt.Sprintf("%s/%s is not the difference that is named for it: %s", t.leg.name(), name, columns))
		case t.worse(name):
			faults = append(faults, fmt.Sprintf("%s/%s is worse: %s", t.leg.name(), name, columns))
		case t.leg.whole && t.required[name] && !passes:
			faults = append(faults, fmt.Sprintf("%s/%s does not pass: %s through Berth", t.leg.name(), name, t.through.word(name)))
		}
	}
	return faults
}
