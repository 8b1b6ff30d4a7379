package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/journal"
)

func testClosing(t *testing.T, e Engine) {
	t.Run("what is in the queue is written, what comes later is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _, first, release := stalled(t, e, Faults{QueueLimit: 2})
			bg := context.Background()
			queued := []<-chan outcome{r.goCreate(bg, newJob(1)),
				r.goChange(bg, "job_0100", running(epoch)), r.goChange(bg, "job_0100", running(epoch))}
			synctest.Wait()
			outside := r.goChange(bg, "job_0100", running(epoch))
			synctest.Wait()
			closed := make(chan error, 2)
			for range 2 {
				go func() { closed <- r.Close() }()
			}
			wantError(t, (<-outside).err, journal.ErrClosed)
			synctest.Wait()
			if len(closed) != 0 {
				t.Error("Close did not wait for the writer")
			}
			_, _, err := r.CreateJob(bg, newJob(2))
			wantError(t, err, journal.ErrClosed)
			release()
			for range 2 {
				if err := <-closed; err != nil {
					t.Errorf("close: %v", err)
				}
			}
			for _, ch := range append(queued, first) {
				if o := <-ch; o.err != nil {
					t.Errorf("a queued write: %v", o.err)
				}
			}
			r.start(Faults{})
			r.wantIDs(broker.JobFilter{}, 3, "job_0100", "job_0001", "job_0000")
		})
	})
	t.Run("a closed journal answers everything with an error", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(newJob(1))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		bg := context.Background()
		for name, call := range map[string]func() error{
			"CreateJob":   func() error { _, _, err := r.CreateJob(bg, newJob(2)); return err },
			"ChangeJob":   func() error { _, err := r.ChangeJob(bg, "job_0001", running(epoch)); return err },
			"Job":         func() error { _, err := r.Job("job_0001"); return err },
			"Jobs":        func() error { _, err := r.Jobs(broker.JobFilter{}); return err },
			"Events":      func() error { _, err := r.Events("", 1); return err },
			"AppendEvent": func() error { return r.AppendEvent(bg, broker.Event{EventType: "x"}) },
			"SaveCatalog": func() error { return r.SaveCatalog(bg, broker.StoredCatalog{Backend: "b"}) },
			"Catalogs":    func() error { _, err := r.Catalogs(); return err },
			"Put":         func() error { _, err := r.Put(bg, broker.RecordChange{Kind: "k", ID: "i"}); return err },
			"Record":      func() error { _, err := r.Record("k", "i"); return err },
			"Records":     func() error { _, err := r.Records(broker.RecordQuery{Kind: "k"}); return err },
			"Recover":     func() error { _, err := r.Recover(bg, epoch); return err },
			"Prune":       func() error { _, err := r.Prune(bg, epoch, 1); return err },
			"Stats":       func() error { _, err := r.Stats(); return err },
			"Check":       func() error { _, err := r.Check(bg); return err },
		} {
			if err := call(); !errors.Is(err, journal.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// testConcurrency lets many workers take their own jobs through a life, race
// for shared jobs and shared keys, and read, all at once; then it compares what
// is stored with what each was told.
func testConcurrency(t *testing.T, e Engine) {
	const workers, each, shared = 24, 20, 6
	r := open(t, e, Faults{})
	bg := context.Background()
	for n := range shared {
		j := newJob(90_000 + n)
		r.create(j)
		r.change(j.ID, running(epoch))
	}
	var mu sync.Mutex
	told := map[string]broker.Job{} // last acknowledged state
	firsts := map[string]string{}   // idempotency key -> job
	winners := map[string]int{}     // shared job -> outcomes that were accepted
	late := 0
	fail := func(format string, args ...any) { t.Errorf(format, args...) }
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				n := w*each + i
				j := newJob(n)
				j.IdempotencyKey, j.Digest = fmt.Sprint("k", n%100), "d"
				got, created, err := r.CreateJob(bg, j)
				if err != nil {
					fail("create %d: %v", n, err)
					return
				}
				mu.Lock()
				if first, ok := firsts[j.IdempotencyKey]; ok && first != got.ID {
					fail("key %s gave %s and %s", j.IdempotencyKey, first, got.ID)
				}
				firsts[j.IdempotencyKey] = got.ID
				mu.Unlock()
				if created {
					got = worked(r, got, n, fail)
					mu.Lock()
					told[got.ID] = got
					mu.Unlock()
				}
				id := fmt.Sprintf("job_%04d", 90_000+i%shared)
				_, err = r.ChangeJob(bg, id, succeeded(after(time.Duration(n)*time.Second), fmt.Sprint(n)))
				mu.Lock()
				switch {
				case err == nil:
					winners[id]++
				case errors.Is(err, broker.ErrJobFinal):
					late++
				default:
					fail("shared %s: %v", id, err)
				}
				mu.Unlock()
				if page, err := r.Jobs(broker.JobFilter{Limit: 5}); err != nil || page.Unreadable != 0 {
					fail("list: %+v, error %v", page, err)
				}
			}
		})
	}
	wg.Wait()
	for id, want := range told {
		if got := r.read(id); !same(got, want) {
			t.Errorf("stored %+v, told %+v", got, want)
		}
	}
	for n := range shared {
		if id := fmt.Sprintf("job_%04d", 90_000+n); winners[id] != 1 {
			t.Errorf("%d outcomes of %s were accepted", winners[id], id)
		}
	}
	if r.dropped() != uint64(late) || late != workers*each-shared {
		t.Errorf("%d late outcomes were answered and %d counted", late, r.dropped())
	}
	if total := r.list(broker.JobFilter{}).Total; total != len(told)+shared || len(told) != 100 {
		t.Errorf("%d jobs are stored and %d were acknowledged", total, len(told)+shared)
	}
}

// worked takes a job to an end that depends on n.
func worked(r *rig, j broker.Job, n int, fail func(string, ...any)) broker.Job {
	steps := []broker.JobChange{running(after(time.Second))}
	switch n % 4 {
	case 0:
		steps = append(steps, succeeded(after(2*time.Second), fmt.Sprintf(`{"n":%d}`, n)))
	case 1:
		steps = append(steps, failed(after(2*time.Second), "x"))
	case 2:
		steps = []broker.JobChange{{To: broker.JobFailed, At: after(time.Second), Reason: broker.CodeCancelled, Result: json.RawMessage(`1`)}}
	}
	for _, c := range steps {
		next, err := r.ChangeJob(context.Background(), j.ID, c)
		if err != nil {
			fail("change %s: %v", j.ID, err)
			return j
		}
		j = next
	}
	return j
}
