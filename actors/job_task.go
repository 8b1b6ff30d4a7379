package actors

import (
	"bytes"
	"encoding/json"

	"berth/broker"
	"berth/broker/catalog"
)

// This file follows a backend's own tasks, of either form of the protocol, as
// tracked jobs. Their ids are a backend's; callers see the job's.

// tasksDeclared are the capabilities with which a backend of the stateless era
// may answer with a task, and is asked about it.
var tasksDeclared = json.RawMessage(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)

// The protocol's words for where a task stands.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// theirTask is what is read of how a backend's task stands; result, error and
// requests belong to the extension.
type theirTask struct {
	Status   string           `json:"status"`
	Message  string           `json:"statusMessage"`
	Result   json.RawMessage  `json:"result"`
	Error    *broker.RPCError `json:"error"`
	Requests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
}

// maxTaskID is the longest id of a task that is followed.
const maxTaskID = 1024

// ownTask gives the handle in an answer that is a task of the backend's own,
// else nil.
func (s *System) ownTask(call *broker.Call, a *broker.Answer) *broker.Tracking {
	if a == nil || a.Error != nil || call.Method != "tools/call" ||
		!bytes.Contains(a.Result, []byte(`taskId`)) { // most answers are none, and large ones are not read twice
		return nil
	}
	id, is := extensionTask(a.Result)
	out := &broker.Tracking{Kind: broker.TrackTaskExtension, Handle: id, LastGood: s.now()}
	var t struct {
		Task struct {
			ID string `json:"taskId"`
		} `json:"task"`
	}
	switch {
	case is:
	case json.Unmarshal(a.Result, &t) == nil && s.takesTask(call):
		out.Kind, out.Handle = broker.TrackTask, t.Task.ID
	default:
		return nil
	}
	if out.Handle == "" || len(out.Handle) > maxTaskID {
		return nil
	}
	return out
}

// extensionTask reports whether a result is a task of the extension, and gives
// its id: "" when it has none that could be used. What else is wrong with the
// task shows when it is asked for.
func extensionTask(result json.RawMessage) (id string, is bool) {
	var t struct{ ResultType, TaskID json.RawMessage }
	if json.Unmarshal(result, &t) != nil || string(t.ResultType) != `"task"` {
		return "", false
	}
	if json.Unmarshal(t.TaskID, &id) != nil || len(id) > maxTaskID {
		return "", true
	}
	return id, true
}

// lostTask reports whether an answer is a task of the backend's own that nobody
// can ask for: passed on it would be a task that the caller never finds again.
func lostTask(call *broker.Call, a *broker.Answer) bool {
	if a.Error != nil || call.Method != "tools/call" || !bytes.Contains(a.Result, []byte(`"task"`)) {
		return false
	}
	id, is := extensionTask(a.Result)
	return is && id == ""
}

// verbOf finds the verb that a tools/call names, by the backend's own name.
func (s *System) verbOf(call *broker.Call) *catalog.Verb {
	p, ok := s.profileOf(call.Backend)
	if !ok || call.Method != "tools/call" {
		return nil
	}
	var params struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(call.Params, &params) != nil {
		return nil
	}
	v, ok := p.Resolve(params.Name)
	if !ok || v.Backend != call.Backend || v.Native {
		return nil
	}
	return v
}

// takesTask reports whether a verb's backend runs it as a task of the older
// form when it is asked to.
func (s *System) takesTask(call *broker.Call) bool {
	v := s.verbOf(call)
	return v != nil && v.OwnTask != catalog.TaskForbidden
}

// asTask is a job's call as its backend gets it: as a task of the backend's own
// where it has any, so that the work outlives this broker.
func (s *System) asTask(call *broker.Call) *broker.Call {
	own := *call
	if s.takesTask(call) {
		if params := bytes.TrimSpace(call.Params); len(params) > 2 && params[len(params)-1] == '}' {
			own.Params = append(params[:len(params)-1:len(params)-1], `,"task":{}}`...)
		}
	}
	if !call.Client.Stateless { // a stateless harness said in the call itself what it takes
		own.Client.Capabilities = withTasks(call.Client.Capabilities)
	}
	return &own
}

// withTasks adds the tasks extension to what a harness declared.
func withTasks(capabilities json.RawMessage) json.RawMessage {
	var all, extensions map[string]json.RawMessage
	if json.Unmarshal(capabilities, &all) != nil || all == nil {
		return tasksDeclared
	}
	_ = json.Unmarshal(all["extensions"], &extensions) // what is no object declares nothing
	if extensions == nil {
		extensions = map[string]json.RawMessage{}
	}
	if extensions["io.modelcontextprotocol/tasks"] == nil {
		extensions["io.modelcontextprotocol/tasks"] = json.RawMessage("{}")
	}
	all["extensions"] = encode(extensions)
	return encode(all)
}

// taskQuestion is how a task is asked for.
func (j *job) taskQuestion() (method string, params json.RawMessage) {
	params = encode(map[string]string{"taskId": j.record.Tracking.Handle})
	if j.fetch {
		return "tasks/result", params
	}
	return "tasks/get", params
}

// codeInvalidParams is how a backend says that it knows no such task.
const codeInvalidParams = -32602

// readTask reads the answer to a poll of a task.
func (j *job) readTask(m *outcome) (change *broker.JobChange, known bool) {
	fetched := j.fetch
	j.fetch = false
	if e := m.answer.Error; e != nil && e.Code == codeInvalidParams && !fetched {
		return &broker.JobChange{To: broker.JobLost, Reason: broker.CodeTrackedWorkLost,
			Message: "The backend no longer knows this task; what became of it is unknown."}, true
	}
	if fetched {
		return j.taskOutcome(m), true
	}
	if m.answer.Error != nil {
		return nil, false
	}
	var t theirTask
	if json.Unmarshal(m.answer.Result, &t) != nil {
		return nil, false
	}
	switch t.Status {
	case taskWorking:
		j.sys.asked.keep(j.record.ID, nil)
		return nil, true
	case taskInput:
		if j.record.Tracking.Kind == broker.TrackTask {
			// It asks on the stream of tasks/result. Without a caller who can be
			// asked it is left to its own time limit.
			j.fetch = j.start.req.Peer.Request != nil
			return nil, true
		}
		j.passQuestions(t)
		return nil, true
	case taskCancelled:
		return &broker.JobChange{To: broker.JobFailed, Reason: broker.CodeCancelled, Message: orElse(t.Message, "The backend cancelled the task.")}, true
	case taskCompleted, taskFailed:
		if j.record.Tracking.Kind == broker.TrackTask {
			j.fetch = true
			return nil, true
		}
		return j.taskEnd(t), true
	}
	return nil, false
}

// taskEnd maps the end of a task of the extension, which has its outcome in it.
func (j *job) taskEnd(t theirTask) *broker.JobChange {
	answer := &broker.Answer{Result: t.Result}
	switch {
	case t.Error != nil:
		answer = &broker.Answer{Error: t.Error}
	case len(t.Result) == 0 || t.Result[0] != '{':
		answer = &broker.Answer{Error: broker.NoPeer(orElse(t.Message, "The task ended as "+t.Status+" without a result."))}
	}
	return j.taskOutcome(&outcome{answer: answer})
}

// taskOutcome maps what became of a task onto the end of the job. That work was
// lost is another Berth's own word, and stays one.
func (j *job) taskOutcome(m *outcome) *broker.JobChange {
	c := outcomeChange(m, false, j.sys.now())
	if m.answer != nil {
		if reason := lostReason(m.answer.Error); reason != "" {
			c.To, c.Reason = broker.JobLost, reason
		}
	}
	return &c
}

// lostReason is the reason in a task's error that says that the work was lost,
// not that it failed.
func lostReason(e *broker.RPCError) broker.Code {
	var data struct {
		Reason broker.Code `json:"reason"`
	}
	if e == nil || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	switch data.Reason {
	case broker.CodeJobLostOnRestart, broker.CodeTrackedWorkLost:
		return data.Reason
	}
	return ""
}

func orElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

// tellTask is an answer of the job's caller to what a task in a backend asks.
type tellTask struct {
	key    string
	result json.RawMessage
}

// passQuestions makes what a task of the extension asks questions of the job.
func (j *job) passQuestions(t theirTask) {
	keys := map[string]bool{}
	for key := range t.Requests {
		keys[key] = true
	}
	j.sys.asked.keep(j.record.ID, keys)
	sys, self := j.sys, j.self
	for key, r := range t.Requests {
		deliver := func(result json.RawMessage, problem *broker.RPCError) {
			if problem == nil { // the extension has no form for a refused question: it stays open there
				sys.send(self, &tellTask{key: key, result: result})
			}
		}
		if _, problem := sys.asked.put(j.record.ID, Question{Key: key, Method: r.Method, Params: r.Params}, deliver); problem != nil {
			return
		}
	}
}

// tellTask hands an answer on to the task. If it does not arrive the task goes
// on asking, and the next poll shows the question again.
func (j *job) tellTask(m *tellTask) {
	if j.step != stepTrack {
		return
	}
	o := j.toBackend("tasks/update", encode(map[string]any{"taskId": j.record.Tracking.Handle,
		"inputResponses": map[string]json.RawMessage{m.key: m.result}}))
	o.call.Effects = broker.Write
	j.send(o)
}

// abandon asks the backend to stop a task; other tracked work has no verb for
// that. Nobody waits for the answer.
func (j *job) abandon() {
	t := j.record.Tracking
	if t == nil || !t.Kind.IsTask() {
		return
	}
	if j.poll != "" {
		j.sys.send(j.start.backend, &withdraw{callID: j.poll})
		j.poll = ""
	}
	o := j.toBackend("tasks/cancel", encode(map[string]string{"taskId": t.Handle}))
	o.call.Effects = broker.Interrupt
	j.send(o)
}
