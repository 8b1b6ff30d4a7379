package actors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/parity"
)

// This file is about instances of local apps that sessions bring themselves:
// each has a backend actor of its own, which nobody else's calls reach.

// Binding names the instance of a local app that a session brings.
type Binding struct {
	Key     string // of the session's own choosing; nobody else knows it
	Surface string
	Env     map[string]string // the app's variables
}

// Place is a digest of what the binding reaches, whoever brings it.
func (b *Binding) Place() string { return b.digest("") }

// id names the session's own backend.
func (b *Binding) id(p broker.Principal) string { return b.digest(p.Digest() + "\x00" + b.Key) }

func (b *Binding) digest(more string) string {
	h := sha256.New()
	for _, part := range []string{more, b.Surface} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		h.Write([]byte(strconv.Quote(name) + "=" + strconv.Quote(b.Env[name])))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Bindable is a local app that sessions may bring an instance of.
type Bindable struct {
	// Source is the app's part of the catalog, under the surface's name.
	Source catalog.Source
	// Open makes the backend of one instance, or says why not. It reaches
	// nothing.
	Open func(env map[string]string) (BackendConfig, *broker.Refusal)
}

// boundRef is one session's own backend.
type boundRef struct {
	pid      *actor.PID
	cfg      BackendConfig
	id       string
	lastSeen atomic.Int64 // unix nanoseconds
	inflight atomic.Int64
	left     atomic.Bool // its session is over; what is followed there keeps it
}

// openBound asks for a session's own backend.
type openBound struct {
	id      string
	binding *Binding
	reply   chan<- *broker.Refusal // capacity 1; nil: it is there
	once    sync.Once
}

func (m *openBound) NewWork() {}

func (m *openBound) settle(r *broker.Refusal) { m.once.Do(func() { m.reply <- r }) }

// Reject gives no backend.
func (m *openBound) Reject(error) { m.settle(stoppingRefusal()) }

// closeBound ends a session's own backend.
type closeBound struct{ id string }

// BoundCatalog gives the catalog as a session sees it that brings an instance
// of a surface: with that surface under its own name, in the place of a
// configured one. There is none when the name is another backend's.
func (s *System) BoundCatalog(surface string) (*catalog.Snapshot, bool) {
	made, ok := s.boundCatalogs.Load().(map[string]func() *catalog.Snapshot)
	if !ok || made[surface] == nil {
		return nil, false
	}
	snapshot := made[surface]()
	return snapshot, snapshot != nil
}

// EndBinding gives up a session's own backend. Work that is followed there is
// followed to its end.
func (s *System) EndBinding(p broker.Principal, b *Binding) {
	s.send(s.supervisor, &closeBound{id: b.id(p)})
}

// boundFor gives the session's own backend, and counts a call of it until
// done is called.
func (s *System) boundFor(ctx context.Context, p broker.Principal, b *Binding) (ref *boundRef, done func(), refusal *broker.Refusal) {
	id := b.id(p)
	for range 2 { // one that was given up meanwhile is opened again
		if v, ok := s.bound.Load(id); ok {
			ref := v.(*boundRef)
			ref.inflight.Add(1)
			ref.left.Store(false)
			ref.lastSeen.Store(s.now().UnixNano())
			if _, still := s.bound.Load(id); still {
				return ref, func() {
					ref.lastSeen.Store(s.now().UnixNano())
					ref.inflight.Add(-1)
				}, nil
			}
			ref.inflight.Add(-1)
		}
		reply := make(chan *broker.Refusal, 1)
		s.send(s.supervisor, &openBound{id: id, binding: b, reply: reply})
		select {
		case r := <-reply:
			if r != nil {
				return nil, nil, r
			}
		case <-ctx.Done():
			return nil, nil, cancelledRefusal()
		}
	}
	return nil, nil, broker.Refuse(broker.CodeOverloaded, "Instances come and go too fast; try again.", nil).Retry(time.Second)
}

// profileOf finds the exact profile of a backend, be it configured or brought. Of
// one that is not listed, or is configured no more, it is the profile before the
// last change of the configuration: a life that drains has those verbs.
func (s *System) profileOf(backend string) (*catalog.Profile, bool) {
	p, ok := s.snapshot.Load().Profile(backend)
	if ok && len(p.Pending()) == 0 {
		return p, true
	}
	if former := s.former.Load(); former != nil {
		if was, had := former.Profile(backend); had && len(was.Pending()) == 0 {
			return was, true
		}
	}
	if ok {
		return p, true
	}
	if snapshot, ok := s.BoundCatalog(backend); ok {
		return snapshot.Profile(backend)
	}
	return nil, false
}

// rebuildBound prepares the catalogs of sessions that bring an instance. They
// are built when one does.
func (s *supervisor) rebuildBound(generation uint64, sources []catalog.Source) {
	made, settings := map[string]func() *catalog.Snapshot{}, s.settings
	for _, b := range s.sys.opts.Bindable {
		name := b.Source.Backend
		at := slices.IndexFunc(sources, func(src catalog.Source) bool { return src.Backend == name })
		if at >= 0 && (sources[at].Surface == nil || sources[at].Surface.Name != b.Source.Surface.Name) {
			continue
		}
		with := slices.DeleteFunc(slices.Clone(sources), func(src catalog.Source) bool { return src.Backend == name })
		with = append(with, b.Source)
		made[name] = sync.OnceValue(func() *catalog.Snapshot { return s.sys.checkedBound(name, generation, with, settings) })
	}
	s.sys.boundCatalogs.Store(made)
}

// checkedBound builds the catalog of sessions that bring an instance and has it
// pass the self-check like every other. One that does not is not served: the one
// before it is, if there is one; else nil.
func (s *System) checkedBound(surface string, generation uint64, sources []catalog.Source, settings catalog.Settings) *catalog.Snapshot {
	snapshot, _, faults := parity.Build(generation, sources, settings)
	for _, f := range faults {
		s.log.Error("the catalog of sessions that bring an instance does not pass its self-check", slog.String("surface", surface),
			slog.String("check", f.Check), slog.String("backend", f.Backend), slog.String("verb", f.Verb), slog.String("reason", f.Reason))
	}
	if len(faults) == 0 {
		s.boundServed.Store(surface, snapshot)
		return snapshot
	}
	if before, ok := s.boundServed.Load(surface); ok {
		return before.(*catalog.Snapshot)
	}
	return nil
}

func (s *supervisor) openBound(ctx actor.Context, m *openBound) {
	if _, ok := s.sys.bound.Load(m.id); ok {
		m.settle(nil)
		return
	}
	at := slices.IndexFunc(s.sys.opts.Bindable, func(b Bindable) bool { return b.Source.Backend == m.binding.Surface })
	if _, ok := s.sys.BoundCatalog(m.binding.Surface); !ok || at < 0 {
		m.settle(broker.Refuse(broker.CodeBackendUnavailable, "A session cannot bring an instance of this: it is no local app, or the name is another backend's.", map[string]any{"backend": m.binding.Surface}))
		return
	}
	if s.sys.boundCount.Load() >= int64(s.sys.opts.MaxBound) && !s.evictBound() {
		m.settle(broker.Refuse(broker.CodeOverloaded, "Sessions have brought as many instances as the broker takes.", map[string]any{"limit": s.sys.opts.MaxBound}).Retry(5 * time.Second))
		return
	}
	cfg, refusal := s.sys.opts.Bindable[at].Open(m.binding.Env)
	if refusal != nil {
		m.settle(refusal)
		return
	}
	cfg.Eager = false
	pid := s.spawnBackend(ctx, cfg, m.id, false)
	if pid == nil {
		m.settle(stoppingRefusal().Retry(time.Second))
		return
	}
	ref := &boundRef{pid: pid, cfg: cfg, id: m.id}
	ref.lastSeen.Store(s.sys.now().UnixNano())
	s.sys.bound.Store(m.id, ref)
	s.sys.boundCount.Add(1)
	s.log.Info("a session brought an instance", slog.String("backend", cfg.Name), slog.String("instance", m.id))
	m.settle(nil)
}

// closeBound gives one up; its actor ends when nothing is left to do there.
func (s *supervisor) closeBound(id string) {
	v, ok := s.sys.bound.Load(id)
	if !ok {
		return
	}
	if s.followsAt(v.(*boundRef).pid) {
		v.(*boundRef).left.Store(true)
		return
	}
	s.sys.bound.Delete(id)
	s.sys.boundCount.Add(-1)
	s.sys.send(v.(*boundRef).pid, &retire{})
}

// followsAt reports whether work at a backend is followed.
func (s *supervisor) followsAt(backend *actor.PID) bool {
	for _, t := range s.tracks {
		if t.backend == backend {
			return true
		}
	}
	return false
}

// evictBound gives up the instance that has been idle longest; a session that
// comes back is served again.
func (s *supervisor) evictBound() bool {
	oldest := s.idleBound(func(a, b *boundRef) bool { return a.lastSeen.Load() < b.lastSeen.Load() })
	if oldest == nil {
		return false
	}
	s.closeBound(oldest.id)
	return true
}

// idleBound gives the first of the instances that nothing is done at.
func (s *supervisor) idleBound(before func(a, b *boundRef) bool) *boundRef {
	var first *boundRef
	s.sys.bound.Range(func(_, v any) bool {
		ref := v.(*boundRef)
		if ref.inflight.Load() == 0 && !s.followsAt(ref.pid) && (first == nil || before(ref, first)) {
			first = ref
		}
		return true
	})
	return first
}

// expireBound gives up instances whose session is over, or that nobody has
// called for long.
func (s *supervisor) expireBound() {
	since := s.sys.now().Add(-s.sys.opts.SessionIdle).UnixNano()
	s.sys.bound.Range(func(_, v any) bool {
		if ref := v.(*boundRef); ref.inflight.Load() == 0 && (ref.left.Load() || ref.lastSeen.Load() < since) {
			s.closeBound(ref.id)
		}
		return true
	})
}

// shown is how an operator sees whose backend it is.
func (r *boundRef) shown() BackendConfig {
	cfg := r.cfg
	cfg.Name = strings.TrimSpace(cfg.Name + " (" + r.id + ")")
	return cfg
}
