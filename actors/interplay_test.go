package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/catalog"
)

// program is a backend that takes time to come up, to answer and to end, as a
// process does, and notes what must not happen to it.
type program struct {
	mu     sync.Mutex
	up     int // lives that are not over
	twice  int // how often a life began beside another
	broken bool
	last   *programLife
	runs   map[string]int // by call
}

type programLife struct {
	p      *program
	done   chan struct{}
	once   sync.Once
	broken bool
}

const (
	programStart = 10 * time.Millisecond
	programEnd   = 40 * time.Millisecond
)

func (p *program) Open(ctx context.Context, _ broker.Hear) (broker.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up++; p.up > 1 {
		p.twice++
	}
	life := &programLife{p: p, done: make(chan struct{}), broken: p.broken}
	p.broken = false
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-ctx.Done():
		elapse(programEnd)
		p.ended()
		return nil, ctx.Err()
	case <-time.After(programStart):
		p.mu.Lock()
		p.last = life
		p.mu.Unlock()
		return life, nil
	}
}

func (p *program) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up--
}

// crash breaks the connection; the process is there until it is closed.
func (p *program) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		p.last.breaks()
	}
}

func (l *programLife) breaks() { l.once.Do(func() { close(l.done) }) }

func (l *programLife) Incarnation() broker.Incarnation {
	if l.broken {
		panic("this incarnation is broken")
	}
	return broker.Incarnation{RuntimeID: fmt.Sprintf("%p", l), Tools: []broker.Tool{tool("echo")}, Done: l.done}
}

func (l *programLife) Call(ctx context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	l.p.mu.Lock()
	l.p.runs[c.ID]++
	l.p.mu.Unlock()
	select {
	case <-time.After(time.Duration(len(c.Params)) * time.Millisecond):
		return broker.Answer{Result: text("done"), RuntimeID: fmt.Sprintf("%p", l)}, nil
	case <-l.done:
		return broker.Answer{}, &broker.Failure{Dispatched: true, Gone: true, Cause: "the connection broke"}
	case <-ctx.Done():
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "cancelled"}
	}
}

func (l *programLife) List(context.Context) ([]broker.Tool, []string, error) {
	return l.Incarnation().Tools, nil, nil
}

func (l *programLife) Close(context.Context) error {
	l.breaks()
	elapse(programEnd)
	l.p.ended()
	return nil
}

// panicking has the actor of a backend panic.
var panicking = (*heard)(nil)

// step is one thing that befalls a backend, or a pause.
type step struct {
	what string
	ms   int // how long a call runs, a drain may last, or nothing happens
}

func (s step) String() string { return fmt.Sprintf("%s %d", s.what, s.ms) }

// played is what the model of a sequence knows: whether the backend is there, and
// whether it takes calls.
type played struct {
	w       *world
	p       *program
	drained bool
	absent  bool
	limits  int
	waits   sync.WaitGroup
	mu      sync.Mutex
	wrong   []string
}

func (g *played) fail(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrong = append(g.wrong, fmt.Sprintf(format, args...))
}

// call runs one and judges its answer, when it comes, by what was so when it
// began.
func (g *played) call(ms int, change ...func(*Request)) {
	g.waits.Add(1)
	r := g.w.request(change...)
	r.Call.Params = []byte(strings.Repeat(" ", ms))
	absent, drained := g.absent, g.drained
	judge := func() {
		defer g.waits.Done()
		reply := g.w.Do(context.Background(), r)
		if reply.Job != nil {
			j := g.w.job(reply.Job.ID)
			reply.Answer = map[bool]*broker.Answer{true: {Result: j.Result}}[j.Status == broker.JobSucceeded]
			if reply.Answer == nil {
				reply.Refusal = broker.Refuse(j.Reason, j.FailureMessage, nil)
			}
		}
		g.p.mu.Lock()
		runs := g.p.runs[r.Call.ID]
		g.p.mu.Unlock()
		code := broker.Code("")
		if reply.Refusal != nil {
			code = reply.Refusal.Code
		}
		switch write := r.Call.Effects == broker.Write; {
		case runs > 1:
			g.fail("a call ran %d times", runs)
		case (reply.Answer != nil) == (reply.Refusal != nil):
			g.fail("a call got %+v", reply)
		case reply.Answer != nil && (runs != 1 || absent || drained):
			g.fail("a call was answered; it ran %d times; absent %t, drained %t", runs, absent, drained)
		case absent && code != broker.CodeBackendUnavailable:
			g.fail("a call to nothing got %q", code)
		case !absent && drained != (code == broker.CodeBackendDraining):
			g.fail("a call got %q: %v; drained %t", code, reply.Refusal, drained)
		case write && runs > 0 && code == broker.CodeBackendUnavailable:
			g.fail("a write that ran is said not to have been sent: %v", reply.Refusal)
		case !write && code == broker.CodeOutcomeUnknown:
			g.fail("the outcome of a read is unknown: %v", reply.Refusal)
		case code == broker.CodeCancelled || code == broker.CodeQueueTimeout:
			g.fail("a call got %q", code)
		}
	}
	go judge()
	synctest.Wait() // it has begun under what is so now
}

// configure puts a configuration in force that has the backend, or not.
func (g *played) configure(has, renew bool, ms int) {
	r := Reconfiguration{Renew: map[string]bool{"b": renew}, Adapt: map[string]bool{"b": !renew}, Drain: time.Duration(ms) * time.Millisecond}
	if has {
		g.limits++
		cfg := backendOn("b", g.p, 1+g.limits%3)
		cfg.Eager = g.limits%2 == 0
		r.Backends, r.Sources = []BackendConfig{cfg}, []catalog.Source{{Backend: "b"}}
	}
	if err := g.w.Reconfigure(context.Background(), r); err != nil {
		g.fail("a configuration was not taken: %v", err)
	}
	g.absent = !has
}

func (g *played) play(s step) {
	switch s.what {
	case "write":
		g.call(s.ms)
	case "read":
		g.call(s.ms, reading)
	case "job":
		g.call(s.ms, long)
	case "drain":
		g.w.drainBackend(byAnn)
		g.drained = true
	case "resume":
		g.w.drainBackend(nil)
		g.drained = false
	case "await":
		g.waits.Go(func() { g.w.AwaitIdle(context.Background(), "b") })
	case "restart":
		g.waits.Go(func() {
			if _, refusal := g.w.Renew(context.Background(), "b"); refusal != nil {
				g.fail("a restart was refused: %v", refusal)
			}
		})
		synctest.Wait()
	case "change":
		g.configure(true, true, s.ms)
	case "adapt":
		g.configure(true, false, s.ms)
	case "leave":
		g.configure(false, false, s.ms)
	case "crash":
		g.p.crash()
	case "panic":
		if pid, ok := g.w.sharedBackend("b"); ok {
			g.w.send(pid, panicking)
		}
		synctest.Wait()
	case "panic of what leaves":
		g.w.leaving.Range(func(_, v any) bool {
			g.w.send(v.(*leavingRef).pid, panicking)
			return true
		})
		synctest.Wait()
	case "broken":
		g.p.mu.Lock()
		g.p.broken = true
		g.p.mu.Unlock()
	case "pause":
		elapse(time.Duration(s.ms) * time.Millisecond)
	}
}

// end lets everything come to its end and looks at what is left.
func (g *played) end() {
	g.play(step{what: "resume"})
	g.configure(true, true, 100)
	ended := make(chan struct{})
	go func() { g.waits.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Hour):
		g.fail("something waits for ever")
		return
	}
	elapse(time.Minute)
	g.call(1, reading)
	g.waits.Wait()
	if n := len(g.w.Backends(context.Background())); n != 1 {
		g.fail("%d backends are left", n)
	}
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	if g.p.twice > 0 {
		g.fail("%d times a life began beside another", g.p.twice)
	}
	if g.p.up != 1 {
		g.fail("%d lives are left", g.p.up)
	}
}

// What an operator, a configuration, a program and a fault do to one backend, in
// any order: each call is answered once and truly, no two lives are there at
// once, and nothing waits for ever.
func TestWhateverBefallsABackendEachCallIsAnsweredOnceAndTruly(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what: rapid.SampledFrom([]string{"write", "read", "job", "write", "read", "job", "drain", "resume", "resume", "await", "restart", "restart", "change", "change", "adapt", "leave",
				"crash", "panic", "panic of what leaves", "broken", "pause", "pause", "pause"}).Draw(t, "what"),
			ms: rapid.SampledFrom([]int{0, 1, 9, 30, 45, 200}).Draw(t, "ms"),
		}
	}), 1, 30)
	play := func(t *testing.T, all []step) (wrong []string) {
		synctest.Test(t, func(t *testing.T) {
			g := &played{p: &program{runs: map[string]int{}}}
			g.w = start(t, nil, func(o *Options) {
				o.Backends[0] = backendOn("b", g.p, 1)
			})
			for _, s := range all {
				g.play(s)
			}
			g.end()
			wrong = g.wrong
		})
		return wrong
	}
	rapid.Check(t, func(rt *rapid.T) {
		all := steps.Draw(rt, "steps")
		if wrong := play(t, all); len(wrong) > 0 {
			rt.Fatalf("%v:\n%s", all, strings.Join(wrong, "\n"))
		}
	})
}
