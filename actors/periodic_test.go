package actors

import (
	"testing"
	"testing/synctest"
	"time"
)

// Messages reach an actor that stops until its children are gone: a job that is
// to be followed is one of them, and its timer would outlive the supervisor.
func TestASupervisorThatStopsBeginsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		s := newSupervisor(w.System)
		s.self = w.supervisor
		ask := &track{id: "job_1", pid: s.self, backend: s.self}
		s.track(ask)
		s.after("reap", time.Hour, &reapTick{})
		before := []*time.Timer{s.tracks["job_1"].timer, s.timers["reap"]}
		s.stopTimers()
		s.track(ask)
		s.pollReport(&pollReport{id: "job_1"})
		s.after("prune", time.Hour, &pruneTick{})
		for i, timer := range append(before, s.tracks["job_1"].timer, s.timers["prune"]) {
			if timer.Stop() {
				t.Errorf("timer %d was running", i)
			}
		}
	})
}
