package actors

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"time"

	"berth/broker"
)

// This file is the part of the backend actor that knows whether a backend's
// prompts and resources have changed when it says so, or when it has a new
// incarnation. They are nowhere kept, only a digest of what was served last; a
// list that nobody was served is nobody's news to doubt.

// The notifications that say that a list has changed, and the lists that they
// are about.
const (
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
)

var listsOf = map[string][]string{
	promptsChanged:   {"prompts/list"},
	resourcesChanged: {"resources/list", "resources/templates/list"},
}

// servedList is the first page of a list as it was seen last.
type servedList struct {
	digest [sha256.Size]byte
	more   bool // there are further pages, so the digest does not decide
	// dirty says that it was served in two forms since it was news last, so that
	// somebody may have an old one.
	dirty bool
}

// relook is the timer of a change: how long it is let settle before the lists
// are looked at, so that a burst of notifications costs one look.
type relook struct {
	life, incarnation uint64
	notice            Notice
	// renewed says that it is not the backend that speaks of a change: it has a
	// new incarnation.
	renewed bool
}

// relooked is what was seen.
type relooked struct {
	relook
	seen map[string]servedList
	err  error
}

// lists reports whether a call asks for the first page of a list that is
// watched.
func lists(c *broker.Call) bool {
	switch c.Method {
	case "prompts/list", "resources/list", "resources/templates/list":
	default:
		return false
	}
	var params struct {
		Cursor *string `json:"cursor"`
	}
	return len(c.Params) == 0 || json.Unmarshal(c.Params, &params) == nil && params.Cursor == nil
}

func servedAs(result json.RawMessage) servedList {
	var page struct {
		Next string `json:"nextCursor"`
	}
	_ = json.Unmarshal(result, &page) // what is no object has no further pages
	return servedList{digest: sha256.Sum256(result), more: page.Next != ""}
}

// served notes a list that a caller gets.
func (b *backend) served(c *broker.Call, a *broker.Answer) {
	if a == nil || a.Error != nil || !lists(c) {
		return
	}
	now := servedAs(a.Result)
	before, known := b.lists[c.Method]
	now.dirty = known && (before.dirty || before.digest != now.digest)
	if b.lists == nil {
		b.lists = map[string]servedList{}
	}
	b.lists[c.Method] = now
}

// changed lets a change settle; another one of its kind until then is the same.
func (b *backend) changed(n Notice, renewed bool) {
	if b.relooking[n.Method] {
		return
	}
	if b.relooking == nil {
		b.relooking = map[string]bool{}
	}
	b.relooking[n.Method] = true
	self, due := b.self, &relook{life: b.life, incarnation: b.incarnation, notice: n, renewed: renewed}
	time.AfterFunc(relistAfter, func() { b.sys.send(self, due) })
}

// renewed looks whether a new incarnation has the lists that the one before had.
func (b *backend) renewed() {
	clear(b.relooking)
	for method, lists := range listsOf {
		for _, list := range lists {
			if _, known := b.lists[list]; known {
				b.changed(Notice{Backend: b.cfg.Name, Session: b.session, Method: method}, true)
				break
			}
		}
	}
}

// relook asks for what was served, off the mailbox.
func (b *backend) relook(m *relook) {
	if m.life != b.life || m.incarnation != b.incarnation || b.conn == nil {
		return
	}
	var calls []*broker.Call
	for _, method := range listsOf[m.notice.Method] {
		if s, known := b.lists[method]; known && !s.more && !s.dirty {
			calls = append(calls, b.ownCall(method, json.RawMessage("{}"), broker.Read))
		}
	}
	conn, self := b.conn, b.self
	b.sys.work.Go(func() {
		done := &relooked{relook: *m, seen: map[string]servedList{}}
		for _, call := range calls {
			answer, err := ask(conn, call)
			if err != nil || answer.Error != nil {
				done.err = err
				break
			}
			done.seen[call.Method] = servedAs(answer.Result)
		}
		b.sys.send(self, done)
	})
}

// relooked publishes the change unless every list that it is about is as it was
// served last.
func (b *backend) relooked(m *relooked) {
	if m.life != b.life || m.incarnation != b.incarnation {
		return
	}
	delete(b.relooking, m.notice.Method)
	if m.err != nil {
		b.log.Warn("a changed list could not be read", slog.String("method", m.notice.Method), slog.String("cause", m.err.Error()))
	}
	served, news := false, false
	for _, method := range listsOf[m.notice.Method] {
		before, known := b.lists[method]
		if !known {
			continue
		}
		served = true
		now, seen := m.seen[method]
		if seen && now.digest == before.digest && !before.dirty && !before.more {
			continue
		}
		news = true
		if seen {
			before = now
		}
		before.dirty = false
		b.lists[method] = before
	}
	if news || !served && !m.renewed {
		b.sys.hub.publish(m.notice)
	}
}

// ownCall is a request of the broker itself to the present incarnation.
func (b *backend) ownCall(method string, params json.RawMessage, effects broker.Effects) *broker.Call {
	return &broker.Call{ID: b.sys.NewCallID(), Principal: broker.LocalOperator, Backend: b.cfg.Name,
		Verb: b.cfg.Name + " " + method, Effects: effects, Lane: broker.LaneControl, Seats: 1, Method: method, Params: params}
}

// ask fails when the incarnation gives no answer in time; an error that it
// answers with is its right.
func ask(conn broker.Conn, call *broker.Call) (a broker.Answer, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
	defer cancel()
	return conn.Call(ctx, call, broker.Peer{})
}
