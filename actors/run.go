package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"berth/broker"
)

// execute runs one admitted call to its end, off the mailbox, within its
// limits. It never panics.
func execute(r *run, conn broker.Conn, runtimeID string, begin func(context.Context, string) *broker.Refusal, now func() time.Time, log *slog.Logger) (done *runDone) {
	done = &runDone{callID: r.offer.call.ID}
	defer func() {
		if p := recover(); p != nil {
			log.Error("a call panicked", slog.String("verb", r.offer.call.Verb), slog.String("panic", fmt.Sprint(p)))
			done.failure = &broker.Failure{Dispatched: true, Cause: "the broker failed while the call ran"}
			done.ended = now()
		}
	}()
	if begin != nil {
		if done.refusal = begin(r.ctx, runtimeID); done.refusal != nil {
			return done
		}
	}
	if done.refusal = r.offer.held.spend(now()); done.refusal != nil {
		return done
	}
	// What others were granted while the call ran may be older than what it wrote.
	defer func() { _ = r.offer.held.spend(now()) }()
	if limit := r.offer.runTimeout; limit > 0 {
		defer time.AfterFunc(limit, func() { r.expire(errCallTimeout) }).Stop()
	}
	peer := r.offer.peer
	if limit := r.offer.idleTimeout; limit > 0 {
		idle := newIdle(limit, func() { r.expire(errIdleTimeout) })
		defer idle.stop()
		peer = idle.watch(peer)
	}
	done.started = now()
	call, span := r.traced(done.started)
	defer func() { endRun(span, done) }()
	answer, err := conn.Call(r.ctx, call, peer)
	if r.offer.isJob.Load() {
		answer, err = withInput(r.ctx, conn, call, peer, answer, err)
	}
	done.ended = now()
	if err != nil {
		done.failure = asFailure(err)
		return done
	}
	if lostTask(r.offer.call, &answer) {
		done.failure = &broker.Failure{Dispatched: true, Cause: "the backend answered with a task that has no id by which it could be followed"}
		return done
	}
	done.answer = answer
	return done
}

// asFailure gives err as a failure; a transport that returns something else is
// taken at its worst.
func asFailure(err error) *broker.Failure {
	var f *broker.Failure
	if errors.As(err, &f) {
		return f
	}
	return &broker.Failure{Dispatched: true, Cause: err.Error()}
}

// expire ends a run at a limit of calls; a call that has become a job has the
// job's limit instead.
func (r *run) expire(cause error) {
	if !r.offer.isJob.Load() {
		r.cancel(cause)
	}
}
