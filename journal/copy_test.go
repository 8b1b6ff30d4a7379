package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

// A copy is that of one moment, whatever is written and pruned meanwhile.
func TestACopyOfAJournalInUseIsWhole(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	big := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"`)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	written := make(chan struct{}, 1)
	go func() {
		at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			id := fmt.Sprintf("job_%d", i)
			_, _, err := j.CreateJob(t.Context(), broker.Job{ID: id, Operation: "x", Status: broker.JobAccepted, SubmittedAt: at, Tenant: "t", User: "u"})
			for _, c := range []broker.JobChange{{To: broker.JobRunning, At: at}, {To: broker.JobSucceeded, At: at, Result: big}} {
				if err == nil {
					_, err = j.ChangeJob(t.Context(), id, c)
				}
			}
			if err == nil && i%8 == 7 {
				_, err = j.Prune(t.Context(), at.Add(broker.Retention), 100)
			}
			if err != nil {
				stopped <- err
				return
			}
			select {
			case written <- struct{}{}:
			default:
			}
		}
	}()
	for range 8 {
		select {
		case <-written:
		case err := <-stopped:
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := j.Copy(t.Context(), dir); err != nil {
			t.Error(err)
			continue
		}
		c, err := journal.OpenReadOnly(filepath.Join(dir, "journal.db"))
		if err != nil {
			t.Error(err)
			continue
		}
		problems, err := c.Check(t.Context())
		if err := errors.Join(err, c.Close()); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
	close(stop)
	if err := errors.Join(<-stopped, j.Close()); err != nil {
		t.Error(err)
	}
}

func TestAWalkVisitsEachRecordOnceAndAnEndHasItsEvent(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	const n = 600 // more than one read transaction visits
	var g []string
	done := make(chan error, n)
	for i := range n {
		g = append(g, fmt.Sprintf("job_%03d", n-1-i))
		go func() {
			_, _, err := j.CreateJob(t.Context(), broker.Job{ID: fmt.Sprintf("job_%03d", i), Operation: "x", Status: broker.JobAccepted, SubmittedAt: at.Add(time.Duration(i)), Tenant: "t", User: "u"})
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	unreadable, err := j.Walk(broker.JobFilter{}, func(job broker.Job) error { seen = append(seen, job.ID); return nil })
	if err != nil || unreadable != 0 || !slices.Equal(seen, g) {
		t.Errorf("%d records, %d unreadable, %v", len(seen), unreadable, err)
	}
	enough := errors.New("enough")
	if _, err := j.Walk(broker.JobFilter{}, func(broker.Job) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a visitor that had enough: %v", err)
	}
	if e, err := j.EndEvent("job_000"); err != nil || e != nil {
		t.Errorf("before its end: %v, %v", e, err)
	}
	if _, err := j.ChangeJob(t.Context(), "job_000", broker.JobChange{To: broker.JobFailed, At: at, Message: "m"}); err != nil {
		t.Fatal(err)
	}
	if e, err := j.EndEvent("job_000"); err != nil || e == nil || e.EventType != broker.EventJobFailed {
		t.Errorf("after its end: %v, %v", e, err)
	}
	if _, err := j.EndEvent("job_x"); !errors.Is(err, broker.ErrJobNotFound) {
		t.Errorf("of no job: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
