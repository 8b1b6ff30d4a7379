package missions

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker/dispatch"
)

func TestAHundredWakesAndVerbsTakeNoCaptainTwice(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for v := range 4 {
			id := fmt.Sprint("v", v)
			w.vessel(id, func(vessel *dispatch.Vessel) { vessel.Concurrent = v == 3 })
			w.voyage("vyg"+id, id, strings.Join([]string{"a" + id, "b" + id, "c" + id, "d" + id, "e" + id}, " "))
		}
		w.captains("c1", "c2", "c3", "c4", "c5")
		w.run()
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				switch n % 4 {
				case 0:
					_, _ = w.sys.CancelMission(context.Background(), operator, fmt.Sprint("a", "v", n/4%4))
				case 1:
					_ = w.sys.StopCaptain(context.Background(), operator, fmt.Sprint("c", 1+n/4%5))
				default:
					w.sys.Wake()
				}
			})
		}
		all.Wait()
		synctest.Wait()
		for w.agents.live() > 0 {
			w.agents.mu.Lock()
			started := append([]*agent(nil), w.agents.all...)
			w.agents.mu.Unlock()
			for _, a := range started {
				a.exits(0)
			}
			elapse(time.Second)
			synctest.Wait()
		}
		for v := range 4 {
			if v := get[dispatch.Voyage](w, fmt.Sprint("vygv", v)); !v.Status.Over() {
				t.Errorf("the voyage %s is %s", v.ID, v.Status)
			}
		}
		w.free()
	}) // what was taken twice is found by the rig, at every step
}

func TestAPendingMissionSaysWhatItWaitsFor(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.vessel("both", concurrent)
		w.vessel("other")
		w.captains("c1", "c2", "c3")
		put(w, func() dispatch.Captain {
			c := get[dispatch.Captain](w, "c3")
			c.State, c.TenantID = dispatch.CaptainIdle, "elsewhere"
			return c
		}())
		w.voyage("vyg", "v", "a b c<a", func(m *dispatch.Mission) { m.Priority = 1 })
		w.voyage("vyg2", "both", "d", func(m *dispatch.Mission) { m.Priority = 2 })
		w.voyage("vyg3", "both", "e", func(m *dispatch.Mission) { m.Priority = 3; m.Persona = "Judge" })
		w.voyage("vyg4", "other", "f", func(m *dispatch.Mission) { m.Priority = 4 })
		put(w, dispatch.Voyage{ID: "half", Owner: acme, VesselID: "both", Status: dispatch.VoyageOpen})
		half := "half"
		w.missions(&half, "both", "g")
		w.run()
		waits := func(want map[string]dispatch.Assignment) {
			t.Helper()
			synctest.Wait()
			for id, why := range want {
				if m := get[dispatch.Mission](w, id); m.Assignment != why {
					t.Errorf("%s is %s and waits for %s, want %s", id, m.Status, m.Assignment, why)
				}
			}
		}
		w.wants("a:InProgress d:InProgress")
		waits(map[string]dispatch.Assignment{"b": dispatch.WaitingForVessel, "c": dispatch.WaitingForMission, "e": dispatch.WaitingForCaptain, "f": dispatch.WaitingForCaptain, "g": dispatch.AssignmentPending})
		w.agent("d").exits(0)
		w.wants("d:Complete e:InProgress f:Pending")
		if _, err := w.sys.CancelMission(context.Background(), operator, "f"); err != nil { // or it takes a captain while a worktree of v is removed
			t.Fatal(err)
		}
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:InProgress")
		waits(map[string]dispatch.Assignment{"c": dispatch.WaitingForVessel})
		w.agent("b").exits(0)
		w.wants("b:Complete c:InProgress")
		if g := get[dispatch.Mission](w, "g"); g.Status != dispatch.MissionCancelled {
			t.Errorf("the mission of half a voyage is %s", g.Status)
		}
	})
}

func TestAVoyageThatIsNotAllThereIsLeftAlone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.run()
		put(w, dispatch.Voyage{ID: "half", Owner: acme, VesselID: "v", Status: dispatch.VoyageOpen})
		half := "half"
		w.missions(&half, "v", "a b<a")
		for range 5 {
			w.sys.Wake()
			elapse(passEvery)
		}
		w.wants("a:Pending b:Pending")
		v := get[dispatch.Voyage](w, "half")
		v.Materialized = true
		put(w, v)
		w.sys.Wake()
		w.wants("a:InProgress b:Pending")
	})
}

func TestNoMoreAgentsRunThanMay(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent)
		w.captains("c1", "c2", "c3", "c4", "c5")
		w.voyage("vyg", "v", "a b c d")
		w.run()
		w.wants("a:InProgress b:InProgress c:Pending d:Pending")
		if m := get[dispatch.Mission](w, "c"); m.Assignment != dispatch.WaitingForResources {
			t.Errorf("c waits for %s", m.Assignment)
		}
		w.agent("b").exits(0)
		w.wants("a:InProgress b:Complete c:InProgress d:Pending")
	}, func(o *Options) { o.MaxAgents = 2 })
}

func TestABenchThatIsOverEnds(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c", "d")
		soon := time.Now().Add(time.Hour)
		for id, until := range map[string]*time.Time{"c": &soon, "d": nil} {
			c, err := get[dispatch.Captain](w, id).Step(dispatch.CaptainBenched)
			if err != nil {
				t.Fatal(err)
			}
			c.BenchUntil = until
			put(w, c)
		}
		w.voyage("vyg", "v", "m")
		w.run()
		elapse(59 * time.Minute)
		w.wants("m:Pending")
		elapse(2 * time.Minute)
		w.wants("m:InProgress")
		if c := get[dispatch.Captain](w, "d"); c.State != dispatch.CaptainBenched {
			t.Errorf("a bench without an end is %s", c.State)
		}
		if n := w.store.count("captain.unbenched"); n != 1 {
			t.Errorf("%d events", n)
		}
		w.agent("m").exits(0)
	})
}

func TestWhatCanNeverBeCarriedOutIsCalledOff(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		gone := "purged"
		w.voyage("vyg", "v", "a", func(m *dispatch.Mission) { m.DependsOn = &gone })
		w.voyage("vyg2", "nowhere", "b c<b")
		w.voyage("vyg3", "v", "d")
		v := get[dispatch.Voyage](w, "vyg3")
		v.Status = dispatch.VoyageCancelled
		put(w, v)
		w.run()
		w.wants("a:Cancelled(dependency_failed) b:Cancelled(provision_failed) c:Cancelled(dependency_failed) d:Cancelled(cancelled)")
		w.wantVoyage("vyg", dispatch.VoyageCancelled)
		w.wantVoyage("vyg2", dispatch.VoyageCancelled)
		if m := get[dispatch.Mission](w, "a"); !strings.Contains(*m.FailureMessage, "does not exist") {
			t.Errorf("it says %q", *m.FailureMessage)
		}
	})
}

func TestMissionsAreTakenByPriorityAndThenByAge(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "late old urgent")
		for id, p := range map[string]int{"late": 200, "urgent": 1} {
			m := get[dispatch.Mission](w, id)
			m.Priority = p
			put(w, m)
		}
		w.run()
		for _, id := range []string{"urgent", "old", "late"} {
			w.wants(id + ":InProgress")
			w.agent(id).exits(0)
		}
		w.wantVoyage("vyg", dispatch.VoyageInProgress)
		w.wants("late:Complete")
		w.wantVoyage("vyg", dispatch.VoyageComplete)
	})
}
