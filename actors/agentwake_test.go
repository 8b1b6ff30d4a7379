package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// wakeBook has so many tasks and notes what happens to them.
type wakeBook struct {
	mu    sync.Mutex
	tasks int
	notes []string
	fail  error // of the note of a begin
}

func (b *wakeBook) NextRun() (broker.WakeRun, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == 0 {
		return broker.WakeRun{}, false, nil
	}
	b.tasks--
	return broker.WakeRun{ID: fmt.Sprint(b.tasks)}, true, nil
}

func (b *wakeBook) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *wakeBook) RunStarted(ctx context.Context, run broker.WakeRun, _ time.Time) error {
	if b.fail != nil {
		return b.fail
	}
	b.note("started %s", run.ID)
	return ctx.Err()
}

func (b *wakeBook) RunEnded(ctx context.Context, run broker.WakeRun, started, at time.Time, failed bool, reason string) error {
	b.note("%s failed=%v after %v: %s", run.ID, failed, at.Sub(started), reason)
	return ctx.Err()
}

func (b *wakeBook) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.notes, "\n")
}

func wakeTest(t *testing.T, book *wakeBook, launch WakeLaunch, run func(t *testing.T, a *AgentWake)) {
	synctest.Test(t, func(t *testing.T) {
		a := StartAgentWake(book, launch, time.Now, slog.New(slog.DiscardHandler))
		defer a.Stop()
		run(t, a)
	})
}

func TestWakesStartOneProcessAtATime(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	book := &wakeBook{tasks: 5}
	wakeTest(t, book, func(ctx context.Context, _ broker.WakeRun) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		return nil
	}, func(t *testing.T, a *AgentWake) {
		a.Due()
		synctest.Wait()
		for range 100 { // while one runs: one more run, however many
			a.Due()
		}
		elapse(10 * time.Minute)
		synctest.Wait()
		if got, want := book.said(), "started 4\n4 failed=false after 1m0s: has ended\nstarted 3\n3 failed=false after 1m0s: has ended"; got != want || most != 1 {
			t.Errorf("%d at once:\n%s", most, got)
		}
	})
}

func TestAProcessThatRunsTooLongIsKilledAndTheNextStarts(t *testing.T) {
	book := &wakeBook{tasks: 2}
	wakeTest(t, book, func(ctx context.Context, run broker.WakeRun) error {
		if run.ID == "1" {
			<-ctx.Done()
		}
		return ctx.Err()
	}, func(t *testing.T, a *AgentWake) {
		a.Due()
		synctest.Wait()
		a.Due()
		elapse(WakeLimit + time.Second)
		synctest.Wait()
		if got, want := book.said(), "started 1\n1 failed=true after 10m0s: ran for 10m0s and was killed with all that it had started\nstarted 0\n0 failed=false after 0s: has ended"; got != want {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestAProcessThatFailsIsNotedAndNothingElse(t *testing.T) {
	book := &wakeBook{tasks: 3}
	wakeTest(t, book, func(_ context.Context, run broker.WakeRun) error {
		if run.ID == "1" {
			panic("of a launch")
		}
		return errors.New("exited with code 3")
	}, func(t *testing.T, a *AgentWake) {
		for range 4 {
			a.Due()
			synctest.Wait()
		}
		if got, want := book.said(), "started 2\n2 failed=true after 0s: exited with code 3\nstarted 1\n1 failed=true after 0s: failed in the broker; its log has the cause\nstarted 0\n0 failed=true after 0s: exited with code 3"; got != want {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestNothingIsStartedThatCannotBeNoted(t *testing.T) {
	book := &wakeBook{tasks: 1, fail: errors.New("the journal is gone")}
	wakeTest(t, book, func(context.Context, broker.WakeRun) error {
		t.Error("it was started")
		return nil
	}, func(t *testing.T, a *AgentWake) {
		a.Due()
		synctest.Wait()
		if got := book.said(); got != "" {
			t.Errorf("got %s", got)
		}
	})
}

func TestStoppingEndsWhatRunsAndSaysSo(t *testing.T) {
	book := &wakeBook{tasks: 1}
	wakeTest(t, book, func(ctx context.Context, _ broker.WakeRun) error {
		<-ctx.Done()
		return ctx.Err()
	}, func(t *testing.T, a *AgentWake) {
		a.Due()
		synctest.Wait()
		a.Stop()
		a.Stop()
		a.Due()
		if got, want := book.said(), "started 0\n0 failed=true after 0s: was ended by the stop of the broker"; got != want {
			t.Errorf("got\n%s", got)
		}
	})
}
