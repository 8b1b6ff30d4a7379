package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"berth/broker"
)

// This file is the periodic work of the supervisor: polls of tracked jobs,
// reaping and retention. The journal is read off the mailbox.

const (
	firstPoll   = time.Second
	slowestPoll = 15 * time.Second
)

// track schedules polls of a job: soon at first, then with growing pauses.
func (s *supervisor) track(m *track) {
	s.untrack(m.id)
	t := &tracked{pid: m.pid, backend: m.backend, backoff: newBackoff(firstPoll, slowestPoll)}
	if p := m.pace; p != nil {
		t.backoff.InitialInterval, t.backoff.MaxInterval = p.First, p.Most
		t.backoff.Multiplier, t.backoff.RandomizationFactor = p.Factor, p.Jitter
		t.backoff.Reset()
	}
	s.tracks[m.id] = t
	s.nextPoll(m.id, t)
	s.followedAt(m.backend)
	if now, renewed := s.lives[m.backend.Id]; renewed && m.life != 0 && m.life < now {
		s.sys.send(m.pid, &recheck{}) // the life in which it began is over already
	}
}

func (s *supervisor) untrack(id string) {
	if t, ok := s.tracks[id]; ok {
		t.timer.Stop()
		delete(s.tracks, id)
		s.followedAt(t.backend)
	}
}

func (s *supervisor) nextPoll(id string, t *tracked) {
	t.timer = s.timer(t.backoff.NextBackOff(), &pollDue{id: id})
}

// pollReport schedules the next poll. One poll is in flight a job at most,
// because the next is timed from the report of the last.
func (s *supervisor) pollReport(m *pollReport) {
	if t, ok := s.tracks[m.id]; ok {
		s.nextPoll(m.id, t)
	}
}

// findStale reads the unfinished jobs off the mailbox.
func (s *supervisor) findStale() {
	if s.reaping {
		return
	}
	s.reaping = true
	self, sys := s.self, s.sys
	sys.work.Go(func() {
		m := &reapList{}
		page, err := sys.journal.Jobs(broker.JobFilter{Unfinished: true})
		if err != nil {
			sys.log.Warn("unfinished jobs could not be read", slog.String("cause", err.Error()))
		}
		now := sys.now()
		for _, j := range page.Jobs {
			if !now.Before(j.StaleAt()) {
				m.stale = append(m.stale, j)
			}
		}
		sys.send(self, m)
	})
}

// reap tells the owners of stale jobs; a record that nobody owns is ended here.
func (s *supervisor) reap(m *reapList) {
	s.reaping = false
	now := s.sys.now()
	for _, j := range m.stale {
		if pid, ok := s.sys.jobs.Load(j.ID); ok {
			s.sys.send(pid.(*actor.PID), &reapJob{now: now})
			continue
		}
		s.sys.changeJob(j.ID, broker.Reaped(j, now))
	}
}

// prune removes final records past their retention, a batch at a time.
func (s *supervisor) prune() {
	if s.pruning {
		return
	}
	s.pruning = true
	self, sys := s.self, s.sys
	sys.work.Go(func() {
		defer sys.send(self, &pruned{})
		for {
			n, err := sys.journal.Prune(context.Background(), sys.now(), pruneBatch)
			if err != nil {
				sys.log.Warn("old jobs could not be pruned", slog.String("cause", err.Error()))
				return
			}
			if n > 0 {
				sys.log.Info("old jobs pruned", slog.Int("jobs", n))
			}
			if n < pruneBatch {
				return
			}
		}
	})
}

// loseTracked ends a recovered job whose backend is no longer configured.
func (s *System) loseTracked(j broker.Job) { s.changeJob(j.ID, s.unconfigured(j)) }

func (s *System) unconfigured(j broker.Job) broker.JobChange {
	return broker.JobChange{To: broker.JobLost, At: s.now(), Reason: broker.CodeTrackedWorkLost,
		Message: "The backend " + j.Backend + " that holds this work is no longer configured; what became of it is unknown."}
}

// loseBrought ends a recovered job whose work is in an instance that a session
// brought. Where that was went with the broker that it was brought to.
func (s *System) loseBrought(j broker.Job) {
	work := "queued work"
	if j.Tracking != nil && j.Tracking.Handle != "" {
		work = "work " + j.Tracking.Handle
	}
	s.changeJob(j.ID, broker.JobChange{To: broker.JobLost, At: s.now(), Reason: broker.CodeJobLostOnRestart,
		Message: "job_lost_on_restart: the broker stopped, and with it went where the instance is that a session brought. Its " + work + " in the process " + j.RuntimeID + " may go on; look there before it is started again."})
}

// changeJob ends a record that no actor owns, off the mailbox.
func (s *System) changeJob(id string, change broker.JobChange) {
	s.work.Go(func() {
		if _, err := s.journal.ChangeJob(context.Background(), id, change); err != nil {
			s.log.Warn("the end of a job could not be written", slog.String("job", id), slog.String("cause", err.Error()))
		}
	})
}
