package actors

import (
	"context"
	"encoding/json"
	"fmt"
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

// appWorld is a small app: start begins work, queue puts it in a queue, look
// tells how work stands, seek looks for queued work.
type appWorld struct {
	mu    sync.Mutex
	calls []string // names, with the expected runtime id of polls
	at    []time.Time
	look  string // what look says; empty: nothing
	found string // what seek says
	err   error
}

var appFollow = &broker.Follow{
	Started: func(document json.RawMessage) (broker.Work, bool) {
		var d struct{ Handle, Ticket string }
		_ = json.Unmarshal(document, &d)
		if d.Ticket != "" {
			return broker.Work{Ticket: json.RawMessage(`{"ticket":"` + d.Ticket + `"}`)}, true
		}
		return broker.Work{Handle: d.Handle}, d.Handle != ""
	},
	Verb: "look", Arguments: func(handle string) json.RawMessage { return json.RawMessage(`{"handle":"` + handle + `"}`) },
	Read: func(handle, runtimeID string, document json.RawMessage, isError bool) broker.Seen {
		switch {
		case isError:
			return broker.Seen{}
		case string(document) == `"done"`:
			return broker.Seen{Good: true, End: broker.JobSucceeded, Result: json.RawMessage(`{"handle":"` + handle + `","in":"` + runtimeID + `"}`)}
		case string(document) == `"gone"`:
			return broker.Seen{Good: true, End: broker.JobLost, Reason: broker.CodeNotFound, Message: "It is gone."}
		}
		return broker.Seen{Good: true}
	},
	FindVerb: "seek",
	Find: func(_, document json.RawMessage, _ bool) broker.Seen {
		var handle string
		_ = json.Unmarshal(document, &handle)
		return broker.Seen{Good: true, Handle: handle}
	},
	Pace: broker.Pace{First: 2 * time.Second, Most: 15 * time.Second, Factor: 1.5, Jitter: 0.2},
	Most: 24 * time.Hour,
}

func appTestSource(name string) catalog.Source {
	return catalog.Source{Backend: name, Listed: true,
		Tools:   []broker.Tool{tool("start"), tool("queue"), tool("look"), tool("seek")},
		Effects: map[string]broker.Effects{"start": broker.Exec, "queue": broker.Exec, "look": broker.Read, "seek": broker.Read},
		Control: []string{"look"},
		Surface: &catalog.Surface{Name: name, Held: []string{"start"}, Follows: map[string]*broker.Follow{"start": appFollow, "queue": appFollow},
			Refuse: func(_ string, r *broker.Refusal) json.RawMessage { return r.JSON() }}}
}

func (a *appWorld) call(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	var params struct{ Name string }
	_ = json.Unmarshal(c.Params, &params)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, params.Name+" "+c.ExpectedRuntimeID)
	a.at = append(a.at, time.Now())
	if a.err != nil && params.Name != "start" {
		return broker.Answer{}, a.err
	}
	switch params.Name {
	case "start":
		return broker.Answer{Result: text(`{"handle":"h1","more":1.0}`)}, nil
	case "queue":
		return broker.Answer{Result: text(`{"ticket":"t1"}`)}, nil
	case "seek":
		return broker.Answer{Result: text(`"` + a.found + `"`)}, nil
	}
	return broker.Answer{Result: text(`"` + a.look + `"`)}, nil
}

func (a *appWorld) say(look, found string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look, a.found = look, found
}

func (a *appWorld) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.calls...)
}

func startApp(t *testing.T, a *appWorld, change ...func(*Options)) *world {
	return start(t, &upstream{call: a.call}, append([]func(*Options){func(o *Options) { o.Sources = []catalog.Source{appTestSource("b")} }}, change...)...)
}

func verb(name string) func(*Request) {
	return func(r *Request) {
		c := *r.Call
		c.Verb, c.Params = "b__"+name, json.RawMessage(`{"name":"`+name+`"}`)
		r.Call = &c
	}
}

func TestAnAppsAnswerHasItsJobBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{look: "running"}
		w := startApp(t, a)
		began := time.Now()
		reply := w.do(verb("start"))
		if reply.Answer == nil || string(reply.Answer.Result) != string(text(`{"handle":"h1","more":1.0}`)) || reply.Job != nil || reply.Untracked || reply.Tracked == nil {
			t.Fatalf("answered %+v", reply)
		}
		job, err := w.Job(reply.Tracked.ID) // it is durable when its caller hears of it
		if err != nil || job.Status != broker.JobRunning || job.RuntimeID != "life-1" || job.Tracking.Handle != "h1" {
			t.Fatalf("the record is %+v (%v)", job, err)
		}
		elapse(4 * time.Minute)
		a.say("done", "")
		job = w.job(job.ID)
		if job.Status != broker.JobSucceeded || !strings.Contains(string(job.Result), `\"handle\":\"h1\",\"in\":\"life-1\"`) {
			t.Errorf("it ended %+v %s", job, job.Result)
		}
		for i, c := range a.heard() {
			if i > 0 && c != "look life-1" {
				t.Errorf("asked %q, want it bound to the life that answered", c)
			}
		}
		if first := a.at[1].Sub(began); first < 1600*time.Millisecond || first > 2400*time.Millisecond {
			t.Errorf("the first poll came after %s", first)
		}
		for i := 2; i < len(a.at); i++ {
			if pause := a.at[i].Sub(a.at[i-1]); pause > 18*time.Second {
				t.Errorf("a pause of %s", pause)
			}
		}
	})
}

func TestWorkOfALifeWithoutANameIsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{}
		w := start(t, &upstream{open: func(context.Context, int) (*conn, error) { return &conn{call: a.call}, nil }},
			func(o *Options) { o.Sources = []catalog.Source{appTestSource("b")} })
		reply := w.do(verb("start"))
		if reply.Answer == nil || reply.Tracked != nil || reply.Untracked {
			t.Errorf("answered %+v", reply)
		}
	})
}

func TestWorkThatCannotBeJournalledIsAnsweredAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{}
		w := startApp(t, a)
		w.faults.down.Store(true)
		reply := w.do(verb("start"))
		if reply.Answer == nil || reply.Tracked != nil || !reply.Untracked {
			t.Errorf("answered %+v", reply)
		}
		// With a key the record comes first: nothing is sent.
		before := len(a.heard())
		if code := w.code(w.do(verb("start"), func(r *Request) { r.IdempotencyKey, r.Digest = "k", "d" })); code != broker.CodeJobJournal || len(a.heard()) != before {
			t.Errorf("with a key: %s, and sent %v", code, a.heard()[before:])
		}
	})
}

func TestTheAnswerOfAKeyedCallIsKeptUntilItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{look: "running"}
		w := startApp(t, a)
		var once atomic.Bool
		w.up.call = func(ctx context.Context, c *broker.Call, p broker.Peer) (broker.Answer, error) {
			answer, err := a.call(ctx, c, p)
			if once.CompareAndSwap(false, true) {
				w.faults.down.Store(true) // the handle cannot be written at first
				time.AfterFunc(90*time.Second, func() { w.faults.down.Store(false) })
			}
			return answer, err
		}
		reply := w.do(verb("start"), func(r *Request) { r.IdempotencyKey, r.Digest = "k", "d" })
		if reply.Job == nil {
			t.Fatalf("answered %+v", reply)
		}
		elapse(4 * time.Minute)
		job, err := w.Job(reply.Job.ID)
		if err != nil || job.Status != broker.JobRunning || job.Tracking == nil || string(job.Tracking.Answer) != string(text(`{"handle":"h1","more":1.0}`)) {
			t.Fatalf("the record is %+v (%v)", job, err)
		}
		a.say("gone", "")
		if job = w.job(job.ID); job.Status != broker.JobLost || job.Reason != broker.CodeNotFound || len(job.Tracking.Answer) == 0 {
			t.Errorf("it ended %+v", job)
		}
	})
}

func TestFollowedWorkThatDoesNotEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		within time.Duration
		reason broker.Code
	}{
		{"it goes on for a day", nil, 25 * time.Hour, broker.CodeTrackingExpired},
		{"nobody tells for half an hour", &broker.Failure{Cause: "it is away"}, 31 * time.Minute, broker.CodeBackendUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &appWorld{look: "running", err: tt.err}
				w := startApp(t, a)
				reply := w.do(verb("start"))
				before := time.Now()
				job := w.job(reply.Tracked.ID)
				if job.Status != broker.JobLost || job.Reason != tt.reason || time.Since(before) > tt.within {
					t.Errorf("it ended %+v after %s", job, time.Since(before))
				}
			})
		})
	}
}

func TestQueuedWorkIsAcceptedUntilItIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{look: "running"}
		w := startApp(t, a)
		reply := w.do(verb("queue"))
		if reply.Tracked == nil || reply.Tracked.Status != broker.JobAccepted || reply.Tracked.StartedAt != nil {
			t.Fatalf("answered %+v", reply.Tracked)
		}
		elapse(45 * time.Minute) // longer than a job may be accepted that nobody hears of
		if job, _ := w.Job(reply.Tracked.ID); job.Status != broker.JobAccepted {
			t.Errorf("while it is queued it is %+v", job)
		}
		a.say("running", "h7")
		elapse(time.Minute)
		if job, _ := w.Job(reply.Tracked.ID); job.Status != broker.JobRunning || job.Tracking.Handle != "h7" || job.StartedAt == nil {
			t.Errorf("once it was found it is %+v", job)
		}
		a.say("done", "")
		if job := w.job(reply.Tracked.ID); job.Status != broker.JobSucceeded || !strings.Contains(string(job.Result), "h7") {
			t.Errorf("it ended %+v", job)
		}
	})
}

func TestAHoldStopsWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{look: "running"}
		w := startApp(t, a, func(o *Options) {
			o.Hold = func(operation string) *broker.Refusal {
				return broker.Refuse(broker.CodeOverloaded, "Dispatch is on hold: "+operation+".", nil)
			}
		})
		held := func(r *Request) { r.Held = true }
		keyed := func(r *Request) { r.IdempotencyKey, r.Digest = "k", "d" }
		for _, change := range [][]func(*Request){{verb("start"), held}, {verb("start"), held, keyed}} {
			if code := w.code(w.do(change...)); code != broker.CodeOverloaded {
				t.Errorf("refused with %s", code)
			}
		}
		if got := a.heard(); len(got) > 0 {
			t.Errorf("sent %v", got)
		}
		if reply := w.do(verb("look"), reading); reply.Answer == nil {
			t.Errorf("a read is answered %+v", reply)
		}
	})
}

func TestAStopAnswersWhatWasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &appWorld{look: "running"}
		w := startApp(t, a)
		stall := make(chan struct{})
		w.opts.Journal = nil
		w.System.journal = stalled{w.System.journal, stall}
		reply := w.async(context.Background(), verb("start"))
		synctest.Wait()
		w.End("s") // the session ends while the record is on its way
		if r := <-reply; r.Answer == nil || !r.Untracked {
			t.Errorf("answered %+v", r)
		}
		close(stall)
	})
}

// stalled is a journal whose creations wait.
type stalled struct {
	Journal
	until chan struct{}
}

func (s stalled) CreateJob(ctx context.Context, j broker.Job) (broker.Job, bool, error) {
	<-s.until
	return s.Journal.CreateJob(ctx, j)
}

func bindTo(key, place string) func(*Request) {
	return func(r *Request) { r.Binding = &Binding{Key: key, Surface: "b", Env: map[string]string{"P": place}} }
}

// bound makes a system whose sessions may bring b: each place is its own
// upstream, whose answers name it.
func bound(t *testing.T, change ...func(*Options)) (*world, *sync.Map) {
	opened := &sync.Map{} // place -> *appWorld; "" is the configured one
	configured := &appWorld{look: "running"}
	opened.Store("", configured)
	w := startApp(t, configured, append(change, func(o *Options) {
		o.Bindable = []Bindable{{Source: appTestSource("b"), Open: func(env map[string]string) (BackendConfig, *broker.Refusal) {
			place := env["P"]
			if place == "nowhere" {
				return BackendConfig{}, broker.Refuse(broker.CodeInvalidArguments, "Nowhere is no place.", nil)
			}
			a, _ := opened.LoadOrStore(place, &appWorld{look: "running"})
			up := &upstream{open: func(context.Context, int) (*conn, error) {
				return &conn{id: "life-of-" + place, call: a.(*appWorld).call}, nil
			}}
			return BackendConfig{Name: "b", Kind: "app", Upstream: up, Admission: admission.Limits{Seats: 4, MaxQueuedCalls: 8, MaxQueuedJobs: 8}}, nil
		}}}
	})...)
	return w, opened
}

func (w *world) boundShown() (n int) {
	for _, v := range w.Backends(context.Background()) {
		if strings.HasPrefix(v.Name, "b (") {
			n++
		}
	}
	return n
}

func TestWhatASessionBringsIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := bound(t)
		for range 2 {
			for _, place := range []string{"one", "two"} {
				if r := w.do(verb("look"), reading, bindTo("key-"+place, place)); r.Answer == nil || r.Answer.RuntimeID != "life-of-"+place {
					t.Errorf("%s is answered %+v", place, r)
				}
			}
			if r := w.do(verb("look"), reading); r.Answer == nil || r.Answer.RuntimeID != "life-1" {
				t.Errorf("a session that brings nothing is answered %+v", r)
			}
		}
		if n := w.boundShown(); n != 2 {
			t.Errorf("%d are shown", n)
		}
		if r := w.do(verb("look"), bindTo("k", "nowhere")); w.code(r) != broker.CodeInvalidArguments {
			t.Errorf("%+v", r)
		}
		w.EndBinding(broker.LocalOperator, &Binding{Key: "key-one", Surface: "b", Env: map[string]string{"P": "one"}})
		elapse(time.Second)
		if n := w.boundShown(); n != 1 {
			t.Errorf("after the end of one %d are shown", n)
		}
		if r := w.do(verb("look"), reading, bindTo("key-one", "one")); r.Answer == nil || r.Answer.RuntimeID != "life-of-one" {
			t.Errorf("a session that comes back is answered %+v", r)
		}
		elapse(2 * time.Hour)
		if n := w.boundShown(); n != 0 {
			t.Errorf("after two idle hours %d are shown", n)
		}
	})
}

func TestWorkOfABroughtInstanceIsNotLookedForElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, opened := bound(t)
		reply := w.do(verb("start"), bindTo("k1", "one"))
		if reply.Tracked == nil {
			t.Fatalf("answered %+v", reply)
		}
		w.halt()
		w.boot()
		elapse(time.Minute)
		job := w.job(reply.Tracked.ID)
		if job.Status != broker.JobLost || job.Reason != broker.CodeJobLostOnRestart || !strings.Contains(job.FailureMessage, "work h1 in the process life-of-one may go on") {
			t.Errorf("after a restart of the broker it is %+v", job)
		}
		configured, _ := opened.Load("")
		if asked := configured.(*appWorld).heard(); len(asked) > 0 {
			t.Errorf("another instance was asked: %q", asked)
		}
	})
}

func TestASessionMayEndWithTheAnswerThatBeganWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := bound(t)
		const sessions = 50
		for i := range sessions {
			key := fmt.Sprintf("key-%d", i)
			if r := w.do(verb("start"), bindTo(key, "one")); r.Tracked == nil {
				t.Fatalf("answered %+v", r)
			}
			w.EndBinding(broker.LocalOperator, &Binding{Key: key, Surface: "b", Env: map[string]string{"P": "one"}})
		}
		synctest.Wait()
		if n := w.boundShown(); n != sessions {
			t.Errorf("%d of %d are kept for the work that is followed there", n, sessions)
		}
	})
}

func TestWhatSessionsBringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, opened := bound(t, func(o *Options) { o.MaxBound = 2 })
		followed := w.do(verb("start"), bindTo("k1", "one")) // is kept while its work is followed
		if followed.Tracked == nil || followed.Tracked.Instance == "" {
			t.Fatalf("answered %+v", followed)
		}
		w.do(verb("look"), reading, bindTo("k2", "two"))
		if r := w.do(verb("look"), reading, bindTo("k3", "three")); r.Answer == nil {
			t.Errorf("an idle one makes room: %+v", r)
		}
		w.do(verb("start"), bindTo("k3", "three"))
		if code := w.code(w.do(verb("look"), reading, bindTo("k4", "four"))); code != broker.CodeOverloaded {
			t.Errorf("refused with %s", code)
		}
		w.EndBinding(broker.LocalOperator, &Binding{Key: "k1", Surface: "b", Env: map[string]string{"P": "one"}})
		elapse(time.Minute)
		if n := w.boundShown(); n != 2 {
			t.Errorf("%d are shown: what is followed keeps its instance", n)
		}
		a, _ := opened.Load("one")
		a.(*appWorld).say("done", "")
		if job := w.job(followed.Tracked.ID); job.Status != broker.JobSucceeded || !strings.Contains(string(job.Result), "life-of-one") {
			t.Errorf("it ended %+v", job)
		}
		elapse(time.Minute) // the session of it was over, so nothing keeps it now
		if n := w.boundShown(); n != 1 {
			t.Errorf("%d are shown", n)
		}
		if r := w.do(verb("look"), reading, bindTo("k4", "four")); r.Answer == nil {
			t.Errorf("%+v", r)
		}
	})
}
