package mcpserver

import (
	"encoding/json"

	"berth/transport/jsonrpc"
)

// Tasks as the extension io.modelcontextprotocol/tasks: the broker decides what
// becomes a task, tasks/get has the outcome in it, and tasks/update answers what
// a task asks.

// completeResult is the empty acknowledgement.
var completeResult = json.RawMessage(`{"resultType":"complete"}`)

const sayTasks = "The client did not declare " + tasksExtension + " with this request."

// ofTasksExtension wraps a method for clients that declared the extension.
func ofTasksExtension(handle func(*Server, *request)) func(*Server, *request) {
	return func(s *Server, rq *request) {
		if rq.taskForm() != extensionTasks {
			rq.fail(codeMissingCapability, sayTasks, needTasks)
			return
		}
		if rq.attach != nil {
			rq.refuse(rq.attach)
			return
		}
		handle(s, rq)
	}
}

func (s *Server) getTask(rq *request) {
	_, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	job, response := s.findTask(rq, id)
	if response == nil {
		response = jsonrpc.AppendResult(nil, rq.msg.ID, s.sized(rq, job, s.view(job)).detailed(true))
	}
	rq.answer(response)
}

// updateTask hands answers on. Keys that nothing waits for are passed over: they
// come late, or twice.
func (s *Server) updateTask(rq *request) {
	params, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	raw, _ := params.Get("inputResponses")
	responses, err := jsonrpc.ParseObject(raw)
	if err != nil {
		rq.fail(jsonrpc.CodeInvalidParams, `"inputResponses" must be an object`, nil)
		return
	}
	if name, again := responses.Repeated(); again {
		rq.fail(jsonrpc.CodeInvalidParams, "inputResponses repeat the key "+clip(name), nil)
		return
	}
	for _, m := range responses.Members() {
		if m.Value[0] != '{' {
			rq.fail(jsonrpc.CodeInvalidParams, "An input response must be an object: "+clip(m.Name), nil)
			return
		}
	}
	job, response := s.findTask(rq, id)
	if response != nil {
		rq.answer(response)
		return
	}
	if !job.Status.Final() {
		for _, m := range responses.Members() {
			s.opts.Broker.Answer(id, m.Name, append(json.RawMessage(nil), m.Value...), nil)
		}
	}
	rq.result(completeResult)
}

// cancelTaskExtension acknowledges a cancel; one of what has ended changes
// nothing and is acknowledged, too.
func (s *Server) cancelTaskExtension(rq *request) {
	_, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	_, _, response := s.cancelTask(rq, id)
	if response == nil {
		response = jsonrpc.AppendResult(nil, rq.msg.ID, completeResult)
	}
	rq.answer(response)
}
