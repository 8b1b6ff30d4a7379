package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
	"berth/broker/catalog"
)

// Catalog gives the present snapshot of the registry.
func (s *System) Catalog() *catalog.Snapshot { return s.snapshot.Load() }

// AwaitCatalog gives a snapshot in which everything of the profile is known, or
// the present one when ctx ends. Every backend that is waited for is woken. In
// the merged profile that is those of which nothing is known and which have not
// failed to start; in a backend's own it is that one, until it has listed in
// this broker's life or one more attempt has failed.
func (s *System) AwaitCatalog(ctx context.Context, profile string) *catalog.Snapshot {
	before := s.lists.Load().unlisted
	woken := false
	for {
		lists, snapshot := s.lists.Load(), s.snapshot.Load()
		p, ok := snapshot.Profile(profile)
		if !ok {
			return snapshot
		}
		waits := p.Pending()
		if p.Exact() {
			waits = p.Unconfirmed()
		}
		if !woken {
			for _, name := range waits {
				if pid, ok := s.sharedBackend(name); ok {
					s.send(pid, &ensureUp{})
				}
			}
			woken = true
		}
		waits = slices.DeleteFunc(waits, func(name string) bool {
			times := lists.unlisted[name].times
			return times > before[name].times || times > 0 && !p.Exact()
		})
		if len(waits) == 0 {
			return snapshot
		}
		select {
		case <-lists.changed:
		case <-ctx.Done():
			return s.snapshot.Load()
		}
	}
}

// The availabilities of a backend (contracts/catalog.md section 1).
const (
	Ready    = "ready"
	Starting = "starting"
	Down     = "down"
)

// lastSeen is what is known of a backend without asking its actor.
type lastSeen struct {
	state     BackendState
	runtimeID string // while it is ready
}

// Standing says how a backend is and which life of it runs, without asking it.
// One that was not needed yet is ready: a call brings it up.
func (s *System) Standing(backend string) (availability, runtimeID string) {
	now := lastSeen{state: StateIdle}
	if v, ok := s.states.Load(backend); ok {
		now = v.(lastSeen)
	}
	if s.draining(backend) != nil {
		return Down, now.runtimeID
	}
	switch now.state {
	case StateIdle, StateReady:
		return Ready, now.runtimeID
	case StateStarting, StateDraining:
		return Starting, ""
	}
	return Down, ""
}

// Availability is Standing without the life.
func (s *System) Availability(backend string) string {
	availability, _ := s.Standing(backend)
	return availability
}

// WhyPending refuses what depends on backends of which nothing is known: with
// the reason for which one could not be started, else `catalog_pending`.
func (s *System) WhyPending(backends []string) *broker.Refusal {
	lists := s.lists.Load()
	for _, name := range backends {
		if u, ok := lists.unlisted[name]; ok {
			return u.why
		}
	}
	return broker.CatalogPending(backends)
}

// Backends gives every backend as it is now, by name. One whose actor does not
// answer before ctx ends is left with what is fixed.
func (s *System) Backends(ctx context.Context) []BackendView {
	ctx, cancel := context.WithTimeout(ctx, viewLimit)
	defer cancel()
	type asked struct {
		cfg   BackendConfig
		reply chan BackendView
	}
	var all []asked
	ask := func(cfg BackendConfig, pid *actor.PID) {
		a := asked{cfg: cfg, reply: make(chan BackendView, 1)}
		s.send(pid, &viewBackend{reply: a.reply})
		all = append(all, a)
	}
	s.backends.Range(func(_, v any) bool {
		ref := v.(*backendRef)
		ask(ref.cfg, ref.pid)
		return true
	})
	s.instances.Range(func(k, pid any) bool {
		name, session, _ := strings.Cut(k.(string), "\x00")
		if v, ok := s.backends.Load(name); ok {
			cfg := v.(*backendRef).cfg
			cfg.Name += " (" + session + ")"
			ask(cfg, pid.(*actor.PID))
		}
		return true
	})
	s.bound.Range(func(_, v any) bool {
		ask(v.(*boundRef).shown(), v.(*boundRef).pid)
		return true
	})
	s.leaving.Range(func(_, v any) bool {
		cfg := v.(*leavingRef).cfg
		cfg.Name += " (leaving)"
		ask(cfg, v.(*leavingRef).pid)
		return true
	})
	out := slices.Clone(*s.disabled.Load())
	for _, a := range all {
		v := BackendView{}
		select {
		case v = <-a.reply:
		case <-ctx.Done():
		}
		v.Name, v.Kind = a.cfg.Name, a.cfg.Kind
		if v.State == "" {
			v.State = StateStopped
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b BackendView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Sessions gives the sessions that have an actor, by key.
func (s *System) Sessions() []SessionView {
	ctx, cancel := context.WithTimeout(context.Background(), viewLimit)
	defer cancel()
	var out []SessionView
	var replies []chan sessionLoad
	s.sessions.Range(func(_, v any) bool {
		ref := v.(*sessionRef)
		reply := make(chan sessionLoad, 1)
		s.send(ref.pid, &viewSession{reply: reply})
		replies = append(replies, reply)
		out = append(out, SessionView{SessionInfo: ref.info, LastSeen: time.Unix(0, ref.lastSeen.Load())})
		return true
	})
	for i, reply := range replies {
		select {
		case load := <-reply:
			out[i].InFlight, out[i].Calls = load.inFlight, load.calls
		case <-ctx.Done():
		}
	}
	slices.SortFunc(out, func(a, b SessionView) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// viewLimit is how long an actor may take to show itself.
const viewLimit = 2 * time.Second

// Job reads one record with its result.
func (s *System) Job(id string) (broker.Job, error) { return s.journal.Job(id) }

// Jobs lists records without results, newest submission first.
func (s *System) Jobs(filter broker.JobFilter) (broker.JobPage, error) { return s.journal.Jobs(filter) }

// Watch signals each durable change of a job until the function is called.
func (s *System) Watch(id string) (<-chan struct{}, func()) { return s.journal.Watch(id) }

// Delayed reports whether a job's next transition is known but not yet durable.
func (s *System) Delayed(id string) bool {
	_, ok := s.delayed.Load(id)
	return ok
}

// CancelJob ends a job as Failed, reason `cancelled`, and returns the record
// once that is durable. It refuses with `job_not_found` and `job_terminal`.
func (s *System) CancelJob(ctx context.Context, id, reason string, by broker.Principal) (broker.Job, error) {
	terminal := func() error {
		return broker.Refuse(broker.CodeJobTerminal, "The job has already ended.", map[string]any{"JobId": id})
	}
	record, err := s.journal.Job(id)
	if errors.Is(err, broker.ErrJobNotFound) {
		return record, broker.Refuse(broker.CodeJobNotFound, "Job not found", map[string]any{"JobId": id})
	}
	if err != nil {
		return record, err
	}
	if record.Status.Final() {
		return record, terminal()
	}
	pid, ok := s.jobs.Load(id)
	if !ok {
		return record, broker.Refuse(broker.CodeJobTerminal, "The job is ending.", map[string]any{"JobId": id})
	}
	reply := make(chan error, 1)
	s.send(pid.(*actor.PID), &cancelJob{reason: reason, by: by, reply: reply})
	select {
	case err = <-reply:
	case <-ctx.Done():
		return record, broker.Refuse(broker.CodeJobJournal, "The job was told to end; that is not durable yet.", map[string]any{"JobId": id}).Retry(time.Second)
	}
	if errors.Is(err, broker.ErrJobFinal) {
		return record, terminal()
	}
	if err != nil {
		return record, err
	}
	return s.journal.Job(id)
}

// Stop refuses new calls, waits until those in flight and the jobs that run
// here (tracked ones run elsewhere) have ended or ctx is over, tells the rest that the broker stops, and waits for everything it
// started. Unfinished jobs stay in the journal as they are: the next start
// makes them Lost. It is idempotent.
func (s *System) Stop(ctx context.Context) {
	s.stopOnce.Do(func() {
		s.closing.Store(true)
		s.drained(ctx, func() bool { return s.inflight.Load() == 0 && s.working.Load() == 0 })
		// Backends first: they know which calls were sent, and say so.
		s.backends.Range(func(_, v any) bool {
			s.stopActor(v.(*backendRef).pid)
			return true
		})
		s.instances.Range(func(_, pid any) bool {
			s.stopActor(pid.(*actor.PID))
			return true
		})
		s.bound.Range(func(_, v any) bool {
			s.stopActor(v.(*boundRef).pid)
			return true
		})
		s.leaving.Range(func(_, v any) bool {
			s.stopActor(v.(*leavingRef).pid)
			return true
		})
		told, cancel := context.WithTimeout(context.Background(), viewLimit)
		defer cancel()
		s.drained(told, func() bool { return s.inflight.Load() == 0 })
		if err := s.root.StopFuture(s.supervisor).Wait(); err != nil {
			s.log.Warn("the actors did not stop in time", slog.String("cause", err.Error()))
		}
		s.work.Wait()
		s.as.Shutdown()
	})
}

// drained waits until over or the end of ctx.
func (s *System) drained(ctx context.Context, over func() bool) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !over() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

func (s *System) stopActor(pid *actor.PID) {
	if err := s.root.StopFuture(pid).Wait(); err != nil {
		s.log.Warn("an actor did not stop in time", slog.String("actor", pid.Id), slog.String("cause", err.Error()))
	}
}

// isBackend tells a backend's actor by its name.
func isBackend(pid *actor.PID) bool { return strings.Contains(pid.Id, "/backend/") }

// SessionCount is how many sessions have an actor.
func (s *System) SessionCount() int { return int(s.sessionCount.Load()) }

// BytesInFlight is what the calls that wait or run weigh.
func (s *System) BytesInFlight() int64 { return s.budget.Used() }
