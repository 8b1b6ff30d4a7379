package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// report is what was measured, and how it is told.
type report struct {
	machine machine
	rounds  int
	turn    time.Duration
	took    time.Duration
	http    []result
	stdio   []result
	accepts []acceptResult
	jobs    []acceptResult
	idle    *idleResult
	catalog []catalogResult
	board   []boardResult
	code    *codeIndexResult
}

// aim is one of the aims with what was measured.
type aim struct {
	what     string
	want     string
	got      string
	holds    bool
	distance string // to the aim, in per cent of it
}

// markdown is the whole report.
func (r *report) markdown() string {
	var b strings.Builder
	m := r.machine
	fmt.Fprintf(&b, "%d cores", m.cores)
	if m.processor != "" {
		fmt.Fprintf(&b, " (%s)", m.processor)
	}
	fmt.Fprintf(&b, ", %s, %s. Load average before the run: %s. Medians of %d turns of %v (the disk: twice as many, half as long), quartiles in brackets; all processes share the cores. The run took %v.\n",
		m.system, m.goVersion, m.load, r.rounds, r.turn, r.took.Round(time.Second))
	r.aims(&b)
	r.hops(&b, "An HTTP backend", "of the proxy", nameProxy, r.http)
	r.hops(&b, "A stdio backend", "of direct", nameDirect, r.stdio)
	acceptTable(&b, "Accepted jobs, the journal alone", r.accepts)
	acceptTable(&b, "Accepted jobs over HTTP (the broker runs them too: three commits a job)", r.jobs)
	if r.idle != nil {
		fmt.Fprintf(&b, "\n### An idle session\n\n%d sessions, each with one call behind it and no open connection: %.0f bytes of heap and stacks, %.0f bytes of resident memory each. The process before them: %.1f MiB.\n",
			r.idle.sessions, r.idle.heap, r.idle.resident, r.idle.total/(1<<20))
	}
	r.catalogTable(&b)
	r.boardTable(&b)
	r.codeTable(&b)
	return b.String()
}

func (r *report) aims(b *strings.Builder) {
	var aims []aim
	if one, ok := find(r.http, nameBerth, 1); ok {
		aims = append(aims, below("added p50, 1 client, HTTP", one.added.median/1e6, 0.3, "ms"))
	}
	if many, ok := find(r.http, nameBerth, 16); ok {
		aims = append(aims, above("calls/s of the bare reverse proxy's, 16 clients", many.of[nameProxy].median, 0.8))
	}
	for _, a := range r.accepts {
		switch a.callers {
		case 1:
			aims = append(aims, above("accepts/s of the append+fdatasync loop's, 1 caller", a.ratio.median, 0.25))
		case 128:
			aims = append(aims, above("accepts/s of the append+fdatasync loop's, 128 callers", a.ratio.median, 0.4))
		}
	}
	if r.idle != nil {
		aims = append(aims, below("memory of an idle session", max(r.idle.heap, r.idle.resident)/1024, 4, "KiB"))
	}
	aims = append(aims, r.codeAims()...)
	if len(aims) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Aims\n\n| aim | wanted | measured | holds |\n|---|---|---|---|\n")
	for _, a := range aims {
		holds := "yes"
		if !a.holds {
			holds = "no, missed by " + a.distance
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", a.what, a.want, a.got, holds)
	}
}

func below(what string, got, limit float64, unit string) aim {
	return aim{what: what, want: fmt.Sprintf("under %g %s", limit, unit), got: fmt.Sprintf("%.3g %s", got, unit),
		holds: got < limit, distance: fmt.Sprintf("%.0f %%", 100*(got/limit-1))}
}

func above(what string, got, limit float64) aim {
	return aim{what: what, want: fmt.Sprintf("at least %g", limit), got: fmt.Sprintf("%.2f", got),
		holds: got >= limit, distance: fmt.Sprintf("%.0f %%", 100*(1-got/limit))}
}

func find(results []result, path string, clients int) (result, bool) {
	for _, r := range results {
		if r.path == path && r.clients == clients {
			return r, true
		}
	}
	return result{}, false
}

// hops is the table of the paths to one backend.
func (r *report) hops(b *strings.Builder, title, of, base string, results []result) {
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n| clients | path | calls/s | p50 | p99 | added p50 | %s | CPU of the hop a call |\n|---|---|---|---|---|---|---|---|\n", title, of)
	for _, one := range results {
		cpu := ""
		if one.cpu > 0 {
			cpu = fmt.Sprintf("%.0f us", float64(one.cpu)/1e3)
		}
		added, ratio := "", ""
		if one.path != nameDirect {
			added = fmt.Sprintf("%.3f ms (%.3f to %.3f)", one.added.median/1e6, one.added.low/1e6, one.added.high/1e6)
		}
		if s := one.of[base]; one.path != base {
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", s.median, s.low, s.high)
		}
		fmt.Fprintf(b, "| %d | %s | %.0f | %s | %s | %s | %s | %s |\n", one.clients, one.path, one.rate, ms(one.p50), ms(one.p99), added, ratio, cpu)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f ms", float64(d)/1e6) }

func acceptTable(b *strings.Builder, title string, results []acceptResult) {
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n| callers | accepts/s | append+fdatasync/s | ratio |\n|---|---|---|---|\n", title)
	for _, a := range results {
		fmt.Fprintf(b, "| %d | %.0f | %.0f | %.2f (%.2f to %.2f) |\n", a.callers, a.accepts.median, a.log.median, a.ratio.median, a.ratio.low, a.ratio.high)
	}
}

// The marks between which replaceBlock writes.
const (
	blockBegin = "<!-- %[1]s:begin, written by make %[1]s -->\n"
	blockEnd   = "<!-- %s:end -->"
)

var errNoBlock = errors.New("the file has no block to write into")

// replaceBlock puts text between the marks of a file.
func replaceBlock(name, block, text string) error {
	blockBegin, blockEnd := fmt.Sprintf(blockBegin, block), fmt.Sprintf(blockEnd, block)
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, found := bytes.Cut(old, []byte(blockBegin))
	_, tail, closed := bytes.Cut(rest, []byte(blockEnd))
	if !found || !closed {
		return fmt.Errorf("%s: %w", name, errNoBlock)
	}
	out := append(append(bytes.Clone(head), blockBegin...), text...)
	out = append(append(out, blockEnd...), tail...)
	return os.WriteFile(name, out, 0o644)
}
