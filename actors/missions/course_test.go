package missions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

func TestAMissionGoesFromAssignedToComplete(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m")
		w.run()
		m, c := get[dispatch.Mission](w, "m"), get[dispatch.Captain](w, "c")
		a := w.agent("m")
		if m.Status != dispatch.MissionInProgress || m.ProcessID == nil || *m.ProcessID != a.pid || m.ProcessStarted == nil || *m.Branch != "berth/m" || *m.StartCommit != "c0" || m.Assignment != dispatch.Assigned {
			t.Errorf("while it runs the mission is %+v", m)
		}
		if c.State != dispatch.CaptainWorking || *c.MissionID != "m" || *c.ProcessID != a.pid || *c.DockID != *m.DockID {
			t.Errorf("while it runs the captain is %+v", c)
		}
		if d := get[dispatch.Dock](w, *m.DockID); d.State != dispatch.DockLeased || d.Path != "/docks/repo-v/m" || d.Branch != "berth/m" {
			t.Errorf("while it runs the dock is %+v", d)
		}
		if !w.sys.Running("m") || a.token != "token-1" || w.agents.prompt["m"] != "do m" {
			t.Errorf("running %v, token %q", w.sys.Running("m"), a.token)
		}
		w.wantVoyage("vyg", dispatch.VoyageInProgress)
		a.exits(0)
		w.wants("m:Complete")
		w.wantVoyage("vyg", dispatch.VoyageComplete)
		w.free()
		if m := get[dispatch.Mission](w, "m"); *m.Commit != "c-m" || m.ProcessID != nil || m.CompletedUTC == nil || w.sys.Running("m") {
			t.Errorf("ended the mission is %+v", m)
		}
		if got := strings.Join(w.store.ended["m"], " "); got != "Assigned InProgress Complete" {
			t.Errorf("it went through %s", got)
		}
		for event, want := range map[string]int{"mission.status_changed": 4, "mission.completed": 1, "mission.failed": 0, "mission.start_ref_resolved": 1,
			"captain.launched": 1, "captain.stopped": 1, "captain.stalled": 0, "voyage.completed": 1} {
			if got := w.store.count(event); got != want {
				t.Errorf("%d events %s, want %d", got, event, want)
			}
		}
		if got := strings.Join(w.board.told, " "); got != "m:Complete" {
			t.Errorf("the board was told %q", got)
		}
		if notes := w.agents.notes["m"]; len(notes) != 1 || notes[0] != "fetched nothing" {
			t.Errorf("the log has %q", notes)
		}
	})
}

func TestHowAnAgentEndsDecidesTheMission(t *testing.T) {
	none, yes, no := (*bool)(nil), true, false
	for _, tt := range []struct {
		name     string
		mode     dispatch.Mode
		end      End
		produced *bool
		want     string
		says     string
	}{
		{"0", "", End{Code: code(0)}, &yes, "m:Complete", ""},
		{"another status", "", End{Code: code(3), Words: "exited with status 3", Stderr: "no such model"}, &yes, "m:Failed(exit_nonzero)", "exited with status 3; its standard error ends with: no such model"},
		{"another status after it said that it is complete", "", End{Code: code(3), Result: runtime.ResultComplete}, &yes, "m:Complete", ""},
		{"it refused", "", End{Code: code(0), Result: runtime.ResultRefused}, &yes, "m:Failed(refused_by_captain)", ""},
		{"its verdict is bad", "", End{Code: code(0), Verdict: runtime.VerdictFail}, &yes, "m:Failed(verdict_fail)", "FAIL"},
		{"its verdict asks for more", "", End{Code: code(0), Verdict: runtime.VerdictRevision}, &yes, "m:Failed(verdict_fail)", "NEEDS_REVISION"},
		{"its verdict is good", "", End{Code: code(0), Verdict: runtime.VerdictPass}, &yes, "m:Complete", ""},
		{"nobody knows", "", End{}, &yes, "m:Failed(exit_nonzero)", "no exit status: nobody knows how it ended."},
		{"a signal", "", End{Words: "killed by signal 9 (killed)"}, &yes, "m:Failed(exit_nonzero)", "The agent has no exit status: killed by signal 9 (killed)."},
		{"nobody knows, whatever it said", "", End{Result: runtime.ResultComplete}, &yes, "m:Failed(exit_nonzero)", "nobody knows how it ended"},
		{"without a commit", "", End{Code: code(0)}, &no, "m:Failed(no_commit_produced)", ""},
		{"whether with a commit is unknown", "", End{Code: code(0)}, none, "m:Complete", ""},
		{"an audit without a commit", dispatch.Audit, End{Code: code(0)}, &no, "m:Complete", ""},
		{"a research without a commit", dispatch.Research, End{Code: code(0)}, &no, "m:Complete", ""},
		{"an audit that fails", dispatch.Audit, End{Code: code(1)}, &no, "m:Failed(exit_nonzero)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v")
				w.captains("c")
				w.voyage("vyg", "v", "m", func(m *dispatch.Mission) {
					if tt.mode != "" {
						m.Mode = tt.mode
					}
				})
				w.docks.collect = func(context.Context, Work) (Collected, error) { return Collected{Produced: tt.produced}, nil }
				w.run()
				w.agent("m").finish(tt.end, false)
				w.wants(tt.want)
				w.free()
				if m := get[dispatch.Mission](w, "m"); tt.says != "" && !strings.Contains(*m.FailureMessage, tt.says) {
					t.Errorf("it says %q", *m.FailureMessage)
				}
				if len(w.docks.collected) != 1 {
					t.Errorf("collected %v", w.docks.collected)
				}
				if failed := strings.Contains(tt.want, "Failed"); failed != (w.store.count("mission.failed") == 1) {
					t.Error("mission.failed does not fit the end")
				}
			})
		})
	}
}

func code(n int) *int { return &n }

func TestWhatCannotBeBegunFailsWithItsReason(t *testing.T) {
	broken := errors.New("disk on fire at /secret/path")
	for _, tt := range []struct {
		name string
		set  func(*world)
		want string
		log  string
	}{
		{"no worktree", func(w *world) {
			w.docks.prepare = func(context.Context, Work) (Prepared, error) { return Prepared{}, broken }
		}, "m:Failed(provision_failed)", "disk on fire at /secret/path"},
		{"no such ref", func(w *world) {
			w.docks.prepare = func(context.Context, Work) (Prepared, error) {
				return Prepared{}, &dispatch.Fault{Reason: dispatch.StartFromRefMissing, Message: "There is no such branch."}
			}
		}, "m:Failed(start_from_ref_missing)", ""},
		{"no brief", func(w *world) { w.briefs.err = broken }, "m:Failed(launch_failed)", "disk on fire"},
		{"no program", func(w *world) { w.agents.start = func(context.Context, Work) error { return broken } }, "m:Failed(launch_failed)", "disk on fire"},
		{"a prompt that is too large", func(w *world) {
			w.agents.start = func(context.Context, Work) error {
				return &dispatch.Fault{Reason: dispatch.PromptTooLarge, Message: "The prompt is too large."}
			}
		}, "m:Failed(prompt_too_large)", ""},
		{"a port that panics", func(w *world) {
			w.agents.start = func(context.Context, Work) error { panic("broken") }
		}, "m:Failed(launch_failed)", ""},
		{"a worktree that takes for ever", func(w *world) {
			w.docks.prepare = func(ctx context.Context, _ Work) (Prepared, error) { <-ctx.Done(); return Prepared{}, ctx.Err() }
		}, "m:Failed(provision_failed)", "deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v")
				w.captains("c")
				w.voyage("vyg", "v", "m n<m")
				tt.set(w)
				w.run()
				elapse(prepareLimit + time.Minute)
				w.wants(tt.want + " n:Cancelled(dependency_failed)")
				w.wantVoyage("vyg", dispatch.VoyageFailed)
				w.free()
				m := get[dispatch.Mission](w, "m")
				if strings.Contains(*m.FailureMessage, "secret") || m.Assignment != dispatch.AssignmentFailed || w.agents.live() > 0 {
					t.Errorf("the mission says %q, and its assignment is %s", *m.FailureMessage, m.Assignment)
				}
				if notes := strings.Join(w.agents.notes["m"], "\n"); tt.log != "" && !strings.Contains(notes, tt.log) {
					t.Errorf("the log has %q, and not %q", notes, tt.log)
				}
			})
		})
	}
}

func TestAnAgentThatIsSilentIsStalledUntilItWritesAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		state := func(want dispatch.CaptainState) dispatch.Captain {
			t.Helper()
			synctest.Wait()
			c := get[dispatch.Captain](w, "c")
			if c.State != want {
				t.Errorf("the captain is %s, want %s", c.State, want)
			}
			return c
		}
		elapse(9 * time.Minute)
		a.says()
		elapse(9 * time.Minute)
		state(dispatch.CaptainWorking)
		elapse(2 * time.Minute)
		state(dispatch.CaptainStalled)
		if n := w.store.count("captain.stalled"); n != 1 {
			t.Errorf("%d events", n)
		}
		w.wants("m:InProgress")
		a.says()
		if c := state(dispatch.CaptainWorking); !c.LastHeartbeat.Equal(time.Now()) {
			t.Errorf("it was last heard of at %s", c.LastHeartbeat)
		}
		a.exits(0)
		w.wants("m:Complete")
		w.free()
	})
}

func TestSignsOfLifeAreWrittenOnceAMinuteAtMost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		first := revision(w, "c")
		for range 600 {
			a.says()
			elapse(time.Second)
		}
		synctest.Wait()
		if n := revision(w, "c") - first; n < 9 || n > 11 {
			t.Errorf("written %d times in ten minutes", n)
		}
		elapse(5 * time.Minute)
		synctest.Wait()
		if n := revision(w, "c") - first; n > 12 {
			t.Errorf("silence was written, too: %d", n)
		}
	})
}

func revision(w *world, captain string) uint64 {
	r, err := w.store.Record(dispatch.KindCaptain, captain)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Revision
}

func TestAMissionThatTakesTooLongIsKilled(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		a.hard = 3
		elapse(239 * time.Minute)
		w.wants("m:InProgress")
		elapse(2 * time.Minute)
		w.wants("m:Failed(mission_timeout)")
		if !a.killed || len(w.docks.collected) != 1 {
			t.Errorf("killed %v, collected %v", a.killed, w.docks.collected)
		}
		w.free()
	})
}

func TestWithoutATokenTheAgentRunsAndTheLogSaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		none    string
		deliver bool
		note    bool
	}{"no owner": {"Its owner has no active credential.", true, true}, "none are delivered": {"", false, false}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.vessel("v")
				w.captains("c")
				w.voyage("vyg", "v", "m")
				w.tokens.none = tt.none
				w.run()
				if a := w.agent("m"); a.token != "" || w.tokens.total != 0 {
					t.Errorf("the token is %q", a.token)
				}
				if got := strings.Contains(strings.Join(w.agents.notes["m"], "\n"), "no active credential"); got != tt.note {
					t.Errorf("the log has %q", w.agents.notes["m"])
				}
			}, func(o *Options) { o.Deliver = tt.deliver })
		})
	}
}

func TestAMissionThatIsMovedOnByHandGivesUpItsAgent(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		m, err := get[dispatch.Mission](w, "m").StepAsked(dispatch.MissionFailed, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		put(w, m)
		w.sys.Wake()
		w.wants("m:Failed")
		if !a.killed {
			t.Error("its agent goes on")
		}
		w.free()
		w.wantVoyage("vyg", dispatch.VoyageFailed)
	})
}

func TestAMissionThatIsBegunAgainByHandGetsAnAgentOfItsOwn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.atWork()
		m, err := get[dispatch.Mission](w, "m").StepAsked(dispatch.MissionFailed, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		put(w, m)
		if m, err = m.Restarted(time.Now()); err != nil {
			t.Fatal(err)
		}
		put(w, m)
		w.store.wrong = nil // the captain is the first agent's yet
		w.sys.Wake()
		w.wants("m:Pending")
		elapse(2 * time.Minute)
		w.wants("m:InProgress")
		if !a.killed || w.agent("m") == a {
			t.Error("its first agent goes on")
		}
		w.agent("m").exits(0)
		w.wants("m:Complete")
		w.free()
	})
}

func TestAWorktreeThatCannotBeRemovedIsAFailedDock(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.vessel("v")
		w.captains("c")
		w.voyage("vyg", "v", "m n")
		w.docks.reclaim = func(context.Context, dispatch.Dock) error { return errors.New("busy at /secret") }
		w.run()
		w.agent("m").exits(0)
		w.agent("n").exits(0)
		w.wants("m:Complete n:Complete")
		w.free()
		d := get[dispatch.Dock](w, *get[dispatch.Mission](w, "m").DockID)
		if d.State != dispatch.DockFailed || d.Error == nil || strings.Contains(*d.Error, "secret") {
			t.Errorf("the dock is %+v", d)
		}
		w.docks.reclaim = nil
		if err := w.sys.Reclaim(context.Background(), operator, d.ID); err != nil {
			t.Fatal(err)
		}
		if d = get[dispatch.Dock](w, d.ID); d.State != dispatch.DockAvailable || d.Error != nil {
			t.Errorf("the dock is %+v", d)
		}
	})
}
