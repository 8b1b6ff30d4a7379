package journal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

// TestAClockThatGoesBackLosesNothing: ids of events grow whatever the clock says,
// over a restart too, so who reads from a cursor misses none; nothing is pruned
// that is not old, and what is read is sound.
func TestAClockThatGoesBackLosesNothing(t *testing.T) {
	var now atomic.Pointer[time.Time]
	set := func(t time.Time) { now.Store(&t) }
	path := newPath(t)
	open := func() *journal.Journal {
		j, err := journal.Open(path, journal.Options{Now: func() time.Time { return *now.Load() }})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	set(begin)
	j := open()
	cursor, ids := broker.FirstCursor, []string{}
	happens := func() {
		t.Helper()
		if err := j.AppendEvent(context.Background(), broker.Event{EventType: "note.made"}); err != nil {
			t.Fatal(err)
		}
		run, err := j.EventsAfter(cursor, 10, 1<<20)
		if err != nil || len(run.Events) != 1 {
			t.Fatalf("after %s there are %d events, %v", cursor, len(run.Events), err)
		}
		cursor = run.Events[0].ID
		ids = append(ids, cursor)
	}
	happens()
	finish(t, j, 1, `{"a":1}`)
	for _, at := range []time.Time{begin.Add(-48 * time.Hour), begin.Add(-time.Second), begin.Add(3 * 365 * 24 * time.Hour), begin, begin.Add(-20 * 365 * 24 * time.Hour)} {
		set(at)
		happens()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open()
		happens()
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Errorf("%s follows %s", ids[i], ids[i-1])
		}
	}
	if got, err := j.Job("job_1"); err != nil || got.Status != broker.JobSucceeded {
		t.Errorf("%+v, %v", got, err)
	}
	if problems, err := j.Check(context.Background()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
