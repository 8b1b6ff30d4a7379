package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/transport/app/resmontest"
	"berth/transport/statedir"
)

// The frozen contract's tools, and which of them need a confirmation.
var contractTools = map[string]bool{
	"health": false, "search_corpus": false, "find_similar": false, "list_sources": false, "list_routines": false, "get_routine": false,
	"list_executions": false, "get_execution": false, "get_execution_results": false, "get_search_record": false, "explain_match": false,
	"get_paper_lifecycle": false, "get_analytics": false, "get_watchdog_findings": false, "export_references": false,
	"list_watch_profiles": false, "get_watch_profile": false, "get_profile_matches": false,
	"run_sweep": true, "create_routine": true, "create_watch_profile": true, "run_routine": true, "activate_routine": true,
	"deactivate_routine": true, "update_settings": true,
}

// writes are the seven.
func writes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(contractTools)), func(name string) bool { return !contractTools[name] })
}

type listedTool struct {
	Name        string
	Description string
	InputSchema json.RawMessage
	Confirm     json.RawMessage `json:"requires_confirmation"`
	Execution   json.RawMessage
}

func readTools(t *testing.T, raw json.RawMessage) []listedTool {
	t.Helper()
	var list struct {
		Tools      []listedTool
		NextCursor string
	}
	must(t, json.Unmarshal(raw, &list))
	if list.NextCursor != "" {
		t.Errorf("the list has a second page")
	}
	return list.Tools
}

func toolNames(tools []listedTool) []string {
	var out []string
	for _, tool := range tools {
		out = append(out, tool.Name)
	}
	return out
}

func resultOf(t *testing.T, response []byte) json.RawMessage {
	t.Helper()
	var m struct{ Result json.RawMessage }
	if json.Unmarshal(response, &m) != nil || m.Result == nil {
		t.Fatalf("no result: %s", response)
	}
	return m.Result
}

// checkContractList holds a list against the frozen one.
func checkContractList(t *testing.T, raw json.RawMessage) {
	t.Helper()
	tools := readTools(t, raw)
	if got, want := toolNames(tools), slices.Sorted(maps.Keys(contractTools)); !slices.Equal(got, want) {
		t.Fatalf("listed %v, want %v", got, want)
	}
	for _, tool := range tools {
		want := "false"
		if contractTools[tool.Name] {
			want = "true"
		}
		if string(tool.Confirm) != want || tool.Description == "" || !strings.HasPrefix(string(tool.InputSchema), "{") || tool.Execution != nil {
			t.Errorf("%+v, want requires_confirmation %s", tool, want)
		}
	}
}

func TestTheProfileOfTheSurfaceIsTheContract(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil), "lab": map[string]any{"env": map[string]string{}, "berth": map[string]any{"app": "resmon"}}}, nil)
	for _, profile := range []string{"resmon", "lab"} {
		for _, tt := range []struct {
			name string
			era  era
		}{{"handshake", handshake}, {"stateless", stateless}} {
			t.Run(profile+" "+tt.name, func(t *testing.T) {
				c := h.on(t).caller(profile, tt.era)
				first := c.want("tools/list", nil)
				checkContractList(t, first)
				if again := c.want("tools/list", nil); string(again) != string(first) {
					t.Error("a second list has other bytes")
				}
				if tt.era == stateless {
					discovered := string(c.want("server/discover", nil))
					if !strings.Contains(discovered, `"io.modelcontextprotocol/serverInfo":{"name":"resmon","version":"1.0"}`) || !strings.Contains(discovered, `"capabilities":{"tools":{}}`) {
						t.Errorf("it says of itself %s", discovered)
					}
				}
				for _, method := range []string{"prompts/list", "resources/list", "anything/else"} {
					raw, _, err := c.ask(method, nil)
					if must(t, err); !strings.Contains(string(raw), "-32601") {
						t.Errorf("%s is answered with %s", method, raw)
					}
				}
			})
		}
	}
	t.Run("stdio", func(t *testing.T) {
		l := stdio(t, h.state, nil, stdioOptions{profile: "resmon"})
		var hello struct {
			ServerInfo   json.RawMessage
			Capabilities json.RawMessage
		}
		must(t, json.Unmarshal(l.open(), &hello))
		if string(hello.ServerInfo) != `{"name":"resmon","version":"1.0"}` || string(hello.Capabilities) != `{"tools":{}}` {
			t.Errorf("it says of itself %s, %s", hello.ServerInfo, hello.Capabilities)
		}
		checkContractList(t, resultOf(t, l.ask("tools/list", nil)))
		if got := l.call("health", map[string]any{}).ok(); got.document["status"] != "ok" || *got.call.RuntimeID != f.RuntimeID() {
			t.Errorf("health: %s", got.raw)
		}
	})
}

// canary is what proves that a list came whole.
var canary = regexp.MustCompile(` \[list (head|tail) [0-9a-z]{6}\]`)

func TestInTheMergedProfileTheVerbsAreTheSame(t *testing.T) {
	t.Parallel()
	one := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "one"})
	two := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Stamp: "two", FirstID: 10_000})
	h := newHall(t, map[string]any{"resmon": appEntry(one, nil), "lab": appEntry(two, nil)}, nil)
	own := readTools(t, h.caller("resmon", handshake).want("tools/list", nil))
	merged := h.caller("", handshake)
	all := map[string]listedTool{}
	for _, tool := range readTools(t, merged.want("tools/list", nil)) {
		tool.Description = canary.ReplaceAllString(tool.Description, "")
		all[tool.Name] = tool
	}
	for _, prefix := range []string{"resmon__", "lab__"} {
		for _, tool := range own {
			got, ok := all[prefix+tool.Name]
			if !ok || string(got.InputSchema) != string(tool.InputSchema) || string(got.Confirm) != string(tool.Confirm) || got.Description != tool.Description {
				t.Errorf("%s is listed as %+v", prefix+tool.Name, got)
			}
		}
	}
	for _, tt := range []struct {
		prefix, stamp string
		fake          *resmontest.Fake
	}{{"resmon__", "one", one}, {"lab__", "two", two}} {
		got := merged.call(tt.prefix+"list_routines", nil).ok()
		if !strings.Contains(got.text, tt.stamp) || strings.Contains(got.text, map[string]string{"one": "two", "two": "one"}[tt.stamp]+" ") || *got.call.RuntimeID != tt.fake.RuntimeID() {
			t.Errorf("%s answers %.300s", tt.prefix, got.raw)
		}
	}
	// What is unknown in the merged profile is unknown as everywhere.
	if raw, _, err := merged.ask("tools/call", map[string]any{"name": "resmon__nothing", "arguments": map[string]any{}}); err != nil || !strings.Contains(string(raw), "-32602") {
		t.Errorf("an unknown name in the merged profile: %v %s", err, raw)
	}
	merged.call("resmon__get_routine", map[string]any{"routine_id": "x"}).refused("invalid_argument")
}

// TestAMinimalCallIsOneThatTheAppTakes: what describe and an error offer as a valid
// call is refused for nothing but that there is no such item.
func TestAMinimalCallIsOneThatTheAppTakes(t *testing.T) {
	t.Parallel()
	h := newHall(t, map[string]any{"resmon": appEntry(resmontest.Run(t, resmontest.Options{Data: resmontest.Small}), nil)}, nil)
	c := h.caller("full", handshake)
	for _, tool := range readTools(t, h.caller("resmon", handshake).want("tools/list", nil)) {
		name := "resmon__" + tool.Name
		var told struct {
			Structured struct {
				Verbs []struct {
					Minimal json.RawMessage `json:"minimal_call"`
				}
			} `json:"structuredContent"`
		}
		raw := c.want("tools/call", map[string]any{"name": "describe", "arguments": map[string]any{"names": []string{name}}})
		if err := json.Unmarshal(raw, &told); err != nil || len(told.Structured.Verbs) != 1 || string(told.Structured.Verbs[0].Minimal) == "null" {
			t.Errorf("%s has no minimal call: %v %s", name, err, raw)
			continue
		}
		offered := told.Structured.Verbs[0].Minimal
		var got struct {
			Content []struct{ Text string }
			IsError bool
		}
		raw = c.want("tools/call", map[string]any{"name": name, "arguments": offered})
		if err := json.Unmarshal(raw, &got); err != nil || len(got.Content) == 0 {
			t.Fatalf("%v %s", err, raw)
		}
		if got.IsError && !strings.Contains(got.Content[0].Text, `"error":"not_found"`) {
			t.Errorf("%s %s: %s", name, offered, got.Content[0].Text)
		}
	}
}

func TestEveryRefusalIsAResultOfTheSurface(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, map[string]any{"max_in_flight": 1, "max_queued": 0})}, nil)
	for _, tt := range []struct {
		name string
		era  era
	}{{"handshake", handshake}, {"stateless", stateless}} {
		t.Run(tt.name, func(t *testing.T) {
			f.Clear()
			c := h.on(t).caller("resmon", tt.era)
			for _, name := range []string{"nothing", "job_status", "berth__job_status", "resmon__health", "Health", strings.Repeat("n", 5000)} {
				c.call(name, map[string]any{}).refused("invalid_argument")
			}
			for _, arguments := range []any{"text", []int{1}, 7} {
				c.call("get_routine", arguments).refused("invalid_argument")
			}
			c.call("search_corpus", map[string]any{}).refused("invalid_argument")
			c.call("get_routine", map[string]any{"routine_id": 99999}).refused("not_found")
			c.call("list_routines", map[string]any{}, "berth/idempotencyKey", "").refused("invalid_argument")
			c.call("list_routines", map[string]any{}, "berth/expectedRuntimeId", "").refused("invalid_argument")

			held := f.Inject(resmontest.Hold(), resmontest.Scope{Template: "/api/routines"})
			defer held.Off()
			var first said
			done := make(chan error, 1)
			go func() {
				var err error
				first, err = c.try("list_routines", map[string]any{})
				done <- err
			}()
			<-held.Reached()
			detail := c.call("list_routines", map[string]any{}).refused("conflict")
			if of, _ := detail["berth"].(map[string]any); of["code"] != "overloaded" || of["retry_after_ms"] == nil {
				t.Errorf("overloaded comes as %v", detail)
			}
			c.call("health", map[string]any{}).ok() // it is never queued
			held.Release()
			must(t, <-done)
			first.ok()
		})
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	reads := slices.DeleteFunc(slices.Sorted(maps.Keys(contractTools)), func(name string) bool { return contractTools[name] })
	h := newHall(t, map[string]any{
		"resmon": appEntry(f, nil),
		"ro":     appEntry(f, map[string]any{"read_only": true}),
		"roenv":  map[string]any{"env": with(f.Env(), "RESMON_MCP_READ_ONLY", "1"), "berth": map[string]any{"app": "resmon"}},
		"prof":   appEntry(f, nil),
		"truthy": map[string]any{"env": with(f.Env(), "RESMON_MCP_READ_ONLY", "true"), "berth": map[string]any{"app": "resmon"}},
	}, map[string]any{"profiles": map[string]any{"prof": map[string]any{"read_only": true}}})
	check := func(t *testing.T, list json.RawMessage, call func(name string, arguments any) said) {
		t.Helper()
		if got := toolNames(readTools(t, list)); !slices.Equal(got, reads) {
			t.Errorf("listed %v", got)
		}
		f.Forget()
		for _, name := range writes() {
			for _, arguments := range []any{map[string]any{}, map[string]any{"group": 7}, "text"} {
				detail := call(name, arguments).refused("invalid_argument")
				if detail["read_only"] != true {
					t.Errorf("%s %v: %v", name, arguments, detail)
				}
			}
		}
		if got := f.Requests(); len(got) > 0 {
			t.Errorf("something was sent: %+v", got)
		}
		call("list_routines", map[string]any{}).ok()
	}
	for _, e := range []era{handshake, stateless} {
		for _, tt := range []struct {
			name, profile string
			header        []string
		}{
			{"backend", "ro", nil}, {"backend's environment", "roenv", nil}, {"profile", "prof", nil},
			{"session, this surface", "resmon", []string{"Berth-Read-Only", "resmon"}}, {"session", "resmon", []string{"Berth-Read-Only", "1"}},
			{"session, a word nobody knows", "resmon", []string{"Berth-Read-Only", "yes please"}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				c := h.on(t).caller(tt.profile, e, tt.header...)
				check(t, c.want("tools/list", nil), func(name string, arguments any) said { return c.call(name, arguments) })
			})
		}
	}
	for _, tt := range []struct {
		name string
		env  map[string]string
		o    stdioOptions
	}{
		{"stdio", map[string]string{"RESMON_MCP_READ_ONLY": "1"}, stdioOptions{profile: "resmon"}},
		{"stdio that brings its own", with(f.Env(), "RESMON_MCP_READ_ONLY", "1"), stdioOptions{profile: "resmon"}},
		{"stdio --read-only", nil, stdioOptions{profile: "resmon", readOnly: true}},
		{"embedded", with(f.Env(), "RESMON_MCP_READ_ONLY", "1"), stdioOptions{profile: "resmon", embedded: true}},
		{"embedded --read-only", f.Env(), stdioOptions{profile: "resmon", embedded: true, readOnly: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := stdio(t, h.state, tt.env, tt.o)
			l.open()
			check(t, resultOf(t, l.ask("tools/list", nil)), l.call)
		})
	}
	t.Run("the merged profile", func(t *testing.T) {
		c := h.on(t).caller("", handshake)
		names := toolNames(readTools(t, c.want("tools/list", nil)))
		for _, name := range writes() {
			if slices.Contains(names, "ro__"+name) || !slices.Contains(names, "resmon__"+name) {
				t.Errorf("%s in %v", name, names)
			}
			if detail := c.call("ro__"+name, "text").refused("invalid_argument"); detail["read_only"] != true {
				t.Errorf("ro__%s: %v", name, detail)
			}
		}
	})
	t.Run("another value changes nothing", func(t *testing.T) {
		checkContractList(t, h.on(t).caller("truthy", handshake).want("tools/list", nil))
		l := stdio(t, h.state, map[string]string{"RESMON_MCP_READ_ONLY": "true"}, stdioOptions{profile: "resmon"})
		l.open()
		checkContractList(t, resultOf(t, l.ask("tools/list", nil)))
	})
	t.Run("with resmon down", func(t *testing.T) {
		must(t, f.Stop())
		if detail := h.on(t).caller("ro", stateless).call("run_sweep", 7).refused("invalid_argument"); detail["read_only"] != true {
			t.Errorf("%v", detail)
		}
	})
}

func with(m map[string]string, name, value string) map[string]string {
	m = maps.Clone(m)
	m[name] = value
	return m
}

// What an embedded broker leaves behind would be found in the directory for
// temporary files, which is this test's own.
func TestAnEmbeddedBrokerSharesAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	for _, tt := range []struct {
		name string
		end  func(*line) error
	}{
		{"end of input", func(l *line) error { return l.close() }},
		{"a signal", func(l *line) error { l.stop(); return <-l.ended }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := stdio(t, filepath.Join(t.TempDir(), "unused"), f.Env(), stdioOptions{profile: "resmon", embedded: true})
			l.open()
			checkContractList(t, resultOf(t, l.ask("tools/list", nil)))
			got := l.call("run_sweep", map[string]any{"query": "q", "sources": []string{"arxiv"}}).ok()
			if got.job.ID == "" || got.job.RuntimeID != f.RuntimeID() {
				t.Errorf("no job stands beside the answer: %s", got.raw)
			}
			l.call("nothing", map[string]any{}).refused("invalid_argument")
			if entries, err := os.ReadDir(temp); err != nil || len(entries) == 0 {
				t.Errorf("it has no state directory while it runs: %v %v", entries, err)
			}
			err := tt.end(l)
			if tt.name == "end of input" && err != nil {
				t.Errorf("it ended with %v", err)
			}
			entries, err := os.ReadDir(temp)
			must(t, err)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), "berth-embedded-") {
					t.Errorf("it left %s", e.Name())
				}
			}
			if said := l.errs.String(); said != "" {
				t.Errorf("it said %q", said)
			}
		})
	}
	t.Run("what one left that was killed", func(t *testing.T) {
		old := time.Now().Add(-time.Hour)
		make := func(name string) string {
			path := filepath.Join(temp, name)
			must(t, os.MkdirAll(filepath.Join(path, "results"), 0o700))
			must(t, os.WriteFile(filepath.Join(path, "journal.db"), nil, 0o600))
			return path
		}
		left, runs, young, other := make("berth-embedded-1"), make("berth-embedded-2"), make("berth-embedded-3"), make("berth-other-4")
		dir, err := statedir.Open(runs)
		must(t, err)
		lock, err := dir.Lock()
		must(t, err)
		defer func() { must(t, lock.Release()) }()
		for _, path := range []string{left, runs, other} {
			must(t, os.Chtimes(path, old, old))
		}
		must(t, os.Symlink(other, filepath.Join(temp, "berth-embedded-5")))
		l := stdio(t, "", f.Env(), stdioOptions{profile: "resmon", embedded: true})
		l.open()
		must(t, l.close())
		for path, stays := range map[string]bool{left: false, runs: true, young: true, other: true} {
			if _, err := os.Stat(filepath.Join(path, "journal.db")); (err == nil) != stays {
				t.Errorf("%s stays: %v", filepath.Base(path), err == nil)
			}
		}
	})
	t.Run("of an app only", func(t *testing.T) {
		l := stdio(t, "", nil, stdioOptions{profile: "berth", embedded: true})
		if err := <-l.ended; err == nil || !strings.Contains(err.Error(), "resmon") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestAnEmbeddedBrokerIsNotAskedForAnInstanceThatNobodyNamed(t *testing.T) {
	t.Parallel()
	l := stdio(t, "", map[string]string{"HOME": t.TempDir()}, stdioOptions{profile: "resmon", embedded: true})
	l.open()
	checkContractList(t, resultOf(t, l.ask("tools/list", nil)))
	detail := l.call("list_routines", map[string]any{}).refused("backend_unavailable")
	if detail["no_port_named"] != true || detail["port_file"] != "no_path" {
		t.Errorf("%v", detail)
	}
}

// The real program, in an environment that has nothing but the app's names.
func TestTheEmbeddedProgramNeedsNothingButTheNames(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	cmd := exec.Command(binariesOf(t).berth, "stdio", "--profile", "resmon", "--embedded")
	for name, value := range with(f.Env(), "TMPDIR", t.TempDir()) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	errs := &buffer{}
	cmd.Stderr = errs
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = stdin.Close() })
	l := &line{t: t, in: stdin, out: bufio.NewReader(stdout), errs: errs}
	l.open()
	checkContractList(t, resultOf(t, l.ask("tools/list", nil)))
	if got := l.call("health", map[string]any{}).ok(); *got.call.RuntimeID != f.RuntimeID() {
		t.Errorf("answered %s", got.raw)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(l.out)
	must(t, err)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || len(rest) > 0 {
		t.Errorf("it ended with %v, and said %q", err, rest)
	}
}

// A limit of Berth's own that is shorter than the app's says whom it gave up on,
// and of a write that it may have taken effect.
func TestALimitOfBerthsOwnNamesTheAddress(t *testing.T) {
	t.Parallel()
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, map[string]any{"call_timeout": "300ms", "cancel_grace": "100ms"})}, nil)
	c := h.caller("resmon", handshake)
	eventually(t, "it is attached", func() bool { return !c.call("health", map[string]any{}).isError })
	for _, template := range []string{"/api/routines", "/api/search/sweep"} {
		f.Inject(resmontest.Hold(), resmontest.Scope{Template: template})
	}
	defer f.Clear()
	for name, unknown := range map[string]any{"list_routines": nil, "run_sweep": true} {
		got := c.call(name, sweep)
		detail := got.refused("backend_unavailable")
		if tried, _ := detail["tried"].([]any); len(tried) != 1 || tried[0] != f.Base() || detail["reason"] != "timeout" && unknown == nil || detail["outcome_unknown"] != unknown {
			t.Errorf("%s: %s", name, got.raw)
		}
		if message := got.document["message"].(string); !strings.HasPrefix(message, "The resmon at "+f.Base()+" stopped answering part-way.") {
			t.Errorf("%s says %q", name, message)
		}
	}
}
