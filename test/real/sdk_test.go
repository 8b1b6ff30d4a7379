package real

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestAStrictClientTakesHandlesOfStructuredVerbs: the TypeScript SDK throws
// away a result that does not fit the outputSchema that it was shown, and a
// job's handle never fits a backend's.
func TestAStrictClientTakesHandlesOfStructuredVerbs(t *testing.T) {
	need(t)
	const verb, want = "get-structured-content", `"temperature":36`
	b := startBroker(t, map[string]any{
		"quick": child(t, nil),
		"every": child(t, map[string]any{"long": []string{verb}}),
	})
	weather := map[string]any{"location": "Chicago"}
	// Twice: the wait ends at any change of the status, the start among them.
	follow := []any{"job_status", map[string]any{"jobId": theJob, "waitSeconds": 30}}
	for _, tt := range []struct {
		path  string
		calls []any
	}{
		{"/mcp", []any{[]any{"quick__" + verb, weather}, []any{"every__" + verb, weather}, follow, follow}},
		{"/mcp/every", []any{[]any{"get-sum", map[string]any{"a": 1, "b": 2}}, []any{verb, weather}, follow, follow}},
		{"/mcp/quick", []any{[]any{verb, weather}}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			out, err := run(t, b.home, append(environment(b.home), "EVERYTHING="+everythingPath(t), "URL="+b.url+tt.path, "TOKEN="+b.token,
				"CALLS="+mustJSON(t, tt.calls)), []string{"node", filepath.Join(root(t), "test", "real", "sdk.mjs")})
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != len(tt.calls) {
				t.Fatalf("%d answers to %d calls: %s", len(lines), len(tt.calls), out)
			}
			for _, line := range lines {
				if strings.Contains(line, `"thrown"`) {
					t.Errorf("the client threw an answer away: %s", line)
				}
			}
			if tt.path == "/mcp/quick" {
				if !strings.Contains(lines[0], want) {
					t.Errorf("the call gave %s", lines[0])
				}
				return
			}
			var handle, done struct{ Result json.RawMessage }
			unmarshal(t, lines[1], &handle)
			unmarshal(t, lines[3], &done)
			if r := record(t, textOf(t, handle.Result)); r.Operation != "every__"+verb || r.Status != "Accepted" {
				t.Errorf("the handle is %s", handle.Result)
			}
			if r := record(t, textOf(t, done.Result)); r.Status != "Succeeded" || !strings.Contains(string(r.Result), want) {
				t.Errorf("the job ended as %s", done.Result)
			}
		})
	}
}
