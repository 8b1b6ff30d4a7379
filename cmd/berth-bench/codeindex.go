//go:build unix

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	rules "berth/broker/native/codeindex"
	"berth/transport/codeindex"
	"berth/transport/git"
)

// codeQueries are queries on Go's standard library with the file in which what
// is asked for is defined, written down before any was run.
//
//go:embed testdata/codeindex.txt
var codeQueries string

// codeIndexResult is what was measured of the code index, on Go's standard
// library.
type codeIndexResult struct {
	files, chunks     int
	skipped           map[string]int
	first, again      time.Duration // the whole index; after a commit of ten files
	bytes             int64         // of the index
	grep              time.Duration // git grep of the same queries, p50
	search, p95       time.Duration
	queries, one, ten int
	missed            []string // not among the first ten, or not first
}

// measureCodeIndex indexes the standard library that the bench was built with.
func measureCodeIndex(ctx context.Context, l *lab, r *report) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go's standard library: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	origin := filepath.Join(l.dir, "stdlib")
	if err := os.CopyFS(origin, os.DirFS(source)); err != nil {
		return err
	}
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", origin, "-c", "user.name=bench", "-c", "user.email=bench@localhost"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A", "-f"}, {"commit", "-q", "-m", "all"}} {
		if err := run(args...); err != nil {
			return err
		}
	}
	engine, err := codeindex.New(codeindex.Options{Root: filepath.Join(l.dir, "index"), Repos: filepath.Join(l.dir, "repos"), Git: git.New(git.Options{Env: os.Environ()})})
	if err != nil {
		return err
	}
	defer engine.Close()
	from := rules.Source{VesselID: "vsl_stdlib", URL: origin, Branch: "main"}
	update := func() (rules.Built, time.Duration, error) {
		began := time.Now()
		built, warnings, err := engine.Update(ctx, from, time.Now, func(rules.Progress) {})
		if err == nil && len(warnings) > 0 {
			err = errors.New(warnings[0])
		}
		return built, time.Since(began), err
	}
	c := &codeIndexResult{}
	built, took, err := update()
	if err != nil {
		return err
	}
	c.files, c.chunks, c.skipped, c.first = built.Documents, built.Chunks, built.Skipped, took
	if info, err := os.Stat(filepath.Join(l.dir, "index", from.VesselID, "index.db")); err == nil {
		c.bytes = info.Size()
	}
	if err := c.ask(ctx, engine, from, origin); err != nil {
		return err
	}
	for _, name := range []string{"bufio/scan.go", "bytes/bytes.go", "context/context.go", "fmt/print.go", "io/io.go", "net/http/server.go", "os/file.go", "runtime/proc.go", "strings/strings.go", "time/format.go"} {
		f, err := os.OpenFile(filepath.Join(origin, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("\n// one more line\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if err := run("commit", "-q", "-a", "-m", "ten files"); err != nil {
		return err
	}
	if _, c.again, err = update(); err != nil {
		return err
	}
	r.code = c
	return nil
}

// ask runs the queries and what is measured beside them.
func (c *codeIndexResult) ask(ctx context.Context, engine *codeindex.Engine, from rules.Source, origin string) error {
	var took, grepped []time.Duration
	for line := range strings.Lines(codeQueries) {
		text, want, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		place := -1
		for range 3 {
			began := time.Now()
			q := rules.ParseQuery(text)
			hits, _, err := engine.Search(ctx, from.VesselID, &q, rules.Filter{Limit: 10})
			if err != nil {
				return err
			}
			took = append(took, time.Since(began))
			place = slices.IndexFunc(hits, func(h rules.Hit) bool { return h.Path == want })
		}
		began := time.Now()
		words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '.' })
		_ = exec.CommandContext(ctx, "git", "-C", origin, "grep", "-i", "-l", "-F", words[len(words)-1]).Run() // it finds nothing for some
		grepped = append(grepped, time.Since(began))
		c.queries++
		switch {
		case place == 0:
			c.one++
			c.ten++
		case place > 0:
			c.ten++
			c.missed = append(c.missed, fmt.Sprintf("%s (place %d)", text, place+1))
		default:
			c.missed = append(c.missed, text+" (not found)")
		}
	}
	slices.Sort(took)
	slices.Sort(grepped)
	c.search, c.p95, c.grep = took[len(took)/2], took[len(took)*95/100], grepped[len(grepped)/2]
	return nil
}

func (r *report) codeAims() []aim {
	c := r.code
	if c == nil {
		return nil
	}
	return []aim{below("first index of Go's standard library", c.first.Seconds(), 60, "s"), below("update after a commit of ten files", c.again.Seconds(), 2, "s"),
		below("code search, p50", float64(c.search.Microseconds())/1e3, 20, "ms"),
		above("recall at 1", float64(c.one)/float64(c.queries), 0.8), above("recall at 10", float64(c.ten)/float64(c.queries), 0.95)}
}

func (r *report) codeTable(b *strings.Builder) {
	c := r.code
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\n### The code index\n\nGo's standard library, %s: %d files, %d chunks, skipped %v; the index is %.1f MiB. %d queries with a known answer, three times each.\n\n| what | measured | beside it | ratio |\n|---|---|---|---|\n",
		runtime.Version(), c.files, c.chunks, c.skipped, float64(c.bytes)/(1<<20), c.queries)
	fmt.Fprintf(b, "| first index, clone included | %v | | |\n", c.first.Round(10*time.Millisecond))
	fmt.Fprintf(b, "| update after a commit of ten files, fetch included | %v | the first index | %.2f |\n", c.again.Round(10*time.Millisecond), float64(c.again)/float64(c.first))
	fmt.Fprintf(b, "| search, p50 | %v | `git grep -l` of its last word: %v | %.2f |\n| search, p95 | %v | | |\n", c.search.Round(10*time.Microsecond), c.grep.Round(10*time.Microsecond), float64(c.search)/float64(c.grep), c.p95.Round(10*time.Microsecond))
	fmt.Fprintf(b, "| recall at 1 | %d of %d | | |\n| recall at 10 | %d of %d | | |\n", c.one, c.queries, c.ten, c.queries)
	if len(c.missed) > 0 {
		fmt.Fprintf(b, "\nNot first: %s.\n", strings.Join(c.missed, "; "))
	}
}
