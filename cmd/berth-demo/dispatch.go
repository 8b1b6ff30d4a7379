//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// agent is the program that the captain runs: it edits and commits as its brief
// says, and notes each of its starts.
const agent = `#!/bin/sh
set -e
echo started >> "$1/starts"
brief=$(cat)
echo "[BERTH:STATUS] reading the brief"
case "$brief" in
*"a token bucket"*)
	printf 'package limits\n\n// TokenBucket admits rate calls a second.\ntype TokenBucket struct{ rate float64 }\n\n// AdmitCall reports whether a call may go.\nfunc (b *TokenBucket) AdmitCall() bool { return b.rate > 0 }\n' > bucket.go
	git add bucket.go && git commit -qm "limits: add a token bucket" ;;
*"one page about it"*)
	grep -q TokenBucket bucket.go # the work of the mission before is here
	printf '# Limits\n\nCalls are admitted by a TokenBucket.\n' > LIMITS.md
	git add LIMITS.md && git commit -qm "docs: describe the token bucket" ;;
*"another page"*)
	printf '# More\n' > MORE.md
	git add MORE.md && git commit -qm "docs: another page" ;;
*"take for ever"*)
	sleep 600 &
	echo $! > "$1/sleeper"
	mv "$1/sleeper" "$1/sleeping"
	wait ;;
esac
echo "[BERTH:PROGRESS] 100"
echo "Committed on $(git branch --show-current)."
echo "[BERTH:RESULT] COMPLETE"
`

// git runs git in the demo's repository and gives what it printed.
func (d *demo) git(args ...string) string {
	cmd := exec.CommandContext(d.ctx, "git", append([]string{"-c", "user.name=Demo", "-c", "user.email=demo@localhost"}, args...)...)
	cmd.Dir = d.repo
	out, err := cmd.CombinedOutput()
	d.must(err, "git "+args[0]+": "+string(out))
	return strings.TrimSpace(string(out))
}

// repository makes what the missions work on, and the agent.
func (d *demo) repository() {
	d.step("Make a repository, and an agent that edits and commits")
	d.repo = filepath.Join(d.dir, "limits")
	d.must(os.Mkdir(d.repo, 0o700), "make a directory")
	d.git("init", "-q", "-b", "main")
	d.must(os.WriteFile(filepath.Join(d.repo, "limits.go"), []byte("// Package limits says how many calls may go.\npackage limits\n\n// MaxCalls is the most at once.\nconst MaxCalls = 16\n"), 0o600), "write a file")
	d.git("add", ".")
	d.git("commit", "-qm", "limits: begin")
	d.must(os.WriteFile(filepath.Join(d.dir, "agent.sh"), []byte(agent), 0o700), "write the agent")
	d.show("git log --oneline", d.git("log", "--oneline"))
}

func (d *demo) startDispatch() {
	d.step("Start the broker and connect")
	d.must(d.newWitness("family-1"), "make the witness")
	d.must(os.WriteFile(d.config, []byte("{}\n"), 0o600), "write the configuration")
	d.must(d.serve("127.0.0.1:0"), "start the broker")
	var err error
	d.ann, err = dial(d.ctx, "ann", "http://"+d.broker.Addr()+"/mcp", d.token())
	d.must(err, "connect")
	d.check(true, "ann is connected")
}

// asks calls a verb that must be answered well and reads its answer.
func (d *demo) asks(verb string, arguments any, into any) answer {
	a, err := d.ann.call(d.ctx, verb, arguments, "")
	d.must(err, "call "+verb)
	if a.IsError {
		panic(failure(verb + " answers " + a.Text))
	}
	d.must(json.Unmarshal([]byte(a.Text), into), "read the answer of "+verb)
	return a
}

func (d *demo) vessel() {
	d.step("Register the repository as a vessel, and the agent as a captain")
	var made struct {
		ID string `json:"Id"`
	}
	d.asks("add_vessel", map[string]any{"name": "limits", "repoUrl": d.repo}, &made)
	d.vesselID = made.ID
	d.asks("create_captain", map[string]any{"name": "sh", "runtime": "Custom", "customCommand": []string{"/bin/sh", filepath.Join(d.dir, "agent.sh"), d.dir}}, &made)
	d.captainID = made.ID
	d.check(d.vesselID != "" && d.captainID != "", "vessel %s, captain %s", d.vesselID, d.captainID)
}

// search asks the code index and gives the path of the first hit.
func (d *demo) search(query string) (path string, available bool) {
	var found struct {
		Available *bool
		Results   []struct{ Record struct{ Path string } }
	}
	d.asks("code_search", map[string]any{"vesselId": d.vesselID, "query": query}, &found)
	if len(found.Results) > 0 {
		path = found.Results[0].Record.Path
	}
	return path, found.Available == nil || *found.Available
}

// job accepts a job and follows it to its end.
func (d *demo) job(verb string, arguments map[string]any) answer {
	var accepted answer
	d.asks(verb, arguments, &accepted)
	d.check(accepted.Status == "Accepted", "%s is accepted as %s", verb, accepted.JobID)
	end, _, err := d.ann.follow(d.ctx, accepted.JobID)
	d.must(err, "follow the job")
	d.check(end.Status == "Succeeded", "the job is %s", end.Status)
	return end
}

func (d *demo) index() {
	d.step("Index its code, and search")
	_, available := d.search("MaxCalls")
	d.check(!available, "without an index a search says that it is unavailable, and what to do")
	d.job("index_update", map[string]any{"vesselId": d.vesselID})
	path, _ := d.search("max calls")
	d.check(path == "limits.go", "`max calls` finds MaxCalls in %s", path)
}

func (d *demo) dispatch() {
	d.step("Dispatch two missions; the second goes on where the first ends")
	request := map[string]any{"title": "Rate limits", "vesselId": d.vesselID, "idempotencyKey": "demo:1", "codeContextMode": "off", "missions": []map[string]any{
		{"title": "Add a limiter", "description": "Write a token bucket into bucket.go.", "alias": "core"},
		{"title": "Document it", "description": "Write one page about it, LIMITS.md.", "dependsOnMissionAlias": "core"},
	}}
	end := d.job("dispatch", request)
	var again answer
	d.asks("dispatch", request, &again)
	d.check(again.Replayed && again.JobID == end.JobID, "the same key again names the same job; nothing is dispatched twice")
	var voyage struct {
		ID               string `json:"Id"`
		MissionStartRefs []struct {
			MissionID string `json:"MissionId"`
		}
	}
	d.must(json.Unmarshal(d.nativeResult(end), &voyage), "read the job's result")
	d.check(len(voyage.MissionStartRefs) == 2, "voyage %s has two missions", voyage.ID)
	d.voyageID = voyage.ID
	for _, m := range voyage.MissionStartRefs {
		d.missionIDs = append(d.missionIDs, m.MissionID)
	}
}

// nativeResult is the result of a job of the broker's own verbs.
func (d *demo) nativeResult(end answer) json.RawMessage {
	var wrapped struct{ StructuredContent json.RawMessage }
	if json.Unmarshal(end.Result, &wrapped) == nil && len(wrapped.StructuredContent) > 0 {
		return wrapped.StructuredContent
	}
	return end.Result
}

// mission is what mission_status says of one.
type mission struct {
	Status, Title, BranchName, CommitHash, FailureReason, CaptainID string
	AssignmentState                                                 string
}

// awaitMission asks until a mission is as wanted.
func (d *demo) awaitMission(id string, as func(mission) bool) mission {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var m mission
		d.asks("mission_status", map[string]any{"missionId": id}, &m)
		if as(m) {
			return m
		}
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			panic(failure(fmt.Sprintf("mission %s is still %s (%s)", id, m.Status, m.AssignmentState)))
		}
	}
}

func final(m mission) bool {
	return m.Status == "Complete" || m.Status == "Failed" || m.Status == "Cancelled"
}

func (d *demo) delivered() {
	d.step("Watch them run, each in its own worktree")
	var branch string
	for _, id := range d.missionIDs {
		m := d.awaitMission(id, final)
		d.check(m.Status == "Complete" && m.CommitHash != "", "%q is %s with commit %.10s on %s", m.Title, m.Status, m.CommitHash, m.BranchName)
		branch = m.BranchName
	}
	d.command(0, "voyages", "show", d.voyageID)
	d.command(0, "missions", "logs", d.missionIDs[1])
	out := d.command(0, "missions", "diff", d.missionIDs[0])
	d.check(strings.Contains(out, "+type TokenBucket struct"), "the diff of the first is kept")
	clone := filepath.Join(d.state, "repos", d.vesselID+".git")
	log, err := exec.CommandContext(d.ctx, "git", "-C", clone, "log", "--format=%s", "main.."+branch).Output()
	if err != nil { // the clone has main as a branch of its origin only
		log, err = exec.CommandContext(d.ctx, "git", "-C", clone, "log", "--format=%s", "origin/main.."+branch).Output()
	}
	d.must(err, "read the branch")
	d.show("git log "+branch, string(log))
	d.check(string(log) == "docs: describe the token bucket\nlimits: add a token bucket\n", "both commits are on the branch, in order; main is as it was")
	fsck, err := exec.CommandContext(d.ctx, "git", "-C", clone, "fsck", "--strict").CombinedOutput()
	d.must(err, "git fsck: "+string(fsck))
	d.check(true, "git fsck finds nothing wrong")
}

func (d *demo) searchAgain() {
	d.step("Land the branch by hand, index again, search")
	m := d.awaitMission(d.missionIDs[1], final)
	clone := filepath.Join(d.state, "repos", d.vesselID+".git")
	d.git("fetch", "-q", clone, m.BranchName)
	d.git("merge", "-q", "--no-edit", "FETCH_HEAD")
	d.job("index_update", map[string]any{"vesselId": d.vesselID})
	path, _ := d.search("token bucket admit")
	d.check(path == "bucket.go", "what the agent wrote is found in %s", path)
}

func (d *demo) agentAtWork() {
	d.step("A third mission, whose agent never ends")
	end := d.job("dispatch", map[string]any{"title": "Without an end", "vesselId": d.vesselID, "codeContextMode": "off",
		"missions": []map[string]any{{"title": "Wait", "description": "This will take for ever."}}})
	var voyage struct {
		MissionStartRefs []struct {
			MissionID string `json:"MissionId"`
		}
	}
	d.must(json.Unmarshal(d.nativeResult(end), &voyage), "read the job's result")
	d.endless = voyage.MissionStartRefs[0].MissionID
	d.awaitMission(d.endless, func(m mission) bool {
		_, err := os.Stat(filepath.Join(d.dir, "sleeping"))
		return m.Status == "InProgress" && err == nil
	})
	d.check(d.starts() == 3, "the agent was started three times, once a mission")
	d.command(0, "captains", "list")
}

func (d *demo) starts() int {
	text, err := os.ReadFile(filepath.Join(d.dir, "starts"))
	d.must(err, "read the agent's starts")
	return strings.Count(string(text), "started\n")
}

func (d *demo) killDispatch() {
	d.step("kill -9 %d: the broker, while the agent works", d.broker.PID())
	began := time.Now()
	d.broker.Kill()
	d.must(d.witness.AwaitNobody(20*time.Second), "wait for the broker's descendants")
	d.check(d.broker.Killed(), "broker, guard, agent and what the agent started are gone %s after the kill", ms(time.Since(began)))
}

func (d *demo) restartDispatch() {
	d.step("Start it again")
	d.must(d.newWitness("family-2"), "make the witness")
	d.must(d.serve(d.broker.Addr()), "start the broker")
	var m mission
	d.asks("mission_status", map[string]any{"missionId": d.endless}, &m)
	d.check(m.Status == "Failed" && m.FailureReason == "lost_on_restart", "the mission is %s, %s", m.Status, m.FailureReason)
	for _, id := range d.missionIDs {
		d.asks("mission_status", map[string]any{"missionId": id}, &m)
		d.check(m.Status == "Complete", "%q is still %s", m.Title, m.Status)
	}
	var captain struct{ State string }
	d.asks("get_captain", map[string]any{"captainId": d.captainID}, &captain)
	d.check(captain.State == "Idle", "the captain is %s", captain.State)
	d.again()
	m = d.awaitMission(d.endless, final)
	d.check(m.Status == "Complete", "restarted by hand with another description it is %s", m.Status)
	d.check(d.starts() == 4, "nothing ran again by itself: four starts, four orders")
}

// again restarts the mission. The broker may still be removing its worktree;
// then the refusal says to ask again.
func (d *demo) again() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := d.ann.call(d.ctx, "restart_mission", map[string]any{"missionId": d.endless, "description": "Write another page, MORE.md."}, "")
		d.must(err, "call restart_mission")
		if !a.IsError {
			return
		}
		var refused struct{ Retryable bool }
		if json.Unmarshal([]byte(a.Text), &refused) != nil || !refused.Retryable {
			panic(failure("restart_mission answers " + a.Text))
		}
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			d.must(d.ctx.Err(), "restart the mission")
		}
	}
}

func (d *demo) stopDispatch() {
	d.step("Check the journal and stop in order")
	out := d.command(0, "journal", "check")
	d.check(strings.Contains(out, "clean"), "the journal is clean")
	d.must(d.broker.Stop(), "stop the broker")
	d.must(d.witness.AwaitNobody(20*time.Second), "wait for the broker's descendants")
	d.check(true, "SIGTERM: exit code 0, and no process is left")
}
