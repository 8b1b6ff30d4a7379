package actors

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"berth/broker"
)

// This file is the part of the backend actor that takes another configuration,
// or leaves. The actor stays the same over a change: so do its queue, what waits
// in it, and everybody's address of it. What changes is the life.

// reconfigure gives a backend another configuration.
type reconfigure struct {
	cfg BackendConfig
	// renew ends the present life first: what runs goes on to its end, no longer
	// than drain; nothing new is sent to it; what waits, waits for the next life.
	renew bool
	drain time.Duration
	// followed says that work is followed that lives in the present life.
	followed bool
}

// leave ends the backend: what waits is refused, what runs goes on to its end,
// no longer than drain. Then the actor stops.
type leave struct {
	drain    time.Duration
	followed bool
}

// follows says whether work is followed that lives in the life that drains.
type follows struct{ any bool }

// drainDue is the limit of a drain.
type drainDue struct{ life uint64 }

// shut reports that the connection of a drained life is closed.
type shut struct{ life uint64 }

// release lets a backend come up whose namesake has left.
type release struct{}

// renewedLife tells the supervisor that a backend has another life by its number.
type renewedLife struct {
	pid  string
	life uint64
}

// gone tells the supervisor that a backend has left.
type gone struct{ pid string }

// errReplaced is the cause with which a run ends that outlasts its drain.
var errReplaced = errors.New("the backend's configuration changed and the call did not end within the drain limit")

// change is what a backend is on its way to.
type change struct {
	cfg      BackendConfig // of the next life
	leaves   bool          // there is no next life
	wasUp    bool          // so the next life is brought up as well
	followed bool          // work is followed that lives in this life
	over     bool          // the limit has passed
	closing  bool          // the connection is being closed
	timer    *time.Timer
}

// reconfigured takes another configuration.
func (b *backend) reconfigured(m *reconfigure) {
	cfg := m.cfg.withDefaults()
	b.cell.cfg.Store(&cfg) // a panic from here on brings up the new one
	switch {
	case b.change != nil && b.change.leaves:
	case b.change != nil:
		b.change.cfg = cfg
	case m.renew:
		b.drain(&change{cfg: cfg, followed: m.followed}, m.drain)
	default:
		b.cfg = cfg
		b.queue.Resize(cfg.Admission)
		if b.cfg.Eager && b.conn == nil && b.state == StateIdle {
			_ = b.wake() // why it does not start is in its state
		}
		b.pump()
	}
}

// left begins the end of the backend.
func (b *backend) left(m *leave) {
	if b.change != nil && b.change.leaves {
		return
	}
	if b.change != nil {
		b.change.timer.Stop()
	}
	b.cell.leaves.Store(true)
	b.drain(&change{leaves: true, followed: m.followed}, m.drain)
	b.refuseWaiting(b.removedRefusal(), true, false)
}

func (b *backend) removedRefusal() *broker.Refusal {
	return broker.Refuse(broker.CodeBackendUnavailable, "The backend "+b.cfg.Name+" was taken out of the configuration; the call was not sent.",
		map[string]any{"backend": b.cfg.Name})
}

// drain begins the end of the present life.
func (b *backend) drain(c *change, limit time.Duration) {
	c.wasUp = b.conn != nil || b.opening
	b.change = c
	b.cell.changing.Store(true)
	if b.opening {
		b.openCancel()
	}
	b.setState(StateDraining)
	self, due := b.self, &drainDue{life: b.life}
	c.timer = time.AfterFunc(limit, func() { b.sys.send(self, due) })
	b.log.Info("backend drains", slog.Duration("drain_timeout", limit), slog.Int("running", len(b.runs)-len(b.parked)),
		slog.Int("waiting", len(b.waiting)), slog.Bool("leaves", c.leaves))
	b.arm()
}

// blocked says that nothing may be started: a life drains, or a namesake does.
func (b *backend) blocked() bool { return b.change != nil || b.held }

// drainDue ends what has not ended by itself. Whether it took effect is unknown.
func (b *backend) drainDue(m *drainDue) {
	if b.change == nil || m.life != b.life {
		return
	}
	b.change.over = true
	f := &broker.Failure{Dispatched: true, Cause: errReplaced.Error()}
	for _, r := range b.runs {
		if slices.Contains(b.parked, r) {
			continue
		}
		r.cancel(errReplaced)
		b.finish(r, outcome{refusal: f.Refuse(r.offer.call)})
	}
}

// leavesWork keeps a life that drains for work that an answer leaves in it, until
// the supervisor has heard of the work (follows).
func (b *backend) leavesWork(o *offer, a *broker.Answer) {
	if b.change == nil || b.change.followed {
		return
	}
	b.change.followed = o.isJob.Load() && b.sys.trackable(o.call, a) != nil || b.sys.ownTask(o.call, a) != nil || b.sys.following(o.call, a) != nil
}

// settleChange goes one step further when nothing of the present life is left
// to wait for: its connection is closed. The next life waits for its turn, so a
// program never runs twice at once also where another end of it is under way.
func (b *backend) settleChange() {
	c := b.change
	if c == nil || c.closing || b.opening || len(b.runs) > len(b.parked) || (c.followed && !c.over && b.conn != nil) {
		return
	}
	c.closing = true
	c.timer.Stop()
	conn, self, m := b.conn, b.self, &shut{life: b.life}
	b.conn, b.inc = nil, broker.Incarnation{}
	b.sys.work.Go(func() {
		if conn != nil {
			b.sys.closeNow(conn)
		}
		b.sys.send(self, m)
	})
}

// shut begins the next life.
func (b *backend) shut(m *shut) {
	c := b.change
	if c == nil || m.life != b.life {
		return
	}
	if c.leaves {
		b.retiring = true
		return
	}
	b.change = nil
	b.cell.changing.Store(false)
	b.life = b.sys.lives.Add(1)
	b.cfg, b.tools = c.cfg, c.cfg.Tools
	b.queue.Resize(c.cfg.Admission)
	b.failures, b.lastError, b.triedEarly, b.backoffUntil = 0, "", false, time.Time{}
	b.backoff.Reset()
	b.relistings.forget()
	b.setState(StateIdle)
	b.log.Info("backend has its new configuration")
	b.tellRenewed()
	if c.wasUp || b.wantUp() {
		_ = b.wake() // nothing stands in the way of a first attempt
	}
	b.arm()
}

func (b *backend) tellRenewed() {
	b.sys.send(b.sys.supervisor, &renewedLife{pid: b.self.Id, life: b.life})
}

// standIn takes over from an actor that panicked in the middle of a change, as
// far as it had come: one that leaves has only to go, and any other has its new
// configuration already.
func (b *backend) standIn() {
	switch {
	case b.cell.leaves.Load():
		b.change = &change{leaves: true, closing: true, timer: time.NewTimer(0)}
		b.retiring = true
	case b.cell.changing.Swap(false):
		b.tellRenewed()
	}
}

// released brings up a backend whose namesake has left.
func (b *backend) released() {
	if !b.held {
		return
	}
	b.held = false
	b.cell.held.Store(false)
	if b.change == nil && b.wantUp() {
		_ = b.wake() // nothing stands in the way of a first attempt
	}
}
