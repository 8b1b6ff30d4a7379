package actors

import (
	"context"
	"sync"
	"sync/atomic"

	"berth/broker"
)

// cell is what outlives a backend's actor when that panics: the one that stands
// in for it is made of this.
type cell struct {
	cfg      atomic.Pointer[BackendConfig]
	held     atomic.Bool // it comes up when a namesake has left
	leaves   atomic.Bool // it was taken out of the configuration
	changing atomic.Bool // a life drains for another configuration
	turns    turns
}

func newCell(cfg BackendConfig, held bool) *cell {
	c := &cell{turns: turns{last: ready}}
	c.cfg.Store(&cfg)
	c.held.Store(held)
	return c
}

// turns lets the lives of one backend begin one after the other, whoever ended
// the one before and for whatever reason: a program never runs twice at once, as
// both may write to one database.
type turns struct {
	mu   sync.Mutex
	last <-chan struct{} // closed when the newest life is over
}

// next is the turn of another life: it may begin when before is closed, and is
// over when over was called, once or more. One that does not wait for its turn
// passes it on.
func (t *turns) next(sys *System) (before <-chan struct{}, over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before = t.last
	mine := make(chan struct{})
	t.last = mine
	return before, sync.OnceFunc(func() {
		select {
		case <-before:
			close(mine)
		default:
			sys.work.Go(func() { <-before; close(mine) })
		}
	})
}

// ended is closed when no life is left.
func (t *turns) ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// lived is a connection whose end lets the next life begin.
type lived struct {
	broker.Conn
	over func()
}

// Close ends the connection; its life is over even when it could not be closed
// within ctx.
func (l *lived) Close(ctx context.Context) error {
	defer l.over()
	return l.Conn.Close(ctx)
}
