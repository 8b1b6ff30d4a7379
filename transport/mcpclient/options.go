package mcpclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxAnswer   = 64 << 20
	DefaultCancelGrace = 10 * time.Second
	DefaultOpenTimeout = 60 * time.Second
	DefaultMaxInFlight = 64
)

// Limits of the walk over tools/list.
const (
	maxPages = 1000
	maxTools = 100_000
)

// Options hold for both kinds of backend. The zero value is usable.
type Options struct {
	// Version is Berth's own, for clientInfo; empty is "dev".
	Version string
	// MaxAnswer limits one message of the backend in bytes; zero is 64 MiB.
	MaxAnswer int
	// CancelGrace is how long a cancelled call waits for its answer; zero is 10 s.
	CancelGrace time.Duration
	// OpenTimeout limits start, handshake and listing together; zero is 60 s.
	OpenTimeout time.Duration
	// MaxInFlight is how many calls run at once (admission holds them to it);
	// pools and queues are sized by it. Zero is 64.
	MaxInFlight int
	// Redact takes credentials out of causes and stderr tails: the texts of
	// backend and network that are told to people. Nil leaves them as they are.
	// Answers are not touched: they are the backend's.
	Redact func(string) string
	// Handshake keeps to the handshake era and does not ask for the other. A
	// child that offers both eras takes the one that it was first spoken to in,
	// and its tools can ask for something in the middle of a call in this one
	// alone.
	Handshake bool
	// MaxTools limits the catalog of one backend; zero is 100,000.
	MaxTools int
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	if o.CancelGrace <= 0 {
		o.CancelGrace = DefaultCancelGrace
	}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = DefaultOpenTimeout
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.MaxTools <= 0 {
		o.MaxTools = maxTools
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return o
}

// Life is what keeps a child: the guard process in production.
type Life interface {
	// Done is closed when the child has exited.
	Done() <-chan struct{}
	// ExitReason is one sentence; empty while the child runs.
	ExitReason() string
	// StderrTail is the end of what the child wrote to its standard error.
	StderrTail() string
	// Stop asks the child to end and kills it when ctx ends, with all that it
	// started. It is idempotent and also called on a child that has exited.
	Stop(ctx context.Context) error
}

// Child is a started process and the two pipes that MCP runs over. Closing a
// pipe must end a read or write that is blocked on it, as os pipes do.
type Child struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	PID    int
	Life   Life
}

// StdioConfig says how a child is started.
type StdioConfig struct {
	// Start brings up a new child. ctx bounds the start alone, not the life.
	// Its error is shown to operators: it must hold no credential.
	Start func(ctx context.Context) (Child, error)
}

// HTTPConfig says where an upstream is.
type HTTPConfig struct {
	URL     string            // http or https; userinfo becomes basic authentication
	Headers map[string]string // sent with every request, never logged
	// Fresh, when set, gives headers that go before Headers. It is asked before
	// the first request, when FreshTTL has passed (zero: never), and after the
	// backend answered 401 or 403; by one goroutine at a time, except that one
	// whose context ended may still be returning. An error of type *HeadersError
	// is shown to callers; any other must hold no credential either.
	Fresh    func(ctx context.Context) (map[string]string, error)
	FreshTTL time.Duration
}

// Noise counts what a backend sent and nobody was waiting for, over all lives
// of one Stdio or HTTP.
type Noise struct {
	Banner        uint64 // lines on stdout that are no JSON object
	Broken        uint64 // messages that are broken or are no JSON-RPC
	BadText       uint64 // messages with invalid UTF-8, which was replaced
	Unknown       uint64 // answers to an id that is not waiting, duplicates included
	Oversized     uint64 // messages over MaxAnswer
	Notifications uint64 // notifications that are not used
	LateProgress  uint64 // progress for a token that is not waiting
	LostProgress  uint64 // progress dropped because its reader was slow
	Requests      uint64 // requests of the backend that were refused
	LostReplies   uint64 // answers to the backend that found no room or no way
}

type noise struct {
	banner, broken, badText, unknown, oversized, notifications,
	lateProgress, lostProgress, requests, lostReplies atomic.Uint64
}

func (n *noise) snapshot() Noise {
	return Noise{
		Banner: n.banner.Load(), Broken: n.broken.Load(), BadText: n.badText.Load(),
		Unknown: n.unknown.Load(), Oversized: n.oversized.Load(),
		Notifications: n.notifications.Load(), LateProgress: n.lateProgress.Load(),
		LostProgress: n.lostProgress.Load(), Requests: n.requests.Load(),
		LostReplies: n.lostReplies.Load(),
	}
}

// mintUUID gives a random UUID, version 4.
func mintUUID() string {
	var b [16]byte
	// crypto/rand never returns an error; it ends the program instead.
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
