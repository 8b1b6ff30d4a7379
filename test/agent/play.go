//go:build unix

package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// role is a program that is played.
type role struct {
	command  string            // the first argument; empty: none
	flags    map[string]bool   // those that there are, and whether a value follows
	needs    []string          // those that must be given; one of several by |
	fixed    map[string]string // the value that a flag must have
	argument bool              // the prompt may be an argument
	stdin    string            // the argument that stands for standard input
	promptIn string            // the flag whose value is the prompt
	// mcp finds the broker's address; authorization is how it refers to the token.
	mcp           func(given) (url, authorization string, err error)
	authorization string
	// begin, say and end are events; %s is JSON text.
	begin, say, end string
	last            string // the flag that names a file for the last message
}

// roles by the names of the programs.
var roles = map[string]role{
	"claude": {
		flags: map[string]bool{"--print": false, "--verbose": false, "--output-format": true, "--strict-mcp-config": false, "--mcp-config": true, "--model": true, "--dangerously-skip-permissions": false},
		needs: []string{"--print", "--verbose", "--output-format", "--strict-mcp-config"}, fixed: map[string]string{"--output-format": "stream-json"},
		argument: true, mcp: serversIn("--mcp-config", "", "url"), authorization: "Bearer ${ARMADA_MCP_TOKEN}",
		begin: `{"type":"system","subtype":"init","tools":[]}`, say: `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%s}]}}`,
		end: `{"type":"result","subtype":"success","is_error":false,"result":%s}`,
	},
	"codex": {
		command: "exec",
		flags:   map[string]bool{"--json": false, "--sandbox": true, "--dangerously-bypass-approvals-and-sandbox": false, "--model": true, "-c": true, "--output-last-message": true},
		needs:   []string{"--json", "--sandbox|--dangerously-bypass-approvals-and-sandbox", "--output-last-message"}, fixed: map[string]string{"--sandbox": "workspace-write"}, argument: true, stdin: "-", mcp: settings, authorization: "ARMADA_MCP_TOKEN",
		begin: `{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.started"}`, say: `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":%s}}`,
		end: `{"type":"turn.completed","usage":{}}`, last: "--output-last-message",
	},
	"gemini": {
		flags: map[string]bool{"--model": true, "--approval-mode": true, "--output-format": true, "-p": true}, needs: []string{"--approval-mode", "--output-format", "-p"},
		fixed: map[string]string{"--output-format": "stream-json"}, promptIn: "-p", mcp: serversIn("", "GEMINI_CLI_SYSTEM_SETTINGS_PATH", "httpUrl"), authorization: "Bearer ${ARMADA_MCP_TOKEN}",
		begin: `{"type":"init","session_id":"s"}`, say: `{"type":"message","role":"assistant","content":%s,"delta":true}`, end: `{"type":"result","status":"success"}`,
	},
	"cursor-agent": {
		flags: map[string]bool{"--print": false, "--model": true, "--force": false, "--trust": false, "--output-format": true}, needs: []string{"--print", "--force", "--trust", "--output-format"},
		fixed: map[string]string{"--output-format": "stream-json"}, mcp: serversIn(".cursor/mcp.json", "", "url"), authorization: "Bearer ${env:ARMADA_MCP_TOKEN}",
		begin: `{"type":"system","subtype":"init"}`, say: `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%s}]}}`,
		end: `{"type":"result","subtype":"success","result":%s}`,
	},
	"opencode": {
		command: "run", flags: map[string]bool{"-m": true, "--format": true, "--variant": true, "--agent": true}, needs: []string{"--format"}, fixed: map[string]string{"--format": "json"},
		mcp: remote, authorization: "Bearer {env:ARMADA_MCP_TOKEN}",
		begin: `{"type":"step_start","part":{}}`, say: `{"type":"text","part":{"type":"text","text":%s}}`, end: `{"type":"step_finish","part":{}}`,
	},
	"plain": {
		flags: map[string]bool{"--prompt-file": true, "--model": true}, argument: true,
		mcp: func(given) (string, string, error) { return os.Getenv("BERTH_MCP_URL"), "", nil },
	},
}

// Names are the names of the programs that are played.
func Names() []string {
	names := []string{}
	for name := range roles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Plays reports whether a program of this name, or at this path, is played.
func Plays(name string) bool {
	_, known := roles[filepath.Base(name)]
	return known
}

// given is what a program was called with.
type given struct {
	values map[string][]string
	prompt string
}

func (g given) first(flag string) string {
	if list := g.values[flag]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// parse reads the arguments of a role, strictly.
func (r role) parse(args []string, in io.Reader) (given, error) {
	g := given{values: map[string][]string{}}
	if r.command != "" {
		if len(args) == 0 || args[0] != r.command {
			return g, fmt.Errorf("the first argument is not %s", r.command)
		}
		args = args[1:]
	}
	var words []string
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		takes, known := r.flags[word]
		switch {
		case known && takes && len(args) == 0:
			return g, fmt.Errorf("%s has no value", word)
		case known && takes:
			if want, is := r.fixed[word]; is && args[0] != want {
				return g, fmt.Errorf("%s is not %s", word, want)
			}
			g.values[word] = append(g.values[word], args[0])
			args = args[1:]
		case known:
			g.values[word] = append(g.values[word], "")
		case strings.HasPrefix(word, "-") && word != r.stdin:
			return g, fmt.Errorf("%.40q is unknown", word)
		default:
			words = append(words, word)
		}
	}
	for _, need := range r.needs {
		if n := len(slices.DeleteFunc(strings.Split(need, "|"), func(f string) bool { return g.values[f] == nil })); n != 1 {
			return g, fmt.Errorf("%s: %d are given", need, n)
		}
	}
	if len(words) > 1 || len(words) == 1 && !r.argument {
		return g, fmt.Errorf("%d arguments too many", len(words))
	}
	var err error
	switch file := g.first("--prompt-file"); {
	case r.promptIn != "":
		g.prompt = g.first(r.promptIn)
	case file != "":
		var raw []byte
		raw, err = os.ReadFile(file)
		g.prompt = string(raw)
	case len(words) == 1 && words[0] != r.stdin:
		g.prompt = words[0]
	default:
		var raw []byte
		raw, err = io.ReadAll(in)
		g.prompt = string(raw)
	}
	return g, err
}

// serversIn reads {"mcpServers":{"berth":{url,headers}}} from the file that a
// flag or a variable names, or that stands at a path.
func serversIn(place, variable, member string) func(given) (string, string, error) {
	return func(g given) (string, string, error) {
		file := place
		if strings.HasPrefix(place, "--") {
			file = g.first(place)
		}
		if variable != "" {
			file = os.Getenv(variable)
		}
		var config struct {
			Servers map[string]map[string]json.RawMessage `json:"mcpServers"`
		}
		return server(file, &config, func() map[string]json.RawMessage { return config.Servers["berth"] }, member)
	}
}

// remote reads OpenCode's {"mcp":{"berth":{url,headers}}}.
func remote(given) (string, string, error) {
	var config struct {
		Servers map[string]map[string]json.RawMessage `json:"mcp"`
	}
	return server(os.Getenv("OPENCODE_CONFIG"), &config, func() map[string]json.RawMessage { return config.Servers["berth"] }, "url")
}

func server(file string, config any, find func() map[string]json.RawMessage, member string) (url, authorization string, err error) {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, config)
	}
	if err != nil {
		return "", "", err
	}
	var headers map[string]string
	found := find()
	if err := json.Unmarshal(found[member], &url); err != nil {
		return "", "", fmt.Errorf("the server berth: %w", err)
	}
	if err := json.Unmarshal(found["headers"], &headers); err != nil {
		return "", "", fmt.Errorf("the headers of the server berth: %w", err)
	}
	return url, headers["Authorization"], nil
}

// settings reads Codex's -c.
func settings(g given) (url, authorization string, err error) {
	for _, s := range g.values["-c"] {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "mcp_servers.berth.url":
			err = json.Unmarshal([]byte(value), &url)
		case "mcp_servers.berth.bearer_token_env_var":
			err = json.Unmarshal([]byte(value), &authorization)
		case "model_reasoning_effort":
		default:
			err = fmt.Errorf("-c %s is unknown", key)
		}
		if err != nil {
			return "", "", err
		}
	}
	return url, authorization, nil
}
