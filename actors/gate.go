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
// is open then ends with an error.
type gate struct {
	to     broker.Peer
	mu     sync.Mutex
	closed bool
	over   context.Context
	end    context.CancelFunc
	open   atomic.Int32 // questions
}

func newGate(to broker.Peer) *gate {
	g := &gate{to: to}
	if to.Request != nil {
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
	if g.to.Request != nil {
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
	g.open.Add(1)
	defer g.open.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.over, cancel)()
	if g.over.Err() != nil {
		return nil, broker.NoPeer("The caller no longer waits for this call, so it cannot be asked.")
	}
	return g.to.Request(ctx, method, params)
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
