package actors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"berth/actors/box"
	"berth/broker"
	"berth/broker/admission"
	"berth/broker/drain"
)

// BackendConfig is what one backend actor is given. Zero durations mean no
// limit unless the field says otherwise.
type BackendConfig struct {
	Name      string
	Kind      string // native, stdio or http; for people
	Upstream  Upstream
	Admission admission.Limits
	// StartTimeout limits one attempt to bring the backend up; zero is 30 s.
	StartTimeout time.Duration
	CallTimeout  time.Duration // of a run, unless the verb says otherwise
	IdleTimeout  time.Duration // of a run without a sign of life
	Eager        bool          // brought up at once and again after it died
	PerSession   bool          // an incarnation of its own for each session
	// StaleAfter says when a job of a verb is reaped; nil or zero is
	// broker.DefaultStaleAfter.
	StaleAfter  func(verb string) time.Duration
	EnvNames    []string
	HeaderNames []string
	// Origin names what is reached, so that the catalog of one program is not
	// served for another under the same name.
	Origin string
	// Told names what of its stored catalog was written as an event already.
	Told []string
	// Tools is how many tools the stored catalog has; nil: none is stored.
	Tools *int
}

const (
	defaultStartTimeout = 30 * time.Second
	backendMailbox      = 4096
	maxControlWaiting   = 64
	// maxOpenFailures is how many starts in a row may fail before waiting jobs
	// are refused; calls are refused at the first.
	maxOpenFailures = 5
	// authRetry is how long a backend that refused our credentials is left alone.
	authRetry = time.Minute
	// steadyLife is how long an incarnation must last to reset the backoff.
	steadyLife = 30 * time.Second
)

// The causes with which a run's context ends.
var (
	errCallTimeout = errors.New("the call ran past its limit")
	errAway        = errors.New("its caller was asked something and did not come back while others waited for a seat")
	errIdleTimeout = errors.New("the call gave no sign of life within its limit")
	errStopped     = errors.New("the broker stopped")
)

// offer hands a call to a backend. Its owner gets one outcome, whatever happens.
type offer struct {
	call         *broker.Call
	owner        *actor.PID // owned by the backend actor once it was received
	queueTimeout time.Duration
	runTimeout   time.Duration
	idleTimeout  time.Duration
	// begin runs off the mailbox just before the call is sent, with the seat
	// held; a refusal is the outcome and nothing is sent.
	begin   func(ctx context.Context, runtimeID string) *broker.Refusal
	peer    broker.Peer
	away    func() bool // see Request.Away
	offered time.Time
	span    Span // of the call or the job; nil: not traced

	held *heldMarks // what it reserved of proofs; owned by the backend actor until its run begins

	isJob atomic.Bool // the limits of a call no longer apply

	sys  *System
	once sync.Once
}

func (o *offer) NewWork() {}

// Reject answers the owner when the backend actor never will.
func (o *offer) Reject(err error) {
	r := broker.Refuse(broker.CodeBackendUnavailable, "The backend "+o.call.Backend+" is stopping; the call was not sent.", map[string]any{"backend": o.call.Backend})
	if errors.Is(err, box.ErrFull) {
		r = broker.Refuse(broker.CodeOverloaded, "The backend "+o.call.Backend+" has too many calls waiting.", map[string]any{"backend": o.call.Backend}).Retry(time.Second)
	}
	o.settle(outcome{refusal: r})
}

// settle tells the owner the outcome, once, and gives back what the call took of
// the limits.
func (o *offer) settle(out outcome) {
	o.once.Do(func() {
		out.callID = o.call.ID
		out.timing.Offered = o.offered
		o.sys.release(o.call)
		o.held.giveBack() // nothing, where the call was sent
		o.neverRan(out)
		o.sys.send(o.owner, &out)
	})
}

// outcome is what became of an offer: an answer or a refusal.
type outcome struct {
	callID   string
	answer   *broker.Answer
	refusal  *broker.Refusal
	timing   broker.Timing
	stopping bool   // the backend actor ended before the call did
	life     uint64 // of the backend that ran it; 0: none did
}

// withdraw takes a call back: a queued one leaves the queue, a running one is
// cancelled. Its owner hears nothing more and must not expect to.
type withdraw struct{ callID, reason string }

// withdrawn is the cause with which a withdrawn run ends; its text is what the
// backend is told.
type withdrawn string

func (w withdrawn) Error() string {
	if w == "" {
		return "the caller cancelled the call"
	}
	return string(w)
}

// disconnected says that the caller's connection dropped. A queued call and a
// running read are withdrawn and answered as cancelled; for any other running
// call the owner gets stillRunning.
type disconnected struct{ callID string }

// stillRunning tells an owner that a call of a dropped connection goes on.
type stillRunning struct{ callID string }

// reown moves a call to another owner: from a session to a job, or back.
// notify gets reowned. A call that still waits keeps its place and runs with
// the new owner's begin.
type reown struct {
	callID string
	to     *actor.PID
	notify *actor.PID
	begin  func(ctx context.Context, runtimeID string) *broker.Refusal
	back   bool // to the session: it is a call again
	sys    *System
}

// Reject says that the call is not here; its owner was told the outcome.
func (m *reown) Reject(error) { m.sys.send(m.notify, &reowned{callID: m.callID}) }

// reowned says whether the call was still there to be moved.
type reowned struct {
	callID    string
	found     bool
	running   bool
	runtimeID string
}

// opened reports an attempt to bring the backend up. Who made it keeps the
// connection until the actor says that it has it, so one that came too late is
// closed before the attempt is over.
type opened struct {
	life  uint64
	conn  broker.Conn
	err   error
	taken chan bool // the first value counts
}

// Reject leaves the connection to the attempt.
func (m *opened) Reject(error) { m.settle(false) }

func (m *opened) settle(taken bool) {
	select {
	case m.taken <- taken:
	default:
	}
}

// died reports the end of an incarnation.
type died struct{ life, incarnation uint64 }

// runDone reports the end of a run.
type runDone struct {
	life        uint64
	incarnation uint64
	callID      string
	answer      broker.Answer
	failure     *broker.Failure
	refusal     *broker.Refusal // of begin: nothing was sent
	started     time.Time
	ended       time.Time
}

// backendTick is a timer of a backend; a tick of an earlier arming is dropped.
type backendTick struct{ life, arming uint64 }

// retire ends the actor once it has nothing left to do: its session is gone.
type retire struct{}

// ensureUp asks for a start without a call.
type ensureUp struct{}

// viewBackend asks what the backend is doing.
type viewBackend struct {
	reply chan<- BackendView // capacity 1
	once  sync.Once
}

// Reject leaves the asker with what is fixed.
func (m *viewBackend) Reject(error) { m.once.Do(func() { close(m.reply) }) }

// run is an admitted call.
type run struct {
	offer   *offer
	ctx     context.Context
	cancel  context.CancelCauseFunc
	begun   bool // begin has been called
	perCall bool // the backend checks expectations itself
	retried bool
}

// backend owns one backend: its connection, identity, queue and seats.
type backend struct {
	// fixed at construction
	sys     *System
	session string // whose instance it is; empty: everybody's
	log     *slog.Logger

	// shared, safe: what an actor is made of that stands in after a panic
	cell *cell

	// owned by the actor
	self         *actor.PID
	cfg          BackendConfig
	life         uint64
	change       *change // what the present life drains for; nil: it does not
	held         bool    // a namesake has not left yet
	state        BackendState
	since        time.Time
	conn         broker.Conn
	inc          broker.Incarnation
	incarnation  uint64
	opening      bool
	openCancel   context.CancelFunc
	failures     int // starts that failed in a row
	lastError    string
	backoff      *backoff.ExponentialBackOff
	backoffUntil time.Time
	triedEarly   bool // the immediate try of this backoff window is used
	upSince      time.Time
	queue        *admission.Queue
	waiting      map[string]*offer // in the queue
	control      []*offer          // control lane, waiting for a start
	runs         map[string]*run
	parked       []*run // hold a seat, wait for the next incarnation
	arming       uint64
	timer        *time.Timer
	tools        *int
	answered     uint64
	failed       uint64
	retiring     bool
	entries      map[string]string // digests of inc.Tools by name; nil: none was asked for
	hearing      *ear              // of the present incarnation, or the one being opened
	relistings   relisting
	lists        map[string]servedList // by method; what callers were given
	relooking    map[string]bool       // by notification
	draining     *drain.Notice         // by an operator; nil: not
	idlers       []*awaitIdle
}

func (c BackendConfig) withDefaults() BackendConfig {
	if c.StartTimeout <= 0 {
		c.StartTimeout = defaultStartTimeout
	}
	return c
}

func newBackend(sys *System, cell *cell, session string) *backend {
	cfg := cell.cfg.Load().withDefaults()
	b := &backend{
		sys: sys, cell: cell, cfg: cfg, session: session, life: sys.lives.Add(1),
		log:   sys.log.With(slog.String("backend", cfg.Name)),
		state: StateIdle, since: sys.now(), tools: cfg.Tools,
		queue:   admission.New(cfg.Admission),
		waiting: map[string]*offer{},
		runs:    map[string]*run{},
		backoff: newBackoff(500*time.Millisecond, time.Minute),
	}
	b.draining = sys.draining(cfg.Name)
	return b
}

// newBackoff is a capped exponential backoff with jitter that never gives up.
func newBackoff(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.3), backoff.WithMaxElapsedTime(0))
}

// Receive dispatches one message.
func (b *backend) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		b.self = ctx.Self()
		b.held = b.cell.held.Load()
		b.standIn()
		if b.cfg.Eager && !b.blocked() {
			b.open()
		}
	case *actor.Restarting:
		b.giveUp() // what settles ends one whose session is gone
	case *actor.Stopping:
		b.giveUp()
		b.tellGone()
	case *offer:
		b.offer(m)
	case *withdraw:
		b.withdraw(m.callID, m.reason)
	case *disconnected:
		b.disconnected(m.callID)
	case *reown:
		b.reown(m)
	case *opened:
		b.opened(m)
	case *died:
		b.died(m)
	case *runDone:
		b.runDone(m)
	case *backendTick:
		if m.life == b.life && m.arming == b.arming {
			b.tick()
		}
	case *heard:
		b.heard(m)
	case *relist:
		b.relist(m)
	case *relisted:
		b.relisted(m)
	case *relook:
		b.relook(m)
	case *relooked:
		b.relooked(m)
	case *tell:
		b.tell(m)
	case *ensureUp:
		if b.conn == nil {
			if r := b.wake(); r != nil {
				b.sys.send(b.sys.supervisor, &listed{backend: b.cfg.Name, origin: b.cfg.Origin, failed: r})
			}
		}
	case *setDraining:
		b.draining = m.notice
	case *awaitIdle:
		b.awaitIdle(m)
	case *renewLife:
		b.renew(m)
	case *retire:
		b.retiring = true
	case *reconfigure:
		b.reconfigured(m)
	case *leave:
		b.left(m)
	case *follows:
		if b.change != nil {
			b.change.followed = m.any
		}
	case *drainDue:
		b.drainDue(m)
	case *shut:
		b.shut(m)
	case *release:
		b.released()
	case *viewBackend:
		m.once.Do(func() { m.reply <- b.view() })
	}
	b.settled(ctx)
}

// settled goes on with what waits for the end of something else.
func (b *backend) settled(ctx actor.Context) {
	b.tellIdle()
	b.settleChange()
	if b.retiring && len(b.waiting)+len(b.runs)+len(b.control) == 0 {
		ctx.Stop(ctx.Self())
	}
}
