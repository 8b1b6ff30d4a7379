package actors

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// alongside collects what is told live.
type alongside struct {
	mu     sync.Mutex
	events []broker.Event
}

func (a *alongside) take(e broker.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

// told gives the messages of a type.
func (a *alongside) told(eventType string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, e := range a.events {
		if e.EventType == eventType {
			out = append(out, e.Message)
		}
	}
	return out
}

func TestEachStatusOfAJobIsToldOnceItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var along alongside
		w := start(t, &upstream{call: gated(nil)}, func(o *Options) { o.Live = along.take })
		id := w.do(long).Job.ID
		synctest.Wait()
		if _, err := w.CancelJob(t.Context(), id, "enough", broker.LocalOperator); err != nil {
			t.Fatal(err)
		}
		want := []string{id + " is Accepted.", id + " is Running.", id + " is Failed."}
		if got := along.told(broker.EventJobChanged); strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("told %q", got)
		}
		events, err := w.journal.Events("", 0)
		if len(events) != 2 || events[0].EventType != broker.EventJobCancel || events[1].EventType != broker.EventJobFailed ||
			string(events[0].Payload) != `{"By":"default/operator","Reason":"enough"}` || !strings.HasPrefix(events[0].Message, id+": default/operator") {
			t.Errorf("the journal has %+v", events)
		}
		for _, e := range events {
			if e.EventType == broker.EventJobChanged {
				t.Errorf("a live event was journalled: %+v", e)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		last := along.events[len(along.events)-1]
		if last.ID != "" || last.EntityID != id || last.TenantID != "default" || !strings.Contains(string(last.Payload), `"Reason":"cancelled"`) {
			t.Errorf("%+v", last)
		}
	})
}

func TestADelayedWriteIsToldAtOnceAndJournalledWhenTheJournalIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var along alongside
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)}, func(o *Options) { o.Live = along.take })
		id := w.do(long).Job.ID
		synctest.Wait()
		w.faults.down.Store(true)
		close(gate)
		elapse(10 * time.Second) // several tries
		if got := along.told(broker.EventJobDelayed); len(got) != 1 || !strings.HasPrefix(got[0], id+": ") {
			t.Fatalf("told %q", got)
		}
		if !w.Delayed(id) || w.status(id) != broker.JobRunning || len(along.told(broker.EventJobChanged)) != 2 {
			t.Fatalf("the outcome was told before it was durable: %v", along.told(broker.EventJobChanged))
		}
		if !strings.Contains(w.log.String(), "a journal write of a job is delayed") {
			t.Error("the log says nothing")
		}
		synctest.Wait()
		noticed := along.events[len(along.events)-1].CreatedAt
		w.faults.down.Store(false)
		elapse(2 * time.Minute)
		if j := w.job(id); j.Status != broker.JobSucceeded || w.Delayed(id) {
			t.Fatalf("%+v", j)
		}
		events, err := w.journal.Events("", 0)
		if err != nil || len(events) != 1 || events[0].EventType != broker.EventJobDelayed || events[0].EntityID != id || !events[0].CreatedAt.Equal(noticed) {
			t.Errorf("%+v, %v", events, err)
		}
	})
}

// cancelEvents counts the events that say who asked for a job's end.
func (w *world) cancelEvents() (asked int) {
	w.t.Helper()
	events, err := w.journal.Events("", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.EventType == broker.EventJobCancel {
			asked++
		}
	}
	return asked
}

func TestACancelThatCameTooLateLeavesNoEvent(t *testing.T) {
	for name, tt := range map[string]struct {
		end func(w *world, id string, gate chan struct{}) // before the cancel
	}{
		"the job has ended": {end: func(w *world, id string, gate chan struct{}) {
			close(gate)
			w.job(id)
		}},
		"its outcome is not durable yet": {end: func(w *world, _ string, gate chan struct{}) {
			w.faults.down.Store(true)
			close(gate)
			elapse(time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				w := start(t, &upstream{call: gated(gate)})
				id := w.do(long).Job.ID
				synctest.Wait()
				tt.end(w, id, gate)
				if _, err := w.CancelJob(t.Context(), id, "enough", broker.LocalOperator); broker.AsRefusal(err).Code != broker.CodeJobTerminal {
					t.Fatal(err)
				}
				w.faults.down.Store(false)
				elapse(2 * time.Minute)
				if j := w.job(id); j.Status != broker.JobSucceeded || w.cancelEvents() != 0 {
					t.Errorf("%s, %d events", j.Status, w.cancelEvents())
				}
			})
		})
	}
}

func TestACancelAndWhoAskedForItAreOneWrite(t *testing.T) {
	for name, tt := range map[string]struct{ fault func(*faults) *atomic.Bool }{
		"the journal is down":            {func(f *faults) *atomic.Bool { return &f.down }},
		"a write fails after its effect": {func(f *faults) *atomic.Bool { return &f.late }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{call: gated(nil)})
				id := w.do(long).Job.ID
				synctest.Wait()
				fault := tt.fault(w.faults)
				fault.Store(true)
				time.AfterFunc(10*time.Second, func() { fault.Store(false) })
				if j, err := w.CancelJob(t.Context(), id, "enough", broker.LocalOperator); err != nil || j.Reason != broker.CodeCancelled {
					t.Fatalf("%+v, %v", j, err)
				}
				if n := w.cancelEvents(); n != 1 {
					t.Errorf("%d events", n)
				}
			})
		})
	}
}
