package app

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"berth/broker"
)

// Options are the optional and the injected parts of a Backend.
type Options struct {
	// Env has the surface's environment names: all of them from one place. Nil
	// is none.
	Env map[string]string
	// Lookup finds other names of the process environment, for the default
	// state directory; nil is os.Getenv.
	Lookup func(string) string
	// OS is the operating system whose default state directory counts; empty is
	// this one.
	OS string
	// ReadOnly leaves the reads only, in the list and in what is answered.
	ReadOnly bool
	// MaxInFlight is how many calls run at once (admission holds them to it);
	// the pool of connections is sized by it. Zero is 4.
	MaxInFlight int
	// TokenFile reports whether a token file may be used; one that may not is as
	// if it were not there. Nil allows any.
	TokenFile func(fs.FileInfo) bool
	// CancelGrace is how long a write that is under way is waited for after its
	// caller has gone; zero is 10 s.
	CancelGrace time.Duration
	Limits      Limits
	Log         *slog.Logger // nil: nothing is logged
	// Now tells the time; nil is time.Now.
	Now func() time.Time
	// Dial opens connections; nil is a net.Dialer. Tests see every byte here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultInFlight = 4
	defaultGrace    = 10 * time.Second
	// beside is how many connections the control lane may have beside the seats.
	beside = 4
)

// Backend is one instance of an app, an upstream of the broker. See the package
// comment.
type Backend struct {
	// fixed at construction
	surface *Surface
	opts    Options
	tools   []broker.Tool
	state   string                   // directory of the token file
	alone   map[string]chan struct{} // one call at a time, of each tool that wants it
	slots   chan struct{}            // requests at once, over all attachments

	mu      sync.Mutex
	att     *attachment
	last    named // where it was looked for last; port 0: nowhere yet
	probing *probing
	lives   map[*life]bool
	known   []string // tokens that were read, the last few
	work    sync.WaitGroup
}

// New describes an instance; nothing is read or sent before a call.
func New(surface *Surface, opts Options) *Backend {
	opts.Limits = opts.Limits.withDefaults()
	if opts.Lookup == nil {
		opts.Lookup = os.Getenv
	}
	if opts.OS == "" {
		opts.OS = runtime.GOOS
	}
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = defaultInFlight
	}
	if opts.CancelGrace <= 0 {
		opts.CancelGrace = defaultGrace
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	opts.ReadOnly = opts.ReadOnly || surface.ReadOnly(opts.Env)
	b := &Backend{surface: surface, opts: opts, tools: surface.List(opts.ReadOnly), lives: map[*life]bool{}, alone: map[string]chan struct{}{},
		slots: make(chan struct{}, opts.MaxInFlight+beside)}
	for _, t := range surface.Tools {
		b.alone[t.Name] = make(chan struct{}, 1)
	}
	if b.state = opts.Env[surface.Discovery.StateDir]; b.state == "" {
		b.state = surface.Discovery.DefaultState(opts.OS, opts.Lookup)
	}
	return b
}

// Open begins a life. It reaches nothing and does not fail.
func (b *Backend) Open(context.Context, broker.Hear) (broker.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &life{backend: b, runtimeID: b.runtimeID(), done: make(chan struct{})}
	b.lives[l] = true
	return l, nil
}

// Refuse is Surface.Refuse with the address that the instance was looked for at
// last.
func (b *Backend) Refuse(verb string, r *broker.Refusal) json.RawMessage {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last.port == 0 {
		return b.surface.Refuse(verb, r)
	}
	return b.surface.Refuse(verb, r, last.base())
}

// runtimeID is that of the present attachment; the lock is held.
func (b *Backend) runtimeID() string {
	if b.att == nil {
		return ""
	}
	return b.att.runtimeID
}

// life is one connection of the broker to the instance, as long as the same
// process answers.
type life struct {
	backend   *Backend
	runtimeID string
	done      chan struct{}
	once      sync.Once
}

// Incarnation gives the facts of this life.
func (l *life) Incarnation() broker.Incarnation {
	return broker.Incarnation{
		RuntimeID: l.runtimeID, Reported: l.runtimeID != "", Server: l.backend.surface.Server(), Tools: l.backend.tools,
		PerCall: true, Done: l.done, Cause: func() string { return "another process answers now, or none" },
	}
}

// List gives the tools, which do not change.
func (l *life) List(context.Context) ([]broker.Tool, []string, error) {
	return l.backend.tools, nil, nil
}

// Call answers one call of a tool.
func (l *life) Call(ctx context.Context, call *broker.Call, _ broker.Peer) (broker.Answer, error) {
	return l.backend.call(ctx, call)
}

// Close ends the life. Connections that nothing uses are let go of; calls that
// run have their own.
func (l *life) Close(context.Context) error {
	b := l.backend
	b.mu.Lock()
	delete(b.lives, l)
	last, att := len(b.lives) == 0, b.att
	b.mu.Unlock()
	l.end()
	if last && att != nil {
		att.wire.close()
	}
	return nil
}

func (l *life) end() { l.once.Do(func() { close(l.done) }) }

// Wait returns when no probe is under way: for whoever must know that nothing
// of the backend runs any more.
func (b *Backend) Wait() { b.work.Wait() }
