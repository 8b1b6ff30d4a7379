//go:build unix

package dock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/actors/missions"
	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
	"berth/transport/environ"
	"berth/transport/guard"
)

// AgentOptions is what agents need. Docks is required.
type AgentOptions struct {
	Docks   *Docks // whose files, repositories and credentials they share
	Environ []string
	// Pass names variables of Environ that agents get beside those that all do;
	// * stands for any rest.
	Pass []string
	// MCP gives the address of the broker's own endpoint; nil, or an empty one:
	// agents get no MCP configuration.
	MCP func() string
	// Unattended lets programs use their tools without asking.
	Unattended bool
	// Ledger records what runs, so that the next broker ends what this one left;
	// nil: none.
	Ledger *guard.Ledger
	// Executable is the guard's, as in guard.Spec.
	Executable string
}

// Agents starts agent programs; it satisfies missions.Agents.
type Agents struct {
	opts   AgentOptions
	papers *Papers
	log    *slog.Logger
}

var _ missions.Agents = (*Agents)(nil)

// NewAgents makes agents.
func NewAgents(o AgentOptions) *Agents {
	return &Agents{opts: o, papers: o.Docks.opts.Papers, log: o.Docks.opts.Log}
}

// Note adds a line of the broker's own to a mission's log.
func (a *Agents) Note(missionID, line string) { a.papers.Note(missionID, line) }

// launchDir holds the files of a launch, in the directory of its mission.
const launchDir = "launch"

// Start runs a captain's program; see missions.Agents.
func (a *Agents) Start(ctx context.Context, w missions.Work, brief, token string, heard func(missions.Beat)) (missions.Agent, error) {
	dir, err := a.papers.room(w.Mission.ID)
	if err != nil {
		return nil, err
	}
	key, err := a.opts.Docks.opts.Secrets.Secret("captain-" + w.Captain.ID)
	if err != nil {
		return nil, err
	}
	scratch := filepath.Join(dir, launchDir)
	m := runtime.Mission{Captain: w.Captain, Prompt: brief, Worktree: w.Dock.Path, Scratch: scratch, ID: w.Mission.ID, Unattended: a.opts.Unattended}
	if a.opts.MCP != nil && token != "" { // a configuration whose variable is not set stops some programs
		m.MCP = a.opts.MCP()
	}
	plan, refusal := runtime.For(m)
	switch {
	case refusal != nil && refusal.Code == broker.CodePromptTooLarge:
		return nil, &dispatch.Fault{Reason: dispatch.PromptTooLarge, Message: refusal.Message}
	case refusal != nil:
		return nil, refusal
	case len(plan.Argv) == 0:
		return nil, errors.New("the captain's command is empty")
	}
	hide := redacting(token, key)
	log, err := a.papers.openLog(w.Mission.ID, hide)
	if err != nil {
		return nil, err
	}
	run := newAgent(w, plan, hide, log, heard)
	if err := a.papers.claim(w.Mission.ID, &running{log, run.message}); err != nil {
		log.close()
		return nil, err
	}
	if err := a.launch(ctx, run, w, plan, m.MCP, key, token); err != nil {
		a.discard(run, scratch)
		return nil, err
	}
	go func() {
		run.follow(a.papers)
		a.discard(run, scratch)
		run.told()
	}()
	return run, nil
}

// discard ends what a launch holds but its process.
func (a *Agents) discard(run *agent, scratch string) {
	if err := os.RemoveAll(scratch); err != nil {
		a.log.Warn("the files of a launch could not be removed", slog.String("mission", run.mission), slog.String("cause", err.Error()))
	}
	a.papers.release(run.mission)
	run.log.close()
}

// launch makes the files of a launch and starts the program.
func (a *Agents) launch(ctx context.Context, run *agent, w missions.Work, plan runtime.Plan, mcp, key, token string) error {
	dir, err := a.papers.dir(w.Mission.ID)
	if err != nil {
		return err
	}
	scratch := filepath.Join(dir, launchDir)
	err = errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o700))
	for _, name := range []string{diffName, outputName} { // of an earlier try
		if gone := os.Remove(filepath.Join(dir, name)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("make room for a launch: %w", err)
	}
	for _, f := range plan.Files {
		if err := a.write(ctx, w, f); err != nil {
			return fmt.Errorf("write the program's configuration: %w", err)
		}
	}
	entries, unused := provider(w.Captain, key)
	if unused {
		_ = run.log.note("The captain's apiBaseUrl is not used: its program takes none that is given it from outside.")
	}
	env := slices.Concat(environ.Agent(a.opts.Environ, a.opts.Pass), plan.Env, entries, about(w, token))
	if mcp != "" {
		env = append(env, "BERTH_MCP_URL="+mcp)
	}
	if !authored(env) && !a.opts.Docks.opts.Git.Repo(w.Dock.Path).Identified(ctx) {
		env = append(env, identity...)
	}
	p, err := guard.Start(ctx, guard.Spec{Executable: a.opts.Executable, Command: plan.Argv[0], Args: plan.Argv[1:], Env: env, Dir: w.Dock.Path,
		StopGrace: -1, Stderr: run.stderr, Ledger: a.opts.Ledger, Name: "mission " + w.Mission.ID})
	if err != nil {
		return err
	}
	_ = run.log.note(fmt.Sprintf("%s runs as process %d, for captain %s.", filepath.Base(plan.Argv[0]), p.PID, w.Captain.Name))
	run.began(p, a.papers.opts.Now(), plan.Stdin)
	return nil
}

// authored reports whether an environment says who commits.
func authored(env []string) bool {
	return slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "GIT_AUTHOR_EMAIL=") }) &&
		slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "GIT_COMMITTER_EMAIL=") })
}

// write makes a file of a launch.
func (a *Agents) write(ctx context.Context, w missions.Work, f runtime.File) error {
	if !f.Hidden {
		out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = out.WriteString(f.Content)
		return errors.Join(err, out.Close())
	}
	name, err := filepath.Rel(w.Dock.Path, f.Path)
	if err != nil {
		return err
	}
	repo, err := a.opts.Docks.repo(w.Vessel)
	if err != nil {
		return err
	}
	if err := repo.Conceal(ctx, w.Dock.Path, name); err != nil {
		return err
	}
	out, err := createInside(w.Dock.Path, name, 0o600)
	if err != nil {
		return err
	}
	_, err = out.WriteString(f.Content)
	return errors.Join(err, out.Close())
}
