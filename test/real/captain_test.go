package real

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/transport/dock"
	"berth/transport/git"
)

// noSecrets are the credentials of vessels and captains: the environment that a
// scripted model needs has them.
type noSecrets struct{}

func (noSecrets) Secret(string) (string, error) { return "", nil }

// TestRealAgentsAreCaptains has each CLI launched as a captain: it edits a file
// and commits with its own tools, calls the broker back with its token, and ends.
func TestRealAgentsAreCaptains(t *testing.T) {
	need(t)
	const command = "echo made > made.txt && git add made.txt && git commit --quiet -m made"
	for _, tt := range []struct {
		runtime dispatch.Runtime
		program string
		script  []any
		env     func(t *testing.T, home, worktree string, m *model) []string
		pass    []string
	}{
		{dispatch.ClaudeCode, "messages_api.py", []any{[]any{"Bash", map[string]any{"command": command}}, []any{"mcp__berth__fix__echo", map[string]any{"message": "ahoy"}}},
			func(_ *testing.T, home, _ string, m *model) []string {
				return append(claudeEnv(home, m), "IS_SANDBOX=1")
			}, // it runs as root in a container
			[]string{"ANTHROPIC_*", "CLAUDE_CODE_*", "MCP_*", "IS_SANDBOX"}},
		{dispatch.Codex, "responses_api.py", []any{[]any{"exec_command", map[string]any{"cmd": command}}, []any{folded("fix__echo"), map[string]any{"message": "ahoy"}, "mcp__berth"}},
			codexEnv, []string{"CODEX_HOME", "SCRIPTED_KEY"}},
	} {
		t.Run(string(tt.runtime), func(t *testing.T) {
			b := readyBroker(t, map[string]any{})
			m := startModel(t, tt.program, tt.script, func([]byte) {})
			dir, err := filepath.EvalSymlinks(t.TempDir())
			mustNot(t, "make room", err)
			origin, worktree := filepath.Join(dir, "origin"), filepath.Join(dir, "docks", "v", "msn_1")
			env := tt.env(t, filepath.Join(dir, "home"), worktree, m)
			env[0] = "PATH=" + filepath.Join(modules(t), ".bin") + ":" + os.Getenv("PATH")
			mustNot(t, "make a repository", os.MkdirAll(origin, 0o755))
			mustNot(t, "make a home", os.MkdirAll(filepath.Join(dir, "home"), 0o755))
			for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"-c", "user.name=T", "-c", "user.email=t@localhost", "commit", "--quiet", "--allow-empty", "-m", "first"}} {
				if out, err := run(t, origin, env, append([]string{"git"}, args...)); err != nil {
					t.Fatalf("git: %v\n%s", err, out)
				}
			}
			g := git.New(git.Options{Env: env, Executable: berthPath(t)})
			log := slog.New(slog.DiscardHandler)
			papers := dock.NewPapers(dock.PapersOptions{Root: filepath.Join(dir, "missions"), Git: g, Log: log, Now: time.Now})
			docks := dock.NewDocks(dock.Options{Root: filepath.Join(dir, "docks"), Repos: filepath.Join(dir, "repos"), Closed: dir, Git: g, Secrets: noSecrets{}, Papers: papers, Log: log})
			agents := dock.NewAgents(dock.AgentOptions{Docks: docks, Environ: env, Pass: tt.pass, MCP: func() string { return b.url + "/mcp" }, Unattended: true, Executable: berthPath(t)})

			w := missions.Work{Vessel: dispatch.Vessel{ID: "vsl_1", Name: "v", RepoURL: origin, DefaultBranch: "main"}, Mission: dispatch.Mission{ID: "msn_1", VesselID: "vsl_1"},
				Captain: dispatch.Captain{ID: "cpt_1", Name: "ann", Runtime: tt.runtime}, Dock: dispatch.Dock{VesselID: "vsl_1", Path: worktree, Branch: "berth/msn_1"}}
			prepared, err := docks.Prepare(t.Context(), w)
			mustNot(t, "prepare", err)
			w.Mission.StartCommit = &prepared.StartCommit
			a, err := agents.Start(t.Context(), w, "Make it.", b.token, func(missions.Beat) {})
			mustNot(t, "start", err)
			defer func() { mustNot(t, "stop", a.Stop(context.WithoutCancel(t.Context()))) }()
			late := time.NewTimer(3 * limit)
			defer late.Stop()
			said := func() string {
				text, _, _, err := papers.Log("msn_1", 0, 1<<20)
				mustNot(t, "read the log", err)
				return text
			}
			select {
			case <-a.Done():
			case <-late.C:
				t.Fatalf("it did not end:\n%s", said())
			}
			found, err := docks.Collect(t.Context(), w)
			mustNot(t, "collect", err)
			if end := a.End(); end.Code == nil || *end.Code != 0 || found.Produced == nil || !*found.Produced {
				t.Errorf("ended %+v, found %+v:\n%s", end, found, said())
			}
			if diff, _, err := papers.Diff("msn_1"); err != nil || !strings.Contains(diff, "+made") {
				t.Errorf("changed %q, %v", diff, err)
			}
			if text, final, err := papers.Output("msn_1"); err != nil || !final || text != "done" {
				t.Errorf("its last message is %q, %v", text, err)
			}
			if strings.Contains(said(), b.token) {
				t.Error("the log has the token")
			}
			if _, results := m.heard(t); len(results) < 2 || !strings.Contains(string(results[len(results)-1]), "ahoy") {
				t.Errorf("its model was told %s\n%s", results, said())
			}
			mustNot(t, "reclaim", docks.Reclaim(t.Context(), w.Vessel, w.Dock, false))
		})
	}
}
