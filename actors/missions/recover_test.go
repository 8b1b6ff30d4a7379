package missions

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// leftBy writes a mission as a broker that was killed left it.
func (w *world) leftBy(id string, status dispatch.MissionStatus, landing bool, captain dispatch.CaptainState, dock dispatch.DockState) {
	m := get[dispatch.Mission](w, id)
	dockID, captainID, branch, pid := "dck-"+id, "c-"+id, "berth/"+id, 4711
	m.Status, m.Landing, m.CaptainID, m.DockID, m.Branch, m.ProcessID = status, landing, &captainID, &dockID, &branch, &pid
	put(w, m)
	c := dispatch.Captain{ID: captainID, Owner: acme, Name: captainID, Runtime: dispatch.ClaudeCode, State: captain}
	if captain.Busy() {
		c.MissionID, c.DockID, c.ProcessID = &id, &dockID, &pid
	}
	put(w, c)
	put(w, dispatch.Dock{ID: dockID, Owner: acme, VesselID: m.VesselID, MissionID: &id, CaptainID: &captainID, Path: "/docks/repo-v/" + id, Branch: branch, State: dock})
	w.store.wrong = nil // these are no steps
}

// TestWhatAStartMakesOfWhatItFinds is the table of restarts: what stood in the
// journal, and what becomes of it before anything runs.
func TestWhatAStartMakesOfWhatItFinds(t *testing.T) {
	const leased, working = dispatch.DockLeased, dispatch.CaptainWorking
	for _, tt := range []struct {
		name    string
		status  dispatch.MissionStatus
		landing bool
		captain dispatch.CaptainState
		dock    dispatch.DockState
		mission string
		after   dispatch.DockState // before the first pass
		voyage  dispatch.VoyageStatus
	}{
		{"assigned", dispatch.MissionAssigned, false, working, dispatch.DockProvisioning, "m:Failed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"assigned, its worktree made", dispatch.MissionAssigned, false, working, leased, "m:Failed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"running", dispatch.MissionInProgress, false, working, leased, "m:Failed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"stalled", dispatch.MissionInProgress, false, dispatch.CaptainStalled, leased, "m:Failed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"being stopped", dispatch.MissionInProgress, false, dispatch.CaptainStopping, leased, "m:Failed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"being landed", dispatch.MissionWorkProduced, true, working, leased, "m:LandingFailed(lost_on_restart)", dispatch.DockReclaiming, dispatch.VoyageFailed},
		{"not landed yet", dispatch.MissionWorkProduced, false, working, leased, "m:WorkProduced", dispatch.DockReclaiming, dispatch.VoyageInProgress},
		{"being cleared up after", dispatch.MissionFailed, false, dispatch.CaptainIdle, dispatch.DockReclaiming, "m:Failed", dispatch.DockReclaiming, dispatch.VoyageInProgress},
		{"ended, its captain forgotten", dispatch.MissionComplete, false, working, leased, "m:Complete", dispatch.DockReclaiming, dispatch.VoyageInProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v", merges)
				w.voyage("vyg", "v", "m")
				v := get[dispatch.Voyage](w, "vyg")
				v.Status = dispatch.VoyageInProgress
				put(w, v)
				w.leftBy("m", tt.status, tt.landing, tt.captain, tt.dock)
				sys, err := New(w.opts)
				if err != nil {
					t.Fatal(err)
				}
				var before []broker.Record
				for range 2 { // the second one finds nothing to do
					if err := sys.Recover(context.Background()); err != nil {
						t.Fatal(err)
					}
					if got := w.states("m"); got != tt.mission {
						t.Errorf("the mission is %s, want %s", got, tt.mission)
					}
					w.wantVoyage("vyg", tt.voyage)
					if d := get[dispatch.Dock](w, "dck-m"); d.State != tt.after {
						t.Errorf("the dock is %s, want %s", d.State, tt.after)
					}
					if c := get[dispatch.Captain](w, "c-m"); c.State != dispatch.CaptainIdle || c.MissionID != nil || c.ProcessID != nil {
						t.Errorf("the captain is %+v", c)
					}
					if before != nil && len(before) == len(w.store.snapshot()) {
						for i, r := range w.store.snapshot() {
							if r.Revision != before[i].Revision {
								t.Errorf("a second start changed %s %s", r.Kind, r.ID)
							}
						}
					}
					before = w.store.snapshot()
				}
				w.run()
				w.free()
				if len(w.agents.all) > 0 {
					t.Error("something ran again")
				}
				if tt.name == "not landed yet" {
					w.wants("m:Complete")
					w.wantVoyage("vyg", dispatch.VoyageComplete)
				}
			})
		})
	}
}

func TestAStartRemovesAWorktreeBeforeTheNextStageTakesItsBranch(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent)
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		w.leftBy("a", dispatch.MissionWorkProduced, false, dispatch.CaptainIdle, dispatch.DockReclaiming)
		gate := make(chan struct{})
		w.docks.reclaim = func(context.Context, dispatch.Dock) error { <-gate; return nil }
		w.run()
		w.wants("a:WorkProduced b:Pending")
		close(gate)
		w.wants("a:WorkProduced b:InProgress")
	})
}

func TestAStartCancelsADispatchThatWasInterrupted(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		for _, id := range []string{"empty", "half"} {
			put(w, dispatch.Voyage{ID: id, Owner: acme, VesselID: "v", Status: dispatch.VoyageOpen})
		}
		half := "half"
		w.missions(&half, "v", "a b<a")
		w.voyage("whole", "v", "c<a d")
		w.run()
		w.wants("a:Cancelled(dispatch_lost) b:Cancelled(dispatch_lost) c:Cancelled(dependency_failed) d:InProgress")
		for _, id := range []string{"empty", "half"} {
			if v := get[dispatch.Voyage](w, id); v.Status != dispatch.VoyageCancelled || *v.Reason != "dispatch_lost" {
				t.Errorf("%s is %+v", id, v)
			}
		}
		if n := w.store.count("voyage.cancelled"); n != 2 {
			t.Errorf("%d events", n)
		}
	})
}

func TestAStopEndsAgentsAndTheNextStartSaysWhatBecameOfThem(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent, merges)
		w.captains("c1", "c2", "c3", "c4")
		w.voyage("vyg", "v", "runs lands prepares waits<runs")
		w.docks.prepare = func(ctx context.Context, k Work) (Prepared, error) {
			if k.Mission.ID == "prepares" {
				<-ctx.Done()
				return Prepared{}, ctx.Err()
			}
			return Prepared{}, nil
		}
		w.docks.land = func(ctx context.Context, _ Work) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		w.run()
		w.agent("lands").exits(0)
		w.wants("runs:InProgress lands:WorkProduced prepares:Assigned waits:Pending")
		runs := w.agent("runs")
		w.stop()
		if !runs.killed || w.sys.Running("runs") {
			t.Error("the agent outlives the broker")
		}
		if len(w.tokens.out) > 0 {
			t.Errorf("tokens are left: %v", w.tokens.out)
		}
		w.wants("runs:InProgress lands:WorkProduced prepares:Assigned waits:Pending")
		w.docks.prepare, w.docks.land = nil, nil
		w.run()
		w.wants("runs:Failed(lost_on_restart) lands:LandingFailed(lost_on_restart) prepares:Failed(lost_on_restart) waits:Cancelled(dependency_failed)")
		w.wantVoyage("vyg", dispatch.VoyageFailed)
		w.free()
		if len(w.agents.all) != 2 {
			t.Errorf("%d agents were launched", len(w.agents.all))
		}
	})
}

func TestAStopDoesNotWaitForWhatCannotBeEnded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		a.hard = 1 << 30
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.sys.Stop(ctx); err == nil {
			t.Error("it says that all agents are gone")
		}
		synctest.Wait()
		a.hard = 0
		a.exits(0)
		w.sys = nil
	})
}
