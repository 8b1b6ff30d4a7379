package resmontest

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Size names a data set.
type Size int

const (
	Standard Size = iota // what the contract's tests need: 130 documents, 1,300 executions
	Small                // a dozen of each, for tests that look at single answers
	Large                // as Standard with real lengths and long lists, to measure what an answer costs
)

// Planted stands in every value of the data that may not leave the adapter:
// delivery targets and errors, directories and endpoints of routines, withheld
// settings. Nothing else contains it.
const Planted = "planted-secret"

// amounts of a data set.
type amounts struct {
	documents, executions, routines, profiles, sources, findings, matches int
	long                                                                  bool
}

var sizes = map[Size]amounts{
	Standard: {documents: 130, executions: 1300, routines: 4, profiles: 4, findings: 6, matches: 40},
	Small:    {documents: 12, executions: 24, routines: 4, profiles: 4, findings: 6, matches: 6},
	Large:    {documents: 2000, executions: 1300, routines: 40, profiles: 60, findings: 60, sources: 30, matches: 400, long: true},
}

// world is what an instance keeps over its lives. Its fields are guarded by the
// mutex of the fake.
type world struct {
	options    Options
	amounts    amounts
	documents  []*document // by id, ascending
	executions []*execution
	routines   []*routine
	profiles   []*profile
	matches    []hit
	events     map[int64][]object // lifecycle by document; a key without events was looked at
	settings   map[string][]setting
	catalog    []object
	findings   []object

	runtimeID string
	started   time.Time
	live      map[int64]int // runs that this life started, and how often each was looked at
	queue     []queued
}

type queued struct {
	routine   int64
	requestID string
}

func newWorld(o Options) *world {
	w := &world{options: o, amounts: sizes[o.Data], live: map[int64]int{}}
	w.makeDocuments()
	w.makeRoutines()
	w.makeExecutions()
	w.makeProfiles()
	w.makeSources()
	w.makeFindings()
	w.makeSettings()
	return w
}

// newLife is what a start of resmon does to its data: runs of the process that
// went away are interrupted, and its queue is forgotten. The first start leaves
// the data set as it was made.
func (w *world) newLife(runtimeID string) {
	for _, e := range w.executions {
		if _, live := w.live[e.ID]; live || (e.Status == "running" && w.runtimeID != "") {
			e.Status, e.InterruptedReason, e.EndTime = "interrupted", ptr("owner_dead"), ptr(w.now())
		}
	}
	w.live, w.queue = map[int64]int{}, nil
	w.runtimeID, w.started = runtimeID, w.options.Now()
}

func (w *world) now() string { return w.options.Now().UTC().Format("2006-01-02T15:04:05Z") }

// stamped marks a title or a name.
func (w *world) stamped(s string) string {
	if w.options.Stamp == "" {
		return s
	}
	return s + " [" + w.options.Stamp + "]"
}

func (w *world) id(n int) int64 { return w.options.FirstID + int64(n) }

func (w *world) identity(runtimeID string) object {
	return object{"contract_version": 1, "runtime_id": runtimeID, "schema_version": 21, "corpus_id": nil, "build_id": nil}
}

// canonical reports whether s is a runtime id as resmon writes it.
func canonical(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s && u.Version() == 4 && u.Variant() == uuid.RFC4122
}

func health(w *world, r *request) answer {
	if a := expected(r); a != nil {
		return *a
	}
	body := object{
		"status": "ok", "pid": 4242, "started_at": w.started.UTC().Format("2006-01-02T15:04:05.000000+00:00"), "version": w.options.Version,
		"embeddings": object{"extension": true, "reason": nil},
		"scheduler":  object{"running": true, "jobs": w.activeRoutines()},
		"daemon":     object{"installed": false, "running": false, "pid": nil},
	}
	if r.identity != nil {
		body["identity"] = r.identity
	}
	return r.whole(body)
}

func (w *world) activeRoutines() int {
	n := 0
	for _, r := range w.routines {
		if r.IsActive {
			n++
		}
	}
	return n
}

// day is a date of the data set: n days before 2026-10-01.
func day(n int) string {
	return time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -n).Format(time.DateOnly)
}

func moment(n int) string { return fmt.Sprintf("%s %02d:%02d:00", day(n), n%24, n%60) }
