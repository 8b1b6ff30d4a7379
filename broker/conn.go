package broker

import "context"

// Conn is a connection to one incarnation of a backend. Its methods are safe
// for concurrent use.
type Conn interface {
	// Incarnation gives the facts of this life. They do not change.
	Incarnation() Incarnation

	// Call sends one call and waits for its answer. progress may be nil; it is
	// called in order, never after Call has returned, and must not block.
	//
	// When ctx ends after the call was dispatched, Call asks the backend to
	// cancel and goes on waiting for the answer for the cancel grace at most;
	// then it returns a *Failure with Abandoned set. Every error is a *Failure.
	Call(ctx context.Context, call *Call, progress func(Progress)) (Answer, error)

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
