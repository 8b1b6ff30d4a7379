//go:build unix

package codeindex_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	rules "berth/broker/native/codeindex"
	"berth/transport/codeindex"
	"berth/transport/git"
	"berth/transport/guard"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(guard.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// origin is a repository that a vessel is of.
type origin struct {
	t   *testing.T
	dir string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{t, filepath.Join(t.TempDir(), "origin")}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.git("init", "--quiet", "--initial-branch=main")
	return o
}

func (o *origin) git(args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = o.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (o *origin) write(name, content string) {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

func (o *origin) commit() string {
	o.t.Helper()
	o.git("add", "-A")
	o.git("commit", "--quiet", "--allow-empty", "-m", "c")
	return o.git("rev-parse", "HEAD")
}

// world is an engine over a state directory.
type world struct {
	t      *testing.T
	engine *codeindex.Engine
	root   string
	from   rules.Source
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	state := t.TempDir()
	w := &world{t: t, root: filepath.Join(state, "index"), from: rules.Source{VesselID: "vsl_test", URL: url, Branch: "main"}}
	g := git.New(git.Options{Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0"), Network: 20 * time.Second})
	var err error
	if w.engine, err = codeindex.New(codeindex.Options{Root: w.root, Repos: filepath.Join(state, "repos"), Git: g, MaxFile: 4096, MaxFiles: 50}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.engine.Close)
	return w
}

func (w *world) tryUpdate(ctx context.Context) (rules.Built, []string, error) {
	return w.engine.Update(ctx, w.from, time.Now, func(rules.Progress) {})
}

func (w *world) update() rules.Built {
	w.t.Helper()
	built, warnings, err := w.tryUpdate(w.t.Context())
	if err != nil || len(warnings) > 0 {
		w.t.Fatal(warnings, err)
	}
	return built
}

func (w *world) search(query string, only rules.Filter) []rules.Hit {
	w.t.Helper()
	if only.Limit == 0 {
		only.Limit = 10
	}
	q := rules.ParseQuery(query)
	hits, _, err := w.engine.Search(w.t.Context(), w.from.VesselID, &q, only)
	if err != nil {
		w.t.Fatal(err)
	}
	return hits
}

func first(hits []rules.Hit) string {
	if len(hits) == 0 {
		return ""
	}
	return hits[0].Path
}

func now() time.Time { return time.Now() }
