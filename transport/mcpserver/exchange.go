package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/jsonrpc"
)

// exchange is one request that may take a while and its answer: plain JSON
// when the answer is there at once, else a stream that begins with its
// headers, shows signs of life and ends with the answer.
//
// The handler goroutine works and writes the end. What is written before that
// is written by tick, which a timer runs, so that an answer that comes at once
// costs no goroutine.
type exchange struct {
	rq        *request
	progress  *progress // nil when the client gave no token
	keepAlive time.Duration

	turn   chan struct{} // capacity 1; who put in writes and owns what follows
	timer  *time.Timer
	outbox outbox // messages for the stream, besides progress
	open   bool   // the stream's headers were sent
	ended  bool   // the rest is the handler's
	gone   bool   // the client is gone or takes nothing: the same to us
}

// run does work and writes what it returns: a JSON-RPC response, or nil when
// nothing is to be said. ctx of work is the request's, which net/http ends when
// the client is gone and when a write to it failed, as it does when it takes
// nothing within the limit. run returns when both work and the response have
// ended.
func (s *Server) run(x *exchange, work func(ctx context.Context) []byte) {
	// A client that cannot read a stream just waits; one that reads nothing
	// else gets its headers now.
	wait := s.opts.Limits.Quick
	if x.rq.asker != nil {
		wait = max(wait, statelessQuick)
	}
	if !x.rq.accept.json {
		wait = 0
	}
	x.keepAlive = s.opts.Limits.KeepAlive
	x.start(wait)
	ctx, done := httpguard.Until(x.rq.r.Context(), x.rq.caller)
	defer done()
	message := s.fit(x.rq, s.guarded(ctx, x.rq, work))
	if x.rq.revoked() {
		message = x.rq.refusal(broker.Refuse(broker.CodeUnauthorized, "The credential of this request was revoked; what it began may go on as a job.", nil))
	}
	if x.end() {
		x.finish(message)
	}
}

// revoked reports whether the caller's credential is no longer good.
func (rq *request) revoked() bool { return rq.caller.Life != nil && rq.caller.Life.Err() != nil }

// gone gives a channel that is closed when the caller's credential is no longer
// good.
func (rq *request) gone() <-chan struct{} {
	if rq.caller.Life == nil {
		return nil
	}
	return rq.caller.Life.Done()
}

func (x *exchange) start(wait time.Duration) {
	x.turn = make(chan struct{}, 1)
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	x.timer = time.AfterFunc(wait, x.tick)
	wake := func() { x.timer.Reset(0) }
	x.progress.onReport(wake)
	x.outbox.onPut(wake)
}

// tick writes what is due before the answer.
func (x *exchange) tick() {
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	if x.ended || x.gone {
		return
	}
	// The timer first: a report after this line sets it to now again.
	x.timer.Reset(x.keepAlive)
	var err error
	if x.pending() {
		err = x.sendPending()
	} else {
		err = x.signOfLife()
	}
	x.gone = err != nil
}

// end takes the response over from tick; false when nobody reads it any more.
func (x *exchange) end() bool {
	x.turn <- struct{}{} // a write that is under way has its deadline
	x.ended = true
	x.timer.Stop()
	<-x.turn
	return !x.gone
}

// guarded keeps a panic in work from ending the process; the client gets an
// answer all the same.
func (s *Server) guarded(ctx context.Context, rq *request, work func(context.Context) []byte) (message []byte) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("panic while a request was handled", "method", rq.msg.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			message = rq.refusal(broker.AsRefusal(fmt.Errorf("panic: %v", p)))
		}
	}()
	return work(ctx)
}

// finish sends the last progress and the answer.
func (x *exchange) finish(message []byte) {
	if x.rq.accept.stream && x.pending() {
		if err := x.sendPending(); err != nil {
			return
		}
	}
	switch {
	case x.open:
	case message == nil && !x.rq.accept.stream:
		x.rq.empty(http.StatusNoContent)
		return
	case message != nil && (x.rq.accept.json || x.rq.status(message) != http.StatusOK):
		x.rq.send(x.rq.status(message), message)
		return
	}
	if x.begin() != nil {
		return
	}
	if message == nil || x.event(message) == nil {
		x.rq.endDeadline()
	}
}

// begin sends the headers of the stream, once.
func (x *exchange) begin() error {
	if x.open {
		return nil
	}
	x.open = true
	h := x.rq.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects would undo the flush
	x.rq.writeDeadline()
	x.rq.w.WriteHeader(http.StatusOK)
	return x.rq.control.Flush()
}

var (
	eventHead = []byte("event: message\ndata: ")
	eventTail = []byte("\n\n")
	comment   = []byte(": \n\n")
)

// event sends one message. JSON has no line breaks that mean anything, so a
// message is one data line.
func (x *exchange) event(message []byte) error {
	return x.write(eventHead, jsonrpc.OneLine(message), eventTail)
}

func (x *exchange) write(parts ...[]byte) error {
	x.rq.writeDeadline()
	for _, p := range parts {
		if err := x.rq.write(p); err != nil {
			return err
		}
	}
	return x.rq.control.Flush()
}

// signOfLife opens the stream, or shows on an idle one that the request is
// still being worked on.
func (x *exchange) signOfLife() error {
	if !x.rq.accept.stream {
		return nil
	}
	if !x.open {
		return x.begin()
	}
	if own := x.progress.own(); own != nil {
		return x.event(own)
	}
	return x.write(comment)
}

// pending reports whether something waits to be written before the answer.
func (x *exchange) pending() bool { return x.progress.waiting() || x.outbox.waiting() }

// sendPending writes what waits. Messages come before progress, of which
// only the latest is kept for a slow reader.
func (x *exchange) sendPending() error {
	for _, message := range x.outbox.take() {
		if err := x.begin(); err != nil {
			return err
		}
		if err := x.event(message); err != nil {
			return err
		}
	}
	for _, message := range x.progress.take() {
		if !x.rq.accept.stream {
			return nil
		}
		if err := x.begin(); err != nil {
			return err
		}
		if err := x.event(message); err != nil {
			return err
		}
	}
	return nil
}

// streams counts the requests that wait for an answer, refuses above a limit
// and while draining, and tells when none is left.
type streams struct {
	mu       sync.Mutex
	limit    int
	open     int
	draining bool
	idle     chan struct{} // closed when draining and none is open
}

func (s *streams) init(limit int) { s.limit, s.idle = limit, make(chan struct{}) }

// enter takes a place; the caller leaves when refusal is nil.
func (s *streams) enter() *broker.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return broker.Refuse(broker.CodeShuttingDown, "The broker is stopping and takes no new work; try again when it is back.", nil)
	case s.open >= s.limit:
		return broker.Refuse(broker.CodeOverloaded, "The broker has as many open requests as it takes.", map[string]any{"open": s.open}).Retry(time.Second)
	}
	s.open++
	return nil
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.draining && s.open == 0 {
		close(s.idle)
	}
}

func (s *streams) drain(ctx context.Context) int {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		if s.open == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}
