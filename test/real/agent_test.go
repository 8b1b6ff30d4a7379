package real

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent is an agent CLI that a scripted model drives.
type agent struct {
	name    string
	program string // of the scripted model
	// step is a call in the model's script.
	step func(tool string, arguments map[string]any) any
	// answered finds the result of each call in a request to the model.
	answered *regexp.Regexp
	// action is what it answers an elicitation with when nobody sits before it.
	action string
	// command prepares a home for the CLI; env and line are what is started in dir.
	command func(t *testing.T, m *model, at entry) (dir string, env, line []string)
}

// entry is where the CLI is told that Berth is: a URL with a token, or a
// command line.
type entry struct {
	url, token string
	line       []string
}

var agents = []agent{
	{
		name:    "claude",
		program: "messages_api.py",
		step: func(tool string, arguments map[string]any) any {
			return []any{"mcp__berth__" + tool, arguments}
		},
		answered: regexp.MustCompile(`"type":\s*"tool_result"`),
		action:   "cancel",
		command: func(t *testing.T, m *model, at entry) (dir string, env, line []string) {
			home := t.TempDir()
			server := map[string]any{"type": "http", "url": at.url, "headers": map[string]string{"Authorization": "Bearer " + at.token}}
			if at.url == "" {
				server = map[string]any{"command": at.line[0], "args": at.line[1:]}
			}
			config := filepath.Join(home, "mcp.json")
			write(t, config, mustJSON(t, map[string]any{"mcpServers": map[string]any{"berth": server}}))
			return home, claudeEnv(home, m), []string{filepath.Join(modules(t), ".bin", "claude"), "-p", "go",
				"--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__berth", "--output-format", "json"}
		},
	},
	{
		name:    "codex",
		program: "responses_api.py",
		step: func(tool string, arguments map[string]any) any {
			return []any{folded(tool), arguments, "mcp__berth"}
		},
		answered: regexp.MustCompile(`"type":\s*"function_call_output"`),
		action:   "decline",
		command: func(t *testing.T, m *model, at entry) (dir string, env, line []string) {
			home := t.TempDir()
			env = codexEnv(t, home, home, m)
			file := filepath.Join(home, "codex", "config.toml")
			config, err := os.ReadFile(file)
			mustNot(t, "configure", err)
			server := "url = " + mustJSON(t, at.url) + "\nbearer_token_env_var = \"BERTH_TOKEN\"\n"
			if at.url == "" {
				server = "command = " + mustJSON(t, at.line[0]) + "\nargs = " + mustJSON(t, at.line[1:]) + "\n"
			}
			write(t, file, string(config)+"\n[mcp_servers.berth]\n"+server+"required = true\nstartup_timeout_sec = 60\n")
			return home, append(env, "BERTH_TOKEN="+at.token), []string{filepath.Join(modules(t), ".bin", "codex"), "exec",
				"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "go"}
		},
	},
}

// start runs the CLI; look is called with the number of results that the CLI
// has so far and the request that holds them, before the model answers.
func (a agent) start(t *testing.T, at entry, look func(results int, body []byte), script ...any) (*process, *model) {
	t.Helper()
	m := startModel(t, a.program, script, func(body []byte) {
		if look != nil {
			look(len(a.answered.FindAllIndex(body, -1)), body)
		}
	})
	dir, env, line := a.command(t, m, at)
	return startProcess(t, a.name, env, append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, line...)), m
}

// over waits for the end of a process.
func (p *process) over(t *testing.T, within time.Duration) {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		t.Fatalf("%s did not end within %s", p.name, within)
	}
}

// entries are the ways to a broker.
func (b *broker) entries(t *testing.T) map[string]entry {
	return map[string]entry{
		"http":  {url: b.url + "/mcp", token: b.token},
		"stdio": {line: []string{berthPath(t), "stdio", "--state-dir", b.stateDir}},
	}
}

// fixture is the project's own test server as a backend that is up.
func fixture(t *testing.T, keys map[string]any) map[string]any {
	keys["start"] = "eager"
	return map[string]any{"command": fixturePath(t), "args": []string{"stdio"}, "berth": keys}
}

func readyBroker(t *testing.T, keys map[string]any) *broker {
	t.Helper()
	return ready(t, startBroker(t, map[string]any{"fix": fixture(t, keys)}))
}

func ready(t *testing.T, b *broker) *broker {
	t.Helper()
	eventually(t, "the backend is ready", func() bool { return b.backend(t, "fix").State == "ready" })
	return b
}

// eachAgent runs a test for each CLI over both ways.
func eachAgent(t *testing.T, f func(t *testing.T, a agent, via string)) {
	need(t)
	for _, a := range agents {
		for _, via := range []string{"http", "stdio"} {
			t.Run(a.name+" "+via, func(t *testing.T) { f(t, a, via) })
		}
	}
}

const sessionsAtOnce = 8

// TestEightSessionsOfACLIAtOnce lets no model give its second step before all
// eight CLIs have the result of their first.
func TestEightSessionsOfACLIAtOnce(t *testing.T) {
	eachAgent(t, func(t *testing.T, a agent, via string) {
		b := readyBroker(t, map[string]any{})
		var met sync.WaitGroup
		met.Add(sessionsAtOnce)
		all := make(chan struct{})
		go func() { met.Wait(); close(all) }()
		var most int
		var counted sync.Once
		type session struct {
			*process
			*model
			word string
		}
		var started []session
		for i := range sessionsAtOnce {
			word := "word-" + string(rune('a'+i))
			var first sync.Once
			look := func(results int, _ []byte) {
				if results != 1 {
					return
				}
				first.Do(met.Done)
				late := time.NewTimer(2 * limit)
				defer late.Stop()
				select {
				case <-all:
					counted.Do(func() { most = len(b.sessions(t)) })
				case <-late.C:
					t.Error("the others did not come")
				}
			}
			p, m := a.start(t, b.entries(t)[via], look,
				a.step("fix__echo", map[string]any{"message": word}),
				a.step("fix__slow", map[string]any{"seconds": 1, "progress": 4}),
				a.step("fix__echo", map[string]any{"message": word + " again"}))
			started = append(started, session{p, m, word})
		}
		for _, s := range started {
			s.over(t, 3*limit)
			_, results := s.heard(t)
			if len(results) != 3 {
				t.Errorf("%s got %d results: %s", s.word, len(results), results)
				continue
			}
			for i, want := range []string{`{"message":"` + s.word + `"}`, "waited 1 s", `{"message":"` + s.word + ` again"}`} {
				if got := told(t, results[i]); !strings.Contains(strings.ReplaceAll(got, `": "`, `":"`), want) {
					t.Errorf("%s: result %d is %s", s.word, i, got)
				}
			}
		}
		if most != sessionsAtOnce {
			t.Errorf("Berth had %d sessions while all of them were in the middle", most)
		}
	})
}
