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

	"berth/broker"
	"berth/broker/admission"
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
	EnvNames     []string
	HeaderNames  []string
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
	errIdleTimeout = errors.New("the call gave no sign of life within its limit")
	errWithdrawn   = errors.New("the caller cancelled the call")
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
	begin    func(ctx context.Context, runtimeID string) *broker.Refusal
	progress func(broker.Progress)
	offered  time.Time

	isJob atomic.Bool // the limits of a call no longer apply

	sys  *System
	once sync.Once
}

func (o *offer) newWork() {}

// Reject answers the owner when the backend actor never will.
func (o *offer) Reject(err error) {
	r := broker.Refuse(broker.CodeBackendUnavailable, "The backend "+o.call.Backend+" is stopping; the call was not sent.", map[string]any{"backend": o.call.Backend})
	if errors.Is(err, errMailboxFull) {
		r = broker.Refuse(broker.CodeOverloaded, "The backend "+o.call.Backend+" has too many calls waiting.", map[string]any{"backend": o.call.Backend}).Retry(time.Second)
	}
	o.settle(outcome{refusal: r})
}

// settle tells the owner the outcome, once, and gives back the bytes that the
// call weighed.
func (o *offer) settle(out outcome) {
	o.once.Do(func() {
		out.callID = o.call.ID
		out.timing.Offered = o.offered
		o.sys.budget.Give(o.call.Bytes())
		o.sys.send(o.owner, &out)
	})
}

// outcome is what became of an offer: an answer or a refusal.
type outcome struct {
	callID  string
	answer  *broker.Answer
	refusal *broker.Refusal
	timing  broker.Timing
}

// withdraw takes a call back: a queued one leaves the queue, a running one is
// cancelled. Its owner hears nothing more and must not expect to.
type withdraw struct{ callID string }

// disconnected says that the caller's connection dropped. A queued call and a
// running read are withdrawn and answered as cancelled; for any other running
// call the owner gets stillRunning.
type disconnected struct{ callID string }

// stillRunning tells an owner that a call of a dropped connection goes on.
type stillRunning struct{ callID string }

// reown moves a call to another owner. The limits of a call end there: a job
// has its own.
func (b *backend) reown(m *reown) {
	reply := &reowned{callID: m.callID}
	if r, ok := b.runs[m.callID]; ok {
		r.offer.owner = m.to
		r.offer.isJob.Store(!m.back)
		reply.found, reply.running, reply.runtimeID = true, true, b.inc.RuntimeID
	} else if o, ok := b.waiting[m.callID]; ok && m.back {
		o.owner, o.begin, reply.found = m.to, nil, true
	} else if ok {
		reply.found = b.toJobsLane(o, m)
	}
	b.sys.send(m.notify, reply)
}

// toJobsLane moves a waiting call to the jobs lane, where no queue timeout
// applies. When that lane is full the call stays where it is.
func (b *backend) toJobsLane(o *offer, m *reown) bool {
	now := b.sys.now()
	if b.queue.JobsFull() {
		return false
	}
	b.queue.Abandon(o.call.ID, now)
	o.owner, o.begin = m.to, m.begin
	o.isJob.Store(true)
	if r := b.queue.Offer(o.ticket(), now); r != nil {
		delete(b.waiting, o.call.ID)
		o.settle(outcome{refusal: r})
	}
	b.pump()
	return true
}

// tick looks at everything that waits for a time.
func (b *backend) tick() {
	now := b.sys.now()
	for _, t := range b.queue.Expire(now) {
		o := b.waiting[t.ID]
		delete(b.waiting, t.ID)
		stats := b.queue.Stats(now)
		o.settle(outcome{refusal: broker.Refuse(broker.CodeQueueTimeout, "The call waited too long for a seat at "+b.cfg.Name+" and was not sent.",
			map[string]any{"backend": b.cfg.Name, "waited_ms": now.Sub(o.offered).Milliseconds(), "in_flight": stats.InFlight, "seats": stats.Seats}).Retry(time.Second)})
	}
	if b.conn == nil && !b.opening && b.wantUp() && !now.Before(b.backoffUntil) {
		b.open()
	}
	b.pump()
}

// arm sets the one timer to the next time at which something is due.
func (b *backend) arm() {
	next, ok := b.queue.NextExpiry()
	if b.state == StateBackoff && b.wantUp() && (!ok || b.backoffUntil.Before(next)) {
		next, ok = b.backoffUntil, true
	}
	b.arming++
	if b.timer != nil {
		b.timer.Stop()
	}
	if !ok {
		return
	}
	tick := &backendTick{life: b.life, arming: b.arming}
	self := b.self
	b.timer = time.AfterFunc(max(0, next.Sub(b.sys.now())), func() { b.sys.send(self, tick) })
}

func (b *backend) wantUp() bool {
	return b.cfg.Eager || len(b.waiting) > 0 || len(b.control) > 0 || len(b.parked) > 0
}
