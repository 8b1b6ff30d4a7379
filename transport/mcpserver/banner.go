package mcpserver

import (
	"encoding/json"
	"log/slog"
	"time"

	"berth/broker"
	"berth/broker/native/board"
	"berth/broker/shape"
	"berth/transport/jsonrpc"
)

// This file tells whoever takes part in the board of its unread wakes, on the
// result of whatever it calls (contracts/native.md section 1.9).
//
// It is added in every profile that has mark_signal_read. An exact profile of a
// backend has not, and stays as its backend answers: nothing there could end it.

// Wakes is who knows of them.
type Wakes interface {
	// Banner is the text for a participant; empty: nothing is unread. verb is the
	// name under which the caller has mark_signal_read.
	Banner(who broker.Principal, participant, verb string) (string, error)
}

const (
	// bannerWait bounds what an answer waits for its banner.
	bannerWait = 250 * time.Millisecond
	// maxLookups bounds the lookups that go on, those included that nobody waits
	// for any more.
	maxLookups = 64
)

// unbannered already answer with all wakes.
var unbannered = map[string]bool{board.VerbRead: true, board.VerbHeartbeat: true}

// woken is a result with the banner of its caller. Nothing that goes wrong here
// costs more than the banner.
func (s *Server) woken(rq *request, c aimed, result json.RawMessage) json.RawMessage {
	if rq.participant == "" || s.opts.Wakes == nil || c.profile == nil {
		return result
	}
	if v := c.plan.Verb; v != nil && v.Native && unbannered[v.Name] {
		return result
	}
	mark, ok := c.profile.Resolve(board.VerbMark)
	if !ok || !mark.Native { // a session that only reads is told all the same
		return result
	}
	text := s.lookUp(rq, c, c.profile.Outward(mark))
	if text == "" {
		return result
	}
	with, ok := shape.WithText(result, text)
	if !ok {
		s.opts.Logger.Debug("a result has no place for a banner", slog.String("call", c.id))
	}
	return with
}

// lookUp asks for the banner, bannerWait at most.
func (s *Server) lookUp(rq *request, c aimed, verb string) string {
	select {
	case s.lookups <- struct{}{}:
	default:
		s.opts.Logger.Warn("a banner was left out: too many lookups are slow", slog.String("call", c.id))
		return ""
	}
	found := make(chan string, 1)
	go func() {
		defer func() { <-s.lookups }()
		text, err := s.opts.Wakes.Banner(rq.principal, rq.participant, verb)
		if err != nil {
			s.opts.Logger.Warn("a banner was left out", slog.String("call", c.id), slog.String("cause", err.Error()))
			text = ""
		}
		found <- text
	}()
	late := time.NewTimer(bannerWait)
	defer late.Stop()
	select {
	case text := <-found:
		return text
	case <-late.C:
		s.opts.Logger.Warn("a banner was left out: its lookup is slow", slog.String("call", c.id))
		return ""
	}
}

// callResult is the response to a call: its result, in the form of the era.
func (s *Server) callResult(rq *request, c aimed, result json.RawMessage) []byte {
	return jsonrpc.AppendResult(nil, rq.msg.ID, rq.shaped(s.woken(rq, c, result)))
}
