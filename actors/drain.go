package actors

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
	"berth/broker/drain"
)

// This file is how an operator drains and renews the actors of a backend: the
// shared one and those of sessions. *System is drain.Backends. An instance that a
// session brought under the name is drained with them, but is its session's to
// restart.

// drainBackend has every actor of a backend refuse new calls, or (nil) take
// them again. The supervisor does it, because it also spawns them.
type drainBackend struct {
	backend string
	notice  *drain.Notice
	reply   chan<- *broker.Refusal // capacity 1; nil: done
	once    sync.Once
}

func (m *drainBackend) NewWork() {}

func (m *drainBackend) settle(r *broker.Refusal) { m.once.Do(func() { m.reply <- r }) }

// Reject changes nothing.
func (m *drainBackend) Reject(error) { m.settle(stoppingRefusal()) }

// draining is why a backend takes no new calls; nil: it takes them.
func (s *System) draining(backend string) *drain.Notice {
	if v, ok := s.drains.Load(backend); ok {
		return v.(*drain.Notice)
	}
	return nil
}

func (s *supervisor) drain(m *drainBackend) {
	if m.notice == nil {
		s.sys.drains.Delete(m.backend)
	} else {
		s.sys.drains.Store(m.backend, m.notice)
	}
	for _, pid := range append(s.sys.actorsOf(m.backend), s.sys.broughtAs(m.backend)...) {
		s.sys.send(pid, &setDraining{notice: m.notice})
	}
	m.settle(nil)
}

// actorsOf lists the actors of a configured backend, the shared one first.
func (s *System) actorsOf(backend string) (all []*actor.PID) {
	if pid, ok := s.sharedBackend(backend); ok {
		all = append(all, pid)
	}
	s.instances.Range(func(k, pid any) bool {
		if strings.HasPrefix(k.(string), backend+"\x00") {
			all = append(all, pid.(*actor.PID))
		}
		return true
	})
	return all
}

// broughtAs lists the actors of instances that sessions brought under a name.
func (s *System) broughtAs(backend string) (all []*actor.PID) {
	s.bound.Range(func(_, v any) bool {
		if ref := v.(*boundRef); ref.cfg.Name == backend {
			all = append(all, ref.pid)
		}
		return true
	})
	return all
}

// Drainable reports whether a backend of the name is configured and is not the
// broker itself.
func (s *System) Drainable(backend string) bool {
	v, ok := s.backends.Load(backend)
	return ok && v.(*backendRef).cfg.Kind != kindNative
}

// kindNative is the kind of the broker's own backend.
const kindNative = "native"

// SetDraining has a backend refuse new calls as backend_draining; nil lets it
// take them again. Calls that wait or run go on, and so do polls of followed
// work.
func (s *System) SetDraining(ctx context.Context, backend string, notice *drain.Notice) *broker.Refusal {
	reply := make(chan *broker.Refusal, 1)
	s.send(s.supervisor, &drainBackend{backend: backend, notice: notice, reply: reply})
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return cancelledRefusal()
	}
}

// AwaitIdle gives how many calls and jobs are left at a backend, once there are
// none or ctx is over.
func (s *System) AwaitIdle(ctx context.Context, backend string) int {
	var replies []chan struct{}
	waiting, done := context.WithCancel(ctx)
	defer done()
	all := append(s.actorsOf(backend), s.broughtAs(backend)...)
	for _, pid := range all {
		reply := make(chan struct{}, 1)
		s.send(pid, &awaitIdle{reply: reply, left: waiting.Done()})
		replies = append(replies, reply)
	}
	for _, reply := range replies {
		select {
		case <-reply:
		case <-ctx.Done():
		}
	}
	left := 0
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), viewLimit)
	defer cancel()
	for _, pid := range all {
		view := make(chan BackendView, 1)
		s.send(pid, &viewBackend{reply: view})
		select {
		case v := <-view:
			left += v.InFlight + v.QueuedCalls + v.QueuedJobs
		case <-looking.Done():
		}
	}
	return left
}

// Renew ends the present life of each actor of a backend and begins another;
// ended is how many calls still ran. An actor that serves only sessions' own
// instances is left alone.
func (s *System) Renew(ctx context.Context, backend string) (ended int, refusal *broker.Refusal) {
	pids := s.actorsOf(backend)
	if v, ok := s.backends.Load(backend); ok && v.(*backendRef).cfg.PerSession {
		shared := v.(*backendRef).pid
		pids = slices.DeleteFunc(pids, func(pid *actor.PID) bool { return pid == shared })
	}
	var replies []chan renewal
	for _, pid := range pids {
		reply := make(chan renewal, 1)
		s.send(pid, &renewLife{reply: reply})
		replies = append(replies, reply)
	}
	for _, reply := range replies {
		select {
		case r := <-reply:
			ended += r.ended
			if refusal == nil {
				refusal = r.refusal
			}
		case <-ctx.Done():
			return ended, cancelledRefusal()
		}
	}
	return ended, refusal
}
