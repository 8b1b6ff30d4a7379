package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	domain "berth/broker/dispatch"
	"berth/transport/git"
)

// indexStatus is what the test reads of index_status.
type indexStatus struct {
	Freshness                          string
	IndexedCommitSha, CurrentCommitSha *string
	UpdateInProgress                   bool
	UpdateStage                        *string
	LastError                          *string
	Code                               string
}

// found is what the test reads of code_search.
type found struct {
	Available *bool
	Results   []struct {
		Record struct {
			Path, CommitSha, Freshness string
			StartLine                  int
		}
		Excerpt string
	}
	Readiness struct{ Remedy string }
}

// project is a repository that a vessel is of.
type project struct {
	t   *testing.T
	dir string
}

func (p project) commit(name, content string) string {
	p.t.Helper()
	must(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o644))
	p.git("add", "-A")
	p.git("commit", "--quiet", "-m", "c")
	return p.git("rev-parse", "HEAD")
}

func (p project) git(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", p.dir, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// slowGit is a git that, while a file named hold is there, tells a FIFO that it
// was asked for the texts of files, and waits for its end.
func slowGit(t *testing.T) (bin, hold, reached string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	bin, hold, reached = filepath.Join(dir, "bin"), filepath.Join(dir, "hold"), filepath.Join(dir, "reached")
	must(t, os.Mkdir(bin, 0o755))
	must(t, exec.Command("mkfifo", reached).Run())
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = cat-file ] && [ -e '%s' ]; then echo there > '%s'; exec sleep 600; fi\nexec '%s' \"$@\"\n", hold, reached, git)
	must(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755))
	return bin, hold, reached
}

// TestCodeIsIndexedAndFoundAlsoAfterAKill is the whole way of a vessel's index:
// missing, built, searched, stale, killed in the middle, built anew.
func TestCodeIsIndexedAndFoundAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bin, hold, reached := slowGit(t)
	h.env = append(h.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	h.configure(map[string]any{"mcpServers": map[string]any{}})
	must(t, h.start())
	w := newWire(h, "index-client")

	p := project{t, filepath.Join(t.TempDir(), "project")}
	must(t, os.Mkdir(p.dir, 0o755))
	p.git("init", "--quiet", "--initial-branch=main")
	p.commit("limit.go", "package p\n\n// RateLimiter limits.\ntype RateLimiter struct{}\n")
	p.commit("use.go", "package p\n\nvar _ RateLimiter // RateLimiter RateLimiter\n")
	one := p.git("rev-parse", "HEAD")

	var vessel struct{ ID, WorkingDirectory string }
	w.tool("add_vessel", map[string]any{"name": "p", "repoUrl": p.dir}, &vessel)
	if !strings.HasPrefix(vessel.ID, "vsl_") || vessel.WorkingDirectory != p.dir {
		t.Fatalf("%+v", vessel)
	}
	about := map[string]any{"vesselId": vessel.ID}
	search := func(query string) (f found) {
		w.tool("code_search", map[string]any{"vesselId": vessel.ID, "query": query}, &f)
		return f
	}
	status := func() (s indexStatus) {
		w.tool("index_status", about, &s)
		return s
	}
	if s, f := status(), search("rate limiter"); s.Freshness != "Missing" || f.Results != nil || f.Available == nil || *f.Available || !strings.Contains(f.Readiness.Remedy, "index_update") {
		t.Errorf("before the first update: %+v %+v", s, f)
	}

	update := func(key string) reply {
		arguments := map[string]any{"vesselId": vessel.ID}
		if key != "" {
			arguments["idempotencyKey"] = key
		}
		r, err := w.call(t.Context(), "armada_index_update", arguments, "")
		must(t, err)
		return r
	}
	first := update("k1")
	if end := w.want(first.JobID, "Succeeded", ""); !strings.Contains(string(end.Result), `"Freshness":"Fresh"`) {
		t.Errorf("%s", end.Result)
	}
	if again := update("k1"); again.JobID != first.JobID || !again.Replayed {
		t.Errorf("the same key: %+v", again)
	}
	if f := search("rate limiter"); len(f.Results) != 2 || f.Results[0].Record.Path != "limit.go" || f.Results[0].Record.CommitSha != one || f.Results[0].Record.Freshness != "Fresh" {
		t.Errorf("%+v", f)
	}

	two := p.commit("later.go", "package p\n\nfunc laterFound() {}\n")
	if s, f := status(), search("laterFound"); s.Freshness != "Stale" || *s.CurrentCommitSha != two || *s.IndexedCommitSha != one || len(f.Results) != 0 {
		t.Errorf("after a commit: %+v %+v", s, f)
	}

	// An update that is killed in the middle.
	must(t, os.WriteFile(hold, nil, 0o600))
	killed := update("")
	_, err := os.ReadFile(reached) // until git is asked for the files
	must(t, err)
	if s, f := status(), search("rate limiter"); s.Freshness != "Updating" || !s.UpdateInProgress || len(f.Results) != 2 || f.Results[0].Record.CommitSha != one {
		t.Errorf("while it runs: %+v %+v", s, f)
	}
	if second := update(""); second.Code != "code_index_update_in_progress" || !strings.Contains(second.Text, killed.JobID) {
		t.Errorf("a second update: %+v", second)
	}
	must(t, os.Remove(hold))
	must(t, h.start()) // kills the broker before it
	w = newWire(h, "index-client")
	w.want(killed.JobID, "Lost", "job_lost_on_restart")
	if s, f := status(), search("rate limiter"); s.Freshness != "Stale" || s.UpdateInProgress || s.LastError != nil || len(f.Results) != 2 || f.Results[0].Record.CommitSha != one {
		t.Errorf("after the kill: %+v %+v", s, f)
	}
	if left, err := filepath.Glob(filepath.Join(h.state, "index", "*", "*")); err != nil || len(left) != 1 {
		t.Errorf("left over: %v %v", left, err)
	}
	w.want(update("").JobID, "Succeeded", "")
	if f := search("later_found"); len(f.Results) == 0 || f.Results[0].Record.Path != "later.go" || f.Results[0].Record.CommitSha != two {
		t.Errorf("%+v", f)
	}

	// One that cannot be: the error is told, and a search is not served as if
	// nothing was there.
	p.git("branch", "-m", "main", "trunk")
	w.want(update("").JobID, "Failed", "operation_failed")
	if s, f := status(), search("rate limiter"); s.Freshness != "Error" || s.LastError == nil || f.Results != nil || f.Available == nil {
		t.Errorf("after a failure: %+v %+v", s, f)
	}

	var gone struct{ Warnings []string }
	w.tool("delete_vessel", about, &gone)
	if s := status(); s.Code != "vessel_not_found" || len(gone.Warnings) != 0 {
		t.Errorf("%+v %+v", s, gone)
	}
	for _, dir := range []string{"index", "repos"} {
		if left, err := os.ReadDir(filepath.Join(h.state, dir)); err != nil || len(left) != 0 {
			t.Errorf("%s: %v %v", dir, left, err)
		}
	}
}

func TestADeletedVesselTakesItsCloneAtLocalPathAlong(t *testing.T) {
	dir := t.TempDir()
	p := places{git: git.New(git.Options{Env: os.Environ()}), log: slog.New(slog.DiscardHandler)}
	at := func(name string) *string {
		path := filepath.Join(dir, name)
		return &path
	}
	for _, args := range [][]string{{"origin.git", "--bare"}, {"clone.git", "--bare"}, {"work"}} {
		must(t, exec.CommandContext(t.Context(), "git", append([]string{"init", "-q", *at(args[0])}, args[1:]...)...).Run())
	}
	for _, tt := range []struct {
		name, local string
		left, warns bool
	}{
		{"its origin", "origin.git", true, true}, {"its working directory", "work", true, true}, {"files of somebody's", ".", true, true},
		{"a bare clone", "clone.git", false, false}, {"nothing", "clone.git", false, false},
	} {
		v := domain.Vessel{RepoURL: "file://" + *at("origin.git"), WorkingDirectory: at("work"), LocalPath: at(tt.local)}
		warning := p.removeLocal(t.Context(), v)
		if _, err := os.Stat(*v.LocalPath); (err == nil) != tt.left || (warning != "") != tt.warns {
			t.Errorf("%s: %v, warned %q", tt.name, err, warning)
		}
	}
}
