package mcpclient

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
)

// failurePause is how long a failed attempt to get headers stands for those
// that want them next, so that a queue of calls does not become a queue of
// attempts.
const failurePause = time.Second

// HeadersError is why there are no headers. Both texts are shown to callers:
// they hold no credential but what Redact takes out.
type HeadersError struct {
	Cause  string // one sentence
	Stderr string
}

func (e *HeadersError) Error() string { return e.Cause }

// fresh keeps the headers that HTTPConfig.Fresh gives, over all lives of an
// upstream. Those who want them while there are none share one attempt, which
// ends when the last of them leaves.
type fresh struct {
	give func(context.Context) (map[string]string, error)
	ttl  time.Duration // zero: no limit

	mu      sync.Mutex
	held    *credentials // nil: none that may be used
	failed  error
	until   time.Time // of failed
	attempt *attempt  // nil: none runs
}

// credentials are headers that were given once.
type credentials struct {
	header http.Header // never changed
	until  time.Time   // zero: no limit
	// accepted says that the backend has answered a request with them otherwise
	// than by turning it away.
	accepted atomic.Bool
}

type attempt struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int // under fresh.mu
	got     *credentials
	err     error
}

// newFresh is nil when an upstream has only the headers of its configuration.
func newFresh(config HTTPConfig) *fresh {
	if config.Fresh == nil {
		return nil
	}
	return &fresh{give: config.Fresh, ttl: config.FreshTTL}
}

// get gives the headers to send now; none on a nil fresh.
func (f *fresh) get(ctx context.Context) (*credentials, error) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	now := time.Now()
	switch {
	case f.held != nil && (f.held.until.IsZero() || now.Before(f.held.until)):
		defer f.mu.Unlock()
		return f.held, nil
	case f.attempt == nil && now.Before(f.until):
		defer f.mu.Unlock()
		return nil, f.failed
	case f.attempt == nil:
		f.begin()
	}
	a := f.attempt
	a.waiting++
	f.mu.Unlock()
	select {
	case <-a.done:
		return a.got, a.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.cancel()
		if f.attempt == a {
			f.attempt = nil // the next does not wait for one that was given up
		}
	}
	return nil, ctx.Err()
}

// begin starts an attempt; f.mu is held.
func (f *fresh) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	f.attempt = a
	go func() {
		defer cancel()
		given, err := f.give(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil {
			a.got = &credentials{header: http.Header{}}
			for name, value := range given {
				a.got.header.Set(name, value)
			}
			if f.ttl > 0 {
				a.got.until = time.Now().Add(f.ttl)
			}
		}
		a.err = err
		if f.attempt == a { // else it was given up, and its end says nothing
			f.attempt, f.held, f.failed = nil, a.got, err
			if err != nil {
				f.until = time.Now().Add(failurePause)
			}
		}
		close(a.done)
	}()
}

// answered notes what the backend's status says of the headers that a request
// had. After 401 and 403 they are not used again. expired says that they were
// good before: then new ones may be.
func (f *fresh) answered(c *credentials, status int) (expired bool) {
	if f == nil || c == nil {
		return false
	}
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		c.accepted.Store(true)
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == c { // else another answer has said so before
		f.held = nil
	}
	return c.accepted.Load()
}

// last gives the headers that may be used without a new attempt; nil: none.
func (f *fresh) last() *credentials {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// noHeaders is the failure of a call for which there are no headers; nothing
// of it was sent.
func noHeaders(err error, opts Options) *broker.Failure {
	open := refuse(err, "", opts)
	return &broker.Failure{Cause: open.Cause, Stderr: open.Stderr}
}
