package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"berth/actors/box"
	"berth/broker"
)

// This file is the part of the backend actor that brings the backend up and
// notices its end.

// wake makes sure that a start is under way, or says why none is.
func (b *backend) wake() *broker.Refusal {
	if b.conn != nil || b.opening || b.blocked() {
		return nil
	}
	now := b.sys.now()
	switch {
	case b.state == StateRefused && now.Before(b.since.Add(authRetry)):
		return broker.Refuse(broker.CodeBackendRefused, "The backend "+b.cfg.Name+" refuses Berth's credentials; its configuration needs to change.",
			map[string]any{"backend": b.cfg.Name, "cause": b.lastError})
	case b.state == StateBackoff && now.Before(b.backoffUntil) && b.triedEarly:
		return b.unavailable().Retry(b.backoffUntil.Sub(now))
	}
	b.triedEarly = b.state == StateBackoff && now.Before(b.backoffUntil)
	b.open()
	return nil
}

func (b *backend) unavailable() *broker.Refusal {
	return broker.Refuse(broker.CodeBackendUnavailable, "The backend "+b.cfg.Name+" could not be started; the call was not sent.",
		map[string]any{"backend": b.cfg.Name, "state": string(b.state), "cause": b.lastError})
}

// open starts one attempt, off the mailbox, when the life before is over. There is
// never a second at once.
func (b *backend) open() {
	b.opening = true
	b.setState(StateStarting)
	ctx, cancel := context.WithCancel(context.Background())
	b.openCancel = cancel
	self, life, upstream, limit, hear := b.self, b.life, b.cfg.Upstream, b.cfg.StartTimeout, b.ear(b.incarnation+1)
	before, over := b.cell.turns.next(b.sys)
	b.sys.work.Go(func() {
		defer cancel()
		m := &opened{life: life, taken: make(chan bool, 1)}
		select {
		case <-before:
			m.conn, m.err = attempt(ctx, upstream, hear, limit)
		case <-ctx.Done():
			m.err = ctx.Err()
		}
		if m.conn == nil {
			over()
		} else {
			m.conn = &lived{Conn: m.conn, over: over}
		}
		b.sys.send(self, m)
		if m.conn != nil && !<-m.taken {
			b.sys.closeNow(m.conn)
		}
	})
}

// attempt opens an upstream within a limit.
func attempt(ctx context.Context, u Upstream, hear broker.Hear, limit time.Duration) (broker.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not answer within %s", limit))
	defer cancel()
	conn, err := openUpstream(ctx, u, hear)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errStart{err}
	}
	return conn, err
}

// errStart is a start that ran out of time.
type errStart struct{ error }

func (e errStart) Unwrap() error { return e.error }

// openUpstream turns a panic of a transport into an error, so that one backend
// cannot end the process.
func openUpstream(ctx context.Context, u Upstream, hear broker.Hear) (conn broker.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			conn, err = nil, fmt.Errorf("the transport to the backend panicked: %v", p)
		}
	}()
	return u.Open(ctx, hear)
}

func (b *backend) setState(s BackendState) {
	if b.session == "" && (b.change == nil || !b.change.leaves) { // else the name may be another's
		now := lastSeen{state: s}
		if s == StateReady {
			now.runtimeID = b.inc.RuntimeID
		}
		b.sys.states.Store(b.cfg.Name, now)
	}
	if b.state != s {
		b.state, b.since = s, b.sys.now()
	}
}

// opened takes the report of an attempt.
func (b *backend) opened(m *opened) {
	if m.life != b.life {
		b.sys.stale.Add(1)
		m.Reject(box.ErrStopped)
		return
	}
	b.opening = false
	if b.change != nil { // it was told to end
		m.Reject(box.ErrStopped)
		return
	}
	if m.err != nil {
		b.openFailed(m.err)
		return
	}
	b.relistings.forget()
	b.conn, b.inc = m.conn, m.conn.Incarnation() // a panic in the latter leaves it to Reject
	b.entries = nil
	m.settle(true)
	b.incarnation++
	b.failures, b.lastError, b.triedEarly = 0, "", false
	b.backoffUntil = time.Time{}
	b.upSince = b.sys.now()
	n := len(b.inc.Tools)
	b.tools = &n
	if b.sys.gate != nil {
		b.sys.gate.marksOf(b.cfg.Name).Incarnation(b.inc.RuntimeID)
	}
	b.setState(StateReady)
	b.log.Info("backend is ready", slog.String("runtime_id", b.inc.RuntimeID), slog.Int("tools", n))
	b.sys.send(b.sys.supervisor, &listed{backend: b.cfg.Name, origin: b.cfg.Origin, inc: b.inc})
	b.watch()
	b.tell(&tell{all: true})
	b.renewed()
	parked, control := b.parked, b.control
	b.parked, b.control = nil, nil
	for _, r := range parked {
		b.launch(r)
	}
	for _, o := range control {
		b.start(o)
	}
	b.heard(&heard{life: b.life, incarnation: b.incarnation}) // what came during the start
	b.pump()
}

// watch reports the end of the present incarnation.
func (b *backend) watch() {
	if b.inc.Done == nil {
		return
	}
	self, done, m := b.self, b.inc.Done, &died{life: b.life, incarnation: b.incarnation}
	b.sys.work.Go(func() {
		<-done
		b.sys.send(self, m)
	})
}

func (b *backend) openFailed(err error) {
	b.failures++
	b.lastError = err.Error()
	code, state := broker.CodeBackendUnavailable, StateBackoff
	var open *broker.OpenError
	if errors.As(err, &open) && open.Auth {
		code, state = broker.CodeBackendRefused, StateRefused
	}
	if errors.As(err, new(errStart)) {
		code = broker.CodeStartTimeout
	}
	b.setState(state)
	b.since = b.sys.now()
	wait := b.backoff.NextBackOff()
	b.backoffUntil = b.sys.now().Add(wait)
	b.log.Warn("backend could not be started", slog.String("cause", b.lastError), slog.Int("failures", b.failures), slog.Duration("retry_after", wait))
	r := b.unavailable()
	r.Code = code
	if state == StateBackoff {
		r.Retry(wait)
	}
	if open != nil && open.Stderr != "" {
		r.Detail["stderr"] = open.Stderr
	}
	b.sys.send(b.sys.supervisor, &listed{backend: b.cfg.Name, origin: b.cfg.Origin, failed: r})
	b.refuseWaiting(r, state == StateRefused || b.failures >= maxOpenFailures, false)
	b.arm()
}

// refuseWaiting answers what waits for a start. Jobs go on waiting unless
// jobsToo: they are durable, and nothing of them was sent.
func (b *backend) refuseWaiting(r *broker.Refusal, jobsToo, stopping bool) {
	out := outcome{refusal: r, stopping: stopping}
	parked, control := b.parked, b.control
	b.parked, b.control = nil, nil
	for _, p := range parked {
		b.finish(p, out)
	}
	for _, o := range control {
		o.settle(out)
	}
	for _, o := range b.waiting {
		if o.isJob.Load() && !jobsToo {
			continue
		}
		b.dequeue(o)
		o.settle(out)
	}
}

// died takes the report that an incarnation is over.
func (b *backend) died(m *died) {
	if m.life != b.life || m.incarnation != b.incarnation || b.conn == nil {
		return
	}
	cause := "the backend ended"
	if b.inc.Cause != nil {
		cause = b.inc.Cause()
	}
	next := b.inc.PerCall
	b.lost(cause)
	if next && !b.blocked() {
		b.open()
	}
	b.arm()
}

// lost drops the present incarnation. Its runs report their own end.
func (b *backend) lost(cause string) {
	if b.conn == nil {
		return
	}
	b.sys.closeConn(b.conn)
	b.drop(cause)
}

// drop forgets the present incarnation; its connection is the caller's to close.
func (b *backend) drop(cause string) {
	b.conn, b.lastError = nil, cause
	level := slog.LevelWarn
	if b.inc.PerCall { // what answers is looked at with each call anyway
		level = slog.LevelInfo
	}
	b.log.Log(context.Background(), level, "backend incarnation ended", slog.String("cause", cause), slog.String("runtime_id", b.inc.RuntimeID))
	b.inc = broker.Incarnation{}
	now := b.sys.now()
	if now.Sub(b.upSince) >= steadyLife {
		b.backoff.Reset()
	}
	b.backoffUntil = now.Add(b.backoff.NextBackOff())
	b.triedEarly = false
	if b.change == nil {
		b.setState(StateBackoff)
	}
}

// turnedAway takes the word of a call that the backend no longer accepts our
// credentials.
func (b *backend) turnedAway(m *runDone) {
	f := m.failure
	if !f.Gone || f.Refusal == nil || f.Refusal.Code != broker.CodeBackendRefused || m.incarnation != b.incarnation {
		return
	}
	b.lost(f.Cause)
	b.lastError = f.Cause
	b.setState(StateRefused)
	b.since = b.sys.now()
}

// giveUp answers everything this life holds, before it ends.
func (b *backend) giveUp() {
	stopping := broker.Refuse(broker.CodeShuttingDown, "The backend "+b.cfg.Name+" is stopping; the call was not sent.", map[string]any{"backend": b.cfg.Name})
	b.refuseWaiting(stopping, true, true)
	for id, r := range b.runs {
		delete(b.runs, id)
		f := &broker.Failure{Dispatched: true, Cause: "the broker stopped the backend while the call ran"}
		r.offer.settle(outcome{refusal: f.Refuse(r.offer.call), stopping: true})
		r.cancel(errStopped)
	}
	for _, m := range b.idlers {
		m.settle()
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.opening {
		b.openCancel()
	}
	if b.conn != nil {
		b.sys.closeConn(b.conn)
		b.conn = nil
	}
	b.setState(StateStopped)
	if c := b.change; c != nil {
		c.timer.Stop()
	}
}

// tellGone tells the supervisor that a backend has left, when its program has.
func (b *backend) tellGone() {
	if b.change == nil || !b.change.leaves {
		return
	}
	m, ended := &gone{pid: b.self.Id}, b.cell.turns.ended()
	b.sys.work.Go(func() {
		<-ended
		b.sys.send(b.sys.supervisor, m)
	})
}

func (b *backend) view() BackendView {
	now := b.sys.now()
	stats := b.queue.Stats(now)
	v := BackendView{
		Name: b.cfg.Name, Kind: b.cfg.Kind, State: b.state, Since: b.since, LastError: b.lastError, FailedStarts: b.failures,
		Incarnations: int(b.incarnation), Tools: b.tools, InFlight: stats.InFlight, Seats: stats.Seats,
		QueuedCalls: stats.QueuedCalls, QueuedJobs: stats.QueuedJobs, Answered: b.answered, Failed: b.failed,
		Shed: stats.Shed, Abandoned: stats.Abandoned, OldestWait: stats.OldestWait,
		EnvNames: b.cfg.EnvNames, HeaderNames: b.cfg.HeaderNames, Draining: b.draining,
	}
	if b.state == StateBackoff && !now.Before(b.backoffUntil) && !b.wantUp() {
		v.State = StateIdle // the pause is over; the next call starts it
	} else if b.state == StateBackoff {
		until := b.backoffUntil
		v.BackoffUntil = &until
	}
	if b.conn != nil {
		v.Flags, v.PID, v.Reported = b.inc.Flags, b.inc.PID, b.inc.Reported
		if b.inc.RuntimeID != "" {
			id := b.inc.RuntimeID
			v.RuntimeID = &id
		}
	}
	return v
}
