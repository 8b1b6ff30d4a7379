package actors

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/actors/box"
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

func (m *submit) NewWork() {}

// Reject answers a call that its session will never handle.
func (m *submit) Reject(err error) {
	r := broker.Refuse(broker.CodeShuttingDown, "The session is ending; the call was not sent.", nil)
	switch {
	case errors.Is(err, box.ErrFull):
		r = broker.Refuse(broker.CodeOverloaded, "This session has too many calls waiting.", nil).Retry(time.Second)
	case !errors.Is(err, box.ErrStopped):
		r = broker.AsRefusal(err)
	}
	m.settle(Reply{Refusal: r})
}

func (m *submit) settle(r Reply) { m.once.Do(func() { m.reply <- r }) }

// cancelCall is the harness's notifications/cancelled.
type cancelCall struct{ requestID, reason string }

// dropCall says that the connection of a call is gone, and whether that is the
// harness's way to cancel it.
type dropCall struct {
	callID  string
	cancels bool
}

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

// viewSession asks a session what it has to do.
type viewSession struct {
	reply chan<- sessionLoad
	once  sync.Once
}

type sessionLoad struct {
	inFlight int
	calls    uint64
}

// Reject leaves the asker to its time limit.
func (m *viewSession) Reject(error) { m.once.Do(func() { close(m.reply) }) }

// inflight is one call of a session.
type inflight struct {
	submit   *submit
	backend  *actor.PID
	claimed  bool   // a job actor is making it a job
	known    *Reply // what is answered if no job comes of it
	dropped  bool   // the connection is gone
	unwanted bool   // cancelled after it was dropped, before its job was known
	timer    *time.Timer
}

// leftCall is a call that became a job because its connection dropped: its
// caller never got the handle and may yet cancel it by its request id.
type leftCall struct {
	requestID, jobID string
	by               broker.Principal
}

// maxLeft bounds how many such calls a session remembers, the newest ones.
const maxLeft = 64

// session owns the in-flight calls of one harness session. Who that is stands in
// the sessionRef.
type session struct {
	sys *System // fixed at construction

	// owned by the actor
	self *actor.PID
	// calls are looked through instead of being indexed: there are few, and an
	// idle session, of which there are thousands, must cost next to nothing.
	calls  []*inflight
	left   []leftCall
	early  recent // cancels that came before their requests
	ended  recent // requests that have ended
	count  uint64
	ending bool
}

// sessionProps are the properties of every session: there are thousands, and what
// they are made of takes more room than they do.
func sessionProps(sys *System) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return &session{sys: sys} }, actor.WithMailbox(box.Mailbox(sessionMailbox)))
}

// find gives the call of an id, or nil.
func (s *session) find(callID string) *inflight {
	for _, c := range s.calls {
		if c.submit.req.Call.ID == callID {
			return c
		}
	}
	return nil
}

// findRequest gives the call of a JSON-RPC id, or nil.
func (s *session) findRequest(requestID string) *inflight {
	for _, c := range s.calls {
		if c.submit.req.RequestID == requestID {
			return c
		}
	}
	return nil
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
		s.drop(m)
	case *stillRunning:
		s.stillRunning(m.callID)
	case *promoteDue:
		s.promoteDue(m.callID)
	case *jobAnswer:
		s.jobAnswer(m)
	case *endSession:
		s.ending = true
		s.giveUp()
		ctx.Stop(ctx.Self())
	case *viewSession:
		load := sessionLoad{inFlight: len(s.calls), calls: s.count}
		m.once.Do(func() { m.reply <- load })
	}
}

// submit admits a call to the session and hands it on.
func (s *session) submit(m *submit) {
	req := m.req
	if req.RequestID != "" && s.findRequest(req.RequestID) != nil {
		m.settle(Reply{Refusal: broker.Refuse(broker.CodeDuplicateRequestID,
			"A request with this id is still in flight on this session.", nil)})
		return
	}
	if s.overtaken(req.RequestID) {
		m.settle(Reply{Cancelled: true})
		return
	}
	if limit := s.sys.opts.MaxCallsPerSession; len(s.calls) >= limit {
		m.settle(Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "This session has too many calls in flight.",
			map[string]any{"in_flight": len(s.calls), "limit": limit}).Retry(time.Second)})
		return
	}
	// A key may name a job that is there already, which is answered whatever is
	// stopped: its job actor looks.
	if req.IdempotencyKey == "" {
		if r := s.sys.stopped(&req); r != nil {
			m.settle(Reply{Refusal: r})
			return
		}
	}
	if r := s.sys.admit(req.Call); r != nil {
		m.settle(Reply{Refusal: r})
		return
	}
	s.count++
	c := &inflight{submit: m, backend: m.backend}
	s.calls = append(s.calls, c)
	if req.Long || req.IdempotencyKey != "" {
		c.claimed = true
		s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: m.backend, req: req})
		return
	}
	s.sys.send(m.backend, &offer{
		sys: s.sys, call: req.Call, owner: s.self, offered: s.sys.now(), peer: req.Peer, away: req.Away, span: req.Span,
		queueTimeout: req.QueueTimeout, runTimeout: req.CallTimeout, begin: s.sys.holdHook(&req),
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
	c := s.find(m.callID)
	if c == nil {
		return
	}
	if t := s.sys.ownTask(c.submit.req.Call, m.answer); t != nil {
		// The id of the task means nothing here but to us: its caller gets a job.
		c.claimed = true
		s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: c.backend, req: c.submit.req, adopt: m, track: t})
		return
	}
	reply := Reply{Answer: m.answer, Refusal: m.refusal, Timing: m.timing}
	if t := s.sys.following(c.submit.req.Call, m.answer); t != nil {
		// The caller gets the answer as it is, but not before the record.
		c.claimed = true
		reply.Untracked = true
		c.known = &reply
		s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: c.backend, req: c.submit.req, adopt: m, track: t})
		return
	}
	if m.refusal != nil && m.refusal.Code == broker.CodeCancelled {
		reply = Reply{Cancelled: true, Timing: m.timing}
	}
	s.end(c, reply)
}

// end answers the caller and forgets the call.
func (s *session) end(c *inflight, r Reply) {
	i := slices.Index(s.calls, c)
	s.calls = slices.Delete(s.calls, i, i+1)
	if c.timer != nil {
		c.timer.Stop()
	}
	if id := c.submit.req.RequestID; id != "" {
		s.ended.add(id, s.sys.now())
	}
	c.submit.settle(r)
}

// cancel is the harness's wish; it reaches the backend at once. A call whose
// job is on its way to the journal is the job's to cancel.
func (s *session) cancel(requestID, reason string) {
	if requestID == "" {
		return
	}
	if c := s.findRequest(requestID); c != nil {
		s.takeBack(c, reason)
		return
	}
	if !s.cancelLeft(requestID) {
		s.foresee(requestID)
	}
}

func (s *session) takeBack(c *inflight, reason string) {
	callID := c.submit.req.Call.ID
	if c.claimed {
		c.unwanted = c.dropped
		s.sys.send(s.sys.supervisor, &cancelClaim{callID: callID})
		return
	}
	s.sys.send(c.backend, &withdraw{callID: callID, reason: reason})
	s.end(c, Reply{Cancelled: true})
}

// cancelLeft cancels the job of a call whose connection had dropped before the
// cancel came; the two race over different connections. It is false when there
// is none.
func (s *session) cancelLeft(requestID string) bool {
	i := slices.IndexFunc(s.left, func(l leftCall) bool { return l.requestID == requestID })
	if i < 0 {
		return false
	}
	if pid, ok := s.sys.jobs.Load(s.left[i].jobID); ok {
		s.sys.send(pid.(*actor.PID), &cancelJob{reason: "the client cancelled its request", by: s.left[i].by, reply: make(chan error, 1)})
	}
	s.left = slices.Delete(s.left, i, i+1)
	return true
}

// drop applies DESIGN section 4 "Disconnect": the backend knows whether the
// call is queued or running.
func (s *session) drop(m *dropCall) {
	c := s.find(m.callID)
	if c == nil || c.dropped {
		return
	}
	c.dropped = true
	switch {
	case m.cancels:
		s.takeBack(c, "the client closed the stream")
	case !c.claimed:
		s.sys.send(c.backend, &disconnected{callID: m.callID})
	}
}

// stillRunning records a call of a dropped connection as a job.
func (s *session) stillRunning(callID string) {
	s.promote(callID)
}

// promoteDue makes a job of a call that has run long enough. While its backend
// waits for an answer of the harness it stays a call: a job's caller cannot be
// asked.
func (s *session) promoteDue(callID string) {
	if c := s.find(callID); c != nil && !c.claimed && c.submit.req.asking != nil && c.submit.req.asking() {
		s.armPromotion(c, promoteRetry)
		return
	}
	s.promote(callID)
}

// promote asks a job actor to take the call over. The answer comes as
// jobAnswer, or as an outcome if the backend was faster.
func (s *session) promote(callID string) {
	c := s.find(callID)
	if c == nil || c.claimed {
		return
	}
	c.claimed = true
	s.sys.send(s.sys.supervisor, &jobStart{sys: s.sys, owner: s.self, backend: c.backend, req: c.submit.req, promote: true})
}

// promoteRetry is how long a call whose promotion could not be written waits
// before the next try.
const promoteRetry = 10 * time.Second

func (s *session) jobAnswer(m *jobAnswer) {
	c := s.find(m.callID)
	if c == nil {
		return
	}
	if m.stays {
		c.claimed = false
		s.armPromotion(c, promoteRetry)
		return
	}
	requestID := c.submit.req.RequestID
	if job := m.reply.Job; c.dropped && requestID != "" && job != nil {
		if len(s.left) == maxLeft {
			s.left = slices.Delete(s.left, 0, 1)
		}
		s.left = append(s.left, leftCall{requestID: requestID, jobID: job.ID, by: c.submit.req.Call.Principal})
	}
	s.end(c, m.reply)
	if c.unwanted {
		s.cancelLeft(requestID)
	}
}

// giveUp cancels what the session holds. Calls that are jobs, or are becoming
// one, are the job's.
func (s *session) giveUp() {
	for len(s.calls) > 0 {
		c := s.calls[0]
		if !c.claimed {
			s.sys.send(c.backend, &withdraw{callID: c.submit.req.Call.ID})
		}
		if c.known != nil {
			s.end(c, *c.known)
			continue
		}
		s.end(c, Reply{Refusal: endedUnder(c)})
	}
}

// endedUnder is the answer of a call whose session ends. The session does not
// know how far the call came, so it promises nothing that would make a repeat
// safe.
func endedUnder(c *inflight) *broker.Refusal {
	call := c.submit.req.Call
	detail := map[string]any{"backend": call.Backend, "verb": call.Verb}
	if c.claimed {
		return broker.Refuse(broker.CodeOutcomeUnknown, "The session ended while the call became a job, which may go on. Look for the job before repeating the call.", detail)
	}
	if call.Effects != broker.Read {
		detail["outcome_unknown"] = true
	}
	return broker.Refuse(broker.CodeCancelled, "The session ended, and the call was cancelled with it.", detail)
}

func stoppingRefusal() *broker.Refusal {
	return broker.Refuse(broker.CodeShuttingDown, "The session or the broker is stopping.", nil)
}
