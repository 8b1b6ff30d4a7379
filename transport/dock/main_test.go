//go:build unix

package dock

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/actors/missions"
	"berth/broker/dispatch"
	standin "berth/test/agent"
	"berth/transport/git"
	"berth/transport/guard"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "guard":
		os.Exit(guard.Main(os.Args[2:]))
	case standin.Plays(os.Args[0]):
		os.Exit(standin.Main(os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// credentials are what the yard's vessels and captains have.
type credentials map[string]string

func (c credentials) Secret(name string) (string, error) { return c[name], nil }

// yard is a state directory, a repository and an agent program for each runtime.
type yard struct {
	t       *testing.T
	dir     string
	origin  string // a repository with a working directory
	env     []string
	git     *git.Git
	secrets credentials
	papers  *Papers
	docks   *Docks
	agents  *Agents
	logged  *strings.Builder
	mcp     string
	limits  git.Options
}

// patience is how long a test waits for what must come.
const patience = time.Minute

func newYard(t *testing.T, change ...func(*yard)) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, dir: dir, origin: filepath.Join(dir, "origin"), secrets: credentials{}, logged: &strings.Builder{}}
	for _, d := range []string{"home", "bin", "state", "origin", "files"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range standin.Names() {
		if err := os.Symlink(self, y.program(name)); err != nil {
			t.Fatal(err)
		}
	}
	y.env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"),
		"GORACE=atexit_sleep_ms=0", // the guard and the agents are this binary, which the race detector keeps for a second at its end
		"BERTH_API_KEY=brokersownkey", "ARMADA_SECRET=brokersownkey", "AWS_SECRET_ACCESS_KEY=not-for-agents", "LISTED_ONE=yes", "SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE")}
	for _, f := range change {
		f(y)
	}
	y.limits.Env, y.limits.Own = y.env, y.state("repos")
	y.git = git.New(y.limits)
	log := slog.New(slog.NewTextHandler(&lockedWriter{to: y.logged}, nil))
	y.papers = NewPapers(PapersOptions{Root: y.state("missions"), Git: y.git, Log: log, Now: time.Now, MaxLog: 1 << 20})
	y.docks = NewDocks(Options{Root: y.state("docks"), Repos: y.state("repos"), Closed: y.state(""), Git: y.git, Secrets: y.secrets, Papers: y.papers, Log: log})
	y.agents = NewAgents(AgentOptions{Docks: y.docks, Environ: y.env, Pass: []string{"GORACE", "LISTED_*"}, MCP: func() string { return y.mcp }, Unattended: true})
	y.sh(y.origin, "init", "--quiet", "--initial-branch=main")
	y.commit("README", "one\n")
	return y
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func (y *yard) state(name string) string   { return filepath.Join(y.dir, "state", name) }
func (y *yard) file(name string) string    { return filepath.Join(y.dir, "files", name) }
func (y *yard) program(name string) string { return filepath.Join(y.dir, "bin", name) }

// sh runs git and gives what it printed.
func (y *yard) sh(dir string, args ...string) string {
	y.t.Helper()
	out, err := y.try(dir, args...)
	if err != nil {
		y.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (y *yard) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir, cmd.Env = dir, y.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// commit commits a file at origin and gives the commit.
func (y *yard) commit(name, content string) string {
	y.t.Helper()
	y.write(filepath.Join(y.origin, name), content)
	y.sh(y.origin, "add", "--all")
	y.sh(y.origin, "commit", "--quiet", "-m", "write "+name)
	return y.sh(y.origin, "rev-parse", "HEAD")
}

func (y *yard) write(path, content string) {
	y.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) vessel(change ...func(*dispatch.Vessel)) dispatch.Vessel {
	v := dispatch.Vessel{ID: "vsl_1", Name: "ship", RepoURL: y.origin, DefaultBranch: "main", LandingMode: dispatch.LandNone, BranchCleanup: "LocalOnly"}
	for _, f := range change {
		f(&v)
	}
	return v
}

// work is a mission of its own, for a captain with a Custom program that is
// played.
func (y *yard) work(id string, v dispatch.Vessel) missions.Work {
	branch := "berth/" + id
	w := missions.Work{Vessel: v, Mission: dispatch.Mission{ID: id, VesselID: v.ID, Title: "Work of " + id, Mode: dispatch.Implementation, Branch: &branch}}
	w.Captain = dispatch.Captain{ID: "cpt_1", Name: "ann", Runtime: dispatch.Custom, CustomCommand: []string{y.program("plain")}}
	w.Dock = dispatch.Dock{ID: "dck_" + id, VesselID: v.ID, MissionID: &w.Mission.ID, Branch: branch, Path: y.state("docks/" + v.Name + "/" + id)}
	return w
}

// prepare makes the dock and notes where it begins.
func (y *yard) prepare(w *missions.Work) missions.Prepared {
	y.t.Helper()
	got, err := y.docks.Prepare(y.t.Context(), *w)
	if err != nil {
		y.t.Fatal(err)
	}
	w.Mission.StartCommit = &got.StartCommit
	return got
}

// heard counts beats and keeps what they tell.
type heard struct {
	mu       sync.Mutex
	beats    int
	progress int
	status   string
}

func (h *heard) beat(b missions.Beat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats++
	if b.Progress != nil {
		h.progress = *b.Progress
	}
	if b.Status != "" {
		h.status = b.Status
	}
}

func (h *heard) said() (beats, progress int, status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beats, h.progress, h.status
}

func (y *yard) start(w missions.Work, brief, token string, h *heard) missions.Agent {
	y.t.Helper()
	a, err := y.agents.Start(y.t.Context(), w, brief, token, h.beat)
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(y.t.Context())); err != nil {
			y.t.Error(err)
		}
	})
	return a
}

// run carries a mission out and gives how its agent ended.
func (y *yard) run(w *missions.Work, brief string) (missions.End, missions.Collected) {
	y.t.Helper()
	a := y.start(*w, brief, "", &heard{})
	y.await(a.Done(), "the agent's end")
	got, err := y.docks.Collect(y.t.Context(), *w)
	if err != nil {
		y.t.Fatal(err)
	}
	w.Mission.Commit = got.Commit
	return a.End(), got
}

func (y *yard) await(done <-chan struct{}, what string) {
	y.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		y.t.Fatalf("waited for %s in vain", what)
	}
}

// awaitFile waits until a program has written a file, and reads it.
func (y *yard) awaitFile(path string) string {
	y.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil {
			return string(raw)
		}
		select {
		case <-look.C:
		case <-limit.C:
			y.t.Fatalf("waited for %s in vain", path)
		}
	}
}

func (y *yard) log(id string) string {
	y.t.Helper()
	text, _, _, err := y.papers.Log(id, 0, 1<<30)
	if err != nil {
		y.t.Fatal(err)
	}
	return text
}

func (y *yard) reclaim(w missions.Work, landed bool) {
	y.t.Helper()
	if err := y.docks.Reclaim(y.t.Context(), w.Vessel, w.Dock, landed); err != nil {
		y.t.Fatal(err)
	}
	if _, err := os.Lstat(w.Dock.Path); !os.IsNotExist(err) {
		y.t.Errorf("the worktree is there: %v", err)
	}
}

func (y *yard) clone() string { return y.state("repos/vsl_1.git") }

// lines makes a brief.
func lines(list ...string) string { return strings.Join(list, "\n") }
