package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/broker/dispatch"
	"berth/cmd/internal/brokerproc"
)

// The crash suite of dispatch kills a broker that carries out a voyage: at each
// write of a record in turn, from the vessel's to the last of a landing, and
// while an agent works. The next broker must make of it what the contract says,
// and run nothing twice.

// crashAgent commits a file of its own for each mission and notes that it began.
// With a file hold in its place it never ends.
const crashAgent = `#!/bin/sh
set -e
echo "$BERTH_MISSION_ID" >> "$1/starts"
cat > /dev/null
if [ -e "$1/hold" ]; then sleep 600; fi
echo work > "$BERTH_MISSION_ID.txt"
git add . && git commit -qm "$BERTH_MISSION_ID"
echo "[BERTH:RESULT] COMPLETE"
`

// dispatchWrites is how many writes of records one life makes at least, from an
// empty journal to the end of a voyage of three missions.
const dispatchWrites = 24

func TestCrashDispatchRunsNothingTwice(t *testing.T) {
	rounds := 10
	if text := os.Getenv("BERTH_CRASH_ROUNDS"); text != "" {
		rounds = 2*dispatchWrites + 2
	}
	for n := range rounds {
		d := &dispatchRound{n: n}
		switch {
		case n%5 == 4:
			d.name = "while an agent works"
		case n%2 == 0:
			d.point, d.nth = "record:before-commit", 1+(n*dispatchWrites/rounds)%dispatchWrites
			d.name = fmt.Sprintf("before write %d", d.nth)
		default:
			d.point, d.nth = "record:after-commit", 1+(n*dispatchWrites/rounds)%dispatchWrites
			d.name = fmt.Sprintf("after write %d", d.nth)
		}
		t.Run(fmt.Sprintf("%03d %s", n, d.name), func(t *testing.T) {
			t.Parallel()
			d.house = newHouse(t)
			d.play()
		})
	}
}

// dispatchRound is one round.
type dispatchRound struct {
	*house
	n           int
	name, point string
	nth         int
	repo, agent string
	wire        *wire // of the first life
}

func (d *dispatchRound) play() {
	d.prepare()
	env := []string{"BERTH_FAILPOINT=none"}
	if d.point != "" {
		env = []string{"BERTH_FAILPOINT=" + d.point, "BERTH_FAILPOINT_NTH=" + strconv.Itoa(d.nth)}
	} else {
		must(d.t, os.WriteFile(filepath.Join(d.dir, "hold"), nil, 0o600))
	}
	must(d.t, d.start(env...))
	d.wire = newWire(d.house, "dispatcher")
	d.dispatch(d.wire)
	switch {
	case d.point == "":
		d.await("an agent works", func() bool { return len(d.starts()) > 0 })
		must(d.t, os.Remove(filepath.Join(d.dir, "hold")))
	default:
		d.await("the broker is dead, or has nothing left to write", func() bool { return d.dead() || d.quiet() })
	}
	d.broker.Kill()
	d.awaitNobody()
	d.check()
}

// prepare makes the repository and the agent.
func (d *dispatchRound) prepare() {
	d.configure(map[string]any{"berth": map[string]any{"drain_timeout": "0s"}})
	d.repo, d.agent = filepath.Join(d.dir, "repo"), filepath.Join(d.dir, "agent.sh")
	must(d.t, os.Mkdir(d.repo, 0o700))
	d.git("init", "-q", "-b", "main")
	d.git("commit", "-q", "--allow-empty", "-m", "begin")
	must(d.t, os.WriteFile(d.agent, []byte(crashAgent), 0o700))
}

func (d *dispatchRound) git(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "git", append([]string{"-C", d.repo, "-c", "user.name=Test", "-c", "user.email=test@localhost"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// try calls a verb of a broker that may die meanwhile.
func (d *dispatchRound) try(w *wire, verb string, arguments, into any) bool {
	raw, err := w.request(d.t.Context(), "tools/call", map[string]any{"name": verb, "arguments": arguments})
	if err != nil {
		return false
	}
	var result struct {
		IsError           bool
		StructuredContent json.RawMessage
	}
	return json.Unmarshal(raw, &result) == nil && !result.IsError && json.Unmarshal(result.StructuredContent, into) == nil
}

// dispatch sets everything up and dispatches, as far as the broker lives.
func (d *dispatchRound) dispatch(w *wire) {
	var vessel, made struct {
		ID string `json:"Id"`
	}
	if !d.try(w, "add_vessel", map[string]any{"name": "repo", "repoUrl": d.repo, "landingMode": "LocalMerge", "allowConcurrentMissions": d.n%2 == 0}, &vessel) {
		return
	}
	for _, name := range []string{"one", "two"} {
		d.try(w, "create_captain", map[string]any{"name": name, "runtime": "Custom", "customCommand": []string{"/bin/sh", d.agent, d.dir}}, &made)
	}
	mission := func(alias, after string) map[string]any {
		m := map[string]any{"title": alias, "description": "Work.", "alias": alias}
		if after != "" {
			m["dependsOnMissionAlias"] = after
		}
		return m
	}
	d.try(w, "dispatch", map[string]any{"title": "work", "vesselId": vessel.ID, "codeContextMode": "off", "idempotencyKey": "once",
		"missions": []any{mission("a", ""), mission("b", "a"), mission("c", "")}}, &made)
}

func (d *dispatchRound) dead() bool {
	select {
	case <-d.broker.Ended():
		return true
	default:
		return false
	}
}

// starts counts the starts of each mission's agent.
func (d *dispatchRound) starts() map[string]int {
	text, err := os.ReadFile(filepath.Join(d.dir, "starts"))
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	out := map[string]int{}
	for _, id := range strings.Fields(string(text)) {
		out[id]++
	}
	return out
}

// await looks until something is so.
func (d *dispatchRound) await(what string, so func() bool) {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(brokerproc.Patience)
	defer late.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late.C:
			d.t.Fatalf("not within %s: %s", brokerproc.Patience, what)
		}
	}
}

// entities lists what there is of a kind; nil: the broker did not answer.
func entities[T any](d *dispatchRound, w *wire, kind string) []T {
	var page struct{ Objects []T }
	if !d.try(w, "enumerate", map[string]any{"entityType": kind, "pageSize": 1000}, &page) {
		return nil
	}
	return page.Objects
}

// quiet reports whether the voyage has ended.
func (d *dispatchRound) quiet() bool {
	voyages := entities[dispatch.Voyage](d, d.wire, "voyages")
	for _, v := range voyages {
		if !v.Status.Over() {
			return false
		}
	}
	return len(voyages) > 0
}

// check starts the last broker, lets it carry on, and asks for the invariants.
func (d *dispatchRound) check() {
	before := d.starts()
	must(d.t, d.start())
	w := newWire(d.house, "checker")
	for _, j := range d.allJobs() {
		if j.Status == "Accepted" || j.Status == "Running" {
			d.t.Errorf("after the restart job %s is %s", j.ID, j.Status)
		}
	}
	for _, c := range entities[dispatch.Captain](d, w, "captains") {
		if c.State != dispatch.CaptainIdle && c.State != dispatch.CaptainWorking {
			d.t.Errorf("captain %s is %s", c.Name, c.State)
		}
	}
	d.await("every voyage has ended", func() bool {
		for _, m := range entities[dispatch.Mission](d, w, "missions") {
			if m.Status == dispatch.MissionLandingFailed { // it may have landed, or not; an operator has it tried again
				d.try(w, "retry_landing", map[string]any{"missionId": m.ID}, &struct{}{})
			}
		}
		for _, v := range entities[dispatch.Voyage](d, w, "voyages") {
			if !v.Status.Over() {
				return false
			}
		}
		return true
	})
	d.checkMissions(w, before)
	for _, c := range entities[dispatch.Captain](d, w, "captains") {
		if c.State != dispatch.CaptainIdle {
			d.t.Errorf("with nothing to do captain %s is %s", c.Name, c.State)
		}
	}
	d.await("every dock is given back", func() bool {
		for _, k := range entities[dispatch.Dock](d, w, "docks") {
			if k.State != dispatch.DockAvailable {
				return false
			}
		}
		return true
	})
	if code, out, errOut := d.berth("journal", "check"); code != exitOK {
		d.t.Errorf("journal check: exit %d, %s%s", code, out, errOut)
	}
	must(d.t, d.broker.Stop())
	d.awaitNobody()
	d.git("fsck", "--strict", "--no-dangling")
	if dirty := d.git("status", "--porcelain"); dirty != "" {
		d.t.Errorf("the working directory holds %s", dirty)
	}
}

func (d *dispatchRound) allJobs() []struct{ ID, Status string } {
	var list struct {
		Objects []struct {
			ID     string `json:"JobId"`
			Status string
		}
	}
	must(d.t, d.api("/api/v1/jobs", nil, &list))
	out := make([]struct{ ID, Status string }, 0, len(list.Objects))
	for _, j := range list.Objects {
		out = append(out, struct{ ID, Status string }{j.ID, j.Status})
	}
	return out
}

// checkMissions asks what became of each mission.
func (d *dispatchRound) checkMissions(w *wire, before map[string]int) {
	missions := entities[dispatch.Mission](d, w, "missions")
	for id, n := range d.starts() {
		if n != 1 {
			d.t.Errorf("the agent of mission %s was started %d times", id, n)
		}
	}
	started := d.starts()
	for _, m := range missions {
		reason := ""
		if m.FailureReason != nil {
			reason = string(*m.FailureReason)
		}
		switch {
		case m.Status.Open():
			d.t.Errorf("mission %s of an ended voyage is %s", m.ID, m.Status)
		case m.Status == dispatch.MissionComplete:
			if started[m.ID] != 1 || m.Commit == nil {
				d.t.Errorf("mission %s is Complete, with commit %v and %d starts", m.ID, m.Commit, started[m.ID])
				continue
			}
			d.git("merge-base", "--is-ancestor", *m.Commit, "main")
		case m.Status == dispatch.MissionFailed && reason != string(dispatch.LostOnRestart):
			d.t.Errorf("mission %s Failed with %q: %v", m.ID, reason, m.FailureMessage)
		case m.Status == dispatch.MissionCancelled && reason == string(dispatch.DispatchLost) && started[m.ID] != 0:
			d.t.Errorf("mission %s of a lost dispatch was started", m.ID)
		}
		if m.Status == dispatch.MissionFailed && before[m.ID] != started[m.ID] {
			d.t.Errorf("mission %s was lost and started again", m.ID)
		}
	}
	if d.point == "" && !slices.ContainsFunc(missions, func(m dispatch.Mission) bool {
		return before[m.ID] == 1 && m.Status == dispatch.MissionFailed
	}) {
		d.t.Errorf("an agent was at work and no mission was lost: %v", before)
	}
	d.t.Logf("%d missions, %d started before the crash, %d in all", len(missions), len(before), len(started))
}
