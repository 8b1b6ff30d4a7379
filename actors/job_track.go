package actors

import (
	"encoding/json"
	"log/slog"
	"time"

	"berth/broker"
)

// This file is the part of the job actor that follows work which lives in a
// backend: by asking the backend how it stands, on the control lane, one poll
// at a time, when the supervisor says so. The work is a task of the protocol
// (job_task.go), what an operator declared with `tracks`, or a job of another
// broker: verbs that answer JobId and Status, as Berth's own do.

// statusVerb is the status verb of the last of these.
const statusVerb = "job_status"

// noteEvery is how often a good poll is written down; in between it is known
// to the actor only.
const noteEvery = time.Minute

// pollJob asks a tracked job to look.
type pollJob struct{}

// trackable gives the handle in an answer to a job's call, or nil when the
// answer is the outcome.
func (s *System) trackable(call *broker.Call, a *broker.Answer) *broker.Tracking {
	if a == nil || a.Error != nil || a.ToolError() {
		return nil
	}
	if t := s.following(call, a); t != nil {
		t.Answer = a.Result
		return t
	}
	if t := s.ownTask(call, a); t != nil {
		return t
	}
	if v := s.verbOf(call); v != nil && v.Tracks != nil {
		handle, ok := v.Tracks.HandleIn(a.Result)
		if !ok {
			return nil
		}
		return &broker.Tracking{Kind: broker.TrackVerb, Handle: handle, Verb: v.Tracks.Verb, Rule: v.Tracks, LastGood: s.now()}
	}
	if !s.hasVerb(call.Backend, statusVerb) {
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
func (j *job) follow(t broker.Tracking, runtimeID string) {
	j.step = stepTrack
	j.working(false)
	j.record.Tracking = &t
	if t.Kind == broker.TrackApp { // the life that answered, which is not known before
		j.record.RuntimeID = runtimeID
	}
	j.write()
	j.log.Info("job is tracked in its backend", slog.String("handle", t.Handle))
	j.sys.send(j.sys.supervisor, j.toTrack())
}

func (j *job) pollNow() {
	if j.step != stepTrack || j.poll != "" {
		return
	}
	method, params := j.question()
	o := j.toBackend(method, params)
	if kind := j.record.Tracking.Kind; kind == broker.TrackApp || (!j.checked && !kind.IsTask()) {
		o.call.ExpectedRuntimeID = j.record.RuntimeID
	}
	if j.fetch { // it may wait for the caller; the job's own limit counts
		o.peer.Request = j.start.req.Peer.Request
		o.isJob.Store(true)
	}
	j.poll = o.call.ID
	j.send(o)
}

// question is how the backend is asked how the work stands.
func (j *job) question() (method string, params json.RawMessage) {
	t := j.record.Tracking
	switch {
	case t.Kind.IsTask():
		return j.taskQuestion()
	case t.Kind == broker.TrackApp:
		return j.appQuestion()
	}
	arguments := json.RawMessage(nil)
	if t.Rule != nil {
		arguments = t.Rule.Arguments(t.Handle)
	} else {
		arguments = encode(map[string]string{"jobId": t.Handle})
	}
	return "tools/call", encode(map[string]any{"name": t.Verb, "arguments": arguments})
}

// encode is for values whose encoding cannot fail.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// toBackend is a call of the job's own about the work in the backend.
func (j *job) toBackend(method string, params json.RawMessage) *offer {
	call := &broker.Call{
		ID: j.sys.NewCallID(), Principal: broker.Principal{Tenant: j.record.Tenant, User: j.record.User},
		Backend: j.record.Backend, Verb: j.record.Operation, Effects: broker.Read, Lane: broker.LaneControl,
		Method: method, Params: params, Client: broker.Client{Capabilities: tasksDeclared},
	}
	return &offer{sys: j.sys, call: call, owner: j.self, offered: j.sys.now(), runTimeout: defaultStartTimeout}
}

func (j *job) send(o *offer) {
	if refusal := j.sys.admit(o.call); refusal != nil {
		j.outcome(&outcome{callID: o.call.ID, refusal: refusal})
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
	change, known := j.read(m)
	switch {
	case !known:
		j.report()
	case change != nil:
		change.At = now
		j.finish(*change)
	case j.fetch && j.poll == "":
		j.pollNow() // it has ended: the result at once
	default:
		j.goodPoll(now)
	}
}

// read gives the end that an answer to a poll tells of, nil while the work goes
// on; known is false when the answer is not understood.
func (j *job) read(m *outcome) (change *broker.JobChange, known bool) {
	t := j.record.Tracking
	switch {
	case t.Kind.IsTask():
		return j.readTask(m)
	case m.answer.Error != nil:
		return nil, false
	case t.Kind == broker.TrackApp:
		return j.readApp(m)
	case t.Rule != nil:
		if m.answer.ToolError() {
			return nil, false
		}
		if change, known = t.Rule.Change(m.answer.Result); change != nil && change.To == broker.JobSucceeded {
			change.Result = asToolResult(change.Result)
		}
		return change, known
	}
	w, ok := jobWords(m.answer.Result)
	if !ok {
		return nil, false
	}
	return trackedChange(w, m.answer, j.sys.now())
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
	if now.Sub(j.noted) >= noteEvery && j.record.Status == broker.JobRunning {
		j.noted = now
		j.change(broker.JobChange{To: broker.JobRunning, At: now, Tracking: &t})
	}
	j.report()
}

func (j *job) report() {
	j.sys.send(j.sys.supervisor, &pollReport{id: j.record.ID})
}
