package journal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

// The crash tests run this test binary again as a child that writes to a
// journal and prints what was acknowledged, one line each, after the journal
// said so. The child is killed: by us at a random line, or by itself at a named
// point. Then the journal is opened and everything that was printed must be there.

const (
	childMode  = "BERTH_JOURNAL_CHILD" // write or recover
	childDir   = "BERTH_JOURNAL_DIR"
	childPoint = "BERTH_JOURNAL_POINT" // point and how often it is passed before the kill: accept:before-commit/3
	roundsVar  = "BERTH_CRASH_ROUNDS"

	childWorkers = 6
)

var crashEpoch = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// child never returns from "write": it is killed.
func child() {
	point, times, _ := strings.Cut(os.Getenv(childPoint), "/")
	left, _ := strconv.Atoi(times)
	j, err := journal.Open(filepath.Join(os.Getenv(childDir), "journal.db"), journal.Options{Hook: func(p string) {
		if p != point {
			return
		}
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if os.Getenv(childMode) == "recover" {
		if _, err := j.Recover(context.Background(), crashEpoch.Add(time.Hour)); err != nil {
			fmt.Println("error", err)
		}
		fmt.Println("recovered")
		return
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	var wg sync.WaitGroup
	for w := range childWorkers {
		wg.Go(func() {
			for i := 0; ; i++ {
				if err := childLife(j, w, i, say); err != nil {
					say("error", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// childLife takes one job through a life and says each step that was acknowledged.
func childLife(j *journal.Journal, w, i int, say func(...any)) error {
	bg := context.Background()
	kind := "job"
	at := crashEpoch
	if i%5 == 4 {
		kind, at = "job_old", crashEpoch.Add(-30*24*time.Hour) // to be pruned
	}
	job := broker.Job{ID: fmt.Sprintf("%s_%d_%06d", kind, w, i), Operation: "op", Status: broker.JobAccepted, SubmittedAt: at,
		Tenant: "default", User: "operator", IdempotencyKey: fmt.Sprintf("%d/%d", w, i), Digest: "d"}
	if i%3 == 1 {
		job.Status, job.StartedAt = broker.JobRunning, &at
	}
	if _, _, err := j.CreateJob(bg, job); err != nil {
		return err
	}
	say(job.ID, job.Status)
	if job.Status == broker.JobAccepted {
		if _, err := j.ChangeJob(bg, job.ID, broker.JobChange{To: broker.JobRunning, At: at}); err != nil {
			return err
		}
		say(job.ID, broker.JobRunning)
	}
	if i%7 == 6 && kind == "job" {
		return nil // left unfinished
	}
	end := broker.JobChange{To: broker.JobSucceeded, At: at, Result: json.RawMessage(strconv.Itoa(i))}
	switch {
	case i%11 == 3:
		end.Result = json.RawMessage(`"` + strings.Repeat("b", 1<<20) + `"`)
	case i%2 == 0:
		end = broker.JobChange{To: broker.JobFailed, At: at, Message: "it ended"}
	}
	if kind == "job" {
		if _, err := j.ChangeJob(bg, job.ID, end); err != nil {
			return err
		}
		say(job.ID, end.To)
		return nil
	}
	// Pruning takes old jobs of other workers too. What it takes was said to
	// have ended before, or the parent could not tell it from one that was lost.
	pruning.RLock()
	_, err := j.ChangeJob(bg, job.ID, end)
	if err == nil {
		say(job.ID, end.To)
	}
	pruning.RUnlock()
	if err != nil {
		return err
	}
	pruning.Lock()
	defer pruning.Unlock()
	_, err = j.Prune(bg, crashEpoch, 0)
	return err
}

// pruning keeps the end of an old job, and the word of it, apart from pruning.
var pruning sync.RWMutex

// runChild runs a child and gives what it acknowledged: the last status of each
// job. It is killed after lines lines, or kills itself when lines is negative.
func runChild(t *testing.T, dir, point string, lines int) map[string]broker.JobStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=write", childDir+"="+dir, childPoint+"="+point)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[string]broker.JobStatus{}
	in := bufio.NewScanner(pipe)
	for n := 0; in.Scan(); n++ {
		id, status, whole := strings.Cut(in.Text(), " ")
		if id == "error" {
			t.Errorf("the child said %q", in.Text())
		}
		if whole {
			acked[id] = broker.JobStatus(status)
		}
		if n == lines {
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; !killed || ctx.Err() != nil {
		t.Fatalf("the child was not killed as planned: %v", err)
	}
	return acked
}

// afterCrash opens the journal and holds it against what was acknowledged.
func afterCrash(t *testing.T, dir string, acked map[string]broker.JobStatus) {
	t.Helper()
	bg := context.Background()
	j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	sound := func(when string) {
		problems, err := j.Check(bg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if when == "before recovery" && p.Kind == "file" {
				continue // a crash between a file and its record
			}
			t.Errorf("%s: %s", when, p)
		}
	}
	sound("before recovery")
	if _, err := j.Recover(bg, crashEpoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	sound("after recovery")
	rank := map[broker.JobStatus]int{broker.JobAccepted: 1, broker.JobRunning: 2, broker.JobSucceeded: 3, broker.JobFailed: 3}
	for id, status := range acked {
		got, err := j.Job(id)
		if errors.Is(err, broker.ErrJobNotFound) && strings.HasPrefix(id, "job_old") && status.Final() {
			continue // pruned
		}
		switch {
		case err != nil:
			t.Errorf("%s, acknowledged as %s: %v", id, status, err)
		case !got.Status.Final():
			t.Errorf("%s is %s after recovery", id, got.Status)
		case rank[status] == 3 && got.Status != status:
			t.Errorf("%s was acknowledged as %s and is %s", id, status, got.Status)
		case rank[status] == 2 && got.StartedAt == nil:
			t.Errorf("%s was acknowledged as Running and never started", id)
		}
	}
	if again, err := j.Recover(bg, crashEpoch.Add(2*time.Hour)); err != nil || again.Lost != 0 || again.OrphanFiles != 0 {
		t.Errorf("a second recovery: %+v, error %v", again, err)
	}
}

func TestEverythingAcknowledgedSurvivesAKillAtARandomMoment(t *testing.T) {
	t.Parallel()
	rounds := 4
	if n, err := strconv.Atoi(os.Getenv(roundsVar)); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	for round := range rounds {
		lines := rand.IntN(400)
		t.Logf("round %d: kill after %d lines", round, lines)
		if round%2 == 0 {
			dir = t.TempDir() // the other half goes on with the journal of a crash
		}
		j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.Prune(context.Background(), crashEpoch.Add(365*24*time.Hour), 0) // frees the ids
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		afterCrash(t, dir, runChild(t, dir, "", lines))
	}
}

func TestEverythingAcknowledgedSurvivesAKillAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"accept:before-commit", "accept:after-commit", "promote:before-commit", "promote:after-commit",
		"running:before-commit", "running:after-commit", "outcome:before-commit", "outcome:after-commit",
		"prune:before-commit", "prune:after-commit", "result-file:after-fsync",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := runChild(t, dir, fmt.Sprintf("%s/%d", point, rand.IntN(3)), -1)
			afterCrash(t, dir, acked)
		})
	}
	for _, point := range []string{"recover:before-commit", "recover:after-commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := runChild(t, dir, "outcome:after-commit/8", -1)
			for range 2 { // a start that crashes, twice
				runRecovery(t, dir, point+"/0")
			}
			afterCrash(t, dir, acked)
		})
	}
}

// runRecovery runs a recovery that is killed at a point, or ends when an
// earlier one has left it nothing to commit.
func runRecovery(t *testing.T, dir, point string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=recover", childDir+"="+dir, childPoint+"="+point)
	out, err := cmd.CombinedOutput()
	if err == nil && strings.TrimSpace(string(out)) != "recovered" {
		t.Fatalf("the child said %q", out)
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("the child ended with %v and said %q", err, out)
	}
}
