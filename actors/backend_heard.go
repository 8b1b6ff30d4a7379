package actors

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"berth/broker"
)

// This file is the part of the backend actor that takes what a backend sends
// outside of any call: that its lists have changed, that a resource has, a log
// message.

// toolsChanged is the notification that means something to the broker itself.
const toolsChanged = "notifications/tools/list_changed"

// relistAfter is how long a change of the tools is let settle before they are
// asked for, so that a burst of notifications costs one list.
const relistAfter = 250 * time.Millisecond

// A backend whose tools change again and again is asked for them relistBurst times
// as soon as it says so, and then once in relistEvery: each list may write to the
// journal, and there is no end to what a backend can list.
const (
	relistBurst = 20
	relistEvery = 10 * time.Second
)

// relisting is when a backend is asked for its tools again.
type relisting struct {
	due   bool      // a timer runs, or a list is under way
	asked bool      // the list is under way
	again bool      // they changed since it was asked for
	spent time.Time // when the burst will be whole again
	slow  bool      // that it is asked less often was logged
}

// wait is how long a change is let settle at this time.
func (r *relisting) wait(now time.Time) time.Duration {
	if r.spent.Before(now) {
		r.spent, r.slow = now, false
	}
	wait := max(relistAfter, r.spent.Sub(now)-(relistBurst-1)*relistEvery)
	r.spent = r.spent.Add(relistEvery)
	return wait
}

// forget begins anew with another incarnation, which listed its tools as it came.
func (r *relisting) forget() { r.due, r.asked, r.again = false, false, false }

// maxHeard bounds what waits to be taken of one incarnation. A notification
// that is the same as one that waits is the same news; past the bound the
// newest is dropped and counted.
const maxHeard = 512

// heard says that there is something in an ear.
type heard struct{ life, incarnation uint64 }

// relist is the timer of a change of the tools.
type relist struct{ life, incarnation uint64 }

// relisted is the new list, or why there is none.
type relisted struct {
	life, incarnation uint64
	tools             []broker.Tool
	flags             []string
	err               error
}

// ear collects what one incarnation sends until the actor takes it. It is safe
// for concurrent use and never blocks.
type ear struct {
	mu      sync.Mutex
	waiting []Notice
	known   map[string]bool
	dropped uint64
}

func (e *ear) put(n Notice) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := n.Method + "\x00" + string(n.Params)
	if e.known[key] {
		return false
	}
	if len(e.waiting) >= maxHeard {
		e.dropped++
		return false
	}
	if e.known == nil {
		e.known = map[string]bool{}
	}
	e.known[key] = true
	e.waiting = append(e.waiting, n)
	return len(e.waiting) == 1
}

func (e *ear) take() []Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.waiting
	e.waiting, e.known = nil, nil
	return out
}

// ear makes what hears the incarnation that is being opened.
func (b *backend) ear(incarnation uint64) broker.Hear {
	e := &ear{}
	b.hearing = e
	self, name, session, m := b.self, b.cfg.Name, b.session, &heard{life: b.life, incarnation: incarnation}
	return func(method string, params json.RawMessage) {
		if e.put(Notice{Backend: name, Session: session, Method: method, Params: params}) {
			b.sys.send(self, m)
		}
	}
}

// heard passes on what the present incarnation sent. A change of its tools is
// news only once they have been listed again.
func (b *backend) heard(m *heard) {
	if m.life != b.life || m.incarnation != b.incarnation {
		return
	}
	for _, n := range b.hearing.take() {
		if listsOf[n.Method] != nil {
			b.changed(n, false)
			continue
		}
		if n.Method != toolsChanged {
			b.sys.hub.publish(n)
			continue
		}
		b.relistings.again = b.relistings.again || b.relistings.asked
		if !b.relistings.due {
			b.relistSoon()
		}
	}
}

// relistSoon has the tools listed when their change has settled. One list is asked
// for at a time, so that an earlier answer never comes after a later one.
func (b *backend) relistSoon() {
	b.relistings.due = true
	wait := b.relistings.wait(b.sys.now())
	if wait > relistAfter && !b.relistings.slow {
		b.relistings.slow = true
		b.log.Warn("the backend changes its tools all the time; they are asked for less often", slog.Duration("every", relistEvery))
	}
	self, due := b.self, &relist{life: b.life, incarnation: b.incarnation}
	time.AfterFunc(wait, func() { b.sys.send(self, due) })
}

func (b *backend) relist(m *relist) {
	if m.life != b.life || m.incarnation != b.incarnation || b.conn == nil {
		return
	}
	b.relistings.asked, b.relistings.again = true, false
	conn, self, limit := b.conn, b.self, b.cfg.StartTimeout
	b.sys.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		r := &relisted{life: m.life, incarnation: m.incarnation}
		r.tools, r.flags, r.err = conn.List(ctx)
		b.sys.send(self, r)
	})
}

func (b *backend) relisted(m *relisted) {
	if m.life != b.life || m.incarnation != b.incarnation {
		return
	}
	again := b.relistings.again
	b.relistings.forget()
	if b.conn == nil || b.change != nil {
		return
	}
	if again {
		b.relistSoon()
	}
	if m.err != nil {
		b.log.Warn("a changed list of tools could not be read; the one before is served", slog.String("cause", m.err.Error()))
		return
	}
	b.inc.Tools, b.inc.Flags, b.entries = m.tools, m.flags, nil
	n := len(m.tools)
	b.tools = &n
	b.sys.send(b.sys.supervisor, &listed{backend: b.cfg.Name, origin: b.cfg.Origin, inc: b.inc})
}
