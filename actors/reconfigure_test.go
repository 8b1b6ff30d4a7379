package actors

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
)

const drainLimit = 10 * time.Second

// backendOn is a backend as a configuration gives it.
func backendOn(name string, up Upstream, seats int) BackendConfig {
	return BackendConfig{Name: name, Kind: "stdio", Upstream: up, Origin: name,
		Admission: admission.Limits{Seats: seats, MaxQueuedCalls: 8, MaxQueuedJobs: 8, QueueTimeout: time.Minute}}
}

// reload puts a configuration of these backends in force; what becomes of those
// that were there is in renew and adapt.
func (w *world) reload(renew, adapt []string, backends ...BackendConfig) error {
	r := Reconfiguration{Backends: backends, Renew: map[string]bool{}, Adapt: map[string]bool{}, Drain: drainLimit}
	for _, b := range backends {
		r.Sources = append(r.Sources, catalog.Source{Backend: b.Name})
	}
	for _, name := range renew {
		r.Renew[name] = true
	}
	for _, name := range adapt {
		r.Adapt[name] = true
	}
	return w.Reconfigure(context.Background(), r)
}

func (w *world) mustReload(renew, adapt []string, backends ...BackendConfig) {
	w.t.Helper()
	if err := w.reload(renew, adapt, backends...); err != nil {
		w.t.Fatal(err)
	}
}

// one has a single backend with one seat, so that a second call waits.
func one(o *Options) { o.Backends[0].Admission.Seats, o.Backends[0].Origin = 1, "b" }

func to(backend string) func(*Request) {
	return func(r *Request) { c := *r.Call; c.Backend, c.Verb = backend, backend+"__echo"; r.Call = &c }
}

// exclusive fails a test in which two lives of one program are open at once.
type exclusive struct {
	t    *testing.T
	open atomic.Int64
}

func (e *exclusive) guard(up *upstream) *upstream {
	inner := up.open
	up.open = func(ctx context.Context, life int) (*conn, error) {
		if e.open.Add(1) > 1 {
			e.t.Error("a second life began before the first had ended")
		}
		c := &conn{id: "x"}
		if inner != nil {
			if given, err := inner(ctx, life); err != nil {
				e.open.Add(-1)
				return nil, err
			} else if given != nil {
				c = given
			}
		}
		c.closed = func() { e.open.Add(-1) }
		return c, nil
	}
	return up
}

// running is an upstream whose calls run until the gate opens, and are counted.
type running struct {
	upstream
	gate  chan struct{}
	calls atomic.Int64
}

func newRunning() *running {
	r := &running{gate: make(chan struct{})}
	inner := gated(r.gate)
	r.call = func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
		r.calls.Add(1)
		return inner(ctx, c, p)
	}
	return r
}

func TestBackendThatDidNotChangeIsNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		first := w.async(context.Background())
		second := w.async(context.Background())
		synctest.Wait()
		life := up.last()
		w.mustReload(nil, nil, backendOn("b", &upstream{}, 1), backendOn("c", &upstream{}, 1))
		synctest.Wait()
		if up.last() != life || up.attempts() != 1 || up.calls.Load() != 1 {
			t.Fatalf("it has another life: %d attempts, %d calls", up.attempts(), up.calls.Load())
		}
		close(up.gate)
		for _, reply := range []Reply{<-first, <-second} {
			if reply.Answer == nil || reply.Answer.RuntimeID != life.id {
				t.Fatalf("%+v", reply)
			}
		}
		if r := w.do(to("c")); r.Answer == nil {
			t.Fatalf("the backend that was added does not answer: %+v", r)
		}
	})
}

func TestChangedBackendEndsWhatRunsAndStartsAnewForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, only := newRunning(), &exclusive{t: t}
		only.guard(&up.upstream)
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		waits := w.async(context.Background())
		job := w.do(long).Job.ID
		control := &upstream{}
		next := only.guard(control)
		synctest.Wait()
		w.mustReload([]string{"b"}, nil, backendOn("b", next, 2))
		later := w.async(context.Background())
		synctest.Wait()
		if v := w.Backends(context.Background())[0]; v.State != StateDraining || v.InFlight != 1 || v.QueuedCalls != 2 || v.QueuedJobs != 1 {
			t.Fatalf("while it drains: %+v", v)
		}
		if availability := w.Availability("b"); availability != Starting {
			t.Fatalf("while it drains it is %s", availability)
		}
		if up.calls.Load() != 1 || next.attempts() != 0 {
			t.Fatalf("%d calls of the old life, %d starts of the next", up.calls.Load(), next.attempts())
		}
		close(up.gate)
		if r := <-runs; r.Answer == nil || string(r.Answer.Result) != string(text("done")) {
			t.Fatalf("what ran was not answered by its own life: %+v", r)
		}
		for _, reply := range []Reply{<-waits, <-later} {
			if reply.Answer == nil || strings.Contains(string(reply.Answer.Result), "done") {
				t.Fatalf("what waited was not answered by the next life: %+v", reply)
			}
		}
		if j := w.job(job); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
		if up.calls.Load() != 1 || up.attempts() != 1 || next.attempts() != 1 {
			t.Fatalf("%d calls and %d starts of the old life, %d starts of the next", up.calls.Load(), up.attempts(), next.attempts())
		}
		if v := w.Backends(context.Background())[0]; v.State != StateReady || v.Seats != 2 {
			t.Fatalf("%+v", v)
		}
	})
}

func TestWhatOutlastsTheDrainIsNotClaimedToBeDoneOrUndone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   broker.Code
	}{
		{"a write", func(*Request) {}, broker.CodeOutcomeUnknown},
		{"a read", reading, broker.CodeBackendUnavailable},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{false: ", changed", true: ", removed"}[leaves], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := newRunning()
					w := start(t, &up.upstream, one)
					reply := w.async(context.Background(), tt.change)
					synctest.Wait()
					began := time.Now()
					if leaves {
						w.mustReload(nil, nil)
					} else {
						w.mustReload([]string{"b"}, nil, backendOn("b", &upstream{}, 1))
					}
					if got := w.code(<-reply); got != tt.want || time.Since(began) != drainLimit {
						t.Fatalf("%s after %s", got, time.Since(began))
					}
					r := w.do()
					if leaves && w.code(r) != broker.CodeBackendUnavailable || !leaves && r.Answer == nil {
						t.Fatalf("afterwards: %+v", r)
					}
				})
			})
		}
	}
}

func TestJobThatOutlastsTheDrainFailsWithoutAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		id := w.do(long).Job.ID
		synctest.Wait()
		next := newRunning()
		w.mustReload([]string{"b"}, nil, backendOn("b", &next.upstream, 1))
		if j := w.job(id); j.Status != broker.JobFailed || j.Reason != broker.CodeOutcomeUnknown {
			t.Fatalf("%+v", j)
		}
		synctest.Wait()
		if next.calls.Load() != 0 {
			t.Fatal("the next life ran it again")
		}
	})
}

func TestRemovedBackendRefusesWhatWaitsAndEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		waits, job := w.async(context.Background()), w.do(long).Job.ID
		synctest.Wait()
		w.mustReload(nil, nil)
		if r := <-waits; w.code(r) != broker.CodeBackendUnavailable || !strings.Contains(r.Refusal.Message, "taken out of the configuration") {
			t.Fatalf("%+v", r)
		}
		if j := w.job(job); j.Status != broker.JobFailed || j.Reason != broker.CodeBackendUnavailable {
			t.Fatalf("%+v", j)
		}
		if _, ok := w.Catalog().Profile("b"); ok {
			t.Fatal("the catalog has it still")
		}
		if v := w.Backends(context.Background()); len(v) != 1 || v[0].Name != "b (leaving)" || v[0].InFlight != 1 {
			t.Fatalf("%+v", v)
		}
		if got := w.code(w.do()); got != broker.CodeBackendUnavailable {
			t.Fatal(got)
		}
		close(up.gate)
		if r := <-runs; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
		synctest.Wait()
		if v := w.Backends(context.Background()); len(v) != 0 {
			t.Fatalf("%+v", v)
		}
		select {
		case <-up.last().done:
		default:
			t.Fatal("its connection is open")
		}
	})
}

// One that was taken out and put in again does not run beside itself.
func TestBackendThatComesBackWaitsForItsNamesake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := &exclusive{t: t}
		up := newRunning()
		only.guard(&up.upstream)
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		w.mustReload(nil, nil)
		next := only.guard(&upstream{})
		eager := backendOn("b", next, 1)
		eager.Eager = true
		w.mustReload(nil, nil, eager)
		waits := w.async(context.Background())
		synctest.Wait()
		if next.attempts() != 0 {
			t.Fatal("it was started beside its namesake")
		}
		close(up.gate)
		if r := <-runs; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
		if r := <-waits; r.Answer == nil || next.attempts() != 1 {
			t.Fatalf("%+v after %d starts", r, next.attempts())
		}
	})
}

func TestRefusedConfigurationChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		reply := w.async(context.Background())
		synctest.Wait()
		before := w.Catalog()
		r := Reconfiguration{Backends: []BackendConfig{backendOn("c", &upstream{}, 1)}, Sources: []catalog.Source{{Backend: "c"}}, Drain: drainLimit,
			Catalog: catalog.Settings{Profiles: []catalog.ProfileSpec{{Name: "p", Select: []catalog.Selector{{Verb: "*"}}, Required: []string{"no_such_verb"}}}}}
		if err := w.Reconfigure(context.Background(), r); !errors.Is(err, ErrCatalog) {
			t.Fatalf("not refused: %v", err)
		}
		if w.Catalog() != before || up.attempts() != 1 {
			t.Fatal("something changed")
		}
		close(up.gate)
		if r := <-reply; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
	})
}

func TestBackendThatStartsOrFailsTakesItsNewConfigurationAtOnce(t *testing.T) {
	tests := []struct {
		name string
		open func(context.Context, int) (*conn, error)
	}{
		{"starting", func(ctx context.Context, _ int) (*conn, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{"comes up all the same", func(ctx context.Context, _ int) (*conn, error) { <-ctx.Done(); return &conn{id: "late"}, nil }},
		{"in backoff", func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Cause: "no such program"} }},
		{"refused", func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Cause: "401", Auth: true} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{open: tt.open}, one)
				job := w.do(long)
				synctest.Wait()
				began := time.Now()
				w.mustReload([]string{"b"}, nil, backendOn("b", &upstream{}, 1))
				if r := w.do(); r.Answer == nil || time.Since(began) != 0 {
					t.Fatalf("after %s: %+v", time.Since(began), r)
				}
				if j := w.job(job.Job.ID); tt.name != "refused" && j.Status != broker.JobSucceeded {
					t.Fatalf("%+v", j)
				}
			})
		})
	}
}

func TestLimitsChangeWithoutANewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		replies := []<-chan Reply{w.async(context.Background()), w.async(context.Background())}
		synctest.Wait()
		if up.calls.Load() != 1 {
			t.Fatal("the seat was not the limit")
		}
		w.mustReload(nil, []string{"b"}, backendOn("b", &up.upstream, 2))
		synctest.Wait()
		if up.calls.Load() != 2 || up.attempts() != 1 {
			t.Fatalf("%d run, %d lives", up.calls.Load(), up.attempts())
		}
		close(up.gate)
		for _, c := range replies {
			if r := <-c; r.Answer == nil {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// A second change while a life drains counts for the next life.
func TestChangeDuringADrainCountsForTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newRunning()
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		second, third := &upstream{}, &upstream{}
		w.mustReload([]string{"b"}, nil, backendOn("b", second, 1))
		w.mustReload([]string{"b"}, nil, backendOn("b", third, 1))
		w.mustReload(nil, []string{"b"}, backendOn("b", third, 3))
		close(up.gate)
		if r := <-runs; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
		if r := w.do(); r.Answer == nil || second.attempts() != 0 || third.attempts() != 1 {
			t.Fatalf("%+v after %d and %d starts", r, second.attempts(), third.attempts())
		}
		if v := w.Backends(context.Background())[0]; v.Seats != 3 {
			t.Fatalf("%d seats", v.Seats)
		}
	})
}

// DESIGN section 5: polling goes on only where the recorded incarnation answers.
func TestTrackedWorkIsFollowedOverAChange(t *testing.T) {
	succeeded := `{"JobId":"inner-1","Status":"Succeeded","Result":7}`
	tests := []struct {
		name   string
		next   string // the runtime id of the next life; empty: it names none
		stays  bool   // the backend stays configured
		status broker.JobStatus
	}{
		{"the recorded incarnation answers", "inner", true, broker.JobSucceeded},
		{"another one answers", "successor", true, broker.JobLost},
		{"none is named", "", true, broker.JobLost},
		{"the backend is gone", "", false, broker.JobLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, id := tracking(t, true)
				next := &tracker{}
				next.answer.Store(succeeded)
				up := &upstream{verb: statusVerb, call: next.call, open: func(context.Context, int) (*conn, error) {
					return &conn{id: tt.next, reported: tt.next != ""}, nil
				}}
				polls := k.polls.Load()
				if tt.stays {
					w.mustReload([]string{"b"}, nil, backendOn("b", up, 1))
				} else {
					w.mustReload(nil, nil)
				}
				elapse(drainLimit - time.Millisecond)
				if w.status(id) != broker.JobRunning || k.polls.Load() == polls || next.polls.Load() != 0 {
					t.Fatalf("while it drains: %s, %d polls of the old life and %d of the next", w.status(id), k.polls.Load()-polls, next.polls.Load())
				}
				if j := w.job(id); j.Status != tt.status || (tt.status == broker.JobLost && j.Reason != broker.CodeTrackedWorkLost) {
					t.Fatalf("%+v", j)
				}
			})
		})
	}
}

// Work that a call leaves in a life that drains is followed there.
func TestWorkBegunWhileItsBackendDrainsIsFollowedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, gate := &tracker{}, make(chan struct{})
		k.answer.Store(`{"JobId":"inner-1","Status":"Running"}`)
		var gated atomic.Bool
		w := start(t, &upstream{verb: statusVerb, call: func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
			if gated.Load() && !strings.Contains(string(c.Params), statusVerb) {
				<-gate
			}
			return k.call(ctx, c, p)
		}}) // reached as something else than after the change
		w.do() // the backend lists its verbs
		gated.Store(true)
		id := w.do(long).Job.ID
		synctest.Wait()
		next := &upstream{}
		w.mustReload([]string{"b"}, nil, backendOn("b", next, 1))
		close(gate)
		elapse(3 * time.Second)
		if w.status(id) != broker.JobRunning || next.attempts() != 0 {
			t.Fatalf("%s, %d starts of the next life", w.status(id), next.attempts())
		}
		k.answer.Store(`{"JobId":"inner-1","Status":"Succeeded","Result":7}`)
		if j := w.job(id); j.Status != broker.JobSucceeded || string(j.Result) != `{"content":[{"text":"7","type":"text"}]}` {
			t.Fatalf("%+v", j)
		}
		synctest.Wait()
		if next.attempts() != 1 {
			t.Fatal("the next life did not begin")
		}
	})
}

// A life does not outlast the work that is followed in it.
func TestDrainEndsWithTheWorkThatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, id := tracking(t, true)
		began := time.Now()
		up := &upstream{}
		w.mustReload([]string{"b"}, nil, backendOn("b", up, 1))
		k.answer.Store(`{"JobId":"inner-1","Status":"Succeeded","Result":7}`)
		if j := w.job(id); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
		synctest.Wait()
		if up.attempts() != 1 || time.Since(began) >= drainLimit {
			t.Fatalf("%d starts after %s", up.attempts(), time.Since(began))
		}
	})
}

// Calls of a session go on to its own instance, which has the new configuration.
func TestInstancesOfSessionsAreChangedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up, func(o *Options) { o.Backends[0].PerSession, o.Backends[0].Origin = true, "b" })
		w.do()
		next := &upstream{}
		cfg := backendOn("b", next, 1)
		cfg.PerSession = true
		w.mustReload([]string{"b"}, nil, cfg)
		if r := w.do(); r.Answer == nil || next.attempts() == 0 || up.attempts() != 1 {
			t.Fatalf("%+v, %d and %d starts", r, up.attempts(), next.attempts())
		}
		shared := &upstream{}
		w.mustReload([]string{"b"}, nil, backendOn("b", shared, 1))
		if r := w.do(); r.Answer == nil || shared.attempts() != 1 {
			t.Fatalf("%+v, %d starts of the shared one", r, shared.attempts())
		}
	})
}

// An actor that fails after a change comes back with what it was changed to.
func TestBackendThatPanicsAfterAChangeKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{}, one)
		w.do()
		next := &upstream{open: func(_ context.Context, life int) (*conn, error) { return &conn{id: "n", broken: life == 1}, nil }}
		w.mustReload([]string{"b"}, nil, backendOn("b", next, 1))
		synctest.Wait()
		elapse(time.Minute)
		if r := w.do(); r.Answer == nil || next.attempts() != 2 {
			t.Fatalf("%+v after %d starts", r, next.attempts())
		}
	})
}

// Nothing hangs and nothing runs twice, whatever is changed while calls come.
func TestCallsDuringManyChangesAreEachAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		runs := map[string]int{}
		counting := func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
			mu.Lock()
			runs[c.ID]++
			mu.Unlock()
			elapse(50 * time.Millisecond)
			return echo(ctx, c, p)
		}
		only := &exclusive{t: t}
		w := start(t, only.guard(&upstream{call: counting}), one)
		var replies []<-chan Reply
		for i := range 40 {
			for range 5 {
				replies = append(replies, w.async(context.Background(), reading))
			}
			elapse(20 * time.Millisecond)
			b := backendOn("b", only.guard(&upstream{call: counting}), 1+i%4)
			switch i % 4 {
			case 0:
				w.mustReload(nil, []string{"b"}, backendOn("b", only.guard(&upstream{call: counting}), 1+i%3))
			case 1, 2:
				w.mustReload([]string{"b"}, nil, b)
			case 3:
				w.mustReload(nil, nil)
				w.mustReload(nil, nil, b)
			}
		}
		answered, refused := 0, 0
		for _, c := range replies {
			switch r := <-c; {
			case r.Answer != nil:
				answered++
			case r.Refusal.Code == broker.CodeBackendUnavailable || r.Refusal.Code == broker.CodeOverloaded:
				refused++
			default:
				t.Errorf("%+v", r)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for id, n := range runs {
			if n > 1 {
				t.Errorf("%s ran %d times", id, n)
			}
		}
		if answered == 0 || answered+refused != len(replies) || len(runs) < answered {
			t.Errorf("%d answered, %d refused of %d; %d ran", answered, refused, len(replies), len(runs))
		}
	})
}

// A catalog that waits to be kept may be that of a backend which is taken out, or
// which another program answers for, before its turn comes.
func TestACatalogThatWaitsToBeKeptIsNotKeptForAnother(t *testing.T) {
	fails := &upstream{open: func(context.Context, int) (*conn, error) { return nil, &broker.OpenError{Cause: "no such program"} }}
	for name, after := range map[string][]BackendConfig{"taken out": nil, "another program, which does not list": {backendOn("b", fails, 1)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up, say := listing(described("echo", "One."))
				w := start(t, up, func(o *Options) {
					o.Backends[0].Eager, o.Backends[0].Origin = true, "first"
					o.Fatal = func(reason string) { t.Error(reason) }
				})
				synctest.Wait()
				saved := make(chan struct{})
				stalled := &stalledCatalogs{saving: make(chan struct{}), until: saved}
				w.faults.catalogs.Store(stalled)
				say(described("echo", "Two."))
				w.relist()
				<-stalled.saving // the save of it runs
				say(described("echo", "Three."))
				w.relist()
				w.mustReload([]string{"b"}, nil, after...)
				close(saved)
				elapse(reapEvery)
				synctest.Wait()
				if c := w.storedOf("b"); c.Origin != "first" || len(c.Tools) != 1 {
					t.Errorf("kept %+v", c)
				}
				w.mustReload([]string{"b"}, nil, backendOn("b", &upstream{}, 1))
				if r := w.do(); r.Answer == nil {
					t.Errorf("afterwards: %+v", r)
				}
				synctest.Wait()
				if c := w.storedOf("b"); c.Origin != "b" || len(c.Tools) != 1 {
					t.Errorf("then kept %+v", c)
				}
			})
		})
	}
}

// stalledCatalogs has the first save wait.
type stalledCatalogs struct {
	once   sync.Once
	saving chan struct{}
	until  <-chan struct{}
}

func (s *stalledCatalogs) wait() {
	s.once.Do(func() {
		close(s.saving)
		<-s.until
	})
}

// Instances of sessions wait for the shared one that they come in the place of,
// and no longer.
func TestInstancesOfSessionsWaitForTheNamesakeThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only, up := &exclusive{t: t}, newRunning()
		only.guard(&up.upstream)
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		next := only.guard(&upstream{})
		cfg := backendOn("b", next, 1)
		cfg.PerSession = true
		w.mustReload([]string{"b"}, nil, cfg)
		waits := w.async(context.Background())
		synctest.Wait()
		if next.attempts() != 0 {
			t.Fatal("it was started beside its namesake")
		}
		close(up.gate)
		if r := <-runs; r.Answer == nil {
			t.Fatalf("%+v", r)
		}
		began := time.Now()
		if r := <-waits; r.Answer == nil || time.Since(began) != 0 {
			t.Fatalf("after %s: %+v", time.Since(began), r)
		}
	})
}

// What is held for a namesake is held by the actor that stands in for it, too.
func TestAPanicReleasesNothingThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only, up := &exclusive{t: t}, newRunning()
		only.guard(&up.upstream)
		w := start(t, &up.upstream, one)
		runs := w.async(context.Background())
		synctest.Wait()
		next := only.guard(&upstream{})
		eager := backendOn("b", next, 1)
		eager.Eager = true
		w.mustReload(nil, nil)
		w.mustReload(nil, nil, eager)
		w.mustReload(nil, []string{"b"}, eager) // it is held still
		pid, _ := w.sharedBackend("b")
		w.send(pid, panicking)
		synctest.Wait()
		if next.attempts() != 0 {
			t.Fatal("it was started beside its namesake")
		}
		close(up.gate)
		<-runs
		synctest.Wait()
		if next.attempts() != 1 {
			t.Fatal("it was not released")
		}
	})
}

func TestABackendThatPanicsWhileItLeavesIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only, up := &exclusive{t: t}, newRunning()
		only.guard(&up.upstream)
		w := start(t, &up.upstream, one, func(o *Options) { o.Backends[0].Eager = true })
		runs := w.async(context.Background())
		synctest.Wait()
		w.mustReload(nil, nil)
		w.leaving.Range(func(_, v any) bool {
			w.send(v.(*leavingRef).pid, panicking)
			return true
		})
		if code := w.code(<-runs); code != broker.CodeOutcomeUnknown {
			t.Errorf("what ran got %s", code)
		}
		synctest.Wait()
		if v := w.Backends(context.Background()); len(v) != 0 || up.attempts() != 1 || !isClosed(up.last().done) {
			t.Errorf("left: %+v, after %d starts", v, up.attempts())
		}
	})
}
