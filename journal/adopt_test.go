package journal_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

// A commit that failed leaves the number of records unknown; that is over with
// the file that it was about.
func TestAnAdoptedJournalKnowsItsNumberOfRecords(t *testing.T) {
	path, other := newPath(t), newPath(t)
	fails := false
	j, err := journal.Open(path, journal.Options{Commit: func(commit func() error) error {
		if fails {
			return errors.New("the disk is full")
		}
		return commit()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	create := func(j *journal.Journal, id string) error {
		_, _, err := j.CreateJob(t.Context(), broker.Job{ID: id, Operation: "b__x", Status: broker.JobAccepted, SubmittedAt: time.Now(), Tenant: "t", User: "u", Backend: "b"})
		return err
	}
	fails = true
	if err := create(j, "job_1"); !errors.Is(err, journal.ErrInDoubt) {
		t.Fatalf("got %v", err)
	}
	fails = false
	if _, known := j.JobCount(); known {
		t.Fatal("it claims to know")
	}
	next, err := journal.Open(other, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"job_2", "job_3"} {
		if err := create(next, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Suspend(t.Context(), journal.AllWrites, errors.New("wait")); err != nil {
		t.Fatal(err)
	}
	retire, err := j.Adopt(t.Context(), next, func() error { return os.Rename(other, path) })
	if err != nil {
		t.Fatal(err)
	}
	j.Resume()
	if err := retire(); err != nil {
		t.Fatal(err)
	}
	if n, known := j.JobCount(); n != 2 || !known {
		t.Errorf("%d records, known %t", n, known)
	}
	if err := create(j, "job_4"); err != nil {
		t.Fatal(err)
	}
	if n, known := j.JobCount(); n != 3 || !known {
		t.Errorf("%d records after another one, known %t", n, known)
	}
}
