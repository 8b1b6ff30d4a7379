package actors

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"berth/actors/box"
	"berth/broker"
	"berth/broker/catalog"
)

const (
	supervisorMailbox = 65536
	// reapEvery is how often unfinished jobs are looked at
	// (contracts/native.md section 2), and idle sessions with them.
	reapEvery  = 30 * time.Second
	pruneFirst = time.Second
	pruneEvery = time.Hour
	pruneBatch = 1000
)

// listed reports a backend's new incarnation, or why there is none.
type listed struct {
	backend string
	origin  string // what was reached under the name
	inc     broker.Incarnation
	failed  *broker.Refusal
}

// openSession asks for the actor of a session.
type openSession struct {
	info  SessionInfo
	reply chan<- *broker.Refusal // capacity 1
	once  sync.Once
}

func (m *openSession) NewWork() {}

func (m *openSession) settle(r *broker.Refusal) { m.once.Do(func() { m.reply <- r }) }

// Reject refuses the session.
func (m *openSession) Reject(error) { m.settle(stoppingRefusal()) }

// openInstance asks for a session's own incarnation of a backend.
type openInstance struct {
	backend, session string
	reply            chan<- *actor.PID // capacity 1; nil when there will be none
	once             sync.Once
}

func (m *openInstance) NewWork() {}

func (m *openInstance) settle(pid *actor.PID) { m.once.Do(func() { m.reply <- pid }) }

// Reject gives no instance.
func (m *openInstance) Reject(error) { m.settle(nil) }

// closeSession ends a session.
type closeSession struct{ key string }

// jobEnded reports that a job actor is done.
type jobEnded struct{ id, callID string }

// track asks for polls of a job.
type track struct {
	id      string
	pid     *actor.PID
	backend *actor.PID   // that holds the work
	life    uint64       // of the backend, in which the work began; 0: of an earlier broker
	pace    *broker.Pace // nil: the usual
}

// pollDue is the timer of a tracked job.
type pollDue struct{ id string }

// pollReport says that a poll of a tracked job has ended.
type pollReport struct{ id string }

// reapTick and pruneTick are the supervisor's own timers.
type (
	reapTick  struct{}
	pruneTick struct{}
	pruned    struct{}
	reapList  struct{ stale []broker.Job }
)

// tracked is the schedule of one tracked job.
type tracked struct {
	pid     *actor.PID
	backend *actor.PID
	backoff *backoff.ExponentialBackOff
	timer   *time.Timer
}

// supervisor owns the other actors, the catalog's sources, and the periodic
// work: reaping, tracking polls and retention.
type supervisor struct {
	// fixed at construction
	sys      *System
	log      *slog.Logger
	sessions *actor.Props

	// owned by the actor
	self       *actor.PID
	sources    map[string]*catalog.Source
	settings   catalog.Settings
	lives      map[string]uint64   // by actor: the present life of backends that were renewed
	draining   map[string]bool     // by actor
	unlisted   map[string]unlisted // backends whose start failed before anything was listed
	generation uint64
	told       map[catalog.Quarantined]bool // what was logged and still stands
	keeps      map[string]*keeping          // by backend
	counted    uint64                       // costs of the catalog, when they were last kept
	jobs       map[string]*actor.PID        // by call id, while they are being made
	tracks     map[string]*tracked
	spawned    uint64 // sessions and instances, for unique names
	timers     map[string]*time.Timer
	reaping    bool
	pruning    bool
}

func newSupervisor(sys *System) *supervisor {
	return &supervisor{sys: sys, log: sys.log, sessions: sessionProps(sys), settings: sys.opts.Catalog, lives: map[string]uint64{}, draining: map[string]bool{}, sources: map[string]*catalog.Source{}, unlisted: map[string]unlisted{}, told: map[catalog.Quarantined]bool{}, keeps: map[string]*keeping{},
		jobs: map[string]*actor.PID{}, tracks: map[string]*tracked{}, timers: map[string]*time.Timer{}}
}

// Receive dispatches one message.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.self = ctx.Self()
		s.sys.supervisor = s.self
		s.started(ctx)
	case *actor.Stopping:
		s.stopTimers()
		s.keepLast()
	case *listed:
		s.listed(m)
	case *openSession:
		s.openSession(ctx, m)
	case *openInstance:
		s.openInstance(ctx, m)
	case *closeSession:
		s.closeSession(m.key)
	case *openBound:
		s.openBound(ctx, m)
	case *closeBound:
		s.closeBound(m.id)
	case *jobStart:
		s.spawnJob(ctx, m)
	case *cancelClaim:
		if pid, ok := s.jobs[m.callID]; ok {
			ctx.Send(pid, m)
		}
	case *journalReplaced:
		s.replaced(ctx, m)
	case *drainBackend:
		s.drain(m)
	case *acceptCatalog:
		s.accept(m)
	case *kept:
		s.kept(m)
	case *reconfigureAll:
		s.reconfigure(ctx, m)
	case *renewedLife:
		s.renewedLife(m)
	case *gone:
		s.gone(m)
	case *jobEnded:
		delete(s.jobs, m.callID)
		s.untrack(m.id)
	case *track:
		s.track(m)
	case *pollDue:
		if t, ok := s.tracks[m.id]; ok {
			ctx.Send(t.pid, &pollJob{})
		}
	case *pollReport:
		s.pollReport(m)
	case *reapTick:
		s.after("reap", reapEvery, &reapTick{})
		s.expireSessions()
		s.expireBound()
		s.findStale()
		s.keepChanged()
	case *reapList:
		s.reap(m)
	case *pruneTick:
		s.after("prune", pruneEvery, &pruneTick{})
		s.prune()
	case *pruned:
		s.pruning = false
	}
}

// started spawns the backends and the jobs that go on over a restart.
func (s *supervisor) started(ctx actor.Context) {
	for _, src := range s.sys.opts.Sources {
		source := src
		s.sources[src.Backend] = &source
	}
	for _, cfg := range s.sys.opts.Backends {
		s.keeping(cfg.Name).know(cfg.Told)
	}
	s.rebuild()
	for _, cfg := range s.sys.opts.Backends {
		s.spawnBackend(ctx, cfg, "", false)
	}
	s.keepChanged()
	s.resume(ctx, s.sys.opts.Tracked)
	s.after("reap", reapEvery, &reapTick{})
	s.after("prune", pruneFirst, &pruneTick{})
	close(s.sys.started)
}

// after sends msg to the supervisor itself once d has passed, unless it stops.
func (s *supervisor) after(name string, d time.Duration, msg any) {
	self := s.self
	s.timers[name] = time.AfterFunc(d, func() { s.sys.send(self, msg) })
}

func (s *supervisor) stopTimers() {
	for _, t := range s.timers {
		t.Stop()
	}
	for id := range s.tracks {
		s.untrack(id)
	}
}

// spawnBackend makes a backend's actor. One that is held comes up when it is
// released.
func (s *supervisor) spawnBackend(ctx actor.Context, cfg BackendConfig, session string, held bool) *actor.PID {
	s.spawned++ // one of the same name may still be leaving
	name := "backend/" + cfg.Name + "/" + strconv.FormatUint(s.spawned, 10)
	sys, cell := s.sys, newCell(cfg, held)
	pid, err := ctx.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return newBackend(sys, cell, session) },
		actor.WithMailbox(box.Mailbox(backendMailbox))), name)
	if err != nil {
		s.log.Error("a backend actor could not be spawned", slog.String("backend", cfg.Name), slog.String("cause", err.Error()))
		return nil
	}
	if session == "" {
		sys.backends.Store(cfg.Name, &backendRef{pid: pid, cfg: cfg})
	}
	return pid
}

func (s *supervisor) openSession(ctx actor.Context, m *openSession) {
	key := m.info.Key
	if _, ok := s.sys.sessions.Load(key); ok {
		m.settle(nil)
		return
	}
	if int(s.sys.sessionCount.Load()) >= s.sys.opts.MaxSessions && !s.evictIdle() {
		m.settle(broker.Refuse(broker.CodeOverloaded, "The broker has too many sessions.",
			map[string]any{"limit": s.sys.opts.MaxSessions}).Retry(5 * time.Second))
		return
	}
	s.spawned++ // an ended session of the same key may still be stopping
	pid, err := ctx.SpawnNamed(s.sessions, "session/"+strconv.FormatUint(s.spawned, 10))
	if err != nil {
		s.log.Error("a session actor could not be spawned", slog.String("session", key), slog.String("cause", err.Error()))
		m.settle(stoppingRefusal().Retry(time.Second))
		return
	}
	ref := &sessionRef{pid: pid, info: m.info}
	s.sys.recall(ref)
	ref.lastSeen.Store(s.sys.now().UnixNano())
	s.sys.sessions.Store(key, ref)
	s.sys.sessionCount.Add(1)
	m.settle(nil)
}

// evictIdle ends the session that has been idle longest; a client that comes
// back with its id is served again.
func (s *supervisor) evictIdle() bool {
	var oldest *sessionRef
	s.sys.sessions.Range(func(_, v any) bool {
		ref := v.(*sessionRef)
		if ref.inflight.Load() == 0 && (oldest == nil || ref.lastSeen.Load() < oldest.lastSeen.Load()) {
			oldest = ref
		}
		return true
	})
	if oldest == nil {
		return false
	}
	s.closeSession(oldest.info.Key)
	return true
}

func (s *supervisor) expireSessions() {
	before := s.sys.now().Add(-s.sys.opts.SessionIdle).UnixNano()
	s.sys.sessions.Range(func(_, v any) bool {
		if ref := v.(*sessionRef); ref.inflight.Load() == 0 && ref.lastSeen.Load() < before {
			s.closeSession(ref.info.Key)
		}
		return true
	})
}

func (s *supervisor) closeSession(key string) {
	v, ok := s.sys.sessions.LoadAndDelete(key)
	if !ok {
		return
	}
	s.sys.sessionCount.Add(-1)
	s.sys.Forget(key)
	s.sys.send(v.(*sessionRef).pid, &endSession{})
	s.sys.instances.Range(func(k, pid any) bool {
		if _, session, _ := cutInstance(k.(string)); session == key {
			s.sys.instances.Delete(k)
			delete(s.lives, pid.(*actor.PID).Id)
			delete(s.draining, pid.(*actor.PID).Id)
			s.sys.send(pid.(*actor.PID), &retire{})
		}
		return true
	})
}

// cutInstance gives the backend and the session of an instance's key.
func cutInstance(key string) (backend, session string, ok bool) { return strings.Cut(key, "\x00") }

func (s *supervisor) openInstance(ctx actor.Context, m *openInstance) {
	key := m.backend + "\x00" + m.session
	if pid, ok := s.sys.instances.Load(key); ok {
		m.settle(pid.(*actor.PID))
		return
	}
	ref, ok := s.sys.backends.Load(m.backend)
	if !ok {
		m.settle(nil)
		return
	}
	cfg := ref.(*backendRef).cfg
	cfg.Eager = false
	pid := s.spawnBackend(ctx, cfg, m.session, s.isLeaving(cfg.Name))
	if pid != nil {
		s.sys.instances.Store(key, pid)
	}
	m.settle(pid)
}

func (s *supervisor) spawnJob(ctx actor.Context, m *jobStart) {
	sys := s.sys
	j := newJob(sys, m)
	pid, err := ctx.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return j }, actor.WithMailbox(box.Mailbox(jobMailbox))), "job/"+j.record.ID)
	if err != nil {
		s.log.Error("a job actor could not be spawned", slog.String("job", j.record.ID), slog.String("cause", err.Error()))
		m.Reject(err)
		return
	}
	if m.record == nil {
		s.jobs[m.req.Call.ID] = pid
	}
}
