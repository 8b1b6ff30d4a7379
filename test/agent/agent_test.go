//go:build unix

package agent

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func play(t *testing.T, in string, name string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(name, args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// TestEachProgramTakesWhatTheBrokerGivesIt runs each with the arguments that
// berth/broker/dispatch/runtime makes, and reads its stream with it.
func TestEachProgramTakesWhatTheBrokerGivesIt(t *testing.T) {
	word := func(s string) *string { return &s }
	for r := range map[dispatch.Runtime]bool{dispatch.ClaudeCode: true, dispatch.Codex: true, dispatch.Gemini: true, dispatch.Cursor: true, dispatch.OpenCode: true} {
		for _, full := range []bool{false, true} {
			m := runtime.Mission{Captain: dispatch.Captain{Runtime: r}, Prompt: "Do it.\n@say [BERTH:PROGRESS] 7\n@say it's \"done\"\n@marker RESULT COMPLETE", Worktree: "/w", Scratch: t.TempDir(), ID: "msn_1"}
			if full {
				m.Captain.Model, m.Captain.ReasoningEffort, m.MCP, m.Unattended = word("big"), word("high"), "http://127.0.0.1:1/mcp", true
			}
			plan, refusal := runtime.For(m)
			if refusal != nil {
				t.Fatal(refusal)
			}
			code, out, errOut := play(t, plan.Stdin, "/x/"+plan.Argv[0], plan.Argv[1:]...)
			if code != 0 {
				t.Fatalf("%s ended with %d: %s", r, code, errOut)
			}
			s := runtime.Stream{Runtime: r}
			for line := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
				s.Line(line)
			}
			s.End()
			if r != dispatch.Gemini && (s.Progress == nil || *s.Progress != 7 || s.Result != runtime.ResultComplete) {
				t.Errorf("%s: progress %v, result %q in %s", r, s.Progress, s.Result, out)
			}
			if plan.LastMessage != "" {
				if raw, err := os.ReadFile(plan.LastMessage); err != nil || string(raw) != "[BERTH:RESULT] COMPLETE" {
					t.Errorf("%s: last message %q, %v", r, raw, err)
				}
			}
		}
	}
}

func TestArgumentsThatAreNotOfTheTableAreRefused(t *testing.T) {
	claude := []string{"--print", "--verbose", "--output-format", "stream-json", "--strict-mcp-config"}
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"claude", append(claude[:5:5], "--resume", "x")}, {"claude", append(claude[:5:5], "one", "two")}, {"claude", claude[1:]},
		{"claude", []string{"--print", "--verbose", "--output-format", "text", "--strict-mcp-config"}}, {"claude", append(claude[:5:5], "--model")},
		{"codex", []string{"--json"}}, {"codex", []string{"exec", "--json", "--sandbox", "workspace-write", "--dangerously-bypass-approvals-and-sandbox", "--output-last-message", "x", "p"}},
		{"gemini", []string{"--approval-mode", "yolo", "--output-format", "stream-json"}}, {"cursor-agent", []string{"--print", "--force", "--trust", "--output-format", "stream-json", "prompt"}},
		{"opencode", []string{"run"}}, {"nobody", nil},
	} {
		if code, _, errOut := play(t, "", tt.name, tt.args...); code != exitArguments || errOut == "" {
			t.Errorf("%s %v: ended with %d, %q", tt.name, tt.args, code, errOut)
		}
	}
}

func TestADirectiveThatFailsEndsTheProgram(t *testing.T) {
	for prompt, want := range map[string]int{"@exit 3\n@say never": 3, "@exit x": exitDirective, "@mcp status {}": exitDirective, "an @exit 3 elsewhere": 0, "@unknown word": 0} {
		t.Setenv("BERTH_MCP_URL", "")
		if code, out, _ := play(t, prompt, "plain"); code != want || strings.Contains(out, "never") {
			t.Errorf("%q: ended with %d, %q", prompt, code, out)
		}
	}
}
