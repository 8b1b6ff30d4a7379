package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"berth/actors/box"
	"berth/broker"
	"berth/broker/catalog"
)

// This file is the part of the job actor that ends a job: by its outcome, by a
// cancel, or because it is stale. The outcome is durable before anybody sees it.

// outcome takes the backend's answer to the job's call, or to a poll.
func (j *job) outcome(m *outcome) {
	if m.answer != nil {
		j.heard = m.answer.RuntimeID
	}
	if j.poll != "" && m.callID == j.poll {
		j.polled(m)
		return
	}
	if m.stopping && j.sys.closing.Load() {
		return // unfinished: the next start makes the record Lost
	}
	switch j.step {
	case stepCreate:
		j.early = m
	case stepReturn:
		j.answer(&jobAnswer{reply: Reply{Answer: m.answer, Refusal: m.refusal, Timing: m.timing}})
		j.done()
	case stepAccepted, stepStart, stepRunning:
		j.asked = m.timing.Started
		if t := j.sys.trackable(j.start.req.Call, m.answer); t != nil {
			j.life = m.life
			j.follow(*t, m.answer.RuntimeID)
			return
		}
		if m.answer != nil && wantsInput(m.answer.Result) {
			m.answer = &broker.Answer{Error: broker.NoPeer("The backend asks for input, and the caller of this job cannot be asked."), RuntimeID: m.answer.RuntimeID}
		}
		j.finish(outcomeChange(m, j.record.Backend == catalog.NativeName, j.sys.now()))
	}
}

// outcomeChange maps what a backend said onto the end of a job; native says that
// it was one of the broker's own verbs.
func outcomeChange(m *outcome, native bool, now time.Time) broker.JobChange {
	switch {
	case m.refusal != nil:
		return refusedChange(m.refusal, now)
	case m.answer.Error != nil:
		e := m.answer.Error
		body, _ := json.Marshal(map[string]any{"code": broker.CodeOperationFailed, "message": e.Message, "detail": map[string]any{"rpc_code": e.Code, "rpc_data": e.Data}})
		return broker.JobChange{To: broker.JobFailed, At: now, Reason: broker.CodeOperationFailed, Message: e.Message, Refusal: body}
	case m.answer.ToolError():
		if r := nativeRefusal(m.answer.Result); r != nil && native {
			return refusedNative(r, now)
		}
		return broker.JobChange{To: broker.JobFailed, At: now, Reason: broker.CodeOperationFailed,
			Message: firstText(m.answer.Result), Result: m.answer.Result, ResultIsError: true}
	}
	return broker.JobChange{To: broker.JobSucceeded, At: now, Result: m.answer.Result}
}

func refusedChange(r *broker.Refusal, now time.Time) broker.JobChange {
	if r.Code == broker.CodeDispatchHold { // after it was accepted: its message is the refusal's body (contracts/native.md section 2)
		return refusedNative(r, now)
	}
	body := r.JSON()
	return broker.JobChange{To: broker.JobFailed, At: now, Reason: r.Code, Message: r.Message, Refusal: body}
}

// refusedNative ends a job with a refusal in the form of the broker's own verbs.
func refusedNative(r *broker.Refusal, now time.Time) broker.JobChange {
	if r.Code == broker.CodeDispatchHold { // its Action is for whom nothing was accepted
		held := *r
		held.Detail = map[string]any{}
		maps.Copy(held.Detail, r.Detail)
		held.Detail["Action"] = "This job was accepted before and has ended; it began nothing. Dispatch again when the hold is cleared; ask its holder on the board."
		r = &held
	}
	return broker.JobChange{To: broker.JobFailed, At: now, Reason: r.Code, Message: r.FailureText(broker.MaxFailureMessage), Refusal: r.NativeJSON()}
}

// nativeRefusal reads a refusal out of the result of one of the broker's own
// verbs; nil: it is another error.
func nativeRefusal(result json.RawMessage) *broker.Refusal {
	var detail map[string]any
	if json.Unmarshal([]byte(firstText(result)), &detail) != nil {
		return nil
	}
	message, _ := detail["Error"].(string)
	code, _ := detail["Code"].(string)
	if message == "" || code == "" {
		return nil
	}
	r := broker.Refuse(broker.Code(code), message, detail)
	if seconds, said := detail["RetryAfterSeconds"].(float64); said {
		r.Retry(time.Duration(seconds) * time.Second)
	}
	return r
}

// finish hands the outcome to the journal.
func (j *job) finish(c broker.JobChange) {
	if j.begin != nil {
		j.begin.settle(cancelledRefusal())
		j.begin = nil
	}
	if !j.kept && j.step == stepTrack {
		c.Tracking = j.record.Tracking // its write may have been overtaken
	}
	j.shown(c)
	j.final, j.step = &c, stepFinish
	j.retry.Reset()
	j.write()
}

// shown remembers what the result grants whoever it is released to. A job whose
// answer was given beside it has granted with that; of one that was recovered
// nobody knows the arguments.
func (j *job) shown(c broker.JobChange) {
	gate, start := j.sys.gate, j.start
	if gate == nil || len(c.Result) == 0 || start.record != nil || start.standsBeside() || j.asked.IsZero() {
		return
	}
	gate.remember(j.record.ID, gate.shows(start.req.Call, &broker.Answer{Result: c.Result, RuntimeID: j.heard}, j.asked))
}

func (j *job) finished(m *jobWritten) {
	switch {
	case m.err == nil:
		j.log.Info("job ended", slog.String("status", string(m.job.Status)), slog.String("reason", string(m.job.Reason)))
	case errors.Is(m.err, broker.ErrJobFinal), errors.Is(m.err, broker.ErrJobNotFound):
		j.log.Warn("an outcome met a final record and was dropped", slog.String("cause", m.err.Error()))
	default:
		j.writeLater(m.err)
		return
	}
	err := m.err
	switch {
	case errors.Is(err, broker.ErrJobNotFound):
	case m.job.Reason == broker.CodeCancelled && j.final.Reason == broker.CodeCancelled:
		err = nil // also where an earlier try of the same write had taken effect
	default:
		err = broker.ErrJobFinal // the outcome was faster than the cancel
	}
	if tell := j.sys.opts.Cancelled; tell != nil && err == nil && len(j.cancels) > 0 {
		sys, record, by := j.sys, m.job, j.cancels[0].by
		sys.work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			tell(ctx, record, by)
		})
	}
	for _, c := range j.cancels {
		c.settle(err)
	}
	j.cancels = nil
	j.sys.delayed.Delete(j.record.ID)
	j.done()
}

// cancel ends the job as Failed, reason cancelled. One whose outcome is already
// on its way to the journal is over.
func (j *job) cancel(m *cancelJob) {
	if j.step >= stepFinish {
		m.settle(broker.ErrJobFinal)
		return
	}
	j.cancels = append(j.cancels, m)
	if j.step != stepCreate && j.step != stepClaim {
		j.cancelled()
	}
}

func (j *job) cancelled() {
	if j.step >= stepFinish {
		return // the outcome won; finished answers
	}
	c := j.cancels[0]
	message := fmt.Sprintf("Cancelled by %s: %s.", c.by.Key(), strings.TrimRight(c.reason, "."))
	switch j.step {
	case stepTrack:
		message += " The work lives in the backend and was not stopped by this."
		if j.record.Tracking.Kind.IsTask() {
			message = strings.TrimSuffix(message, "was not stopped by this.") + "was asked to stop; it may have taken effect."
		}
	case stepRunning:
		message += " The call was running; its backend was asked to stop it, and it may have taken effect."
	}
	j.stopOperation()
	j.finish(broker.JobChange{To: broker.JobFailed, At: j.sys.now(), Reason: broker.CodeCancelled, Message: message,
		Cause: j.sys.cancelEvent(j.record, c.reason, c.by)})
}

func (j *job) stopOperation() {
	if j.step == stepTrack {
		j.abandon()
		return
	}
	if j.start.record == nil {
		j.sys.send(j.start.backend, &withdraw{callID: j.start.req.Call.ID})
	}
}

// reap ends the job if it is stale. One that holds an unwritten outcome is
// not: that is written first.
func (j *job) reap(now time.Time) {
	if j.step == stepCreate || j.step == stepClaim || j.step >= stepFinish || now.Before(j.record.StaleAt()) {
		return
	}
	if t := j.record.Tracking; t != nil && t.Kind == broker.TrackApp {
		j.finish(j.unreached(now))
		return
	}
	j.stopOperation()
	j.finish(broker.Reaped(j.record, now))
}

// giveUp answers what the actor holds. After a panic the record ends Failed;
// after a stop it stays as it is, and the next start makes it Lost.
func (j *job) giveUp() {
	j.sys.jobs.Delete(j.record.ID)
	j.sys.asked.end(j.record.ID)
	j.working(false)
	if j.step == stepDone {
		return
	}
	j.ended(string(broker.CodeShuttingDown))
	if j.begin != nil {
		j.begin.settle(stoppingRefusal())
	}
	for _, c := range j.cancels {
		c.settle(box.ErrStopped)
	}
	switch {
	case j.step == stepCreate && j.start.standsBeside():
		j.answer(&jobAnswer{reply: j.start.adopted(nil)})
	case j.step == stepClaim || j.step == stepCreate:
		refusal := stoppingRefusal()
		if j.start.promote || j.start.adopt != nil {
			refusal = (&broker.Failure{Dispatched: true, Cause: "the broker stopped while the call became a job"}).Refuse(j.start.req.Call)
		}
		j.answer(&jobAnswer{reply: Reply{Refusal: refusal}})
	}
	if j.panicky == "" {
		return
	}
	j.stopOperation()
	id, change := j.record.ID, broker.JobChange{To: broker.JobFailed, At: j.sys.now(), Reason: broker.CodeOperationFailed, Message: j.panicky}
	sys, log := j.sys, j.log
	sys.work.Go(func() {
		if _, err := sys.journal.ChangeJob(context.Background(), id, change); err != nil && !errors.Is(err, broker.ErrJobFinal) {
			log.Error("the end of a failed job could not be written", slog.String("cause", err.Error()))
		}
	})
	sys.send(sys.supervisor, &jobEnded{id: j.record.ID, callID: j.callID()})
}
