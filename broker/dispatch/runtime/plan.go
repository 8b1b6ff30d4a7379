package runtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/dispatch"
)

// TokenVariable is where a mission's program finds its token.
const TokenVariable = "ARMADA_MCP_TOKEN"

// maxArgument is the longest prompt that is passed as an argument, in bytes.
const maxArgument = 96 << 10

// Mission is what a program is launched for.
type Mission struct {
	Captain  dispatch.Captain
	Prompt   string
	Worktree string // absolute
	Scratch  string // absolute, outside the worktree: for files of the launch
	ID       string
	// MCP is the address of the broker's own endpoint for the mission; empty:
	// the program gets no MCP configuration.
	MCP string
	// Unattended lets the program use its tools without asking, which nobody
	// could answer. Approval is the word for Gemini's --approval-mode.
	Unattended bool
}

// File is one that must stand before the program starts; its mode is 0600.
type File struct {
	Path    string
	Content string
	// Hidden is true for a file inside the worktree, which must not be taken for
	// a part of the work.
	Hidden bool
}

// Plan is how a program is run.
type Plan struct {
	Argv  []string
	Stdin string // written whole, then closed
	Env   []string
	Files []File
	// LastMessage is a file in which the program leaves its last message; empty:
	// its stream has it.
	LastMessage string
}

// runtimes is the table: how each program is run.
var runtimes = map[dispatch.Runtime]func(Mission) (Plan, *broker.Refusal){
	dispatch.ClaudeCode: claude, dispatch.Codex: codex, dispatch.Gemini: gemini,
	dispatch.Cursor: cursor, dispatch.OpenCode: openCode, dispatch.Custom: custom,
}

// For plans the launch of a mission. A runtime that is not built is
// runtime_unsupported, a prompt that the program cannot take prompt_too_large.
func For(m Mission) (Plan, *broker.Refusal) {
	plan, built := runtimes[m.Captain.Runtime]
	if !built {
		return Plan{}, Unsupported(m.Captain.Runtime)
	}
	return plan(m)
}

// Unsupported refuses a runtime that is not built.
func Unsupported(r dispatch.Runtime) *broker.Refusal {
	return broker.Refuse(broker.CodeRuntimeUnsupported, "This build runs no captains of this runtime.", map[string]any{"Runtime": r, "Runtimes": dispatch.Runtimes})
}

// flag gives a flag and its value, or nothing when there is none.
func flag(name string, value *string) []string {
	if value == nil || *value == "" {
		return nil
	}
	return []string{name, *value}
}

// when gives words when a condition holds.
func when(holds bool, words ...string) []string {
	if !holds {
		return nil
	}
	return words
}

// last puts the prompt at the end of the arguments, or, when it is too long for
// that, on standard input with what stands for it among the arguments.
func (m Mission) last(argv []string, instead ...string) Plan {
	if len(m.Prompt) <= maxArgument {
		return Plan{Argv: append(argv, m.Prompt)}
	}
	return Plan{Argv: append(argv, instead...), Stdin: m.Prompt}
}

// server is the broker as an MCP server; address is the member with its URL, and
// reference is how the program writes a variable.
func (m Mission) server(address, reference string, more map[string]any) map[string]any {
	server := map[string]any{address: m.MCP, "headers": map[string]string{"Authorization": "Bearer " + reference}}
	maps.Copy(server, more)
	return map[string]any{"berth": server}
}

// file is a configuration as a program reads it.
func file(path string, hidden bool, config map[string]any) []File {
	raw, _ := json.MarshalIndent(config, "", "  ") // strings and numbers only
	return []File{{Path: path, Content: string(raw) + "\n", Hidden: hidden}}
}

// address is the captain's own address of its provider; empty: the usual one.
func (m Mission) address() string {
	if m.Captain.APIBaseURL == nil {
		return ""
	}
	return *m.Captain.APIBaseURL
}

func claude(m Mission) (Plan, *broker.Refusal) {
	config := path.Join(m.Scratch, "mcp.json")
	argv := slices.Concat([]string{"claude", "--print", "--verbose", "--output-format", "stream-json", "--strict-mcp-config"},
		when(m.MCP != "", "--mcp-config", config), flag("--model", m.Captain.Model), when(m.Unattended, "--dangerously-skip-permissions"))
	plan := m.last(argv)
	if argv[len(argv)-1] == config { // --mcp-config takes every word up to the next flag for a file
		plan = Plan{Argv: argv, Stdin: m.Prompt}
	}
	if m.MCP != "" {
		plan.Files = file(config, false, map[string]any{"mcpServers": m.server("url", "${"+TokenVariable+"}", map[string]any{"type": "http"})})
	}
	return plan, nil
}

func codex(m Mission) (Plan, *broker.Refusal) {
	out := path.Join(m.Scratch, "last-message.txt")
	quoted, _ := json.Marshal(m.MCP) // TOML reads a JSON string of an address
	argv := slices.Concat([]string{"codex", "exec", "--json"},
		when(!m.Unattended, "--sandbox", "workspace-write"), when(m.Unattended, "--dangerously-bypass-approvals-and-sandbox"), flag("--model", m.Captain.Model))
	if e := m.Captain.ReasoningEffort; e != nil && *e != "" {
		argv = append(argv, "-c", "model_reasoning_effort="+*e)
	}
	argv = slices.Concat(argv, when(m.MCP != "", "-c", "mcp_servers.berth.url="+string(quoted), "-c", fmt.Sprintf("mcp_servers.berth.bearer_token_env_var=%q", TokenVariable)),
		[]string{"--output-last-message", out})
	plan := m.last(argv, "-")
	plan.LastMessage = out
	return plan, nil
}

func gemini(m Mission) (Plan, *broker.Refusal) {
	if len(m.Prompt) > maxArgument {
		return Plan{}, broker.Refuse(broker.CodePromptTooLarge, "The brief is longer than this runtime takes.", map[string]any{"Bytes": len(m.Prompt), "LimitBytes": maxArgument})
	}
	mode := "auto_edit"
	if m.Unattended {
		mode = "yolo"
	}
	plan := Plan{Argv: slices.Concat([]string{"gemini"}, flag("--model", m.Captain.Model), []string{"--approval-mode", mode, "--output-format", "stream-json", "-p", m.Prompt})}
	if m.Unattended { // else it asks in a directory that it does not know, whatever the mode
		plan.Env = append(plan.Env, "GEMINI_CLI_TRUST_WORKSPACE=true")
	}
	settings := map[string]any{}
	if m.MCP != "" {
		settings["mcpServers"] = m.server("httpUrl", "${"+TokenVariable+"}", nil)
	}
	if m.address() != "" { // else it takes the address for a gateway's, and no key
		settings["security"] = map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}}
	}
	if len(settings) > 0 {
		config := path.Join(m.Scratch, "gemini-settings.json")
		plan.Files, plan.Env = file(config, false, settings), append(plan.Env, "GEMINI_CLI_SYSTEM_SETTINGS_PATH="+config)
	}
	return plan, nil
}

func cursor(m Mission) (Plan, *broker.Refusal) {
	plan := Plan{Argv: slices.Concat([]string{"cursor-agent", "--print"}, flag("--model", m.Captain.Model), []string{"--force", "--trust", "--output-format", "stream-json"}), Stdin: m.Prompt}
	if m.MCP != "" {
		plan.Files = file(path.Join(m.Worktree, ".cursor", "mcp.json"), true, map[string]any{"mcpServers": m.server("url", "${env:"+TokenVariable+"}", nil)})
	}
	return plan, nil
}

func openCode(m Mission) (Plan, *broker.Refusal) {
	plan := Plan{Argv: slices.Concat([]string{"opencode", "run"}, flag("-m", m.Captain.Model), []string{"--format", "json"}, flag("--variant", m.Captain.ReasoningEffort)), Stdin: m.Prompt}
	settings := map[string]any{}
	if m.MCP != "" {
		settings["mcp"] = m.server("url", "{env:"+TokenVariable+"}", map[string]any{"type": "remote", "enabled": true})
	}
	if vendor := Vendor(m.Captain); vendor != "" && m.address() != "" {
		settings["provider"] = map[string]any{vendor: map[string]any{"options": map[string]any{"baseURL": m.address()}}}
	}
	if len(settings) > 0 {
		config := path.Join(m.Scratch, "opencode.json")
		plan.Files, plan.Env = file(config, false, settings), []string{"OPENCODE_CONFIG=" + config}
	}
	return plan, nil
}

// Vendor is the part of the name of a captain's model before its slash; empty:
// the name has none.
func Vendor(c dispatch.Captain) string {
	if c.Model == nil {
		return ""
	}
	vendor, _, named := strings.Cut(*c.Model, "/")
	if !named {
		return ""
	}
	return vendor
}

// The ways in which a custom command gets its prompt.
const (
	ByStdin    = "stdin"
	ByArgument = "argument"
	ByFile     = "file"
)

func custom(m Mission) (Plan, *broker.Refusal) {
	plan, file := Plan{}, path.Join(m.Scratch, "prompt.txt")
	switch m.Captain.PromptDelivery {
	case ByArgument:
		if len(m.Prompt) > maxArgument {
			return Plan{}, broker.Refuse(broker.CodePromptTooLarge, "The brief is longer than an argument may be.", map[string]any{"Bytes": len(m.Prompt), "LimitBytes": maxArgument})
		}
	case ByFile:
		plan.Files = []File{{Path: file, Content: m.Prompt}}
	default:
		plan.Stdin = m.Prompt
	}
	model := ""
	if m.Captain.Model != nil {
		model = *m.Captain.Model
	}
	places := strings.NewReplacer("{promptFile}", file, "{worktree}", m.Worktree, "{missionId}", m.ID, "{model}", model, "{prompt}", m.Prompt)
	for _, word := range m.Captain.CustomCommand {
		if word == "{prompt}" && m.Captain.PromptDelivery != ByArgument {
			continue // it comes another way
		}
		plan.Argv = append(plan.Argv, places.Replace(word))
	}
	return plan, nil
}
