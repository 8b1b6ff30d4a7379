//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect gives a client of the server, in this process.
func connect(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	server, err := newServer("").Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		_ = server.Wait()
	})
	return session
}

func callTool(t *testing.T, s *mcp.ClientSession, name string, arguments any) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func textOf(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestEveryToolSaysWhatItDoes(t *testing.T) {
	s := connect(t, nil)
	want := map[string]bool{"add": true, "append": false, "big": true, "crash": false, "echo": true, "fail": true,
		"hang": false, "slow": true, "spawn": false, "structured": true, "work": false,
		"greet": true, "slow_compute": true, "failing_job": true, "protocol_error_job": true, "confirm_delete": false, "multi_input": false, "test_tool_with_task": false}
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		readOnly, known := want[tool.Name]
		if !known || tool.Annotations == nil || tool.Annotations.ReadOnlyHint != readOnly {
			t.Errorf("%s: %+v", tool.Name, tool.Annotations)
		}
		if (tool.OutputSchema != nil) != (tool.Name == "structured") {
			t.Errorf("%s has the output schema %v", tool.Name, tool.OutputSchema)
		}
		delete(want, tool.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestToolsAnswer(t *testing.T) {
	s := connect(t, nil)
	for _, c := range []struct {
		tool      string
		arguments any
		want      string
		isError   bool
	}{
		{"echo", json.RawMessage(`{"z":1.10,"a":12345678901234567890}`), `{"z":1.10,"a":12345678901234567890}`, false},
		{"add", map[string]any{"a": 40, "b": 2}, "42", false},
		{"big", map[string]any{"bytes": 5}, "xxxxx", false},
		{"big", map[string]any{"bytes": -1}, "bytes must be 0 to 67108864", true},
		{"fail", map[string]any{"message": "as asked"}, "as asked", true},
		{"slow", map[string]any{"seconds": 0.001}, "waited 0.001 s", false},
		{"slow", map[string]any{"seconds": -1}, "seconds must be 0 to 3600", true},
		{"hang", map[string]any{"seconds": 0.001}, "hung 0.001 s", false},
		{"append", map[string]any{"file": "x", "line": "two\nlines"}, "a file and one line of at most 4096 bytes are needed", true},
	} {
		if r := callTool(t, s, c.tool, c.arguments); textOf(r) != c.want || r.IsError != c.isError {
			t.Errorf("%s %v: %q, error %v", c.tool, c.arguments, textOf(r), r.IsError)
		}
	}
	structured, err := json.Marshal(callTool(t, s, "structured", map[string]any{"text": "a bc"}).StructuredContent)
	if err != nil || string(structured) != `{"bytes":4,"words":2}` {
		t.Errorf("%s, %v", structured, err)
	}
}

func TestAppendWritesOneLineACall(t *testing.T) {
	s := connect(t, nil)
	file := filepath.Join(t.TempDir(), "lines")
	for _, line := range []string{"a", "b"} {
		callTool(t, s, "append", map[string]any{"file": file, "line": line})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "a\nb\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSlowTellsItsProgressAndStopsWhenCancelled(t *testing.T) {
	told := make(chan float64, 1000)
	s := connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		told <- r.Params.Progress
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"seconds": 100, "progress": 9999}}
	params.SetProgressToken("token")
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, params)
		done <- err
	}()
	for want := 1.0; want <= 3; want++ {
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("progress %v, want %v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("no progress")
		}
	}
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a cancelled call was answered")
		}
	case <-time.After(time.Minute):
		t.Fatal("a cancelled call goes on")
	}
}

func TestCommandLinesThatAreWrongAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"stdio", "extra"}, {"stdio", "--listen", "x"}, {"http", "--nonsense"}} {
		var out, errOut strings.Builder
		if code := run(args, &out, &errOut); code != 2 || errOut.Len() == 0 {
			t.Errorf("%q: exit %d, %s", args, code, errOut.String())
		}
	}
}
