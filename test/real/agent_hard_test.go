package real

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAnInterruptedCLICancels gives SIGINT in the middle of a call: each CLI
// says so to Berth before it leaves, and the work ends.
func TestAnInterruptedCLICancels(t *testing.T) {
	eachAgent(t, func(t *testing.T, a agent, via string) {
		b := readyBroker(t, map[string]any{})
		spy, at := startTap(t, b.entries(t)[via])
		p, _ := a.start(t, at, nil, a.step("fix__slow", map[string]any{"seconds": 300, "progress": 300}))
		eventually(t, "the call runs", func() bool { return b.backend(t, "fix").InFlight == 1 })
		p.interrupt(t)
		p.over(t, limit)
		var call, cancel string
		for _, m := range spy.heard() {
			switch m.Method {
			case "tools/call":
				call = string(m.ID)
			case "notifications/cancelled":
				cancel = string(m.Params.RequestID)
			}
		}
		if call == "" || call != cancel {
			t.Errorf("the call was %s, the cancel %q", call, cancel)
		}
		eventually(t, "the seat comes back", func() bool { return b.backend(t, "fix").InFlight == 0 })
		if v, id := b.backend(t, "fix"), b.unfinished(t, "fix__slow"); v.Abandoned != 0 || id != "" {
			t.Errorf("the call goes on: %+v, job %s", v, id)
		}
	})
}

// TestACLIThatNobodySitsBeforeIsAsked: both declare elicitation, and answer by
// themselves that nobody will.
func TestACLIThatNobodySitsBeforeIsAsked(t *testing.T) {
	eachAgent(t, func(t *testing.T, a agent, via string) {
		b := readyBroker(t, map[string]any{})
		spy, at := startTap(t, b.entries(t)[via])
		p, m := a.start(t, at, nil, a.step("fix__confirm_delete", map[string]any{"filename": "this.txt"}))
		p.over(t, 2*limit)
		_, results := m.heard(t)
		if len(results) != 1 || !strings.Contains(told(t, results[0]), "kept this.txt") {
			t.Errorf("the model was told %s", results)
		}
		action := ""
		for _, m := range spy.heard() {
			if m.Method == "" {
				action = m.Result.Action
			}
		}
		if action != a.action {
			t.Errorf("the answer was %q, want %q", action, a.action)
		}
	})
}

// TestAResultOf32MiB looks at what becomes of an answer that most ways into a
// CLI do not take, where it is not cut: their limit is 16 MiB. Berth knows that of them and refuses it
// in words, and every CLI goes on. Told that they take more, it delivers.
func TestAResultOf32MiB(t *testing.T) {
	const size = 32 << 20
	seen := map[string]struct {
		told  string // what the model reads
		calls int    // how often the CLI made the call
		said  string // on standard error, by one that waits for ever
	}{
		"claude http":  {told: `session expired`, calls: 2},
		"claude stdio": {told: `Connection closed`, calls: 1},
		"codex http":   {told: `truncated`, calls: 1},
		"codex stdio":  {said: `exceeded the maximum line length`, calls: 1},
	}
	more := map[string]any{"max_answer": "64MiB"}
	for name, rules := range map[string]map[string]any{"refused": {}, "delivered": {"claude-code": more, "codex-mcp-client": more}} {
		t.Run(name, func(t *testing.T) {
			eachAgent(t, func(t *testing.T, a agent, via string) {
				want := seen[a.name+" "+via]
				if name == "refused" {
					want.told, want.calls, want.said = "answer_too_large", 1, ""
				}
				b := ready(t, startConfigured(t, map[string]any{"mcpServers": map[string]any{"fix": fixture(t, whole())}, "berth": map[string]any{"clients": rules}}))
				spy, at := startTap(t, b.entries(t)[via])
				var mu sync.Mutex
				bodies := map[int]string{}
				p, _ := a.start(t, at, func(results int, body []byte) {
					mu.Lock()
					defer mu.Unlock()
					bodies[results] = string(body)
				}, a.step("fix__big", map[string]any{"bytes": size}), a.step("fix__echo", map[string]any{"message": "after"}))
				if want.said != "" {
					p.saw(t, want.said)
					p.interrupt(t)
				}
				p.over(t, 2*limit)
				calls := 0
				for _, m := range spy.heard() {
					if m.Params.Name == "fix__big" {
						calls++
					}
				}
				if calls != want.calls {
					t.Errorf("the call was made %d times, want %d", calls, want.calls)
				}
				mu.Lock()
				defer mu.Unlock()
				if want.said == "" && (!strings.Contains(bodies[1], want.told) || !strings.Contains(bodies[2], "after")) {
					t.Errorf("the model was told %.3000s", bodies[2])
				}
				if v := b.backend(t, "fix"); v.State != "ready" || v.InFlight != 0 {
					t.Errorf("Berth is left with %+v", v)
				}
			})
		})
	}
}

// TestACLIGoesOnOverARestartOfBerth kills Berth twice in one session: a job that
// had ended is found with its result, one that ran is Lost and said to be.
func TestACLIGoesOnOverARestartOfBerth(t *testing.T) {
	eachAgent(t, func(t *testing.T, a agent, via string) {
		b := readyBroker(t, map[string]any{"long": []string{"slow_compute"}})
		asked, done := make(chan struct{}), make(chan struct{})
		var once [8]sync.Once
		p, m := a.start(t, b.entries(t)[via], func(results int, _ []byte) {
			if results != 3 && results != 5 {
				return
			}
			once[results].Do(func() {
				select {
				case asked <- struct{}{}:
				case <-t.Context().Done():
				}
				select {
				case <-done:
				case <-t.Context().Done():
				}
			})
		},
			a.step("fix__slow_compute", map[string]any{"seconds": 0.1, "label": "early"}),
			a.step("job_status", map[string]any{"jobId": theJob, "waitSeconds": 30}),
			a.step("job_status", map[string]any{"jobId": theJob, "waitSeconds": 30}),
			a.step("job_status", map[string]any{"jobId": theJob}),
			a.step("fix__slow_compute", map[string]any{"seconds": 300, "label": "late"}),
			a.step("job_status", map[string]any{"jobId": theJob}),
			a.step("fix__echo", map[string]any{"message": "after"}))
		for range 2 {
			select {
			case <-asked:
				b.restart(t)
				done <- struct{}{}
			case <-p.ended:
				t.Fatal("the CLI ended before its time")
			case <-time.After(2 * limit):
				t.Fatal("the CLI does not come so far")
			}
		}
		p.over(t, 2*limit)
		_, results := m.heard(t)
		if len(results) != 7 {
			t.Fatalf("the CLI gave %d results back: %s", len(results), results)
		}
		if r := record(t, told(t, results[3])); r.Status != "Succeeded" || textOf(t, r.Result) != "computed early in 0.1 s" {
			t.Errorf("after the first restart the job is %+v", r)
		}
		first, lost := record(t, told(t, results[4])), record(t, told(t, results[5]))
		if lost.JobID != first.JobID || lost.Status != "Lost" || lost.Reason != "job_lost_on_restart" {
			t.Errorf("after the second restart the job %s is %+v", first.JobID, lost)
		}
		if got := told(t, results[6]); !regexp.MustCompile(`"message": ?"after"`).MatchString(got) {
			t.Errorf("after that, a call gave %s", got)
		}
	})
}

// TestASlowCallPastTheLimitsOfACLI takes minutes and is run with
// BERTH_REAL_LONG set: a silent call of 100 s is answered (Claude Code gives one
// up over HTTP that shows no sign of life for 60 s), a longer one becomes a job
// in time, and the CLI follows it.
func TestASlowCallPastTheLimitsOfACLI(t *testing.T) {
	need(t)
	if os.Getenv("BERTH_REAL_LONG") == "" {
		t.Skip("takes six minutes: set BERTH_REAL_LONG")
	}
	promoted := map[string]float64{"claude": 220, "codex": 140}
	type session struct {
		*process
		*model
	}
	started := map[string]session{}
	for _, a := range agents {
		for _, via := range []string{"http", "stdio"} {
			b := readyBroker(t, map[string]any{})
			p, m := a.start(t, b.entries(t)[via], nil,
				a.step("fix__slow", map[string]any{"seconds": 100}),
				a.step("fix__slow", map[string]any{"seconds": promoted[a.name] + 20}),
				a.step("job_status", map[string]any{"jobId": theJob, "waitSeconds": 50}))
			started[a.name+" "+via] = session{p, m}
		}
	}
	eachAgent(t, func(t *testing.T, a agent, via string) {
		s := started[a.name+" "+via]
		s.over(t, 8*limit)
		_, results := s.heard(t)
		if len(results) != 3 {
			t.Fatalf("the CLI gave %d results back: %s", len(results), results)
		}
		if got := told(t, results[0]); !strings.Contains(got, "waited 100 s") {
			t.Errorf("the call of 100 s gave %s", got)
		}
		handle, end := record(t, told(t, results[1])), record(t, told(t, results[2]))
		if handle.Status != "Running" || end.JobID != handle.JobID || end.Status != "Succeeded" {
			t.Errorf("the longer one gave %+v, then %+v", handle, end)
		}
	})
}
