package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"berth/actors/missions"
	"berth/actors/missions/briefing"
	"berth/broker"
	domain "berth/broker/dispatch"
	"berth/broker/native"
	codeverbs "berth/broker/native/codeindex"
	"berth/broker/native/dispatch"
	"berth/journal"
	"berth/transport/codeindex"
	"berth/transport/dock"
	"berth/transport/environ"
	"berth/transport/git"
	"berth/transport/statedir"
)

// vessels is what the broker has of vessels and of the work on them: their
// verbs, the index of their code, and who carries missions out.
type vessels struct {
	family *dispatch.Family
	code   *codeverbs.Family
	// nil at a look at the configuration
	git      *git.Git
	secrets  *statedir.Secrets
	engine   *codeindex.Engine
	papers   *dock.Papers
	docks    *dock.Docks
	missions *missions.System
	ended    ends // by the restore that is under way, or the latest
}

// openPlaces opens what vessels have in the state directory.
func (b *running) openPlaces() (err error) {
	v := &b.vessels
	if v.secrets, err = b.dir.Secrets(); err != nil {
		return err
	}
	v.git = git.New(git.Options{Env: environ.Git(os.Environ()), Ledger: b.ledger, Own: b.dir.Path("repos")})
	if v.engine, err = codeindex.New(codeindex.Options{Root: b.dir.Path("index"), Repos: b.dir.Path("repos"), Git: v.git, Token: b.vesselToken}); err != nil {
		return err
	}
	v.papers = dock.NewPapers(dock.PapersOptions{Root: b.dir.Path("missions"), Git: v.git, Log: b.log, Now: time.Now, MaxLog: int64(b.cfg.Broker.Dispatch.MaxLog)})
	v.docks = dock.NewDocks(dock.Options{Root: b.dir.Path("docks"), Repos: b.dir.Path("repos"), Closed: b.dir.Root(), Git: v.git, Secrets: v.secrets, Papers: v.papers, Log: b.log})
	return nil
}

// vesselToken is what a vessel's repository is asked with; one that cannot be read
// is asked without.
func (b *running) vesselToken(id string) string {
	token, err := b.vessels.secrets.Secret("vessel-" + id)
	if err != nil {
		b.log.Warn("the token of a vessel could not be read", slog.String("vessel", id), slog.String("cause", err.Error()))
	}
	return token
}

// openVessels makes the families and who carries missions out, and ends what an
// earlier broker had under way. At a look at the configuration nothing of the
// state directory is open: the verbs are listed and never called.
func (b *running) openVessels(shared native.Options) error {
	v, c := &b.vessels, b.cfg.Broker.Dispatch
	indexing := codeverbs.Options{Options: shared, Counter: b.counter, Within: context.WithTimeout, Missions: b.journal,
		Captains: codeverbs.CaptainSearch{Disabled: !c.CaptainSearch, MaxResults: c.CaptainSearchMaxResults, MaxCalls: c.CaptainSearchMaxCalls}}
	working := dispatch.Options{Options: shared, Random: rand.Reader, Secrets: v.secrets, Places: places{v.engine, v.git, b.log}, Hold: b.hold.Refuse, Within: context.WithTimeout}
	if b.dir == nil {
		v.family = dispatch.New(b.journal, working)
		v.code = codeverbs.New(b.journal, v.family, v.engine, indexing)
		return nil
	}
	// The index asks for vessels, dispatch for the state of the index.
	v.code = codeverbs.New(b.journal, vesselsOf{v}, v.engine, indexing)
	var err error
	if v.missions, err = b.newMissions(b.journal, b.board); err != nil {
		return err
	}
	working.Runner, working.Papers, working.Refs, working.Index, working.Board = v.missions, v.papers, v.docks, v.code, b.board
	v.family = dispatch.New(b.journal, working)
	if err := v.missions.Recover(context.Background()); err != nil {
		return &failure{exit: exitJournal, code: codeJournal, message: "What became of the missions cannot be written: " + sentence(err)}
	}
	return nil
}

// newMissions makes who carries missions out, with what store has of them; board
// hears of their ends.
func (b *running) newMissions(store missions.Store, board missions.Board) (*missions.System, error) {
	c, v := b.cfg.Broker.Dispatch, &b.vessels
	briefs := briefing.Options{Signals: b.board, Papers: v.papers, Packs: v.code, Log: b.log}
	agents := dock.AgentOptions{Docks: v.docks, Environ: os.Environ(), Pass: c.Env, Unattended: c.Unattended, Ledger: b.ledger}
	if c.DeliverMCP {
		briefs.Tokens, briefs.Broker, agents.MCP = b.access.launches, b.forAgents, b.forAgents
	}
	return missions.New(missions.Options{Store: store, Docks: v.docks, Agents: dock.NewAgents(agents), Tokens: b.access.launches, Briefs: briefing.New(briefs), Board: board,
		Log: b.log, Now: time.Now, Random: rand.Reader, MaxAgents: c.MaxAgents, StallAfter: c.StallAfter, MissionTimeout: c.MissionTimeout,
		DocksDir: b.dir.Path("docks"), Deliver: c.DeliverMCP})
}

// forAgents is where an agent on this host reaches the broker, which listens by the
// time one runs; empty: it listens nowhere.
func (b *running) forAgents() string {
	if b.listener == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(b.listener.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/mcp"
}

// renewMissions has another journal's missions say what became of them; nothing
// of this broker carries one of them out.
func (b *running) renewMissions(next *journal.Journal, _ journal.Recovery) (func(), error) {
	b.vessels.ended = nil
	system, err := b.newMissions(next, &b.vessels.ended)
	if err == nil {
		err = system.Recover(context.Background())
	}
	return b.vessels.missions.Wake, err
}

// ends are the missions of a journal that is not in use yet, and which ended as
// they were recovered: the board of the one in use can be told of them later.
type ends []domain.Mission

func (e *ends) MissionEnded(m domain.Mission) { *e = append(*e, m) }

// workingMissions are the ids of missions that agents work on; with
// [domain.ErrPartly] there may be more.
func workingMissions(j *journal.Journal) ([]string, error) {
	ids := []string{}
	var partly error
	for _, status := range []domain.MissionStatus{domain.MissionAssigned, domain.MissionInProgress} {
		live, err := domain.ReadAll[domain.Mission](j, domain.InState(string(status)))
		if errors.Is(err, domain.ErrPartly) {
			partly = err
		} else if err != nil {
			return nil, err
		}
		for _, m := range live {
			ids = append(ids, m.Value.ID)
		}
	}
	return ids, partly
}

// missionsThatWork are those that can be read; of the others the log has told.
func (b *running) missionsThatWork() ([]string, error) {
	ids, err := workingMissions(b.journal)
	if errors.Is(err, domain.ErrPartly) {
		err = nil
	}
	return ids, err
}

// vesselsOf gives the vessels of a family that is made after who asks for them.
type vesselsOf struct{ v *vessels }

func (o vesselsOf) Vessel(who broker.Principal, id string) (domain.Vessel, error) {
	return o.v.family.Vessel(who, id)
}

// admit judges a call that becomes a job.
func (v *vessels) admit(call *broker.Call, record *broker.Job) *broker.Refusal {
	return cmp.Or(v.family.Admit(call, record), v.code.Admit(call, record))
}

// cancelled ends what a job had made that somebody cancelled.
func (v *vessels) cancelled(ctx context.Context, job broker.Job, by broker.Principal) {
	v.family.Cancelled(ctx, job, by)
}

// stop ends the agents; it returns when none is left, or with ctx.
func (v *vessels) stop(ctx context.Context) error {
	if v.missions == nil {
		return nil
	}
	return v.missions.Stop(ctx)
}

func (v *vessels) close() {
	if v.engine != nil {
		v.engine.Close()
	}
}

// places answers what the verbs of vessels ask of the file system.
type places struct {
	engine *codeindex.Engine
	git    *git.Git
	log    *slog.Logger
}

// LocalClone finds the repository that an address on this host leads to: a
// directory with .git, or a bare one.
func (places) LocalClone(url string) (dir string, ok bool) {
	dir = git.LocalPath(url)
	if dir == "" {
		return "", false
	}
	there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	return dir, there(".git") || there("HEAD") && there("hooks")
}

// FileSize is how many bytes a regular file has.
func (places) FileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// RemoveClone removes the bare clones of a vessel and what was indexed of it. At
// its LocalPath a bare repository is removed that is neither its origin nor its
// working directory: those are somebody's own.
func (p places) RemoveClone(ctx context.Context, v domain.Vessel) (warnings []string) {
	if err := p.engine.Drop(ctx, v.ID); err != nil {
		p.log.Warn("a vessel's clone or index could not be removed", slog.String("cause", err.Error()))
		warnings = append(warnings, "Its clone or its code index could not be removed from the state directory.")
	}
	if w := p.removeLocal(ctx, v); w != "" {
		warnings = append(warnings, w)
	}
	return warnings
}

func (p places) removeLocal(ctx context.Context, v domain.Vessel) (warning string) {
	if v.LocalPath == nil {
		return ""
	}
	if sameDirectory(git.LocalPath(v.RepoURL), *v.LocalPath) || v.WorkingDirectory != nil && sameDirectory(*v.WorkingDirectory, *v.LocalPath) {
		return "Its localPath is also its origin or its working directory, and was left as it is."
	}
	if err := p.git.Repo(*v.LocalPath).Remove(ctx); err != nil {
		p.log.Warn("the clone at a vessel's localPath could not be removed", slog.String("cause", err.Error()))
		return "What stands at its localPath was left as it is: it is no bare repository, or could not be removed."
	}
	return ""
}

// sameDirectory reports whether two paths lead to one directory that is there.
func sameDirectory(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
