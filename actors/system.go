package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/actors/box"
	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
	"berth/broker/catalog/parity"
	"berth/broker/drain"
	"berth/broker/policy/proof"
)

// Options is what a System is made of. Journal, Backends' upstreams, Logger,
// Now and Random are required; a zero limit is its default.
type Options struct {
	Journal  Journal
	Backends []BackendConfig
	// Disabled are backends that are shown and nothing else.
	Disabled []BackendView
	// Sources is what the catalog starts with, one for each backend: its rules,
	// and its stored catalog if there is one.
	Sources []catalog.Source
	// Catalog is what the configuration says of the whole catalog.
	Catalog catalog.Settings
	// Tracked are the records that a start left Running because their work
	// lives in a backend.
	Tracked []broker.Job

	// Bindable are the local apps that sessions may bring an instance of.
	Bindable []Bindable

	MaxBound           int           // such instances at once; default 64
	MaxSessions        int           // default 10,000
	MaxCallsPerSession int           // default 256
	MaxBytesInFlight   int64         // default 512 MiB
	SessionIdle        time.Duration // an idle session's actor is dropped; default 1 h

	// Hold refuses the start of an operation of a request that is Held, while
	// an operator holds it; nil never does. It must not block.
	Hold func(operation string) *broker.Refusal
	// Admit judges a call that becomes a job at once, before the record is
	// written, and may say in the record what the job is called and what it is
	// about; nil admits all. A repeat of an idempotency key that is refused here
	// still gives its first job. It may read the journal.
	Admit func(call *broker.Call, record *broker.Job) *broker.Refusal
	// Cancelled is told of each job that somebody's cancel ended, once that is
	// durable, so that what the job had made can be ended with it; nil: nobody is.
	// It runs by itself, for a minute at most, and a stop waits for it.
	Cancelled func(ctx context.Context, job broker.Job, by broker.Principal)
	// Drained are the backends that an operator drained before this start.
	Drained map[string]*drain.Notice
	// Observe is told of each call that ended; nil is not. It must not block.
	Observe func(req *Request, reply *Reply)
	// Live is told of what happens now and stands in no journal: each change of
	// a job, and warnings. Nil is not. It must not block.
	Live func(broker.Event)
	// Fatal is told when the supervisor itself failed; the process should end.
	Fatal func(reason string)

	// Records keeps what sessions ask for over a restart; nil: nothing is kept.
	Records Records

	// Proofs are the rules of the gate that holds writes back; nil: there is none.
	Proofs *proof.Config

	Logger *slog.Logger
	Now    func() time.Time
	Random io.Reader
}

// System is the running broker: its actors and what they share.
type System struct {
	// fixed at construction
	opts    Options
	journal Journal
	log     *slog.Logger
	now     func() time.Time
	as      *actor.ActorSystem
	root    *actor.RootContext
	budget  *admission.Budget
	shares  *admission.Shares
	gate    *ProofGate // nil: off
	hub     hub
	subs    subscriptions
	started chan struct{}

	// set by the supervisor before it spawns anything
	supervisor *actor.PID

	// shared, safe
	snapshot      atomic.Pointer[catalog.Snapshot]
	former        atomic.Pointer[catalog.Snapshot] // before the last change of the configuration; nil: there was none
	lists         atomic.Pointer[listState]
	backends      sync.Map // name -> *backendRef
	states        sync.Map // name -> lastSeen, of shared backends
	drains        sync.Map // name -> *drain.Notice; changed by the supervisor
	instances     sync.Map // backend NUL session -> *actor.PID
	leaving       sync.Map // actor's id -> *leavingRef
	disabled      atomic.Pointer[[]BackendView]
	bound         sync.Map // id -> *boundRef
	boundCount    atomic.Int64
	boundCatalogs atomic.Value // map[string]func() *catalog.Snapshot, by surface
	boundServed   sync.Map     // surface -> the snapshot of it that passed last
	sessions      sync.Map     // key -> *sessionRef
	sessionCount  atomic.Int64
	jobs          sync.Map // job id -> *actor.PID
	asked         asked
	delayed       sync.Map // job id -> warning event: an outcome is known but not durable
	inflight      atomic.Int64
	working       atomic.Int64 // job actors whose work is not tracked elsewhere
	lives         atomic.Uint64
	calls         atomic.Uint64
	stale         atomic.Uint64 // reports of an earlier life, dropped
	closing       atomic.Bool
	paused        atomic.Pointer[broker.Refusal]
	stopOnce      sync.Once
	work          sync.WaitGroup
}

type backendRef struct {
	pid *actor.PID
	cfg BackendConfig
}

type sessionRef struct {
	pid      *actor.PID
	info     SessionInfo // never changed
	recalls  atomic.Pointer[recall]
	lastSeen atomic.Int64 // unix nanoseconds
	inflight atomic.Int64
}

// listState is what the waiters of a catalog look at.
type listState struct {
	unlisted map[string]unlisted // backends whose start failed before they listed anything
	changed  chan struct{}       // closed when there is a newer state
}

// unlisted is why nothing is known of a backend, and how often it failed.
type unlisted struct {
	why   *broker.Refusal
	times int
}

// Start spawns the actors and returns when every backend has its actor and the
// catalog its first snapshot. Backends come up on their own time.
func Start(opts Options) (*System, error) {
	if opts.Journal == nil || opts.Logger == nil || opts.Now == nil || opts.Random == nil {
		return nil, errors.New("actors: Journal, Logger, Now and Random are required")
	}
	setDefault(&opts.MaxSessions, 10_000)
	setDefault(&opts.MaxBound, 64)
	setDefault(&opts.MaxCallsPerSession, 256)
	setDefault(&opts.MaxBytesInFlight, 512<<20)
	setDefault(&opts.SessionIdle, time.Hour)
	if opts.Fatal == nil {
		opts.Fatal = func(string) {}
	}
	if opts.Live == nil {
		opts.Live = func(broker.Event) {}
	}
	if err := CheckCatalog(opts.Sources, opts.Catalog); err != nil {
		return nil, err
	}
	s := &System{
		opts: opts, log: opts.Logger, now: opts.Now,
		budget: admission.NewBudget(opts.MaxBytesInFlight), shares: admission.NewShares(), started: make(chan struct{}),
	}
	s.disabled.Store(&opts.Disabled)
	if opts.Proofs != nil {
		s.gate = newProofGate(*opts.Proofs, s)
	}
	for name, notice := range opts.Drained {
		s.drains.Store(name, notice)
	}
	s.journal = telling{opts.Journal, s}
	s.asked.tell = func(id string) { s.tellTask("", id) }
	s.as = box.NewSystem(opts.Logger)
	s.root = s.as.Root
	s.root.Copy().WithGuardian(&guardian{fatal: opts.Fatal}).Spawn(actor.PropsFromProducer(
		func() actor.Actor { return newSupervisor(s) },
		actor.WithMailbox(box.Mailbox(supervisorMailbox)), actor.WithSupervisor(&strategy{log: opts.Logger})))
	<-s.started
	return s, nil
}

// ErrCatalog is wrapped by every reason why a catalog cannot be served.
var ErrCatalog = errors.New("the catalog cannot be served")

// CheckCatalog says why a broker with these sources and settings must not start.
func CheckCatalog(sources []catalog.Source, settings catalog.Settings) error {
	settings.Starting = true
	_, quarantined, faults := parity.Build(0, sources, settings)
	for _, q := range quarantined {
		if q.Fatal {
			return fmt.Errorf("%w: %s: %s: %s", ErrCatalog, q.Subject(), q.Code, q.Reason)
		}
	}
	for _, f := range faults {
		return fmt.Errorf("%w: it does not pass its self-check: %s", ErrCatalog, f)
	}
	return nil
}

// sessionless begins the key of the actor for calls without a session.
const sessionless = "none-"

// attachLimit is how long the supervisor may take to open a session.
const attachLimit = 10 * time.Second

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Do runs one call and gives its one reply. The end of ctx means that the
// caller's connection dropped: a queued call leaves the queue, a running read
// is cancelled, and any other goes on and is recorded as a job, unless the
// request says that a drop cancels; the reply then has no reader. Use
// [System.Cancel] to cancel by id.
//
// Calls without a session share one actor a principal; none of them can be
// cancelled by id.
func (s *System) Do(ctx context.Context, req Request) Reply {
	reply := s.do(ctx, req)
	if s.opts.Observe != nil {
		s.opts.Observe(&req, &reply)
	}
	return reply
}

func (s *System) do(ctx context.Context, req Request) Reply {
	if s.closing.Load() {
		return Reply{Refusal: broker.Refuse(broker.CodeShuttingDown, "The broker is stopping; the call was not sent.", nil)}
	}
	if r := s.pausedFor(req.Call); r != nil {
		return Reply{Refusal: r}
	}
	key := req.Call.Session
	if key == "" {
		key, req.RequestID = sessionless+req.Call.Principal.Digest(), ""
		if r := s.Attach(SessionInfo{Key: key, Principal: req.Call.Principal, Started: s.now()}); r != nil {
			return Reply{Refusal: r}
		}
	}
	v, ok := s.sessions.Load(key)
	if !ok {
		return Reply{Refusal: stoppingRefusal()}
	}
	ref := v.(*sessionRef)
	ref.inflight.Add(1)
	s.inflight.Add(1)
	defer func() {
		ref.lastSeen.Store(s.now().UnixNano())
		ref.inflight.Add(-1)
		s.inflight.Add(-1)
	}()
	backend, done, refusal := s.answering(ctx, &req, key)
	if refusal != nil {
		return Reply{Refusal: refusal}
	}
	defer done()
	if backend == nil {
		return Reply{Refusal: broker.Refuse(broker.CodeBackendUnavailable, "No backend of this name is configured.", map[string]any{"backend": req.Call.Backend})}
	}
	gate := newGate(&req)
	req.Peer, req.asking = gate.peer(), gate.asking
	defer gate.close()

	replies := make(chan Reply, 1)
	s.send(ref.pid, &submit{req: req, backend: backend, reply: replies})
	var reply Reply
	select {
	case reply = <-replies:
	case <-ctx.Done():
		s.send(ref.pid, &dropCall{callID: req.Call.ID, cancels: req.DropCancels})
		reply = <-replies
	}
	if req.Tasks != nil && reply.Job != nil && !reply.Replayed {
		gate.follow(s.asker(reply.Job.ID, req.Tasks))
	}
	return reply
}

// Cancel takes back a session's request by its JSON-RPC id (raw JSON). One that
// comes before its request takes that back when it comes within a few seconds;
// any other id that is not in flight is passed over, as the protocol says. The
// reason is for the backend.
func (s *System) Cancel(key, requestID, reason string) {
	if v, ok := s.sessions.Load(key); ok {
		s.send(v.(*sessionRef).pid, &cancelCall{requestID: requestID, reason: reason})
	}
}

// Attach makes sure that a session has its actor. It is idempotent and cheap
// when it has.
func (s *System) Attach(info SessionInfo) *broker.Refusal {
	if v, ok := s.sessions.Load(info.Key); ok {
		ref := v.(*sessionRef)
		ref.lastSeen.Store(s.now().UnixNano())
		select {
		case <-ref.recalled():
			return nil
		default:
		}
	}
	if s.closing.Load() {
		return stoppingRefusal()
	}
	reply := make(chan *broker.Refusal, 1)
	s.send(s.supervisor, &openSession{info: info, reply: reply})
	limit := time.NewTimer(attachLimit)
	defer limit.Stop()
	late := broker.Refuse(broker.CodeOverloaded, "The session could not be opened in time.", nil).Retry(time.Second)
	select {
	case r := <-reply:
		if r != nil {
			return r
		}
	case <-limit.C:
		return late
	}
	v, ok := s.sessions.Load(info.Key)
	if !ok { // it ended meanwhile
		return nil
	}
	select {
	case <-v.(*sessionRef).recalled():
		return nil
	case <-limit.C:
		return late
	}
}

// End closes a session; its calls are cancelled, its jobs go on, and what it
// asked for is forgotten.
func (s *System) End(key string) {
	s.send(s.supervisor, &closeSession{key: key})
	s.unremember(key)
}

// answering gives the actor that answers a request: of what its session brings,
// else of what is configured.
func (s *System) answering(ctx context.Context, req *Request, session string) (pid *actor.PID, done func(), refusal *broker.Refusal) {
	if b := req.Binding; b != nil && b.Surface == req.Call.Backend {
		ref, done, refusal := s.boundFor(ctx, req.Call.Principal, b)
		if refusal != nil {
			return nil, nil, refusal
		}
		return ref.pid, done, nil
	}
	return s.backendFor(ctx, req.Call.Backend, session), func() {}, nil
}

// backendFor gives the actor that answers a session's calls to a backend.
func (s *System) backendFor(ctx context.Context, name, session string) *actor.PID {
	v, ok := s.backends.Load(name)
	if !ok {
		return nil
	}
	ref := v.(*backendRef)
	if !ref.cfg.PerSession {
		return ref.pid
	}
	if pid, ok := s.instances.Load(name + "\x00" + session); ok {
		return pid.(*actor.PID)
	}
	reply := make(chan *actor.PID, 1)
	s.send(s.supervisor, &openInstance{backend: name, session: session, reply: reply})
	select {
	case pid := <-reply:
		return pid
	case <-ctx.Done():
		return nil
	}
}

func (s *System) sharedBackend(name string) (*actor.PID, bool) {
	v, ok := s.backends.Load(name)
	if !ok {
		return nil, false
	}
	return v.(*backendRef).pid, true
}

// send posts a message; it never blocks.
func (s *System) send(pid *actor.PID, msg any) { s.root.Send(pid, msg) }

// closeConn ends a connection off the mailbox, within a limit.
func (s *System) closeConn(conn broker.Conn) {
	s.work.Go(func() { s.closeNow(conn) })
}

// closeNow ends a connection and returns when it has ended, within a limit.
func (s *System) closeNow(conn broker.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		s.log.Warn("a backend connection did not close cleanly", slog.String("cause", err.Error()))
	}
}

const closeLimit = 15 * time.Second

// NewCallID gives an id for a call, unique in this process.
func (s *System) NewCallID() string { return "call_" + strconv.FormatUint(s.calls.Add(1), 10) }

// newRecord makes the record of a job that is about to be accepted.
func (s *System) newRecord(start *jobStart) broker.Job {
	req, now := start.req, s.now()
	id, err := broker.NewID(broker.JobPrefix, now, s.opts.Random)
	if err != nil {
		panic(err) // the system's random source failed: nothing can be named
	}
	var limit time.Duration
	if v, ok := s.backends.Load(req.Call.Backend); ok && v.(*backendRef).cfg.StaleAfter != nil {
		limit = v.(*backendRef).cfg.StaleAfter(req.Call.Verb)
	}
	instance := ""
	if b := req.Binding; b != nil && b.Surface == req.Call.Backend {
		instance = b.Place()
	}
	return broker.Job{
		Instance: instance,
		ID:       id, Operation: req.Call.Verb, Status: broker.JobAccepted, SubmittedAt: now,
		Tenant: req.Call.Principal.Tenant, User: req.Call.Principal.User,
		Session: req.Call.Session, CallID: req.Call.ID, Backend: req.Call.Backend,
		IdempotencyKey: req.IdempotencyKey, Digest: req.Digest, Promoted: start.promote, Limit: limit,
	}
}

// hasVerb reports whether a backend lists a verb of its own under this name.
func (s *System) hasVerb(backend, verb string) bool {
	p, ok := s.profileOf(backend)
	if !ok {
		return false
	}
	v, ok := p.Resolve(verb)
	return ok && v.Backend == backend && !v.Native
}
