package actors

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"berth/broker"
)

// gate stands between a backend and the caller of Do: what the backend sends
// passes until the call has its reply, and nothing after that. A question that
// is open then ends with an error, unless the call goes on as a job whose
// caller takes tasks: then it is put to the job, and so is every later one.
type gate struct {
	to     broker.Peer
	tasks  bool // the caller takes tasks
	atOnce bool // the call is a job from the start: its caller is not asked while it waits for that

	mu     sync.Mutex
	closed bool
	later  func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError)
	over   context.Context
	end    context.CancelFunc
	open   atomic.Int32 // questions
}

func newGate(req *Request) *gate {
	g := &gate{to: req.Peer, tasks: req.Tasks != nil, atOnce: req.Long || req.IdempotencyKey != ""}
	if g.to.Request != nil || g.tasks {
		g.over, g.end = context.WithCancel(context.Background())
	}
	return g
}

// peer is the caller as the backend may use it.
func (g *gate) peer() broker.Peer {
	var p broker.Peer
	if to := g.to.Progress; to != nil {
		p.Progress = func(n broker.Progress) { g.pass(func() { to(n) }) }
	}
	if to := g.to.Notify; to != nil {
		p.Notify = func(method string, params json.RawMessage) { g.pass(func() { to(method, params) }) }
	}
	if g.over != nil {
		p.Request = g.request
	}
	return p
}

func (g *gate) pass(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		f()
	}
}

func (g *gate) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
	switch {
	case g.over.Err() != nil:
	case g.atOnce && g.tasks: // the reply is on its way
		select {
		case <-g.over.Done():
		case <-ctx.Done():
		}
	case !g.atOnce && g.to.Request != nil:
		g.open.Add(1)
		defer g.open.Add(-1)
		asking, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(g.over, cancel)
		result, problem := g.to.Request(asking, method, params)
		stop()
		cancel()
		if problem == nil || g.over.Err() == nil || ctx.Err() != nil {
			return result, problem
		}
	default:
		return nil, broker.NoPeer("The caller of this call cannot be asked.")
	}
	g.mu.Lock()
	later := g.later
	g.mu.Unlock()
	if later == nil {
		return nil, broker.NoPeer("The caller no longer waits for this call, so it cannot be asked.")
	}
	return later(ctx, method, params)
}

// follow closes the gate and hands what the backend asks to later.
func (g *gate) follow(later func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError)) {
	g.mu.Lock()
	g.later = later
	g.mu.Unlock()
	g.close()
}

// asking reports whether the backend waits for an answer of the caller.
func (g *gate) asking() bool { return g.open.Load() > 0 }

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	if g.end != nil {
		g.end()
	}
}
