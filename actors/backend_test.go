package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
)

func failing(f *broker.Failure) func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
	return func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
		return broker.Answer{}, f
	}
}

func TestCallIsAnsweredAsTheBackendSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			return broker.Answer{Error: &broker.RPCError{Code: -7, Message: "no", Data: []byte(`{"n":12345678901234567890}`)}}, nil
		}}
		w := start(t, up)
		r := w.do()
		if r.Answer == nil || r.Answer.Error.Code != -7 || string(r.Answer.Error.Data) != `{"n":12345678901234567890}` {
			t.Fatalf("%+v", r)
		}
		up.last().call = echo
		if r := w.do(); r.Answer == nil || !strings.Contains(string(r.Answer.Result), "echo") || r.Timing.Started.IsZero() {
			t.Fatalf("%+v", r)
		}
	})
}

// DESIGN section 4 "Outcome".
func TestOutcomeIsUnknownOnlyAfterTheFirstByteOfAWrite(t *testing.T) {
	tests := []struct {
		name    string
		failure broker.Failure
		effects broker.Effects
		want    broker.Code
	}{
		{"write, sent", broker.Failure{Dispatched: true, Cause: "reset"}, broker.Write, broker.CodeOutcomeUnknown},
		{"write, not sent", broker.Failure{Cause: "refused"}, broker.Write, broker.CodeBackendUnavailable},
		{"read, sent", broker.Failure{Dispatched: true, Cause: "reset"}, broker.Read, broker.CodeBackendUnavailable},
		{"session effects are no pure read", broker.Failure{Dispatched: true, Cause: "reset"}, broker.Session, broker.CodeOutcomeUnknown},
		{"the transport's own refusal", broker.Failure{Dispatched: true, Refusal: broker.Refuse(broker.CodeAnswerTooLarge, "too large", nil)}, broker.Write, broker.CodeAnswerTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{call: failing(&tt.failure)})
				r := w.do(func(r *Request) { r.Call.Effects = tt.effects })
				if got := w.code(r); got != tt.want {
					t.Fatalf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestUnsentCallIsTriedOnceOnTheNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := failing(&broker.Failure{Gone: true, Cause: "session lost"})
		up := &upstream{}
		up.open = func(_ context.Context, life int) (*conn, error) {
			c := &conn{id: "x"}
			if life == 1 {
				c.call = gone
			}
			return c, nil
		}
		w := start(t, up)
		if r := w.do(); r.Answer == nil {
			t.Fatalf("not answered by the second life: %+v", r)
		}
		up.last().call = gone
		up.open = func(context.Context, int) (*conn, error) { return &conn{id: "y", call: gone}, nil }
		if got := w.code(w.do()); got != broker.CodeBackendUnavailable {
			t.Fatalf("after a second loss: %s", got)
		}
		if up.attempts() != 3 {
			t.Fatalf("%d lives, want 3: one retry and no more", up.attempts())
		}
	})
}

func TestSentCallIsNeverTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
			calls++
			return broker.Answer{}, &broker.Failure{Dispatched: true, Gone: true, Cause: "died", Stderr: "panic: x"}
		}})
		r := w.do()
		if got := w.code(r); got != broker.CodeOutcomeUnknown || calls != 1 {
			t.Fatalf("%s after %d sends", got, calls)
		}
		if r.Refusal.Detail["stderr"] != "panic: x" {
			t.Errorf("the stderr tail is missing: %v", r.Refusal.Detail)
		}
	})
}

func TestIdentityIsAPrecondition(t *testing.T) {
	expect := func(id string) func(*Request) {
		return func(r *Request) { c := *r.Call; c.ExpectedRuntimeID = id; r.Call = &c }
	}
	t.Run("live incarnation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			up := &upstream{}
			w := start(t, up)
			w.do()
			if r := w.do(expect("life-1")); r.Answer == nil {
				t.Fatalf("%+v", r)
			}
			if got := w.code(w.do(expect("life-0"))); got != broker.CodeInstanceMismatch {
				t.Fatal(got)
			}
		})
	})
	t.Run("not up yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sent := false
			w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
				sent = true
				return echo(ctx, c, p)
			}})
			if got := w.code(w.do(expect("life-0"))); got != broker.CodeInstanceMismatch || sent {
				t.Fatal(got, sent)
			}
		})
	})
	t.Run("no id to compare", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{open: func(context.Context, int) (*conn, error) { return &conn{}, nil }})
			if got := w.code(w.do(expect("x"))); got != broker.CodeIdentityUnavailable {
				t.Fatal(got)
			}
		})
	})
	t.Run("on the answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
				return broker.Answer{Result: text("secret of another"), RuntimeID: "other"}, nil
			}})
			r := w.do(expect("life-1"))
			if w.code(r) != broker.CodeInstanceMismatch || r.Answer != nil || r.Refusal.Detail["outcome_unknown"] != true {
				t.Fatalf("%+v", r)
			}
			if r := w.do(expect("life-1"), reading); r.Refusal.Detail["outcome_unknown"] != false {
				t.Fatalf("a read changes nothing: %+v", r.Refusal)
			}
		})
	})
}

func TestFailedStartRefusesWithTheCauseAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{open: func(context.Context, int) (*conn, error) {
			return nil, &broker.OpenError{Cause: "no such program", Stderr: "tail"}
		}}
		w := start(t, up)
		r := w.do()
		if w.code(r) != broker.CodeBackendUnavailable || r.Refusal.Detail["cause"] != "no such program" || r.Refusal.Detail["stderr"] != "tail" || !r.Refusal.Retryable || r.Refusal.RetryAfter <= 0 {
			t.Fatalf("%+v", r.Refusal)
		}
		w.do() // a call may trigger one immediate try
		if up.attempts() != 2 {
			t.Fatalf("%d attempts, want 2", up.attempts())
		}
		for range 20 {
			w.do()
		}
		if up.attempts() != 2 {
			t.Fatalf("%d attempts: a flood of calls must not hammer a backend", up.attempts())
		}
		view := w.Backends(context.Background())[0]
		if view.State != StateBackoff || view.BackoffUntil == nil || view.RuntimeID != nil || view.Tools != nil || view.FailedStarts != 2 {
			t.Fatalf("%+v", view)
		}
		elapse(2 * time.Minute) // nobody needs it, so nobody tries
		if view := w.Backends(context.Background())[0]; view.State != StateIdle || view.FailedStarts != 2 {
			t.Fatalf("%+v", view)
		}
		up.open = nil
		if r := w.do(); r.Answer == nil {
			t.Fatalf("not up again: %+v", r)
		}
		if view := w.Backends(context.Background())[0]; view.State != StateReady || view.FailedStarts != 0 {
			t.Fatalf("%+v", view)
		}
	})
}

func TestBackendThatRefusesCredentialsIsLeftAloneForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{open: func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Auth: true, Cause: "401"} }}
		w := start(t, up)
		for range 5 {
			if got := w.code(w.do()); got != broker.CodeBackendRefused {
				t.Fatal(got)
			}
		}
		if up.attempts() != 1 || w.Backends(context.Background())[0].State != StateRefused {
			t.Fatal(up.attempts())
		}
		elapse(authRetry)
		w.do()
		if up.attempts() != 2 {
			t.Fatal(up.attempts())
		}
	})
}

func TestCredentialsThatAreNoLongerAcceptedShowInTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: failing(&broker.Failure{Dispatched: true, Gone: true, Cause: "HTTP 401", Refusal: broker.Refuse(broker.CodeBackendRefused, "no", nil)})})
		if got := w.code(w.do()); got != broker.CodeBackendRefused {
			t.Fatal(got)
		}
		if v := w.Backends(context.Background())[0]; v.State != StateRefused || v.LastError != "HTTP 401" {
			t.Fatalf("%+v", v)
		}
		if got := w.code(w.do()); got != broker.CodeBackendRefused || w.up.attempts() != 1 {
			t.Fatal(got, w.up.attempts())
		}
	})
}

func TestStartHasItsOwnLimitAndCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{open: func(ctx context.Context, _ int) (*conn, error) {
			<-ctx.Done()
			return nil, &broker.OpenError{Cause: "did not answer"}
		}})
		began := time.Now()
		if got := w.code(w.do()); got != broker.CodeStartTimeout || time.Since(began) != defaultStartTimeout {
			t.Fatal(got, time.Since(began))
		}
	})
}

func TestRunLimits(t *testing.T) {
	tests := []struct {
		name   string
		set    func(*Options)
		change func(*Request)
		want   broker.Code
		after  time.Duration
		maybe  any
	}{
		{"run", func(o *Options) { o.Backends[0].CallTimeout = time.Minute }, func(*Request) {}, broker.CodeCallTimeout, time.Minute, true},
		{"run of a read", func(o *Options) { o.Backends[0].CallTimeout = time.Minute }, reading, broker.CodeCallTimeout, time.Minute, false},
		{"the verb's own", func(o *Options) { o.Backends[0].CallTimeout = time.Minute }, func(r *Request) { r.CallTimeout = time.Second }, broker.CodeCallTimeout, time.Second, true},
		{"idle", func(o *Options) { o.Backends[0].IdleTimeout = 10 * time.Second }, func(*Request) {}, broker.CodeIdleTimeout, 10 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{call: untilCancelled}, tt.set)
				began := time.Now()
				r := w.do(tt.change)
				if got := w.code(r); got != tt.want || time.Since(began) != tt.after || r.Refusal.Detail["outcome_unknown"] != tt.maybe {
					t.Fatalf("%s after %s: %v", got, time.Since(began), r.Refusal.Detail)
				}
				if w.Backends(context.Background())[0].Abandoned != 1 {
					t.Error("the abandoned call is not counted")
				}
			})
		})
	}
}

func TestProgressIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			for range 6 {
				select {
				case <-time.After(5 * time.Second):
					peer.Progress(broker.Progress{Params: []byte(`{}`)})
				case <-ctx.Done():
					return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
				}
			}
			return echo(ctx, c, peer)
		}}, func(o *Options) { o.Backends[0].IdleTimeout = 10 * time.Second })
		seen := 0
		if r := w.do(func(r *Request) { r.Peer.Progress = func(broker.Progress) { seen++ } }); r.Answer == nil || seen != 6 {
			t.Fatalf("%+v, %d progress notifications", r, seen)
		}
	})
}

func TestFullQueueShedsAndAWaitingCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up)
		w.do() // the backend is up: four run and eight wait
		up.last().call = untilCancelled
		replies := make(chan Reply, 12)
		for range 4 + 8 {
			r := w.request()
			go func() { replies <- w.Do(context.Background(), r) }()
		}
		synctest.Wait()
		r := w.do()
		if w.code(r) != broker.CodeOverloaded || !r.Refusal.Retryable || r.Refusal.RetryAfter <= 0 {
			t.Fatalf("%+v", r.Refusal)
		}
		began := time.Now()
		for range 8 {
			if got := w.code(<-replies); got != broker.CodeQueueTimeout {
				t.Fatal(got)
			}
		}
		if time.Since(began) != time.Minute {
			t.Fatalf("the wait ended after %s", time.Since(began))
		}
	})
}

func TestDeathIsNoticedAndTheNextCallStartsANewIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up)
		w.do()
		up.last().die()
		synctest.Wait()
		if v := w.Backends(context.Background())[0]; v.State != StateBackoff || v.LastError != "the test ended it" {
			t.Fatalf("%+v", v)
		}
		if r := w.do(); r.Answer == nil || r.Answer.RuntimeID != "life-2" {
			t.Fatalf("%+v", r)
		}
	})
}

func TestABackendThatFindsOutWithEachCallChecksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expected string
		up := &upstream{open: func(_ context.Context, life int) (*conn, error) {
			return &conn{id: []string{"", "life-2", "life-3"}[life-1], perCall: true}, nil
		}, call: func(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
			expected = c.ExpectedRuntimeID
			return broker.Answer{Result: text("its own words"), RuntimeID: "other"}, nil
		}}
		w := start(t, up)
		for _, life := range []string{"", "life-2"} {
			r := w.do(func(r *Request) { c := *r.Call; c.ExpectedRuntimeID = "x"; r.Call = &c })
			if r.Answer == nil || r.Answer.RuntimeID != "other" || expected != "x" {
				t.Fatalf("%q: %+v", life, r)
			}
			up.last().die()
			synctest.Wait()
			if life != "" {
				return
			}
			// The next life is there at once, without a call and without a pause.
			if v := w.Backends(context.Background())[0]; v.State != StateReady || v.RuntimeID == nil || *v.RuntimeID != "life-2" || v.Incarnations != 2 {
				t.Fatalf("%+v", v)
			}
		}
	})
}

func TestPanicOfABackendActorAnswersWhatItHeldAndStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		up := &upstream{open: func(_ context.Context, life int) (*conn, error) {
			<-gate
			return &conn{id: "x", broken: life == 1}, nil
		}}
		w := start(t, up)
		var replies []<-chan Reply
		for range 8 {
			replies = append(replies, w.async(context.Background()))
		}
		synctest.Wait()
		close(gate)
		for i, c := range replies {
			if r := <-c; r.Refusal == nil {
				t.Fatalf("call %d: %+v", i, r)
			}
		}
		if r := w.do(); r.Answer == nil {
			t.Fatalf("the new life does not answer: %+v", r)
		}
		if strings.Contains(w.log.String(), "goroutine ") {
			t.Error("a stack trace was logged")
		}
	})
}

func TestPanicOfATransportEndsThatCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) { panic("boom") }})
		if got := w.code(w.do()); got != broker.CodeOutcomeUnknown {
			t.Fatal(got)
		}
		w.up.last().call = echo
		if r := w.do(); r.Answer == nil {
			t.Fatalf("%+v", r)
		}
	})
}

func TestStopTellsEachCallWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: untilCancelled})
		running := []<-chan Reply{w.async(context.Background()), w.async(context.Background()), w.async(context.Background()), w.async(context.Background())}
		synctest.Wait()
		queued := w.async(context.Background())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.Stop(ctx)
		for _, c := range running {
			if got := w.code(<-c); got != broker.CodeOutcomeUnknown {
				t.Errorf("a running write: %s", got)
			}
		}
		if got := w.code(<-queued); got != broker.CodeShuttingDown {
			t.Errorf("a queued call: %s", got)
		}
		if got := w.code(w.do()); got != broker.CodeShuttingDown {
			t.Errorf("a new call: %s", got)
		}
	})
}

func TestCatalogWaitsForAFirstListAndNotForAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var back atomic.Bool
		w := start(t, &upstream{open: func(ctx context.Context, _ int) (*conn, error) {
			if back.Load() {
				return nil, nil
			}
			select {
			case <-gate:
				return nil, errors.New("no")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		p, _ := w.AwaitCatalog(ctx, "").Profile("")
		if time.Since(began) != 5*time.Second || len(p.Pending()) != 1 {
			t.Fatal(time.Since(began), p.Pending())
		}
		close(gate)
		synctest.Wait()
		began = time.Now()
		p, _ = w.AwaitCatalog(context.Background(), "").Profile("")
		if time.Since(began) != 0 || len(p.Pending()) != 1 {
			t.Fatal("a list waited for a backend that is known to be down")
		}
		back.Store(true)
		elapse(time.Minute)
		w.AwaitCatalog(context.Background(), "") // wakes it, all the same
		synctest.Wait()
		p, _ = w.AwaitCatalog(context.Background(), "").Profile("")
		if _, ok := p.Resolve("b__echo"); !ok || len(p.Pending()) != 0 {
			t.Fatal(p.Pending())
		}
	})
}

func TestWhoNamesABackendThatCannotStartHearsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{open: func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Auth: true, Cause: "401"} }})
		if r := w.WhyPending([]string{"b"}); r.Code != broker.CodeCatalogPending {
			t.Fatalf("before the first attempt: %v", r)
		}
		began := time.Now()
		w.AwaitCatalog(context.Background(), "b")
		if r := w.WhyPending([]string{"b"}); r.Code != broker.CodeBackendRefused || r.Detail["cause"] != "401" || time.Since(began) != 0 {
			t.Fatalf("after %s: %v", time.Since(began), r)
		}
		// While nothing new is tried, asking again does not wait either.
		w.AwaitCatalog(context.Background(), "b")
		if time.Since(began) != 0 || w.up.attempts() != 1 {
			t.Fatal(time.Since(began), w.up.attempts())
		}
	})
}

// late is a message that its actor hands back only when it may.
type late chan struct{}

func (m late) Reject(error) { <-m }

// A program may come up just when its backend's actor ends. Stop waits for the
// end of that program too.
func TestStopWaitsForAConnectionThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, busy, before := make(chan struct{}), make(chan struct{}), make(late)
		var occupy atomic.Bool
		w := start(t, &upstream{open: func(context.Context, int) (*conn, error) { <-up; return nil, nil }}, func(o *Options) {
			o.Now = func() time.Time {
				if occupy.CompareAndSwap(true, false) {
					<-busy
				}
				return time.Now()
			}
		})
		over, cancel := context.WithCancel(context.Background())
		cancel()
		w.AwaitCatalog(over, "b") // wakes it
		synctest.Wait()
		pid, _ := w.sharedBackend("b")
		occupy.Store(true)
		w.Backends(over)
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { defer close(stopped); w.Stop(over) }()
		synctest.Wait()
		w.send(pid, before)
		close(up)
		synctest.Wait() // the actor will find the stop, then these two
		close(busy)
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("the connection outlives the stop")
		default:
		}
		close(before)
		<-stopped
		<-w.up.last().done
	})
}

func TestStopWaitsForJobsThatRunHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		id := w.do(long).Job.ID
		synctest.Wait()
		time.AfterFunc(2*time.Second, func() { close(gate) })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.Stop(ctx)
		if j, err := w.journal.Job(id); err != nil || j.Status != broker.JobSucceeded {
			t.Fatalf("%+v %v", j, err)
		}
	})
}

func TestStopDoesNotWaitForWorkThatLivesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, id := tracking(t, true)
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.Stop(ctx)
		if j, _ := w.journal.Job(id); time.Since(began) > time.Second || j.Status != broker.JobRunning {
			t.Fatal(time.Since(began), j.Status)
		}
	})
}

func TestSessionInstancesDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up, func(o *Options) { o.Backends[0].PerSession = true })
		w.session("other")
		in := func(key string) func(*Request) {
			return func(r *Request) { c := *r.Call; c.Session = key; r.Call = &c }
		}
		a, b, a2 := w.do(in("s")), w.do(in("other")), w.do(in("s"))
		if a.Answer.RuntimeID == b.Answer.RuntimeID || a.Answer.RuntimeID != a2.Answer.RuntimeID {
			t.Fatal(a.Answer.RuntimeID, b.Answer.RuntimeID, a2.Answer.RuntimeID)
		}
		w.End("other")
		synctest.Wait()
		if v := w.Backends(context.Background()); len(v) != 2 {
			t.Fatalf("the instance of an ended session stays: %+v", v)
		}
	})
}

// TestAnInstanceWhoseActorPanicsStillEndsWithItsSession: a panic answers all that
// the actor held, so an instance whose session is gone has only to go.
func TestAnInstanceWhoseActorPanicsStillEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: gated(nil)}, func(o *Options) { o.Backends[0].PerSession = true })
		w.session("other")
		id := w.do(long, func(r *Request) { c := *r.Call; c.Session = "other"; r.Call = &c }).Job.ID
		synctest.Wait()
		v, ok := w.instances.Load("b\x00other")
		if !ok || w.status(id) != broker.JobRunning {
			t.Fatal("the job does not run in an instance of its session")
		}
		pid := v.(*actor.PID)
		w.End("other") // the instance ends when its job has
		synctest.Wait()
		lives := w.up.attempts()
		w.send(pid, panicking)
		if j := w.job(id); j.Reason != broker.CodeOutcomeUnknown {
			t.Fatalf("%+v", j)
		}
		synctest.Wait()
		if _, alive := w.as.ProcessRegistry.GetLocal(pid.Id); alive {
			t.Error("the instance of an ended session stays")
		}
		if n := w.up.attempts() - lives; n != 0 {
			t.Errorf("it began %d lives", n)
		}
	})
}
