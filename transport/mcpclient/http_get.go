package mcpclient

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Waits before the standalone stream is asked for again. A stream that lasted
// for steadyStream was a good one, so that the next wait is short again.
const (
	streamBackoff    = 500 * time.Millisecond
	maxStreamBackoff = time.Minute
	steadyStream     = 10 * time.Second
)

// openWait is how long a list waits for the stream that reports its changes.
const openWait = 500 * time.Millisecond

// hearken begins to keep the standalone stream open, and waits a moment until
// it is known whether there is one, so that no change after the first list goes
// unnoticed.
func (c *httpConn) hearken(ctx context.Context, capabilities json.RawMessage) {
	s := &standalone{stream: &stream{c: c, x: &exchange{}}, capabilities: capabilities, known: make(chan struct{})}
	c.desk.background(s.run)
	if !wait(s.known, openWait) {
		s.late.Store(true)
	}
}

// standalone keeps the GET stream of a server of the handshake era open: there
// comes what belongs to no call. A server that has none says so, and is not
// asked again in this life.
type standalone struct {
	*stream
	capabilities json.RawMessage
	known        chan struct{} // closed when it is known whether there is one
	once         sync.Once
	late         atomic.Bool // the lists were read before the stream was open
}

func (s *standalone) run(ctx context.Context) {
	c := s.c
	wait := newStreamBackoff()
	gap := false // something may have happened that nobody told us of
	for opened := false; ; {
		began := time.Now()
		replayed := s.lastID != ""
		ok, status := s.listen(ctx, func() {
			if late := s.late.Swap(false); late || gap && !replayed {
				missed(c.hear, s.capabilities)
			}
			s.once.Do(func() { close(s.known) })
		})
		gap = true
		s.once.Do(func() { close(s.known) })
		if ctx.Err() != nil || c.life.over() {
			return
		}
		switch {
		case ok:
			opened = true
			if time.Since(began) >= steadyStream {
				wait.Reset()
			}
		case final(status) && !opened:
			return
		case status == http.StatusNotFound || status == http.StatusBadRequest:
			c.probe() // the session may be gone
		}
		if !sleep(ctx, max(wait.NextBackOff(), s.retry)) {
			return
		}
	}
}

func newStreamBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(streamBackoff),
		backoff.WithMaxInterval(maxStreamBackoff), backoff.WithMaxElapsedTime(0))
}

// final reports whether a status means that there is no such stream, rather
// than that there is none now. Zero is no answer at all.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented:
		return true
	}
	return status > 0 && status < 500
}

// listen opens the stream once and reads it to its end. ok says that it was
// one; else status tells what the backend answered.
func (s *stream) listen(ctx context.Context, opened func()) (ok bool, status int) {
	fresh, err := s.c.fresh.get(ctx)
	if err != nil {
		return false, 0
	}
	req := s.c.newRequest(ctx, http.MethodGet, nil, fresh)
	req.Header.Set("Accept", "text/event-stream")
	if s.lastID != "" {
		req.Header.Set("Last-Event-ID", s.lastID)
	}
	resp, err := s.c.base.RoundTrip(req)
	if err != nil {
		return false, 0
	}
	defer func() { _ = resp.Body.Close() }()
	s.c.fresh.answered(fresh, resp.StatusCode)
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || mediaType != "text/event-stream" {
		return false, resp.StatusCode
	}
	opened()
	// However it ended, it is asked for again.
	_ = s.read(resp.Body)
	s.data, s.has, s.over, s.hasID, s.kind = nil, false, false, false, ""
	s.x.answer, s.x.failure, s.oversized = nil, nil, false
	return true, resp.StatusCode
}

// sleep waits, and reports false when ctx ends before that.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
