package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"berth/broker"
)

// This file is the part of the job actor that writes: each status goes through
// the journal before anybody is told of it.

// jobWritten reports a journal write.
type jobWritten struct {
	step    jobStep
	job     broker.Job
	created bool
	err     error
}

// retryWrite is the timer of a failed journal write.
type retryWrite struct{}

// write hands the journal what the present step needs, off the mailbox.
func (j *job) write() {
	step, record := j.step, j.record
	switch step {
	case stepCreate:
		held := j.held()
		j.journal(func(ctx context.Context) *jobWritten {
			// A key that names a job already is answered before anything is judged, and
			// after a refusal too: the job that it names may be the reason for it.
			first, found, err := j.sys.journal.FirstJob(record)
			if found || err != nil {
				return &jobWritten{step: step, job: first, err: err}
			}
			if held == nil {
				held = j.sys.admitJob(j.start, &record)
			}
			if held != nil {
				first, found, err := j.sys.journal.FirstJob(record)
				if err == nil && !found {
					err = held
				}
				return &jobWritten{step: step, job: first, err: err}
			}
			stored, created, err := j.sys.journal.CreateJob(ctx, record)
			return &jobWritten{step: step, job: stored, created: created, err: err}
		})
	case stepStart:
		j.change(broker.JobChange{To: broker.JobRunning, At: j.sys.now(), RuntimeID: j.begin.runtimeID})
	case stepFinish:
		j.change(*j.final)
	case stepTrack:
		j.change(broker.JobChange{To: broker.JobRunning, At: j.sys.now(), RuntimeID: record.RuntimeID, Tracking: record.Tracking})
	}
}

// held refuses a new job that an operator has stopped, unless the work has begun
// already: its record is what remains of it.
func (j *job) held() *broker.Refusal {
	if j.start.promote || j.start.adopt != nil {
		return nil
	}
	return j.sys.stopped(&j.start.req)
}

func (j *job) change(c broker.JobChange) {
	step, id := j.step, j.record.ID
	j.journal(func(ctx context.Context) *jobWritten {
		stored, err := j.sys.journal.ChangeJob(ctx, id, c)
		return &jobWritten{step: step, job: stored, err: err}
	})
}

func (j *job) journal(do func(context.Context) *jobWritten) {
	self := j.self
	j.sys.work.Go(func() { j.sys.send(self, do(context.Background())) })
}

// written takes the journal's report.
func (j *job) written(m *jobWritten) {
	if m.step != j.step {
		return // a report that an outcome overtook
	}
	switch j.step {
	case stepCreate:
		j.createdRecord(m)
	case stepStart:
		j.startedRun(m)
	case stepFinish:
		j.finished(m)
	case stepTrack:
		switch {
		case m.err == nil:
			j.kept = true
			j.sys.delayed.Delete(j.record.ID)
		case !j.kept && j.record.Tracking.Answer != nil: // a caller waits for it
			j.writeLater(m.err)
		default:
			j.log.Warn("the handle of tracked work could not be written", slog.String("cause", m.err.Error()))
		}
	}
}

// createdRecord answers the caller: the record is on disk, or there is no job.
func (j *job) createdRecord(m *jobWritten) {
	if m.err != nil {
		j.notCreated(m.err)
		return
	}
	stored := m.job
	if !m.created {
		j.start.give()
		j.answer(&jobAnswer{reply: Reply{Job: &stored, Replayed: true}})
		j.done()
		return
	}
	j.record = stored
	reply := Reply{Job: &stored}
	if j.start.adopt != nil {
		reply = j.start.adopted(&stored)
		j.step = stepTrack
		j.working(false)
		j.log.Info("job is tracked in its backend", slog.String("handle", stored.Tracking.Handle))
		// Before the caller has its answer: it may end its session with it, and
		// what the session brought goes when nothing is followed there.
		j.sys.send(j.sys.supervisor, j.toTrack())
	}
	j.answer(&jobAnswer{reply: reply})
	switch {
	case j.step == stepTrack:
	case j.start.promote && stored.Status == broker.JobRunning:
		j.step = stepRunning
	case j.start.promote:
		j.step = stepAccepted
	default:
		j.step = stepAccepted
		j.offerCall()
	}
	if j.early != nil {
		early := j.early
		j.early = nil
		j.outcome(early)
	}
	if len(j.cancels) > 0 {
		j.cancelled()
	}
	if j.begin != nil && j.step == stepAccepted {
		j.beginRun(j.begin)
	}
}

// notCreated ends a job that has no record. A promoted call stays a call.
func (j *job) notCreated(err error) {
	for _, c := range j.cancels {
		c.settle(broker.ErrJobNotFound)
	}
	if j.begin != nil {
		j.begin.settle(nil) // the call goes on as a call
	}
	if j.start.promote {
		j.log.Warn("a call could not be made a job", slog.String("cause", err.Error()))
		j.step = stepReturn
		if early := j.early; early != nil {
			j.outcome(early)
			return
		}
		j.sys.send(j.start.backend, &reown{sys: j.sys, callID: j.start.req.Call.ID, to: j.start.owner, notify: j.self, back: true, begin: j.sys.holdHook(&j.start.req)})
		return
	}
	if j.start.standsBeside() {
		j.log.Error("work that was started could not be made a job", slog.String("cause", err.Error()))
		j.answer(&jobAnswer{reply: j.start.adopted(nil)})
		j.done()
		return
	}
	j.start.give()
	var refusal *broker.Refusal
	if !errors.As(err, &refusal) {
		j.log.Error("a job could not be accepted", slog.String("cause", err.Error()))
		refusal = broker.Refuse(broker.CodeJobJournal, "The journal could not take the job; nothing was started.", nil).Retry(time.Second)
		if j.start.adopt != nil {
			refusal = broker.Refuse(broker.CodeOutcomeUnknown, "The backend works on the call as a task of its own, and the journal could not take it: nothing follows it.", nil)
			j.abandon()
		}
	}
	j.answer(&jobAnswer{reply: Reply{Refusal: refusal}})
	j.done()
}

func (j *job) startedRun(m *jobWritten) {
	begin := j.begin
	if m.err != nil {
		if errors.Is(m.err, broker.ErrJobFinal) {
			begin.settle(cancelledRefusal())
			j.done()
			return
		}
		j.writeLater(m.err)
		return
	}
	j.begin, j.record, j.step = nil, m.job, stepRunning
	j.retry.Reset()
	j.sys.delayed.Delete(j.record.ID)
	begin.settle(nil)
}

// writeLater repeats a failed write after a while; the transition is not
// published meanwhile.
func (j *job) writeLater(err error) {
	wait := j.retry.NextBackOff()
	j.sys.tellDelayed(j.record)
	j.log.Warn("a journal write of a job is delayed", slog.String("cause", err.Error()), slog.Duration("retry_after", wait))
	self := j.self
	time.AfterFunc(wait, func() { j.sys.send(self, &retryWrite{}) })
}
