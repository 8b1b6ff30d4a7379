package missions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var operator = broker.LocalOperator

// docks are worktrees in name only.
type docks struct {
	mu        sync.Mutex
	prepare   func(ctx context.Context, w Work) (Prepared, error)
	collect   func(ctx context.Context, w Work) (Collected, error)
	land      func(ctx context.Context, w Work) (string, error)
	reclaim   func(ctx context.Context, d dispatch.Dock) error
	standing  map[string]string // path -> branch
	wrong     []string
	landed    []string // missions
	cleaned   []string // docks whose branch was given up
	prepared  []Work
	collected []string
}

func (d *docks) Prepare(ctx context.Context, w Work) (Prepared, error) {
	if d.prepare != nil {
		if p, err := d.prepare(ctx, w); err != nil {
			return p, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, branch := range d.standing {
		if branch == w.Dock.Branch && path != w.Dock.Path {
			d.wrong = append(d.wrong, "the branch "+branch+" has two worktrees")
		}
	}
	d.standing[w.Dock.Path], d.prepared = w.Dock.Branch, append(d.prepared, w)
	start := "c0"
	if w.Before != nil && w.Before.Commit != nil {
		start = *w.Before.Commit
	}
	return Prepared{StartCommit: start, Warnings: []string{"fetched nothing"}}, nil
}

func (d *docks) Collect(ctx context.Context, w Work) (Collected, error) {
	d.mu.Lock()
	d.collected = append(d.collected, w.Mission.ID)
	d.mu.Unlock()
	if d.collect != nil {
		return d.collect(ctx, w)
	}
	commit, yes := "c-"+w.Mission.ID, true
	return Collected{Commit: &commit, Produced: &yes}, nil
}

func (d *docks) Land(ctx context.Context, w Work) (string, error) {
	if d.land != nil {
		if c, err := d.land(ctx, w); err != nil {
			return c, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.landed = append(d.landed, w.Mission.ID)
	return "merged-" + w.Mission.ID, nil
}

func (d *docks) Reclaim(ctx context.Context, _ dispatch.Vessel, dock dispatch.Dock, landed bool) error {
	if d.reclaim != nil {
		if err := d.reclaim(ctx, dock); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.standing, dock.Path)
	if landed {
		d.cleaned = append(d.cleaned, dock.ID)
	}
	return nil
}

// agents are programs that do as a test says.
type agents struct {
	mu     sync.Mutex
	start  func(ctx context.Context, w Work) error
	onRun  func(a *agent) // a program of its own; nil: it waits to be told
	byID   map[string]*agent
	all    []*agent
	docks  map[string]int // launches by dock
	notes  map[string][]string
	wrong  []string
	prompt map[string]string
}

func (g *agents) Start(ctx context.Context, w Work, brief, token string, heard func(Beat)) (Agent, error) {
	if g.start != nil {
		if err := g.start(ctx, w); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.docks[w.Dock.ID]++; g.docks[w.Dock.ID] > 1 {
		g.wrong = append(g.wrong, "the assignment "+w.Dock.ID+" was launched twice")
	}
	a := &agent{w: w, pid: 1000 + len(g.all), at: time.Now(), heard: heard, done: make(chan struct{}), token: token}
	g.byID[w.Mission.ID], g.prompt[w.Mission.ID] = a, brief
	g.all = append(g.all, a)
	if g.onRun != nil {
		g.onRun(a)
	}
	return a, nil
}

func (g *agents) Note(id, line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes[id] = append(g.notes[id], line)
}

// live counts the programs that run.
func (g *agents) live() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.all {
		select {
		case <-a.done:
		default:
			n++
		}
	}
	return n
}

type agent struct {
	w     Work
	pid   int
	at    time.Time
	heard func(Beat)
	token string

	mu     sync.Mutex
	once   sync.Once
	done   chan struct{}
	end    End
	killed bool
	// hard makes Stop fail as often as it says.
	hard int
}

func (a *agent) PID() int              { return a.pid }
func (a *agent) Started() time.Time    { return a.at }
func (a *agent) Done() <-chan struct{} { return a.done }

func (a *agent) End() End {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end
}

func (a *agent) Stop(context.Context) error {
	a.mu.Lock()
	if a.hard > 0 {
		a.hard--
		a.mu.Unlock()
		return errors.New("it does not die")
	}
	a.mu.Unlock()
	a.finish(End{Words: "was ended by signal 9 (killed)"}, true)
	return nil
}

func (a *agent) finish(e End, killed bool) {
	a.once.Do(func() {
		a.mu.Lock()
		a.end, a.killed = e, killed
		a.mu.Unlock()
		close(a.done)
	})
}

// exits ends the program with a status.
func (a *agent) exits(code int) {
	a.finish(End{Code: &code, Words: fmt.Sprint("exited with status ", code)}, false)
}

func (a *agent) says() { a.heard(Beat{}) }

type tokens struct {
	mu    sync.Mutex
	out   map[string]int // issued and not revoked, by mission
	total int
	none  string
}

func (k *tokens) Issue(m dispatch.Mission) (string, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.none != "" {
		return "", k.none
	}
	k.out[m.ID]++
	k.total++
	return fmt.Sprint("token-", k.total), ""
}

func (k *tokens) Revoke(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.out, id)
}

type briefs struct{ err error }

func (b *briefs) Brief(_ context.Context, w Work) (string, error) {
	return "do " + w.Mission.Title, b.err
}

type board struct {
	mu   sync.Mutex
	told []string
}

func (b *board) MissionEnded(m dispatch.Mission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, m.ID+":"+string(m.Status))
}

// world is a system with everything that it needs, in memory.
type world struct {
	t      testing.TB
	store  *memory
	docks  *docks
	agents *agents
	tokens *tokens
	briefs *briefs
	board  *board
	opts   Options
	sys    *System
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	w := &world{t: t, store: newMemory(), docks: &docks{standing: map[string]string{}},
		agents: &agents{byID: map[string]*agent{}, docks: map[string]int{}, notes: map[string][]string{}, prompt: map[string]string{}},
		tokens: &tokens{out: map[string]int{}}, briefs: &briefs{}, board: &board{}}
	w.opts = Options{Store: w.store, Docks: w.docks, Agents: w.agents, Tokens: w.tokens, Briefs: w.briefs, Board: w.board,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: rand.Reader, DocksDir: "/docks", Deliver: true}
	for _, c := range change {
		c(&w.opts)
	}
	return w
}

// run makes and starts a system; stop ends it and checks what must hold.
func (w *world) run() *world {
	w.t.Helper()
	sys, err := New(w.opts)
	if err == nil {
		err = sys.Recover(context.Background())
	}
	if err == nil {
		err = sys.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.sys = sys
	synctest.Wait()
	return w
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.sys.Stop(context.Background()); err != nil {
		w.t.Error(err)
	}
	if n := w.agents.live(); n > 0 {
		w.t.Errorf("%d agents outlive the system", n)
	}
	w.sound()
}

// sound checks what every run must keep.
func (w *world) sound() {
	w.t.Helper()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, wrong := range slices.Concat(w.store.wrong, w.docks.wrong, w.agents.wrong) {
		w.t.Error(wrong)
	}
	w.tokens.mu.Lock()
	defer w.tokens.mu.Unlock()
	for id := range w.tokens.out {
		if m := value[dispatch.Mission](w.store.records[[2]string{dispatch.KindMission, id}]); !m.Status.Live() {
			w.t.Errorf("the token of %s outlives it", id)
		}
	}
}

func put[R dispatch.Stored](w *world, r R) {
	w.t.Helper()
	at := uint64(0)
	if old, err := w.store.Record(r.Kind(), r.Key()); err == nil {
		at = old.Revision
	}
	c, err := dispatch.Write(r, at)
	if err == nil {
		_, err = w.store.PutAll(context.Background(), c)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func get[R dispatch.Stored](w *world, id string) R {
	w.t.Helper()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	var r R
	raw, ok := w.store.records[[2]string{r.Kind(), id}] // also while nobody else can read
	if !ok {
		w.t.Fatalf("there is no %s %s", r.Kind(), id)
	}
	return value[R](raw)
}

var acme = dispatch.Owner{TenantID: "default", UserID: "operator"}

func (w *world) vessel(id string, change ...func(*dispatch.Vessel)) {
	v := dispatch.Vessel{ID: id, Owner: acme, Name: "repo-" + id, DefaultBranch: "main", LandingMode: dispatch.LandNone}
	for _, c := range change {
		c(&v)
	}
	put(w, v)
}

func merges(v *dispatch.Vessel)     { v.LandingMode = dispatch.LandLocalMerge }
func concurrent(v *dispatch.Vessel) { v.Concurrent = true }

func (w *world) captains(ids ...string) {
	for _, id := range ids {
		put(w, dispatch.Captain{ID: id, Owner: acme, Name: id, Runtime: dispatch.ClaudeCode, Tier: dispatch.Standard, State: dispatch.CaptainIdle})
	}
}

// voyage writes a voyage of missions on one vessel, as "a b<a c<a:Research": ids,
// what they depend on, and a mode.
func (w *world) voyage(id, vessel, missions string, change ...func(*dispatch.Mission)) {
	put(w, dispatch.Voyage{ID: id, Owner: acme, Title: id, VesselID: vessel, Status: dispatch.VoyageOpen, Materialized: true, CreatedUTC: time.Now()})
	w.missions(&id, vessel, missions, change...)
}

func (w *world) missions(voyage *string, vessel, missions string, change ...func(*dispatch.Mission)) {
	for i, word := range strings.Fields(missions) {
		head, mode, _ := strings.Cut(word, ":")
		id, on, depends := strings.Cut(head, "<")
		m := dispatch.Mission{ID: id, Owner: acme, Title: id, VoyageID: voyage, VesselID: vessel, Mode: dispatch.Implementation, Persona: "Worker", Priority: 100,
			Status: dispatch.MissionPending, Assignment: dispatch.AssignmentPending, CreatedUTC: time.Now().Add(time.Duration(i))}
		if mode != "" {
			m.Mode = dispatch.Mode(mode)
		}
		if depends {
			m.DependsOn = &on
		}
		for _, c := range change {
			c(&m)
		}
		put(w, m)
	}
}

// states shows missions as "a:Complete b:Failed(exit_nonzero)".
func (w *world) states(ids ...string) string {
	w.t.Helper()
	var out []string
	for _, id := range ids {
		m := get[dispatch.Mission](w, id)
		word := id + ":" + string(m.Status)
		if m.FailureReason != nil {
			word += "(" + string(*m.FailureReason) + ")"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func (w *world) wants(want string) {
	w.t.Helper()
	synctest.Wait()
	var ids []string
	for _, word := range strings.Fields(want) {
		id, _, _ := strings.Cut(word, ":")
		ids = append(ids, id)
	}
	if got := w.states(ids...); got != want {
		w.t.Errorf("missions are\n%s, want\n%s", got, want)
	}
}

func (w *world) wantVoyage(id string, want dispatch.VoyageStatus) {
	w.t.Helper()
	if got := get[dispatch.Voyage](w, id).Status; got != want {
		w.t.Errorf("the voyage %s is %s, want %s", id, got, want)
	}
}

// agent is the program that runs for a mission.
func (w *world) agent(mission string) *agent {
	w.t.Helper()
	synctest.Wait()
	w.agents.mu.Lock()
	defer w.agents.mu.Unlock()
	a := w.agents.byID[mission]
	if a == nil {
		w.t.Fatalf("no agent runs for %s; it is %s", mission, w.states(mission))
	}
	return a
}

// free checks that every captain is Idle and no worktree is taken.
func (w *world) free() {
	w.t.Helper()
	synctest.Wait()
	for _, r := range w.store.snapshot() {
		switch r.Kind {
		case dispatch.KindCaptain:
			if c := value[dispatch.Captain](r); c.State != dispatch.CaptainIdle || c.MissionID != nil || c.ProcessID != nil || c.DockID != nil {
				w.t.Errorf("the captain %s is %s", c.ID, c.State)
			}
		case dispatch.KindDock:
			if d := value[dispatch.Dock](r); d.State != dispatch.DockAvailable && d.State != dispatch.DockFailed {
				w.t.Errorf("the dock of %s is %s", *d.MissionID, d.State)
			}
		}
	}
	w.tokens.mu.Lock()
	defer w.tokens.mu.Unlock()
	if len(w.tokens.out) > 0 {
		w.t.Errorf("tokens are left: %v", w.tokens.out)
	}
}

// elapse lets time pass on the clock of the bubble, which stands still for
// nobody else and costs none of ours.
func elapse(d time.Duration) { <-time.After(d) }

// atWork begins one mission, m of the voyage vyg, and gives its agent.
func (w *world) atWork() *agent {
	w.t.Helper()
	w.vessel("v")
	w.captains("c")
	w.voyage("vyg", "v", "m")
	w.run()
	return w.agent("m")
}

// in runs a test in a bubble with a started system.
func in(t *testing.T, test func(t *testing.T, w *world), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change...)
		test(t, w)
		if w.sys != nil {
			w.stop()
		}
		elapse(time.Second) // what the actor library does about dead letters ends
	})
}

// said are the ends that an agent's own words lead to.
func (a *agent) saying(code int, result runtime.Result, verdict runtime.Verdict) {
	a.finish(End{Code: &code, Words: fmt.Sprint("exited with status ", code), Result: result, Verdict: verdict}, false)
}
