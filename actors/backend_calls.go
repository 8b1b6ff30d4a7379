package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
)

// This file is the part of the backend actor that admits calls, runs them and
// answers their owners.

// offer admits a call, or refuses it.
func (b *backend) offer(o *offer) {
	if o.runTimeout == 0 {
		o.runTimeout = b.cfg.CallTimeout
	}
	o.idleTimeout = b.cfg.IdleTimeout
	if b.change != nil && b.change.leaves && (o.call.Lane != broker.LaneControl || b.conn == nil) {
		o.settle(outcome{refusal: b.removedRefusal()})
		return
	}
	if r := cmp.Or(b.turnsAway(o), b.mismatch(o.call)); r != nil {
		o.settle(outcome{refusal: r})
		return
	}
	if b.conn == nil {
		// A job waits through a backoff: it is durable, and nothing was sent.
		if r := b.wake(); r != nil && !(o.isJob.Load() && b.state == StateBackoff) {
			o.settle(outcome{refusal: r})
			return
		}
	}
	if r := b.reserve(o); r != nil {
		o.settle(outcome{refusal: r})
		return
	}
	if o.call.Lane == broker.LaneControl {
		b.offerControl(o)
		return
	}
	if r := b.queue.Offer(o.ticket(), b.sys.now()); r != nil {
		o.settle(outcome{refusal: r})
		return
	}
	b.waiting[o.call.ID] = o
	b.pump()
}

// offerControl runs a control call at once, or as soon as the backend is up.
func (b *backend) offerControl(o *offer) {
	switch {
	case b.conn != nil:
		b.start(o)
	case len(b.control) < maxControlWaiting:
		b.control = append(b.control, o)
	default:
		o.settle(outcome{refusal: broker.Refuse(broker.CodeOverloaded, "The backend is starting and has too many control calls waiting.", nil).Retry(time.Second)})
	}
}

// ticket is the offer as the queue sees it.
func (o *offer) ticket() admission.Ticket {
	lane := broker.LaneCalls
	if o.isJob.Load() {
		lane = broker.LaneJobs
	}
	return admission.TicketOf(o.call, lane, o.queueTimeout)
}

// mismatch refuses a call that names another incarnation than the live one.
// While there is none it says nothing: the check comes again before the call
// is sent. A backend that finds out with each call checks for itself.
func (b *backend) mismatch(c *broker.Call) *broker.Refusal {
	if b.conn == nil || b.inc.PerCall {
		return nil
	}
	return identityRefusal(c, b.inc.RuntimeID, false)
}

// notAccepted refuses a call of a pinned backend's verb that the live incarnation
// lists otherwise than the call was judged by: the life that it waited for may have
// come with another list.
func (b *backend) notAccepted(c *broker.Call) *broker.Refusal {
	if c.Pinned == nil {
		return nil
	}
	if b.entries == nil {
		b.entries = catalog.EntryDigests(b.inc.Tools)
	}
	listed, there := b.entries[c.Pinned.Name]
	if !there || listed == c.Pinned.Digest {
		return nil
	}
	return catalog.ChangedRefusal(c.Verb, c.Backend, c.Pinned.Digest, listed)
}

// identityRefusal compares an expectation with the id that was observed.
// answered says that the backend has already answered.
func identityRefusal(c *broker.Call, actual string, answered bool) *broker.Refusal {
	if c.ExpectedRuntimeID == "" || c.ExpectedRuntimeID == actual {
		return nil
	}
	detail := map[string]any{"backend": c.Backend, "expected_runtime_id": c.ExpectedRuntimeID}
	if actual == "" {
		return broker.Refuse(broker.CodeIdentityUnavailable, "The backend "+c.Backend+" reports no runtime id, so the expected one cannot be checked.", detail)
	}
	detail["actual_runtime_id"] = actual
	message := "Another incarnation of " + c.Backend + " is running than the call expects; nothing was sent."
	if answered {
		message = "Another incarnation of " + c.Backend + " answered than the call expects; the answer was discarded."
		detail["outcome_unknown"] = c.Effects != broker.Read
	}
	return broker.Refuse(broker.CodeInstanceMismatch, message, detail)
}

// pump starts what the queue lets run and arms the timer for what waits.
func (b *backend) pump() {
	for b.conn != nil && b.change == nil {
		t, ok := b.queue.Next(b.sys.now())
		if !ok {
			break
		}
		o := b.waiting[t.ID]
		delete(b.waiting, t.ID)
		b.start(o)
	}
	if b.conn != nil && len(b.waiting) > 0 && b.change == nil {
		b.reclaim()
	}
	b.arm()
}

// awayLook is how often it is looked whether callers have gone away, while
// others wait: nothing tells of it.
const awayLook = time.Second

func (b *backend) mayBeAway() bool {
	for _, r := range b.runs {
		if r.offer.away != nil {
			return true
		}
	}
	return false
}

// reclaim ends calls whose callers are away when others wait for seats, the
// oldest first, until the rest hold no more than half of the seats (one at
// least): callers that never come back must not stop a backend for everybody.
func (b *backend) reclaim() {
	var away []*run
	held := 0
	for _, r := range b.runs {
		if r.offer.away != nil && r.ctx.Err() == nil && r.offer.away() {
			away = append(away, r)
			held += max(1, r.offer.call.Seats)
		}
	}
	slices.SortFunc(away, func(a, b *run) int {
		return cmp.Or(a.offer.offered.Compare(b.offer.offered), cmp.Compare(a.offer.call.ID, b.offer.call.ID))
	})
	for _, r := range away {
		if held <= max(1, b.cfg.Admission.Seats/2) {
			return
		}
		held -= max(1, r.offer.call.Seats)
		r.expire(errAway)
	}
}

// start begins a run of o on the present connection.
func (b *backend) start(o *offer) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{offer: o, ctx: ctx, cancel: cancel}
	b.runs[o.call.ID] = r
	b.launch(r)
}

// launch sends r's call off the mailbox.
func (b *backend) launch(r *run) {
	if ref := cmp.Or(b.mismatch(r.offer.call), b.notAccepted(r.offer.call)); ref != nil {
		b.finish(r, outcome{refusal: ref})
		return
	}
	conn, runtimeID, life, incarnation := b.conn, b.inc.RuntimeID, b.life, b.incarnation
	self, begin := b.self, r.offer.begin
	if r.begun {
		begin = nil
	}
	r.begun, r.perCall = true, b.inc.PerCall
	b.sys.work.Go(func() {
		done := execute(r, conn, runtimeID, begin, b.sys.now, b.log)
		done.life, done.incarnation = life, incarnation
		b.sys.send(self, done)
	})
}

// runDone takes a run's report: the seat comes back, the owner is answered, or
// the run is tried once more on the next incarnation.
func (b *backend) runDone(m *runDone) {
	r := b.runs[m.callID]
	if m.life != b.life || r == nil {
		b.sys.stale.Add(1)
		return
	}
	if b.retry(r, m) {
		return
	}
	out := outcome{timing: broker.Timing{Started: m.started, Ended: m.ended}}
	if !m.started.IsZero() {
		out.timing.Attempt = 1
		if r.retried {
			out.timing.Attempt = 2
		}
	}
	switch {
	case m.refusal != nil:
		out.refusal = m.refusal
	case m.failure != nil:
		out.refusal = runRefusal(r, m.failure)
		b.turnedAway(m)
		if m.failure.Abandoned {
			b.queue.Abandon(m.callID, b.sys.now())
		}
	default:
		if !r.perCall {
			out.refusal = identityRefusal(r.offer.call, m.answer.RuntimeID, true)
		}
		if out.refusal == nil {
			answer := m.answer
			out.answer = &answer
			b.served(r.offer.call, out.answer)
			b.leavesWork(r.offer, out.answer)
		}
	}
	b.finish(r, out)
	b.pump()
}

// retry runs a call once more, on the next incarnation, if certainly nothing
// of it was handed over to the one that is gone.
func (b *backend) retry(r *run, m *runDone) bool {
	f := m.failure
	if f == nil || !f.Gone || f.Dispatched || r.retried || r.ctx.Err() != nil || (b.change != nil && b.change.leaves) {
		return false
	}
	r.retried = true
	if m.incarnation == b.incarnation {
		b.lost(f.Cause)
	}
	if b.conn != nil && b.change == nil {
		b.launch(r)
		return true
	}
	if b.wake() != nil {
		return false
	}
	b.parked = append(b.parked, r)
	return true
}

// runRefusal is the answer to a run that failed, by the reason for which its
// context ended if it did.
func runRefusal(r *run, f *broker.Failure) *broker.Refusal {
	call := r.offer.call
	cause := context.Cause(r.ctx)
	code := broker.CodeCallTimeout
	switch {
	case errors.Is(cause, errIdleTimeout):
		code = broker.CodeIdleTimeout
	case errors.Is(cause, errAway):
	case !errors.Is(cause, errCallTimeout):
		return f.Refuse(call)
	}
	return broker.Refuse(code, "The call to "+call.Backend+" was cancelled: "+cause.Error()+".", map[string]any{
		"backend": call.Backend, "verb": call.Verb, "outcome_unknown": f.Dispatched && call.Effects != broker.Read})
}

// finish gives the seat back and answers the owner.
func (b *backend) finish(r *run, out outcome) {
	delete(b.runs, r.offer.call.ID)
	out.life = b.life
	r.cancel(nil)
	if r.offer.call.Lane != broker.LaneControl {
		b.queue.Done(r.offer.call.ID, b.sys.now())
	}
	if out.answer != nil {
		b.answered++
	} else {
		b.failed++
	}
	r.offer.settle(out)
}

// withdraw takes a call back: a waiting one leaves at once, a running one is
// cancelled and keeps its seat until its backend has answered or the grace is
// over.
func (b *backend) withdraw(callID, reason string) {
	if o, ok := b.waiting[callID]; ok {
		b.dequeue(o)
		o.settle(outcome{refusal: cancelledRefusal()})
		b.arm()
		return
	}
	if r, ok := b.runs[callID]; ok {
		r.cancel(withdrawn(reason))
		b.unpark(r, outcome{refusal: cancelledRefusal()})
		return
	}
	for i, o := range b.control {
		if o.call.ID == callID {
			b.control = append(b.control[:i], b.control[i+1:]...)
			o.settle(outcome{refusal: cancelledRefusal()})
			return
		}
	}
}

func cancelledRefusal() *broker.Refusal {
	return broker.Refuse(broker.CodeCancelled, "The call was cancelled by its caller.", nil)
}

// unpark ends a run that waits for the next incarnation.
func (b *backend) unpark(r *run, out outcome) {
	for i, p := range b.parked {
		if p == r {
			b.parked = append(b.parked[:i], b.parked[i+1:]...)
			b.finish(r, out)
			return
		}
	}
}

func (b *backend) dequeue(o *offer) {
	delete(b.waiting, o.call.ID)
	b.queue.Abandon(o.call.ID, b.sys.now())
}

// disconnected applies DESIGN section 4 "Disconnect" for the older protocol.
func (b *backend) disconnected(callID string) {
	if r, ok := b.runs[callID]; ok && r.offer.call.Effects != broker.Read && r.offer.call.CanBeJob() {
		b.sys.send(r.offer.owner, &stillRunning{callID: callID})
		return
	}
	b.withdraw(callID, "the caller's connection dropped")
}

// reown moves a call to another owner. The limits of a call end there: a job
// has its own.
func (b *backend) reown(m *reown) {
	reply := &reowned{callID: m.callID}
	if r, ok := b.runs[m.callID]; ok {
		r.offer.owner = m.to
		r.offer.isJob.Store(!m.back)
		reply.found, reply.running, reply.runtimeID = true, true, b.inc.RuntimeID
	} else if o, ok := b.waiting[m.callID]; ok {
		o.owner, o.begin, reply.found = m.to, m.begin, true
		o.isJob.Store(!m.back)
		if !m.back {
			b.queue.Keep(m.callID) // queue_timeout is not for jobs
		}
	}
	b.sys.send(m.notify, reply)
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
	if b.conn == nil && !b.opening && !b.blocked() && b.wantUp() && !now.Before(b.backoffUntil) {
		b.open()
	}
	b.pump()
}

// arm sets the one timer to the next time at which something is due.
func (b *backend) arm() {
	next, ok := b.queue.NextExpiry()
	if b.state == StateBackoff && !b.blocked() && b.wantUp() && (!ok || b.backoffUntil.Before(next)) {
		next, ok = b.backoffUntil, true
	}
	if look := b.sys.now().Add(awayLook); len(b.waiting) > 0 && b.mayBeAway() && (!ok || look.Before(next)) {
		next, ok = look, true
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
