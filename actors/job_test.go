package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

func long(r *Request) { r.Long = true }

func keyed(key, digest string) func(*Request) {
	return func(r *Request) { r.IdempotencyKey, r.Digest = key, digest }
}

func promoted(after time.Duration) func(*Request) {
	return func(r *Request) { r.PromoteAfter = after }
}

// gated is a call that answers once the gate is open.
func gated(gate <-chan struct{}) func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
	return func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
		select {
		case <-gate:
			return broker.Answer{Result: text("done")}, nil
		case <-ctx.Done():
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
		}
	}
}

func (w *world) status(id string) broker.JobStatus {
	w.t.Helper()
	j, err := w.Job(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j.Status
}

func TestLongVerbIsOnDiskBeforeItsCallerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		r := w.do(long)
		if r.Job == nil || r.Job.Status != broker.JobAccepted {
			t.Fatalf("%+v", r)
		}
		synctest.Wait()
		j, err := w.Job(r.Job.ID)
		if err != nil || j.Status != broker.JobRunning || j.StartedAt == nil || j.RuntimeID != "life-1" {
			t.Fatalf("%+v %v", j, err)
		}
		close(gate)
		j = w.job(r.Job.ID)
		if j.Status != broker.JobSucceeded || string(j.Result) != string(text("done")) {
			t.Fatalf("%+v", j)
		}
		if w.BytesInFlight() != 0 {
			t.Error("bytes were not given back")
		}
	})
}

func TestNoRecordNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			sent.Add(1)
			return broker.Answer{Result: text("x")}, nil
		}})
		w.faults.down.Store(true)
		r := w.do(long)
		if w.code(r) != broker.CodeJobJournal || !r.Refusal.Retryable {
			t.Fatalf("%+v", r)
		}
		synctest.Wait()
		if sent.Load() != 0 || w.BytesInFlight() != 0 {
			t.Fatal("something ran without a record")
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			sent.Add(1)
			return broker.Answer{Result: text("x")}, nil
		}})
		first := w.do(keyed("k", "d"))
		if first.Job == nil || first.Replayed {
			t.Fatalf("%+v", first)
		}
		w.job(first.Job.ID)
		again := w.do(keyed("k", "d"))
		if again.Job == nil || !again.Replayed || again.Job.ID != first.Job.ID || again.Job.Status != broker.JobSucceeded {
			t.Fatalf("%+v", again)
		}
		conflict := w.do(keyed("k", "other"))
		if w.code(conflict) != broker.CodeIdempotencyConflict || conflict.Refusal.Detail["JobId"] != first.Job.ID {
			t.Fatalf("%+v", conflict.Refusal)
		}
		if sent.Load() != 1 || w.BytesInFlight() != 0 {
			t.Fatalf("%d runs of one key, %d bytes in flight", sent.Load(), w.BytesInFlight())
		}
	})
}

func TestManyCallersOfOneKeyShareOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			sent.Add(1)
			return broker.Answer{Result: text("x")}, nil
		}})
		var replies []<-chan Reply
		for range 50 {
			replies = append(replies, w.async(context.Background(), keyed("k", "d")))
		}
		ids := map[string]bool{}
		for _, c := range replies {
			ids[(<-c).Job.ID] = true
		}
		synctest.Wait()
		if len(ids) != 1 || sent.Load() != 1 {
			t.Fatalf("%d jobs, %d runs", len(ids), sent.Load())
		}
	})
}

func TestCallThatOutlastsItsClientBecomesAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		began := time.Now()
		r := w.do(promoted(45 * time.Second))
		if r.Job == nil || r.Job.Status != broker.JobRunning || !r.Job.Promoted || time.Since(began) != 45*time.Second {
			t.Fatalf("%+v after %s", r, time.Since(began))
		}
		w.Cancel("s", "1", "") // the call has its answer: there is nothing left to cancel
		elapse(10 * time.Minute)
		if w.status(r.Job.ID) != broker.JobRunning {
			t.Fatal(w.status(r.Job.ID))
		}
		close(gate)
		if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
	})
}

func TestPromotedCallIsFreeOfTheCallsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)}, func(o *Options) { o.Backends[0].CallTimeout = time.Minute })
		r := w.do(promoted(30 * time.Second))
		elapse(5 * time.Minute)
		if w.status(r.Job.ID) != broker.JobRunning {
			t.Fatalf("%+v", r)
		}
		close(gate)
		w.job(r.Job.ID)
	})
}

func TestQueuedCallIsPromotedAsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)}, func(o *Options) { o.Backends[0].Admission.QueueTimeout = time.Minute })
		for range 4 {
			w.async(context.Background())
		}
		synctest.Wait()
		r := w.do(promoted(30 * time.Second))
		if r.Job == nil || r.Job.Status != broker.JobAccepted || r.Job.StartedAt != nil {
			t.Fatalf("a call that waits is said to run: %+v", r.Job)
		}
		elapse(2 * time.Minute) // queue_timeout is not for jobs
		if w.status(r.Job.ID) != broker.JobAccepted {
			t.Fatal(w.status(r.Job.ID))
		}
		close(gate)
		if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded || j.StartedAt == nil {
			t.Fatalf("%+v", j)
		}
	})
}

func TestPromotionThatCannotBeWrittenLeavesTheCallACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		w.faults.down.Store(true)
		c := w.async(context.Background(), promoted(time.Second))
		elapse(15 * time.Second) // the first try and a further one
		select {
		case r := <-c:
			t.Fatalf("%+v", r)
		default:
		}
		close(gate)
		if r := <-c; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
		if p, _ := w.Jobs(broker.JobFilter{}); p.Total != 0 {
			t.Fatal("there is a record after all")
		}
	})
}

// The answer and the promotion timer meet at one instant, many times; each
// call has one reply, and each handle a job with the result.
func TestAnswerAndPromotionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
			<-time.After(time.Second)
			return broker.Answer{Result: text("done")}, nil
		}}, func(o *Options) { o.Backends[0].Admission.Seats, o.Backends[0].Admission.MaxQueuedCalls = 100, 100 })
		var replies []<-chan Reply
		for range 100 {
			replies = append(replies, w.async(context.Background(), promoted(time.Second)))
		}
		for _, c := range replies {
			switch r := <-c; {
			case r.Answer != nil:
			case r.Job != nil:
				if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded || string(j.Result) != string(text("done")) {
					t.Fatalf("%+v", j)
				}
			default:
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestOutcomesBecomeStatuses(t *testing.T) {
	tests := []struct {
		name    string
		call    func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error)
		status  broker.JobStatus
		reason  broker.Code
		message string
	}{
		{"tool error", func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			return broker.Answer{Result: json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"it broke"}]}`)}, nil
		}, broker.JobFailed, broker.CodeOperationFailed, "it broke"},
		{"protocol error", func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			return broker.Answer{Error: &broker.RPCError{Code: -32000, Message: "no such thing"}}, nil
		}, broker.JobFailed, broker.CodeOperationFailed, "no such thing"},
		{"no answer", failing(&broker.Failure{Dispatched: true, Cause: "reset"}), broker.JobFailed, broker.CodeOutcomeUnknown, ""},
		{"blank failure", func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			return broker.Answer{Error: &broker.RPCError{Code: 1, Message: " "}}, nil
		}, broker.JobFailed, broker.CodeOperationFailed, "Operation failed."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{call: tt.call})
				j := w.job(w.do(long).Job.ID)
				if j.Status != tt.status || j.Reason != tt.reason || (tt.message != "" && j.FailureMessage != tt.message) {
					t.Fatalf("%+v", j)
				}
				if e, err := w.journal.Events("", 10); err != nil || len(e) != 1 || e[0].EventType != broker.EventJobFailed {
					t.Fatalf("%+v %v", e, err)
				}
			})
		})
	}
}

func TestCancelOfAJob(t *testing.T) {
	cancel := func(w *world, id string) (broker.Job, error) {
		return w.CancelJob(context.Background(), id, "not needed", broker.LocalOperator)
	}
	t.Run("running", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: gated(nil)})
			id := w.do(long).Job.ID
			synctest.Wait()
			j, err := cancel(w, id)
			if err != nil || j.Status != broker.JobFailed || j.Reason != broker.CodeCancelled || !strings.Contains(j.FailureMessage, "not needed") {
				t.Fatalf("%+v %v", j, err)
			}
			synctest.Wait()
			if v := w.Backends(context.Background())[0]; v.InFlight != 0 {
				t.Fatal("the operation was not cancelled")
			}
			if _, err := cancel(w, id); broker.AsRefusal(err).Code != broker.CodeJobTerminal {
				t.Fatal(err)
			}
		})
	})
	t.Run("queued", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: gated(nil)})
			for range 4 {
				w.do(long)
			}
			id := w.do(long).Job.ID
			synctest.Wait()
			j, err := cancel(w, id)
			if err != nil || j.Reason != broker.CodeCancelled || j.StartedAt != nil {
				t.Fatalf("%+v %v", j, err)
			}
		})
	})
	t.Run("unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{})
			if _, err := cancel(w, "job_none"); broker.AsRefusal(err).Code != broker.CodeJobNotFound {
				t.Fatal(err)
			}
		})
	})
}

func TestStaleJobIsReapedAndItsOperationCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: gated(nil)})
		id := w.do(long).Job.ID
		elapse(broker.DefaultStaleAfter - time.Second)
		if w.status(id) != broker.JobRunning {
			t.Fatal("reaped too early")
		}
		elapse(2 * reapEvery)
		j, _ := w.Job(id)
		if j.Status != broker.JobFailed || j.Reason != broker.CodeReapedAsStale || !strings.Contains(j.FailureMessage, "reaped as stale") {
			t.Fatalf("%+v", j)
		}
		if v := w.Backends(context.Background())[0]; v.InFlight != 0 {
			t.Fatal("the operation was not cancelled")
		}
	})
}

// TestAQueuedJobIsReapedToo: its time is counted from its submission, and what
// its backend does later changes nothing, on the disk or here.
func TestAQueuedJobIsReapedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)}, func(o *Options) { o.Backends[0].Admission.QueueTimeout = 24 * time.Hour })
		for range 4 { // the seats
			w.do(long)
		}
		id := w.do(long).Job.ID
		elapse(broker.DefaultStaleAfter + 2*reapEvery)
		reaped, err := w.journal.Job(id)
		if err != nil || reaped.Status != broker.JobFailed || reaped.Reason != broker.CodeReapedAsStale || reaped.StartedAt != nil || !strings.Contains(reaped.FailureMessage, "reaped as stale") {
			t.Fatalf("%+v, %v", reaped, err)
		}
		close(gate)
		elapse(time.Minute)
		late, err := w.journal.Job(id)
		if shown, _ := w.Job(id); err != nil || !reflect.DeepEqual(late, reaped) || !reflect.DeepEqual(shown, reaped) {
			t.Errorf("afterwards %+v, shown %+v", late, shown)
		}
	})
}

func TestVerbMayHaveItsOwnStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: gated(nil)}, func(o *Options) {
			o.Backends[0].StaleAfter = func(string) time.Duration { return 2 * time.Hour }
		})
		id := w.do(long).Job.ID
		elapse(time.Hour)
		if w.status(id) != broker.JobRunning {
			t.Fatal("reaped by the default")
		}
	})
}

func TestOutcomeSurvivesAJournalOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		id := w.do(long).Job.ID
		synctest.Wait()
		w.faults.down.Store(true)
		close(gate)
		elapse(45 * time.Minute) // not reaped meanwhile: its outcome is known
		if w.status(id) != broker.JobRunning || !w.Delayed(id) {
			t.Fatal(w.status(id), w.Delayed(id))
		}
		w.faults.down.Store(false)
		j := w.job(id)
		synctest.Wait()
		if j.Status != broker.JobSucceeded || w.Delayed(id) {
			t.Fatalf("%+v", j)
		}
	})
}

func TestRunningIsDurableBeforeTheCallIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		up := &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			sent.Add(1)
			return broker.Answer{Result: text("x")}, nil
		}}
		gate := make(chan struct{})
		up.open = func(context.Context, int) (*conn, error) { <-gate; return nil, nil }
		w := start(t, up)
		id := w.do(long).Job.ID
		synctest.Wait()
		w.faults.down.Store(true)
		close(gate)
		elapse(10 * time.Second)
		if sent.Load() != 0 || w.status(id) != broker.JobAccepted {
			t.Fatalf("sent %d with status %s", sent.Load(), w.status(id))
		}
		w.faults.down.Store(false)
		if j := w.job(id); j.Status != broker.JobSucceeded || sent.Load() != 1 {
			t.Fatalf("%+v", j)
		}
	})
}

func TestJobsWaitThroughABackendsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{open: func(_ context.Context, life int) (*conn, error) {
			if life < 3 {
				return nil, &broker.OpenError{Cause: "not yet"}
			}
			return nil, nil
		}}
		w := start(t, up)
		if j := w.job(w.do(long).Job.ID); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
		up.open = func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Cause: "never"} }
		up.last().die()
		synctest.Wait()
		j := w.job(w.do(long).Job.ID)
		if j.Status != broker.JobFailed || j.Reason != broker.CodeBackendUnavailable {
			t.Fatalf("%+v", j)
		}
	})
}

func TestStopLeavesUnfinishedJobsToTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: gated(nil)})
		running := w.do(long).Job.ID
		synctest.Wait()
		w.restart()
		j, err := w.Job(running)
		if err != nil || j.Status != broker.JobLost || j.Reason != broker.CodeJobLostOnRestart {
			t.Fatalf("%+v %v", j, err)
		}
	})
}

// TestAnOutcomeThatWasNeverWrittenIsLost: the journal fails at the outcome and the
// broker ends before it is back; nobody was told of an outcome, and there is none.
func TestAnOutcomeThatWasNeverWrittenIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		id := w.do(long).Job.ID
		synctest.Wait()
		w.faults.down.Store(true)
		close(gate)
		elapse(time.Second)
		if w.status(id) != broker.JobRunning || !w.Delayed(id) {
			t.Fatalf("%s, delayed %v", w.status(id), w.Delayed(id))
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		w.Stop(over) // the journal is not back
		if err := w.journal.Close(); err != nil {
			t.Fatal(err)
		}
		elapse(20 * time.Millisecond) // the dead-letter throttle of protoactor ends
		w.boot()
		if j, err := w.Job(id); err != nil || j.Status != broker.JobLost || j.Reason != broker.CodeJobLostOnRestart || len(j.Result) != 0 {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

// restart stops the system and starts it anew on the same journal.
func (w *world) restart() {
	w.t.Helper()
	w.halt()
	w.boot()
}

// tracker is a backend whose verb answers a handle and which has job_status.
type tracker struct {
	polls  atomic.Int64
	answer atomic.Value // string: the status document
}

func (k *tracker) call(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	if strings.Contains(string(c.Params), statusVerb) {
		k.polls.Add(1)
		if !strings.Contains(string(c.Params), `"jobId":"inner-1"`) || c.Lane != broker.LaneControl {
			return broker.Answer{}, &broker.Failure{Cause: fmt.Sprintf("a poll of something else: %s", c.Params)}
		}
		return broker.Answer{Result: text(k.answer.Load().(string))}, nil
	}
	return broker.Answer{Result: text(`{"JobId":"inner-1","Status":"Accepted"}`)}, nil
}

func tracking(t *testing.T, reported bool) (*world, *tracker, string) {
	k := &tracker{}
	k.answer.Store(`{"JobId":"inner-1","Status":"Running"}`)
	up := &upstream{verb: statusVerb, call: k.call}
	up.open = func(context.Context, int) (*conn, error) { return &conn{id: "inner", reported: reported}, nil }
	w := start(t, up)
	w.do() // the backend lists its verbs
	synctest.Wait()
	id := w.do(long).Job.ID
	synctest.Wait()
	return w, k, id
}

func TestWorkInABackendIsTrackedToItsEnd(t *testing.T) {
	tests := []struct {
		name, says string
		status     broker.JobStatus
		reason     broker.Code
	}{
		{"succeeded", `{"JobId":"inner-1","Status":"Succeeded","Result":{"content":[{"type":"text","text":"made"}]}}`, broker.JobSucceeded, ""},
		{"failed", `{"JobId":"inner-1","Status":"Failed","Reason":"operation_failed","FailureMessage":"no"}`, broker.JobFailed, broker.CodeOperationFailed},
		{"lost", `{"JobId":"inner-1","Status":"Lost","Reason":"job_lost_on_restart","FailureMessage":"gone"}`, broker.JobLost, broker.CodeJobLostOnRestart},
		{"unknown there", `{"Error":"no such job","Code":"job_not_found","JobId":"inner-1"}`, broker.JobLost, broker.CodeTrackedWorkLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, id := tracking(t, true)
				elapse(10 * time.Minute)
				j, _ := w.Job(id)
				if j.Status != broker.JobRunning || j.Tracking == nil || j.Tracking.Handle != "inner-1" {
					t.Fatalf("%+v", j)
				}
				if n := k.polls.Load(); n < 10 || n > 600 {
					t.Fatalf("%d polls in ten minutes", n)
				}
				k.answer.Store(tt.says)
				j = w.job(id)
				if j.Status != tt.status || j.Reason != tt.reason {
					t.Fatalf("%+v", j)
				}
				if tt.status == broker.JobSucceeded && string(j.Result) != `{"content":[{"type":"text","text":"made"}]}` {
					t.Fatalf("%s", j.Result)
				}
			})
		})
	}
}

func TestTrackedJobOverARestart(t *testing.T) {
	t.Run("goes on when the backend reports the recorded incarnation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, k, id := tracking(t, true)
			w.restart()
			elapse(5 * time.Minute)
			if w.status(id) != broker.JobRunning {
				t.Fatal(w.status(id))
			}
			k.answer.Store(`{"JobId":"inner-1","Status":"Succeeded","Result":7}`)
			if j := w.job(id); j.Status != broker.JobSucceeded || !strings.Contains(string(j.Result), `"text":"7"`) {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("is Lost when another incarnation answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, id := tracking(t, true)
			w.up.open = func(context.Context, int) (*conn, error) { return &conn{id: "successor", reported: true}, nil }
			w.restart()
			if j := w.job(id); j.Status != broker.JobLost || j.Reason != broker.CodeTrackedWorkLost {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("is Lost when its backend is configured no more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, id := tracking(t, true)
			w.opts.Backends, w.opts.Sources = nil, nil
			w.restart()
			if j := w.job(id); j.Status != broker.JobLost {
				t.Fatalf("%+v", j)
			}
		})
	})
}

// declared is a backend whose verb echo leaves work that an operator declared.
func declared(t *testing.T, change ...func(*Options)) (*world, *tracker, string) {
	k := &tracker{}
	k.answer.Store(`{"state":"building"}`)
	up := &upstream{call: func(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
		if !strings.Contains(string(c.Params), "build_status") {
			return broker.Answer{Result: text(`{"build":{"id":17}}`)}, nil
		}
		k.polls.Add(1)
		if !strings.Contains(string(c.Params), `"arguments":{"build_id":"17"}`) || c.Lane != broker.LaneControl {
			return broker.Answer{}, &broker.Failure{Cause: fmt.Sprintf("a poll of something else: %s", c.Params)}
		}
		return broker.Answer{Result: text(k.answer.Load().(string))}, nil
	}}
	up.open = func(context.Context, int) (*conn, error) { return &conn{id: "inner", reported: true}, nil }
	rule := &broker.Track{Handle: "/build/id", Verb: "build_status", Argument: "build_id", Status: "/state", Running: []string{"building"},
		Succeeded: []string{"done"}, Failed: []string{"broken"}, Lost: []string{"interrupted"}, Result: "/out", Message: "/why"}
	w := start(t, up, append([]func(*Options){func(o *Options) {
		o.Sources[0].Rules.Tracks = map[string]*broker.Track{"ec*": rule}
	}}, change...)...)
	w.do() // the backend lists its verbs
	synctest.Wait()
	id := w.do(long).Job.ID
	synctest.Wait()
	return w, k, id
}

func TestDeclaredWorkIsTrackedToItsEnd(t *testing.T) {
	for _, tt := range []struct {
		says   string
		status broker.JobStatus
		reason broker.Code
		result string
	}{
		{`{"state":"done","out":{"n":1}}`, broker.JobSucceeded, "", `{"content":[{"text":"{\"n\":1}","type":"text"}]}`},
		{`{"state":"done"}`, broker.JobSucceeded, "", string(text(`{"state":"done"}`))},
		{`{"state":"broken","why":"rain"}`, broker.JobFailed, broker.CodeOperationFailed, ""},
		{`{"state":"interrupted"}`, broker.JobLost, broker.CodeTrackedWorkLost, ""},
	} {
		t.Run(tt.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, id := declared(t)
				k.answer.Store(`{"state":"a word that nobody declared"}`)
				elapse(10 * time.Minute)
				j, _ := w.Job(id)
				if j.Status != broker.JobRunning || j.Tracking == nil || j.Tracking.Handle != "17" || j.Tracking.Kind != broker.TrackVerb || k.polls.Load() < 10 {
					t.Fatalf("%+v after %d polls", j, k.polls.Load())
				}
				k.answer.Store(tt.says)
				if j = w.job(id); j.Status != tt.status || j.Reason != tt.reason || string(j.Result) != tt.result {
					t.Fatalf("%+v %s", j, j.Result)
				}
			})
		})
	}
}

func TestDeclaredWorkOverARestartIsFollowedByTheRuleItBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, id := declared(t)
		w.opts.Sources[0].Rules.Tracks = nil
		w.restart()
		elapse(time.Minute)
		k.answer.Store(`{"state":"done"}`)
		if j := w.job(id); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
	})
}

func TestTrackedJobIsReapedFromItsLastGoodPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, id := tracking(t, true)
		elapse(2 * time.Hour) // good polls keep it
		if w.status(id) != broker.JobRunning {
			t.Fatal(w.status(id))
		}
		k.answer.Store(`not a status`)
		elapse(broker.DefaultStaleAfter + 3*reapEvery)
		if j, _ := w.Job(id); j.Reason != broker.CodeReapedAsStale {
			t.Fatalf("%+v", j)
		}
	})
}

func TestPanicOfAJobActorEndsTheJobWithItsFirstLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: gated(nil)}, func(o *Options) {
			var asked atomic.Int64
			o.Hold = func(string) *broker.Refusal {
				if asked.Add(1) == 3 { // of the session, for the record, for the run
					panic("the hold broke\nsecond line")
				}
				return nil
			}
		})
		j := w.job(w.do(long, isHeld).Job.ID)
		if j.Status != broker.JobFailed || j.FailureMessage != "the hold broke" {
			t.Fatalf("%+v", j)
		}
	})
}
