package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

func testLists(t *testing.T, e Engine) {
	r := open(t, e, Faults{})
	// Two share a time of submission, so that the id decides.
	for n := range 9 {
		j := newJob(n)
		if n == 5 {
			j.SubmittedAt = after(4 * time.Second)
		}
		if n%2 == 1 {
			j.User, j.Operation = "other", "backend__rest"
		}
		r.create(j)
	}
	r.change("job_0001", running(epoch))
	r.change("job_0002", running(epoch))
	r.change("job_0002", succeeded(after(time.Hour), `{"big":"thing"}`))
	r.change("job_0003", failed(after(2*time.Hour), "no"))
	all := []string{"job_0008", "job_0007", "job_0006", "job_0005", "job_0004", "job_0003", "job_0002", "job_0001", "job_0000"}
	for _, tt := range []struct {
		name   string
		filter broker.JobFilter
		total  int
		want   []string
	}{
		{"everything, newest first, then id descending", broker.JobFilter{}, 9, all},
		{"first page", broker.JobFilter{Limit: 3}, 9, all[:3]},
		{"a page in between", broker.JobFilter{Limit: 3, Offset: 3}, 9, all[3:6]},
		{"last page", broker.JobFilter{Limit: 5, Offset: 7}, 9, all[7:]},
		{"beyond the end", broker.JobFilter{Limit: 5, Offset: 20}, 9, nil},
		{"rest without a limit", broker.JobFilter{Offset: 7}, 9, all[7:]},
		{"unfinished", broker.JobFilter{Unfinished: true}, 7, slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == "job_0002" || id == "job_0003" })},
		{"unfinished page", broker.JobFilter{Unfinished: true, Limit: 1, Offset: 5}, 7, []string{"job_0001"}},
		{"running", broker.JobFilter{Status: broker.JobRunning}, 1, []string{"job_0001"}},
		{"succeeded", broker.JobFilter{Status: broker.JobSucceeded}, 1, []string{"job_0002"}},
		{"user", broker.JobFilter{User: "other", Limit: 2}, 4, []string{"job_0007", "job_0005"}},
		{"tenant", broker.JobFilter{Tenant: "another"}, 0, nil},
		{"operation", broker.JobFilter{Operation: "backend__rest", Unfinished: true}, 3, []string{"job_0007", "job_0005", "job_0001"}},
		{"completed by", broker.JobFilter{CompletedBy: after(time.Hour)}, 1, []string{"job_0002"}},
		{"completed after", broker.JobFilter{CompletedAfter: after(90 * time.Minute)}, 1, []string{"job_0003"}},
		{"submitted after", broker.JobFilter{SubmittedAfter: after(7 * time.Second)}, 2, []string{"job_0008", "job_0007"}},
		{"submitted before", broker.JobFilter{SubmittedBefore: after(time.Second)}, 1, []string{"job_0000"}},
		{"vessel", broker.JobFilter{VesselID: "vsl_1"}, 0, nil},
		{"one is past its retention", broker.JobFilter{KeptAt: after(broker.Retention + time.Hour), Limit: 2, Offset: 5}, 8, []string{"job_0003", "job_0001"}},
		{"one is not yet", broker.JobFilter{KeptAt: after(broker.Retention + time.Hour - 1), Status: broker.JobSucceeded}, 1, []string{"job_0002"}},
		{"all final ones are", broker.JobFilter{KeptAt: after(2 * broker.Retention), User: "operator"}, 4, []string{"job_0008", "job_0006", "job_0004", "job_0000"}},
		{"text of the reason, in any letter case", broker.JobFilter{Text: "OPERATION_FAILED"}, 1, []string{"job_0003"}},
		{"text of the id", broker.JobFilter{Text: "b_0007"}, 1, []string{"job_0007"}},
		{"text that nothing has", broker.JobFilter{Text: "nothing like it"}, 0, nil},
		{"brief: one more than the page is counted", broker.JobFilter{Brief: true, Limit: 3, Offset: 2}, 6, all[2:5]},
		{"brief, the last page", broker.JobFilter{Brief: true, Limit: 5, Offset: 7}, 9, all[7:]},
		{"at most so many are visited", broker.JobFilter{Visit: 4, Operation: "backend__rest"}, 2, []string{"job_0007", "job_0005"}},
		{"nothing can be both", broker.JobFilter{Status: broker.JobFailed, Unfinished: true}, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			r.wantIDs(tt.filter, tt.total, tt.want...)
		})
	}
	r.t = t
	t.Run("a list that was ended says so", func(t *testing.T) {
		for visit, want := range map[int]bool{4: true, 9: false, 10: false, 0: false} {
			if page := r.list(broker.JobFilter{Visit: visit}); page.Capped != want {
				t.Errorf("of at most %d: %v", visit, page.Capped)
			}
		}
	})
	t.Run("a record is read without its result", func(t *testing.T) {
		j, err := r.JobWithoutResult("job_0002")
		if err != nil || j.Result != nil || j.ResultBytes == 0 || j.Status != broker.JobSucceeded {
			t.Errorf("read %+v, %v", j, err)
		}
		if _, err := r.JobWithoutResult("job_none"); !errors.Is(err, broker.ErrJobNotFound) {
			t.Errorf("of none: %v", err)
		}
	})
	t.Run("a list has no results and knows their size", func(t *testing.T) {
		page := r.list(broker.JobFilter{Status: broker.JobSucceeded})
		if j := page.Jobs[0]; j.Result != nil || j.ResultBytes != int64(len(`{"big":"thing"}`)) {
			t.Errorf("listed %+v", j)
		}
	})
	t.Run("a list longer than one read transaction has every record once", func(t *testing.T) {
		r := open(t, e, Faults{QueueLimit: 4096})
		const n = 1300
		var jobs []broker.Job
		for i := range n {
			jobs = append(jobs, newJob(i))
		}
		r.createAll(jobs)
		var want []string
		for i := n - 1; i >= 0; i-- {
			want = append(want, newJob(i).ID)
		}
		for _, f := range []broker.JobFilter{{}, {Unfinished: true}, {User: "operator"}} {
			r.wantIDs(f, n, want...)
		}
		r.wantIDs(broker.JobFilter{Offset: 1100, Limit: 2}, n, want[1100:1102]...)
	})
}

func testEvents(t *testing.T, e Engine) {
	t.Run("each bad end has one event, on its objective when there is one", func(t *testing.T) {
		r := open(t, e, Faults{})
		for n := range 4 {
			j := newJob(n)
			if n == 2 {
				j.ObjectiveID = "obj_1"
			}
			r.create(j)
			r.change(j.ID, running(epoch))
		}
		r.change("job_0000", succeeded(epoch, `{}`))
		r.change("job_0001", failed(after(time.Second), "broke"))
		r.change("job_0002", failed(after(time.Second), "broke too"))
		r.change("job_0003", broker.LostOnRestart(after(time.Second)))
		got := r.events(broker.EventJobFailed, broker.EventJobLost)
		want := []struct{ kind, entity, id, message string }{
			{broker.EventJobFailed, "job", "job_0001", "job_0001: broke"},
			{broker.EventJobFailed, "objective", "obj_1", "job_0002: broke too"},
			{broker.EventJobLost, "job", "job_0003", "job_0003: job_lost_on_restart"},
		}
		if len(got) != len(want) {
			t.Fatalf("events: %+v", got)
		}
		for i, w := range want {
			e := got[i]
			if e.EventType != w.kind || e.EntityType != w.entity || e.EntityID != w.id || !strings.HasPrefix(e.Message, w.message) ||
				e.TenantID != "default" || !strings.HasPrefix(e.ID, broker.EventPrefix) || len(e.ID) != 24 {
				t.Errorf("event %d: %+v", i, e)
			}
		}
	})
	t.Run("ids grow though the clock stands or goes back, also over a restart", func(t *testing.T) {
		now := epoch
		f := Faults{Now: func() time.Time { return now }}
		r := open(t, e, f)
		var want []string
		for n := range 60 {
			if n == 20 {
				r.Close()
				now = now.Add(-time.Hour)
				r.start(f)
			}
			e := broker.Event{EventType: "note", Message: fmt.Sprint(n), Payload: json.RawMessage(`{"a":"<b>"}`)}
			if err := r.AppendEvent(context.Background(), e); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint(n))
		}
		var got []string
		for cursor := ""; ; {
			page, err := r.Events(cursor, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.Message)
			}
			cursor = page[len(page)-1].ID
		}
		if !slices.Equal(got, want) {
			t.Errorf("read in pages: %v", got)
		}
	})
	t.Run("an event with an id, or without a type, is refused", func(t *testing.T) {
		r := open(t, e, Faults{})
		for _, e := range []broker.Event{{ID: "evt_1", EventType: "note"}, {}} {
			if err := r.AppendEvent(context.Background(), e); err == nil {
				t.Errorf("%+v was accepted", e)
			}
		}
	})
}

func testRestart(t *testing.T, e Engine) {
	r := open(t, e, Faults{})
	const unfinished = 700 // more than one group
	for n := range 10 {
		r.finish(newJob(10_000+n), epoch)
	}
	var jobs []broker.Job
	for n := range unfinished {
		jobs = append(jobs, newJob(n))
	}
	r.createAll(jobs)
	var started []<-chan outcome
	for n := 0; n < unfinished; n += 2 {
		started = append(started, r.goChange(context.Background(), newJob(n).ID, running(after(time.Minute))))
	}
	r.wantDone(started)
	for _, id := range []string{"job_0004", "job_0010"} {
		c := running(after(time.Minute))
		c.Tracking = &broker.Tracking{Handle: "h-" + id, Verb: "job_status", LastGood: after(time.Minute)}
		r.change(id, c)
	}
	r.reopen(Faults{})
	at := after(time.Hour)
	got, err := r.Recover(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != unfinished-2 || !slices.Equal(ids(got.Tracked), []string{"job_0010", "job_0004"}) || got.Unreadable != 0 {
		t.Errorf("recovered %d lost, tracked %v, %d unreadable", got.Lost, ids(got.Tracked), got.Unreadable)
	}
	lost := r.read("job_0002")
	if lost.Status != broker.JobLost || lost.Reason != broker.CodeJobLostOnRestart || !lost.StartedAt.Equal(after(time.Minute)) || !lost.CompletedAt.Equal(at) {
		t.Errorf("a lost job reads %+v", lost)
	}
	r.wantIDs(broker.JobFilter{Unfinished: true}, 2, "job_0010", "job_0004")
	if n := r.list(broker.JobFilter{Status: broker.JobSucceeded}).Total; n != 10 {
		t.Errorf("%d succeeded jobs are left", n)
	}
	events := len(r.events(broker.EventJobLost))
	r.reopen(Faults{})
	again, err := r.Recover(context.Background(), at)
	if err != nil || again.Lost != 0 || len(again.Tracked) != 2 {
		t.Errorf("a second restart: %+v, error %v", again, err)
	}
	if n := len(r.events(broker.EventJobLost)); events != unfinished-2 || n != events {
		t.Errorf("%d events after the first restart, %d after the second", events, n)
	}
}

func testRetention(t *testing.T, e Engine) {
	r := open(t, e, Faults{Now: func() time.Time { return epoch }})
	ctx := context.Background()
	r.create(newJob(0)) // unfinished: never pruned
	for n := 1; n <= 5; n++ {
		r.finish(newJob(n), after(time.Duration(n)*time.Hour))
	}
	r.create(newJob(6))
	r.change("job_0006", failed(after(6*time.Hour), "x"))
	now := after(3 * time.Hour).Add(broker.Retention)
	if n, err := r.Prune(ctx, now.Add(-1), 1); n != 1 || err != nil {
		t.Errorf("a limit of one pruned %d, error %v", n, err)
	}
	r.wantIDs(broker.JobFilter{Limit: 3, Offset: 3}, 6, "job_0003", "job_0002", "job_0000")
	if n, err := r.Prune(ctx, now.Add(-1), 0); n != 1 || err != nil {
		t.Errorf("just before the third is due, pruned %d, error %v", n, err)
	}
	if n, err := r.Prune(ctx, now, 0); n != 1 || err != nil {
		t.Errorf("when the third is due, pruned %d, error %v", n, err)
	}
	r.wantIDs(broker.JobFilter{}, 4, "job_0006", "job_0005", "job_0004", "job_0000")
	_, err := r.Job("job_0003")
	wantError(t, err, broker.ErrJobNotFound)
	if n, err := r.Prune(ctx, after(30*24*time.Hour), 0); n != 3 || err != nil {
		t.Errorf("pruned %d, error %v", n, err)
	}
	r.wantIDs(broker.JobFilter{}, 1, "job_0000")
	if n := len(r.events(broker.EventJobFailed)); n != 1 {
		t.Errorf("%d events; one has to outlive its job", n)
	}
	if _, err := r.Prune(ctx, after(91*24*time.Hour), 0); err != nil {
		t.Error(err)
	}
	if n := len(r.events(broker.EventJobFailed)); n != 0 {
		t.Errorf("%d events are left after 90 days", n)
	}
}

func testResults(t *testing.T, e Engine) {
	r := open(t, e, Faults{})
	for n, size := range []int{0, 2, 1 << 20, 1<<20 + 1, 5 << 20} {
		id := newJob(n).ID
		var result json.RawMessage
		if size > 0 {
			result = bytes.Repeat([]byte{'7'}, size)
		}
		r.create(newJob(n))
		r.change(id, running(epoch))
		r.change(id, broker.JobChange{To: broker.JobSucceeded, At: epoch, Result: result})
		if got := r.read(id); !bytes.Equal(got.Result, result) || got.ResultBytes != int64(size) {
			t.Errorf("a result of %d bytes came back with %d, known as %d", size, len(got.Result), got.ResultBytes)
		}
	}
	r.reopen(Faults{})
	if got := r.read("job_0004"); len(got.Result) != 5<<20 {
		t.Errorf("after a restart the result has %d bytes", len(got.Result))
	}
	if got, err := r.Recover(context.Background(), epoch); err != nil || got.OrphanFiles != 0 {
		t.Errorf("recovery took %d result files for orphans, error %v", got.OrphanFiles, err)
	}
	if n, err := r.Prune(context.Background(), epoch.Add(broker.Retention), 0); n != 5 || err != nil {
		t.Errorf("pruned %d, error %v", n, err)
	}
	if s, err := r.Stats(); err != nil || s.ResultFiles != 0 {
		t.Errorf("%d result files are left, error %v", s.ResultFiles, err)
	}
}

func testWatch(t *testing.T, e Engine) {
	r := open(t, e, Faults{})
	r.create(newJob(1))
	r.create(newJob(2))
	one, stop := r.Watch("job_0001")
	also, stopAlso := r.Watch("job_0001")
	defer stopAlso()
	signalled := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	r.change("job_0002", running(epoch))
	if signalled(one) {
		t.Error("a change of another job was signalled")
	}
	r.change("job_0001", running(epoch))
	r.change("job_0001", running(epoch))
	if !signalled(one) || !signalled(also) {
		t.Error("a change was not signalled to everyone before its caller knew")
	}
	if signalled(one) {
		t.Error("signals that were not taken did not melt into one")
	}
	if _, err := r.ChangeJob(context.Background(), "job_0001", broker.JobChange{To: broker.JobAccepted, At: epoch}); err == nil || signalled(one) {
		t.Error("a refused change was signalled")
	}
	stop()
	stop()
	r.change("job_0001", failed(epoch, "x"))
	if signalled(one) || !signalled(also) {
		t.Error("after the end of one watch, it was signalled or the other was not")
	}
}

func testCatalogs(t *testing.T, e Engine) {
	r := open(t, e, Faults{})
	raw := json.RawMessage("{\"name\" : \"a\",\n \"x\":1.0e5, \"s\":\"<\\u00e9>\"}")
	want := broker.StoredCatalog{Backend: "b", Origin: "o", At: epoch, Tools: []broker.Tool{{Name: "a", Raw: raw}}, Told: []string{"k"}, Costs: map[string]int{"d": 7},
		Server: broker.ServerInfo{ProtocolVersion: "2025-11-25", Info: json.RawMessage(`{ "name":"b" }`), Instructions: "do"}}
	for _, c := range []broker.StoredCatalog{{Backend: "b", At: epoch}, {Backend: "a", At: epoch}, want} {
		if err := r.SaveCatalog(context.Background(), c, broker.Event{EventType: "kept", EntityID: c.Backend, CreatedAt: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SaveCatalog(context.Background(), broker.StoredCatalog{Backend: "c"}, broker.Event{}); err == nil {
		t.Error("an event without a type was written")
	}
	r.reopen(Faults{})
	got, err := r.Catalogs()
	if err != nil || len(got) != 2 || got[0].Backend != "a" {
		t.Fatalf("got %+v, error %v", got, err)
	}
	b := got[1]
	if b.Backend != "b" || !b.At.Equal(epoch) || len(b.Tools) != 1 || !bytes.Equal(b.Tools[0].Raw, raw) || len(b.Told) != 1 || b.Costs["d"] != 7 ||
		!bytes.Equal(b.Server.Info, want.Server.Info) || b.Server.Instructions != "do" || b.Server.ProtocolVersion != "2025-11-25" {
		t.Errorf("got %+v", b)
	}
	if err := r.SaveCatalog(context.Background(), broker.StoredCatalog{}); err == nil {
		t.Error("a catalog of nobody was accepted")
	}
	if events, err := r.Events("", 0); err != nil || len(events) != 3 || events[1].EntityID != "a" {
		t.Errorf("the events of the catalogs: %+v, error %v", events, err)
	}
}
