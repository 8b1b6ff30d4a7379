package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/broker"
	"berth/cmd/internal/brokerproc"
)

// boardResult is a result with all that can hold a banner.
type boardResult struct {
	Content           []struct{ Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

func (r boardResult) banner() string {
	if n := len(r.Content); n > 0 && strings.HasPrefix(r.Content[n-1].Text, "[ARMADA WAKE]") {
		return r.Content[n-1].Text
	}
	return ""
}

// as is a session of a participant.
func (h *house) as(participant string) *wire {
	h.t.Helper()
	w := newWire(h, "board-client")
	w.participant = participant
	return w
}

// tool calls a tool, which has to answer, and reads its answer.
func (w *wire) tool(name string, arguments map[string]any, into any) boardResult {
	w.house.t.Helper()
	raw, err := w.request(w.house.t.Context(), "tools/call", map[string]any{"name": name, "arguments": arguments})
	must(w.house.t, err)
	var r boardResult
	must(w.house.t, json.Unmarshal(raw, &r))
	if into != nil && len(r.Content) > 0 {
		must(w.house.t, json.Unmarshal([]byte(r.Content[0].Text), into))
	}
	return r
}

// room is what a read of the board shows.
type room struct {
	Messages           []struct{ ID, Content string }
	ActiveParticipants []struct{ ParticipantKey string }
	ActiveClaims       []struct{ SubjectID string }
	UnreadWakes        []struct{ ID, Payload string }
}

func (w *wire) board() room {
	var r room
	w.tool("coordination_read", map[string]any{"participantKey": w.participant}, &r)
	return r
}

// unread counts the signals that nobody marked as read.
func unread(t *testing.T, w *wire) int {
	t.Helper()
	var page struct{ TotalRecords int }
	w.tool("enumerate", map[string]any{"entityType": "signals", "unreadOnly": true}, &page)
	return page.TotalRecords
}

// Row 10 and the board's part of what survives kill -9.
func TestTheBoardAndItsBannerSurviveAKill(t *testing.T) {
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"st": h.fixtureEntry(nil)}})
	must(t, h.start())
	sender := h.as("lane-b")
	sender.tool("coordination_post", map[string]any{"content": "to everybody", "authorName": "lane-b"}, nil)
	sender.tool("coordination_post", map[string]any{"content": "for you", "authorName": "lane-b", "toParticipantKey": "lane-a"}, nil)
	sender.tool("coordination_claim", map[string]any{"action": "claim", "subjectType": "vessel", "subjectId": "v1"}, nil)

	h.broker.Kill()
	must(t, h.start())
	sender, reader := h.as("lane-b"), h.as("lane-a")
	got := reader.board()
	if len(got.Messages) != 2 || len(got.ActiveParticipants) != 1 || len(got.ActiveClaims) != 1 || len(got.UnreadWakes) != 1 {
		t.Fatalf("after the kill: %+v", got)
	}
	const banner = "[ARMADA WAKE] 1 note for you is unread. Act on them before you go on; mark each one read with mark_signal_read.\n- [to=lane-a] [from=lane-b] for you"
	for name, arguments := range map[string]map[string]any{"st__add": {"a": 1, "b": 2}, "st__no_such_argument": nil, "job_status": {"jobId": "none"}, "health": {}} {
		raw, err := reader.request(t.Context(), "tools/call", map[string]any{"name": name, "arguments": arguments})
		if name == "st__no_such_argument" {
			if err == nil || strings.Contains(err.Error(), "ARMADA") {
				t.Errorf("an error of the protocol: %v %s", err, raw)
			}
			continue
		}
		must(t, err)
		var r boardResult
		must(t, json.Unmarshal(raw, &r))
		if r.banner() != banner {
			t.Errorf("%s: %s", name, raw)
		}
	}
	if r := sender.tool("health", map[string]any{}, nil); r.banner() != "" {
		t.Errorf("another's banner: %s", r.banner())
	}
	var overview struct{ RecentSignals []struct{ Payload string } }
	sender.tool("status", map[string]any{}, &overview)
	if len(overview.RecentSignals) != 1 || overview.RecentSignals[0].Payload != "[to=lane-a] [from=lane-b] for you" {
		t.Errorf("the overview: %+v", overview)
	}
	if n := unread(t, sender); n != 1 {
		t.Errorf("%d signals are unread", n)
	}
	if r := reader.tool("mark_signal_read", map[string]any{"signalId": got.UnreadWakes[0].ID}, nil); r.banner() != "" || !strings.Contains(r.Content[0].Text, `"marked"`) {
		t.Errorf("%+v", r)
	}
	if n := unread(t, sender); n != 0 {
		t.Errorf("%d signals are unread after it was read", n)
	}
	h.broker.Kill()
	must(t, h.start())
	reader = h.as("lane-a")
	if r := reader.tool("health", map[string]any{}, nil); r.banner() != "" {
		t.Errorf("after it was read, and another kill: %s", r.banner())
	}
	if code, out, errOut := h.berth("journal", "check"); code != 0 {
		t.Errorf("the journal: %s %s", out, errOut)
	}
}

// There is no moment at which a kill leaves a directed note without its wake, or
// a wake without its note.
func TestAKillLeavesNoDirectedNoteWithoutItsWake(t *testing.T) {
	for point, want := range map[string]int{"record:before-commit": 0, "record:after-commit": 1} {
		t.Run(point, func(t *testing.T) {
			h := newHouse(t)
			must(t, h.start("BERTH_FAILPOINT="+point))
			_, err := h.as("lane-b").request(t.Context(), "tools/call", map[string]any{"name": "coordination_post",
				"arguments": map[string]any{"content": "for you", "authorName": "lane-b", "toParticipantKey": "lane-a"}})
			if err == nil {
				t.Error("the note was acknowledged by a broker that was killed")
			}
			h.awaitEnd()
			must(t, h.start())
			got := h.as("lane-a").board()
			if len(got.Messages) != want || len(got.UnreadWakes) != want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// wakeProgram is a process target: it writes down what it got, starts a child
// that stays, and waits.
const wakeProgram = `#!/bin/sh
{ echo "arguments: $*"; env; echo "input:"; cat; } >"$(dirname "$0")/got.tmp"
mv "$(dirname "$0")/got.tmp" "$(dirname "$0")/got"
%s
`

func (h *house) wakeTarget(rest string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, "claude")
	must(h.t, os.WriteFile(path, []byte(strings.Replace(wakeProgram, "%s", rest, 1)), 0o700))
	h.configure(map[string]any{"berth": map[string]any{"drain_timeout": "0s", "agent_wake": map[string]any{
		"participant_key": "admiral", "delivery_mode": "SpawnProcess", "runtime": "Claude", "command": path, "working_directory": h.dir}}})
	return path
}

// events counts the events of a type.
func (h *house) events(eventType string) int {
	return strings.Count(h.get("/api/v1/journal/dump"), `"`+eventType+`"`)
}

func TestAWakeStartsItsProcessWithTheTaskAndWithoutCredentials(t *testing.T) {
	h := newHouse(t)
	h.env = []string{"ANTHROPIC_API_KEY=sk-secret", "SOME_TOKEN=sk-secret"}
	h.wakeTarget("exit 0")
	must(t, h.start())
	content := "do it: \"now\" $(touch x) `id`\nand " + strings.Repeat("more ", 500)
	h.as("lane-b").tool("coordination_post", map[string]any{"content": content, "authorName": "lane-b", "toParticipantKey": "admiral"}, nil)
	eventually(t, "the process has ended", func() bool { return h.events("agentwake.ended") == 1 })
	got, err := os.ReadFile(filepath.Join(h.dir, "got"))
	must(t, err)
	for _, want := range []string{"arguments: -p --continue\n", "BERTH_PARTICIPANT=admiral\n", "\n[to=admiral] [from=lane-b] " + content + "\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("it did not get %q: %s", want, got)
		}
	}
	if strings.Contains(string(got), "sk-secret") {
		t.Errorf("it got a credential: %s", got)
	}
	if h.events("agentwake.started") != 1 || h.events("agentwake.failed") != 0 {
		t.Error("the events are others")
	}
}

// Row 36: the wake is stored before anything is started, and stays whatever
// becomes of that.
func TestAWakeIsStoredEvenWhenItsProcessCannotBeStarted(t *testing.T) {
	h := newHouse(t)
	path := h.wakeTarget("exit 0")
	must(t, os.Remove(path))
	must(t, h.start())
	h.as("lane-b").tool("coordination_post", map[string]any{"content": "x", "authorName": "lane-b", "toParticipantKey": "admiral"}, nil)
	eventually(t, "the start has failed", func() bool { return h.events("agentwake.failed") == 1 })
	if got := h.as("admiral").board(); len(got.UnreadWakes) != 1 || len(got.Messages) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAWakeSaysWhatItsProcessLacks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "wake.sh")
	must(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700))
	for name, tt := range map[string]struct {
		run  broker.WakeRun
		want string
	}{
		"no working directory":           {broker.WakeRun{Command: file, Dir: filepath.Join(dir, "gone")}, "could not be started: its working directory (agent_wake.working_directory) does not exist"},
		"a file for a working directory": {broker.WakeRun{Command: file, Dir: file}, "could not be started: its working directory (agent_wake.working_directory) is no directory"},
		"no program":                     {broker.WakeRun{Command: filepath.Join(dir, "gone.sh"), Dir: dir}, "could not be started: gone.sh was not found or does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&running{}).launchWake(t.Context(), tt.run)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAKilledBrokerLeavesNothingOfWhatAWakeStarted(t *testing.T) {
	h := newHouse(t)
	pids := filepath.Join(h.dir, "pids")
	h.wakeTarget("sleep 1000 & echo $! >" + pids + ".tmp; echo $$ >>" + pids + ".tmp; mv " + pids + ".tmp " + pids + "; wait")
	must(t, h.start())
	h.as("lane-b").tool("coordination_post", map[string]any{"content": "x", "authorName": "lane-b", "toParticipantKey": "admiral"}, nil)
	eventually(t, "the process runs", func() bool { _, err := os.Stat(pids); return err == nil })
	text, err := os.ReadFile(pids)
	must(t, err)
	h.broker.Kill()
	for _, pid := range strings.Fields(string(text)) {
		eventually(t, "the process "+pid+" is gone", func() bool { return !alive(pid) })
	}
}

// TestAWakeThatOutlastsItsLimitIsKilledWithItsChildren: with the end of its time
// the process ends and what it had started, which ignores signals.
func TestAWakeThatOutlastsItsLimitIsKilledWithItsChildren(t *testing.T) {
	dir := t.TempDir()
	script, pids := filepath.Join(dir, "claude"), filepath.Join(dir, "pids")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntrap '' TERM INT HUP\n(trap '' TERM INT HUP; exec sleep 1000) & echo $! >"+pids+".tmp; echo $$ >>"+pids+".tmp; mv "+pids+".tmp "+pids+"; wait\n"), 0o700))
	limit := overdue{t.Context(), make(chan struct{})} // AgentWake's is 600 s
	ended := make(chan error, 1)
	go func() {
		ended <- (&running{}).launchWake(limit, broker.WakeRun{Command: script, Dir: dir, ParticipantKey: "admiral", Input: "go"})
	}()
	eventually(t, "the process runs", func() bool { _, err := os.Stat(pids); return err == nil })
	close(limit.done)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "has not ended in time and was killed") {
		t.Errorf("it ended with %v", err)
	}
	text, err := os.ReadFile(pids)
	must(t, err)
	for _, pid := range strings.Fields(string(text)) {
		if alive(pid) {
			t.Errorf("the process %s is left", pid)
		}
	}
}

// overdue is a context whose time is over when done is closed.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// alive reports whether a process runs and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// The verbs and the operator API are one service.
func TestTheOperatorSeesTheBoardAsTheVerbsDo(t *testing.T) {
	h := newHouse(t)
	must(t, h.start())
	w := h.as("lane-a")
	w.tool("coordination_post", map[string]any{"content": "x", "authorName": "lane-b", "toParticipantKey": "lane-a"}, nil)
	var byVerb, byAPI any
	w.tool("coordination_read", map[string]any{"participantKey": "lane-a", "roomKey": "default"}, &byVerb)
	must(t, h.api("/api/v1/board", url.Values{"participant": {"lane-a"}}, &byAPI))
	verb, _ := json.Marshal(byVerb)
	api, _ := json.Marshal(byAPI)
	if string(verb) != string(api) || !strings.Contains(string(api), `"Content":"x"`) {
		t.Errorf("by the verb\n%s\nby the operator API\n%s", verb, api)
	}
}

func TestTheBridgeTakesPartUnderItsKey(t *testing.T) {
	h := newHouse(t)
	must(t, h.start())
	h.as("lane-b").tool("coordination_post", map[string]any{"content": "x", "authorName": "lane-b", "toParticipantKey": "lane-a"}, nil)
	for _, tt := range []struct {
		name string
		args []string
		env  string
		want bool
	}{
		{"by the flag", []string{"--participant", "lane-a"}, "", true},
		{"by the environment", nil, "BERTH_PARTICIPANT=lane-a", true},
		{"the flag goes first", []string{"--participant", "lane-x"}, "BERTH_PARTICIPANT=lane-a", false},
		{"a wrong one is passed over", nil, "BERTH_PARTICIPANT=lane a", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := h.bridge(tt.args, tt.env, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"health","arguments":{}}}`+"\n")
			if strings.Contains(out, "[ARMADA WAKE] 1 note") != tt.want || !strings.Contains(out, `"result"`) {
				t.Errorf("got %s", out)
			}
		})
	}
	if code, _, errOut := h.berth("stdio", "--participant", "lane a"); code != 2 || !strings.Contains(errOut, "--participant") {
		t.Errorf("a wrong key on the command line: %d %s", code, errOut)
	}
}

// bridge runs `berth stdio` for one message.
func (h *house) bridge(args []string, env, message string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), brokerproc.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.bin.berth, append([]string{"stdio", "--profile", "full", "--state-dir", h.state}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", env)
	cmd.Stdin = strings.NewReader(message)
	out, err := cmd.Output()
	must(h.t, err)
	return string(out)
}
