package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/drain"
)

var byAnn = &drain.Notice{Reason: "upgrade", By: "default/ann", Since: time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)}

func (w *world) drainBackend(n *drain.Notice) {
	w.t.Helper()
	if r := w.SetDraining(context.Background(), "b", n); r != nil {
		w.t.Fatal(r)
	}
}

func control(r *Request) { c := *r.Call; c.Lane = broker.LaneControl; r.Call = &c }

func TestADrainedBackendTakesNoNewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)}, func(o *Options) { o.Backends[0].Admission.Seats = 1 })
		first := w.do(keyed("k", "d"))
		running, queued := w.async(context.Background()), w.async(context.Background())
		accepted := w.do(long)
		synctest.Wait()
		w.drainBackend(byAnn)
		for name, change := range map[string][]func(*Request){
			"a call": nil, "a read": {reading}, "a job": {long}, "a new key": {keyed("new", "d")}, "one that may become a job": {promoted(time.Second)},
		} {
			r := w.do(change...)
			if w.code(r) != broker.CodeBackendDraining || !r.Refusal.Retryable || r.Refusal.Detail["by"] != "default/ann" || r.Refusal.Detail["reason"] != "upgrade" {
				t.Errorf("%s got %+v", name, r.Refusal)
			}
		}
		if again := w.do(keyed("k", "d")); again.Job == nil || again.Job.ID != first.Job.ID {
			t.Errorf("a repeated key got %+v", again)
		}
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if left := w.AwaitIdle(now, "b"); left != 4 {
			t.Errorf("%d are left", left)
		}
		if v := w.Backends(context.Background())[0]; v.Draining != byAnn || v.State != StateReady {
			t.Errorf("shown as %+v", v)
		}
		if a := w.Availability("b"); a != Down {
			t.Errorf("it is %s", a)
		}
		idle := make(chan int)
		go func() { idle <- w.AwaitIdle(context.Background(), "b") }()
		close(gate)
		// What was admitted goes on to its end.
		for _, r := range []Reply{<-running, <-queued} {
			if r.Answer == nil {
				t.Errorf("got %+v", r)
			}
		}
		if j := w.job(accepted.Job.ID); j.Status != broker.JobSucceeded {
			t.Errorf("the job is %s", j.Status)
		}
		if left := <-idle; left != 0 {
			t.Errorf("%d are left", left)
		}
		w.drainBackend(nil)
		if r := w.do(); r.Answer == nil {
			t.Errorf("after the resume: %+v", r)
		}
	})
}

func TestControlCallsPassADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{}, func(o *Options) { o.Drained = map[string]*drain.Notice{"b": byAnn} })
		if code := w.code(w.do()); code != broker.CodeBackendDraining {
			t.Errorf("drained before the start, and refused with %s", code)
		}
		if r := w.do(control); r.Answer == nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestADrainReachesInstancesOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up, func(o *Options) { o.Backends[0].PerSession = true })
		w.do()
		w.drainBackend(byAnn)
		w.session("s2")
		other := func(r *Request) { c := *r.Call; c.Session = "s2"; r.Call = &c }
		for name, change := range map[string][]func(*Request){"one that is up": nil, "one that is new": {other}} {
			if code := w.code(w.do(change...)); code != broker.CodeBackendDraining {
				t.Errorf("%s: %s", name, code)
			}
		}
		w.drainBackend(nil)
		w.do()
		if ended, r := w.Renew(context.Background(), "b"); ended != 0 || r != nil {
			t.Errorf("renewed: %d, %v", ended, r)
		}
		synctest.Wait()
		if n := up.attempts(); n != 2 {
			t.Errorf("%d lives: the one of the session, and the one after it", n)
		}
	})
}

func TestARenewedBackendHasAnotherLife(t *testing.T) {
	for name, tt := range map[string]struct {
		change []func(*Request)
		code   broker.Code
	}{
		"a read":       {[]func(*Request){reading}, broker.CodeBackendUnavailable},
		"a write":      {nil, broker.CodeOutcomeUnknown},
		"what is none": {[]func(*Request){control}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &upstream{}
				up.open = func(_ context.Context, life int) (*conn, error) {
					c := &conn{id: "life-1"}
					if life == 1 {
						c.call = func(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
							<-c.done
							return broker.Answer{}, &broker.Failure{Dispatched: true, Gone: true, Cause: "it ended"}
						}
						return c, nil
					}
					if last := up.last(); !isClosed(last.done) {
						t.Error("there are two lives at once")
					}
					return &conn{id: "life-2"}, nil
				}
				w := start(t, up)
				reply := w.async(context.Background(), tt.change...)
				synctest.Wait()
				ended, refusal := w.Renew(context.Background(), "b")
				if want := map[bool]int{true: 0, false: 1}[tt.code == ""]; ended != want || refusal != nil {
					t.Errorf("ended %d, %v", ended, refusal)
				}
				if r := <-reply; tt.code != "" && w.code(r) != tt.code {
					t.Errorf("got %+v", r)
				}
				if r := w.do(); r.Answer == nil || r.Answer.RuntimeID != "life-2" {
					t.Errorf("then got %+v", r)
				}
			})
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestARenewBringsUpWhatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up)
		if _, r := w.Renew(context.Background(), "b"); r != nil {
			t.Fatal(r)
		}
		synctest.Wait()
		if n := up.attempts(); n != 1 {
			t.Errorf("%d lives", n)
		}
	})
}

func TestAWaitForAnIdleBackendEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{call: untilCancelled})
		reply := w.async(context.Background())
		synctest.Wait()
		for range 3 { // waits that are given up leave nothing behind
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if left := w.AwaitIdle(ctx, "b"); left != 1 {
				t.Errorf("%d are left", left)
			}
			cancel()
		}
		idle := make(chan int)
		go func() { idle <- w.AwaitIdle(context.Background(), "b") }()
		synctest.Wait()
		w.halt()
		<-idle
		<-reply
		w.boot()
	})
}

// An instance that a session brought hears of the drain and of its end, whichever
// came first, and is not restarted with the others.
func TestADrainReachesWhatSessionsBrought(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := bound(t)
			brought := func() Reply { return w.do(bindTo("key-one", "one")) }
			if first {
				brought()
			}
			w.drainBackend(byAnn)
			if code := w.code(brought()); code != broker.CodeBackendDraining {
				t.Errorf("drained, and refused with %s", code)
			}
			if _, r := w.Renew(context.Background(), "b"); r != nil {
				t.Error(r)
			}
			w.drainBackend(nil)
			if r := brought(); r.Refusal != nil {
				t.Errorf("after the resume: %+v", r)
			}
			if left := w.AwaitIdle(context.Background(), "b"); left != 0 {
				t.Errorf("%d are left", left)
			}
		})
	}
}
