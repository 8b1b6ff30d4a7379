package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"berth/cmd/internal/brokerproc"
)

// The crash suite kills a real broker at named points and at random moments,
// while several clients work with it, starts it again on the same state
// directory, and asks whether everything that a client was told still holds.
//
// A round is a sequence of lives on one state directory. Each life but the last
// is ended by SIGKILL: by the broker itself at a named point (BERTH_FAILPOINT
// in a binary with the build tag failpoint), or by the test. The last life has
// no fail point; in it the invariants are checked (crash_check_test.go), then it
// is stopped in order.

// life says how one life ends.
type life struct {
	point string // fail point; empty: the test kills
	nth   int    // at which time the point is passed, at least
	// spread is added to nth from round to round, up to this.
	spread int
	// busy: the test kills when a call is certain to be at work in a backend;
	// else after a random number of acknowledgements.
	busy bool
}

// The ways in which a life ends. The first calls of a life are long jobs (see
// load.open), so an nth over 3 finds unfinished work.
var (
	atRandom  = life{}
	inMidCall = life{busy: true}
)

func at(point string, nth, spread int) life { return life{point: point, nth: nth, spread: spread} }

// crashSchedule is what the rounds do, in turn. Ten rounds pass every point.
var crashSchedule = [][]life{
	{at("accept:before-commit", 9, 40), at("recover:before-commit", 1, 0)},
	{at("accept:after-commit", 9, 40), at("recover:after-commit", 1, 0)},
	{at("promote:before-commit", 1, 9), atRandom},
	{at("promote:after-commit", 1, 9), inMidCall},
	{at("running:before-commit", 9, 40), atRandom},
	{at("running:after-commit", 9, 40), at("accept:after-commit", 1, 3)},
	{at("outcome:before-commit", 4, 30), inMidCall},
	{at("outcome:after-commit", 4, 30), atRandom},
	{at("result-file:after-fsync", 1, 4), at("outcome:before-commit", 1, 8)},
	{at("prune:before-commit", 1, 0), at("prune:after-commit", 1, 0), atRandom}, // both are passed at a start, maybe before anything is acknowledged
}

// points are all that the journal has; a test holds the schedule to them.
var points = []string{"accept", "promote", "running", "outcome", "prune", "recover"}

func crashRounds(t *testing.T) int {
	text := os.Getenv("BERTH_CRASH_ROUNDS")
	if text == "" {
		return len(crashSchedule)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("BERTH_CRASH_ROUNDS is %q", text)
	}
	return n
}

func TestCrashScheduleVisitsEveryPoint(t *testing.T) {
	visited := map[string]bool{}
	for _, lives := range crashSchedule {
		for _, l := range lives {
			visited[l.point] = true
		}
	}
	for _, p := range points {
		for _, side := range []string{":before-commit", ":after-commit"} {
			if !visited[p+side] {
				t.Errorf("no round visits %s", p+side)
			}
		}
	}
	for _, p := range []string{"result-file:after-fsync", ""} {
		if !visited[p] {
			t.Errorf("no round visits %q", p)
		}
	}
}

func TestCrashLosesNothingThatWasAcknowledged(t *testing.T) {
	for n := range crashRounds(t) {
		lives := crashSchedule[n%len(crashSchedule)]
		var names []string
		for _, l := range lives {
			names = append(names, l.String())
		}
		t.Run(fmt.Sprintf("%03d %s", n, strings.Join(names, " then ")), func(t *testing.T) {
			t.Parallel()
			newRound(t, n).play(lives)
		})
	}
}

func (l life) String() string {
	switch {
	case l.point != "":
		return l.point
	case l.busy:
		return "in mid-call"
	}
	return "at random"
}

// round is one round of the suite.
type round struct {
	*house
	n      int
	random *rand.Rand // of the test's own goroutine
	told   *told
	wire   *wire // its session is made in the first life that listens
	web    string
	file   string // that keyed calls append to
	old    []string
}

func newRound(t *testing.T, n int) *round {
	r := &round{house: newHouse(t), n: n, random: rand.New(rand.NewPCG(uint64(n), 2026)), told: newTold()}
	r.web = fixtureHTTP(t, r.bin)
	r.file = r.dir + "/lines.txt"
	settings := map[string]any{"max_in_flight": 8, "long": []string{"work"}}
	r.configure(map[string]any{
		"mcpServers": map[string]any{
			"st":  r.fixtureEntry(settings),
			"web": map[string]any{"type": "http", "url": r.web, "berth": settings},
		},
		// A result that was cut would be compared by its beginning, and by the
		// handle of its rest, which is another one each time.
		"berth": map[string]any{"drain_timeout": "0s", "profiles": map[string]any{"full": map[string]any{"result_tokens": "whole"}}},
	})
	return r
}

// play goes through the lives and then through the one in which all is checked.
func (r *round) play(lives []life) {
	for i, l := range lives {
		if l.point == "prune:before-commit" {
			r.old = r.prepareOldJobs()
		}
		r.live(i, l)
		r.afterDeath()
	}
	r.check()
}

// live runs one life to its death.
func (r *round) live(number int, l life) {
	r.t.Helper()
	env := []string{"BERTH_FAILPOINT=none"}
	if l.point != "" {
		nth := l.nth + (r.n/len(crashSchedule)*7)%(l.spread+1)
		env = []string{"BERTH_FAILPOINT=" + l.point, "BERTH_FAILPOINT_NTH=" + strconv.Itoa(nth)}
		if (r.n/len(crashSchedule))%2 == 0 {
			// An answer that is given before its commit gets out meanwhile.
			env = append(env, "BERTH_FAILPOINT_LINGER=100ms")
		}
	}
	err := r.start(env...)
	if errors.Is(err, brokerproc.ErrEnded) {
		if !strings.HasPrefix(l.point, "recover:") {
			r.t.Fatal(err)
		}
		return // as it must: it dies before its socket opens
	}
	must(r.t, err)
	if strings.HasPrefix(l.point, "recover:") {
		r.t.Fatalf("the broker listens and has not passed %s", l.point)
	}
	if r.wire == nil {
		r.wire = newWire(r.house, "crash-client")
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	work := startLoad(ctx, r, number)
	switch {
	case l.point != "":
		r.awaitEnd()
	case l.busy:
		work.awaitBusy()
		r.broker.Kill()
	default:
		work.awaitAcknowledged(1 + r.random.IntN(60))
		r.broker.Kill()
	}
	cancel()
	work.wait()
}

// afterDeath is what must hold while no broker runs.
func (r *round) afterDeath() {
	r.t.Helper()
	r.awaitEnd()
	if !r.broker.Killed() {
		r.t.Fatalf("the broker was not killed, it ended: %s", r.broker.Log())
	}
	r.awaitNobody()
	if code, out, errOut := r.berth("tools"); code != exitNoBroker || out != "" {
		r.t.Errorf("berth tools with the broker dead: exit %d, %s%s", code, out, errOut)
	}
	r.checkFile()
}

// checkFile reads the journal of a dead broker. A result file whose record did
// not follow is what the next start removes; nothing else may be wrong.
func (r *round) checkFile() {
	r.t.Helper()
	code, out, errOut := r.berth("journal", "check", "--json")
	var report journalCheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		r.t.Errorf("the journal of a dead broker: exit %d, %s%s", code, out, errOut)
	}
	for _, p := range report.Problems {
		if p.Kind != "file" {
			r.t.Errorf("the journal of a dead broker: %+v", p)
		}
	}
}
