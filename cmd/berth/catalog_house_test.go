package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// fileServer is a small file server of the official SDK. It counts what reaches it.
func fileServer(t *testing.T) (address string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1"}, nil)
	text := func(s string, isError bool) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}, IsError: isError}
	}
	type pathArgs struct {
		Path string `json:"path"`
		Head int    `json:"head,omitempty"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "read_text_file", Description: "Reads a file."}, func(_ context.Context, _ *sdk.CallToolRequest, a pathArgs) (*sdk.CallToolResult, any, error) {
		calls.Add(1)
		b, err := os.ReadFile(a.Path)
		if err != nil {
			return text("ENOENT: no such file", true), nil, nil
		}
		return text(string(b), false), nil, nil
	})
	type writeArgs struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		DryRun  bool   `json:"dryRun,omitempty"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "write_file", Description: "Writes a file."}, func(_ context.Context, _ *sdk.CallToolRequest, a writeArgs) (*sdk.CallToolResult, any, error) {
		calls.Add(1)
		if a.DryRun {
			return text("would write", false), nil, nil
		}
		return text("written", false), nil, os.WriteFile(a.Path, []byte(a.Content), 0o600)
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return web.URL, calls
}

// readBeforeWrite is the configuration that makes a file server one that shows a
// file before it lets it be written.
func readBeforeWrite(read, write string) map[string]any {
	return map[string]any{"enabled": true,
		"kinds": map[string]any{"file-read": map[string]any{"canonical": "path"}},
		"grants": []any{
			map[string]any{"verb": read, "kind": "file-read", "targets": []string{"args:/path"}, "when": []any{map[string]any{"at": "args:/head", "op": "absent"}}},
			map[string]any{"verb": read, "kind": "file-read", "targets": []string{"args:/path"}, "on": "error",
				"when": []any{map[string]any{"at": "result:/content/0/text", "op": "contains", "value": "ENOENT"}}}},
		"needs": []any{map[string]any{"verb": write, "kind": "file-read", "targets": []string{"args:/path"}}}}
}

// refusalOf is a refusal in the form of backends' verbs.
type refusalOf struct {
	Code   string
	Detail struct {
		Use    string
		Repair []struct {
			Name      string
			Arguments json.RawMessage
			Via       string
		}
		Unproven    []struct{ Reason string }
		Suggestions []struct{ Name, Via string }
		MinimalCall json.RawMessage `json:"minimal_call"`
	}
}

func refused(t *testing.T, r reply) (out refusalOf) {
	t.Helper()
	if !r.IsError || json.Unmarshal([]byte(r.Text), &out) != nil {
		t.Fatalf("no refusal: %+v", r)
	}
	return out
}

func TestAWriteIsHeldUntilItsTargetWasRead(t *testing.T) {
	address, calls := fileServer(t)
	h := newHouse(t)
	h.configure(map[string]any{
		"mcpServers": map[string]any{"fs": map[string]any{"url": address, "berth": map[string]any{"effects": []any{
			map[string]any{"verb": "read_text_file", "is": []string{"read"}},
			map[string]any{"verb": "write_file", "when": []any{map[string]any{"at": "args:/dryRun", "op": "eq", "value": true}}, "is": []string{"read"}},
			map[string]any{"verb": "write_file", "is": []string{"write", "destroy"}}}}}},
		"berth": map[string]any{"proofs": readBeforeWrite("fs__read_text_file", "fs__write_file"), "drain_timeout": "0s"},
	})
	must(t, h.start())
	w := newWire(h, "proofs")
	call := func(tool string, arguments any) reply {
		t.Helper()
		r, err := w.call(t.Context(), tool, arguments, "")
		must(t, err)
		return r
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	must(t, os.WriteFile(file, []byte("before"), 0o600))
	write := map[string]any{"path": file, "content": "after"}

	for name, path := range map[string]string{"an old file": file, "a new file": file + ".new"} {
		write["path"] = path
		before := calls.Load()
		no := refused(t, call("fs__write_file", write))
		if no.Code != "targets_not_ready" || len(no.Detail.Repair) != 1 || calls.Load() != before {
			t.Fatalf("%s: %+v after %d calls", name, no, calls.Load()-before)
		}
		repair := no.Detail.Repair[0]
		if r := call(repair.Name, repair.Arguments); (path == file) == r.IsError {
			t.Fatalf("%s: the repair: %+v", name, r)
		}
		if r := call("fs__write_file", write); r.IsError || r.Text != "written" {
			t.Errorf("%s: the unchanged write: %+v", name, r)
		}
		if no := refused(t, call("fs__write_file", write)); no.Detail.Unproven[0].Reason != "used" {
			t.Errorf("%s: a proof is used once: %+v", name, no)
		}
	}
	if r := call("fs__write_file", map[string]any{"path": file, "content": "", "dryRun": true}); r.IsError {
		t.Errorf("what only reads needs no proof: %+v", r)
	}
	call("fs__read_text_file", map[string]any{"path": file, "head": 1})
	if no := refused(t, call("fs__write_file", write)); no.Code != "targets_not_ready" {
		t.Errorf("a part of a file proves nothing: %+v", no)
	}
	// A file that was not shown whole grants with its last part.
	must(t, os.WriteFile(file, []byte(strings.Repeat("a line of text that is not short\n", 400)), 0o600))
	raw, err := w.request(t.Context(), "tools/call", map[string]any{"name": "fs__read_text_file", "arguments": map[string]any{"path": file}, "_meta": map[string]any{"berth/resultTokens": 600}})
	must(t, err)
	handle := raw[strings.Index(string(raw), "m_"):][:28]
	write["path"] = file
	if no := refused(t, call("fs__write_file", write)); no.Code != "targets_not_ready" {
		t.Errorf("a shaped read grants nothing yet: %+v", no)
	}
	for range 50 {
		raw, err := w.request(t.Context(), "tools/call", map[string]any{"name": "more", "arguments": map[string]any{"handle": string(handle)}})
		must(t, err)
		var page struct {
			StructuredContent struct {
				Next *int `json:"next_offset"`
			}
		}
		must(t, json.Unmarshal(raw, &page))
		if page.StructuredContent.Next == nil {
			break
		}
	}
	if r := call("fs__write_file", write); r.IsError {
		t.Errorf("after the last part: %+v", r)
	}

	// What an operator calls is held as well, and what he read is his proof.
	asked, err := json.Marshal(write)
	must(t, err)
	path, err := json.Marshal(map[string]any{"path": file})
	must(t, err)
	before := calls.Load()
	if code, out, errOut := h.berth("call", "fs__write_file", string(asked)); code != 4 || !strings.Contains(errOut, "targets_not_ready") || calls.Load() != before {
		t.Errorf("by the operator: %d %s %s", code, out, errOut)
	}
	// An exact profile names the repair as it has it.
	if code, out, _ := h.berth("call", "--json", "--profile", "fs", "write_file", string(asked)); code != 4 || !strings.Contains(out, `"read_text_file"`) {
		t.Errorf("in an exact profile: %d %s", code, out)
	}
	for _, verb := range []struct{ name, arguments string }{{"fs__read_text_file", string(path)}, {"fs__write_file", string(asked)}} {
		if code, out, errOut := h.berth("call", verb.name, verb.arguments); code != 0 {
			t.Errorf("%s by the operator: %d %s %s", verb.name, code, out, errOut)
		}
	}
	if code, _, errOut := h.berth("call", "fs__write_file", string(asked)); code != 4 || !strings.Contains(errOut, "targets_not_ready") {
		t.Errorf("the operator's proof is used once, too: %d %s", code, errOut)
	}
}

func TestEveryOtherVerbIsReachedThroughTheMetaVerbs(t *testing.T) {
	address, calls := fileServer(t)
	h := newHouse(t)
	h.configure(map[string]any{
		"mcpServers": map[string]any{"fs": map[string]any{"url": address, "berth": map[string]any{"effects": []any{
			map[string]any{"verb": "read_*", "is": []string{"read"}}, map[string]any{"verb": "*", "is": []string{"write"}}}}}},
		"berth": map[string]any{"drain_timeout": "0s"},
	})
	must(t, h.start())
	w := newWire(h, "meta")
	call := func(tool string, arguments any) reply {
		t.Helper()
		r, err := w.call(t.Context(), tool, arguments, "")
		must(t, err)
		return r
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	eventually(t, "the backend has listed", func() bool {
		return strings.Contains(call("find", map[string]any{"query": "write"}).Text, "fs__write_file")
	})
	through := func(verb string, arguments map[string]any) map[string]any {
		return map[string]any{"name": verb, "arguments": arguments}
	}
	write := through("fs__write_file", map[string]any{"path": file, "content": "x"})
	before := calls.Load()
	if no := refused(t, call("call_read", write)); no.Code != "effects_exceed_read" || no.Detail.Use != "call_write" || calls.Load() != before {
		t.Errorf("%+v", no)
	}
	if r := call("call_write", write); r.Text != "written" {
		t.Errorf("%+v", r)
	}
	if r := call("call_read", through("fs__read_text_file", map[string]any{"path": file})); r.Text != "x" {
		t.Errorf("%+v", r)
	}
	for name, arguments := range map[string]any{
		"invalid_argument": map[string]any{"name": "fs__read_text_file", "arguments": fmt.Sprintf(`{"path":%q}`, file)},
		"meta_recursion":   through("call_read", map[string]any{"name": "find"}),
		"verb_unknown":     through("fs__raed_text_file", nil),
	} {
		var no struct{ Code string }
		r := call("call_read", arguments)
		if !r.IsError || json.Unmarshal([]byte(r.Text), &no) != nil || no.Code != name {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// A key through options makes the target a job of its own.
	first := call("call_write", map[string]any{"name": "fs__write_file", "arguments": map[string]any{"path": file, "content": "y"}, "options": map[string]any{"idempotencyKey": "k"}})
	again := call("fs__write_file", map[string]any{"path": file, "content": "y"})
	if first.JobID == "" || again.JobID != "" {
		t.Errorf("%+v, %+v", first, again)
	}
	if done, err := w.follow(t.Context(), first.JobID); err != nil || done.Status != "Succeeded" {
		t.Errorf("%v, %+v", err, done)
	}
	// The unknown tool of a call itself is an error with the same names.
	_, err := w.call(t.Context(), "fs__raed_text_file", nil, "")
	if err == nil || !strings.Contains(err.Error(), `"name":"fs__read_text_file"`) {
		t.Errorf("%v", err)
	}
	// The arguments that do not fit come back without their values.
	if r := call("fs__read_text_file", map[string]any{"path": 7, "hunter2": "hunter3"}); !strings.Contains(r.Text, `"minimal_call":{"path":"<path>"}`) || strings.Contains(r.Text, "hunter3") {
		t.Errorf("%+v", r)
	}
}

func TestAReadOnlyProcessLetsNothingBeChanged(t *testing.T) {
	address, calls := fileServer(t)
	h := newHouse(t)
	h.env = []string{"BERTH_READ_ONLY=1"}
	h.configure(map[string]any{
		"mcpServers": map[string]any{"fs": map[string]any{"url": address, "berth": map[string]any{"effects": []any{map[string]any{"verb": "read_*", "is": []string{"read"}}}}}},
		"berth":      map[string]any{"drain_timeout": "0s"},
	})
	must(t, h.start())
	w := newWire(h, "reader")
	eventually(t, "the backend has listed", func() bool {
		r, err := w.call(t.Context(), "find", map[string]any{"query": "read"}, "")
		must(t, err)
		return strings.Contains(r.Text, "fs__read_text_file")
	})
	before := calls.Load()
	for _, tool := range []string{"fs__write_file", "call_write"} {
		for _, arguments := range []any{map[string]any{"path": "/x", "content": "y"}, map[string]any{"name": "fs__read_text_file"}, map[string]any{"wrong": 1}} {
			r, err := w.call(t.Context(), tool, arguments, "")
			must(t, err)
			if !r.IsError || (!strings.Contains(r.Text, `"code":"read_only_session"`) && !strings.Contains(r.Text, `"Code":"read_only"`)) {
				t.Errorf("%s: %+v", tool, r)
			}
		}
	}
	r, err := w.call(t.Context(), "call_read", map[string]any{"name": "fs__write_file", "arguments": map[string]any{"path": "/x", "content": "y"}}, "")
	must(t, err)
	if no := refused(t, r); no.Code != "read_only_session" || calls.Load() != before {
		t.Errorf("%+v", no)
	}
	for _, arguments := range [][]string{{"fs__write_file", `{"path":"/x","content":"y"}`}, {"--profile", "fs", "write_file", `{"wrong":1}`}, {"call_write", `{"name":"fs__write_file"}`}} {
		if code, out, errOut := h.berth(append([]string{"call"}, arguments...)...); code != 4 || !strings.Contains(errOut, "read_only") || calls.Load() != before {
			t.Errorf("by the operator, %v: %d %s %s", arguments, code, out, errOut)
		}
	}
	if _, out, _ := h.berth("tools"); strings.Contains(out, "write_file") || strings.Contains(out, "call_write") {
		t.Errorf("an operator is shown what nobody may call: %s", out)
	}
}

func TestTheSurfaceIsOneObjectWhereverItIsShown(t *testing.T) {
	address, _ := fileServer(t)
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"fs": map[string]any{"url": address}}, "berth": map[string]any{"drain_timeout": "0s"}})
	must(t, h.start())
	w := newWire(h, "surface")
	eventually(t, "the backend has listed", func() bool {
		r, err := w.call(t.Context(), "find", map[string]any{"query": "write"}, "")
		must(t, err)
		return strings.Contains(r.Text, "fs__write_file")
	})
	var surfaces []map[string]any
	for verb, key := range map[string]string{"health": "tool_surface_contract", "session_handshake": "tool_surface"} {
		raw, err := w.request(t.Context(), "tools/call", map[string]any{"name": "call_read", "arguments": map[string]any{"name": verb}})
		must(t, err)
		var answer struct{ StructuredContent map[string]json.RawMessage }
		var surface map[string]any
		must(t, json.Unmarshal(raw, &answer))
		must(t, json.Unmarshal(answer.StructuredContent[key], &surface))
		surfaces = append(surfaces, surface)
	}
	var operators map[string]any
	must(t, h.api("/api/v1/catalog/surface", url.Values{"profile": {"full"}}, &operators))
	// Which of them a session has called is that session's alone.
	delete(operators, "required_tools_present")
	for _, surface := range surfaces {
		delete(surface, "required_tools_present")
		if !reflect.DeepEqual(surface, operators) {
			t.Errorf("%v\n%v", surface, operators)
		}
	}
	if operators["schema"] != "berth-tool-surface-v1" {
		t.Errorf("%v", operators)
	}
	if err := h.api("/api/v1/catalog/surface", url.Values{"profile": {"nothing"}}, &operators); err == nil || !strings.Contains(err.Error(), "profile_unknown") {
		t.Errorf("%v", err)
	}
}

func TestTheRulesThatABackendClaimsArePrinted(t *testing.T) {
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"fx": h.fixtureEntry(nil)}, "berth": map[string]any{"drain_timeout": "0s"}})
	must(t, h.start())
	code, out, errOut := h.berth("catalog", "effects", "fx")
	var printed struct {
		Effects []struct {
			Verb string
			Is   []string
		}
	}
	if code != 0 || json.Unmarshal([]byte(out), &printed) != nil {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	for _, rule := range printed.Effects {
		if rule.Verb == "" || rule.Verb == "job_status" || len(rule.Is) == 0 {
			t.Errorf("%+v", rule)
		}
	}
	if code, _, _ := h.berth("catalog", "effects", "nobody"); code == 0 {
		t.Error("an unknown backend has rules")
	}
}
