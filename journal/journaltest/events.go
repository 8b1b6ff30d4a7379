package journaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/journal"
)

// happened is an event of a test's own.
func happened(n int) broker.Event {
	return broker.Event{EventType: []string{"note.a", "note.b", "note.\"c\""}[n%3], EntityType: "note", EntityID: fmt.Sprint(n / 3),
		MissionID: []string{"", "msn_1"}[n%2], Message: fmt.Sprint(n), CreatedAt: after(time.Duration(n) * time.Second)}
}

func eventIDs(events []broker.Event) []string {
	out := make([]string, 0, len(events))
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

func testEventLists(t *testing.T, e Engine) {
	t.Run("the whole shape comes back", func(t *testing.T) {
		r := open(t, e, Faults{})
		want := broker.Event{EventType: "mission.created", EntityType: "mission", EntityID: "msn_1", TenantID: "acme", CaptainID: "cpt_1",
			MissionID: "msn_1", VesselID: "vsl_1", VoyageID: "vyg_1", Message: "<made>", Payload: json.RawMessage(`{"a":"<b>"}`), CreatedAt: epoch}
		if err := r.AppendEvent(context.Background(), want); err != nil {
			t.Fatal(err)
		}
		got := r.events()[0]
		want.ID = got.ID
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("pages and runs are what a model says", func(t *testing.T) {
		r := open(t, e, Faults{})
		const many = 700 // more than one read transaction visits
		for n := range many {
			if err := r.AppendEvent(context.Background(), happened(n)); err != nil {
				t.Fatal(err)
			}
		}
		model, err := r.Events("", many)
		if err != nil || len(model) != many {
			t.Fatalf("%d events, %v", len(model), err)
		}
		rapid.Check(t, func(t *rapid.T) { checkEventPage(t, r, model) })
		rapid.Check(t, func(t *rapid.T) { checkEventRun(t, r, model) })
	})
	t.Run("an empty journal has a cursor too", func(t *testing.T) {
		r := open(t, e, Faults{})
		page, err := r.EventsPage(broker.EventQuery{})
		if err != nil || page.Cursor != broker.FirstCursor || page.Total != 0 {
			t.Fatalf("%+v, %v", page, err)
		}
		if err := r.AppendEvent(context.Background(), happened(0)); err != nil {
			t.Fatal(err)
		}
		run, err := r.EventsAfter(page.Cursor, 10, 1<<20)
		if err != nil || len(run.Events) != 1 || run.Last != run.Events[0].ID || run.More {
			t.Errorf("%+v, %v", run, err)
		}
	})
	t.Run("a commit with an event is signalled, one without is not", func(t *testing.T) {
		r := open(t, e, Faults{})
		changed, stop := r.WatchEvents()
		defer stop()
		signalled := func() bool {
			select {
			case <-changed:
				return true
			default:
				return false
			}
		}
		r.create(newJob(1))
		r.change("job_0001", running(epoch))
		if signalled() {
			t.Error("a change without an event was signalled")
		}
		r.change("job_0001", failed(after(time.Second), "broke"))
		if !signalled() {
			t.Error("an end with its event was not signalled")
		}
		if _, err := r.Put(context.Background(), broker.RecordChange{Kind: "note", ID: "a", Value: json.RawMessage("1"), Events: []broker.Event{happened(1)}}); err != nil || !signalled() {
			t.Errorf("a record's event was not signalled (%v)", err)
		}
	})
}

func checkEventPage(t *rapid.T, r *rig, model []broker.Event) {
	q := broker.EventQuery{
		EventType:   rapid.SampledFrom([]string{"", "", "note.a", "note.\"c\"", "note.none"}).Draw(t, "type"),
		EntityID:    rapid.SampledFrom([]string{"", "", "7"}).Draw(t, "entity"),
		MissionID:   rapid.SampledFrom([]string{"", "msn_1"}).Draw(t, "mission"),
		OldestFirst: rapid.Bool().Draw(t, "oldest first"),
		Limit:       rapid.IntRange(0, 50).Draw(t, "limit"),
		Offset:      rapid.IntRange(0, 720).Draw(t, "offset"),
	}
	if rapid.Bool().Draw(t, "after") {
		q.CreatedAfter = after(time.Duration(rapid.IntRange(0, 700).Draw(t, "at")) * time.Second)
	}
	if rapid.Bool().Draw(t, "before") {
		q.CreatedBefore = after(time.Duration(rapid.IntRange(0, 700).Draw(t, "until")) * time.Second)
	}
	var want []string
	for _, e := range model {
		if q.Match(e) {
			want = append(want, e.ID)
		}
	}
	if !q.OldestFirst {
		slices.Reverse(want)
	}
	total := len(want)
	want = want[min(q.Offset, len(want)):]
	if q.Limit > 0 {
		want = want[:min(q.Limit, len(want))]
	}
	page, err := r.EventsPage(q)
	if err != nil {
		t.Fatal(err)
	}
	if page.Total != total || !slices.Equal(eventIDs(page.Events), want) || page.Cursor != model[len(model)-1].ID {
		t.Errorf("%+v: total %d, want %d; cursor %s; %v, want %v", q, page.Total, total, page.Cursor, eventIDs(page.Events), want)
	}
}

func checkEventRun(t *rapid.T, r *rig, model []broker.Event) {
	from := rapid.IntRange(0, len(model)-1).Draw(t, "from")
	limit, size := rapid.IntRange(1, 200).Draw(t, "limit"), rapid.IntRange(1, 20_000).Draw(t, "size")
	run, err := r.EventsAfter(model[from].ID, limit, size)
	if err != nil {
		t.Fatal(err)
	}
	rest := eventIDs(model[from+1:])
	n := len(run.Events)
	switch {
	case n > limit || !slices.Equal(eventIDs(run.Events), rest[:n]):
		t.Errorf("%d events after %d: %v", n, from, eventIDs(run.Events))
	case n == 0 && len(rest) > 0:
		t.Error("nothing was given though something is there")
	case run.More != (n < len(rest)) || run.Last != model[len(model)-1].ID:
		t.Errorf("more %v, last %s after %d of %d", run.More, run.Last, n, len(rest))
	}
}

func testEventDeletion(t *testing.T, e Engine) {
	fill := func(t *testing.T, r *rig, n int) []broker.Event {
		for i := range n {
			if err := r.AppendEvent(context.Background(), happened(i)); err != nil {
				t.Fatal(err)
			}
		}
		return r.events()
	}
	t.Run("what is deleted is told of, and is gone from every list", func(t *testing.T) {
		r := open(t, e, Faults{})
		all := eventIDs(fill(t, r, 5))
		changed, stop := r.WatchEvents()
		defer stop()
		gone, err := r.DeleteEvents(context.Background(), []string{all[4], "evt_none", all[1], all[4], ""})
		if err != nil || !slices.Equal(gone, []string{all[4], all[1]}) {
			t.Fatalf("%v, %v", gone, err)
		}
		select {
		case <-changed:
		default:
			t.Error("the deletion was not signalled")
		}
		want := []string{all[0], all[2], all[3]}
		page, err := r.EventsPage(broker.EventQuery{OldestFirst: true})
		run, runErr := r.EventsAfter(broker.FirstCursor, 10, 1<<20)
		if err != nil || runErr != nil || !slices.Equal(eventIDs(page.Events), want) || page.Total != 3 || !slices.Equal(eventIDs(run.Events), want) || !slices.Equal(eventIDs(r.events()), want) {
			t.Errorf("%+v, %+v, %v, %v", page, run, err, runErr)
		}
		if page.Cursor != all[4] || run.Last != all[4] || run.More {
			t.Errorf("the cursor went back to %s, %s", page.Cursor, run.Last)
		}
		if gone, err := r.DeleteEvents(context.Background(), []string{all[4]}); err != nil || len(gone) != 0 {
			t.Errorf("deleted twice: %v, %v", gone, err)
		}
		if stats, err := r.Stats(); err != nil || stats.Events != 3 {
			t.Errorf("%+v, %v", stats, err)
		}
	})
	t.Run("the record that an event tells of does not change, and the journal stays sound", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(newJob(1))
		r.change("job_0001", failed(after(time.Second), "broke"))
		before := r.read("job_0001")
		if gone, err := r.DeleteEvents(context.Background(), eventIDs(r.events())); err != nil || len(gone) != 1 {
			t.Fatalf("%v, %v", gone, err)
		}
		if now := r.read("job_0001"); fmt.Sprintf("%+v", now) != fmt.Sprintf("%+v", before) {
			t.Errorf("the job became %+v", now)
		}
		r.reopen(Faults{})
		r.wantSound()
	})
	t.Run("a reserved row goes when an event of its age does, and ids go on growing", func(t *testing.T) {
		now := epoch
		f := Faults{Now: func() time.Time { return now }}
		r := open(t, e, f)
		all := eventIDs(fill(t, r, 3))
		if _, err := r.DeleteEvents(context.Background(), all); err != nil {
			t.Fatal(err)
		}
		now = now.Add(-time.Hour)
		r.reopen(f)
		if err := r.AppendEvent(context.Background(), happened(9)); err != nil {
			t.Fatal(err)
		}
		if next := r.events()[0].ID; strings.Compare(next, all[2]) <= 0 {
			t.Errorf("%s does not follow %s", next, all[2])
		}
		for _, tc := range []struct {
			after time.Duration
			want  string // the cursor of what is left
		}{{journal.EventRetention - time.Second, "kept"}, {journal.EventRetention + time.Minute, broker.FirstCursor}} {
			if _, err := r.Prune(context.Background(), epoch.Add(tc.after), 0); err != nil {
				t.Fatal(err)
			}
			page, err := r.EventsPage(broker.EventQuery{})
			if err != nil || (tc.want == broker.FirstCursor) != (page.Cursor == broker.FirstCursor) {
				t.Errorf("after %s the cursor is %s (%v)", tc.after, page.Cursor, err)
			}
		}
	})
	t.Run("a failed commit deletes nothing", func(t *testing.T) {
		fail := false
		r := open(t, e, Faults{Commit: func(commit func() error) error {
			if fail {
				return fmt.Errorf("the disk is full")
			}
			return commit()
		}})
		all := fill(t, r, 2)
		fail = true
		if gone, err := r.DeleteEvents(context.Background(), eventIDs(all)); err == nil || gone != nil {
			t.Errorf("%v, %v", gone, err)
		}
		fail = false
		if got := r.events(); len(got) != 2 {
			t.Errorf("%d events are left", len(got))
		}
	})
}
