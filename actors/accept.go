package actors

import (
	"context"
	"log/slog"
	"sync"

	"berth/broker"
)

// acceptCatalog takes what a pinned backend lists now as what it may list.
type acceptCatalog struct {
	backend string
	reply   chan<- *broker.Refusal // capacity 1; nil: done
	once    sync.Once
}

func (m *acceptCatalog) NewWork() {}

func (m *acceptCatalog) settle(r *broker.Refusal) { m.once.Do(func() { m.reply <- r }) }

// Reject accepts nothing.
func (m *acceptCatalog) Reject(error) { m.settle(stoppingRefusal()) }

// AcceptCatalog takes what a pinned backend lists now as what it may list: its
// changed verbs can be called again.
func (s *System) AcceptCatalog(ctx context.Context, backend string) *broker.Refusal {
	reply := make(chan *broker.Refusal, 1)
	s.send(s.supervisor, &acceptCatalog{backend: backend, reply: reply})
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return cancelledRefusal()
	}
}

func (s *supervisor) accept(m *acceptCatalog) {
	src, ok := s.sources[m.backend]
	switch {
	case !ok:
		m.settle(broker.Refuse(broker.CodeNotFound, "There is no backend of this name.", map[string]any{"backend": m.backend}))
		return
	case !src.Rules.Pin:
		m.settle(broker.Refuse(broker.CodeInvalidArguments, "This backend is not pinned: whatever it lists is served.", map[string]any{"backend": m.backend}))
		return
	case !src.Listed || src.Stale:
		m.settle(broker.CatalogPending([]string{m.backend}))
		return
	}
	src.Accepted = src.Tools
	s.log.Info("a backend's list was accepted", slog.String("backend", m.backend))
	s.keeping(m.backend).changed = true
	s.rebuild()
	s.keepChanged()
	m.settle(nil)
}
