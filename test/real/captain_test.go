package real

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// captain is an agent CLI that Berth runs on a mission.
type captain struct {
	runtime string
	program string // its name on the PATH
	binary  func(t *testing.T) string
	// setUp prepares the CLI in the broker's home for a model that does what
	// script says, and gives what the captain is created with and the variables
	// that the broker is given and hands on.
	setUp func(t *testing.T, home string, calls captainCalls) (fields map[string]any, env []string, told func() []string)
}

// captainCalls are what the model makes the CLI do: change and commit, then call
// Berth back.
type captainCalls struct {
	shell string // empty: only the call
	verb  string // of Berth
}

// theMission stands in a script for the mission's id, which the brief names.
const theMission = "THE-MISSION"

var missionID = regexp.MustCompile(`msn_[0-9a-z]{8}_[0-9A-Za-z]{11}`)

var captains = []captain{
	{runtime: "ClaudeCode", program: "claude", binary: npmBinary("claude"),
		setUp: func(t *testing.T, _ string, c captainCalls) (map[string]any, []string, func() []string) {
			m := startModel(t, "messages_api.py", []any{
				[]any{"Bash", map[string]any{"command": c.shell, "description": "work"}},
				[]any{"mcp__berth__" + c.verb, map[string]any{"missionId": theMission, "query": "anything"}},
			}, func([]byte) {})
			return map[string]any{"apiBaseUrl": m.url, "apiKey": "dummy"},
				[]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "MCP_CONNECTION_NONBLOCKING=false", "IS_SANDBOX=1"}, func() []string { return m.told(t) }
		}},
	{runtime: "Codex", program: "codex", binary: npmBinary("codex"),
		setUp: func(t *testing.T, home string, c captainCalls) (map[string]any, []string, func() []string) {
			m := startModel(t, "responses_api.py", []any{
				[]any{"exec_command", map[string]any{"cmd": c.shell}},
				[]any{c.verb, map[string]any{"missionId": theMission, "query": "anything"}, "mcp__berth"},
			}, func([]byte) {})
			return map[string]any{}, codexEnv(t, home, home, m)[5:], func() []string { return m.told(t) }
		}},
	{runtime: "Gemini", program: "gemini", binary: npmBinary("gemini"), setUp: otherCaptain("gemini", "mcp_berth_")},
	{runtime: "OpenCode", program: "opencode", binary: otherCLIs[1].binary, setUp: otherCaptain("opencode", "berth_")},
}

func npmBinary(name string) func(t *testing.T) string {
	return func(t *testing.T) string { return filepath.Join(modules(t), ".bin", name) }
}

// otherCaptain is a CLI whose model can only have it call Berth.
func otherCaptain(name, prefix string) func(*testing.T, string, captainCalls) (map[string]any, []string, func() []string) {
	return func(t *testing.T, home string, c captainCalls) (map[string]any, []string, func() []string) {
		m := startOtherModel(t, prefix+c.verb, `{"missionId":"msn_00000000_00000000000","query":"anything"}`, func() {})
		at := slices.IndexFunc(otherCLIs, func(o otherCLI) bool { return o.name == name })
		env := otherCLIs[at].prepare(t, home, m, entry{url: "http://127.0.0.1:9/mcp"})
		fields := map[string]any{}
		switch name {
		case "gemini":
			fields["model"] = "gemini-2.5-pro"
		case "opencode": // of the user, as it is started in a worktree
			config, err := os.ReadFile(filepath.Join(home, "opencode.json"))
			mustNot(t, "read its configuration", err)
			write(t, filepath.Join(home, ".config", "opencode", "opencode.json"), string(config))
		}
		return fields, env, func() []string {
			m.mu.Lock()
			defer m.mu.Unlock()
			return slices.Clone(m.results)
		}
	}
}

// told is what the CLI gave back to its model for each call.
func (m *model) told(t *testing.T) []string {
	t.Helper()
	_, results := m.heard(t)
	var out []string
	for _, r := range results {
		out = append(out, told(t, r))
	}
	return out
}

// captainBroker is a broker whose environment has the CLI on its PATH.
func captainBroker(t *testing.T, home string, c captain, env []string) *broker {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	mustNot(t, "make a directory", os.MkdirAll(bin, 0o700))
	mustNot(t, "link the CLI", os.Symlink(c.binary(t), filepath.Join(bin, c.program)))
	var names []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	// Gemini reads no settings below a directory that others may write to.
	dir, err := os.MkdirTemp(filepath.Join(root(t), ".real"), "state-")
	mustNot(t, "make a state directory", err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left of it is ignored by git
	b := &broker{stateDir: filepath.Join(dir, "state"), home: home, config: filepath.Join(dir, "berth.json")}
	b.env = append(environment(home), env...)
	b.env[0] = "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	write(t, b.config, mustJSON(t, map[string]any{"berth": map[string]any{"dispatch": map[string]any{"env": names}}}))
	b.serve(t, "127.0.0.1:0")
	token, err := os.ReadFile(filepath.Join(b.stateDir, "api-token"))
	mustNot(t, "read the token", err)
	b.token = strings.TrimSpace(string(token))
	return b
}

// asks calls one of Berth's verbs, which must answer well.
func asks[T any](t *testing.T, c *client, verb string, arguments any) (out T) {
	t.Helper()
	a := c.call(verb, arguments)
	var result struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || result.IsError || len(result.Content) == 0 {
		t.Fatalf("%s answers %s", verb, a.Result)
	}
	if err := json.Unmarshal([]byte(result.Content[0].Text), &out); err != nil {
		t.Fatalf("%s answers %s: %v", verb, result.Content[0].Text, err)
	}
	return out
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@localhost"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestRealAgentsCarryOutMissions runs agent CLIs as captains: those whose model
// can be scripted change a file, commit, and call Berth back with the token of
// their launch; the others reach their model and call Berth back.
func TestRealAgentsCarryOutMissions(t *testing.T) {
	need(t)
	for _, c := range captains {
		t.Run(c.runtime, func(t *testing.T) {
			home := t.TempDir()
			scripted := c.runtime == "ClaudeCode" || c.runtime == "Codex"
			calls := captainCalls{verb: "mission_code_search"}
			if scripted {
				calls.shell = "printf 'made by an agent\\n' > made.txt && git add made.txt && git commit -qm 'made by an agent'"
			}
			fields, env, told := c.setUp(t, home, calls)
			b := captainBroker(t, home, c, env)
			repo := filepath.Join(t.TempDir(), "repo")
			mustNot(t, "make a repository", os.MkdirAll(repo, 0o700))
			gitIn(t, repo, "init", "-q", "-b", "main")
			write(t, filepath.Join(repo, "README"), "begin\n")
			gitIn(t, repo, "add", ".")
			gitIn(t, repo, "commit", "-qm", "begin")

			operator := overHTTP(t, "operator", b.url+"/mcp", b.token)
			type identified struct {
				ID string `json:"Id"`
			}
			vessel := asks[identified](t, operator, "add_vessel", map[string]any{"name": "repo", "repoUrl": repo})
			fields["name"], fields["runtime"] = "agent", c.runtime
			asks[identified](t, operator, "create_captain", fields)
			mission := map[string]any{"title": "Make a file", "description": "Make made.txt and commit it.", "vesselId": vessel.ID}
			if !scripted {
				mission["mode"] = "Audit" // its model commits nothing
			}
			id := asks[identified](t, operator, "create_mission", mission).ID
			type state struct{ Status, FailureReason, FailureMessage, CommitHash, BranchName string }
			var m state
			eventually(t, "the mission has ended", func() bool {
				m = asks[state](t, operator, "mission_status", map[string]any{"missionId": id})
				return m.Status == "Complete" || m.Status == "Failed" || m.Status == "Cancelled"
			})
			log := asks[struct{ Log string }](t, operator, "get_mission_log", map[string]any{"missionId": id, "lines": 200}).Log
			t.Logf("the mission's log:\n%s", log)
			if m.Status != "Complete" {
				t.Fatalf("the mission ended %+v", m)
			}
			results := told()
			if len(results) == 0 || !strings.Contains(results[len(results)-1], `Available`) {
				t.Errorf("its model was told %q", results)
			}
			if scripted {
				if got := gitIn(t, filepath.Join(b.stateDir, "repos", vessel.ID+".git"), "log", "--format=%s", "-1", m.BranchName); got != "made by an agent" {
					t.Errorf("the branch ends with %q", got)
				}
				diff := asks[struct{ Diff string }](t, operator, "get_mission_diff", map[string]any{"missionId": id}).Diff
				if !strings.Contains(diff, "+made by an agent") {
					t.Errorf("its diff is %q", diff)
				}
				if !strings.Contains(results[len(results)-1], "index_missing") {
					t.Errorf("called back it was told %q", results[len(results)-1])
				}
			}
			tokenNowhere(t, b, home)
		})
	}
}
