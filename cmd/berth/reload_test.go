package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/broker"
	"berth/cmd/internal/brokerproc"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// backendsOf reads what the broker shows of its backends, by name.
func (h *house) backendsOf() map[string]rest.Backend {
	h.t.Helper()
	var list rest.Page[rest.Backend]
	must(h.t, h.api("/api/v1/backends", nil, &list))
	out := map[string]rest.Backend{}
	for _, b := range list.Objects {
		out[b.Name] = b
	}
	return out
}

func (h *house) reload() rest.Reloaded {
	h.t.Helper()
	code, out, errOut := h.berth("reload", "--json")
	if code != exitOK {
		h.t.Fatalf("exit code %d: %s %s", code, out, errOut)
	}
	var done rest.Reloaded
	must(h.t, json.Unmarshal([]byte(out), &done))
	return done
}

// Three backends, calls in flight at each: the one that did not change keeps its
// process and its calls, the changed one ends them before another begins, the
// removed one ends them and is gone. Every call is answered and runs once.
func TestReloadWhileCallsAreInFlight(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := func(mark string, berth map[string]any) map[string]any {
		entry := h.fixtureEntry(berth)
		entry["env"] = map[string]string{"BERTH_FIXTURE_WITNESS": "${TEST_WITNESS}", "MARK": mark}
		return entry
	}
	one := map[string]any{"max_in_flight": 2}
	h.configure(map[string]any{"mcpServers": map[string]any{"same": with("1", one), "changed": with("1", one), "gone": with("1", one)}})
	must(t, h.start())
	file := filepath.Join(h.dir, "lines")
	w := newWire(h, "reload")
	var calls sync.WaitGroup
	answers := make(chan string, 64)
	call := func(backend, line string) {
		calls.Go(func() {
			r, err := w.call(context.WithoutCancel(t.Context()), backend+"__append", map[string]any{"file": file, "line": line, "seconds": 4}, "")
			switch {
			case err != nil:
				answers <- backend + ": " + err.Error()
			case r.IsError:
				answers <- backend + ": " + r.Code
			default:
				answers <- backend + ": done"
			}
		})
	}
	for _, backend := range []string{"same", "changed", "gone"} {
		for i := range 4 { // two run, two wait
			call(backend, fmt.Sprintf("%s-%d", backend, i))
		}
	}
	eventually(t, "two calls run and two wait at each backend", func() bool {
		all := h.backendsOf()
		for _, name := range []string{"same", "changed", "gone"} {
			if b := all[name]; b.InFlight != 2 || b.QueuedCalls != 2 {
				return false
			}
		}
		return true
	})
	before := h.backendsOf()
	h.configure(map[string]any{"mcpServers": map[string]any{"same": with("1", one), "changed": with("2", one), "new": with("1", one)}})
	done := h.reload()
	if fmt.Sprint(done.Unchanged) != "[same]" || len(done.Applied) != 3 {
		t.Errorf("reloaded: %+v", done)
	}
	call("changed", "changed-late")
	call("new", "new-0")
	calls.Wait()
	close(answers)
	got := map[string]int{}
	for a := range answers {
		got[a]++
	}
	// What waited for the removed one was refused, and nothing else was.
	want := map[string]int{"same: done": 4, "changed: done": 5, "gone: done": 2, "gone: backend_unavailable": 2, "new: done": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		seen[strings.TrimSpace(line)]++
	}
	if len(seen) != 4+5+2+1 {
		t.Errorf("%d lines: %v", len(seen), seen)
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("%s was written %d times", line, n)
		}
	}
	eventually(t, "the removed backend has left", func() bool { _, there := h.backendsOf()["gone (leaving)"]; return !there })
	after := h.backendsOf()
	if a, b := after["same"], before["same"]; *a.PID != *b.PID || *a.RuntimeID != *b.RuntimeID || a.Incarnations != b.Incarnations {
		t.Errorf("the unchanged backend was touched: %+v, before %+v", a, b)
	}
	if a, b := after["changed"], before["changed"]; *a.PID == *b.PID || *a.RuntimeID == *b.RuntimeID {
		t.Errorf("the changed backend is the same: %+v", a)
	}
	if _, there := after["gone"]; there {
		t.Error("the removed backend is shown")
	}
}

func TestSighupReloadsAndABadFileIsLogged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(nil)}})
	must(t, h.start())
	hangUp := func() { must(t, syscall.Kill(h.broker.PID(), syscall.SIGHUP)) }
	must(t, os.WriteFile(h.config, []byte(`{"mcpServers": {"a": {"command": ""}}}`), 0o600))
	hangUp()
	eventually(t, "the refusal is logged", func() bool { return strings.Contains(h.broker.Log(), "the configuration was not reloaded") })
	if !strings.Contains(h.broker.Log(), "must name a program") {
		t.Errorf("the log does not say what is wrong:\n%s", h.broker.Log())
	}
	if _, there := h.backendsOf()["a"]; !there {
		t.Error("a bad file took a backend away")
	}
	h.configure(map[string]any{"mcpServers": map[string]any{"b": h.fixtureEntry(nil)}})
	hangUp()
	eventually(t, "the new backend is there", func() bool { _, there := h.backendsOf()["b"]; return there })
	var out string
	eventually(t, "the reload is an event", func() bool { // it is written when the rest is in force
		_, out, _ = h.berth("journal", "dump")
		return strings.Contains(out, `"EventType":"configuration.reloaded"`)
	})
	if strings.Count(out, `"EventType":"configuration.reloaded"`) != 1 || !strings.Contains(out, `"By":"SIGHUP"`) {
		t.Errorf("events:\n%s", out)
	}
}

// stream is a session of one profile and its stream of notifications.
type stream struct {
	told  chan string // methods
	close func()
}

// next gives what comes next.
func (s *stream) next(t *testing.T) string {
	t.Helper()
	select {
	case method := <-s.told:
		return method
	case <-time.After(brokerproc.Patience):
		t.Fatal("nothing was heard")
		return ""
	}
}

func (h *house) stream(profile string) *stream {
	h.t.Helper()
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	client := &http.Client{Transport: &http.Transport{}}
	ask := func(method, body, session string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+h.broker.Addr()+"/mcp/"+profile, strings.NewReader(body))
		must(h.t, err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		resp, err := client.Do(req)
		must(h.t, err)
		if resp.StatusCode != http.StatusOK {
			h.t.Fatalf("%s %s: %s", method, profile, resp.Status)
		}
		return resp
	}
	first := ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "")
	must(h.t, first.Body.Close())
	session := first.Header.Get("Mcp-Session-Id")
	list := ask(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, session)
	must(h.t, list.Body.Close())
	s := &stream{told: make(chan string, 16)}
	events := ask(http.MethodGet, "", session)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(events.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m struct{ Method string }
			if ok && json.Unmarshal([]byte(data), &m) == nil {
				s.told <- m.Method
			}
		}
	}()
	s.close = func() {
		cancel()
		_ = events.Body.Close()
		<-done
		client.CloseIdleConnections()
	}
	h.t.Cleanup(s.close)
	return s
}

// A session hears of a change when its own list has other bytes, and only then.
func TestReloadTellsTheSessionsWhoseListChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	reads := map[string]any{"read_only": true}
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(nil), "b": h.fixtureEntry(nil)}})
	must(t, h.start())
	for _, name := range []string{"a", "b"} {
		if code, _, errOut := h.berth("call", name+"__add", `{"a":1,"b":2}`); code != exitOK {
			t.Fatal(errOut)
		}
	}
	a, b := h.stream("a"), h.stream("b")
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(nil), "b": h.fixtureEntry(reads)}})
	h.reload()
	if got := b.next(t); got != "notifications/tools/list_changed" {
		t.Errorf("the session of the changed list heard %s", got)
	}
	// What a hears next is of the second change: of the first it heard nothing.
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(reads), "b": h.fixtureEntry(reads)}})
	h.reload()
	if got := a.next(t); got != "notifications/tools/list_changed" {
		t.Errorf("the session of the other list heard %s", got)
	}
	select {
	case got := <-a.told:
		t.Errorf("it heard %s twice", got)
	default:
	}
}

func TestOfTwoReloadsAtOnceTheSecondIsRefused(t *testing.T) {
	b := &running{}
	b.reload.mu.Lock()
	_, err := b.Reload(t.Context(), "somebody")
	if refusal := broker.AsRefusal(err); refusal.Code != broker.CodeReloadInProgress || refusal.RetryAfter == 0 || !refusal.Retryable {
		t.Fatalf("%v", err)
	}
	b.reload.stopping = true
	b.reload.mu.Unlock()
	if _, err = b.Reload(t.Context(), "somebody"); broker.AsRefusal(err).Code != broker.CodeShuttingDown {
		t.Fatalf("while it stops: %v", err)
	}
}

// A read of a pipe that nobody writes to would end no reload ever again.
func TestAReloadReadsNoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "mcp.json")
	must(t, syscall.Mkfifo(pipe, 0o600))
	b := &running{}
	b.reload.app, b.reload.file = &app{}, pipe
	if _, err := b.Reload(t.Context(), "somebody"); broker.AsRefusal(err).Code != broker.CodeConfigurationRefused {
		t.Fatalf("%v", err)
	}
}

func TestRefusedReloadNamesEveryProblemAndNoSecret(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"a": h.fixtureEntry(nil)}})
	must(t, h.start())
	must(t, os.WriteFile(h.config, []byte(`{"mcpServers": {"a": {"command": "x", "args": [7, {}, "s3cret-argument"], "berth": {"max_in_flight": 0}},
 "b": {"url": "ftp://user:s3cret-password@x"}}}`), 0o600))
	addr, token, err := statedir.Discover(h.state)
	must(t, err)
	c := rest.NewClient("http://"+addr, token)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), brokerproc.Patience)
	defer cancel()
	_, err = c.Post(ctx, "/api/v1/reload", nil)
	var refused *rest.APIError
	if !errors.As(err, &refused) || refused.Code != broker.CodeConfigurationRefused || refused.Status != 400 {
		t.Fatalf("%v", err)
	}
	var data struct{ Problems, Applied, Unchanged, NeedsRestart []string }
	must(t, json.Unmarshal(refused.Data, &data))
	if len(data.Problems) != 3 || data.Applied == nil || data.NeedsRestart == nil {
		t.Errorf("%s", refused.Data)
	}
	if text := string(refused.Data) + h.broker.Log(); strings.Contains(text, "s3cret") {
		t.Errorf("a secret is shown: %s", text)
	}
}

// TestWhoHasTheBoardChangesWithAReload: access is a setting of a running broker.
// What its table does not give is an unknown name, whatever it gave before.
func TestWhoHasTheBoardChangesWithAReload(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	_, anas := x.hire("ana", "--role", "user")
	_, bens := x.hire("ben", "--role", "user")
	ana, ben := newWireFor(x.house, "ana", anas), newWireFor(x.house, "ben", bens)
	teams := strings.Fields("agentwake_status coordination_claim coordination_heartbeat coordination_post coordination_read mark_signal_read")
	note := map[string]any{"content": "for the team", "authorName": "ana"}
	for i, access := range []string{"seed", "team", "seed"} {
		if i > 0 {
			x.configure(map[string]any{"berth": map[string]any{"access": access}, "mcpServers": map[string]any{
				"fx": x.fixtureEntry(map[string]any{"trust_annotations": true, "effects": []any{map[string]any{"verb": "work", "is": []string{"write"}}}})}})
			if done := x.reload(); len(done.NeedsRestart) != 0 || len(done.Applied) != 1 || done.Applied[0].Setting != "berth.access" || len(done.Unchanged) != 1 {
				t.Fatalf("%+v", done)
			}
		}
		list, err := ana.request(t.Context(), "tools/list", map[string]any{})
		must(t, err)
		for _, name := range teams {
			if strings.Contains(string(list), `"name":"`+name+`"`) != (access == "team") {
				t.Errorf("%s: %s is listed: %v", access, name, access != "team")
			}
		}
		posted, err := ana.call(t.Context(), "coordination_post", note, "")
		if access == "seed" {
			var unknown *rpcError
			if !errors.As(err, &unknown) || unknown.Code != -32602 {
				t.Errorf("seed: %+v, %v", posted, err)
			}
		} else if err != nil || posted.IsError {
			t.Errorf("team: %+v, %v", posted, err)
		}
		if read, err := ben.call(t.Context(), "coordination_read", map[string]any{}, ""); access == "team" && (err != nil || !strings.Contains(read.Text, "for the team")) {
			t.Errorf("team: %+v, %v", read, err)
		}
		if status, body := x.ask("GET", "/api/v1/board", "", "Authorization", "Bearer "+anas); status != 403 {
			t.Errorf("%s: the operator API answers %d %s", access, status, body)
		}
	}
}
