package broker

import (
	"context"
	"encoding/json"
)

// Peer is the caller's side of a call while it runs: where goes what the
// backend sends besides the answer. The zero Peer takes nothing. Progress and
// Notify are called in order and must not block.
type Peer struct {
	// Progress takes the call's progress notifications.
	Progress func(Progress)
	// Notify takes other notifications that belong to the call, such as log
	// messages: method and params as they came.
	Notify func(method string, params json.RawMessage)
	// Request asks the harness for something in the course of the call
	// (sampling/createMessage, elicitation/create, roots/list) and waits for
	// its answer, at most until ctx ends. Exactly one of the two is set. It may
	// be called by several goroutines. Nil: this caller cannot be asked.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *RPCError)
}

// NoPeer is what a backend hears that asks something of a caller who cannot be
// asked, or is not there any more.
func NoPeer(why string) *RPCError { return &RPCError{Code: -32000, Message: why} }

// Hear takes what a backend sends outside of any call: method and params as
// they came. It must not block.
type Hear func(method string, params json.RawMessage)

// Conn is a connection to one incarnation of a backend. Its methods are safe
// for concurrent use.
type Conn interface {
	// Incarnation gives the facts of this life. They do not change.
	Incarnation() Incarnation

	// Call sends one call and waits for its answer. Nothing of peer is called
	// after Call has returned.
	//
	// When ctx ends after the call was dispatched, Call asks the backend to
	// cancel and goes on waiting for the answer for the cancel grace at most;
	// then it returns a *Failure with Abandoned set. Every error is a *Failure.
	Call(ctx context.Context, call *Call, peer Peer) (Answer, error)

	// List asks for the backend's tools again, all pages. Flags are those of
	// the walk, as in Incarnation. It fails as Call does.
	List(ctx context.Context) (tools []Tool, flags []string, err error)

	// Close ends the life: a child is asked to stop, then killed; a session is
	// deleted. It returns when that is done or ctx ends. It is idempotent.
	Close(ctx context.Context) error
}

// OpenError is why a backend could not be brought up.
type OpenError struct {
	// Auth is true when the backend refused our credentials: trying again
	// without a change of configuration is pointless.
	Auth   bool
	Cause  string // one sentence without credentials
	Stderr string // redacted tail of a child's stderr
}

func (e *OpenError) Error() string { return e.Cause }
