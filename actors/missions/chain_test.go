package missions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/broker/dispatch"
)

// begun gives the branch and the start of each mission, in the order in which
// their worktrees were made.
func (w *world) begun() string {
	w.docks.mu.Lock()
	defer w.docks.mu.Unlock()
	var out []string
	for _, p := range w.docks.prepared {
		word := p.Mission.ID + "@" + p.Dock.Branch
		if p.Before != nil {
			word += "<" + *p.Before.Commit
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestAChainGoesOnOnOneBranchAndItsLastStageLands(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c1", "c2")
		w.voyage("vyg", "v", "a b<a c<b")
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:InProgress c:Pending")
		w.agent("b").exits(0)
		w.wants("a:WorkProduced b:WorkProduced c:InProgress")
		w.wantVoyage("vyg", dispatch.VoyageInProgress)
		w.agent("c").exits(0)
		w.wants("a:Complete b:Complete c:Complete")
		w.wantVoyage("vyg", dispatch.VoyageComplete)
		if got, want := w.begun(), "a@berth/a b@berth/a<c-a c@berth/a<c-b"; got != want {
			t.Errorf("they began as\n%s, want\n%s", got, want)
		}
		if len(w.docks.landed) != 1 || w.docks.landed[0] != "c" || len(w.docks.cleaned) != 1 {
			t.Errorf("landed %v, cleaned %v", w.docks.landed, w.docks.cleaned)
		}
		w.free()
	})
}

func TestOfSeveralDependantsEachHasABranchOfItsOwn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges, concurrent)
		w.captains("c1", "c2", "c3")
		w.voyage("vyg", "v", "a b<a c<a d<c")
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:InProgress c:InProgress d:Pending")
		w.agent("b").exits(0)
		w.wants("a:WorkProduced b:Complete c:InProgress")
		w.agent("c").exits(0)
		w.wants("a:WorkProduced c:WorkProduced d:InProgress")
		w.agent("d").exits(0)
		w.wants("a:Complete b:Complete c:Complete d:Complete")
		for _, want := range []string{"b@berth/b<c-a", "c@berth/c<c-a", "d@berth/c<c-c"} {
			if got := w.begun(); !strings.Contains(got, want) {
				t.Errorf("they began as %s, want %s", got, want)
			}
		}
		w.free()
	})
}

func TestTheWorktreeBeforeIsGoneBeforeTheNextStageBegins(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", concurrent)
		w.captains("c1")
		w.voyage("vyg", "v", "a b<a")
		w.voyage("more", "v", "c", func(m *dispatch.Mission) { m.Priority = 200 })
		gate := make(chan struct{})
		w.docks.reclaim = func(context.Context, dispatch.Dock) error { <-gate; return nil }
		w.run()
		w.agent("a").exits(0)
		elapse(time.Minute)
		w.wants("a:WorkProduced b:Pending c:InProgress")
		if m := get[dispatch.Mission](w, "b"); m.Assignment != dispatch.WaitingForMission {
			t.Errorf("b waits for %s", m.Assignment)
		}
		close(gate)
		w.agent("c").exits(0)
		w.wants("a:WorkProduced b:InProgress c:Complete")
		w.agent("b").exits(0)
	}) // two worktrees of one branch are found by the rig
}

func TestAChainThatBreaksIsNotLanded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a b<a c<b")
		w.run()
		w.agent("a").exits(0)
		w.agent("b").exits(1)
		w.wants("a:Cancelled(chain_not_landed) b:Failed(exit_nonzero) c:Cancelled(dependency_failed)")
		w.wantVoyage("vyg", dispatch.VoyageFailed)
		if len(w.docks.landed) > 0 {
			t.Errorf("landed %v", w.docks.landed)
		}
		w.free()
	})
}

func TestAMissionMayDependOnOneOfAnotherVoyage(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		want string
		a, b dispatch.VoyageStatus
	}{
		"which delivers": {0, "a:Complete x:Complete", dispatch.VoyageComplete, dispatch.VoyageComplete},
		"which fails":    {1, "a:Failed(exit_nonzero) x:Cancelled(dependency_failed)", dispatch.VoyageFailed, dispatch.VoyageCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v")
				w.captains("c")
				w.voyage("one", "v", "a")
				w.voyage("two", "v", "x<a")
				w.run()
				w.wants("a:InProgress x:Pending")
				w.agent("a").exits(tt.code)
				if tt.code == 0 {
					w.wants("a:WorkProduced x:InProgress")
					w.agent("x").exits(0)
				}
				w.wants(tt.want)
				w.wantVoyage("one", tt.a)
				w.wantVoyage("two", tt.b)
				w.free()
			})
		})
	}
}

func TestAReportThatStandsOnWorkThatIsNotLandedLandsIt(t *testing.T) {
	for name, tt := range map[string]struct{ missions, landed string }{
		"a report alone":               {"a:Audit", ""},
		"a report on work":             {"a b<a:Audit", "b"},
		"a report on a report":         {"a:Research b<a:Audit", ""},
		"work on a report":             {"a:Research b<a", "b"},
		"reports on work, in a row":    {"a b<a:Audit c<b:Research", "c"},
		"a report between two of work": {"a b<a:Audit c<b", "c"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v", merges)
				w.captains("c")
				w.voyage("vyg", "v", tt.missions)
				no := false
				w.docks.collect = func(_ context.Context, k Work) (Collected, error) {
					commit := "c-" + k.Mission.ID
					if k.Mission.Mode != dispatch.Implementation {
						return Collected{Commit: &commit, Produced: &no}, nil
					}
					return Collected{Commit: &commit}, nil
				}
				w.run()
				for _, word := range strings.Fields(tt.missions) {
					w.agent(word[:1]).exits(0)
				}
				for _, word := range strings.Fields(tt.missions) {
					w.wants(word[:1] + ":Complete")
				}
				w.wantVoyage("vyg", dispatch.VoyageComplete)
				if got := strings.Join(w.docks.landed, " "); got != tt.landed {
					t.Errorf("landed %q, want %q", got, tt.landed)
				}
				w.free()
			})
		})
	}
}

func TestALandingThatFailsCanBeTriedAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		var begun bool
		w.docks.land = func(_ context.Context, k Work) (string, error) {
			begun = get[dispatch.Mission](w, "b").Landing
			if k.Mission.Commit == nil || *k.Mission.Commit != "c-b" {
				t.Errorf("to be landed is %v", k.Mission.Commit)
			}
			return "", &dispatch.Fault{Reason: dispatch.MergeConflict, Message: "Both changed a.txt."}
		}
		w.run()
		w.agent("a").exits(0)
		w.agent("b").exits(0)
		w.wants("a:WorkProduced b:LandingFailed(merge_conflict)")
		w.wantVoyage("vyg", dispatch.VoyageInProgress) // its first stage can still be landed
		w.free()
		if !begun {
			t.Error("a landing was not written before it began")
		}
		if got, err := w.sys.RetryLanding(context.Background(), operator, "b"); err != nil || got.Status != dispatch.MissionLandingFailed || *got.FailureMessage != "Both changed a.txt." {
			t.Errorf("again: %s, %v", got.Status, err)
		}
		w.docks.land = nil
		if got, err := w.sys.RetryLanding(context.Background(), operator, "b"); err != nil || got.Status != dispatch.MissionComplete || got.Landing || got.FailureReason != nil {
			t.Errorf("then: %+v, %v", got, err)
		}
		w.wants("a:Complete b:Complete")
		w.wantVoyage("vyg", dispatch.VoyageComplete)
		if len(w.docks.cleaned) != 1 {
			t.Errorf("cleaned %v", w.docks.cleaned)
		}
		if _, err := w.sys.RetryLanding(context.Background(), operator, "b"); !refused(err, "mission_not_landing_failed") {
			t.Errorf("once more: %v", err)
		}
		if _, err := w.sys.RetryLanding(context.Background(), operator, "zz"); !refused(err, "mission_not_found") {
			t.Errorf("of nothing: %v", err)
		}
	})
}

func TestALandingLeadsAFailedVoyageOn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a")
		w.docks.land = func(context.Context, Work) (string, error) { return "", errors.New("no space at /secret") }
		w.run()
		w.agent("a").exits(0)
		w.wants("a:LandingFailed(landing_failed)")
		w.wantVoyage("vyg", dispatch.VoyageFailed)
		if m := get[dispatch.Mission](w, "a"); strings.Contains(*m.FailureMessage, "secret") {
			t.Errorf("it says %q", *m.FailureMessage)
		}
		if notes := strings.Join(w.agents.notes["a"], "\n"); !strings.Contains(notes, "no space at /secret") {
			t.Errorf("the log has %q", notes)
		}
		w.docks.land = nil
		if _, err := w.sys.RetryLanding(context.Background(), operator, "a"); err != nil {
			t.Fatal(err)
		}
		w.wantVoyage("vyg", dispatch.VoyageComplete)
	})
}

func TestALandingOnAVesselKeepsItsNextMissionWaiting(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c1", "c2")
		w.voyage("vyg", "v", "a b")
		gate := make(chan struct{})
		w.docks.land = func(context.Context, Work) (string, error) { <-gate; return "", nil }
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:Pending")
		elapse(time.Minute)
		w.wants("a:WorkProduced b:Pending")
		if m := get[dispatch.Mission](w, "b"); m.Assignment != dispatch.WaitingForVessel {
			t.Errorf("b waits for %s", m.Assignment)
		}
		close(gate)
		w.wants("a:Complete b:InProgress")
	})
}

func TestWhatIsBeingLandedIsNotCalledOffForAnothersSake(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.captains("c")
		w.voyage("vyg", "v", "a")
		gate := make(chan struct{})
		w.docks.land = func(context.Context, Work) (string, error) { <-gate; return "", nil }
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced")
		w.voyage("late", "nowhere", "b<a")
		w.sys.Wake()
		w.wants("a:WorkProduced b:Cancelled(provision_failed)")
		elapse(2 * passEvery)
		w.wants("a:WorkProduced")
		close(gate)
		w.wants("a:Complete")
	})
}

func TestWhatIsLeftOfAWorktreeDoesNotKeepTheBranch(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		tries := 0
		w.docks.reclaim = func(context.Context, dispatch.Dock) error {
			if tries++; tries == 1 {
				return errors.New("busy")
			}
			return nil
		}
		w.run()
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:InProgress")
		w.agent("b").exits(0)
	}) // two worktrees of one branch are found by the rig
}

func TestWorkIsLandedWhenWhatWasToBuildOnItWasCalledOffBefore(t *testing.T) {
	for name, change := range map[string]func(*dispatch.Vessel){"merged": merges, "kept": func(*dispatch.Vessel) {}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v", change)
				w.captains("c")
				w.voyage("vyg", "v", "a b<a")
				w.run()
				if _, err := w.sys.CancelMission(context.Background(), operator, "b"); err != nil {
					t.Fatal(err)
				}
				w.agent("a").exits(0)
				w.wants("a:Complete b:Cancelled(cancelled)")
				w.wantVoyage("vyg", dispatch.VoyageComplete)
			})
		})
	}
}

func TestWhatNothingBuildsOnAnyMoreIsLanded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v", merges)
		w.vessel("full")
		w.captains("c")
		w.voyage("vyg", "v", "a b<a")
		w.run()
		m := get[dispatch.Mission](w, "b")
		m.Persona = "Nobody"
		for _, id := range []string{"c"} {
			c := get[dispatch.Captain](w, id)
			c.AllowedPersonas = []string{"Worker"}
			put(w, c)
		}
		put(w, m)
		w.agent("a").exits(0)
		w.wants("a:WorkProduced b:Pending")
		m = get[dispatch.Mission](w, "b")
		m.DependsOn = nil
		put(w, m)
		w.sys.Wake()
		w.wants("a:Complete b:Pending")
		if len(w.docks.landed) != 1 {
			t.Errorf("landed %v", w.docks.landed)
		}
	})
}
