package actors

import (
	"encoding/json"
	"log/slog"
	"time"

	"berth/broker"
)

// This file is the part of the job actor that follows work which lives in a
// backend: by polling the backend's own job_status, on the control lane, one
// poll at a time, when the supervisor says so.

// statusVerb is the status verb of the one convention that is followed: verbs
// that answer JobId and Status, as Berth's own do.
const statusVerb = "job_status"

// noteEvery is how often a good poll is written down; in between it is known
// to the actor only.
const noteEvery = time.Minute

// pollJob asks a tracked job to look.
type pollJob struct{}

// trackable gives the handle in an answer of a backend that has job_status, or
// nil when the answer is not one of work that goes on.
func (s *System) trackable(backend string, a *broker.Answer) *broker.Tracking {
	if a == nil || a.Error != nil || a.ToolError() || !s.hasVerb(backend, statusVerb) {
		return nil
	}
	h, ok := jobWords(a.Result)
	if !ok || h.JobID == "" || (h.Status != broker.JobAccepted && h.Status != broker.JobRunning) {
		return nil
	}
	return &broker.Tracking{Handle: h.JobID, Verb: statusVerb, LastGood: s.now()}
}

// trackedWords are the fields of the convention.
type trackedWords struct {
	JobID          string           `json:"JobId"`
	Status         broker.JobStatus `json:"Status"`
	Code           broker.Code      `json:"Code"`
	Result         json.RawMessage  `json:"Result"`
	FailureMessage string           `json:"FailureMessage"`
	Reason         broker.Code      `json:"Reason"`
	Refusal        json.RawMessage  `json:"Refusal"`
}

// toolResult is what is read of a tool result here.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

// jobWords reads the convention's fields from a tool result: its structured
// content, else its first text block.
func jobWords(result json.RawMessage) (trackedWords, bool) {
	var r toolResult
	var w trackedWords
	if json.Unmarshal(result, &r) != nil {
		return w, false
	}
	if len(r.Structured) > 0 && json.Unmarshal(r.Structured, &w) == nil {
		return w, true
	}
	for _, c := range r.Content {
		if c.Type == "text" {
			return w, json.Unmarshal([]byte(c.Text), &w) == nil
		}
	}
	return w, false
}

// firstText is the first text block of a tool result, for a failure message.
func firstText(result json.RawMessage) string {
	var r toolResult
	if json.Unmarshal(result, &r) == nil {
		for _, c := range r.Content {
			if c.Type == "text" {
				return c.Text
			}
		}
	}
	return ""
}

// follow turns a run into a tracked job. The handle is durable before the
// first poll; if it cannot be written the job still tracks, and a restart
// makes it Lost like any other.
func (j *job) follow(t broker.Tracking) {
	j.step = stepTrack
	j.working(false)
	j.record.Tracking = &t
	j.change(broker.JobChange{To: broker.JobRunning, At: j.sys.now(), Tracking: &t})
	j.log.Info("job is tracked in its backend", slog.String("handle", t.Handle))
	j.sys.send(j.sys.supervisor, &track{id: j.record.ID, pid: j.self})
}

func (j *job) pollNow() {
	if j.step != stepTrack || j.poll != "" {
		return
	}
	params, err := json.Marshal(map[string]any{"name": j.record.Tracking.Verb, "arguments": map[string]any{"jobId": j.record.Tracking.Handle}})
	if err != nil {
		return
	}
	call := &broker.Call{
		ID: j.sys.NewCallID(), Principal: broker.Principal{Tenant: j.record.Tenant, User: j.record.User},
		Backend: j.record.Backend, Verb: j.record.Operation, Effects: broker.Read, Lane: broker.LaneControl,
		Method: "tools/call", Params: params,
	}
	if !j.checked {
		call.ExpectedRuntimeID = j.record.RuntimeID
	}
	j.poll = call.ID
	o := &offer{sys: j.sys, call: call, owner: j.self, offered: j.sys.now(), runTimeout: defaultStartTimeout}
	if !j.sys.budget.Take(call.Bytes()) {
		j.polled(&outcome{callID: call.ID, refusal: broker.Refuse(broker.CodeOverloaded, "Too many bytes are in flight.", nil)})
		return
	}
	j.sys.send(j.start.backend, o)
}

// polled maps the backend's words onto ours. A poll that failed says nothing
// about the work; it is tried again until the job is stale.
func (j *job) polled(m *outcome) {
	j.poll = ""
	if j.step != stepTrack {
		return
	}
	now := j.sys.now()
	if m.refusal != nil {
		if !j.checked && (m.refusal.Code == broker.CodeInstanceMismatch || m.refusal.Code == broker.CodeIdentityUnavailable) {
			j.finish(broker.JobChange{To: broker.JobLost, At: now, Reason: broker.CodeTrackedWorkLost,
				Message: "The backend does not report the incarnation that held this work before the broker's restart; what became of it is unknown."})
			return
		}
		j.report()
		return
	}
	j.checked = true
	w, ok := trackedWords{}, false
	if m.answer.Error == nil {
		w, ok = jobWords(m.answer.Result)
	}
	change, known := trackedChange(w, m.answer, now)
	switch {
	case !ok || !known:
		j.report()
	case change != nil:
		j.finish(*change)
	default:
		j.goodPoll(now)
	}
}

// trackedChange maps a status answer onto the end of the job, or nil while the
// work goes on. known is false when the words are not understood.
func trackedChange(w trackedWords, a *broker.Answer, now time.Time) (change *broker.JobChange, known bool) {
	c := broker.JobChange{At: now, Reason: w.Reason, Message: w.FailureMessage, Refusal: w.Refusal}
	switch {
	case w.Code == broker.CodeJobNotFound:
		c.To, c.Reason = broker.JobLost, broker.CodeTrackedWorkLost
		c.Message = "The backend no longer knows this work; what became of it is unknown."
	case a.ToolError():
		return nil, false
	case w.Status == broker.JobAccepted || w.Status == broker.JobRunning:
		return nil, true
	case w.Status == broker.JobSucceeded:
		c.To, c.Result = broker.JobSucceeded, asToolResult(w.Result)
	case w.Status == broker.JobFailed:
		c.To = broker.JobFailed
	case w.Status == broker.JobLost:
		c.To = broker.JobLost
	default:
		return nil, false
	}
	return &c, true
}

// asToolResult gives the result of tracked work as a tool result: as it is
// when it is one, else as one text block.
func asToolResult(result json.RawMessage) json.RawMessage {
	var r struct {
		Content []json.RawMessage `json:"content"`
	}
	if json.Unmarshal(result, &r) == nil && r.Content != nil {
		return result
	}
	wrapped, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(result)}}})
	if err != nil {
		return result
	}
	return wrapped
}

func (j *job) goodPoll(now time.Time) {
	t := *j.record.Tracking
	t.LastGood = now
	j.record.Tracking = &t
	if now.Sub(j.noted) >= noteEvery {
		j.noted = now
		j.change(broker.JobChange{To: broker.JobRunning, At: now, Tracking: &t})
	}
	j.report()
}

func (j *job) report() {
	j.sys.send(j.sys.supervisor, &pollReport{id: j.record.ID})
}
