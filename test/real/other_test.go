package real

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// otherModel is a model endpoint for a CLI that the scripted models do not
// speak to: it asks for one call, then says that it is done.
type otherModel struct {
	url  string
	seen func() // while the CLI waits for its model
	mu   sync.Mutex
	// offered are the tools of the last request that had any, results what came
	// back for the call.
	offered, results []string
}

// otherRequest is what both forms of request hold, less what is not looked at.
type otherRequest struct {
	Tools []struct {
		FunctionDeclarations []struct{ Name string } // Gemini
		Function             struct{ Name string }   // chat completions
	}
	Contents []struct {
		Parts []struct{ FunctionResponse json.RawMessage }
	}
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
}

func (m *otherModel) take(r otherRequest) (called bool) {
	var offered, results []string
	for _, tool := range r.Tools {
		for _, f := range tool.FunctionDeclarations {
			offered = append(offered, f.Name)
		}
		if tool.Function.Name != "" {
			offered = append(offered, tool.Function.Name)
		}
	}
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				results = append(results, string(p.FunctionResponse))
			}
		}
	}
	for _, msg := range r.Messages {
		if msg.Role == "tool" {
			results = append(results, string(msg.Content))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(offered) > 0 {
		m.offered, m.results = offered, results
	}
	return len(results) > 0 || len(offered) == 0
}

// startOtherModel answers both forms; tool and arguments are the call.
func startOtherModel(t *testing.T, tool, arguments string, seen func()) *otherModel {
	t.Helper()
	m := &otherModel{seen: seen}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request otherRequest
		if err != nil || json.Unmarshal(body, &request) != nil {
			http.NotFound(w, r)
			return
		}
		m.seen()
		called := m.take(request)
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			delta, reason := `{"role":"assistant","content":"done"}`, "stop"
			if !called {
				delta, reason = fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":%q,"arguments":%q}}]}`, tool, arguments), "tool_calls"
			}
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", delta, reason)
			return
		}
		part := `{"text":"done"}`
		if !called {
			part = fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, tool, arguments)
		}
		fmt.Fprintf(w, "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[%s]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":1,\"candidatesTokenCount\":1,\"totalTokenCount\":2}}\n\n", part)
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// otherCLI is an agent CLI that is only seen to connect, list and call.
type otherCLI struct {
	name, pkg, client, protocol string
	tool                        func(name string) string
	binary                      func(t *testing.T) string
	// prepare configures it in home for a server named berth.
	prepare func(t *testing.T, home string, m *otherModel, at entry) (env []string)
	list    []string // its command that shows its servers
	shown   string   // what that says of one that it reached
	run     []string // its command that runs a prompt to its end
}

var otherCLIs = []otherCLI{
	{
		name: "gemini", pkg: "@google/gemini-cli", client: "gemini-cli-mcp-client", protocol: "2025-06-18",
		tool:   func(name string) string { return "mcp_berth_" + name },
		binary: func(t *testing.T) string { return filepath.Join(modules(t), ".bin", "gemini") },
		prepare: func(t *testing.T, home string, m *otherModel, at entry) []string {
			server := map[string]any{"httpUrl": at.url, "headers": map[string]string{"Authorization": "Bearer ${BERTH_TOKEN}"}}
			if at.url == "" {
				server = map[string]any{"command": at.line[0], "args": at.line[1:]}
			}
			write(t, filepath.Join(home, ".gemini", "settings.json"), mustJSON(t, map[string]any{
				"mcpServers": map[string]any{"berth": server},
				"security":   map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
				"general":    map[string]any{"enableAutoUpdate": false},
				"privacy":    map[string]any{"usageStatisticsEnabled": false},
			}))
			return []string{"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=" + m.url, "GEMINI_CLI_TRUST_WORKSPACE=true"}
		},
		list: []string{"mcp", "list"}, shown: "Connected",
		run: []string{"--model", "gemini-2.5-pro", "--approval-mode", "yolo", "--output-format", "json", "--prompt", "go"},
	},
	{
		name: "opencode", pkg: "opencode-linux-x64", client: "opencode", protocol: "2025-11-25",
		tool: func(name string) string { return "berth_" + name },
		binary: func(t *testing.T) string {
			path := filepath.Join(modules(t), "opencode-linux-x64", "bin", "opencode")
			if _, err := os.Stat(path); err != nil {
				t.Skipf("npm has no binary of it that is pinned for %s/%s", runtime.GOOS, runtime.GOARCH)
			}
			return path
		},
		prepare: func(t *testing.T, home string, m *otherModel, at entry) []string {
			server := map[string]any{"type": "remote", "url": at.url, "oauth": false, "headers": map[string]string{"Authorization": "Bearer {env:BERTH_TOKEN}"}}
			if at.url == "" {
				server = map[string]any{"type": "local", "command": at.line}
			}
			write(t, filepath.Join(home, "opencode.json"), mustJSON(t, map[string]any{
				"autoupdate": false, "share": "disabled", "model": "scripted/m", "small_model": "scripted/m",
				"provider": map[string]any{"scripted": map[string]any{"npm": "@ai-sdk/openai-compatible", "name": "scripted",
					"options": map[string]any{"baseURL": m.url + "/v1", "apiKey": "dummy"}, "models": map[string]any{"m": map[string]any{"name": "m"}}}},
				"mcp": map[string]any{"berth": server},
			}))
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
		},
		list: []string{"mcp", "list"}, shown: "connected",
		run: []string{"run", "go"},
	},
}

func TestOtherCLIsListAndCall(t *testing.T) {
	need(t)
	for _, c := range otherCLIs {
		for _, via := range []string{"http", "stdio"} {
			t.Run(c.name+" "+via, func(t *testing.T) {
				binary := c.binary(t)
				b := readyBroker(t, map[string]any{})
				connected := clients{}
				m := startOtherModel(t, c.tool("fix__echo"), `{"message":"ahoy"}`, func() { connected.look(t, b) })
				home := t.TempDir()
				env := append(environment(home, "BERTH_TOKEN="+b.token), c.prepare(t, home, m, b.entries(t)[via])...)
				for _, command := range [][]string{c.list, c.run} {
					line := append([]string{"sh", "-c", `cd "$0" && exec "$@"`, home, binary}, command...)
					p := startProcess(t, c.name, env, line)
					p.over(t, 2*limit)
					if slices.Equal(command, c.list) && !strings.Contains(p.out.tail(), c.shown) {
						t.Errorf("%q says\n%s", command, p.out.tail())
					}
				}
				names, _ := overHTTP(t, "/mcp", b.url+"/mcp", b.token).list()
				m.mu.Lock()
				defer m.mu.Unlock()
				for _, name := range names {
					if !slices.Contains(m.offered, c.tool(name)) {
						t.Errorf("it does not offer %s: %q", c.tool(name), m.offered)
					}
				}
				if len(m.results) != 1 || !strings.Contains(m.results[0], "ahoy") {
					t.Errorf("its model was told %q", m.results)
				}
				if who := (session{c.client, pinned(t, c.pkg), c.protocol}); !connected[who] {
					t.Errorf("sessions while it ran: %v, want %v", connected, who)
				}
				tokenNowhere(t, b, home)
			})
		}
	}
}
