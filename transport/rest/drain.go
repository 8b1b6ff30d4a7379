package rest

import (
	"context"
	"net/http"
	"time"

	"berth/broker"
	"berth/broker/drain"
	"berth/transport/httpguard"
)

// restartWait is how long a restart lets calls run, in seconds, unless it is
// told otherwise.
const restartWait = 10

// change is what a request asks of a backend.
type change struct {
	who     broker.Principal
	backend string
	reason  string
	wait    context.Context // over when the caller need not wait any longer
}

// changing reads a request and makes the change. It takes one of the places of
// those who wait, so that waits are bounded.
func (a *api) changing(r *http.Request, seconds int, make func(context.Context, change) (drain.Drained, error)) (any, error) {
	if a.Drains == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker's backends are not drained here.", nil)
	}
	if a.ReadOnly {
		return nil, broker.Refuse(broker.CodeReadOnly, "This broker only reads; nothing was changed.", nil)
	}
	var body struct{ Reason string }
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	seconds, err := number(r, "waitSeconds", seconds, 0, maxWait)
	if err != nil {
		return nil, err
	}
	free, refusal := a.wait()
	if refusal != nil {
		return nil, refusal
	}
	defer free()
	wait, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	c := change{backend: r.PathValue("name"), reason: body.Reason, wait: wait}
	c.who, _ = httpguard.Principal(r.Context())
	done, err := make(r.Context(), c)
	if over := a.Guard.Over(r.Context()); over != nil {
		return nil, over
	}
	return done, err
}

func (a *api) drainBackend(r *http.Request) (any, error) {
	return a.changing(r, 0, func(ctx context.Context, c change) (drain.Drained, error) {
		done, err := a.Drains.Drain(ctx, c.who, c.backend, c.reason)
		if err != nil {
			return done, err
		}
		return a.Drains.Idle(c.wait, done)
	})
}

func (a *api) resumeBackend(r *http.Request) (any, error) {
	return a.changing(r, 0, func(ctx context.Context, c change) (drain.Drained, error) {
		return a.Drains.Resume(ctx, c.who, c.backend, c.reason)
	})
}

func (a *api) restartBackend(r *http.Request) (any, error) {
	return a.changing(r, restartWait, func(ctx context.Context, c change) (drain.Drained, error) {
		return a.Drains.Restart(ctx, c.wait, c.who, c.backend, c.reason)
	})
}
