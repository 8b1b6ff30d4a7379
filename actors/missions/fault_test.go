package missions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

var errDisk = errors.New("the disk is full")

// play goes through a voyage of two missions that are landed, telling each agent
// to end.
func (w *world) play(t *testing.T) {
	t.Helper()
	for range 200 {
		synctest.Wait()
		w.agents.mu.Lock()
		all := append([]*agent(nil), w.agents.all...)
		w.agents.mu.Unlock()
		for _, a := range all {
			if m := get[dispatch.Mission](w, a.w.Mission.ID); m.Status == dispatch.MissionInProgress {
				a.exits(0)
			}
		}
		if get[dispatch.Voyage](w, "vyg").Status.Over() {
			break
		}
		elapse(30 * time.Second)
	}
	elapse(time.Minute) // the voyage may be over before its last dock is
	synctest.Wait()
}

// TestAJournalThatFailsAtAnyStepDelaysAndLosesNothing fails each write of a
// voyage in turn, a few times, before it is made or after it was.
func TestAJournalThatFailsAtAnyStepDelaysAndLosesNothing(t *testing.T) {
	for name, fails := range map[string]func() (before, after error){
		"before": func() (error, error) { return errDisk, nil },
		"after":  func() (error, error) { return nil, errDisk },
	} {
		t.Run(name, func(t *testing.T) {
			writes := 1
			for at := 0; at < writes; at++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.vessel("v", merges)
					w.captains("c")
					w.voyage("vyg", "v", "a b<a")
					n, failed := 0, 0
					w.store.fault = func([]broker.RecordChange) (error, error) {
						n++
						if n > at && failed < 3 {
							failed++
							return fails()
						}
						return nil, nil
					}
					w.run()
					w.play(t)
					if got := w.states("a", "b"); got != "a:Complete b:Complete" {
						t.Errorf("failing from write %d on: %s", at, got)
					}
					w.free()
					w.stop()
					writes = max(writes, n-failed)
					elapse(time.Second)
				})
			}
			if writes < 10 {
				t.Errorf("only %d writes were made to fail", writes)
			}
		})
	}
}

// TestAWriteThatIsThoughtToHaveFailedIsFound has the journal fail after the
// step and be unreadable for a while, so that nobody can tell.
func TestAWriteThatIsThoughtToHaveFailedIsFound(t *testing.T) {
	writes := 1
	for at := 0; at < writes; at++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.vessel("v", merges)
			w.captains("c")
			w.voyage("vyg", "v", "a b<a")
			n := 0
			w.store.fault = func([]broker.RecordChange) (error, error) {
				if n++; n == at+1 {
					w.store.reads = errDisk
					go func() {
						elapse(5 * time.Second)
						w.store.mu.Lock()
						w.store.reads = nil
						w.store.mu.Unlock()
					}()
					return nil, errDisk
				}
				return nil, nil
			}
			sys, err := New(w.opts)
			if err == nil {
				err = sys.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			w.sys = sys
			elapse(10 * time.Second)
			w.play(t)
			if v := get[dispatch.Voyage](w, "vyg"); !v.Status.Over() {
				t.Errorf("in doubt at write %d: the voyage is %s, with %s", at, v.Status, w.states("a", "b"))
			}
			w.free()
			w.stop()
			writes = max(writes, n)
			elapse(10 * time.Second) // the write in doubt may be the last one, whose journal is read again 5 s after it
		})
	}
	if writes < 8 {
		t.Errorf("only %d writes were in doubt", writes)
	}
}

func TestPassesThatFailAreMadeLessOften(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m")
		tries := 0
		w.store.fault = func([]broker.RecordChange) (error, error) { tries++; return errDisk, nil }
		w.run()
		elapse(time.Hour)
		synctest.Wait()
		if tries < 20 || tries > 200 {
			t.Errorf("the journal was tried %d times in an hour", tries)
		}
		w.store.mu.Lock()
		w.store.fault = nil
		w.store.mu.Unlock()
		elapse(2 * time.Minute)
		w.wants("m:InProgress")
	})
}

func TestAnEndThatCannotBeWrittenIsNotTold(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		w.store.mu.Lock()
		w.store.fault = func([]broker.RecordChange) (error, error) { return errDisk, nil }
		w.store.mu.Unlock()
		a.exits(0)
		elapse(10 * time.Minute)
		w.wants("m:InProgress")
		if len(w.board.told) > 0 || !w.sys.Running("m") {
			t.Errorf("told %v", w.board.told)
		}
		w.store.mu.Lock()
		w.store.fault = nil
		w.store.mu.Unlock()
		elapse(2 * time.Minute)
		w.wants("m:Complete")
		if len(w.board.told) != 1 {
			t.Errorf("told %v", w.board.told)
		}
		w.free()
	})
}

func TestAStartIsRefusedWhenTheJournalCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.store.reads = errDisk
	sys, err := New(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.Recover(context.Background()); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

func TestARecordThatCannotBeReadKeepsNoOtherBack(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "a b<broken")
		for _, kind := range []string{dispatch.KindMission, dispatch.KindVoyage, dispatch.KindCaptain, dispatch.KindDock} {
			keys := []string{dispatch.Open}
			for _, state := range []string{"Assigned", "InProgress", "WorkProduced", "Idle", "Working", "Benched", "Leased", "Provisioning", "Reclaiming"} {
				keys = append(keys, dispatch.InState(state))
			}
			w.store.records[[2]string{kind, "broken"}] = broker.Record{Kind: kind, ID: "broken", Revision: 1, Value: []byte(`{"Id":5}`), Keys: keys}
		}
		w.run()
		w.agent("a").exits(0)
		w.wants("a:Complete b:Pending")
		w.agents.mu.Lock()
		defer w.agents.mu.Unlock()
		if len(w.agents.all) != 1 {
			t.Errorf("%d agents were launched", len(w.agents.all))
		}
	})
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for i, change := range []func(*Options){
		func(o *Options) { o.Store = nil }, func(o *Options) { o.Docks = nil }, func(o *Options) { o.Random = nil }, func(o *Options) { o.DocksDir = "" }, func(o *Options) { o.Tokens = nil },
	} {
		if _, err := New(newWorld(t, change).opts); err == nil {
			t.Error(fmt.Sprint("case ", i, " was accepted"))
		}
	}
}
