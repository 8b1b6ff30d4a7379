package actors

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"berth/broker"
)

const jobMailbox = 256

// jobStart asks the supervisor for a job actor: for a call that is accepted at
// once, for a call to be promoted, or for a recovered record that is tracked.
type jobStart struct {
	sys     *System
	owner   *actor.PID // session that waits for jobAnswer; nil for a recovered job
	backend *actor.PID
	req     Request
	promote bool
	record  *broker.Job // recovered
	// adopt is the answer of a call that goes on as work in its backend; the
	// call itself is over.
	adopt *outcome
	track *broker.Tracking // of adopt
}

// Reject tells the session that there will be no job.
func (m *jobStart) Reject(error) {
	if m.owner == nil {
		return
	}
	a := &jobAnswer{callID: m.req.Call.ID, stays: m.promote}
	switch {
	case m.standsBeside():
		a.reply = m.adopted(nil)
	case !m.promote:
		m.give()
		a.reply = Reply{Refusal: stoppingRefusal()}
	}
	m.sys.send(m.owner, a)
}

// give returns what a call took of the limits that no backend was offered.
func (m *jobStart) give() {
	if m.adopt == nil {
		m.sys.release(m.req.Call)
	}
}

// cancelClaim is a harness's cancel of a call that is being made a job. It
// counts until the record was handed to the journal.
type cancelClaim struct{ callID string }

// cancelJob ends a job on somebody's order.
type cancelJob struct {
	reason string
	by     broker.Principal
	reply  chan<- error // capacity 1: nil once the outcome is durable
	once   sync.Once
}

func (m *cancelJob) settle(err error) { m.once.Do(func() { m.reply <- err }) }

// Reject says that the job is over.
func (m *cancelJob) Reject(error) { m.settle(broker.ErrJobFinal) }

// reapJob ends a job that is stale by its record or by its last good poll.
type reapJob struct{ now time.Time }

// beginJob asks, with a seat held, whether the call may be sent now.
type beginJob struct {
	runtimeID string
	reply     chan<- *broker.Refusal // capacity 1
	once      sync.Once
}

func (m *beginJob) settle(r *broker.Refusal) { m.once.Do(func() { m.reply <- r }) }

// Reject keeps the call from being sent.
func (m *beginJob) Reject(error) { m.settle(stoppingRefusal()) }

type jobStep uint8

const (
	stepClaim    jobStep = iota // promotion: asks the backend for the call
	stepCreate                  // the record is on its way to the journal
	stepAccepted                // waits for a seat
	stepStart                   // Running is on its way to the journal
	stepRunning
	stepTrack  // the work lives in the backend
	stepReturn // promotion failed: the call goes back to its session
	stepFinish // the outcome is on its way to the journal
	stepDone
)

// job owns one unfinished job: its run, its cancel and its journal writes.
type job struct {
	// fixed at construction
	sys   *System
	start *jobStart
	log   *slog.Logger

	// owned by the actor
	self    *actor.PID
	step    jobStep
	record  broker.Job
	begin   *beginJob         // waits for Running to be durable
	early   *outcome          // came while the record was on its way to the journal
	final   *broker.JobChange // the outcome that is being written
	cancels []*cancelJob      // wait for the outcome to be durable
	retry   *backoff.ExponentialBackOff
	poll    string // call id of the poll in flight
	voided  string // call id of a poll that another life may answer
	life    uint64 // of the backend, in which tracked work began
	fetch   bool   // the poll is for the result of a task that has ended
	checked bool   // a recovered job's backend has shown the recorded runtime id
	noted   time.Time
	kept    bool      // the handle of tracked work is durable
	panicky string    // first line of a panic
	counted bool      // in System.working
	asked   time.Time // when the call was sent; zero: not yet
	heard   string    // the incarnation that answered last
	span    Span      // nil: not traced, or ended
}

func newJob(sys *System, start *jobStart) *job {
	j := &job{sys: sys, start: start, checked: true, retry: newBackoff(time.Second, time.Minute)}
	if start.record != nil {
		j.record, j.step, j.checked = *start.record, stepTrack, false
	} else {
		j.record = sys.newRecord(start)
		j.step = stepCreate
		if start.adopt != nil {
			now := sys.now()
			j.record.Status, j.record.StartedAt, j.record.Tracking, j.record.Promoted = broker.JobRunning, &now, start.track, true
			j.record.RuntimeID, j.life = start.adopt.answer.RuntimeID, start.adopt.life
			j.asked = start.adopt.timing.Started
			j.beside()
		}
		if start.promote {
			j.step = stepClaim
		}
	}
	j.traceFrom(start.req.Span)
	j.log = sys.log.With(slog.String("job", j.record.ID), slog.String("verb", j.record.Operation))
	return j
}

// Receive dispatches one message. A panic's first line is kept for the record.
func (j *job) Receive(ctx actor.Context) {
	defer func() {
		if p := recover(); p != nil {
			j.panicky, _, _ = strings.Cut(fmt.Sprint(p), "\n")
			panic(p)
		}
	}()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.self = ctx.Self()
		j.started()
	case *actor.Stopping:
		j.giveUp()
	case *reowned:
		j.reowned(m)
	case *cancelClaim:
		if j.step == stepClaim {
			j.sys.send(j.start.backend, &withdraw{callID: j.start.req.Call.ID})
			j.answer(&jobAnswer{reply: Reply{Cancelled: true}})
			j.done()
		}
	case *jobWritten:
		j.written(m)
	case *beginJob:
		j.beginRun(m)
	case *outcome:
		j.outcome(m)
	case *cancelJob:
		j.cancel(m)
	case *reapJob:
		j.reap(m.now)
	case *pollJob:
		j.pollNow()
	case *tellTask:
		j.tellTask(m)
	case *recheck:
		j.recheck()
	case *backendGone:
		j.backendGone()
	case *retryWrite:
		j.write()
	}
	if j.step == stepDone {
		ctx.Stop(ctx.Self())
	}
}

func (j *job) started() {
	j.sys.jobs.Store(j.record.ID, j.self)
	j.working(j.step != stepTrack)
	switch j.step {
	case stepClaim:
		j.sys.send(j.start.backend, &reown{sys: j.sys, callID: j.start.req.Call.ID, to: j.self, notify: j.self, begin: j.beginHook()})
	case stepTrack:
		j.sys.send(j.sys.supervisor, j.toTrack())
	case stepCreate:
		j.write()
	}
}

// toTrack asks for polls of the job.
func (j *job) toTrack() *track {
	return &track{id: j.record.ID, pid: j.self, backend: j.start.backend, life: j.life, pace: j.pace()}
}

// answer tells the session what its caller gets.
func (j *job) answer(a *jobAnswer) {
	if j.start.owner != nil {
		a.callID = j.start.req.Call.ID
		j.sys.send(j.start.owner, a)
	}
}

// reowned begins the promotion, or ends it when the answer was faster.
func (j *job) reowned(m *reowned) {
	if j.step == stepReturn {
		j.answer(&jobAnswer{stays: true})
		j.done()
		return
	}
	if j.step != stepClaim {
		return
	}
	if !m.found {
		j.answer(&jobAnswer{stays: true})
		j.done()
		return
	}
	if m.running {
		now := j.sys.now()
		j.record.Status, j.record.StartedAt, j.record.RuntimeID = broker.JobRunning, &now, m.runtimeID
	}
	j.step = stepCreate
	j.write()
}

// offerCall queues the job's call at its backend.
func (j *job) offerCall() {
	req := j.start.req
	o := &offer{sys: j.sys, call: j.sys.asTask(req.Call), owner: j.self, offered: j.sys.now(), begin: j.beginHook(), peer: broker.Peer{Request: req.Peer.Request}, span: j.span}
	o.isJob.Store(true)
	j.sys.send(j.start.backend, o)
}

// beginHook is what the backend runs with the seat held.
func (j *job) beginHook() func(context.Context, string) *broker.Refusal {
	self, sys := j.self, j.sys
	return func(ctx context.Context, runtimeID string) *broker.Refusal {
		reply := make(chan *broker.Refusal, 1)
		sys.send(self, &beginJob{runtimeID: runtimeID, reply: reply})
		select {
		case r := <-reply:
			return r
		case <-ctx.Done():
			return cancelledRefusal()
		}
	}
}

// beginRun looks at the hold again and journals Running before the call goes.
func (j *job) beginRun(m *beginJob) {
	switch j.step {
	case stepCreate:
		j.begin = m // granted a seat before the record was durable
		return
	case stepAccepted:
	default:
		m.settle(cancelledRefusal())
		return
	}
	if r := j.sys.hold(&j.start.req); r != nil {
		m.settle(r)
		return
	}
	j.begin, j.step = m, stepStart
	j.write()
}

func (j *job) done() {
	j.step = stepDone
	j.ended(j.outcomeWord())
	j.sys.asked.end(j.record.ID)
	j.sys.send(j.sys.supervisor, &jobEnded{id: j.record.ID, callID: j.callID()})
}

// working counts the job among those that a stop waits for, or no longer.
func (j *job) working(here bool) {
	if here == j.counted {
		return
	}
	j.counted = here
	if here {
		j.sys.working.Add(1)
	} else {
		j.sys.working.Add(-1)
	}
}

func (j *job) callID() string {
	if j.start.record != nil {
		return ""
	}
	return j.start.req.Call.ID
}
