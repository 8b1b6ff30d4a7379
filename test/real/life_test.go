package real

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const long = "trigger-long-running-operation"

// reach is one way from Berth to server-everything.
type reach struct {
	name string
	// start gives the backend's entry in the configuration.
	start func(t *testing.T, keys map[string]any) map[string]any
}

var reaches = []reach{
	{"stdio", child},
	{"http", func(t *testing.T, keys map[string]any) map[string]any {
		_, url := startEverything(t, "0")
		return upstream(url, keys)
	}},
}

// next gives the next notification of a method.
func (c *client) next(t *testing.T, method string) mcp.JSONRPCNotification {
	t.Helper()
	over := time.After(limit)
	for {
		select {
		case n := <-c.notes:
			if n.Method == method {
				return n
			}
		case <-over:
			t.Fatalf("%s: no %s within %s", c.name, method, limit)
		}
	}
}

func TestProgressOfServerEverythingArrivesBeforeTheAnswer(t *testing.T) {
	need(t)
	for _, r := range reaches {
		t.Run(r.name, func(t *testing.T) {
			b := startBroker(t, map[string]any{"every": r.start(t, nil)})
			for _, c := range []*client{
				overHTTP(t, "/mcp", b.url+"/mcp", b.token),
				overStdio(t, "berth stdio", b.env, []string{berthPath(t), "stdio", "--state-dir", b.stateDir}),
			} {
				f := c.begin("every__"+long, map[string]any{"duration": 0.6, "steps": 3})
				a := f.wait(t)
				if got := textOf(t, a.Result); got != "Long running operation completed. Duration: 0.6 seconds, Steps: 3." {
					t.Fatal(got)
				}
				var seen []float64
				for len(c.notes) > 0 {
					n := <-c.notes
					if n.Method != "notifications/progress" {
						continue // what the server says outside of the call
					}
					params := n.Params.AdditionalFields
					if params["progressToken"] != float64(f.id) || params["total"] != 3.0 {
						t.Errorf("%s: %+v", c.name, n)
					}
					seen = append(seen, params["progress"].(float64))
				}
				if !reflect.DeepEqual(seen, []float64{1, 2, 3}) {
					t.Errorf("%s: progress %v", c.name, seen)
				}
			}
		})
	}
}

// TestCancelReachesServerEverything looks at what really stands on the
// server's standard input.
func TestCancelReachesServerEverything(t *testing.T) {
	need(t)
	record := filepath.Join(t.TempDir(), "input")
	line := everything(t, "stdio")
	script := `tee "$0" | "$@"`
	b := startBroker(t, map[string]any{"every": map[string]any{"command": "sh",
		"args": append([]string{"-c", script, record}, line...), "berth": map[string]any{"cancel_grace": "1s"}}})
	c := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	f := c.begin("every__"+long, map[string]any{"duration": 300, "steps": 3000})
	c.next(t, "notifications/progress")
	c.notify("notifications/cancelled", map[string]any{"requestId": f.id, "reason": "enough"})
	var call, cancel struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			RequestID json.RawMessage
		}
	}
	eventually(t, "the server reads the cancel", func() bool {
		for _, text := range readLines(t, record) {
			switch {
			case strings.Contains(text, `"tools/call"`):
				unmarshal(t, text, &call)
			case strings.Contains(text, `"notifications/cancelled"`):
				unmarshal(t, text, &cancel)
				return true
			}
		}
		return false
	})
	if call.Params.Name != long || string(cancel.Params.RequestID) != string(call.ID) {
		t.Errorf("the call was %+v, the cancel %+v", call, cancel)
	}
	eventually(t, "the seat comes back", func() bool { v := b.backend(t, "every"); return v.InFlight == 0 && v.Abandoned == 1 })
	if a := c.call("every__echo", map[string]any{"message": "still here"}); textOf(t, a.Result) != "Echo: still here" {
		t.Errorf("after the cancel: %+v", a)
	}
	select {
	case err := <-f.done:
		if err == nil {
			t.Errorf("the cancelled call was answered: %+v", f.answer)
		}
	default: // no answer, as the protocol says
	}
}

func TestALongOperationBecomesAJobAndEndsWithItsResult(t *testing.T) {
	need(t)
	for _, r := range reaches {
		t.Run(r.name, func(t *testing.T) {
			b := startBroker(t, map[string]any{"every": r.start(t, map[string]any{"promote_after": "1s"})})
			c := overHTTP(t, "/mcp/every", b.url+"/mcp/every", b.token)
			handle := job(t, c.call(long, map[string]any{"duration": 3, "steps": 3}))
			if handle.JobID == "" || handle.Status != "Running" || handle.Operation != "every__"+long {
				t.Fatalf("the call came back as %+v", handle)
			}
			done := follow(t, c, handle.JobID)
			var result any
			unmarshal(t, string(done.Result), &result)
			want := map[string]any{"content": []any{map[string]any{"type": "text", "text": "Long running operation completed. Duration: 3 seconds, Steps: 3."}}}
			if done.Status != "Succeeded" || !reflect.DeepEqual(result, want) {
				t.Errorf("the job ended as %+v: %s", done, done.Result)
			}
		})
	}
}

// TestAKilledServerIsToldAndTheNextCallReachesANewOne kills the server in the
// middle of a call that may have written.
func TestAKilledServerIsToldAndTheNextCallReachesANewOne(t *testing.T) {
	need(t)
	t.Run("stdio", func(t *testing.T) {
		b := startBroker(t, map[string]any{"every": child(t, nil)})
		killed(t, b, func() {
			pid := b.backend(t, "every").PID
			if pid == nil {
				t.Fatal("berth backends shows no pid")
			}
			if err := syscall.Kill(*pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("http", func(t *testing.T) {
		server, url := startEverything(t, "0")
		b := startBroker(t, map[string]any{"every": upstream(url, nil)})
		killed(t, b, func() {
			server.kill(t)
			startEverything(t, portOf(url))
		})
	})
}

func killed(t *testing.T, b *broker, kill func()) {
	t.Helper()
	c := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	f := c.begin("every__"+long, map[string]any{"duration": 300, "steps": 3000})
	c.next(t, "notifications/progress")
	first := b.backend(t, "every")
	kill()
	a := f.wait(t)
	var refusal struct{ Code string }
	unmarshal(t, textOf(t, a.Result), &refusal)
	if refusal.Code != "outcome_unknown" {
		t.Errorf("the call ended as %s", mustJSON(t, a))
	}
	eventually(t, "a call reaches the new server", func() bool {
		return textOf(t, c.call("every__echo", map[string]any{"message": "again"}).Result) == "Echo: again"
	})
	second := b.backend(t, "every")
	if first.RuntimeID == nil || second.RuntimeID == nil || *first.RuntimeID == *second.RuntimeID {
		t.Errorf("the incarnation before %+v, after %+v", first, second)
	}
}

// TestAServerThatWasReplacedBetweenCallsIsFoundAgain: server-everything does
// not know the sessions of its last life and says so in its own way.
func TestAServerThatWasReplacedBetweenCallsIsFoundAgain(t *testing.T) {
	need(t)
	server, url := startEverything(t, "0")
	b := startBroker(t, map[string]any{"every": upstream(url, nil)})
	c := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	echo := func() string { return textOf(t, c.call("every__echo", map[string]any{"message": "hi"}).Result) }
	if got := echo(); got != "Echo: hi" {
		t.Fatal(got)
	}
	first := b.backend(t, "every")
	server.kill(t)
	startEverything(t, portOf(url))
	eventually(t, "the backend is found again", func() bool {
		got := echo()
		if got == "Echo: hi" {
			return true
		}
		// A 400 does not prove that nothing was done, so this is all that may be said.
		var refusal struct{ Code string }
		unmarshal(t, got, &refusal)
		t.Logf("a call in between: %s", got)
		if refusal.Code != "outcome_unknown" && refusal.Code != "backend_unavailable" {
			t.Fatal("that is no answer to it")
		}
		return false
	})
	if second := b.backend(t, "every"); *first.RuntimeID == *second.RuntimeID {
		t.Error("the new server has the old one's runtime id")
	}
}

// TestNoServerOutlivesTheBroker asks after the child of a broker that was told
// to stop.
func TestNoServerOutlivesTheBroker(t *testing.T) {
	need(t)
	b := startBroker(t, map[string]any{"every": child(t, nil)})
	c := overHTTP(t, "/mcp", b.url+"/mcp", b.token)
	if got := textOf(t, c.call("every__get-sum", map[string]any{"a": 2, "b": 40}).Result); !strings.Contains(got, "42") {
		t.Fatal(got)
	}
	pid := *b.backend(t, "every").PID
	b.stop(t)
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("the server %d runs on after the broker", pid)
	}
}
