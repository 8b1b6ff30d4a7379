package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"berth/broker"
	"berth/journal"
)

// populated makes a journal with a job of each kind and closes it: job_1
// unfinished, job_2 with a small result, job_3 with a large one, job_4 failed.
func populated(t *testing.T) (path string) {
	t.Helper()
	path = newPath(t)
	j := openAt(t, path)
	bg := context.Background()
	if _, _, err := j.CreateJob(bg, job(1)); err != nil {
		t.Fatal(err)
	}
	finish(t, j, 2, `{"a":1}`)
	finish(t, j, 3, `"`+strings.Repeat("x", 2<<20)+`"`)
	if _, _, err := j.CreateJob(bg, job(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.ChangeJob(bg, "job_4", broker.JobChange{To: broker.JobFailed, At: at, Message: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.SaveCatalog(bg, broker.StoredCatalog{Backend: "b"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// flip damages one byte of a stored record's body.
func flip(tx *bbolt.Tx, id string) error {
	b := tx.Bucket([]byte("jobs"))
	raw := slices.Clone(b.Get([]byte(id)))
	raw[len(raw)-3] ^= 1
	return b.Put([]byte(id), raw)
}

func firstKey(tx *bbolt.Tx, bucket string) []byte {
	k, _ := tx.Bucket([]byte(bucket)).Cursor().First()
	return slices.Clone(k)
}

func TestCheckFindsEachKindOfDamage(t *testing.T) {
	put := func(bucket, key string, value string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) }
	}
	drop := func(bucket string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Delete(firstKey(tx, bucket)) }
	}
	file := func(path string) string { return filepath.Join(filepath.Dir(path), "results", "job_3.json") }
	for _, tt := range []struct {
		name string
		edit func(tx *bbolt.Tx) error
		disk func(path string) error
		want string // kind and id of one of the problems
	}{
		{name: "a damaged record", edit: func(tx *bbolt.Tx) error { return flip(tx, "job_2") }, want: "record job_2"},
		{name: "a record that is gone", edit: func(tx *bbolt.Tx) error { return tx.Bucket([]byte("jobs")).Delete([]byte("job_2")) }, want: "index job_2"},
		{name: "a record without its entry by age", edit: drop("byAge"), want: "index job_1"},
		{name: "an unfinished record without its entry", edit: drop("unfinished"), want: "index job_1"},
		{name: "a final record without its entry", edit: drop("ended"), want: "index job_2"},
		{name: "an entry without a record", edit: put("byAge", "\x00\x00\x00\x00\x00\x00\x00\x01job_9", ""), want: "index job_9"},
		{name: "a second entry", edit: put("byAge", "\x00\x00\x00\x00\x00\x00\x00\x01job_2", ""), want: "index job_2"},
		{name: "a final record among the unfinished", edit: put("unfinished", "\x00\x00\x00\x00\x00\x00\x00\x01job_2", ""), want: "index job_2"},
		{name: "a key that is gone", edit: drop("keys"), want: "key job_1"},
		{name: "a key without a record", edit: put("keys", "x", "job_9"), want: "key job_9"},
		{name: "a key of another record", edit: put("keys", "x", "job_2"), want: "key job_2"},
		{name: "a result that is gone", edit: drop("results"), want: "result job_2"},
		{name: "a result of another size", edit: put("results", "job_2", `{"a":12}`), want: "result job_2"},
		{name: "a result without a record", edit: put("results", "job_9", `1`), want: "result job_9"},
		{name: "a result that is there twice", edit: put("results", "job_3", `1`), want: "result job_3"},
		{name: "an event that is gone", edit: drop("events"), want: "event job_4"},
		{name: "an event that cannot be decoded", edit: put("events", "evt_x", "{"), want: "event evt_x"},
		{name: "a second end event", edit: put("events", "evt_x", `{"Id":"evt_x","EventType":"job.lost","Message":"job_4: x"}`), want: "event job_4"},
		{name: "an end event of a success", edit: put("events", "evt_x", `{"Id":"evt_x","EventType":"job.failed","Message":"job_2: x"}`), want: "event job_2"},
		{name: "a catalog that cannot be decoded", edit: put("catalogs", "b", "{"), want: "catalog b"},
		{name: "a result file that is gone", disk: func(p string) error { return os.Remove(file(p)) }, want: "file job_3"},
		{name: "a result file that was cut", disk: func(p string) error { return os.Truncate(file(p), 7) }, want: "file job_3"},
		{name: "a file of nobody", disk: func(p string) error { return os.WriteFile(filepath.Dir(file(p))+"/job_9.json", nil, 0o600) }, want: "file job_9.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait for the disk, not for a processor
			path := populated(t)
			if tt.edit != nil {
				edit(t, path, tt.edit)
			}
			if tt.disk != nil {
				if err := tt.disk(path); err != nil {
					t.Fatal(err)
				}
			}
			readOnly, err := journal.OpenReadOnly(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range []*journal.Journal{readOnly, nil} {
				if j == nil {
					j = openAt(t, path)
				}
				problems, err := j.Check(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(problems, func(p journal.Problem) bool { return p.Kind+" "+p.ID == tt.want }) {
					t.Errorf("found %v", problems)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Run("an event that was deleted on purpose is none", func(t *testing.T) {
		path := populated(t)
		edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("events")).Put(firstKey(tx, "events"), nil) })
		j := openAt(t, path)
		if problems, err := j.Check(context.Background()); err != nil || len(problems) != 0 {
			t.Errorf("found %v, error %v", problems, err)
		}
		if events, err := j.Events("", 0); err != nil || len(events) != 0 {
			t.Errorf("listed %v, error %v", events, err)
		}
	})
}

func TestUnreadableRecordsAreCountedAndLeftAlone(t *testing.T) {
	path := populated(t)
	edit(t, path, func(tx *bbolt.Tx) error {
		return errors.Join(flip(tx, "job_1"), flip(tx, "job_3"),
			tx.Bucket([]byte("events")).Put([]byte("evt_a"), []byte("{")),
			tx.Bucket([]byte("catalogs")).Put([]byte("c"), []byte("{")))
	})
	j := openAt(t, path)
	bg := context.Background()
	for _, f := range []broker.JobFilter{{}, {Limit: 1}, {User: "operator", Limit: 1}, {Status: broker.JobSucceeded}} {
		if page, err := j.Jobs(f); err != nil || page.Unreadable != 2 {
			t.Errorf("list %+v gave %+v, error %v", f, page, err)
		}
	}
	if page, err := j.Jobs(broker.JobFilter{Unfinished: true}); err != nil || page.Unreadable != 1 || page.Total != 0 {
		t.Errorf("list of unfinished gave %+v, error %v", page, err)
	}
	if _, err := j.Job("job_1"); !errors.Is(err, journal.ErrUnreadable) {
		t.Errorf("read: %v", err)
	}
	if _, err := j.ChangeJob(bg, "job_1", broker.JobChange{To: broker.JobRunning, At: at}); !errors.Is(err, journal.ErrUnreadable) {
		t.Errorf("change: %v", err)
	}
	if _, _, err := j.CreateJob(bg, job(1)); !errors.Is(err, journal.ErrUnreadable) {
		t.Errorf("replay of its key: %v", err)
	}
	if got, err := j.Recover(bg, at); err != nil || got.Unreadable != 1 || got.Lost != 0 || got.OrphanFiles != 0 {
		t.Errorf("recovered %+v, error %v", got, err)
	}
	for _, want := range []int{1, 1, 0} { // job_3, which is unreadable, is in the way of job_4
		if n, err := j.Prune(bg, at.Add(broker.Retention), 1); err != nil || n != want {
			t.Errorf("pruned %d, error %v", n, err)
		}
	}
	if s, err := j.Stats(); err != nil || s.Unreadable != 2 || s.ResultFiles != 1 {
		t.Errorf("stats %+v, error %v", s, err)
	}
	if events, err := j.Events("", 1); err != nil || len(events) != 1 || events[0].EventType != journal.EventUnreadable || events[0].ID != "evt_a" {
		t.Errorf("events %+v, error %v", events, err)
	}
	if cs, err := j.Catalogs(); !errors.Is(err, journal.ErrUnreadable) || len(cs) != 1 {
		t.Errorf("catalogs %+v, error %v", cs, err)
	}
}

func TestALargeResultThatIsGoneIsAnErrorNotAnEmptyResult(t *testing.T) {
	path := populated(t)
	file := filepath.Join(filepath.Dir(path), "results", "job_3.json")
	if err := os.Truncate(file, 7); err != nil {
		t.Fatal(err)
	}
	j := openAt(t, path)
	if got, err := j.Job("job_3"); !errors.Is(err, journal.ErrUnreadable) {
		t.Errorf("cut: read %d bytes, error %v", len(got.Result), err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Job("job_3"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: error %v", err)
	}
}

func TestRecoverRemovesFilesOfNobody(t *testing.T) {
	path := populated(t)
	dir := filepath.Join(filepath.Dir(path), "results")
	for _, name := range []string{"job_1.json", "job_9.json", "job_3.123.tmp"} { // job_1 is unfinished
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := openAt(t, path)
	if got, err := j.Recover(context.Background(), at); err != nil || got.OrphanFiles != 3 || got.Lost != 1 {
		t.Errorf("recovered %+v, error %v", got, err)
	}
	if got, err := j.Job("job_3"); err != nil || len(got.Result) != 2<<20+2 {
		t.Errorf("the file of a record: %d bytes, error %v", len(got.Result), err)
	}
	if problems, err := j.Check(context.Background()); err != nil || len(problems) != 0 {
		t.Errorf("check %v, error %v", problems, err)
	}
}

func TestStatsSayWhatWasObserved(t *testing.T) {
	path := populated(t)
	j := openAt(t, path)
	s, err := j.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs[broker.JobAccepted] != 1 || s.Jobs[broker.JobSucceeded] != 2 || s.Jobs[broker.JobFailed] != 1 || s.Jobs[broker.JobLost] != 0 ||
		s.Events != 1 || s.ResultFiles != 1 || s.FileBytes == 0 || s.FreePages == nil || s.Commits != 0 || s.MeanGroup != 0 {
		t.Errorf("stats of a journal that was just opened: %+v", s)
	}
	finish(t, j, 5, `1`)
	if s, err = j.Stats(); err != nil || s.Commits != 3 || s.Writes != 3 || s.MeanGroup != 1 || s.Waiting != 0 {
		t.Errorf("after three writes: %+v, error %v", s, err)
	}
	if _, err := j.Prune(context.Background(), at.Add(broker.Retention), 0); err != nil {
		t.Fatal(err)
	}
	if s, err = j.Stats(); err != nil || s.Jobs[broker.JobSucceeded] != 0 || s.Jobs[broker.JobAccepted] != 1 || s.Events != 1 || s.ResultFiles != 0 || *s.FreePages == 0 {
		t.Errorf("after pruning: %+v, error %v", s, err)
	}
}
