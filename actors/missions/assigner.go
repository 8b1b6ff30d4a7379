package missions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"berth/actors/box"
	"berth/broker"
)

const (
	assignerMailbox = 10_000
	// passEvery is how often a pass is made that nobody asked for.
	passEvery = 30 * time.Second
)

// wake asks for a pass.
type wake struct{}

// passDone reports a pass.
type passDone struct {
	plan *plan
	err  error
}

// released says that a mission's procedure has written its end: captain and
// agent are free, while its worktree is still there.
type released struct{ mission string }

// errHeld is the answer to an ask that does not wait for another procedure.
var errHeld = errors.New("another procedure of this mission is under way")

// errAgain is the answer to an ask that met another procedure of its mission,
// when that has ended: look again.
var errAgain = errors.New("another procedure of this mission has ended")

// ask has a mission's actor do something. Where another procedure of the mission
// is under way the ask is answered at its end, which cut brings about.
type ask struct {
	mission string
	hold    hold
	task    task
	cut     error // why another procedure is cut short; nil: it is not
	atOnce  bool  // do not wait for another procedure
	reply   chan<- error
	once    sync.Once
}

// NewWork marks it.
func (a *ask) NewWork() {}

func (a *ask) settle(err error) { a.once.Do(func() { a.reply <- err }) }

// Reject answers for an actor that never will.
func (a *ask) Reject(err error) {
	switch {
	case errors.Is(err, box.ErrFull):
		a.settle(broker.Refuse(broker.CodeOverloaded, "Too much is asked of missions at once; nothing was changed.", nil).Retry(time.Second))
	case errors.Is(err, box.ErrStopped):
		a.settle(errAgain)
	default:
		a.settle(err)
	}
}

// hold is what a procedure has of the things that missions share, as it was when
// the procedure began.
type hold struct {
	agent                 bool // it has an agent, or will
	vessel, captain, dock string
}

// assigner decides who works on what, and owns the actors of missions.
type assigner struct {
	// fixed at construction
	sys *System

	// owned by the actor
	self    *actor.PID
	live    map[string]*actor.PID // by mission
	holds   map[string]hold       // of the same
	names   map[string]string     // of the same, by the actor's id
	spawned uint64
	passing bool
	again   bool // something happened since the pass began
	retry   *backoff.ExponentialBackOff
	timer   *time.Timer
}

func newAssigner(s *System) *assigner {
	return &assigner{sys: s, live: map[string]*actor.PID{}, holds: map[string]hold{}, names: map[string]string{}, retry: newBackoff()}
}

// Receive dispatches one message.
func (a *assigner) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.self = ctx.Self()
	case *actor.Stopping:
		if a.timer != nil {
			a.timer.Stop()
		}
	case *actor.Terminated:
		a.ended(m.Who)
	case wake:
		a.sys.woken.Store(false)
		a.pass()
	case released:
		if h, ok := a.holds[m.mission]; ok {
			h.agent, h.captain = false, ""
			a.holds[m.mission] = h
			a.pass()
		}
	case *passDone:
		a.planned(ctx, m)
	case *ask:
		a.asked(ctx, m)
	}
}

// pass begins a pass, or has the one that runs followed by another.
func (a *assigner) pass() {
	if a.passing {
		a.again = true
		return
	}
	if a.sys.ctx.Err() != nil {
		return
	}
	a.passing, a.again = true, false
	held := make(map[string]hold, len(a.holds))
	for id, h := range a.holds {
		held[id] = h
	}
	self, sys := a.self, a.sys
	sys.work.Go(func() {
		p, err := sys.guardedPass(held)
		sys.send(self, &passDone{p, err})
	})
}

// guardedPass is a pass whose panic is an error.
func (s *System) guardedPass(held map[string]hold) (p *plan, err error) {
	p = &plan{}
	defer func() {
		if r := recover(); r != nil {
			p, err = &plan{}, fmt.Errorf("a pass panicked: %v", r)
		}
	}()
	return p, s.pass(s.ctx, held, p)
}

// planned carries out what a pass found, and sees to the next one.
func (a *assigner) planned(ctx actor.Context, m *passDone) {
	a.passing = false
	for _, t := range m.plan.tasks {
		if _, busy := a.live[t.mission]; !busy {
			a.spawn(ctx, t.mission, t.hold, t.task, nil)
		}
	}
	for _, id := range m.plan.moved {
		if pid, ok := a.live[id]; ok {
			a.sys.send(pid, &cutShort{errMoved})
		}
	}
	switch {
	case m.err != nil && a.sys.ctx.Err() == nil:
		wait := a.retry.NextBackOff()
		a.sys.log.Warn("a pass over the missions was not completed", slog.String("cause", m.err.Error()), slog.Duration("retry_after", wait))
		a.later(wait)
	case a.again || m.plan.wrote:
		a.pass()
	default:
		if len(m.plan.tasks) == 0 {
			a.retry.Reset()
		}
		a.later(passEvery)
	}
}

// later has a pass follow after a while, unless one comes before.
func (a *assigner) later(wait time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(wait, a.sys.Wake)
}

// asked passes an ask to the mission's actor, or makes one for it.
func (a *assigner) asked(ctx actor.Context, m *ask) {
	pid, busy := a.live[m.mission]
	switch {
	case busy && m.atOnce && a.sys.Running(m.mission):
		m.settle(errHeld)
	case busy && m.atOnce:
		m.settle(errAgain) // it is about to go
	case busy:
		a.sys.send(pid, m)
	case a.sys.ctx.Err() != nil:
		m.Reject(box.ErrStopped)
	default:
		a.spawn(ctx, m.mission, m.hold, m.task, m)
	}
}

// spawn makes the actor of a mission, which begins with a task.
func (a *assigner) spawn(ctx actor.Context, id string, h hold, t task, first *ask) {
	a.spawned++
	sys := a.sys
	sys.live.Store(id, struct{}{})
	pid, err := ctx.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return newMission(sys, id, t, first) },
		actor.WithMailbox(box.Mailbox(missionMailbox))), "mission/"+strconv.FormatUint(a.spawned, 10))
	if err != nil {
		sys.live.Delete(id)
		sys.log.Error("the actor of a mission could not be spawned", slog.String("mission", id), slog.String("cause", err.Error()))
		if first != nil {
			first.settle(fmt.Errorf("spawn the actor of a mission: %w", err))
		}
		return
	}
	a.live[id], a.holds[id], a.names[pid.Id] = pid, h, id
}

// ended forgets an actor. What it held is free, so a pass follows.
func (a *assigner) ended(pid *actor.PID) {
	id, ok := a.names[pid.Id]
	if !ok {
		return
	}
	delete(a.names, pid.Id)
	delete(a.live, id)
	delete(a.holds, id)
	a.sys.live.Delete(id)
	if !a.passing && a.sys.hindered.Swap(false) {
		a.later(a.retry.NextBackOff())
		return
	}
	a.pass()
}

// ask has a mission's actor do something and waits for its end.
func (s *System) ask(ctx context.Context, a *ask) error {
	if !s.running.Load() {
		return stoppingRefusal()
	}
	reply := make(chan error, 1)
	a.reply = reply
	s.send(s.assigner, a)
	select {
	case err := <-reply:
		if errors.Is(err, errStopping) || errors.Is(err, errAgain) && s.ctx.Err() != nil {
			return stoppingRefusal()
		}
		return err
	case <-ctx.Done():
		return broker.Refuse(broker.CodeOutcomeUnknown, "The step was begun and its end was not waited for; look at the mission again.", map[string]any{"MissionId": a.mission})
	}
}

func stoppingRefusal() *broker.Refusal {
	return broker.Refuse(broker.CodeShuttingDown, "The broker is stopping.", nil)
}
