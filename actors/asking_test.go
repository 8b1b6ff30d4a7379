package actors

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// asks is a call that asks its caller one thing and answers with what it heard.
func asks(ctx context.Context, _ *broker.Call, peer broker.Peer) (broker.Answer, error) {
	result, problem := peer.Request(ctx, "roots/list", nil)
	if problem != nil {
		return broker.Answer{Result: text(problem.Message)}, nil
	}
	return broker.Answer{Result: text(string(result))}, nil
}

// answering is a caller that takes its time.
func answering(after time.Duration) func(*Request) {
	return func(r *Request) {
		r.PromoteAfter = 45 * time.Second
		r.Peer.Request = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, *broker.RPCError) {
			select {
			case <-time.After(after):
				return json.RawMessage(`{"roots":[]}`), nil
			case <-ctx.Done():
				return nil, broker.NoPeer("the call is over")
			}
		}
	}
}

func TestACallThatWaitsForItsCallerStaysACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: asks}, func(o *Options) { o.Backends[0].IdleTimeout = time.Minute })
		r := w.do(answering(10 * time.Minute))
		if r.Answer == nil || string(r.Answer.Result) != string(text(`{"roots":[]}`)) {
			t.Fatalf("%+v", r)
		}
	})
}

func TestACallThatWentOnAfterItsQuestionBecomesAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			a, err := asks(ctx, c, peer)
			elapse(2 * time.Minute)
			return a, err
		}})
		began := time.Now()
		r := w.do(answering(time.Minute))
		// Due at 45 s, and then looked at every 10: at 65 the caller is not asked any more.
		if r.Job == nil || time.Since(began) != 65*time.Second {
			t.Fatalf("%+v after %v", r, time.Since(began))
		}
		if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
	})
}

func TestIdleLimitBeginsAnewAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			if _, err := asks(ctx, c, peer); err != nil {
				return broker.Answer{}, err
			}
			return untilCancelled(ctx, c, peer)
		}}, func(o *Options) { o.Backends[0].IdleTimeout = 10 * time.Second })
		began := time.Now()
		if got := w.code(w.do(answering(15*time.Second), func(r *Request) { r.PromoteAfter = 0 })); got != broker.CodeIdleTimeout || time.Since(began) != 25*time.Second {
			t.Fatalf("%s after %v", got, time.Since(began))
		}
	})
}

func TestADroppedRequestThatIsNoToolCallBecomesNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			a, err := untilCancelled(ctx, c, peer)
			ended <- context.Cause(ctx)
			return a, err
		}})
		ctx, drop := context.WithCancel(context.Background())
		reply := w.async(ctx, func(r *Request) {
			r.Call.Method, r.Call.Effects = "own/method", broker.Write
		})
		synctest.Wait()
		drop()
		if r := <-reply; r.Job != nil {
			t.Fatalf("%+v", r)
		}
		<-ended
		if page, err := w.Jobs(broker.JobFilter{}); err != nil || len(page.Jobs) != 0 {
			t.Fatalf("%+v %v", page, err)
		}
	})
}

// TestCallersThatAreAwayDoNotHoldAllSeats: a caller that was asked something may
// never come back; half of the seats are for those who wait now.
func TestCallersThatAreAwayDoNotHoldAllSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			if peer.Request == nil {
				return broker.Answer{Result: text("now")}, nil
			}
			return asks(ctx, c, peer)
		}})
		var away atomic.Bool
		var replies []<-chan Reply
		for range 4 { // seats
			replies = append(replies, w.async(t.Context(), answering(time.Hour), func(r *Request) {
				r.PromoteAfter, r.Away = 0, away.Load
			}))
			synctest.Wait()
			elapse(time.Second)
		}
		others := w.async(t.Context(), reading)
		elapse(10 * time.Second)
		if len(others) > 0 {
			t.Fatal("callers who wait lost their seats")
		}
		began := time.Now()
		away.Store(true)
		if r := <-others; r.Answer == nil || time.Since(began) > awayLook {
			t.Fatalf("%+v after %v", r, time.Since(began))
		}
		synctest.Wait()
		for i, reply := range replies {
			if over := len(reply) == 1; over != (i < 2) {
				t.Errorf("call %d is over: %v", i, over)
			}
		}
		if r := <-replies[0]; r.Answer == nil && r.Refusal == nil {
			t.Errorf("%+v", r)
		}
		away.Store(false)
		if r := w.do(reading); r.Answer == nil { // with a seat free nobody is ended
			t.Errorf("%+v", r)
		}
		if len(replies[2]) > 0 || len(replies[3]) > 0 {
			t.Error("a call that kept its seat is over")
		}
	})
}
