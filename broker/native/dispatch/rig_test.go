package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a real journal that can be made to fail, and be written to in
// between.
type store struct {
	*journal.Journal
	mu     sync.Mutex
	before func([]broker.RecordChange) error // of each write
	fail   error                             // of every read and write
	jobs   []broker.Job                      // that a test says there are
}

func (s *store) failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

func (s *store) PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(changes); err != nil {
			return nil, err
		}
	}
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Journal.PutAll(ctx, changes...)
}

func (s *store) Record(kind, id string) (broker.Record, error) {
	if err := s.failing(); err != nil {
		return broker.Record{}, err
	}
	return s.Journal.Record(kind, id)
}

func (s *store) Records(q broker.RecordQuery) ([]broker.Record, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Journal.Records(q)
}

func (s *store) CountRecords(q broker.RecordQuery) (int, error) {
	if err := s.failing(); err != nil {
		return 0, err
	}
	return s.Journal.CountRecords(q)
}

func (s *store) Jobs(f broker.JobFilter) (page broker.JobPage, err error) {
	for _, j := range s.jobs {
		if f.Match(j) {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, s.failing()
}

// digits is randomness that is the same in each run.
type digits struct {
	mu sync.Mutex
	n  uint64
}

func (d *digits) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range p {
		d.n = d.n*6364136223846793005 + 1442695040888963407
		p[i] = byte(d.n >> 56)
	}
	return len(p), nil
}

// everyVerb is the family as the catalog lists it, which is the same in each test.
var everyVerb = sync.OnceValue(func() *catalog.Profile {
	snapshot, faults := catalog.Settings{}.Build(1, []catalog.Source{New(nil, Options{Options: native.Options{Now: time.Now}}).Source()})
	if len(faults) > 0 {
		panic(faults)
	}
	full, _ := snapshot.Profile(catalog.Full)
	return full
})

type rig struct {
	t       testing.TB
	store   *store
	world   *world
	family  *Family
	conn    broker.Conn
	profile *catalog.Profile
	now     time.Time
	who     broker.Principal
	calls   atomic.Int64
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC), who: broker.LocalOperator}
	now := func() time.Time { return r.now }
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{Now: now, Random: &digits{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	r.store = &store{Journal: j}
	r.world = &world{store: r.store, now: now, secrets: map[string]string{}, running: map[string]bool{}, logs: map[string][]string{}, diffs: map[string]string{},
		outputs: map[string]string{}, final: map[string]bool{}, refs: map[string]string{"main": "1111"}, landed: map[string]bool{}, index: dispatch.IndexState{Freshness: dispatch.IndexFresh}}
	r.family = New(r.store, Options{Options: native.Options{RuntimeID: "r", Now: now}, Random: &digits{}, Secrets: r.world, Places: r.world, Runner: r.world, Papers: r.world, Refs: r.world,
		Index: r.world, Board: r.world, Hold: func(string) *broker.Refusal { return r.world.hold }, Within: context.WithTimeout})
	r.profile = everyVerb()
	r.conn, _ = r.family.Open(t.Context(), nil)
	return r
}

// text calls a verb as policy would hand it over and gives the text of its
// answer. A dispatch is admitted before, as the job actor does it.
func (r *rig) text(ctx context.Context, verb, arguments string) string {
	r.t.Helper()
	v, ok := r.profile.Resolve(verb)
	if !ok {
		r.t.Fatalf("there is no verb %s", verb)
	}
	args := v.NormaliseArguments(json.RawMessage(arguments))
	if refusal := v.CheckArguments(args); refusal != nil {
		delete(refusal.Detail, "MinimalCall")
		return string(refusal.NativeJSON())
	}
	n := r.calls.Add(1)
	call := &broker.Call{ID: fmt.Sprintf("call-%d", n), Backend: catalog.NativeName, Verb: verb, Principal: r.who, Params: json.RawMessage(`{"name":"` + verb + `","arguments":` + string(args) + `}`)}
	call.Origin.Participant = "lane-a"
	job := broker.Job{ID: fmt.Sprintf("job_%d", n), CallID: call.ID, Status: broker.JobRunning}
	if refusal := r.family.Admit(call, &job); refusal != nil {
		return string(refusal.NativeJSON())
	}
	if job.Operation != "" {
		r.store.jobs = append(r.store.jobs, job)
	}
	answer, err := r.conn.Call(ctx, call, broker.Peer{})
	if err != nil {
		return err.Error()
	}
	var out struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(answer.Result, &out); err != nil || len(out.Content) != 1 {
		r.t.Fatalf("%s: %s (%v)", verb, answer.Result, err)
	}
	return out.Content[0].Text
}

// call is text, decoded.
func (r *rig) call(verb, arguments string) map[string]any {
	r.t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(r.text(r.t.Context(), verb, arguments)), &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) add(verb, arguments string) string {
	r.t.Helper()
	got := r.call(verb, arguments)
	id, ok := got["Id"].(string)
	if !ok {
		r.t.Fatalf("%s: %v", verb, got)
	}
	return id
}

func (r *rig) want(verb, arguments string, code broker.Code) map[string]any {
	r.t.Helper()
	got := r.call(verb, arguments)
	if c, _ := got["Code"].(string); c != string(code) {
		r.t.Errorf("%s %s: got %v, want %q", verb, arguments, got, code)
	}
	return got
}

// keep writes records as they are, whatever was there.
func keep[R dispatch.Stored](r *rig, records ...R) {
	r.t.Helper()
	var all []broker.RecordChange
	for _, record := range records {
		c, err := dispatch.Write(record, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		c.If = nil
		all = append(all, c)
	}
	if _, err := r.store.Journal.PutAll(context.Background(), all...); err != nil {
		r.t.Fatal(err)
	}
}

func kept[R dispatch.Stored](r *rig, id string) R {
	r.t.Helper()
	k, err := dispatch.Read[R](r.store.Journal, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return k.Value
}

// everything is each record that is kept, and the types of the events.
func (r *rig) everything() (records map[string]string, events []string) {
	r.t.Helper()
	records = map[string]string{}
	for _, kind := range []string{dispatch.KindVessel, dispatch.KindCaptain, dispatch.KindDock, dispatch.KindMission, dispatch.KindVoyage, kindName} {
		list, err := r.store.Journal.Records(broker.RecordQuery{Kind: kind})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, record := range list {
			records[kind+" "+record.ID] = string(record.Value)
		}
	}
	page, err := r.store.Journal.EventsPage(broker.EventQuery{OldestFirst: true})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range page.Events {
		events = append(events, e.EventType)
	}
	return records, events
}

// untouched runs do and fails when a record or an event came of it.
func (r *rig) untouched(what string, do func()) {
	r.t.Helper()
	before, had := r.everything()
	do()
	after, has := r.everything()
	if !maps.Equal(before, after) || !slices.Equal(had, has) {
		r.t.Errorf("%s wrote something: %v, events %v", what, slices.Sorted(maps.Keys(after)), has)
	}
}

// dump is everything, as text.
func (r *rig) dump() string {
	records, _ := r.everything()
	page, err := r.store.Journal.EventsPage(broker.EventQuery{})
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(records, page.Events)
}
