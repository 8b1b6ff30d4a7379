package real

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/transport/mcpserver"
)

const operationEnded = "Long running operation completed. Duration: 2 seconds, Steps: 2."

// cliBroker serves server-everything with a verb that is a job at once. The
// CLIs ask their model before a slow server has listed, so the backend is up
// before they start.
func cliBroker(t *testing.T) *broker {
	t.Helper()
	b := startBroker(t, map[string]any{"every": child(t, map[string]any{"long": []string{long}, "start": "eager"})})
	eventually(t, "the backend is ready", func() bool { return b.backend(t, "every").State == "ready" })
	return b
}

// clients collects who was connected while a CLI ran.
type clients map[session]bool

func (c clients) look(t *testing.T, b *broker) {
	for _, s := range b.sessions(t) {
		c[s] = true
	}
}

// only checks that nobody but the CLI was there, under the name and version
// that the table of clients needs.
func (c clients) only(t *testing.T, name, version, protocol string) {
	t.Helper()
	if len(c) != 1 || !c[session{name, version, protocol}] {
		t.Errorf("sessions while the CLI ran: %v, want %s %s with %s", c, name, version, protocol)
	}
	if !slices.ContainsFunc(mcpserver.MeasuredClients, func(l mcpserver.ClientLimits) bool {
		return l.Client == name && l.PromoteAfter > time.Minute && l.MaxAnswer == 15<<20
	}) {
		t.Errorf("the table of clients has no such entry for %q", name)
	}
}

// told is the text that a CLI showed its model for one call.
func told(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var r struct{ Content, Output json.RawMessage } // Claude Code, Codex
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	shown := r.Content
	if shown == nil {
		shown = r.Output
	}
	var text string
	if json.Unmarshal(shown, &text) == nil {
		return text
	}
	var blocks []struct{ Text string }
	if err := json.Unmarshal(shown, &blocks); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	var texts []string
	for _, b := range blocks {
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n")
}

// record is the job record in a text that may say more.
func record(t *testing.T, text string) jobRecord {
	t.Helper()
	at := strings.Index(text, `{"JobId"`)
	if at < 0 {
		t.Fatalf("no job record in %s", text)
	}
	var r jobRecord
	if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// heardAll checks what the CLI told its model: all tools, the echo, the handle
// and the result of the job.
func heardAll(t *testing.T, b *broker, m *model, nameFor func(tool string) string) {
	t.Helper()
	tools, results := m.heard(t)
	names, _ := overHTTP(t, "/mcp", b.url+"/mcp", b.token).list()
	for _, name := range names {
		if !slices.Contains(tools, nameFor(name)) {
			t.Errorf("the CLI does not offer %s: %q", nameFor(name), tools)
		}
	}
	if len(results) != 3 {
		t.Fatalf("the CLI gave %d results back, want 3: %s", len(results), results)
	}
	if got := told(t, results[0]); !strings.Contains(got, "Echo: ahoy") {
		t.Errorf("the call gave %s", got)
	}
	handle := record(t, told(t, results[1]))
	if handle.Operation != "every__"+long || handle.Status != "Accepted" {
		t.Errorf("the long call gave %+v", handle)
	}
	done := record(t, told(t, results[2]))
	if done.JobID != handle.JobID || done.Status != "Succeeded" || textOf(t, done.Result) != operationEnded {
		t.Errorf("the job ended as %+v %s", done, done.Result)
	}
	t.Logf("the model was told:\n  %s\n  %s\n  %s", told(t, results[0]), told(t, results[1]), told(t, results[2]))
}

// register makes a registration with berth install.
func register(t *testing.T, b *broker, dir string, env []string, args ...string) {
	t.Helper()
	out, err := run(t, dir, env, append([]string{berthPath(t), "install", "--state-dir", b.stateDir, "--write"}, args...))
	if err != nil {
		t.Fatalf("berth install %q: %v\n%s", args, err, out)
	}
}

func TestClaudeCodeFollowsAJobThroughBerth(t *testing.T) {
	need(t)
	version := pinned(t, "@anthropic-ai/claude-code")
	for _, via := range []string{"http", "stdio"} {
		for _, scope := range []string{"project", "user"} {
			t.Run(via+" "+scope, func(t *testing.T) {
				b := cliBroker(t)
				seen := clients{}
				m := startModel(t, "messages_api.py", []any{
					[]any{"mcp__berth__every__echo", map[string]any{"message": "ahoy"}},
					[]any{"mcp__berth__every__" + long, map[string]any{"duration": 2, "steps": 2}},
					[]any{"mcp__berth__job_status", map[string]any{"jobId": theJob, "waitSeconds": 30}},
				}, func([]byte) { seen.look(t, b) })
				home := t.TempDir()
				project := filepath.Join(home, "project")
				write(t, filepath.Join(project, "README"), "")
				env := claudeEnv(home, m)
				register(t, b, project, env, "claude", "--via", via, "--scope", scope)
				if via == "http" {
					env = append(env, "BERTH_TOKEN="+b.token)
				}
				out := claude(t, project, env)
				heardAll(t, b, m, func(tool string) string { return "mcp__berth__" + tool })
				seen.only(t, "claude-code", version, "2025-11-25")
				if !strings.Contains(out, `"subtype":"success"`) || !strings.Contains(out, `"result":"done"`) {
					t.Errorf("Claude Code ended with %s", out)
				}
				tokenNowhere(t, b, home)
			})
		}
	}
}

// claudeEnv drives Claude Code without an account. The last two let it wait for
// its servers as long as a loaded machine may need.
func claudeEnv(home string, m *model) []string {
	return environment(home, "ANTHROPIC_BASE_URL="+m.url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"MCP_CONNECTION_NONBLOCKING=false", "MCP_CONNECT_TIMEOUT_MS=60000")
}

func claude(t *testing.T, project string, env []string) string {
	t.Helper()
	out, err := run(t, project, env, []string{filepath.Join(modules(t), ".bin", "claude"), "-p", "go", "--allowedTools", "mcp__berth", "--output-format", "json"})
	if err != nil {
		t.Fatalf("claude: %v\n%s", err, out)
	}
	return out
}

func TestCodexFollowsAJobThroughBerth(t *testing.T) {
	need(t)
	version := pinned(t, "@openai/codex")
	for _, tt := range []struct{ via, scope string }{{"http", "user"}, {"stdio", "user"}, {"stdio", "project"}} {
		t.Run(tt.via+" "+tt.scope, func(t *testing.T) {
			b := cliBroker(t)
			seen := clients{}
			m := startModel(t, "responses_api.py", []any{
				[]any{"every__echo", map[string]any{"message": "ahoy"}, "mcp__berth"},
				[]any{"every__" + folded(long), map[string]any{"duration": 2, "steps": 2}, "mcp__berth"},
				[]any{"job_status", map[string]any{"jobId": theJob, "waitSeconds": 30}, "mcp__berth"},
			}, func([]byte) { seen.look(t, b) })
			home := t.TempDir()
			project := filepath.Join(home, "project")
			write(t, filepath.Join(project, "README"), "")
			env := codexEnv(t, home, project, m)
			register(t, b, project, env, "codex", "--via", tt.via, "--scope", tt.scope)
			patient(t, filepath.Join(home, "codex", "config.toml"), filepath.Join(project, ".codex", "config.toml"))
			if tt.via == "http" {
				env = append(env, "BERTH_TOKEN="+b.token)
			}
			out, err := run(t, project, env, []string{filepath.Join(modules(t), ".bin", "codex"), "exec",
				"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "go"})
			if err != nil {
				t.Fatalf("codex: %v\n%s", err, out)
			}
			heardAll(t, b, m, func(tool string) string { return "mcp__berth::" + folded(tool) })
			seen.only(t, "codex-mcp-client", version, "2025-06-18")
			tokenNowhere(t, b, home)
		})
	}
}

// codexEnv writes a configuration to which the registration is added; it trusts
// the project, so that the project's own is read. The
// model has no name that Codex knows: those that it knows are offered tools in
// a form that the scripted model does not read.
func codexEnv(t *testing.T, home, project string, m *model) []string {
	t.Helper()
	config := filepath.Join(home, "codex")
	write(t, filepath.Join(config, "config.toml"), `model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "`+m.url+`/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[projects."`+project+`"]
trust_level = "trusted"
`)
	return environment(home, "CODEX_HOME="+config, "SCRIPTED_KEY=dummy")
}

// patient lets Codex wait for its server as long as a loaded machine may need,
// with keys of the user's own in the entry, which is the last table.
func patient(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "[mcp_servers.berth]") {
			continue // the registration is in the other one
		}
		write(t, file, string(text)+"required = true\nstartup_timeout_sec = 60\n")
		return
	}
	t.Fatalf("no registration in %q", files)
}

// folded is a tool's name as Codex writes it.
func folded(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_]`).ReplaceAllString(name, "_")
}

// TestThePrintedCommandsMakeTheRegistration runs what berth install prints
// first, with the client's own program, and asks berth install whether anything
// is left to do.
func TestThePrintedCommandsMakeTheRegistration(t *testing.T) {
	need(t)
	for _, tt := range []struct{ client, via, scope string }{
		{"claude", "http", "user"}, {"claude", "http", "project"}, {"claude", "stdio", "user"}, {"claude", "stdio", "project"},
		{"codex", "http", "user"}, {"codex", "stdio", "user"},
	} {
		t.Run(tt.client+" "+tt.via+" "+tt.scope, func(t *testing.T) {
			home := t.TempDir()
			env := environment(home)
			env[0] = "PATH=" + filepath.Join(modules(t), ".bin") + string(filepath.ListSeparator) + os.Getenv("PATH")
			install := []string{berthPath(t), "install", tt.client, "--via", tt.via, "--scope", tt.scope, "--state-dir", filepath.Join(home, "a state"), "--json"}
			if tt.via == "http" {
				install = append(install, "--url", "http://127.0.0.1:7420/mcp")
			}
			var plan struct {
				Command          string
				Changed, Created bool
			}
			for _, step := range []string{"print", "run", "write"} {
				line := install
				switch step {
				case "run":
					line = []string{"sh", "-c", plan.Command}
				case "write":
					line = append(install, "--write")
				}
				out, err := run(t, home, env, line)
				if err != nil {
					t.Fatalf("%s: %v\n%s", step, err, out)
				}
				if step != "run" {
					unmarshal(t, out, &plan)
				}
			}
			if plan.Changed || plan.Created {
				t.Errorf("after %q there was something left to change", plan.Command)
			}
		})
	}
}
