package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/dispatch"
)

func text(s string) *string { return &s }

func mission(r dispatch.Runtime, change ...func(*Mission)) Mission {
	m := Mission{Captain: dispatch.Captain{Runtime: r}, Prompt: "do it", Worktree: "/w", Scratch: "/s", ID: "msn_1"}
	for _, f := range change {
		f(&m)
	}
	return m
}

func all(m *Mission) {
	m.Captain.Model, m.Captain.ReasoningEffort, m.MCP, m.Unattended = text("big"), text("high"), "http://127.0.0.1:1/mcp", true
}

// TestArgumentVectorsAreThoseOfTheTable writes the table of contracts/native.md
// section 4 out once more.
func TestArgumentVectorsAreThoseOfTheTable(t *testing.T) {
	for _, tt := range []struct {
		runtime    dispatch.Runtime
		bare, full []string
		stdin      string
	}{
		{dispatch.ClaudeCode, []string{"claude", "--print", "--verbose", "--output-format", "stream-json", "--strict-mcp-config", "do it"},
			[]string{"claude", "--print", "--verbose", "--output-format", "stream-json", "--strict-mcp-config", "--mcp-config", "/s/mcp.json", "--model", "big", "--dangerously-skip-permissions", "do it"}, ""},
		{dispatch.Codex, []string{"codex", "exec", "--json", "--sandbox", "workspace-write", "--output-last-message", "/s/last-message.txt", "do it"},
			[]string{"codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--model", "big", "-c", "model_reasoning_effort=high", "-c", `mcp_servers.berth.url="http://127.0.0.1:1/mcp"`,
				"-c", `mcp_servers.berth.bearer_token_env_var="ARMADA_MCP_TOKEN"`, "--output-last-message", "/s/last-message.txt", "do it"}, ""},
		{dispatch.Gemini, []string{"gemini", "--approval-mode", "auto_edit", "--output-format", "stream-json", "-p", "do it"},
			[]string{"gemini", "--model", "big", "--approval-mode", "yolo", "--output-format", "stream-json", "-p", "do it"}, ""},
		{dispatch.Cursor, []string{"cursor-agent", "--print", "--force", "--trust", "--output-format", "stream-json"},
			[]string{"cursor-agent", "--print", "--model", "big", "--force", "--trust", "--output-format", "stream-json"}, "do it"},
		{dispatch.OpenCode, []string{"opencode", "run", "--format", "json"}, []string{"opencode", "run", "-m", "big", "--format", "json", "--variant", "high"}, "do it"},
	} {
		t.Run(string(tt.runtime), func(t *testing.T) {
			bare, r1 := For(mission(tt.runtime))
			full, r2 := For(mission(tt.runtime, all))
			if r1 != nil || r2 != nil || !slices.Equal(bare.Argv, tt.bare) || !slices.Equal(full.Argv, tt.full) || bare.Stdin != tt.stdin || full.Stdin != tt.stdin {
				t.Errorf("got %q and %q, standard input %q; %v %v", bare.Argv, full.Argv, bare.Stdin, r1, r2)
			}
			if len(bare.Files) != 0 || len(bare.Env) != 0 {
				t.Errorf("without an endpoint it gets %+v and %v", bare.Files, bare.Env)
			}
		})
	}
}

// TestAPromptIsNotTakenForAnotherConfiguration: without a flag after it,
// --mcp-config of Claude Code takes the words that follow, too.
func TestAPromptIsNotTakenForAnotherConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Mission)
		stdin  bool
	}{
		"neither a model nor unattended": {func(m *Mission) { m.MCP = "http://127.0.0.1:1/mcp" }, true},
		"with a model":                   {func(m *Mission) { m.MCP, m.Captain.Model = "http://127.0.0.1:1/mcp", text("big") }, false},
		"unattended":                     {func(m *Mission) { m.MCP, m.Unattended = "http://127.0.0.1:1/mcp", true }, false},
		"without a configuration":        {func(*Mission) {}, false},
	} {
		plan, refusal := For(mission(dispatch.ClaudeCode, tt.change))
		if last := plan.Argv[len(plan.Argv)-1]; refusal != nil || (plan.Stdin == "do it") != tt.stdin || (last == "do it") == tt.stdin {
			t.Errorf("%s: %q, standard input %q, %v", name, plan.Argv, plan.Stdin, refusal)
		}
	}
}

func TestConfigurationsNameTheVariableOnly(t *testing.T) {
	for runtime, want := range map[dispatch.Runtime]string{
		dispatch.ClaudeCode: "Bearer ${ARMADA_MCP_TOKEN}", dispatch.Gemini: "Bearer ${ARMADA_MCP_TOKEN}",
		dispatch.Cursor: "Bearer ${env:ARMADA_MCP_TOKEN}", dispatch.OpenCode: "Bearer {env:ARMADA_MCP_TOKEN}",
	} {
		plan, _ := For(mission(runtime, all))
		if len(plan.Files) != 1 {
			t.Fatalf("%s: %+v", runtime, plan.Files)
		}
		f := plan.Files[0]
		if !json.Valid([]byte(f.Content)) || !strings.Contains(f.Content, want) || !strings.Contains(f.Content, "http://127.0.0.1:1/mcp") {
			t.Errorf("%s: %s", runtime, f.Content)
		}
		if inside := strings.HasPrefix(f.Path, "/w/"); inside != f.Hidden {
			t.Errorf("%s: %s is hidden: %v", runtime, f.Path, f.Hidden)
		}
	}
}

func TestAnAddressOfTheProviderIsToldWhereAVariableIsNotEnough(t *testing.T) {
	own := func(model string) func(*Mission) {
		return func(m *Mission) { m.Captain.APIBaseURL, m.Captain.Model = text("https://h/x"), &model }
	}
	for _, tt := range []struct {
		runtime     dispatch.Runtime
		model, want string
	}{
		{dispatch.OpenCode, "anthropic/big", `{"provider":{"anthropic":{"options":{"baseURL":"https://h/x"}}}}`}, {dispatch.OpenCode, "big", ""}, {dispatch.OpenCode, "", ""},
		{dispatch.Gemini, "big", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`}, {dispatch.ClaudeCode, "big", ""}, {dispatch.Codex, "big", ""}, {dispatch.Cursor, "big", ""},
	} {
		plan, refusal := For(mission(tt.runtime, own(tt.model)))
		got := ""
		if len(plan.Files) > 0 {
			var config bytes.Buffer
			if err := json.Compact(&config, []byte(plan.Files[0].Content)); err != nil || len(plan.Env) == 0 {
				t.Errorf("%s: %v, %v", tt.runtime, err, plan.Env)
			}
			got = config.String()
		}
		if refusal != nil || got != tt.want {
			t.Errorf("%s of %q: %s, %v", tt.runtime, tt.model, got, refusal)
		}
	}
}

func TestGeminiIsToldToTrustWhereNobodyIsAsked(t *testing.T) {
	for unattended, want := range map[bool]bool{true: true, false: false} {
		plan, _ := For(mission(dispatch.Gemini, func(m *Mission) { m.Unattended = unattended }))
		if got := slices.Contains(plan.Env, "GEMINI_CLI_TRUST_WORKSPACE=true"); got != want {
			t.Errorf("unattended %v: %v", unattended, plan.Env)
		}
	}
}

func TestLongPromptsArriveWholeOrAreRefused(t *testing.T) {
	for _, size := range []int{maxArgument, maxArgument + 1, 200 << 10} {
		prompt := strings.Repeat("'\"\n$é", size)[:size]
		for _, r := range []dispatch.Runtime{dispatch.ClaudeCode, dispatch.Codex, dispatch.Gemini, dispatch.Cursor, dispatch.OpenCode} {
			plan, refusal := For(mission(r, func(m *Mission) { m.Prompt = prompt }))
			if r == dispatch.Gemini && size > maxArgument {
				if refusal == nil || refusal.Code != broker.CodePromptTooLarge {
					t.Errorf("%s, %d: %v", r, size, refusal)
				}
				continue
			}
			if last := plan.Argv[len(plan.Argv)-1]; refusal != nil || last != prompt && plan.Stdin != prompt || last == prompt && plan.Stdin != "" {
				t.Errorf("%s, %d: %v", r, size, refusal)
			}
			if slices.ContainsFunc(plan.Argv, func(a string) bool { return len(a) > maxArgument }) {
				t.Errorf("%s, %d: an argument is too long", r, size)
			}
		}
	}
}

func TestACustomCommandIsFilledIn(t *testing.T) {
	with := func(delivery string, command ...string) Mission {
		return mission(dispatch.Custom, func(m *Mission) {
			m.Prompt, m.Captain.CustomCommand, m.Captain.PromptDelivery, m.Captain.Model = "say {model}", command, delivery, text("big")
		})
	}
	for _, tt := range []struct {
		m     Mission
		argv  string
		stdin string
		file  string
	}{
		{with("", "/bin/agent", "-m", "{model}", "{worktree}:{missionId}"), "/bin/agent|-m|big|/w:msn_1", "say {model}", ""},
		{with(ByStdin, "/bin/agent", "{prompt}"), "/bin/agent", "say {model}", ""},
		{with(ByArgument, "/bin/agent", "--", "{prompt}"), "/bin/agent|--|say {model}", "", ""},
		{with(ByFile, "/bin/agent", "@{promptFile}"), "/bin/agent|@/s/prompt.txt", "", "say {model}"},
	} {
		plan, refusal := For(tt.m)
		file := ""
		if len(plan.Files) > 0 {
			file = plan.Files[0].Content
		}
		if got := strings.Join(plan.Argv, "|"); refusal != nil || got != tt.argv || plan.Stdin != tt.stdin || file != tt.file {
			t.Errorf("got %q, standard input %q, file %q, %v", got, plan.Stdin, file, refusal)
		}
	}
	if _, refusal := For(with(ByArgument, "/bin/agent", "{prompt}")); refusal != nil {
		t.Error(refusal)
	}
	long := with(ByArgument, "/bin/agent", "{prompt}")
	long.Prompt = strings.Repeat("x", maxArgument+1)
	if _, refusal := For(long); refusal == nil || refusal.Code != broker.CodePromptTooLarge {
		t.Errorf("got %v", refusal)
	}
	if _, refusal := For(mission("Mux")); refusal == nil || refusal.Code != broker.CodeRuntimeUnsupported {
		t.Errorf("got %v", refusal)
	}
}

func TestStreamsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name             string
		runtime          dispatch.Runtime
		lines            string
		message, log     string
		status           string
		progress         int
		result, verdict_ string
	}{
		{"messages", dispatch.ClaudeCode, `{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"Looking.\n[BERTH:PROGRESS] 40"},{"type":"tool_use","name":"Bash"}]}}
{"type":"user","message":{"content":[{"type":"tool_result","content":"[BERTH:RESULT] REFUSED"}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"[BERTH:STATUS] done soon"}]}}
{"type":"result","result":"All done.\n[BERTH:RESULT] COMPLETE"}`,
			"All done.\n[BERTH:RESULT] COMPLETE", "Looking.\n[BERTH:PROGRESS] 40|[BERTH:STATUS] done soon|All done.\n[BERTH:RESULT] COMPLETE", "done soon", 40, "COMPLETE", ""},
		{"items", dispatch.Codex, `{"type":"thread.started","thread_id":"x"}
{"type":"item.completed","item":{"type":"command_execution","text":"[BERTH:RESULT] REFUSED"}}
{"type":"item.completed","item":{"type":"agent_message","text":"[ARMADA:VERDICT] NEEDS_REVISION"}}`,
			"[ARMADA:VERDICT] NEEDS_REVISION", "[ARMADA:VERDICT] NEEDS_REVISION", "", -1, "", "NEEDS_REVISION"},
		{"pieces", dispatch.Gemini, `{"type":"message","role":"user","content":"[BERTH:RESULT] REFUSED"}
{"type":"message","role":"assistant","content":"one [BERTH:PRO","delta":true}
{"type":"message","role":"assistant","content":"GRESS] 1\n[BERTH:PRO","delta":true}
{"type":"message","role":"assistant","content":"GRESS] 2","delta":true}
{"type":"tool_use","tool_name":"x"}
{"type":"message","role":"assistant","content":"two","delta":true}`,
			"one [BERTH:PROGRESS] 1\n[BERTH:PROGRESS] 2two", "one [BERTH:PRO|GRESS] 1\n[BERTH:PRO|GRESS] 2|two", "", 2, "", ""},
		{"parts", dispatch.OpenCode, `{"type":"step_start","part":{}}
{"type":"text","part":{"text":"hello"}}`, "hello", "hello", "", -1, "", ""},
		{"plain lines", dispatch.Custom, "one\n[BERTH:STATUS] two\n  [BERTH:RESULT] COMPLETE  \nnot alone: [BERTH:RESULT] REFUSED\n[BERTH:PROGRESS] 101\n[BERTH:VERDICT] MAYBE",
			"one\n[BERTH:STATUS] two\n  [BERTH:RESULT] COMPLETE  \nnot alone: [BERTH:RESULT] REFUSED\n[BERTH:PROGRESS] 101\n[BERTH:VERDICT] MAYBE",
			"one|[BERTH:STATUS] two|  [BERTH:RESULT] COMPLETE  |not alone: [BERTH:RESULT] REFUSED|[BERTH:PROGRESS] 101|[BERTH:VERDICT] MAYBE", "two", -1, "COMPLETE", ""},
		{"what is no event of the stream", dispatch.ClaudeCode, "Error: no key\n{\"broken\n{\"a\":1}", "Error: no key\n{\"broken\n{\"a\":1}", "Error: no key|{\"broken|{\"a\":1}", "", -1, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Stream{Runtime: tt.runtime}
			var log []string
			for _, line := range strings.Split(tt.lines, "\n") {
				if text := s.Line(line); text != "" {
					log = append(log, text)
				}
			}
			s.End()
			progress := -1
			if s.Progress != nil {
				progress = *s.Progress
			}
			got := fmt.Sprint(s.Message(), "/", s.Status, "/", progress, "/", s.Result, "/", s.Verdict)
			if want := fmt.Sprint(tt.message, "/", tt.status, "/", tt.progress, "/", tt.result, "/", tt.verdict_); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if got := strings.Join(log, "|"); got != tt.log {
				t.Errorf("logged %q", got)
			}
		})
	}
}

func TestAMarkerAtTheEndOfPiecesCounts(t *testing.T) {
	s := Stream{Runtime: dispatch.Gemini}
	s.Line(`{"type":"message","role":"assistant","content":"[BERTH:RESULT] COMP","delta":true}`)
	s.Line(`{"type":"message","role":"assistant","content":"LETE","delta":true}`)
	s.End()
	if s.Result != ResultComplete {
		t.Errorf("got %q", s.Result)
	}
}

func TestAGigabyteOfOutputKeepsItsEnd(t *testing.T) {
	s := Stream{Runtime: dispatch.Custom}
	line := strings.Repeat("x", 64<<10)
	for range 200 {
		s.Line(line)
		if len(s.message) > 3*maxMessage {
			t.Fatalf("%d bytes are kept", len(s.message))
		}
	}
	s.Line("the end")
	s.End()
	if len(s.Message()) > maxMessage || !strings.HasSuffix(s.Message(), "the end") {
		t.Errorf("%d bytes are kept", len(s.Message()))
	}
}

func FuzzStream(f *testing.F) {
	f.Add("Gemini", `{"type":"message","role":"assistant","content":"x","delta":true}`)
	f.Add("ClaudeCode", `{"type":"result","result":"[BERTH:PROGRESS] 7"}`)
	f.Add("Custom", "[BERTH:STATUS] \xff")
	f.Fuzz(func(t *testing.T, runtime, lines string) {
		s := Stream{Runtime: dispatch.Runtime(runtime)}
		for _, line := range strings.Split(lines, "\n") {
			s.Line(line)
		}
		s.End()
		if s.Progress != nil && (*s.Progress < 0 || *s.Progress > 100) || len(s.Status) > maxStatus || len(s.Message()) > maxMessage {
			t.Errorf("%+v", s)
		}
	})
}
