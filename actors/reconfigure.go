package actors

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
	"berth/broker/catalog"
)

// This file is how a running system takes another configuration. The supervisor
// does it in one message, so that no two are mixed: the catalog is checked as a
// start would check it, and then sources, backends and settings change together,
// or nothing does.

// Reconfiguration is another configuration, as the actors take it.
type Reconfiguration struct {
	// Backends are all that are configured, the native one left out. What stands
	// neither in Renew nor in Adapt and runs already is not touched.
	Backends []BackendConfig
	Renew    map[string]bool // drain and start anew
	Adapt    map[string]bool // go on under other limits
	// Sources are the parts of the catalog of all of Backends.
	Sources []catalog.Source
	// Native are the facts of the broker's own verbs, among them who sees each;
	// nil: as they were.
	Native   map[string]catalog.Facts
	Disabled []BackendView
	Catalog  catalog.Settings
	// Drain is how long what runs may go on where a life ends.
	Drain time.Duration
}

// Reconfigure puts another configuration in force. An error wraps ErrCatalog, or
// is that the system stops; then nothing has changed. It does not wait for
// backends that drain.
func (s *System) Reconfigure(ctx context.Context, r Reconfiguration) error {
	if s.closing.Load() {
		return stoppingRefusal()
	}
	reply := make(chan error, 1)
	s.send(s.supervisor, &reconfigureAll{Reconfiguration: r, reply: reply})
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reconfigureAll asks the supervisor for it.
type reconfigureAll struct {
	Reconfiguration
	reply chan<- error // capacity 1
	once  sync.Once
}

func (m *reconfigureAll) NewWork() {}

func (m *reconfigureAll) settle(err error) { m.once.Do(func() { m.reply <- err }) }

// Reject changes nothing.
func (m *reconfigureAll) Reject(error) { m.settle(stoppingRefusal()) }

// leavingRef is a backend that was taken out and has not ended.
type leavingRef struct {
	pid *actor.PID
	cfg BackendConfig
}

// recheck tells a job that its work is in a backend that has another life now.
type recheck struct{}

// backendGone tells a job that the backend that holds its work has left.
type backendGone struct{}

func (s *supervisor) reconfigure(ctx actor.Context, m *reconfigureAll) {
	sources := s.sourcesAfter(m)
	list := make([]catalog.Source, 0, len(sources))
	for _, src := range sources {
		list = append(list, *src)
	}
	next, err := CheckCatalog(list, m.Catalog)
	if err == nil && s.sys.gate != nil {
		_, err = CheckProofs(s.sys.gate.config, next)
	}
	if err != nil {
		m.settle(err)
		return
	}
	s.sys.former.Store(s.sys.snapshot.Load())
	s.sources, s.settings = sources, m.Catalog
	disabled := m.Disabled
	s.sys.disabled.Store(&disabled)
	wanted := map[string]bool{catalog.NativeName: true}
	for _, cfg := range m.Backends {
		wanted[cfg.Name] = true
	}
	s.sys.backends.Range(func(name, v any) bool {
		if !wanted[name.(string)] {
			s.remove(v.(*backendRef), m.Drain)
		}
		return true
	})
	for _, cfg := range m.Backends {
		s.configure(ctx, cfg, m)
	}
	s.rebuild()
	m.settle(nil)
}

// sourcesAfter are the catalog's sources as they will be. What is known of a
// backend stays known as long as the same is reached under its name; after a new
// life it has to be confirmed.
func (s *supervisor) sourcesAfter(m *reconfigureAll) map[string]*catalog.Source {
	origins := map[string]string{}
	for _, cfg := range m.Backends {
		origins[cfg.Name] = cfg.Origin
	}
	out := map[string]*catalog.Source{}
	for name, src := range s.sources {
		if !src.Native {
			continue
		}
		own := *src
		if m.Native != nil {
			own.Facts = m.Native
		}
		out[name] = &own
	}
	for i := range m.Sources {
		next := m.Sources[i]
		was, had := s.sources[next.Backend]
		renewed := m.Renew[next.Backend]
		switch {
		case !had || (renewed && (next.Surface != nil || was.Surface != nil || s.origin(next.Backend) != origins[next.Backend])):
		default:
			kept := *was
			kept.Rules, kept.Stale = next.Rules, was.Stale || (renewed && was.Listed && was.Surface == nil)
			switch {
			case !kept.Rules.Pin:
				kept.Accepted = nil
			case !was.Rules.Pin && was.Listed:
				kept.Accepted = was.Tools
			}
			next = kept
		}
		out[next.Backend] = &next
	}
	return out
}

// configure gives one backend its configuration, and makes it where there is
// none.
func (s *supervisor) configure(ctx actor.Context, cfg BackendConfig, m *reconfigureAll) {
	v, had := s.sys.backends.Load(cfg.Name)
	if !had {
		s.keeping(cfg.Name).know(cfg.Told)
		s.spawnBackend(ctx, cfg, "", s.isLeaving(cfg.Name))
		return
	}
	ref, renew := v.(*backendRef), m.Renew[cfg.Name]
	switch {
	case !renew && !m.Adapt[cfg.Name]:
		return
	case ref.cfg.PerSession != cfg.PerSession: // other actors answer from now on
		s.remove(ref, m.Drain)
		s.spawnBackend(ctx, cfg, "", s.isLeaving(cfg.Name))
		return
	}
	if renew {
		delete(s.unlisted, cfg.Name)
	}
	s.sys.backends.Store(cfg.Name, &backendRef{pid: ref.pid, cfg: cfg})
	tell := func(pid *actor.PID, cfg BackendConfig) {
		if renew {
			s.draining[pid.Id] = true
		}
		s.sys.send(pid, &reconfigure{cfg: cfg, renew: renew, drain: m.Drain, followed: s.followsAt(pid)})
	}
	tell(ref.pid, cfg)
	s.eachInstance(cfg.Name, func(_ string, pid *actor.PID) {
		own := cfg
		own.Eager = false
		tell(pid, own)
	})
}

// eachInstance calls f for each session's instance of a backend.
func (s *supervisor) eachInstance(backend string, f func(key string, pid *actor.PID)) {
	s.sys.instances.Range(func(k, pid any) bool {
		if name, _, _ := cutInstance(k.(string)); name == backend {
			f(k.(string), pid.(*actor.PID))
		}
		return true
	})
}

// remove takes a backend out: nobody finds it any more, and it ends when what
// runs there has ended.
func (s *supervisor) remove(ref *backendRef, drain time.Duration) {
	name := ref.cfg.Name
	s.sys.backends.Delete(name)
	s.sys.states.Delete(name)
	delete(s.unlisted, name)
	out := func(pid *actor.PID, cfg BackendConfig) {
		s.draining[pid.Id] = true
		s.sys.leaving.Store(pid.Id, &leavingRef{pid: pid, cfg: cfg})
		s.sys.send(pid, &leave{drain: drain, followed: s.followsAt(pid)})
	}
	out(ref.pid, ref.cfg)
	s.eachInstance(name, func(key string, pid *actor.PID) {
		s.sys.instances.Delete(key)
		out(pid, ref.cfg)
	})
	s.log.Info("a backend was taken out of the configuration", slog.String("backend", name))
}

func (s *supervisor) isLeaving(name string) (is bool) {
	s.sys.leaving.Range(func(_, v any) bool {
		is = is || v.(*leavingRef).cfg.Name == name
		return !is
	})
	return is
}

// gone ends what was followed at a backend that has left, and lets a namesake
// come up.
func (s *supervisor) gone(m *gone) {
	v, ok := s.sys.leaving.LoadAndDelete(m.pid)
	if !ok {
		return
	}
	delete(s.lives, m.pid)
	delete(s.draining, m.pid)
	name := v.(*leavingRef).cfg.Name
	for _, t := range s.tracks {
		if t.backend.Id == m.pid {
			s.sys.send(t.pid, &backendGone{})
		}
	}
	if s.isLeaving(name) {
		return
	}
	for _, pid := range s.sys.actorsOf(name) {
		s.sys.send(pid, &release{})
	}
}

// renewedLife has the jobs whose work was in the life before look whether it is
// there still.
func (s *supervisor) renewedLife(m *renewedLife) {
	s.lives[m.pid] = m.life
	delete(s.draining, m.pid)
	for _, t := range s.tracks {
		if t.backend.Id == m.pid {
			s.sys.send(t.pid, &recheck{})
		}
	}
}

// followedAt tells a backend that drains whether work is followed there.
func (s *supervisor) followedAt(backend *actor.PID) {
	if backend != nil && s.draining[backend.Id] {
		s.sys.send(backend, &follows{any: s.followsAt(backend)})
	}
}

// recheck makes the next poll name the incarnation that the record has. What is
// polled at this moment may be either.
func (j *job) recheck() {
	if j.step != stepTrack {
		return
	}
	if j.record.RuntimeID == "" && !j.record.Tracking.Kind.IsTask() {
		j.finish(broker.JobChange{To: broker.JobLost, At: j.sys.now(), Reason: broker.CodeTrackedWorkLost,
			Message: "The backend was started anew with another configuration and names no incarnation by which this work could be known again; what became of it is unknown."})
		return
	}
	j.checked = false
	j.voided = j.poll
}

// backendGone ends a job whose work can no longer be asked for.
func (j *job) backendGone() {
	if j.step == stepTrack {
		j.finish(j.sys.unconfigured(j.record))
	}
}
