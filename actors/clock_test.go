package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// TestAStartUnderAnotherClockLosesNothing: within one life the time that passes
// is measured by a clock that does not jump; a start may find records from its
// future. They end, are listed and followed by others like all.
func TestAStartUnderAnotherClockLosesNothing(t *testing.T) {
	for name, jump := range map[string]time.Duration{"two days back": -48 * time.Hour, "a day ahead": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				w := start(t, &upstream{call: gated(gate)})
				ids := []string{w.do(long).Job.ID}
				synctest.Wait()
				w.opts.Now = func() time.Time { return time.Now().Add(jump) }
				w.restart()
				if j, err := w.Job(ids[0]); err != nil || j.Status != broker.JobLost {
					t.Fatalf("%+v, %v", j, err)
				}
				close(gate)
				for range 3 {
					id := w.do(long).Job.ID
					ids = append(ids, id)
					if j := w.job(id); j.Status != broker.JobSucceeded {
						t.Errorf("%+v", j)
					}
				}
				elapse(3 * reapEvery)
				if page, err := w.Jobs(broker.JobFilter{KeptAt: w.opts.Now()}); err != nil || page.Total != len(ids) {
					t.Errorf("%d jobs are listed, %v", page.Total, err)
				}
				if r := w.do(); r.Answer == nil {
					t.Errorf("a call afterwards: %+v", r)
				}
			})
		})
	}
}
