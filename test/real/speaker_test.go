package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	handshakeEra = "2025-11-25"
	statelessEra = "2026-07-28"
)

// speaker is a client library of others, connected to Berth. It declares form
// elicitation and answers every question: yes, or Ada.
type speaker interface {
	version() string
	list(ctx context.Context) ([]string, error)
	// call gives the first text; a cancel of ctx is the library's own cancel.
	call(ctx context.Context, tool string, arguments map[string]any, progress func(float64)) (string, error)
	// begin asks for a call as a task and gives the task's id.
	begin(ctx context.Context, tool string, arguments map[string]any) (string, error)
	// poll asks once how a task stands; text is its outcome where the library
	// shows one.
	poll(ctx context.Context, id string) (status, text string, err error)
}

// target is where a speaker finds Berth.
type target struct {
	url, token string
	env, line  []string // berth stdio, when there is no url
	era        string
	tasks      bool // declare the extension io.modelcontextprotocol/tasks
}

// library is a client library and what it was seen to be unable to do.
type library struct {
	name    string
	eras    []string
	connect func(t *testing.T, to target) speaker
	// noTask is what begin fails with, by era: these libraries cannot read the
	// answer that is a task, or cannot ask for one.
	noTask map[string]string
	// noPoll is what poll fails with, by era and transport: this one cannot send
	// the header that names the task.
	noPoll map[string]string
	// noCancel are the ways (era and transport) in which its cancel tells
	// nobody: it only drops the connection, which in that era is no cancel.
	noCancel []string
	// losesLast is of a library that drops progress which it reads together
	// with the answer.
	losesLast bool
}

var libraries = []library{
	{
		name: "mcp-go", eras: []string{handshakeEra, statelessEra}, connect: connectMCPGo,
		noTask:   map[string]string{handshakeEra: "content is missing", statelessEra: "content is missing"},
		noCancel: []string{handshakeEra + " http"},
	},
	{
		name: "go-sdk", eras: []string{handshakeEra, statelessEra}, connect: connectGoSDK,
		noTask: map[string]string{handshakeEra: "CallToolParams has no task", statelessEra: "no task but a result with 0 content blocks"},
		noPoll: map[string]string{statelessEra + " http": "Mcp-Name is missing"},
	},
	{
		name: "typescript client", eras: []string{handshakeEra, statelessEra}, connect: connectTypeScript("client"),
		noTask:    map[string]string{handshakeEra: "content is required", statelessEra: "Unsupported result type 'task'"},
		losesLast: true,
	},
	{name: "typescript sdk", eras: []string{handshakeEra}, connect: connectTypeScript("sdk"), losesLast: true},
}

// TestClientLibrariesThroughBerth is a table of client, era, transport and what
// is done, on a backend of each era.
func TestClientLibrariesThroughBerth(t *testing.T) {
	need(t)
	b := startBroker(t, map[string]any{
		"every": child(t, nil),
		"fix":   map[string]any{"command": fixturePath(t), "args": []string{"stdio"}, "berth": map[string]any{"long": []string{"slow_compute"}}},
	})
	raw := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	want, _ := raw.list()
	for _, lib := range libraries {
		for _, era := range lib.eras {
			for _, transport := range []string{"http", "stdio"} {
				t.Run(lib.name+"/"+era+"/"+transport, func(t *testing.T) {
					to := target{era: era}
					if transport == "http" {
						to.url, to.token = b.url+"/mcp", b.token
					} else {
						to.env, to.line = b.env, []string{berthPath(t), "stdio", "--state-dir", b.stateDir}
					}
					s := lib.connect(t, to)
					if v := s.version(); v != era {
						t.Fatalf("it speaks %s", v)
					}
					t.Run("list", func(t *testing.T) { lists(t, s, want) })
					t.Run("call", func(t *testing.T) { callsVerbs(t, s) })
					t.Run("progress", func(t *testing.T) { progresses(t, s, lib.losesLast) })
					t.Run("elicit", func(t *testing.T) { elicits(t, s) })
					t.Run("cancel", func(t *testing.T) {
						cancels(t, b, s, !slices.Contains(lib.noCancel, era+" "+transport))
					})
					t.Run("task", func(t *testing.T) {
						to.tasks = true
						polls(t, raw, lib.connect(t, to), lib.noTask[era], lib.noPoll[era+" "+transport])
					})
				})
			}
		}
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func lists(t *testing.T, s speaker, want []string) {
	names, err := s.list(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing in %q", name, names)
		}
	}
}

func callsVerbs(t *testing.T, s speaker) {
	for tool, args := range map[string]map[string]any{"fix__echo": {"message": "ahoy"}, "every__echo": {"message": "ahoy"}} {
		text, err := s.call(bounded(t), tool, args, nil)
		if err != nil || !strings.Contains(text, "ahoy") {
			t.Errorf("%s gave %q, %v", tool, text, err)
		}
	}
	text, err := s.call(bounded(t), "fix__fail", map[string]any{"message": "as it was asked to"}, nil)
	if err != nil || !strings.Contains(text, "as it was asked to") {
		t.Errorf("a tool's error came as %q, %v", text, err)
	}
}

// progresses looks at the progress of a call that answers; the last comes just
// before the answer.
func progresses(t *testing.T, s speaker, mayLose bool) {
	for tool, args := range map[string]map[string]any{
		"fix__slow":      {"seconds": 0.8, "progress": 3},
		"every__" + long: {"duration": 0.6, "steps": 3},
	} {
		seen := make(chan float64, 16)
		if _, err := s.call(bounded(t), tool, args, func(p float64) { seen <- p }); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		for _, want := range []float64{1, 2, 3} { // a library may hand it on after the answer
			if mayLose && want > 1 && len(seen) == 0 {
				t.Logf("%s: it showed no progress %v", tool, want)
				break
			}
			select {
			case got := <-seen:
				if got != want {
					t.Errorf("%s: progress %v, want %v", tool, got, want)
				}
			case <-bounded(t).Done():
				t.Fatalf("%s: no progress %v", tool, want)
			}
		}
	}
}

// elicits asks from a backend of each era.
func elicits(t *testing.T, s speaker) {
	for tool, want := range map[string]string{
		"fix__confirm_delete":                "deleted this.txt",
		"every__trigger-elicitation-request": "provided the requested information",
	} {
		text, err := s.call(bounded(t), tool, map[string]any{"filename": "this.txt"}, nil)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s gave %q, %v; want %s", tool, text, err, want)
		}
	}
}

// cancels gives a call up in the middle and looks at the backend's seat, which
// comes back when the backend has taken the cancel.
func cancels(t *testing.T, b *broker, s speaker, told bool) {
	before := b.backend(t, "fix").Abandoned
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	_, err := s.call(ctx, "fix__slow", map[string]any{"seconds": 300, "progress": 1000}, func(float64) { cancel() })
	if err == nil || ctx.Err() == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the call ended with %v", err)
	}
	if !told {
		var id string
		eventually(t, "the call goes on as a job", func() bool {
			id = b.unfinished(t, "fix__slow")
			return id != ""
		})
		b.berth(t, nil, "jobs", "cancel", id, "--reason", "the test is over")
	}
	eventually(t, "the seat comes back", func() bool { return b.backend(t, "fix").InFlight == 0 })
	if v := b.backend(t, "fix"); v.Abandoned != before {
		t.Errorf("the backend took no notice of the cancel: %+v", v)
	}
	if id := b.unfinished(t, "fix__slow"); id != "" {
		t.Errorf("the job %s goes on", id)
	}
}

// unfinished is the id of a job of the verb that has not ended, if there is one.
func (b *broker) unfinished(t *testing.T, operation string) string {
	t.Helper()
	var page struct{ Objects []jobRecord }
	if err := json.Unmarshal([]byte(b.berth(t, nil, "jobs", "list", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Objects {
		if r.Operation == operation && (r.Status == "Accepted" || r.Status == "Running") {
			return r.JobID
		}
	}
	return ""
}

// polls begins a task and asks after it until it has ended; where the library
// cannot begin one, it asks after a job that another client began.
func polls(t *testing.T, other *client, s speaker, noTask, noPoll string) {
	args := map[string]any{"seconds": 1, "label": "it"}
	id, err := s.begin(bounded(t), "fix__slow_compute", args)
	switch {
	case noTask == "" && err != nil:
		t.Fatalf("begin: %v", err)
	case noTask != "":
		if err == nil || !regexp.MustCompile(noTask).MatchString(err.Error()) {
			t.Fatalf("begin gave %q, %v; it was seen to fail with %q", id, err, noTask)
		}
		t.Logf("it cannot begin a task: %v", err)
		id = job(t, other.call("fix__slow_compute", args)).JobID
	}
	var status, text string
	eventually(t, "the task ends", func() bool {
		status, text, err = s.poll(bounded(t), id)
		return err != nil || status != "working"
	})
	if noPoll != "" {
		if err == nil || !regexp.MustCompile(noPoll).MatchString(err.Error()) {
			t.Fatalf("poll gave %s %q, %v; it was seen to fail with %q", status, text, err, noPoll)
		}
		t.Skipf("it cannot ask after a task: %v", err)
	}
	if err != nil || status != "completed" || text != "" && text != "computed it in 1 s" {
		t.Errorf("the task ended as %s %q, %v", status, text, err)
	}
	t.Logf("task %s, outcome shown: %q", status, text)
}

func mustNot(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", what, err))
	}
}
