//go:build unix

package dock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

const (
	aToken = "T0kenT0kenT0kenT0kenT0kenT0kenT0kenT0kenT0kenT0kenT0kenT0kenT0k1"
	aKey   = "provider key with spaces" // that no shape of a credential fits
)

// sum is how the stand-in says what it must not say.
func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// held are the files below a directory that hold a text.
func held(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// endpoint is an MCP server that takes one token, and counts who had it.
func endpoint(t *testing.T, token string) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server := mcp.NewServer(&mcp.Implementation{Name: "berth", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "mission_code_search", Description: "x"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found it"}}}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp", calls
}

// TestEachRuntimeIsLaunchedAndCallsBack runs the stand-in of each program as the
// contract's table has it.
func TestEachRuntimeIsLaunchedAndCallsBack(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	url, calls := endpoint(t, aToken)
	y.mcp = url
	y.secrets["captain-cpt_1"] = aKey
	model, effort := "anthropic/big", "high"
	for _, r := range dispatch.Runtimes {
		for _, size := range []int{0, 200 << 10} {
			if r == dispatch.Gemini && size > 0 {
				continue // prompt_too_large
			}
			t.Run(fmt.Sprint(r, size), func(t *testing.T) {
				y.t = t
				id := fmt.Sprint("msn_", r, size)
				w := y.work(id, y.vessel())
				w.Captain.Runtime, w.Captain.Model, w.Captain.ReasoningEffort = r, &model, &effort
				y.prepare(&w)
				brief := lines("@prompt", `@mcp mission_code_search {"query":"it"}`, "@sum "+runtime.TokenVariable, "@write work.txt done", "@commit work",
					"@marker PROGRESS 40", "@marker STATUS half of it", "@say it's \"all\" done") + strings.Repeat("\n'\"$é", size/7)
				var h heard
				a := y.start(w, brief, aToken, &h)
				y.await(a.Done(), "the agent's end")
				if end := a.End(); end.Code == nil || *end.Code != 0 {
					t.Fatalf("ended %+v\n%s", end, y.log(id))
				}
				log := y.log(id)
				for _, want := range []string{fmt.Sprintf("prompt %d %s", len(brief), sum(brief)), "mission_code_search answered: found it", sum(aToken) + " of " + runtime.TokenVariable} {
					if !strings.Contains(log, want) {
						t.Errorf("the log lacks %q: %s", want, log)
					}
				}
				if _, progress, status := h.said(); r != dispatch.Gemini && (progress != 40 || status != "half of it") {
					t.Errorf("heard %d, %q", progress, status)
				}
				if text, ok, err := y.papers.Output(id); err != nil || !ok || !strings.HasSuffix(text, `it's "all" done`) {
					t.Errorf("the output is %q, %v, %v", text, ok, err)
				}
				if files := y.sh(w.Dock.Path, "show", "--format=", "--name-only", "HEAD"); files != "work.txt" {
					t.Errorf("it committed %q", files)
				}
				if left, err := os.Stat(y.state("missions/" + id + "/" + launchDir)); err == nil {
					t.Errorf("the files of the launch are left: %v", left)
				}
			})
		}
	}
	y.t = t
	if calls.Load() != 11 {
		t.Errorf("the broker was called %d times", calls.Load())
	}
	for _, secret := range []string{aToken, aKey} {
		if files := append(held(t, y.state(""), secret), held(t, y.origin, secret)...); len(files) > 0 {
			t.Errorf("%.5s... stands in %v", secret, files)
		}
		if strings.Contains(y.logged.String(), secret) {
			t.Errorf("%.5s... was logged", secret)
		}
	}
}

func TestAnAgentGetsTheEnvironmentThatIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		runtime dispatch.Runtime
		model   string
		key     string
		url     string
	}{
		{dispatch.Custom, "", "CAPTAIN_API_KEY", "CAPTAIN_API_BASE_URL"}, {dispatch.ClaudeCode, "", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
		{dispatch.Codex, "", "OPENAI_API_KEY", "OPENAI_BASE_URL"}, {dispatch.Gemini, "", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"}, {dispatch.Cursor, "", "CURSOR_API_KEY", ""},
		{dispatch.OpenCode, "anthropic/x", "ANTHROPIC_API_KEY", ""}, {dispatch.OpenCode, "my-own/x", "MY_OWN_API_KEY", ""}, {dispatch.OpenCode, "", "OPENCODE_API_KEY", ""}, {dispatch.OpenCode, "big", "OPENCODE_API_KEY", ""},
	} {
		t.Run(string(tt.runtime)+tt.model, func(t *testing.T) {
			y := newYard(t)
			address := "https://provider.example"
			y.secrets["captain-cpt_1"] = aKey
			w := y.work("msn_a", y.vessel())
			voyage := "vyg_1"
			w.Captain.Runtime, w.Captain.Model, w.Captain.APIBaseURL, w.Mission.VoyageID = tt.runtime, &tt.model, &address, &voyage
			y.prepare(&w)
			asked := []string{"@environ", "@sum BERTH_MISSION_ID", "@sum BERTH_VOYAGE_ID", "@sum BERTH_VESSEL_ID", "@sum " + tt.key, "@sum BERTH_API_KEY", "@sum HOME", "@sum LISTED_ONE"}
			y.run(&w, lines(append(asked, "@sum "+tt.url)...))
			log := y.log("msn_a")
			want := []string{sum("msn_a") + " of BERTH_MISSION_ID", sum(voyage) + " of BERTH_VOYAGE_ID", sum("vsl_1") + " of BERTH_VESSEL_ID", sum(aKey) + " of " + tt.key,
				sum("") + " of BERTH_API_KEY", sum("yes") + " of LISTED_ONE", sum(filepath.Join(y.dir, "home")) + " of HOME"}
			if tt.url != "" {
				want = append(want, sum(address)+" of "+tt.url)
			} else if !strings.Contains(tt.model, "/") {
				want = append(want, "apiBaseUrl is not used")
			} else if strings.Contains(log, "apiBaseUrl") {
				t.Errorf("the log: %s", log)
			}
			for _, w := range want {
				if !strings.Contains(log, w) {
					t.Errorf("the log lacks %q: %s", w, log)
				}
			}
			_, names, _ := strings.Cut(log, "environ ")
			names, _, _ = strings.Cut(names, "\n")
			for _, name := range strings.Fields(names) {
				if slices.Contains([]string{"ARMADA_SECRET", "AWS_SECRET_ACCESS_KEY", "BERTH_API_KEY", runtime.TokenVariable}, name) {
					t.Errorf("it has %s", name)
				}
			}
		})
	}
}

func TestHiddenFilesAreInNoCommit(t *testing.T) {
	t.Parallel()
	for _, tracked := range []bool{false, true} {
		y := newYard(t)
		y.mcp = "http://127.0.0.1:1/mcp"
		if tracked {
			y.commit(".cursor/mcp.json", `{"mine":true}`)
		}
		w := y.work("msn_a", y.vessel())
		w.Captain.Runtime = dispatch.Cursor
		y.prepare(&w)
		a := y.start(w, lines("@write a a", "@commit a"), aToken, &heard{})
		y.await(a.Done(), "the agent's end")
		if raw, err := os.ReadFile(filepath.Join(w.Dock.Path, ".cursor/mcp.json")); err != nil || !strings.Contains(string(raw), "127.0.0.1:1") {
			t.Errorf("%q, %v", raw, err)
		}
		if files := y.sh(w.Dock.Path, "show", "--format=", "--name-only", "HEAD"); files != "a" {
			t.Errorf("tracked %v: it committed %q", tracked, files)
		}
		if status, dirty, err := y.papers.DockStatus(t.Context(), w.Dock); err != nil || dirty {
			t.Errorf("tracked %v: %q, %v", tracked, status, err)
		}
	}
	y := newYard(t)
	y.mcp = "http://127.0.0.1:1/mcp"
	if err := os.Symlink(y.dir, filepath.Join(y.origin, ".cursor")); err != nil {
		t.Fatal(err)
	}
	y.commit("x", "x")
	w := y.work("msn_a", y.vessel())
	w.Captain.Runtime = dispatch.Cursor
	y.prepare(&w)
	if _, err := y.agents.Start(t.Context(), w, "", aToken, (&heard{}).beat); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Lstat(filepath.Join(y.dir, "mcp.json")); !os.IsNotExist(err) {
		t.Error("a file was written through a link")
	}
}

func TestALaunchThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	w := y.work("msn_a", y.vessel())
	y.prepare(&w)
	for _, tt := range []struct {
		name   string
		change func(*missions.Work)
		brief  string
		reason dispatch.FailureReason
		says   string
	}{
		{"a program that is not there", func(w *missions.Work) { w.Captain.CustomCommand = []string{"/nowhere/agent"} }, "", "", "/nowhere/agent"},
		{"no program", func(w *missions.Work) { w.Captain.CustomCommand = nil }, "", "", "empty"},
		{"a runtime that is not built", func(w *missions.Work) { w.Captain.Runtime = "Mux" }, "", "", "runtime"},
		{"a prompt that is too long", func(w *missions.Work) { w.Captain.Runtime = dispatch.Gemini }, strings.Repeat("x", 100<<10), dispatch.PromptTooLarge, "longer"},
		{"a worktree that is gone", func(w *missions.Work) { w.Dock.Path = y.state("docks/gone") }, "", "", "directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad := w
			tt.change(&bad)
			if _, err := y.agents.Start(t.Context(), bad, tt.brief, aToken, (&heard{}).beat); err == nil || fault(err) != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := y.agents.Start(gone, w, "", "", (&heard{}).beat); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	a := y.start(w, "@hold "+y.file("never"), "", &heard{}) // nothing of the failures is in the way
	if _, err := y.agents.Start(t.Context(), w, "", "", (&heard{}).beat); err == nil {
		t.Error("two agents of one mission")
	}
	if err := y.papers.Remove("msn_a"); err == nil {
		t.Error("the papers of a running agent were removed")
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnAgentsEndIsTold(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, tt := range []struct {
		name, brief string
		code        string
		words       string
		result      runtime.Result
		verdict     runtime.Verdict
	}{
		{"well", "@say hi", "0", "exited with code 0", "", ""},
		{"badly", "@stderr no key\n@exit 3", "3", "exited with code 3", "", ""},
		{"badly, and done", "@marker RESULT COMPLETE\n@exit 1", "1", "exited with code 1", runtime.ResultComplete, ""},
		{"with a verdict", "@marker VERDICT FAIL", "0", "exited with code 0", "", runtime.VerdictFail},
		{"by a signal", "@kill 9", "none", "killed by signal 9 (killed)", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y.t = t
			w := y.work("msn_a", y.vessel())
			y.prepare(&w)
			end, _ := y.run(&w, tt.brief)
			code := "none"
			if end.Code != nil {
				code = strconv.Itoa(*end.Code)
			}
			if code != tt.code || end.Words != tt.words || end.Result != tt.result || end.Verdict != tt.verdict || (end.Stderr != "") != strings.Contains(tt.brief, "@stderr") {
				t.Errorf("got %+v", end)
			}
			note := "[berth] The agent "
			if end.Code == nil {
				note += "has no exit status: "
			}
			if log := y.log("msn_a"); !strings.Contains(log, note+tt.words+".") || strings.Contains(tt.brief, "@stderr") && !strings.Contains(log, "Z [stderr] no key\n") {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

func TestStopLeavesNoDescendant(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	alive := func(file string) bool {
		pid, err := strconv.Atoi(y.awaitFile(file))
		if err != nil {
			t.Fatal(err)
		}
		return syscall.Kill(pid, 0) == nil
	}
	for _, how := range []string{"while it runs", "after its end"} {
		t.Run(how, func(t *testing.T) {
			y.t = t
			id := "msn_" + strings.Fields(how)[0]
			w := y.work(id, y.vessel())
			y.prepare(&w)
			last := "@hold " + y.file("never")
			if how != "while it runs" {
				last = "@say done"
			}
			child, orphan := y.file(id+"-fork"), y.file(id+"-detach")
			a := y.start(w, lines("@deaf", "@fork "+child, "@detach "+orphan, "@write "+y.file(id+"-there")+" x", last), "", &heard{})
			if how == "while it runs" {
				y.awaitFile(y.file(id + "-there"))
				if syscall.Kill(a.PID(), 0) != nil || !alive(child) || !alive(orphan) {
					t.Fatal("they do not run")
				}
				for range 2 {
					if err := a.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			y.await(a.Done(), "the end")
			if alive(child) || alive(orphan) || syscall.Kill(a.PID(), 0) == nil {
				t.Error("a process is left")
			}
			if end := a.End(); end.Words == "" {
				t.Errorf("ended %+v", end)
			}
		})
	}
}

func TestAProgramThatReadsNothingDoesNotHoldUpItsStart(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	script := y.file("deaf.sh")
	y.write(script, "#!/bin/sh\necho here\nexec sleep 600\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	w := y.work("msn_a", y.vessel())
	w.Captain.CustomCommand = []string{script}
	y.prepare(&w)
	a := y.start(w, strings.Repeat("x", 4<<20), "", &heard{})
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if end := a.End(); end.Code != nil || !strings.HasPrefix(end.Words, "killed by signal ") {
		t.Errorf("ended %+v", end)
	}
}

func TestWhoIsConfiguredCommits(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.write(filepath.Join(y.dir, "home", ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@localhost\n")
	w := y.work("msn_a", y.vessel())
	y.prepare(&w)
	if _, got := y.run(&w, lines("@write a a", "@commit a")); got.Commit == nil || y.sh(y.clone(), "log", "-1", "--format=%an %ce", *got.Commit) != "Ada ada@localhost" {
		t.Errorf("found %+v\n%s", got, y.log("msn_a"))
	}
}
