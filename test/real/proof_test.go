package real

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestAFileIsReadBeforeItIsWritten is read before write on the public filesystem
// server: ten lines of configuration, and nothing of them is about that server but
// the names of its verbs.
func TestAFileIsReadBeforeItIsWritten(t *testing.T) {
	need(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(place, op string, value any) map[string]any {
		if value == nil {
			return map[string]any{"at": place, "op": op}
		}
		return map[string]any{"at": place, "op": op, "value": value}
	}
	read := func(more map[string]any) map[string]any {
		out := map[string]any{"verb": "fs__read_text_file", "kind": "file-read", "targets": []string{"args:/path"}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	b := startConfigured(t, map[string]any{
		"mcpServers": map[string]any{"fs": map[string]any{"command": "node",
			"args":  []string{filepath.Join(modules(t), "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), dir},
			"berth": map[string]any{"trust_annotations": true}}},
		"berth": map[string]any{"proofs": map[string]any{"enabled": true,
			"kinds": map[string]any{"file-read": map[string]any{"canonical": "path", "base": dir}},
			"grants": []any{read(map[string]any{"when": []any{at("args:/head", "absent", nil), at("args:/tail", "absent", nil)}}),
				read(map[string]any{"on": "error", "when": []any{at("result:/content/0/text", "contains", "ENOENT")}})},
			"needs": []any{
				map[string]any{"verb": "fs__write_file", "kind": "file-read", "targets": []string{"args:/path"}},
				map[string]any{"verb": "fs__edit_file", "kind": "file-read", "targets": []string{"args:/path"}},
				map[string]any{"verb": "fs__move_file", "kind": "file-read", "targets": []string{"args:/source", "args:/destination"}}}}},
	})
	c := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	call := func(tool string, arguments any) (text string, isError bool) {
		t.Helper()
		a := c.call(tool, arguments)
		var r struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err := json.Unmarshal(a.Result, &r); err != nil || len(r.Content) == 0 {
			t.Fatalf("%s: %+v", tool, a)
		}
		return r.Content[0].Text, r.IsError
	}
	refused := func(tool string, arguments any) (repairs []struct {
		Name      string
		Arguments json.RawMessage
	}) {
		t.Helper()
		text, isError := call(tool, arguments)
		var no struct {
			Code   string
			Detail struct {
				Repair []struct {
					Name      string
					Arguments json.RawMessage
				}
			}
		}
		if json.Unmarshal([]byte(text), &no) != nil || !isError || no.Code != "targets_not_ready" {
			t.Fatalf("%s: %s", tool, text)
		}
		return no.Detail.Repair
	}
	old := filepath.Join(dir, "old.txt")
	write(t, old, "before\n")
	fresh := filepath.Join(dir, "fresh.txt")
	for _, path := range []string{old, fresh} {
		arguments := map[string]any{"path": path, "content": "after\n"}
		repairs := refused("fs__write_file", arguments)
		if got, _ := os.ReadFile(old); path == old && string(got) != "before\n" {
			t.Fatalf("a refused write was made: %s", got)
		}
		if len(repairs) != 1 {
			t.Fatalf("%s: %v", path, repairs)
		}
		call(repairs[0].Name, repairs[0].Arguments)
		if text, isError := call("fs__write_file", arguments); isError {
			t.Fatalf("the unchanged write after its repair: %s", text)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "after\n" {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	// A move needs both of its ends, and the repair of each makes it pass.
	move := map[string]any{"source": old, "destination": filepath.Join(dir, "moved.txt")}
	for _, r := range refused("fs__move_file", move) {
		call(r.Name, r.Arguments)
	}
	if text, isError := call("fs__move_file", move); isError {
		t.Errorf("the move: %s", text)
	}
	refused("fs__write_file", map[string]any{"path": fresh, "content": "again"})
}
