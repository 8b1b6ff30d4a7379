package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"berth/broker"
)

// WakeLimit is how long a process that a wake started may run.
const WakeLimit = 600 * time.Second

// wakeNote is how long the record of a run's begin or end may take.
const wakeNote = 30 * time.Second

// WakeBook says what a wake starts and keeps what became of it.
type WakeBook interface {
	// NextRun gives what is to be started now; false: nothing is unread any more.
	NextRun() (run broker.WakeRun, ok bool, err error)
	RunStarted(ctx context.Context, run broker.WakeRun, at time.Time) error
	RunEnded(ctx context.Context, run broker.WakeRun, started, at time.Time, failed bool, reason string) error
}

// WakeLaunch runs a process to its end and returns when nothing of it is left. The
// end of ctx kills it with everything that it started. The error says in words
// that go on after its name how it ended, if not well.
type WakeLaunch func(ctx context.Context, run broker.WakeRun) error

// AgentWake starts the process target of wakes, one at a time. Wakes that come
// while it runs are one more run after it, whose task is what is unread then; so
// its queue is one place, and nothing is lost with it: every wake was stored
// before it came here.
type AgentWake struct {
	book   WakeBook
	launch WakeLaunch
	now    func() time.Time
	log    *slog.Logger

	due     chan struct{} // capacity 1
	ctx     context.Context
	end     context.CancelFunc
	stopped sync.WaitGroup
}

// StartAgentWake starts its goroutine, which Stop ends.
func StartAgentWake(book WakeBook, launch WakeLaunch, now func() time.Time, log *slog.Logger) *AgentWake {
	a := &AgentWake{book: book, launch: launch, now: now, log: log, due: make(chan struct{}, 1)}
	a.ctx, a.end = context.WithCancel(context.Background())
	a.stopped.Go(a.loop)
	return a
}

// Due says that a wake was stored for the target. It does not block.
func (a *AgentWake) Due() {
	select {
	case a.due <- struct{}{}:
	default: // one waits already, and its task will hold this wake
	}
}

// Stop kills what runs and waits until it is gone. It may be called again.
func (a *AgentWake) Stop() {
	a.end()
	a.stopped.Wait()
}

func (a *AgentWake) loop() {
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.due:
			if err := a.run(); err != nil {
				a.log.Warn("a wake could not start its process or its run could not be noted; the wake is stored", slog.String("cause", err.Error()))
			}
		}
	}
}

// run is one run, from what is unread to the record of its end.
func (a *AgentWake) run() error {
	next, ok, err := a.book.NextRun()
	if err != nil || !ok {
		return err
	}
	started := a.now()
	if err := a.noted(func(ctx context.Context) error { return a.book.RunStarted(ctx, next, started) }); err != nil { // what nobody could find afterwards is not started
		return fmt.Errorf("note a run: %w", err)
	}
	ctx, cancel := context.WithTimeout(a.ctx, WakeLimit)
	defer cancel()
	failed, reason := true, ""
	switch err := a.launched(ctx, next); {
	case err == nil:
		failed, reason = false, "has ended"
	case a.ctx.Err() != nil:
		reason = "was ended by the stop of the broker"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = "ran for " + WakeLimit.String() + " and was killed with all that it had started"
	default:
		reason = err.Error()
	}
	return a.noted(func(ctx context.Context) error { return a.book.RunEnded(ctx, next, started, a.now(), failed, reason) })
}

// launched keeps a panic from ending the owner of all runs.
func (a *AgentWake) launched(ctx context.Context, run broker.WakeRun) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("panic while a wake's process ran", slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
			err = errors.New("failed in the broker; its log has the cause")
		}
	}()
	return a.launch(ctx, run)
}

// noted writes to the book also when the broker stops.
func (a *AgentWake) noted(write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), wakeNote)
	defer cancel()
	return write(ctx)
}
