package missions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"berth/actors/box"
)

const missionMailbox = 1000

// task is a procedure of one mission, from its beginning to its end. ctx ends,
// with a cause, when it is to be cut short.
// recorded says that the records are what they will be, and that what is left is
// nothing that anybody waits for.
type task func(ctx context.Context, recorded func()) error

// errMoved cuts short the work on a mission that somebody moved on by hand.
var errMoved = errors.New("the mission was moved on by hand")

// cutShort ends a procedure early.
type cutShort struct{ why error }

// taskRecorded reports that the procedure has written its end.
type taskRecorded struct{}

// taskDone reports the end of the procedure.
type taskDone struct{ err error }

// mission is the one owner of a mission while something is done with it.
type mission struct {
	// fixed at construction
	sys   *System
	id    string
	task  task
	first *ask // whose task it is; nil: the assigner's

	// owned by the actor
	self    *actor.PID
	cut     context.CancelCauseFunc
	waiting []*ask
}

func newMission(s *System, id string, t task, first *ask) *mission {
	return &mission{sys: s, id: id, task: t, first: first}
}

// Receive dispatches one message.
func (m *mission) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		m.self = ctx.Self()
		m.begin()
	case *actor.Stopping:
		m.cut(errStopping)
		m.answer(box.ErrStopped)
	case *cutShort:
		m.cut(msg.why)
	case *ask:
		if len(m.waiting) >= missionMailbox {
			msg.Reject(box.ErrFull)
			return
		}
		m.waiting = append(m.waiting, msg)
		if msg.cut != nil {
			m.cut(msg.cut)
		}
	case *taskRecorded:
		m.answerWaiting(box.ErrStopped)
		m.sys.send(m.sys.assigner, released{m.id})
	case *taskDone:
		m.sys.live.Delete(m.id) // before who asked is answered, and asks whether it is there
		if m.first != nil {
			m.first.settle(msg.err)
		} else if hindered(msg.err) {
			m.sys.hindered.Store(true)
		}
		m.answer(box.ErrStopped)
		ctx.Stop(m.self)
	}
}

func (m *mission) answer(err error) {
	if m.first != nil {
		m.first.Reject(err)
	}
	m.answerWaiting(err)
}

func (m *mission) answerWaiting(err error) {
	for _, a := range m.waiting {
		a.Reject(err)
	}
	m.waiting = nil
}

// hindered reports whether a procedure failed for a cause that may still be
// there for the next one.
func hindered(err error) bool {
	return err != nil && !settled(err) && !errors.Is(err, errStopping)
}

func (m *mission) begin() {
	ctx, cut := context.WithCancelCause(m.sys.ctx)
	m.cut = cut
	self, sys, id, run, first := m.self, m.sys, m.id, m.task, m.first
	sys.work.Go(func() {
		err := guarded(ctx, run, func() { sys.send(self, &taskRecorded{}) })
		cut(nil)
		if first == nil && hindered(err) {
			sys.log.Error("a step of a mission failed", slog.String("mission", id), slog.String("cause", err.Error()))
		}
		sys.send(self, &taskDone{err})
	})
}

// guarded runs a procedure whose panic is an error.
func guarded(ctx context.Context, run task, recorded func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the procedure panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return run(ctx, recorded)
}
