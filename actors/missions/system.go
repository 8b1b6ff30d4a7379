package missions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/actors/box"
	"berth/broker"
)

// Options is what a System is made of. A zero limit is its default.
type Options struct {
	Store  Store
	Docks  Docks
	Agents Agents
	Tokens Tokens // may be nil when Deliver is false
	Briefs Briefs
	Board  Board // nil: nobody is told

	Log    *slog.Logger
	Now    func() time.Time
	Random io.Reader // of ids; safe for concurrent use

	MaxAgents      int           // that run at once; default 8
	StallAfter     time.Duration // without a line; default 10 min
	MissionTimeout time.Duration // from the launch; default 240 min
	DocksDir       string        // absolute; a dock stands at DocksDir/<vessel's name>/<mission's id>
	Deliver        bool          // agents get a token to call back with
}

// The defaults of Options.
const (
	defaultAgents  = 8
	defaultStall   = 10 * time.Minute
	defaultTimeout = 240 * time.Minute
)

// The limits of single steps. A port that does not return within its own is
// taken as one that failed.
const (
	prepareLimit = 15 * time.Minute
	briefLimit   = 3 * time.Minute
	startLimit   = 2 * time.Minute
	collectLimit = 5 * time.Minute
	cutLimit     = 15 * time.Second // collecting what an agent left that was cut off
	landLimit    = 15 * time.Minute
	reclaimLimit = 2 * time.Minute
	killLimit    = 10 * time.Second // one attempt; it is repeated
	writeLimit   = 30 * time.Second // one attempt
	stopGrace    = 5 * time.Second
)

// errStopping is why everything ends when the system stops.
var errStopping = errors.New("the broker is stopping")

// System carries out missions. Its life is New, Recover, Start, Stop.
type System struct {
	// fixed at construction
	opts Options
	log  *slog.Logger
	now  func() time.Time
	ctx  context.Context // ends when the system stops
	cut  context.CancelCauseFunc

	// set by Start, before anything else is called
	as       *actor.ActorSystem
	root     *actor.RootContext
	assigner *actor.PID

	// shared, safe
	running    atomic.Bool // between Start and Stop
	woken      atomic.Bool // a wake is on its way
	live       sync.Map    // mission id -> struct{}: it has an actor
	hindered   atomic.Bool // a procedure failed: the next pass is not at once
	cancelling marks       // voyages that are being called off
	unreadable sync.Map    // what was logged of records that cannot be read
	forced     chan struct{}
	stopOnce   sync.Once
	stopErr    error
	work       sync.WaitGroup
}

// New makes a system that does nothing yet.
func New(opts Options) (*System, error) {
	switch {
	case opts.Store == nil || opts.Docks == nil || opts.Agents == nil || opts.Briefs == nil || opts.Log == nil || opts.Now == nil || opts.Random == nil:
		return nil, errors.New("missions: Store, Docks, Agents, Briefs, Log, Now and Random are required")
	case opts.Deliver && opts.Tokens == nil:
		return nil, errors.New("missions: Tokens is required where tokens are delivered")
	case opts.DocksDir == "":
		return nil, errors.New("missions: DocksDir is required")
	}
	if opts.MaxAgents <= 0 {
		opts.MaxAgents = defaultAgents
	}
	if opts.StallAfter <= 0 {
		opts.StallAfter = defaultStall
	}
	if opts.MissionTimeout <= 0 {
		opts.MissionTimeout = defaultTimeout
	}
	s := &System{opts: opts, log: opts.Log, now: opts.Now, forced: make(chan struct{})}
	s.ctx, s.cut = context.WithCancelCause(context.Background())
	return s, nil
}

// Start spawns the assigner, which makes its first pass at once. Recover comes
// before it.
func (s *System) Start() error {
	s.as = box.NewSystem(s.log)
	s.root = s.as.Root
	pid, err := s.root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return newAssigner(s) },
		actor.WithMailbox(box.Mailbox(assignerMailbox)), actor.WithSupervisor(endsChildren{s.log})), "missions")
	if err != nil {
		s.as.Shutdown()
		return fmt.Errorf("start the assigner: %w", err)
	}
	s.assigner = pid
	s.running.Store(true)
	s.Wake()
	return nil
}

// Stop ends the agents with every descendant and returns when they are gone, or
// when ctx ends: then it gives an error. The records of their missions stay as
// they are; the next start says what became of them.
func (s *System) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *System) stop(ctx context.Context) error {
	started := s.running.Swap(false)
	s.cut(errStopping)
	if !started {
		return nil
	}
	var slow error
	if err := s.root.StopFuture(s.assigner).Wait(); err != nil {
		slow = fmt.Errorf("the actors of missions did not stop in time: %w", err)
	}
	gone := make(chan struct{})
	go func() { s.work.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-ctx.Done():
		close(s.forced)
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-gone:
		case <-grace.C:
		}
		slow = errors.Join(slow, fmt.Errorf("agents were still being ended: %w", ctx.Err()))
	}
	s.as.Shutdown()
	s.live.Clear()
	return slow
}

// Wake asks for a pass of the assigner. It never blocks and may be called as
// often as one likes.
func (s *System) Wake() {
	if s.running.Load() && s.woken.CompareAndSwap(false, true) {
		s.send(s.assigner, wake{})
	}
}

// Running reports whether a mission has an agent, or a step of its procedure is
// under way.
func (s *System) Running(missionID string) bool {
	_, ok := s.live.Load(missionID)
	return ok
}

// send posts a message; it never blocks.
func (s *System) send(to *actor.PID, msg any) { s.root.Send(to, msg) }

// marks is a set whose members may be put in more than once.
type marks struct {
	mu sync.Mutex
	of map[string]int
}

func (m *marks) put(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]int{}
	}
	m.of[id]++
}

func (m *marks) take(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[id]--; m.of[id] == 0 {
		delete(m.of, id)
	}
}

func (m *marks) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[id] > 0
}

// newID makes the id of a record.
func (s *System) newID(prefix string) (string, error) {
	return broker.NewID(prefix, s.now(), s.opts.Random)
}

// endsChildren stops an actor of a mission that failed; its procedure ends by
// itself and its record stays as it is.
type endsChildren struct{ log *slog.Logger }

// HandleFailure implements actor.SupervisorStrategy.
func (e endsChildren) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	e.log.Error("an actor failed", slog.String("actor", child.Id), slog.String("panic", fmt.Sprint(reason)))
	sup.StopChildren(child)
}
