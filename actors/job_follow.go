package actors

import (
	"encoding/json"
	"log/slog"
	"time"

	"berth/broker"
)

// This file follows work that lives in a local app. Its contract gives the
// answer to the caller as it is, so the job stands beside the answer, and what
// the app's words mean is for the app's side to say (broker.Follow).

// maxKeptAnswer is the longest answer, in bytes, of a verb whose work is
// followed: it is kept in the record, to be given again.
const maxKeptAnswer = 64 << 10

// following gives the handle in an answer of an app's verb, nil when it started
// nothing that can be followed: without the incarnation that it runs in, no
// later answer could be known to be about the same work.
func (s *System) following(call *broker.Call, a *broker.Answer) *broker.Tracking {
	if a == nil || a.Error != nil || a.RuntimeID == "" || len(a.Result) > maxKeptAnswer {
		return nil
	}
	if p, ok := s.profileOf(call.Backend); !ok || p.Surface() == nil {
		return nil // the params of others, which may be large, are not read for this
	}
	v := s.verbOf(call)
	if v == nil || v.Follow == nil {
		return nil
	}
	document, isError := broker.ToolText(a.Result)
	if isError || document == nil {
		return nil
	}
	work, ok := v.Follow.Started(document)
	if !ok || (work.Handle == "" && len(work.Ticket) == 0) {
		return nil
	}
	return &broker.Tracking{Kind: broker.TrackApp, Verb: v.Upstream, Handle: work.Handle, Ticket: work.Ticket, LastGood: s.now()}
}

// beside makes the record of a call's answer one of a job that stands beside
// it. Queued work has not begun.
func (j *job) beside() {
	if j.record.Tracking.Kind == broker.TrackApp && j.record.Tracking.Handle == "" {
		j.record.Status, j.record.StartedAt = broker.JobAccepted, nil
	}
}

// adopted is the reply to a call that goes on as a job, or, where the job
// stands beside the answer, the answer. job is nil when there is no record.
func (m *jobStart) adopted(job *broker.Job) Reply {
	if m.track.Kind != broker.TrackApp {
		return Reply{Job: job}
	}
	return Reply{Answer: m.adopt.answer, Timing: m.adopt.timing, Tracked: job, Untracked: job == nil}
}

// standsBeside reports whether the caller has its answer whatever becomes of
// the record.
func (m *jobStart) standsBeside() bool {
	return m.adopt != nil && m.track.Kind == broker.TrackApp
}

// followed is how the job's work is followed; nil when the app's contract no
// longer says it.
func (j *job) followed() *broker.Follow {
	p, ok := j.sys.profileOf(j.record.Backend)
	if !ok {
		return nil
	}
	v, ok := p.Resolve(j.record.Tracking.Verb)
	if !ok || v.Surface == nil {
		return nil
	}
	return v.Follow
}

// appQuestion is how an app is asked.
func (j *job) appQuestion() (method string, params json.RawMessage) {
	t, f := j.record.Tracking, j.followed()
	verb, arguments := "", t.Ticket
	if f != nil {
		verb = f.FindVerb
		if t.Handle != "" {
			verb, arguments = f.Verb, f.Arguments(t.Handle)
		}
	}
	return "tools/call", encode(map[string]any{"name": verb, "arguments": arguments})
}

// readApp reads an app's answer. Work that was queued and has begun makes the
// job Running.
func (j *job) readApp(m *outcome) (change *broker.JobChange, known bool) {
	t, f := j.record.Tracking, j.followed()
	document, isError := broker.ToolText(m.answer.Result)
	if f == nil || document == nil {
		return nil, false
	}
	var seen broker.Seen
	if t.Handle == "" {
		seen = f.Find(t.Ticket, document, isError)
	} else {
		seen = f.Read(t.Handle, j.record.RuntimeID, document, isError)
	}
	switch {
	case seen.End != "":
		c := &broker.JobChange{To: seen.End, Reason: seen.Reason, Message: seen.Message}
		if seen.End == broker.JobSucceeded {
			c.Result = asToolResult(seen.Result)
		}
		return c, true
	case f.Most > 0 && j.sys.now().Sub(j.record.SubmittedAt) >= f.Most:
		return &broker.JobChange{To: broker.JobLost, Reason: broker.CodeTrackingExpired,
			Message: "The work was followed for " + f.Most.String() + " and had not ended; the app may still be at it."}, true
	case seen.Handle != "" && t.Handle == "":
		j.begun(seen.Handle)
	}
	return nil, seen.Good
}

// begun notes that queued work has begun.
func (j *job) begun(handle string) {
	t := *j.record.Tracking
	t.Handle = handle
	now := j.sys.now()
	if j.record.Status == broker.JobAccepted {
		j.record.Status, j.record.StartedAt = broker.JobRunning, &now
	}
	j.record.Tracking, j.noted = &t, now
	j.change(broker.JobChange{To: broker.JobRunning, At: now, Tracking: &t})
	j.log.Info("queued work has begun", slog.String("handle", handle))
}

// unreached ends a job whose app has not told how the work stands for too long.
// That says nothing about the work.
func (j *job) unreached(now time.Time) broker.JobChange {
	return broker.JobChange{To: broker.JobLost, At: now, Reason: broker.CodeBackendUnavailable,
		Message: "The app has not told how this work stands since " + broker.FormatTime(j.record.Tracking.LastGood) + "; it may go on."}
}

// pace is how often the job's work is asked for; nil for the usual.
func (j *job) pace() *broker.Pace {
	if j.record.Tracking.Kind != broker.TrackApp {
		return nil
	}
	if f := j.followed(); f != nil && f.Pace.First > 0 {
		return &f.Pace
	}
	return nil
}
