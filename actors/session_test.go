package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

func TestRequestIDsAreUniqueInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: untilCancelled})
		w.session("other")
		id := func(id, session string) func(*Request) {
			return func(r *Request) { c := *r.Call; c.Session = session; r.Call, r.RequestID = &c, id }
		}
		w.async(context.Background(), id("1", "s"))
		synctest.Wait()
		if got := w.code(w.do(id("1", "s"))); got != broker.CodeDuplicateRequestID {
			t.Fatal(got)
		}
		for _, other := range []func(*Request){id(`"1"`, "s"), id("1", "other")} {
			c := w.async(context.Background(), other)
			synctest.Wait()
			select {
			case r := <-c:
				t.Fatalf("an id of its own was refused: %+v", r)
			default:
			}
		}
		w.Cancel("s", "1", "")
		synctest.Wait()
		c := w.async(context.Background(), id("1", "s"))
		synctest.Wait()
		select {
		case r := <-c:
			t.Fatalf("an id that is free again was refused: %+v", r)
		default:
		}
	})
}

func TestSessionHasACapOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: untilCancelled}, func(o *Options) { o.MaxCallsPerSession = 3 })
		for range 3 {
			w.async(context.Background())
		}
		synctest.Wait()
		if got := w.code(w.do()); got != broker.CodeOverloaded {
			t.Fatal(got)
		}
		if v := w.Sessions(); len(v) != 1 || v[0].InFlight != 3 {
			t.Fatalf("%+v", v)
		}
	})
}

func TestBytesInFlightAreBoundedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up, func(o *Options) { o.MaxBytesInFlight = 40 })
		for range 10 {
			if r := w.do(); r.Answer == nil {
				t.Fatalf("%+v", r)
			}
		}
		up.last().call = untilCancelled
		w.async(context.Background())
		w.async(context.Background())
		synctest.Wait()
		if got := w.code(w.do()); got != broker.CodeOverloaded {
			t.Fatal(got)
		}
		w.End("s")
		synctest.Wait()
		if used := w.BytesInFlight(); used != 0 {
			t.Fatalf("%d bytes were never given back", used)
		}
	})
}

func TestCancelReachesTheBackendAndTheCallerIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan error, 1)
		w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
			<-ctx.Done()
			cancelled <- context.Cause(ctx)
			return broker.Answer{Result: text("late")}, nil
		}})
		c := w.async(context.Background(), func(r *Request) { r.RequestID = "7" })
		synctest.Wait()
		w.Cancel("other", "7", "")
		w.Cancel("s", "8", "")
		synctest.Wait()
		select {
		case r := <-c:
			t.Fatalf("somebody else's cancel ended the call: %+v", r)
		default:
		}
		w.Cancel("s", "7", "no longer needed")
		if r := <-c; !r.Cancelled || r.Answer != nil || r.Refusal != nil {
			t.Fatalf("%+v", r)
		}
		if err := <-cancelled; err != withdrawn("no longer needed") {
			t.Fatal(err)
		}
	})
}

func TestCancelOfAQueuedCallTakesNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
			sent.Add(1)
			return untilCancelled(ctx, c, p)
		}})
		for range 4 {
			w.async(context.Background())
		}
		synctest.Wait()
		c := w.async(context.Background(), func(r *Request) { r.RequestID = "q" })
		synctest.Wait()
		w.Cancel("s", "q", "")
		if r := <-c; !r.Cancelled || sent.Load() != 4 {
			t.Fatalf("%+v, %d sent", r, sent.Load())
		}
	})
}

// DESIGN section 4 "Disconnect", for the protocol of sessions.
func TestDroppedConnection(t *testing.T) {
	t.Run("a queued call leaves the queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: untilCancelled})
			for range 4 {
				w.async(context.Background())
			}
			synctest.Wait()
			ctx, drop := context.WithCancel(context.Background())
			c := w.async(ctx)
			synctest.Wait()
			drop()
			if r := <-c; !r.Cancelled {
				t.Fatalf("%+v", r)
			}
			if v := w.Backends(context.Background())[0]; v.QueuedCalls != 0 {
				t.Fatalf("%d still queued", v.QueuedCalls)
			}
		})
	})
	t.Run("a running read is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
			}})
			ctx, drop := context.WithCancel(context.Background())
			c := w.async(ctx, reading)
			synctest.Wait()
			drop()
			<-c
			if err := <-ended; err != withdrawn("the caller's connection dropped") {
				t.Fatal(err)
			}
			if p, _ := w.Jobs(broker.JobFilter{}); p.Total != 0 {
				t.Fatal("a read became a job")
			}
		})
	})
	t.Run("any other call goes on and is recorded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
				<-gate
				return broker.Answer{Result: text("done")}, ctx.Err()
			}})
			ctx, drop := context.WithCancel(context.Background())
			c := w.async(ctx)
			synctest.Wait()
			drop()
			r := <-c
			if r.Job == nil || r.Job.Status != broker.JobRunning || !r.Job.Promoted {
				t.Fatalf("%+v", r)
			}
			close(gate)
			if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded || string(j.Result) != string(text("done")) {
				t.Fatalf("%+v", j)
			}
		})
	})
}

// The cancel of a call and the end of its connection come over different
// connections, in either order.
func TestCancelFindsACallWhoseConnectionDroppedFirst(t *testing.T) {
	for _, wait := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan struct{})
			w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
				<-ctx.Done()
				close(ended)
				return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
			}})
			ctx, drop := context.WithCancel(context.Background())
			c := w.async(ctx, func(r *Request) { r.RequestID = "7" })
			synctest.Wait()
			drop()
			if wait {
				<-c
			}
			w.Cancel("s", "7", "")
			<-ended
			synctest.Wait()
			p, _ := w.Jobs(broker.JobFilter{})
			for _, j := range p.Jobs {
				if j.Status != broker.JobFailed || j.Reason != broker.CodeCancelled {
					t.Fatalf("wait %v: %+v", wait, j)
				}
			}
			if wait && p.Total != 1 {
				t.Fatalf("%d jobs", p.Total)
			}
		})
	}
}

func TestProgressEndsWithTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: func(_ context.Context, _ *broker.Call, peer broker.Peer) (broker.Answer, error) {
			peer.Progress(broker.Progress{Params: []byte(`{"progress":1}`)})
			<-gate
			peer.Progress(broker.Progress{Params: []byte(`{"progress":2}`)})
			return broker.Answer{Result: text("done")}, nil
		}})
		var seen atomic.Int64
		r := w.do(func(r *Request) {
			r.Peer.Progress = func(broker.Progress) { seen.Add(1) }
			r.PromoteAfter = time.Second
		})
		if r.Job == nil {
			t.Fatalf("%+v", r)
		}
		close(gate)
		w.job(r.Job.ID)
		if seen.Load() != 1 {
			t.Fatalf("%d notifications, want the one before the reply", seen.Load())
		}
	})
}

func TestIdleSessionsMakeRoomAndBusyOnesDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: untilCancelled}, func(o *Options) { o.MaxSessions = 2 })
		w.async(context.Background()) // session s is busy
		synctest.Wait()
		w.session("b")
		elapse(time.Second)
		w.session("c") // in the place of b, which was idle
		keys := ""
		for _, v := range w.Sessions() {
			keys += v.Key
		}
		if keys != "cs" {
			t.Fatal(keys)
		}
		w.async(context.Background(), func(r *Request) { c := *r.Call; c.Session = "c"; r.Call = &c })
		synctest.Wait()
		if r := w.Attach(SessionInfo{Key: "d", Principal: broker.LocalOperator}); r == nil || r.Code != broker.CodeOverloaded {
			t.Fatalf("%+v", r)
		}
	})
}

func TestIdleSessionIsDroppedAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		elapse(time.Hour + 2*reapEvery)
		if v := w.Sessions(); len(v) != 0 {
			t.Fatalf("%+v", v)
		}
		w.session("s") // a client that comes back is served
		if r := w.do(); r.Answer == nil {
			t.Fatalf("%+v", r)
		}
	})
}

func TestEndOfASessionCancelsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		w := start(t, &upstream{call: func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
			<-ctx.Done()
			close(ended)
			return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
		}})
		c := w.async(context.Background())
		synctest.Wait()
		w.End("s")
		// It was sent, so nothing may say that it was not, or that a repeat is safe.
		if r := <-c; w.code(r) != broker.CodeCancelled || r.Refusal.Retryable || r.Refusal.Detail["outcome_unknown"] != true {
			t.Fatalf("%+v", r.Refusal)
		}
		<-ended
	})
}

func TestEndOfASessionDoesNotDenyAJobOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		stall := make(chan struct{})
		w.System.journal = stalled{w.System.journal, stall}
		c := w.async(context.Background(), func(r *Request) { r.Long = true })
		synctest.Wait()
		w.End("s")
		if r := <-c; w.code(r) != broker.CodeOutcomeUnknown || r.Refusal.Retryable {
			t.Fatalf("%+v", r.Refusal)
		}
		close(stall)
		synctest.Wait()
		if page, err := w.Jobs(broker.JobFilter{}); err != nil || len(page.Jobs) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
	})
}

func TestSessionMayComeBackWhileItsEndIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		for range 50 {
			w.End("s")
			w.session("s")
			// A call that the old session had taken is cancelled with it.
			if r := w.do(); r.Answer == nil && r.Refusal.Code != broker.CodeShuttingDown && r.Refusal.Code != broker.CodeCancelled {
				t.Fatalf("%+v", r)
			}
		}
		if strings.Contains(w.log.String(), "could not be spawned") {
			t.Fatal(w.log.String())
		}
	})
}

func TestCallsWithoutASessionAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		none := func(r *Request) { c := *r.Call; c.Session = ""; r.Call = &c; r.RequestID = "1" }
		a, b := w.async(context.Background(), none), w.async(context.Background(), none)
		if x, y := <-a, <-b; x.Answer == nil || y.Answer == nil {
			t.Fatalf("%+v %+v", x, y)
		}
	})
}

// A cancel and its request race over different connections.
func TestACancelThatOvertakesItsRequestTakesItBack(t *testing.T) {
	named := func(id string) func(*Request) { return func(r *Request) { r.RequestID = id } }
	for _, tt := range []struct {
		name   string
		before func(w *world) // the request of id 7
		want   bool           // it is cancelled
		change func(*Request)
	}{
		{name: "nothing came before", before: func(*world) {}},
		{name: "at once", before: func(w *world) { w.Cancel("s", "7", "") }, want: true},
		{name: "one that becomes a job at once", before: func(w *world) { w.Cancel("s", "7", "") }, want: true, change: func(r *Request) { r.Long = true }},
		{name: "just in time", before: func(w *world) { w.Cancel("s", "7", ""); elapse(overtakeWindow - 1) }, want: true},
		{name: "too long before", before: func(w *world) { w.Cancel("s", "7", ""); elapse(overtakeWindow) }},
		{name: "of another id", before: func(w *world) { w.Cancel("s", `"7"`, "") }},
		{name: "of another session", before: func(w *world) { w.session("other"); w.Cancel("other", "7", "") }},
		{name: "twice, for one request", before: func(w *world) { w.Cancel("s", "7", ""); w.Cancel("s", "7", ""); w.do(named("7")) }},
		{name: "late, for an id that is used again", before: func(w *world) { w.do(named("7")); w.Cancel("s", "7", "") }},
		{name: "late, for a call that was cancelled, whose id is used again", before: func(w *world) {
			w.Cancel("s", "7", "")
			w.do(named("7"))
			w.Cancel("s", "7", "")
		}},
		{name: "early, for an id that is used again after a while", before: func(w *world) {
			w.do(named("7"))
			elapse(overtakeWindow)
			w.Cancel("s", "7", "")
		}, want: true},
		{name: "with as many after it as are remembered", before: func(w *world) {
			w.Cancel("s", "7", "")
			for n := range maxRecent - 1 {
				w.Cancel("s", fmt.Sprint(100+n), "")
			}
		}, want: true},
		{name: "with more after it than are remembered", before: func(w *world) {
			w.Cancel("s", "7", "")
			for n := range maxRecent {
				w.Cancel("s", fmt.Sprint(100+n), "")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				w := start(t, &upstream{call: func(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
					if strings.Contains(string(c.Params), "counted") {
						sent.Add(1)
					}
					return broker.Answer{Result: text("done")}, nil
				}})
				tt.before(w)
				synctest.Wait()
				r := w.do(named("7"), func(r *Request) {
					c := *r.Call
					c.Params = []byte(`{"name":"echo","arguments":{"counted":1}}`)
					r.Call = &c
					if tt.change != nil {
						tt.change(r)
					}
				})
				if r.Cancelled != tt.want || sent.Load() == 1 == tt.want {
					t.Errorf("%+v, sent %d times", r, sent.Load())
				}
				if used := w.BytesInFlight(); used != 0 {
					t.Errorf("%d bytes were never given back", used)
				}
				if page, err := w.journal.Jobs(broker.JobFilter{}); err != nil || page.Total != 0 {
					t.Errorf("%d jobs are in the journal, error %v", page.Total, err)
				}
			})
		})
	}
}

// Cancels and requests of one session from many connections at once: whatever
// their order, each request has one reply, an answer or a cancel.
func TestCancelsAndRequestsInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{}, func(o *Options) { o.Backends[0].Admission.MaxQueuedCalls = 64 })
		const calls = 24 // no more cancels than are remembered
		var replies []<-chan Reply
		for n := range calls {
			id := fmt.Sprint(1000 + n)
			go w.Cancel("s", id, "")
			replies = append(replies, w.async(context.Background(), func(r *Request) { r.RequestID = id }))
		}
		for _, c := range replies {
			if r := <-c; (r.Answer != nil) == r.Cancelled || r.Refusal != nil {
				t.Errorf("%+v", r)
			}
		}
		synctest.Wait()
		if v := w.Sessions(); len(v) != 1 || v[0].InFlight != 0 {
			t.Errorf("%+v", v)
		}
	})
}
