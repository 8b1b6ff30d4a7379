package missions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

func refused(err error, code broker.Code) bool {
	var r *broker.Refusal
	return errors.As(err, &r) && r.Code == code
}

// isCode has the code of err.
func isCode(err error) broker.Code {
	var r *broker.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

func TestACancelKillsBeforeTheRecordChanges(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m n<m")
		w.run()
		a := w.agent("m")
		w.store.fault = func(changes []broker.RecordChange) (error, error) {
			for _, c := range changes {
				if c.Kind != dispatch.KindMission || c.Value == nil {
					continue
				}
				if m := value[dispatch.Mission](broker.Record{Value: c.Value}); m.ID == "m" && m.Status == dispatch.MissionCancelled && !a.killed {
					t.Error("the record changed while the agent was there")
				}
			}
			return nil, nil
		}
		m, err := w.sys.CancelMission(context.Background(), operator, "m")
		if err != nil || m.Status != dispatch.MissionCancelled || *m.FailureReason != dispatch.Cancelled || !strings.Contains(*m.FailureMessage, "default/operator") {
			t.Errorf("%+v, %v", m, err)
		}
		w.wants("m:Cancelled(cancelled) n:Cancelled(dependency_failed)")
		w.wantVoyage("vyg", dispatch.VoyageCancelled)
		w.free()
		if len(w.docks.collected) != 1 {
			t.Errorf("collected %v", w.docks.collected)
		}
		again, err := w.sys.CancelMission(context.Background(), operator, "m")
		if err != nil || again.Status != dispatch.MissionCancelled || !again.LastUpdateUTC.Equal(m.LastUpdateUTC) {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

func TestACancelIsHeardAtEveryStep(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, set := range map[string]func(*world){
		"before it is assigned": func(w *world) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.fault = func(changes []broker.RecordChange) (error, error) {
				for _, c := range changes {
					if c.Kind == dispatch.KindDock {
						return errors.New("the disk is full"), nil
					}
				}
				return nil, nil
			}
		},
		"while its worktree is made": func(w *world) {
			w.docks.prepare = func(ctx context.Context, _ Work) (Prepared, error) { return Prepared{}, hang(ctx) }
		},
		"while it is launched": func(w *world) { w.agents.start = func(ctx context.Context, _ Work) error { return hang(ctx) } },
		"while it runs":        func(*world) {},
		"while its launch cannot be written": func(w *world) {
			w.store.fault = func(changes []broker.RecordChange) (error, error) {
				for _, c := range changes {
					if c.Kind == dispatch.KindMission && value[dispatch.Mission](broker.Record{Value: c.Value}).Status == dispatch.MissionInProgress {
						return errors.New("the disk is full"), nil
					}
				}
				return nil, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v")
				w.captains("c")
				w.voyage("vyg", "v", "m")
				set(w)
				w.run()
				elapse(10 * time.Second)
				m, err := w.sys.CancelMission(context.Background(), operator, "m")
				if err != nil || m.Status != dispatch.MissionCancelled {
					t.Errorf("%s, %v", m.Status, err)
				}
				w.wantVoyage("vyg", dispatch.VoyageCancelled)
				w.free()
				if n := w.agents.live(); n > 0 {
					t.Errorf("%d agents run", n)
				}
			})
		})
	}
}

// TestACancelBetweenAssignmentAndLaunchIsNotLost sends the cancel from within
// the step that assigns.
func TestACancelBetweenAssignmentAndLaunchIsNotLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.run()
		var once sync.Once
		var cancels sync.WaitGroup
		w.store.fault = func(changes []broker.RecordChange) (error, error) {
			for _, c := range changes {
				if c.Kind == dispatch.KindDock {
					once.Do(func() {
						cancels.Go(func() {
							if m, err := w.sys.CancelMission(context.Background(), operator, "m"); err != nil || m.Status != dispatch.MissionCancelled {
								t.Errorf("%s, %v", m.Status, err)
							}
						})
					})
				}
			}
			return nil, nil
		}
		w.voyage("vyg", "v", "m")
		w.sys.Wake()
		synctest.Wait()
		cancels.Wait()
		w.wants("m:Cancelled(cancelled)")
		w.free()
	})
}

func TestAStepThatMeetsAnothersIsMadeAnew(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.voyage("vyg", "v", "m")
		w.run()
		meets := 0
		w.store.fault = func([]broker.RecordChange) (error, error) {
			if meets++; meets < 5 {
				return fmt.Errorf("%w: somebody was faster", broker.ErrRecordRevision), nil
			}
			return nil, nil
		}
		if m, err := w.sys.CancelMission(context.Background(), operator, "m"); err != nil || m.Status != dispatch.MissionCancelled {
			t.Errorf("%s, %v", m.Status, err)
		}
	})
}

func TestACancelAndTheEndHaveOneWinner(t *testing.T) {
	won := map[string]int{}
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.atWork()
			var both sync.WaitGroup
			var err error
			if i%2 == 0 {
				both.Go(func() { a.exits(0) })
			}
			both.Go(func() { _, err = w.sys.CancelMission(context.Background(), operator, "m") })
			both.Go(func() { a.exits(0) })
			both.Wait()
			synctest.Wait()
			m := get[dispatch.Mission](w, "m")
			switch {
			case err == nil && m.Status == dispatch.MissionCancelled:
			case refused(err, broker.CodeMissionTerminal) && m.Status == dispatch.MissionComplete:
			default:
				t.Errorf("the cancel was answered %v, and the mission is %s", err, m.Status)
			}
			won[string(m.Status)]++
			w.free()
			w.stop()
			elapse(time.Second)
		})
	}
	t.Log(won)
}

func TestAMissionThatEndedOtherwiseIsNotCancelled(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		w.run()
		w.agent("a").exits(0)
		w.agent("b").exits(0)
		w.wants("a:Complete b:Complete")
		if m, err := w.sys.CancelMission(context.Background(), operator, "a"); !refused(err, broker.CodeMissionTerminal) || m.Status != dispatch.MissionComplete {
			t.Errorf("%s, %v", m.Status, err)
		}
		if _, err := w.sys.CancelMission(context.Background(), operator, "zz"); !refused(err, broker.CodeMissionNotFound) {
			t.Error(err)
		}
	})
}

func TestWorkThatWaitsForItsChainCanBeCancelled(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:InProgress")
		if _, err := w.sys.CancelMission(context.Background(), operator, "a"); err != nil {
			t.Error(err)
		}
		w.wants("a:Cancelled(cancelled) b:InProgress")
		w.agent("b").exits(0)
		w.wants("b:Complete")
	})
}

func TestALandingThatHasBegunIsNotCutShort(t *testing.T) {
	for name, tt := range map[string]struct {
		fails error
		want  broker.Code
		ends  string
	}{
		"and lands":    {nil, broker.CodeMissionTerminal, "m:Complete"},
		"and does not": {errors.New("no"), "", "m:Cancelled(cancelled)"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v", merges)
				w.captains("c")
				w.voyage("vyg", "v", "m")
				gate := make(chan struct{})
				w.docks.land = func(ctx context.Context, _ Work) (string, error) {
					select {
					case <-gate:
					case <-ctx.Done():
						t.Error("the landing was cut short")
					}
					return "", tt.fails
				}
				w.run()
				w.agent("m").exits(0)
				answer := make(chan error, 1)
				go func() { _, err := w.sys.CancelMission(context.Background(), operator, "m"); answer <- err }()
				synctest.Wait()
				close(gate)
				if err := <-answer; isCode(err) != tt.want {
					t.Errorf("%v, want %q", err, tt.want)
				}
				w.wants(tt.ends)
				w.free()
			})
		})
	}
}

func TestACancelThatIsNotWaitedForGoesOn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m")
		w.run()
		w.agent("m").hard = 5
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := w.sys.CancelMission(ctx, operator, "m"); !refused(err, broker.CodeOutcomeUnknown) {
			t.Error(err)
		}
		w.wants("m:InProgress")
		elapse(5 * time.Minute)
		w.wants("m:Cancelled(cancelled)")
		w.free()
	})
}

func TestACancelledVoyageKeepsWhatHasEnded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent)
		w.captains("c1", "c2", "c3")
		w.voyage("vyg", "v", "done failed chain last<chain running wait<running other")
		w.voyage("more", "v", "x<running")
		w.run()
		w.agent("done").exits(0)
		w.agent("failed").exits(1)
		w.agent("chain").exits(0)
		w.wants("done:Complete failed:Failed(exit_nonzero) chain:WorkProduced last:InProgress running:InProgress wait:Pending other:InProgress")
		running := w.agent("running")
		v, ended, err := w.sys.CancelVoyage(context.Background(), operator, "vyg", dispatch.Cancelled)
		if err != nil || v.Status != dispatch.VoyageCancelled || v.Reason == nil || *v.Reason != "cancelled" || v.CompletedUTC == nil {
			t.Errorf("%+v, %v", v, err)
		}
		if got := strings.Join(ended, " "); got != "chain last other running wait" {
			t.Errorf("cancelled %s", got)
		}
		w.wants("done:Complete failed:Failed(exit_nonzero) chain:Cancelled(chain_not_landed) last:Cancelled(cancelled) running:Cancelled(cancelled) other:Cancelled(cancelled)")
		if !running.killed || w.agents.live() > 0 {
			t.Error("an agent goes on")
		}
		w.wants("x:Cancelled(dependency_failed)")
		w.wantVoyage("more", dispatch.VoyageCancelled)
		w.free()
		again, none, err := w.sys.CancelVoyage(context.Background(), operator, "vyg", dispatch.Cancelled)
		if err != nil || len(none) > 0 || !again.LastUpdateUTC.Equal(v.LastUpdateUTC) {
			t.Errorf("again: %+v, %v, %v", again, none, err)
		}
		if _, _, err := w.sys.CancelVoyage(context.Background(), operator, "zz", dispatch.Cancelled); !refused(err, broker.CodeVoyageNotFound) {
			t.Error(err)
		}
		if n := w.store.count("voyage.cancelled"); n != 2 {
			t.Errorf("%d events", n)
		}
	})
}

func TestAVoyageThatIsOnlyHalfThereCanBeCancelled(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.run()
		put(w, dispatch.Voyage{ID: "half", Owner: acme, VesselID: "v", Status: dispatch.VoyageOpen})
		half := "half"
		w.missions(&half, "v", "a b<a")
		v, ended, err := w.sys.CancelVoyage(context.Background(), operator, "half", dispatch.DispatchLost)
		if err != nil || v.Status != dispatch.VoyageCancelled || len(ended) != 2 {
			t.Errorf("%+v, %v, %v", v, ended, err)
		}
		if got := w.states("a"); got != "a:Cancelled(dispatch_lost)" {
			t.Error(got)
		}
		if len(w.agents.all) > 0 {
			t.Error("something was launched")
		}
	})
}

func TestACancelledVoyageWaitsForALandingThatHasBegun(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a b")
		gate := make(chan struct{})
		w.docks.land = func(context.Context, Work) (string, error) { <-gate; return "", nil }
		w.run()
		w.agent("a").exits(0)
		answer := make(chan string, 1)
		go func() {
			v, ended, err := w.sys.CancelVoyage(context.Background(), operator, "vyg", dispatch.Cancelled)
			answer <- fmt.Sprint(v.Status, ended, err)
		}()
		synctest.Wait()
		close(gate)
		if got := <-answer; got != "Cancelled[b] <nil>" {
			t.Error(got)
		}
		w.wants("a:Complete b:Cancelled(cancelled)")
		w.free()
	})
}

func TestStoppingACaptainCancelsItsMission(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent)
		w.captains("c1", "c2", "c3")
		w.voyage("vyg", "v", "a b")
		w.run()
		for range 2 {
			if err := w.sys.StopCaptain(context.Background(), operator, "c1"); err != nil {
				t.Error(err)
			}
			w.wants("a:Cancelled(cancelled) b:InProgress")
		}
		if err := w.sys.StopCaptain(context.Background(), operator, "zz"); !refused(err, broker.CodeCaptainNotFound) {
			t.Error(err)
		}
		if n, failed := w.sys.StopAll(context.Background(), operator); n != 1 || len(failed) > 0 {
			t.Errorf("%d, %v", n, failed)
		}
		w.wants("b:Cancelled(cancelled)")
		w.free()
		if n, failed := w.sys.StopAll(context.Background(), operator); n != 0 || len(failed) > 0 {
			t.Errorf("again: %d, %v", n, failed)
		}
	})
}

func TestADockInUseIsNotTouched(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m")
		w.run()
		w.agent("m")
		id := *get[dispatch.Mission](w, "m").DockID
		if err := w.sys.Reclaim(context.Background(), operator, id); !refused(err, broker.CodeDockInUse) {
			t.Error(err)
		}
		if _, err := w.sys.Repair(context.Background(), operator, id); !refused(err, broker.CodeDockInUse) {
			t.Error(err)
		}
		w.agent("m").exits(0)
		w.wants("m:Complete")
		if d, err := w.sys.Repair(context.Background(), operator, id); err != nil || d.State != dispatch.DockAvailable || w.docks.standing["/docks/repo-v/m"] != "berth/m" {
			t.Errorf("%+v, %v", d, err)
		}
		if last := w.docks.prepared[len(w.docks.prepared)-1]; *last.Mission.StartFromRef != "berth/m" {
			t.Errorf("it was made anew from %s", *last.Mission.StartFromRef)
		}
		w.docks.prepare = func(context.Context, Work) (Prepared, error) {
			return Prepared{}, &dispatch.Fault{Reason: dispatch.StartFromRefMissing}
		}
		var fault *dispatch.Fault
		if _, err := w.sys.Repair(context.Background(), operator, id); !errors.As(err, &fault) {
			t.Error(err)
		}
		for range 20 { // one after the other, it is nobody's
			if err := w.sys.Reclaim(context.Background(), operator, id); err != nil || len(w.docks.standing) > 0 || w.sys.Running("m") {
				t.Errorf("%v, %v", err, w.docks.standing)
			}
		}
		if err := w.sys.Reclaim(context.Background(), operator, "zz"); !refused(err, broker.CodeDockNotFound) {
			t.Error(err)
		}
	})
}

func TestASystemThatDoesNotRunRefuses(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.voyage("vyg", "v", "m")
		sys, err := New(w.opts)
		if err != nil {
			t.Fatal(err)
		}
		sys.Wake()
		if _, err := sys.CancelMission(context.Background(), operator, "m"); !refused(err, broker.CodeShuttingDown) {
			t.Error(err)
		}
		if err := sys.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		w.run()
		w.stop()
		if _, err := w.sys.CancelMission(context.Background(), operator, "m"); !refused(err, broker.CodeShuttingDown) {
			t.Error(err)
		}
	})
}
