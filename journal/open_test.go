package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
	"berth/journal"
)

func openAt(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "journal.db") }

// edit changes a closed journal's file behind its back.
func edit(t *testing.T, path string, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", filepath.Base(path), got, want)
	}
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	path := newPath(t)
	j := openAt(t, path)
	wantMode(t, path, 0o600)
	wantMode(t, filepath.Join(filepath.Dir(path), "results"), 0o700)
	finish(t, j, 1, `"`+strings.Repeat("x", 2<<20)+`"`)
	wantMode(t, filepath.Join(filepath.Dir(path), "results", "job_1.json"), 0o600)
}

// asVersion1 makes a file what the first version of the schema left.
func asVersion1(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(tx *bbolt.Tx) error {
		for _, name := range []string{"records", "recordKeys", "recordExpiry"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("1"))
	})
}

func TestAFileOfTheFirstSchemaIsReadAsItIsAndUpgradedForWriting(t *testing.T) {
	path := newPath(t)
	j := openAt(t, path)
	finish(t, j, 1, `{"a":1}`)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	asVersion1(t, path)
	bg := context.Background()
	r, err := journal.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Record("note", "a"); !errors.Is(err, broker.ErrRecordNotFound) {
		t.Errorf("a record: %v", err)
	}
	list, err := r.Records(broker.RecordQuery{Kind: "note"})
	count, err2 := r.CountRecords(broker.RecordQuery{Kind: "note"})
	_, err3 := r.Counts()
	problems, err4 := r.Check(bg)
	if err := errors.Join(err, err2, err3, err4, r.Close()); err != nil || len(list)+count+len(problems) != 0 || r.Schema() != 1 {
		t.Errorf("read %v, counted %d, problems %v, schema %d, error %v", list, count, problems, r.Schema(), err)
	}
	j = openAt(t, path)
	if _, err := j.Put(bg, broker.RecordChange{Kind: "note", ID: "a", Value: json.RawMessage("1"), Keys: []string{"k"}}); err != nil || j.Schema() != journal.SchemaVersion {
		t.Errorf("put: %v, schema %d", err, j.Schema())
	}
	if job, err := j.Job("job_1"); err != nil || string(job.Result) != `{"a":1}` {
		t.Errorf("the job: %+v, %v", job, err)
	}
}

func TestOpenTakesAwayTheRightsOfOthers(t *testing.T) {
	path := newPath(t)
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(filepath.Dir(path), "results")
	if err := errors.Join(os.Chmod(path, 0o644), os.Chmod(results, 0o755)); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
	wantMode(t, path, 0o600)
	wantMode(t, results, 0o700)
}

func TestOpenRefusesWhatItCannotRead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		is    error
		says  []string
	}{
		{"another schema version", func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("7")) })
		}, journal.ErrSchema, []string{`"7"`, "versions 1 to 2"}},
		{"a bucket that is gone", func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("keys")) })
		}, journal.ErrSchema, []string{"keys"}},
		{"another program's bbolt file", func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("meta")) })
		}, journal.ErrSchema, nil},
		{"no bbolt file", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("no journal\n", 2000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"invalid database"}},
		{"a file that was cut short", func(t *testing.T, path string) {
			if err := os.Truncate(path, 3*int64(os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"damaged"}},
		{"a directory", func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := newPath(t)
			j := openAt(t, path)
			for n := range 12 {
				finish(t, j, n, strings.Repeat("1", 1000))
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, path)
			for kind, open := range map[string]func() (*journal.Journal, error){
				"Open":         func() (*journal.Journal, error) { return journal.Open(path, journal.Options{}) },
				"OpenReadOnly": func() (*journal.Journal, error) { return journal.OpenReadOnly(path) },
			} {
				j, err := open()
				if err == nil {
					_ = j.Close()
					t.Fatalf("%s opened it", kind)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%s: %v", kind, err)
				}
				for _, s := range tt.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%s does not speak of %q: %v", kind, s, err)
					}
				}
			}
		})
	}
}

func TestOneJournalHoldsAFile(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	j := openAt(t, path)
	if _, err := journal.Open(path, journal.Options{}); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("a second Open: %v", err)
	}
	if _, err := journal.OpenReadOnly(path); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("OpenReadOnly of a journal in use: %v", err)
	}
	finish(t, j, 1, `1`)
}

func TestReadOnlyInspection(t *testing.T) {
	path := newPath(t)
	if _, err := journal.OpenReadOnly(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a journal that is not there: %v", err)
	}
	j := openAt(t, path)
	finish(t, j, 1, `{"a":1}`)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var readers []*journal.Journal
	for range 2 { // at once
		r, err := journal.OpenReadOnly(path)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	bg := context.Background()
	r := readers[0]
	if got, err := r.Job("job_1"); err != nil || string(got.Result) != `{"a":1}` {
		t.Errorf("read %+v, error %v", got, err)
	}
	if page, err := r.Jobs(broker.JobFilter{}); err != nil || page.Total != 1 {
		t.Errorf("listed %+v, error %v", page, err)
	}
	if s, err := r.Stats(); err != nil || s.Jobs[broker.JobSucceeded] != 1 || s.FreePages != nil || s.SchemaVersion != journal.SchemaVersion {
		t.Errorf("stats %+v, error %v", s, err)
	}
	if p, err := r.Check(bg); err != nil || len(p) != 0 {
		t.Errorf("check %v, error %v", p, err)
	}
	for name, write := range map[string]func() error{
		"CreateJob": func() error { _, _, err := r.CreateJob(bg, job(2)); return err },
		"ChangeJob": func() error {
			_, err := r.ChangeJob(bg, "job_1", broker.JobChange{To: broker.JobRunning, At: at})
			return err
		},
		"AppendEvent": func() error { return r.AppendEvent(bg, broker.Event{EventType: "x"}) },
		"SaveCatalog": func() error { return r.SaveCatalog(bg, broker.StoredCatalog{Backend: "b"}) },
		"Recover":     func() error { _, err := r.Recover(bg, at); return err },
		"Prune":       func() error { _, err := r.Prune(bg, at, 0); return err },
	} {
		if err := write(); !errors.Is(err, journal.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range readers {
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
}

var at = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

func job(n int) broker.Job {
	return broker.Job{ID: "job_" + string(rune('0'+n%10)) + strings.Repeat("_", n/10), Operation: "op", Status: broker.JobAccepted,
		SubmittedAt: at.Add(time.Duration(n) * time.Second), Tenant: "default", User: "operator", IdempotencyKey: strings.Repeat("k", n+1), Digest: "d"}
}

func finish(t *testing.T, j *journal.Journal, n int, result string) {
	t.Helper()
	bg := context.Background()
	if _, _, err := j.CreateJob(bg, job(n)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []broker.JobChange{{To: broker.JobRunning, At: at}, {To: broker.JobSucceeded, At: at, Result: []byte(result)}} {
		if _, err := j.ChangeJob(bg, job(n).ID, c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACloseKeepsTheFreePages: the next open need not look for them, and what
// was free is used again.
func TestACloseKeepsTheFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	now := time.Now()
	var sizes []int64
	for round := range 4 {
		j, err := journal.Open(path, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			job := broker.Job{ID: fmt.Sprintf("job_%08d_%011d", round, i), Operation: "a__b", Status: broker.JobRunning, SubmittedAt: now, StartedAt: &now, Tenant: "t", User: "u", Backend: "a"}
			if _, _, err := j.CreateJob(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			if _, err := j.ChangeJob(t.Context(), job.ID, broker.JobChange{To: broker.JobSucceeded, At: now}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Prune(t.Context(), now.Add(365*24*time.Hour), 1000); err != nil {
			t.Fatal(err)
		}
		if problems, err := j.Check(t.Context()); err != nil || len(problems) > 0 {
			t.Fatalf("%v %v", problems, err)
		}
		if n, known := j.JobCount(); n != 0 || !known {
			t.Errorf("round %d: %d records after all were pruned", round, n)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := reopenedStats(path)
		if err != nil || *s.FreePages == 0 {
			t.Errorf("round %d: stats of a journal that was just opened: %+v, error %v", round, s, err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
		if err != nil {
			t.Fatal(err)
		}
		if free := db.Stats().FreePageN; free == 0 {
			t.Errorf("round %d: no page is free", round)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if sizes[3] > sizes[1] {
		t.Errorf("the file grows from start to start: %v", sizes)
	}
}

func reopenedStats(path string) (journal.Stats, error) {
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		return journal.Stats{}, err
	}
	s, err := j.Stats()
	return s, errors.Join(err, j.Close())
}

// TestTheCountOfJobsIsThatOfTheirRecords: after an open, after writes, and not
// known after a commit that may have happened.
func TestTheCountOfJobsIsThatOfTheirRecords(t *testing.T) {
	path := populated(t)
	fail := false
	j, err := journal.Open(path, journal.Options{Commit: func(commit func() error) error {
		if fail {
			return errors.New("the disk is gone")
		}
		return commit()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	same := func(when string) {
		t.Helper()
		page, err := j.Jobs(broker.JobFilter{Limit: 1})
		if n, known := j.JobCount(); err != nil || n != page.Total || !known {
			t.Errorf("%s: %d, known %t, and there are %d (%v)", when, n, known, page.Total, err)
		}
	}
	same("after the open")
	now := time.Now()
	job := broker.Job{ID: "job_zz_1", Operation: "a__b", Status: broker.JobAccepted, SubmittedAt: now, Tenant: "t", User: "u", Backend: "a", IdempotencyKey: "k", Digest: "d"}
	if _, _, err := j.CreateJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	same("after a job")
	again := job
	again.ID = "job_zz_2"
	if _, created, err := j.CreateJob(t.Context(), again); err != nil || created {
		t.Fatalf("created %t, %v", created, err)
	}
	same("after a replay")
	fail = true
	last := job
	last.ID, last.IdempotencyKey = "job_zz_3", ""
	if _, _, err := j.CreateJob(t.Context(), last); !errors.Is(err, journal.ErrInDoubt) {
		t.Errorf("the error is %v", err)
	}
	if _, known := j.JobCount(); known {
		t.Error("the count is known after a commit that may have happened")
	}
}

// To open a pipe would wait for whoever has its other end, which may be nobody.
func TestOpenRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err := journal.OpenReadOnly(path); err == nil {
		t.Fatal(j.Close(), "it was opened")
	}
}
