package actors

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
)

const sessionMailbox = 1024

// submit starts a call of a session.
type submit struct {
	req     Request
	backend *actor.PID
	reply   chan<- Reply // capacity 1
	once    sync.Once
}

func (m *submit) newWork() {}

// Reject answers a call that its session will never handle.
func (m *submit) Reject(err error) {
	r := broker.Refuse(broker.CodeShuttingDown, "The session is ending; the call was not sent.", nil)
	switch {
	case errors.Is(err, errMailboxFull):
		r = broker.Refuse(broker.CodeOverloaded, "This session has too many calls waiting.", nil).Retry(time.Second)
	case !errors.Is(err, errActorStopped):
		r = broker.AsRefusal(err)
	}
	m.settle(Reply{Refusal: r})
}

func (m *submit) settle(r Reply) { m.once.Do(func() { m.reply <- r }) }

// cancelCall is the harness's notifications/cancelled.
type cancelCall struct{ requestID, reason string }

// dropCall says that the connection of a call is gone.
type dropCall struct{ callID string }

// promoteDue is the promotion timer of a call.
type promoteDue struct{ callID string }

// jobAnswer is what a job actor tells the session that asked for it: the job,
// or the reply to give instead. stays says that the call goes on as a call.
type jobAnswer struct {
	callID string
	reply  Reply
	stays  bool
}

// endSession closes a session: its calls are cancelled.
type endSession struct{}

type viewSession struct {
	reply chan<- SessionView
	once  sync.Once
}

// Reject leaves the asker to its time limit.
func (m *viewSession) Reject(error) { m.once.Do(func() { close(m.reply) }) }

// inflight is one call of a session.
type inflight struct {
	submit  *submit
	backend *actor.PID
	claimed bool // a job actor is making it a job
	dropped bool // the connection is gone
	timer   *time.Timer
}

// session owns the in-flight calls of one harness session.
type session struct {
	// fixed at construction
	sys  *System
	info SessionInfo
	log  *slog.Logger

	// owned by the actor
	self     *actor.PID
	calls    map[string]*inflight // by call id
	requests map[string]string    // JSON-RPC id -> call id
	count    uint64
	ending   bool
}

func newSession(sys *System, info SessionInfo) *session {
	return &session{sys: sys, info: info, log: sys.log.With(slog.String("session", info.Key)),
		calls: map[string]*inflight{}, requests: map[string]string{}}
}

// Receive dispatches one message.
func (s *session) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.self = ctx.Self()
	case *actor.Restarting, *actor.Stopping:
		s.giveUp()
	case *submit:
		s.submit(m)
	case *outcome:
		s.outcome(m)
	case *cancelCall:
		s.cancel(m.requestID, m.reason)
	case *dropCall:
		s.drop(m.callID)
	case *stillRunning:
		s.stillRunning(m.callID)
	case *promoteDue:
		s.promote(m.callID)
	case *jobAnswer:
		s.jobAnswer(m)
	case *endSession:
		s.ending = true
		s.giveUp()
		ctx.Stop(ctx.Self())
	case *viewSession:
		v := SessionView{SessionInfo: s.info, InFlight: len(s.calls), Calls: s.count}
		m.once.Do(func() { m.reply <- v })
	}
}

// submit admits a call to the session and hands it on.
func (s *session) submit(m *submit) {
	req := m.req
	if req.RequestID != "" {
		if _, taken := s.requests[req.RequestID]; taken {
			m.settle(Reply{Refusal: broker.Refuse(broker.CodeDuplicateRequestID,
				"A request with this id is still in flight on this session.", nil)})
			return
		}
	}
	if limit := s.sys.opts.MaxCallsPerSession; len(s.calls) >= limit {
		m.settle(Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "This session has too many calls in flight.",
			map[string]any{"in_flight": len(s.calls), "limit": limit}).Retry(time.Second)})
		return
	}
	if bytes := req.Call.Bytes(); !s.sys.budget.Take(bytes) {
		m.settle(Reply{Refusal: s.sys.budget.Refuse(bytes)})
		return
	}
	s.count++
	c := &inflight{submit: m, backend: m.backend}
	s.calls[req.Call.ID] = c
	if req.RequestID != "" {
		s.requests[req.RequestID] = req.Call.ID
	}
	if req.Long || req.IdempotencyKey != "" {
		c.claimed = true
		s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: m.backend, req: req})
		return
	}
	s.sys.send(m.backend, &offer{
		sys: s.sys, call: req.Call, owner: s.self, offered: s.sys.now(), progress: req.Progress,
		queueTimeout: req.QueueTimeout, runTimeout: req.CallTimeout,
	})
	s.armPromotion(c, req.PromoteAfter)
}

// armPromotion starts the timer after which the call becomes a job.
func (s *session) armPromotion(c *inflight, after time.Duration) {
	if after <= 0 || c.submit.req.Call.Lane == broker.LaneControl {
		return
	}
	self, due := s.self, &promoteDue{callID: c.submit.req.Call.ID}
	c.timer = time.AfterFunc(after, func() { s.sys.send(self, due) })
}

// outcome takes a backend's answer. One that comes while a job actor is
// claiming the call wins: the backend did not have the call any more to give.
func (s *session) outcome(m *outcome) {
	_, ok := s.calls[m.callID]
	if !ok {
		return
	}
	reply := Reply{Answer: m.answer, Refusal: m.refusal, Timing: m.timing}
	if m.refusal != nil && m.refusal.Code == broker.CodeCancelled {
		reply = Reply{Cancelled: true, Timing: m.timing}
	}
	s.end(m.callID, reply)
}

// end answers the caller and forgets the call.
func (s *session) end(callID string, r Reply) {
	c := s.calls[callID]
	delete(s.calls, callID)
	if id := c.submit.req.RequestID; id != "" {
		delete(s.requests, id)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.submit.settle(r)
}

// cancel is the harness's wish; it reaches the backend at once. A call whose
// job is on its way to the journal is the job's to cancel.
func (s *session) cancel(requestID, reason string) {
	callID, ok := s.requests[requestID]
	if !ok {
		return
	}
	c := s.calls[callID]
	if c.claimed {
		s.sys.send(s.sys.supervisor, &cancelClaim{callID: callID})
		return
	}
	s.sys.send(c.backend, &withdraw{callID: callID, reason: reason})
	s.end(callID, Reply{Cancelled: true})
}

// drop applies DESIGN section 4 "Disconnect": the backend knows whether the
// call is queued or running.
func (s *session) drop(callID string) {
	c, ok := s.calls[callID]
	if !ok || c.dropped {
		return
	}
	c.dropped = true
	if !c.claimed {
		s.sys.send(c.backend, &disconnected{callID: callID})
	}
}

// stillRunning records a call of a dropped connection as a job.
func (s *session) stillRunning(callID string) {
	s.promote(callID)
}

// promote asks a job actor to take the call over. The answer comes as
// jobAnswer, or as an outcome if the backend was faster.
func (s *session) promote(callID string) {
	c, ok := s.calls[callID]
	if !ok || c.claimed {
		return
	}
	c.claimed = true
	s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: c.backend, req: c.submit.req, promote: true})
}

// promoteRetry is how long a call whose promotion could not be written waits
// before the next try.
const promoteRetry = 10 * time.Second

func (s *session) jobAnswer(m *jobAnswer) {
	c, ok := s.calls[m.callID]
	if !ok {
		return
	}
	if m.stays {
		c.claimed = false
		s.armPromotion(c, promoteRetry)
		return
	}
	s.end(m.callID, m.reply)
}

// giveUp cancels what the session holds. Calls that are jobs, or are becoming
// one, are the job's.
func (s *session) giveUp() {
	for id, c := range s.calls {
		if !c.claimed {
			s.sys.send(c.backend, &withdraw{callID: id})
		}
		s.end(id, Reply{Refusal: stoppingRefusal()})
	}
}

func stoppingRefusal() *broker.Refusal {
	return broker.Refuse(broker.CodeShuttingDown, "The session or the broker is stopping.", nil)
}
