package mcpserver

import (
	"context"
	"net/http"
	"strings"
	"time"

	"berth/transport/jsonrpc"
)

// The waits of a bridge between two attempts to hear the broker.
const (
	listenFirst = 250 * time.Millisecond
	listenMost  = 30 * time.Second
)

// listen follows the broker's notifications of the present session until the
// run ends, the session is another one, or the broker has none to give. It takes
// the place of one that follows an earlier session.
func (r *bridge) listen() {
	ctx, stop := context.WithCancel(r.run)
	r.mu.Lock()
	before := r.deafen
	r.deafen = stop
	r.mu.Unlock()
	if before != nil {
		before()
	}
	r.ears.Go(func() {
		defer stop()
		r.follow(ctx)
	})
}

// deaf ends listening.
func (r *bridge) deaf() {
	r.mu.Lock()
	stop := r.deafen
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	r.ears.Wait()
}

// follow opens stream after stream. A broker that is away is asked for again,
// more and more seldom; that it is away is told by requests that need it.
func (r *bridge) follow(ctx context.Context) {
	wait, anew := listenFirst, false
	for ctx.Err() == nil {
		began := time.Now()
		again := r.hear(ctx, anew)
		if !again {
			return
		}
		if time.Since(began) > listenMost {
			wait = listenFirst
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait, anew = min(2*wait, listenMost), true
	}
}

// hear passes on what one stream brings. It reports whether another is worth a
// try: not where the broker says that there is none for this session.
func (r *bridge) hear(ctx context.Context, anew bool) (again bool) {
	base, token, err := r.target(anew)
	if err != nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.postTo(ctx, base, token, http.MethodGet, nil, false)
	if err != nil {
		return true
	}
	defer discard(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode >= 500
	}
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "text/event-stream" {
		return false
	}
	silence := time.AfterFunc(r.Silence, cancel)
	defer silence.Stop()
	events := newEventReader(resp.Body, r.MaxLine, func() { silence.Reset(r.Silence) })
	for {
		event, err := events.next()
		if err != nil {
			return true
		}
		if msg, err := jsonrpc.Decode(event); err == nil && msg.Kind != jsonrpc.Response {
			r.say(event)
		}
	}
}
