// Package journaltest is the suite that any journal of Berth passes: the life
// of a job, idempotency, events, lists, restart, retention, large results,
// faults and concurrency, each against what DESIGN.md and contracts/native.md
// say, and a property test of random histories against a model in memory.
//
// It owns no journal: an [Engine] says how one is opened. Every journal that a
// test has used is closed, opened again and checked at the test's end.
package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

// Journal is the whole of a journal, as the suite uses it.
type Journal interface {
	CreateJob(ctx context.Context, job broker.Job) (broker.Job, bool, error)
	ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error)
	Job(id string) (broker.Job, error)
	JobWithoutResult(id string) (broker.Job, error)
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	Watch(id string) (<-chan struct{}, func())
	Events(after string, limit int) ([]broker.Event, error)
	AppendEvent(ctx context.Context, e broker.Event) error
	EventsPage(q broker.EventQuery) (broker.EventPage, error)
	EventsAfter(cursor string, limit, size int) (broker.EventRun, error)
	WatchEvents() (<-chan struct{}, func())
	DeleteEvents(ctx context.Context, ids []string) ([]string, error)
	SaveCatalog(ctx context.Context, c broker.StoredCatalog, events ...broker.Event) error
	Catalogs() ([]broker.StoredCatalog, error)
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error)
	Record(kind, id string) (broker.Record, error)
	Records(q broker.RecordQuery) ([]broker.Record, error)
	CountRecords(q broker.RecordQuery) (int, error)
	WatchRecords(kind, id string) (<-chan struct{}, func())
	Recover(ctx context.Context, now time.Time) (journal.Recovery, error)
	Prune(ctx context.Context, now time.Time, limit int) (int, error)
	Stats() (journal.Stats, error)
	Check(ctx context.Context) ([]journal.Problem, error)
	Close() error
}

// Engine opens journals of one kind. Open opens the journal that lives in dir,
// or makes one there; after Close it is called with the same dir again.
type Engine struct {
	Open func(dir string, faults Faults) (Journal, error)
}

// Faults are what an engine has to allow a test to do to it; the zero value is
// none.
type Faults struct {
	QueueLimit int                             // as journal.Options
	Commit     func(commit func() error) error // as journal.Options
	Now        func() time.Time                // as journal.Options
	Grace      time.Duration                   // as journal.Options
}

// Run runs the whole suite.
func Run(t *testing.T, e Engine) {
	for _, group := range []struct {
		name string
		run  func(*testing.T, Engine)
	}{
		{"Lifecycle", testLifecycle}, {"Idempotency", testIdempotency}, {"Lists", testLists},
		{"Events", testEvents}, {"EventLists", testEventLists}, {"EventDeletion", testEventDeletion}, {"Restart", testRestart}, {"Retention", testRetention}, {"Results", testResults},
		{"Watch", testWatch}, {"Catalogs", testCatalogs}, {"Records", testRecords}, {"Refusals", testRefusals}, {"Faults", testFaults},
		{"Closing", testClosing}, {"Concurrency", testConcurrency}, {"Histories", testHistories},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(t, e) })
	}
}

// epoch is the time at which the tests' jobs are submitted.
var epoch = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return epoch.Add(d) }

// rig is a journal in use by one test.
type rig struct {
	Journal
	t      *testing.T
	engine Engine
	dir    string
}

// open gives a journal that is checked when the test ends.
func open(t *testing.T, e Engine, f Faults) *rig {
	t.Helper()
	r := &rig{t: t, engine: e, dir: t.TempDir()}
	r.start(f)
	t.Cleanup(func() {
		r.reopen(Faults{})
		r.wantSound()
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func (r *rig) start(f Faults) {
	r.t.Helper()
	j, err := r.engine.Open(r.dir, f)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.Journal = j
}

// reopen is a restart.
func (r *rig) reopen(f Faults) {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Fatalf("close: %v", err)
	}
	r.start(f)
}

func (r *rig) wantSound() {
	r.t.Helper()
	problems, err := r.Check(context.Background())
	if err != nil {
		r.t.Errorf("check: %v", err)
	}
	for _, p := range problems {
		r.t.Errorf("check: %s", p)
	}
}

func newJob(n int) broker.Job {
	return broker.Job{ID: fmt.Sprintf("job_%04d", n), Operation: "backend__work", Status: broker.JobAccepted,
		SubmittedAt: after(time.Duration(n) * time.Second), Tenant: "default", User: "operator", Backend: "backend"}
}

func running(at time.Time) broker.JobChange { return broker.JobChange{To: broker.JobRunning, At: at} }

func succeeded(at time.Time, result string) broker.JobChange {
	return broker.JobChange{To: broker.JobSucceeded, At: at, Result: json.RawMessage(result)}
}

func failed(at time.Time, message string) broker.JobChange {
	return broker.JobChange{To: broker.JobFailed, At: at, Message: message}
}

func (r *rig) create(j broker.Job) broker.Job {
	r.t.Helper()
	stored, created, err := r.CreateJob(context.Background(), j)
	if err != nil || !created {
		r.t.Fatalf("create %s: created %v, error %v", j.ID, created, err)
	}
	return stored
}

func (r *rig) change(id string, c broker.JobChange) broker.Job {
	r.t.Helper()
	stored, err := r.ChangeJob(context.Background(), id, c)
	if err != nil {
		r.t.Fatalf("change %s to %s: %v", id, c.To, err)
	}
	return stored
}

// createAll writes many jobs at once, so that they share commits.
func (r *rig) createAll(jobs []broker.Job) {
	r.t.Helper()
	var wait []<-chan outcome
	for _, j := range jobs {
		wait = append(wait, r.goCreate(context.Background(), j))
	}
	r.wantDone(wait)
}

func (r *rig) wantDone(wait []<-chan outcome) {
	r.t.Helper()
	for _, ch := range wait {
		if o := <-ch; o.err != nil {
			r.t.Fatal(o.err)
		}
	}
}

// finish takes a new job to Succeeded.
func (r *rig) finish(j broker.Job, at time.Time) {
	r.t.Helper()
	r.create(j)
	r.change(j.ID, running(at))
	r.change(j.ID, succeeded(at, `{"ok":true}`))
}

func (r *rig) read(id string) broker.Job {
	r.t.Helper()
	j, err := r.Job(id)
	if err != nil {
		r.t.Fatalf("read %s: %v", id, err)
	}
	return j
}

func (r *rig) list(f broker.JobFilter) broker.JobPage {
	r.t.Helper()
	page, err := r.Jobs(f)
	if err != nil {
		r.t.Fatalf("list %+v: %v", f, err)
	}
	if page.Unreadable != 0 {
		r.t.Errorf("list %+v: %d records are unreadable", f, page.Unreadable)
	}
	return page
}

func (r *rig) wantIDs(f broker.JobFilter, total int, want ...string) {
	r.t.Helper()
	page := r.list(f)
	if got := ids(page.Jobs); !slices.Equal(got, want) || page.Total != total {
		r.t.Errorf("list %+v: got %v of %d, want %v of %d", f, got, page.Total, want, total)
	}
}

func ids(jobs []broker.Job) []string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

// events gives all events, or those of some types.
func (r *rig) events(types ...string) []broker.Event {
	r.t.Helper()
	all, err := r.Events("", 0)
	if err != nil {
		r.t.Fatalf("events: %v", err)
	}
	return slices.DeleteFunc(all, func(e broker.Event) bool { return len(types) > 0 && !slices.Contains(types, e.EventType) })
}

func (r *rig) dropped() uint64 {
	r.t.Helper()
	s, err := r.Stats()
	if err != nil {
		r.t.Fatalf("stats: %v", err)
	}
	return s.DroppedLate
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// same tells whether two jobs are equal as records, results included.
func same(a, b broker.Job) bool {
	ra, rb := a.Result, b.Result
	a.Result, b.Result = nil, nil
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y) && bytes.Equal(ra, rb)
}
