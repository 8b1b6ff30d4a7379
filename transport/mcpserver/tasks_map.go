package mcpserver

import (
	"encoding/json"
	"strconv"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// A Berth job is a task: this file says how the one is shown as the other. It
// is pure; both forms of the protocol are written from one view.

// taskStatus is where a task stands, in the protocol's words.
type taskStatus string

// The statuses of a task.
const (
	taskWorking       taskStatus = "working"
	taskInputRequired taskStatus = "input_required"
	taskCompleted     taskStatus = "completed"
	taskFailed        taskStatus = "failed"
	taskCancelled     taskStatus = "cancelled"
)

// The hints of a task. A final job is kept for its retention after it ended, so
// the same time after its creation is the least that can be promised.
const (
	taskTTL          = broker.Retention
	taskPollInterval = time.Second
)

// relatedTask is the key of `_meta` that ties a message to a task (2025-11-25).
const relatedTask = "io.modelcontextprotocol/related-task"

// taskView is a job as a task. At most one of result and fault is set, and only
// when the task has ended and the record was read with its result.
type taskView struct {
	id               string
	status           taskStatus
	message          string
	created, updated time.Time
	result           json.RawMessage
	fault            *broker.RPCError
	questions        []actors.Question
}

// viewTask maps a job. A failure that is a tool result is a task that has
// completed: the tool ran, and the model should read what it said.
func viewTask(j broker.Job, questions []actors.Question) taskView {
	v := taskView{id: j.ID, status: taskWorking, created: j.SubmittedAt, updated: j.SubmittedAt}
	if j.StartedAt != nil {
		v.updated = *j.StartedAt
	}
	if j.Tracking != nil && j.Tracking.LastGood.After(v.updated) {
		v.updated = j.Tracking.LastGood
	}
	if j.CompletedAt != nil {
		v.updated = *j.CompletedAt
	}
	switch j.Status {
	case broker.JobAccepted:
		v.message = "waits for a seat at its backend"
	case broker.JobSucceeded:
		v.status, v.result = taskCompleted, j.Result
	case broker.JobFailed, broker.JobLost:
		v.message = j.FailureMessage
		switch {
		case j.Reason == broker.CodeCancelled && j.Status == broker.JobFailed:
			v.status = taskCancelled
			v.fault = jobFault(j)
		case j.ResultIsError && j.Status == broker.JobFailed:
			v.status, v.result = taskCompleted, j.Result
		default:
			v.status = taskFailed
			v.fault = jobFault(j)
		}
	}
	if v.status == taskWorking && len(questions) > 0 {
		v.status, v.message, v.questions = taskInputRequired, "waits for an answer of the client", questions
	}
	return v
}

// final reports whether the task has ended.
func (v taskView) final() bool { return v.status != taskWorking && v.status != taskInputRequired }

// jobFault is why a job has no result, as a JSON-RPC error: a backend's own
// error with its code, message and data, else one of ours. data.reason is the
// job's reason in either case.
func jobFault(j broker.Job) *broker.RPCError {
	reason := jsonrpc.Quote(string(j.Reason))
	var refusal struct {
		Message string `json:"message"`
		Detail  struct {
			Code *int            `json:"rpc_code"`
			Data json.RawMessage `json:"rpc_data"`
		} `json:"detail"`
	}
	if len(j.Refusal) > 0 && json.Unmarshal(j.Refusal, &refusal) == nil && refusal.Detail.Code != nil {
		return &broker.RPCError{Code: *refusal.Detail.Code, Message: refusal.Message, Data: withReason(refusal.Detail.Data, reason)}
	}
	data := append([]byte(`{"reason":`), reason...)
	if len(j.Refusal) > 0 {
		data = append(append(data, `,"refusal":`...), j.Refusal...)
	}
	return &broker.RPCError{Code: codeRefused, Message: j.FailureMessage, Data: append(data, '}')}
}

// withReason puts the reason into a backend's error data: beside its members
// when it is an object, else beside it. A reason of the backend's own stays, and
// ours is then found in berth/reason.
func withReason(data, reason json.RawMessage) json.RawMessage {
	if len(data) == 0 || string(data) == "null" {
		return append(append([]byte(`{"reason":`), reason...), '}')
	}
	o, err := jsonrpc.ParseObject(data)
	if err != nil {
		out := append(append([]byte(`{"reason":`), reason...), `,"data":`...)
		return append(append(out, data...), '}')
	}
	if _, taken := o.Get("reason"); taken {
		o.Set("berth/reason", reason)
	} else {
		o.Set("reason", reason)
	}
	return o.Bytes()
}

// members appends the members that both forms have, without the brace before
// and after.
func (v taskView) members(out []byte, ttl, poll string) []byte {
	out = append(append(out, `"taskId":`...), jsonrpc.Quote(v.id)...)
	out = append(append(append(out, `,"status":"`...), v.status...), '"')
	if v.message != "" {
		out = append(append(out, `,"statusMessage":`...), jsonrpc.Quote(v.message)...)
	}
	out = append(append(append(out, `,"createdAt":"`...), broker.FormatTime(v.created)...), '"')
	out = append(append(append(out, `,"lastUpdatedAt":"`...), broker.FormatTime(v.updated)...), '"')
	out = strconv.AppendInt(append(out, `,"`+ttl+`":`...), taskTTL.Milliseconds(), 10)
	return strconv.AppendInt(append(out, `,"`+poll+`":`...), taskPollInterval.Milliseconds(), 10)
}

// legacy is the task in the form of 2025-11-25.
func (v taskView) legacy() json.RawMessage {
	return append(v.members([]byte{'{'}, "ttl", "pollInterval"), '}')
}

// legacyCreated is the CreateTaskResult of 2025-11-25. hint is what a model may
// be told meanwhile.
func (v taskView) legacyCreated(hint string) json.RawMessage {
	out := append([]byte(`{"task":`), v.legacy()...)
	if hint != "" {
		out = append(append(out, `,"_meta":{"io.modelcontextprotocol/model-immediate-response":`...), jsonrpc.Quote(hint)...)
		out = append(out, '}')
	}
	return append(out, '}')
}

// createdResult is the CreateTaskResult of the extension: the task and nothing that
// belongs to tasks/get.
func (v taskView) createdResult() json.RawMessage {
	return append(v.members([]byte(`{"resultType":"task",`), "ttlMs", "pollIntervalMs"), '}')
}

// detailed is the task of the extension with what its status has: its result,
// its error or what it asks.
func (v taskView) detailed(resultType bool) json.RawMessage {
	out := []byte{'{'}
	if resultType {
		out = append(out, `"resultType":"complete",`...)
	}
	out = v.members(out, "ttlMs", "pollIntervalMs")
	switch {
	case v.status == taskCompleted && len(v.result) > 0:
		out = append(append(out, `,"result":`...), withRelatedTask(v.result, "")...)
	case v.status == taskFailed && v.fault != nil:
		out = append(append(out, `,"error":`...), v.fault.Object()...)
	case v.status == taskInputRequired:
		out = append(out, `,"inputRequests":{`...)
		for i, q := range v.questions {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, jsonrpc.Quote(q.Key)...), `:{"method":`...)
			out = append(out, jsonrpc.Quote(q.Method)...)
			if len(q.Params) > 0 {
				out = append(append(out, `,"params":`...), q.Params...)
			}
			out = append(out, '}')
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// withRelatedTask sets the task of a result or of params in `_meta`, or takes a
// backend's own away when id is empty. What has no place for it stays as it is.
func withRelatedTask(raw json.RawMessage, id string) json.RawMessage {
	o, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return raw
	}
	own, there := o.Get("_meta")
	if !there {
		if id == "" {
			return raw
		}
		own = json.RawMessage("{}")
	}
	meta, err := jsonrpc.ParseObject(own)
	if err != nil {
		return raw
	}
	if id != "" {
		meta.Set(relatedTask, append(append([]byte(`{"taskId":`), jsonrpc.Quote(id)...), '}'))
	} else if !meta.Delete(relatedTask) {
		return raw
	}
	if meta.Len() == 0 {
		o.Delete("_meta")
	} else {
		o.Set("_meta", meta.Bytes())
	}
	return o.Bytes()
}
