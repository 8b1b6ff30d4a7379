package actors

import (
	"context"

	"berth/broker"
)

// This file is what a call must pass before a backend hears of it, whichever
// actor hands it on: what an operator stopped, and the limits over all backends.

// admitJob has a new job judged, unless its work has begun already.
func (s *System) admitJob(start *jobStart, record *broker.Job) *broker.Refusal {
	if s.opts.Admit == nil || start.promote || start.adopt != nil {
		return nil
	}
	return s.opts.Admit(start.req.Call, record)
}

// stopped refuses new work that an operator has stopped: by the hold, or at its
// backend.
func (s *System) stopped(req *Request) *broker.Refusal {
	if r := s.hold(req); r != nil {
		return r
	}
	if n := s.draining(req.Call.Backend); n != nil && req.Call.Lane != broker.LaneControl {
		return n.Refuse(req.Call.Backend)
	}
	return nil
}

// admit takes what a call weighs of the limits that hold over all backends and
// of its caller's own, or refuses it. What was taken is given back once.
func (s *System) admit(c *broker.Call) *broker.Refusal {
	if !s.budget.Take(c.Bytes()) {
		return s.budget.Refuse(c.Bytes())
	}
	if refusal := s.shares.Take(c, s.now()); refusal != nil {
		s.budget.Give(c.Bytes())
		return refusal
	}
	return nil
}

func (s *System) release(c *broker.Call) {
	s.budget.Give(c.Bytes())
	s.shares.Give(c, s.now())
}

// hold refuses a request that an operator's stop holds.
func (s *System) hold(req *Request) *broker.Refusal {
	if s.opts.Hold == nil || !req.Held {
		return nil
	}
	return s.opts.Hold(req.Call.Verb)
}

// holdHook looks at the hold once more before a call is sent: it may have
// waited in the queue since it was admitted.
func (s *System) holdHook(req *Request) func(context.Context, string) *broker.Refusal {
	if s.opts.Hold == nil || !req.Held {
		return nil
	}
	verb := req.Call.Verb
	return func(context.Context, string) *broker.Refusal { return s.opts.Hold(verb) }
}
