package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"berth/broker/shape"
)

// attachment is one process of the app that has confirmed itself. It does not
// change; a call keeps the one that it began with.
type attachment struct {
	named     named
	wire      *wire
	runtimeID string // empty: it reports none that is valid
}

// probing is one attempt to attach, shared by all who wait for it.
type probing struct {
	done    chan struct{}
	att     *attachment // set before done is closed, as is problem
	problem *Problem
}

// attach gives the present attachment, or makes one. A failure is not
// remembered. Both results are nil when ctx ends first.
func (b *Backend) attach(ctx context.Context) (*attachment, *Problem) {
	b.mu.Lock()
	if b.att != nil {
		defer b.mu.Unlock()
		return b.att, nil
	}
	p := b.probing
	if p == nil {
		p = &probing{done: make(chan struct{})}
		b.probing = p
		b.work.Go(func() { b.probe(p) })
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.att, p.problem
	case <-ctx.Done():
		return nil, nil
	}
}

// probe makes one attempt. It is bounded by its own limits and not by any one
// caller.
func (b *Backend) probe(p *probing) {
	p.att, p.problem = b.tryAttach(context.Background())
	b.mu.Lock()
	b.probing = nil
	if p.att != nil {
		b.att = p.att
		b.renew()
	}
	b.mu.Unlock()
	close(p.done)
}

func (b *Backend) tryAttach(ctx context.Context) (att *attachment, problem *Problem) {
	defer func() {
		if v := recover(); v != nil {
			att, problem = nil, NewProblem(InternalError, "Attaching to "+b.surface.Name+" failed inside the adapter.", map[string]any{"reason": "panic"})
		}
	}()
	s := b.surface
	n, problem := s.find(b.opts.Env, b.state, readRegular)
	if problem != nil {
		return nil, problem
	}
	b.mu.Lock()
	b.last = n
	b.mu.Unlock()
	token, problem := s.token(n, func(path string, limit int) ([]byte, error) { return readAllowed(path, limit, b.opts.TokenFile) })
	if problem != nil {
		return nil, problem
	}
	b.remember(token)
	w := newWire(n, token, s.Routes[s.Discovery.Health].Path, b.opts.Limits, b.opts.MaxInFlight+beside, b.opts.Dial)
	conn, reply, err := w.probe(ctx)
	if err != nil {
		return nil, s.unconfirmed(n, err)
	}
	w.seed(conn)
	said := readIdentity(reply.Body)
	b.opts.Log.Debug("attached", slog.String("base", n.base()), slog.String("runtime_id", said.id))
	return &attachment{named: n, wire: w, runtimeID: said.id}, nil
}

// unconfirmed is why a probe did not confirm the instance.
func (s *Surface) unconfirmed(n named, err error) *Problem {
	var probe *errProbe
	if !errors.As(err, &probe) {
		return s.unavailable(s.Sentences.NotRunning, n, "")
	}
	switch {
	case probe.status == http.StatusUnauthorized:
		return s.unavailable(s.Sentences.TokenRefused, n, "token_refused")
	case probe.status != 0:
		return s.unavailable(s.Sentences.NotThisApp, n, "not_"+s.Name).With("status", probe.status)
	case probe.broken:
		return s.unavailable(s.Sentences.NotThisApp, n, "not_"+s.Name).With("status", nil)
	}
	return s.unavailable(s.Sentences.NotRunning, n, "")
}

// saysOK recognises a health answer.
func saysOK(body []byte) bool {
	o, ok := ReadObject(body)
	if !ok {
		return false
	}
	status, _ := shape.Text(OrNull(o.Get("status")))
	return status == "ok"
}

// drop forgets an attachment, unless another has taken its place.
func (b *Backend) drop(att *attachment) {
	b.mu.Lock()
	if b.att == att {
		b.att = nil
		b.renew()
	}
	b.mu.Unlock()
	att.wire.drop()
}

// renew ends the lives that another process, or none, answers now; the lock is
// held.
func (b *Backend) renew() {
	for l := range b.lives {
		if l.runtimeID != b.runtimeID() {
			delete(b.lives, l)
			l.end()
		}
	}
}

// maxKnown is how many tokens are remembered to be kept out of answers: those
// of earlier processes may still be echoed.
const maxKnown = 8

func (b *Backend) remember(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.known, token) {
		return
	}
	if b.known = append(b.known, token); len(b.known) > maxKnown {
		b.known = b.known[1:]
	}
}
