package archive_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/journal"
	"berth/journal/archive"
)

// under is a running broker as far as a restore needs one.
type under struct {
	*testing.T
	state   string
	journal *journal.Journal
	renewed int
}

func running(t *testing.T, ids ...string) *under {
	t.Helper()
	u := &under{T: t, state: newState(t, ids...)}
	u.journal = open(t, u.state)
	t.Cleanup(func() {
		must(t, u.journal.Close())
		if _, err := os.Stat(filepath.Join(u.state, archive.StagingDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something is left in the staging directory: %v", err)
		}
	})
	return u
}

func (u *under) restore(ctx context.Context, file string, step func(string) error) (archive.Restored, error) {
	return archive.RestoreRunning(ctx, u.state, file, options(), archive.Running{Journal: u.journal, Suspended: archive.Suspended(), Action: "Wait.",
		Renew: func(next *journal.Journal, r journal.Recovery) (func(), error) {
			if r.Lost > 0 {
				u.Logf("lost %d", r.Lost)
			}
			return func() { u.renewed++ }, nil
		}}, step)
}

// has compares the jobs that the journal in use has.
func (u *under) has(ids ...string) {
	u.Helper()
	page, err := u.journal.Jobs(broker.JobFilter{})
	must(u.T, err)
	var got []string
	for _, j := range page.Jobs {
		full, err := u.journal.Job(j.ID)
		must(u.T, err)
		got = append(got, full.ID)
	}
	slices.Sort(got)
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		u.Errorf("the journal in use has %q, want %q", got, ids)
	}
	problems, err := u.journal.Check(context.Background())
	if err != nil || len(problems) > 0 {
		u.Errorf("the journal in use: %v %v", problems, err)
	}
}

func noStep(string) error { return nil }

func TestAJournalIsReplacedUnderItsUsers(t *testing.T) {
	other := newState(t, "job_big_old")
	file, _ := backUp(t, other)
	u := running(t, "job_bad_a", "job_big_b")
	changed, stop := u.journal.Watch("job_bad_a")
	defer stop()
	last, err := u.journal.Events("", 1000)
	must(t, err)
	done, err := u.restore(t.Context(), file, noStep)
	must(t, err)
	u.has("job_big_old")
	if done.Status != "restored" || done.RestartRequired || u.renewed != 1 {
		t.Errorf("%+v, renewed %d times", done, u.renewed)
	}
	<-changed // everything may have changed
	add(t, u.journal, "job_bad_new")
	u.has("job_bad_new", "job_big_old")
	// Whoever reads events from the last one it knew misses none.
	after := ""
	if len(last) > 0 {
		after = last[len(last)-1].ID
	}
	must(t, u.journal.AppendEvent(t.Context(), broker.Event{EventType: "later"}))
	if events, err := u.journal.Events(after, 1000); err != nil || events[len(events)-1].EventType != "later" {
		t.Errorf("events %+v, %v", events, err)
	}
	// The safety copy brings back what was replaced.
	if _, err := u.restore(t.Context(), *done.SafetyBackupPath, noStep); err != nil {
		t.Fatal(err)
	}
	u.has("job_bad_a", "job_big_b")
}

func TestWritesAreRefusedWhileAJournalIsReplaced(t *testing.T) {
	file, _ := backUp(t, newState(t, "job_big_old"))
	u := running(t)
	write := func() error {
		return u.journal.AppendEvent(context.Background(), broker.Event{EventType: "x"})
	}
	create := func() error {
		_, _, err := u.journal.CreateJob(context.Background(), broker.Job{ID: "job_x", Operation: "o", Status: broker.JobAccepted, SubmittedAt: epoch, Tenant: "t", User: "u"})
		return err
	}
	seen := 0
	_, err := u.restore(t.Context(), file, func(point string) error {
		refused := map[string][2]bool{"archive-verified": {false, false}, "creations-suspended": {true, false}, "writes-suspended": {true, true}, "renewed": {true, true}}
		want, ok := refused[point]
		if !ok || point == "archive-verified" { // a job would stand in the way
			return nil
		}
		seen++
		for i, err := range []error{create(), write()} {
			if got := broker.AsRefusal(err).Code == broker.CodeRestoreInProgress; err != nil != want[i] || got != want[i] {
				t.Errorf("%s, write %d: %v", point, i, err)
			}
		}
		return nil
	})
	must(t, err)
	if seen != 3 {
		t.Errorf("%d points were seen", seen)
	}
	must(t, write())
	must(t, create())
}

// TestAReplacementThatFailsLeavesTheOldJournal fails at each step in turn, as
// often as there are steps.
func TestAReplacementThatFailsLeavesTheOldJournal(t *testing.T) {
	file, _ := backUp(t, newState(t, "job_big_old"))
	var points []string
	u := running(t, "job_bad_a")
	_, err := u.restore(t.Context(), file, func(point string) error { points = append(points, point); return nil })
	must(t, err)
	for i, point := range points {
		t.Run(point, func(t *testing.T) {
			u, n := running(t, "job_bad_a"), 0
			broke := errors.New("it broke")
			_, err := u.restore(t.Context(), file, func(string) error {
				n++
				if n == i+1 {
					return broke
				}
				return nil
			})
			if after := i >= slices.Index(points, "journal-switched"); after {
				u.has("job_big_old")
				must(t, err)
			} else {
				u.has("job_bad_a")
				if err == nil {
					t.Error("it did not fail")
				}
			}
			add(t, u.journal, "job_bad_then") // writes are let in again
		})
	}
	if !slices.Contains(points, "journal-switched") || len(points) < 8 {
		t.Errorf("points %q", points)
	}
}

func TestAReplacementIsRefusedOverUnfinishedWork(t *testing.T) {
	file, _ := backUp(t, newState(t, "job_big_old"))
	u := running(t, "job_bad_a")
	_, _, err := u.journal.CreateJob(t.Context(), broker.Job{ID: "job_open", Operation: "o", Status: broker.JobAccepted, SubmittedAt: epoch, Tenant: "t", User: "u"})
	must(t, err)
	_, err = u.restore(t.Context(), file, noStep)
	if r := wantCode(t, err, broker.CodeRestoreBlocked); r.Detail["Total"] != 1 || r.Detail["Action"] != "Wait." {
		t.Errorf("detail %+v", r.Detail)
	}
	u.has("job_bad_a", "job_open")
	if _, err := os.Stat(filepath.Join(u.state, archive.BackupsDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a safety copy was made: %v", err)
	}
	_, err = u.journal.ChangeJob(t.Context(), "job_open", broker.JobChange{To: broker.JobFailed, At: epoch, Reason: broker.CodeCancelled, Message: "x"})
	must(t, err)
	_, err = u.restore(t.Context(), file, noStep)
	must(t, err)
}

func TestARestoredUnfinishedJobIsLostOnce(t *testing.T) {
	other := newState(t)
	j := open(t, other)
	_, _, err := j.CreateJob(t.Context(), broker.Job{ID: "job_open", Operation: "o", Status: broker.JobAccepted, SubmittedAt: epoch, Tenant: "t", User: "u"})
	must(t, err)
	must(t, j.Close())
	file, _ := backUp(t, other)
	u := running(t)
	_, err = u.restore(t.Context(), file, noStep)
	must(t, err)
	for range 2 {
		job, err := u.journal.Job("job_open")
		must(t, err)
		if job.Status != broker.JobLost || job.Reason != broker.CodeJobLostOnRestart {
			t.Errorf("%+v", job)
		}
		_, err = u.journal.Recover(t.Context(), epoch) // as the next start does
		must(t, err)
	}
	events, err := u.journal.Events("", 100)
	must(t, err)
	lost := 0
	for _, e := range events {
		if e.EventType == broker.EventJobLost {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d events of a loss in %+v", lost, events)
	}
}

func TestACallerThatLeavesEndsARestore(t *testing.T) {
	file, _ := backUp(t, newState(t, "job_big_old"))
	u := running(t, "job_bad_a")
	ctx, leave := context.WithCancel(t.Context())
	_, err := u.restore(ctx, file, func(point string) error {
		if point == "safety-made" {
			leave()
		}
		return nil
	})
	if err == nil {
		t.Error("it went on")
	}
	u.has("job_bad_a")
}

// TestAnArchiveIsNoLargerThanItIs: nothing in one is compressed, so members
// that together are larger than the file overlap, or lie.
func TestAnArchiveIsNoLargerThanItIs(t *testing.T) {
	file, _ := backUp(t, newState(t, "job_bad_a"))
	raw, err := os.ReadFile(file)
	must(t, err)
	at := strings.Index(string(raw), "PK\x01\x02") // the first row of the directory
	copy(raw[at+20:], []byte{0, 0, 0, 0x7f, 0, 0, 0, 0x7f})
	must(t, os.WriteFile(file, raw, 0o600))
	_, err = archive.Verify(t.Context(), file)
	if r := wantCode(t, err, broker.CodeBackupUnreadable); !strings.Contains(r.Detail["Cause"].(string), "larger than it is") {
		t.Errorf("cause %v", r.Detail["Cause"])
	}
}
