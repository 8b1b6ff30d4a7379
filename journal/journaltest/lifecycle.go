package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

func testLifecycle(t *testing.T, e Engine) {
	t.Run("each step is returned as it can be read", func(t *testing.T) {
		r := open(t, e, Faults{})
		j := newJob(1)
		j.ObjectiveID, j.VesselID, j.Session, j.CallID, j.Limit = "obj_1", "vsl_1", "s", "c", time.Hour
		j.SubmittedAt = j.SubmittedAt.In(time.FixedZone("elsewhere", 7200)).Add(123456789)
		steps := []func() broker.Job{
			func() broker.Job { return r.create(j) },
			func() broker.Job {
				c := running(after(2 * time.Second))
				c.RuntimeID = "incarnation"
				return r.change(j.ID, c)
			},
			func() broker.Job {
				c := running(after(3 * time.Second))
				c.Tracking = &broker.Tracking{Handle: "h", Verb: "job_status", LastGood: after(3 * time.Second)}
				return r.change(j.ID, c)
			},
			func() broker.Job {
				c := failed(after(4*time.Second), "it <broke> & \xff burned")
				c.Reason, c.Refusal = broker.CodeOutcomeUnknown, json.RawMessage(`{"Error":"<x>"}`)
				c.Result, c.ResultIsError = json.RawMessage(`{"n":9007199254740993, "s":"<a>"}`), true
				return r.change(j.ID, c)
			},
		}
		for i, step := range steps {
			got, stored := step(), r.read(j.ID)
			if !same(got, stored) {
				t.Errorf("step %d returned\n%+v\nand stored\n%+v", i, got, stored)
			}
		}
		before := r.read(j.ID)
		r.reopen(Faults{})
		got := r.read(j.ID)
		if !same(got, before) {
			t.Errorf("after a restart\n%+v\nbefore it\n%+v", got, before)
		}
		if got.Status != broker.JobFailed || !got.SubmittedAt.Equal(j.SubmittedAt) || !got.StartedAt.Equal(after(2*time.Second)) ||
			got.RuntimeID != "incarnation" || got.Tracking.Handle != "h" || got.Limit != time.Hour || got.VesselID != "vsl_1" ||
			string(got.Result) != `{"n":9007199254740993, "s":"<a>"}` || !got.ResultIsError {
			t.Errorf("the record lost something: %+v", got)
		}
	})
	t.Run("a promoted call begins Running", func(t *testing.T) {
		r := open(t, e, Faults{})
		j := newJob(1)
		at := after(time.Minute)
		j.Status, j.StartedAt, j.Promoted = broker.JobRunning, &at, true
		r.create(j)
		if got := r.read(j.ID); got.Status != broker.JobRunning || !got.StartedAt.Equal(at) {
			t.Errorf("stored %+v", got)
		}
	})
	t.Run("every step that is not in the table is refused and changes nothing", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(newJob(1))
		for _, to := range []broker.JobStatus{broker.JobAccepted, broker.JobSucceeded, "Paused", ""} {
			_, err := r.ChangeJob(context.Background(), "job_0001", broker.JobChange{To: to, At: epoch})
			wantError(t, err, broker.ErrJobStep)
		}
		if got := r.read("job_0001"); got.Status != broker.JobAccepted {
			t.Errorf("stored %+v", got)
		}
	})
	t.Run("a late outcome is dropped, counted and answered with the record", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(newJob(1))
		r.change("job_0001", running(after(time.Second)))
		first := r.change("job_0001", succeeded(after(2*time.Second), `{"first":1}`))
		for i, late := range []broker.JobChange{
			failed(after(3*time.Second), "late"), running(after(3 * time.Second)),
			succeeded(after(3*time.Second), `"`+strings.Repeat("x", 2<<20)+`"`), broker.LostOnRestart(after(3 * time.Second)),
		} {
			got, err := r.ChangeJob(context.Background(), "job_0001", late)
			wantError(t, err, broker.ErrJobFinal)
			if !same(got, first) || !same(r.read("job_0001"), first) {
				t.Errorf("late change %d gave %+v", i, got)
			}
			if n := r.dropped(); n != uint64(i+1) {
				t.Errorf("after late change %d, %d are counted", i, n)
			}
		}
		r.reopen(Faults{})
		if n := r.dropped(); n != 4 {
			t.Errorf("after a restart %d are counted", n)
		}
		if got := r.events(broker.EventJobFailed, broker.EventJobLost); len(got) != 0 {
			t.Errorf("a dropped outcome wrote events: %+v", got)
		}
	})
	t.Run("an id that was never there is not found", func(t *testing.T) {
		r := open(t, e, Faults{})
		_, err := r.Job("job_none")
		wantError(t, err, broker.ErrJobNotFound)
		_, err = r.ChangeJob(context.Background(), "job_none", running(epoch))
		wantError(t, err, broker.ErrJobNotFound)
	})
}

func testIdempotency(t *testing.T, e Engine) {
	keyed := func(n int, user, digest string) broker.Job {
		j := newJob(n)
		j.User, j.IdempotencyKey, j.Digest = user, "key", digest
		return j
	}
	t.Run("the same key and digest give the first job as it now stands", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(keyed(1, "a", "d"))
		r.change("job_0001", running(epoch))
		want := r.change("job_0001", succeeded(epoch, `{"answer":42}`))
		for range 2 {
			got, created, err := r.CreateJob(context.Background(), keyed(2, "a", "d"))
			if err != nil || created || !same(got, want) {
				t.Errorf("got %+v, created %v, error %v", got, created, err)
			}
			r.reopen(Faults{})
		}
		_, err := r.Job("job_0002")
		wantError(t, err, broker.ErrJobNotFound)
	})
	t.Run("a large result comes with the replay", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(keyed(1, "a", "d"))
		r.change("job_0001", running(epoch))
		big := `"` + strings.Repeat("y", 3<<20) + `"`
		r.change("job_0001", succeeded(epoch, big))
		got, _, err := r.CreateJob(context.Background(), keyed(2, "a", "d"))
		if err != nil || string(got.Result) != big {
			t.Errorf("got %d bytes, error %v", len(got.Result), err)
		}
	})
	t.Run("another digest is a conflict that names the job", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(keyed(1, "a", "d"))
		_, created, err := r.CreateJob(context.Background(), keyed(2, "a", "other"))
		var refusal *broker.Refusal
		if !errors.As(err, &refusal) || created || refusal.Code != broker.CodeIdempotencyConflict || refusal.Detail["JobId"] != "job_0001" {
			t.Errorf("created %v, error %v", created, err)
		}
	})
	t.Run("the scope is the principal", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(keyed(1, "a", "d"))
		r.create(keyed(2, "b", "d"))
		// Scopes and keys that are equal when they are only joined.
		a, b := newJob(3), newJob(4)
		a.User, a.IdempotencyKey = "a", "bkey"
		b.User, b.IdempotencyKey = "ab", "key"
		r.create(a)
		r.create(b)
	})
	t.Run("a refused creation uses up no key", func(t *testing.T) {
		r := open(t, e, Faults{})
		bad := keyed(1, "a", "d")
		bad.ID = "../job"
		if _, _, err := r.CreateJob(context.Background(), bad); err == nil {
			t.Error("a bad id was accepted")
		}
		r.create(keyed(2, "a", "other"))
	})
	t.Run("the key goes with the record", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.finish(keyed(1, "a", "d"), epoch)
		if n, err := r.Prune(context.Background(), epoch.Add(broker.Retention), 0); n != 1 || err != nil {
			t.Fatalf("pruned %d, error %v", n, err)
		}
		r.create(keyed(2, "a", "other"))
	})
	t.Run("of many callers with one key one creates", func(t *testing.T) {
		r := open(t, e, Faults{})
		const n = 50
		type answer struct {
			id      string
			created bool
			err     error
		}
		answers := make(chan answer, n)
		for i := range n {
			go func() {
				j, created, err := r.CreateJob(context.Background(), keyed(i, "a", "d"))
				answers <- answer{j.ID, created, err}
			}()
		}
		creators, named := 0, map[string]bool{}
		for range n {
			a := <-answers
			if a.err != nil {
				t.Errorf("error %v", a.err)
			}
			if a.created {
				creators++
			}
			named[a.id] = true
		}
		if creators != 1 || len(named) != 1 {
			t.Errorf("%d created, and the answers name %d jobs", creators, len(named))
		}
	})
}

func testRefusals(t *testing.T, e Engine) {
	at := epoch
	for _, tt := range []struct {
		name string
		edit func(*broker.Job)
	}{
		{"no id", func(j *broker.Job) { j.ID = "" }},
		{"an id that is a path", func(j *broker.Job) { j.ID = "../../etc/passwd" }},
		{"an id without end", func(j *broker.Job) { j.ID = strings.Repeat("a", 65) }},
		{"no time", func(j *broker.Job) { j.SubmittedAt = time.Time{} }},
		{"a final status", func(j *broker.Job) { j.Status, j.CompletedAt = broker.JobSucceeded, &at }},
		{"an unknown status", func(j *broker.Job) { j.Status = "Paused" }},
		{"running without a start", func(j *broker.Job) { j.Status = broker.JobRunning }},
		{"a result", func(j *broker.Job) { j.Result = json.RawMessage(`{}`) }},
		{"a user that is not UTF-8", func(j *broker.Job) { j.User = "\xff" }},
		{"a key without end", func(j *broker.Job) { j.IdempotencyKey = strings.Repeat("k", 40_000) }},
		{"a record without end", func(j *broker.Job) { j.ObjectiveID = strings.Repeat("o", 2<<20) }},
		{"a refusal that is not JSON", func(j *broker.Job) { j.Refusal = json.RawMessage(`{`) }},
	} {
		t.Run("a new record with "+tt.name, func(t *testing.T) {
			r := open(t, e, Faults{})
			j := newJob(1)
			tt.edit(&j)
			if _, _, err := r.CreateJob(context.Background(), j); err == nil {
				t.Error("it was accepted")
			}
			r.wantIDs(broker.JobFilter{}, 0)
		})
	}
	t.Run("an id that is taken", func(t *testing.T) {
		r := open(t, e, Faults{})
		first := r.create(newJob(1))
		other := newJob(1)
		other.User = "other"
		if _, _, err := r.CreateJob(context.Background(), other); err == nil {
			t.Error("it was accepted")
		}
		if got := r.read(first.ID); !same(got, first) {
			t.Errorf("the first is now %+v", got)
		}
	})
	t.Run("an outcome that cannot be stored", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.create(newJob(1))
		for name, c := range map[string]broker.JobChange{
			"no time":               {To: broker.JobRunning},
			"a result not JSON":     {To: broker.JobFailed, At: at, Result: json.RawMessage("{")},
			"a refusal not JSON":    {To: broker.JobFailed, At: at, Refusal: json.RawMessage("nope")},
			"a refusal without end": {To: broker.JobFailed, At: at, Refusal: json.RawMessage(`"` + strings.Repeat("r", 2<<20) + `"`)},
		} {
			if _, err := r.ChangeJob(context.Background(), "job_0001", c); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		if got := r.read("job_0001"); got.Status != broker.JobAccepted {
			t.Errorf("the record is now %+v", got)
		}
	})
}
