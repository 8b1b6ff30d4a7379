package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// holdable is a hold that a test engages.
func holdable(o *Options) (engage func()) {
	var on atomic.Bool
	o.Hold = func(string) *broker.Refusal {
		if on.Load() {
			return broker.Refuse("held", "On hold.", nil) // whoever holds brings the code
		}
		return nil
	}
	return func() { on.Store(true) }
}

func isHeld(r *Request) { r.Held = true }

func TestHoldIsLookedAtAgainBeforeTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		change []func(*Request)
		runs   bool
	}{
		"a job":                    {[]func(*Request){long, isHeld}, false},
		"a job with a key":         {[]func(*Request){keyed("k", "d"), isHeld}, false},
		"a call that becomes one":  {[]func(*Request){promoted(time.Second), isHeld}, false},
		"a call":                   {[]func(*Request){isHeld}, false},
		"a job that is not held":   {[]func(*Request){long}, true},
		"a call that is not held":  {nil, true},
		"a read that is not held ": {[]func(*Request){reading}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate, sent := make(chan struct{}), new(atomic.Int64)
				var engage func()
				w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
					sent.Add(1)
					<-gate
					return broker.Answer{Result: text("x")}, nil
				}}, func(o *Options) {
					engage = holdable(o)
					o.Backends[0].Admission.Seats = 1
				})
				first := w.async(context.Background())
				synctest.Wait()
				second := w.async(context.Background(), tt.change...)
				elapse(2 * time.Second) // accepted, or queued, and promoted
				engage()
				close(gate)
				<-first
				reply := <-second
				want, got := int64(1), reply.Refusal
				if reply.Job != nil {
					j := w.job(reply.Job.ID)
					if got = nil; j.Status == broker.JobFailed {
						got = broker.Refuse(j.Reason, j.FailureMessage, nil)
					}
				}
				if tt.runs {
					want = 2
				}
				if sent.Load() != want || (got == nil) != tt.runs || got != nil && got.Code != "held" {
					t.Fatalf("refused %v, %d sent", got, sent.Load())
				}
			})
		})
	}
}

func TestAJobThatIsStoppedAfterItsAcceptanceHasTheRefusalAsItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, on := make(chan struct{}), new(atomic.Bool)
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			<-gate
			return broker.Answer{Result: text("x")}, nil
		}}, func(o *Options) {
			o.Backends[0].Admission.Seats = 1
			o.Hold = func(string) *broker.Refusal {
				if !on.Load() {
					return nil
				}
				return broker.Refuse(broker.CodeDispatchHold, "Dispatch is on hold.", map[string]any{"SetBy": "ops-1", "Preview": strings.Repeat("x", 2000)})
			}
		})
		first := w.async(context.Background())
		synctest.Wait()
		id := (<-w.async(context.Background(), long, isHeld)).Job.ID
		on.Store(true)
		close(gate)
		<-first
		synctest.Wait()
		var message, whole map[string]any
		j := w.job(id)
		if err := errors.Join(json.Unmarshal([]byte(j.FailureMessage), &message), json.Unmarshal(j.Refusal, &whole)); err != nil {
			t.Fatal(err)
		}
		if j.Status != broker.JobFailed || j.Reason != broker.CodeDispatchHold || len(j.FailureMessage) > broker.MaxFailureMessage ||
			message["SetBy"] != "ops-1" || message["Preview"] != nil || !strings.HasPrefix(fmt.Sprint(message["Action"]), "This job was accepted before and has ended;") || len(fmt.Sprint(whole["Preview"])) != 2000 {
			t.Errorf("the message is %s, the refusal %.60s", j.FailureMessage, j.Refusal)
		}
	})
}

func TestAHoldLeavesTheFirstJobOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var engage func()
		w := start(t, &upstream{}, func(o *Options) { engage = holdable(o) })
		first := w.do(keyed("k", "d"), isHeld)
		w.job(first.Job.ID)
		engage()
		if again := w.do(keyed("k", "d"), isHeld); again.Job == nil || !again.Replayed || again.Job.ID != first.Job.ID || again.Job.Status != broker.JobSucceeded {
			t.Errorf("the repeat got %+v", again)
		}
		if code := w.code(w.do(keyed("k", "other"), isHeld)); code != broker.CodeIdempotencyConflict {
			t.Errorf("another call got %s", code)
		}
		if code := w.code(w.do(keyed("new", "d"), isHeld)); code != "held" {
			t.Errorf("a new key got %s", code)
		}
		if page, err := w.journal.Jobs(broker.JobFilter{}); err != nil || page.Total != 1 {
			t.Errorf("%d records, %v", page.Total, err)
		}
	})
}

// TestAKeyThatNamesAJobIsAnsweredBeforeAnythingIsJudged: a repeat is not kept
// waiting for what a new job would be judged by, and not refused for it.
func TestAKeyThatNamesAJobIsAnsweredBeforeAnythingIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var judged atomic.Int64
		w := start(t, &upstream{}, func(o *Options) {
			o.Admit = func(*broker.Call, *broker.Job) *broker.Refusal {
				if judged.Add(1) > 1 {
					return broker.Refuse("judged", "Judged.", nil)
				}
				return nil
			}
		})
		first := w.do(keyed("k", "d"))
		if again := w.do(keyed("k", "d")); again.Job == nil || !again.Replayed || again.Job.ID != first.Job.ID || judged.Load() != 1 {
			t.Errorf("the repeat got %+v after %d judgements", again, judged.Load())
		}
		if code := w.code(w.do(keyed("k", "other"))); code != broker.CodeIdempotencyConflict || judged.Load() != 1 {
			t.Errorf("another call got %s", code)
		}
		if code := w.code(w.do(keyed("new", "d"))); code != "judged" {
			t.Errorf("a new key got %s", code)
		}
	})
}
