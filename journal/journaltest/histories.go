package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

// model is what a journal should hold, in memory and without any of its code.
type model struct {
	jobs    map[string]broker.Job // with results
	ended   []string              // jobs whose bad end wrote an event, in order
	dropped uint64
	now     time.Time
}

// edges is the table of contracts/native.md section 22, written out once more.
var edges = map[broker.JobStatus]string{
	broker.JobAccepted: "Running Failed Lost", broker.JobRunning: "Running Succeeded Failed Lost",
}

// change gives the error that the journal should give.
func (m *model) change(id string, c broker.JobChange) error {
	j, ok := m.jobs[id]
	switch {
	case !ok:
		return broker.ErrJobNotFound
	case edges[j.Status] == "":
		m.dropped++
		return broker.ErrJobFinal
	case !slices.Contains(strings.Fields(edges[j.Status]), string(c.To)):
		return broker.ErrJobStep
	}
	at := c.At
	if j.Status == broker.JobAccepted && c.To == broker.JobRunning {
		j.StartedAt = &at
	}
	if c.Tracking != nil {
		j.Tracking = c.Tracking
	}
	j.Status = c.To
	if edges[c.To] == "" {
		j.CompletedAt, j.Result, j.ResultBytes = &at, c.Result, int64(len(c.Result))
		if c.To != broker.JobSucceeded {
			j.Reason, j.FailureMessage = c.Reason, c.Message
			m.ended = append(m.ended, id)
		}
	}
	m.jobs[id] = j
	return nil
}

// list gives the ids that a filter selects, in order.
func (m *model) list(f broker.JobFilter) (page []string, total int) {
	var all []broker.Job
	for _, j := range m.jobs {
		if f.Match(j) {
			all = append(all, j)
		}
	}
	sort.Slice(all, func(a, b int) bool {
		if !all[a].SubmittedAt.Equal(all[b].SubmittedAt) {
			return all[a].SubmittedAt.After(all[b].SubmittedAt)
		}
		return all[a].ID > all[b].ID
	})
	total = len(all)
	all = all[min(f.Offset, len(all)):]
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	return ids(all), total
}

func (m *model) keyed(user, key string) (broker.Job, bool) {
	for _, j := range m.jobs {
		if key != "" && j.User == user && j.IdempotencyKey == key {
			return j, true
		}
	}
	return broker.Job{}, false
}

// testHistories runs random histories against the model.
func testHistories(t *testing.T, e Engine) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "history")
		if err != nil {
			rt.Fatal(err)
		}
		h := &history{engine: e, dir: dir, m: model{jobs: map[string]broker.Job{}, now: epoch}}
		h.start(rt)
		defer func() { _ = h.j.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"create": h.create, "step": h.step, "step again": h.step, "list": h.list, "prune": h.prune,
			"restart": h.restart, "": h.invariant,
		})
		h.sound(rt)
	})
}

type history struct {
	engine Engine
	dir    string
	j      Journal
	m      model
	next   int
}

func (h *history) start(rt *rapid.T) {
	j, err := h.engine.Open(h.dir, Faults{Now: func() time.Time { return h.m.now }})
	if err != nil {
		rt.Fatalf("open: %v", err)
	}
	h.j = j
}

func (h *history) tick(rt *rapid.T) time.Time {
	h.m.now = h.m.now.Add(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, time.Hour, 5 * 24 * time.Hour}).Draw(rt, "later"))
	return h.m.now
}

func (h *history) create(rt *rapid.T) {
	now := h.tick(rt)
	h.next++
	j := broker.Job{ID: fmt.Sprintf("job_%s%03d", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "prefix"), h.next),
		Operation: rapid.SampledFrom([]string{"op", "other"}).Draw(rt, "operation"), Status: broker.JobAccepted, SubmittedAt: now,
		Tenant: "default", User: rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "user"), Backend: "b",
		IdempotencyKey: rapid.SampledFrom([]string{"", "k", "l"}).Draw(rt, "key"), Digest: rapid.SampledFrom([]string{"d", "d", "e"}).Draw(rt, "digest")}
	if rapid.Bool().Draw(rt, "promoted") {
		j.Status, j.StartedAt, j.Promoted = broker.JobRunning, &now, true
	}
	got, created, err := h.j.CreateJob(context.Background(), j)
	first, replay := h.m.keyed(j.User, j.IdempotencyKey)
	var refusal *broker.Refusal
	switch {
	case !replay:
		if err != nil || !created || !same(got, j) {
			rt.Fatalf("create gave %+v, %v, %v", got, created, err)
		}
		h.m.jobs[j.ID] = j
	case first.Digest == j.Digest:
		if err != nil || created || !same(got, first) {
			rt.Fatalf("replay gave %+v, %v, %v; first %+v", got, created, err, first)
		}
	case !errors.As(err, &refusal) || refusal.Detail["JobId"] != first.ID:
		rt.Fatalf("conflict gave %+v, %v, %v", got, created, err)
	}
}

func (h *history) anyID(rt *rapid.T) string {
	known := []string{"job_none"}
	for id := range h.m.jobs {
		known = append(known, id)
	}
	slices.Sort(known)
	return rapid.SampledFrom(known).Draw(rt, "id")
}

func (h *history) step(rt *rapid.T) {
	id, now := h.anyID(rt), h.tick(rt)
	to := rapid.SampledFrom([]broker.JobStatus{broker.JobRunning, broker.JobRunning, broker.JobSucceeded,
		broker.JobFailed, broker.JobLost, broker.JobAccepted}).Draw(rt, "to")
	c := broker.JobChange{To: to, At: now}
	if c.To.Final() {
		c.Result = json.RawMessage(rapid.SampledFrom([]string{"", `1`, `{"a": 1}`, `"` + strings.Repeat("r", 1<<20) + `"`}).Draw(rt, "result"))
	}
	if c.To == broker.JobFailed || c.To == broker.JobLost {
		c.Reason, c.Message = broker.CodeCancelled, "it ended"
	}
	if c.To == broker.JobRunning && rapid.Bool().Draw(rt, "tracked") {
		c.Tracking = &broker.Tracking{Handle: "h", Verb: "v", LastGood: now}
	}
	got, err := h.j.ChangeJob(context.Background(), id, c)
	want := h.m.change(id, c)
	if !errors.Is(err, want) {
		rt.Fatalf("change of %s to %s: error %v, want %v", id, c.To, err, want)
	}
	if (want == nil || errors.Is(want, broker.ErrJobFinal)) && !same(got, h.m.jobs[id]) {
		rt.Fatalf("change of %s to %s gave\n%+v\nwant\n%+v", id, c.To, got, h.m.jobs[id])
	}
}

func (h *history) list(rt *rapid.T) {
	f := broker.JobFilter{
		User:       rapid.SampledFrom([]string{"", "u"}).Draw(rt, "user"),
		Operation:  rapid.SampledFrom([]string{"", "op"}).Draw(rt, "operation"),
		Status:     rapid.SampledFrom([]broker.JobStatus{"", broker.JobRunning, broker.JobFailed}).Draw(rt, "status"),
		Unfinished: rapid.Bool().Draw(rt, "unfinished"),
		Limit:      rapid.IntRange(0, 4).Draw(rt, "limit"), Offset: rapid.IntRange(0, 4).Draw(rt, "offset"),
	}
	page, err := h.j.Jobs(f)
	want, total := h.m.list(f)
	if err != nil || page.Total != total || page.Unreadable != 0 || !slices.Equal(ids(page.Jobs), want) {
		rt.Fatalf("list %+v gave %v of %d, error %v; want %v of %d", f, ids(page.Jobs), page.Total, err, want, total)
	}
}

func (h *history) prune(rt *rapid.T) {
	now := h.tick(rt)
	want := 0
	for id, j := range h.m.jobs {
		if j.CompletedAt != nil && now.Sub(*j.CompletedAt) >= 14*24*time.Hour {
			want++
			delete(h.m.jobs, id)
		}
	}
	if n, err := h.j.Prune(context.Background(), now, 0); err != nil || n != want {
		rt.Fatalf("pruned %d, error %v; want %d", n, err, want)
	}
}

func (h *history) restart(rt *rapid.T) {
	if err := h.j.Close(); err != nil {
		rt.Fatalf("close: %v", err)
	}
	h.start(rt)
	now := h.tick(rt)
	var tracked []string
	lost := 0
	unfinished, _ := h.m.list(broker.JobFilter{Unfinished: true})
	slices.Reverse(unfinished) // oldest first, as events are compared in order
	for _, id := range unfinished {
		if h.m.jobs[id].Tracking != nil {
			tracked = append(tracked, id)
			continue
		}
		c := broker.LostOnRestart(now)
		if err := h.m.change(id, c); err != nil {
			rt.Fatalf("model: %v", err)
		}
		lost++
	}
	slices.Reverse(tracked)
	got, err := h.j.Recover(context.Background(), now)
	if err != nil || got.Lost != lost || got.OrphanFiles != 0 || !slices.Equal(ids(got.Tracked), tracked) {
		rt.Fatalf("recovered %d lost, %d orphans, tracked %v, error %v; want %d, tracked %v", got.Lost, got.OrphanFiles, ids(got.Tracked), err, lost, tracked)
	}
}

// invariant holds after every step.
func (h *history) invariant(rt *rapid.T) {
	id := h.anyID(rt)
	got, err := h.j.Job(id)
	want, ok := h.m.jobs[id]
	if ok != (err == nil) || (ok && !same(got, want)) || (!ok && !errors.Is(err, broker.ErrJobNotFound)) {
		rt.Fatalf("%s reads %+v, error %v; want %+v", id, got, err, want)
	}
}

// sound compares what is left with the model as a whole.
func (h *history) sound(rt *rapid.T) {
	events, err := h.j.Events("", 10_000)
	var got []string
	for _, e := range events {
		id, _, _ := strings.Cut(e.Message, ": ")
		got = append(got, id)
	}
	// Events end 90 days after they were written, oldest first.
	if n := len(h.m.ended) - len(got); err != nil || n < 0 || !slices.Equal(got, h.m.ended[n:]) {
		rt.Fatalf("events tell of %v, error %v; want %v", got, err, h.m.ended)
	}
	if s, err := h.j.Stats(); err != nil || s.DroppedLate != h.m.dropped || s.Unreadable != 0 {
		rt.Fatalf("stats %+v, error %v; want %d dropped", s, err, h.m.dropped)
	}
	problems, err := h.j.Check(context.Background())
	if err != nil || len(problems) != 0 {
		rt.Fatalf("check: %v, error %v", problems, err)
	}
}
