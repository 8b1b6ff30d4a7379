package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// rotating is a remote whose token its test changes at any time. The tool leak
// fails and says which headers it got.
type rotating struct {
	*httptest.Server
	mu    sync.Mutex
	token string
	calls map[string]int // tools/call by token
	team  string         // the X-Team header of the last call
}

func newRotating(t *testing.T) *rotating {
	r := &rotating{calls: map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *rotating) accept(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = token
}

func (r *rotating) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	_ = json.NewDecoder(req.Body).Decode(&m) // a DELETE has none
	given := req.Header.Get("Authorization")
	r.mu.Lock()
	accepted := given == "Bearer "+r.token
	if m.Method == "tools/call" {
		r.calls[strings.TrimPrefix(given, "Bearer ")]++
		r.team = req.Header.Get("X-Team")
	}
	r.mu.Unlock()
	result := `{"tools":[{"name":"go","inputSchema":{"type":"object"}},{"name":"leak","inputSchema":{"type":"object"}}],"content":[{"type":"text","text":"went"}]}`
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !accepted:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "server/discover":
		w.WriteHeader(http.StatusNotFound)
		return
	case m.Params.Name == "leak":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"you sent %s"}}`, given)
		return
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// A remote changes its token; the command prints the one that counts.
func TestACommandGivesARemoteItsFreshToken(t *testing.T) {
	t.Parallel()
	remote := newRotating(t)
	h := newHouse(t)
	file := func(name string) string { return filepath.Join(h.dir, name) }
	read := func(name string) string {
		data, err := os.ReadFile(file(name))
		must(t, err)
		return string(data)
	}
	issue := func(token string) {
		t.Helper()
		remote.accept(token)
		must(t, os.WriteFile(file("now"), fmt.Appendf(nil, `{"Authorization":"Bearer %s"}`, token), 0o600))
	}
	// No shell is between: the second argument would be two words and a redirection.
	must(t, os.WriteFile(file("token.sh"), []byte("#!/bin/sh\necho \"$1|$2|$BERTH_TEST_OF_HEADERS\" >> runs\n[ -e broken ] && { echo \"no token: s3cr3t-argument\" >&2; exit 3; }\ncat now\n"), 0o700))
	h.env = []string{"BERTH_TEST_OF_HEADERS=inherited"}
	h.configure(map[string]any{"berth": map[string]any{"log_level": "debug"}, "mcpServers": map[string]any{"up": map[string]any{
		"url": remote.URL, "headers": map[string]string{"Authorization": "Bearer s3cr3t-static", "X-Team": "platform"},
		"berth": map[string]any{"headers_command": []string{"./token.sh", "s3cr3t-argument", "a b > c"}}}}})
	issue("s3cr3t-one")
	must(t, h.start())
	w := newWire(h, "headers")
	call := func(tool string) reply {
		t.Helper()
		r, err := w.call(t.Context(), "up__"+tool, map[string]any{}, "")
		must(t, err)
		return r
	}
	if r := call("go"); r.Text != "went" {
		t.Fatalf("with the first token: %s", r.Text)
	}
	if r := call("leak"); !strings.Contains(r.Text, "you sent ***") {
		t.Errorf("what the remote says of its token: %s", r.Text)
	}

	issue("s3cr3t-two")
	if r := call("go"); r.Code != "backend_refused" || !strings.Contains(r.Text, `"http_status":401`) {
		t.Errorf("with the old token: %s", r.Text)
	}
	if r := call("go"); r.Text != "went" {
		t.Errorf("with the second token: %s", r.Text)
	}
	if r := call("leak"); !strings.Contains(r.Text, "you sent ***") {
		t.Errorf("what the remote says of its token: %s", r.Text)
	}

	must(t, os.WriteFile(file("broken"), nil, 0o600))
	remote.accept("s3cr3t-three")
	if r := call("go"); r.Code != "backend_refused" {
		t.Errorf("with the old token: %s", r.Text)
	}
	if r := call("go"); r.Code != "backend_unavailable" || !strings.Contains(r.Text, "token.sh") || !strings.Contains(r.Text, "exited with code 3") || !strings.Contains(r.Text, "no token: ***") {
		t.Errorf("without a token: %s", r.Text)
	}
	must(t, os.Remove(file("broken")))
	issue("s3cr3t-three")
	eventually(t, "the command has run again", func() bool { return call("go").Text == "went" })

	remote.mu.Lock()
	if c := remote.calls; c["s3cr3t-one"] != 3 || c["s3cr3t-two"] != 3 || c["s3cr3t-three"] != 1 || len(c) != 3 || remote.team != "platform" {
		t.Errorf("calls by token %v, team %q", c, remote.team)
	}
	remote.mu.Unlock()
	for _, line := range strings.Split(strings.TrimSpace(read("runs")), "\n") {
		if line != "s3cr3t-argument|a b > c|inherited" {
			t.Errorf("the command ran with %s", line)
		}
	}

	seen := map[string]string{}
	for _, args := range [][]string{{"backends"}, {"backends", "--json"}, {"call", "up__leak", "--json"}} {
		_, out, errOut := h.berth(args...)
		seen["berth "+strings.Join(args, " ")] = out + errOut
	}
	must(t, h.broker.Stop())
	seen["the log"] = h.broker.Log()
	if !strings.Contains(seen["the log"], "the command for headers has run") {
		t.Error("the log does not tell of the command")
	}
	must(t, filepath.WalkDir(h.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		seen[path] = string(data)
		return err
	}))
	for what, text := range seen {
		if i := strings.Index(text, "s3cr3t"); i >= 0 {
			t.Errorf("%s shows …%s…", what, text[max(0, i-100):min(len(text), i+60)])
		}
	}
	h.awaitNobody()
}

// A command that gives nothing of use is an outage that says why, and its
// output is nobody's to see.
func TestACommandThatGivesNoHeadersIsAnOutageThatSaysWhy(t *testing.T) {
	t.Parallel()
	remote := newRotating(t)
	h := newHouse(t)
	backends := map[string]any{}
	for name, tt := range map[string]struct {
		command []string
		more    map[string]any
	}{
		"missing": {command: []string{"./none"}},
		"plain":   {command: []string{"echo", "s3cr3t-token"}},
		"host":    {command: []string{"echo", `{"Host":"s3cr3t-token"}`}},
		"endless": {command: []string{"yes", "s3cr3t-token"}},
		"slow":    {command: []string{"sleep", "1000"}, more: map[string]any{"headers_timeout": "100ms"}},
	} {
		berth := map[string]any{"headers_command": tt.command}
		for k, v := range tt.more {
			berth[k] = v
		}
		backends[name] = map[string]any{"url": remote.URL, "berth": berth}
	}
	h.configure(map[string]any{"mcpServers": backends})
	must(t, h.start())
	for name, want := range map[string]string{
		"missing": `none\" does not exist`, "plain": `\"echo\", printed something else than one JSON object`, "host": "printed the header",
		"endless": "wrote more than 65536 bytes and was killed", "slow": "has not ended in time and was killed",
	} {
		_, out, errOut := h.berth("call", name+"__go", "--json")
		if said := out + errOut; !strings.Contains(said, "backend_unavailable") && !strings.Contains(said, "catalog_pending") || strings.Contains(said, "s3cr3t") {
			t.Errorf("%s: %s", name, said)
		}
		if _, listed, _ := h.berth("backends", "--json"); !strings.Contains(listed, want) {
			t.Errorf("%s: the backends do not say %s: %s", name, want, listed)
		}
	}
	if log := h.broker.Log(); strings.Contains(log, "s3cr3t") {
		t.Errorf("the log shows a token: %s", log)
	}
}
