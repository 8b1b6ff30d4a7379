package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/transport/jsonrpc"
)

// Jobs is where tasks are looked up and ended: a job of the broker is a task.
type Jobs interface {
	Job(id string) (broker.Job, error)
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	// Watch signals each durable change of a job.
	Watch(id string) (<-chan struct{}, func())
	CancelJob(ctx context.Context, id, reason string, by broker.Principal) (broker.Job, error)
}

// Questions is what the backends of running jobs ask their callers.
type Questions interface {
	Questions(id string) []actors.Question
	// Answer reports whether there was such a question.
	Answer(id, key string, result json.RawMessage, problem *broker.RPCError) bool
	WatchQuestions(id string) (<-chan struct{}, func())
}

// taskForm is one of the protocol's two forms of tasks.
type taskForm uint8

const (
	noTasks taskForm = iota
	// legacyTasks is the form of 2025-11-25: a client asks for a task with each
	// request.
	legacyTasks
	// extensionTasks is io.modelcontextprotocol/tasks: the broker decides.
	extensionTasks
)

// tasksExtension is the extension's name in capabilities.
const tasksExtension = "io.modelcontextprotocol/tasks"

// needTasks is the data of the error for a client that should have declared it.
var needTasks = json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)

// taskForm is the form that the request's client takes. Without a session a
// client of the handshake era is known by the version that it names.
func (rq *request) taskForm() taskForm {
	switch {
	case rq.client.Stateless:
		if declares(rq.client.Capabilities, "extensions", tasksExtension) {
			return extensionTasks
		}
		return noTasks
	case rq.session != nil && rq.session.version == mcp.ProtocolVersion20251125,
		rq.session == nil && rq.r.Header.Get(headerVersion) == mcp.ProtocolVersion20251125:
		return legacyTasks
	}
	return noTasks
}

// taskProblem is why a call cannot be made as it was asked for.
type taskProblem struct {
	code    int
	message string
	data    json.RawMessage
}

func (p *taskProblem) response(id []byte) []byte {
	return jsonrpc.AppendError(nil, id, p.code, p.message, p.data)
}

// asTask settles whether a call's job will be a task for its client, and takes
// the older form's wish out of params: it is for us, not for the backend. plan
// is made long when the client asked for a task.
func (rq *request) asTask(tc toolCall, plan *policy.Plan) (task bool, problem *taskProblem) {
	form := rq.taskForm()
	wish, asked := tc.params.Get("task")
	if asked {
		tc.params.Delete("task")
	}
	if form == extensionTasks {
		return true, nil
	}
	if form == legacyTasks && asked {
		switch {
		case wish[0] != '{':
			return false, &taskProblem{code: jsonrpc.CodeInvalidParams, message: `"task" must be an object`}
		case !plan.Verb.TakesTask():
			return false, &taskProblem{code: jsonrpc.CodeMethodNotFound, message: "This tool is not called as a task: " + clip(tc.name)}
		}
		plan.Long = true
		if plan.Lane == broker.LaneCalls {
			plan.Lane = broker.LaneJobs
		}
		return true, nil
	}
	if plan.Verb.RequireTask {
		p := &taskProblem{code: codeMissingCapability, message: "This tool runs only as a task, and the client did not declare that it takes any: " + clip(tc.name), data: needTasks}
		if form == legacyTasks { // where this is what the protocol says
			p.code, p.data = jsonrpc.CodeMethodNotFound, nil
		}
		return false, p
	}
	return false, nil
}

// judge gives the error for what a client that takes tasks cannot be asked.
func (rq *request) judge() func(method string, params json.RawMessage) *broker.RPCError {
	capabilities := rq.client.Capabilities
	return func(method string, params json.RawMessage) *broker.RPCError {
		switch method {
		case "sampling/createMessage", "elicitation/create", "roots/list":
			return undeclared(capabilities, method, params)
		}
		return &broker.RPCError{Code: jsonrpc.CodeMethodNotFound, Message: "A task has no way to ask its client for " + clip(method) + "."}
	}
}

// taskCreated is the response that hands a job over as a task. The job's record
// is durable: it came with the broker's reply.
func (s *Server) taskCreated(rq *request, job broker.Job) []byte {
	view := viewTask(job, nil)
	if rq.taskForm() == extensionTasks {
		return jsonrpc.AppendResult(nil, rq.msg.ID, view.createdResult())
	}
	hint := "The call goes on as task " + job.ID + "."
	if view.final() {
		hint = ""
	} else if rq.session != nil {
		s.given.to(rq.session.key, job.ID)
	}
	return jsonrpc.AppendResult(nil, rq.msg.ID, view.legacyCreated(hint))
}

// listPage is a page of the list as the request's client should see it.
func (rq *request) listPage(profile *catalog.Profile, cursor string) (json.RawMessage, *broker.Refusal) {
	if rq.taskForm() == legacyTasks {
		return profile.TaskPage(cursor)
	}
	return profile.Page(cursor)
}

// legacyTaskCapability is what a server declares in the form of 2025-11-25.
var legacyTaskCapability = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)

// withTaskCapability gives a profile's capabilities the tasks that Berth has
// for a client, whatever the backend says of its own: those are followed here.
func withTaskCapability(capabilities json.RawMessage, form taskForm, profile *catalog.Profile) json.RawMessage {
	o, err := jsonrpc.ParseObject(capabilities)
	if err != nil {
		return capabilities
	}
	o.Delete("tasks")
	switch form {
	case legacyTasks:
		// What the merged profile will hold is not known when it is introduced.
		if profile == nil || !profile.Exact() || profile.Tasks() {
			o.Set("tasks", legacyTaskCapability)
		}
	case extensionTasks:
		extensions := jsonrpcObject(o, "extensions")
		if _, there := extensions.Get(tasksExtension); !there {
			extensions.Set(tasksExtension, []byte("{}"))
		}
		o.Set("extensions", extensions.Bytes())
	}
	return o.Bytes()
}

// sessionTasks is withTaskCapability for a session that is being opened.
func (s *Server) sessionTasks(ses *session, capabilities json.RawMessage) json.RawMessage {
	form := noTasks
	if ses.version == mcp.ProtocolVersion20251125 {
		form = legacyTasks
	}
	profile, ok := s.opts.Broker.Catalog().Profile(s.named(ses.profile))
	if !ok || profile.Surface() != nil { // none but an instance that the session brings: a surface
		return capabilities
	}
	return withTaskCapability(capabilities, form, profile)
}

// jsonrpcObject is the object in a member; an empty one when there is none.
func jsonrpcObject(o *jsonrpc.Object, member string) *jsonrpc.Object {
	if raw, ok := o.Get(member); ok {
		if inner, err := jsonrpc.ParseObject(raw); err == nil {
			return inner
		}
	}
	inner, _ := jsonrpc.ParseObject([]byte("{}"))
	return inner
}

// cancelLimit bounds the wait for a cancel to be durable.
const cancelLimit = 10 * time.Second

// cancelReason is what the record says of a task that its client cancelled.
const cancelReason = "cancelled by the client through tasks/cancel"

// taskParams reads the id that a request about a task names.
func taskParams(rq *request) (params *jsonrpc.Object, id string, ok bool) {
	params, err := jsonrpc.ParseObject(rq.msg.Params)
	if err != nil {
		return nil, "", false
	}
	id, ok = params.Text("taskId")
	return params, id, ok && id != ""
}

// maxTaskID is more than any id of ours has.
const maxTaskID = 64

// findTask gives the caller's own job of an id. Another's, another backend's in
// an exact profile, and none at all are the same to the caller.
func (s *Server) findTask(rq *request, id string) (broker.Job, []byte) {
	if len(id) > maxTaskID {
		return broker.Job{}, unknownTask(rq)
	}
	job, err := s.opts.Broker.Job(id)
	switch {
	case errors.Is(err, broker.ErrJobNotFound):
		return broker.Job{}, unknownTask(rq)
	case err != nil:
		s.opts.Logger.Error("a task could not be read", slog.String("job", id), slog.Any("error", err))
		return broker.Job{}, refusalError(rq.msg.ID, broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", nil).Retry(time.Second))
	case !rq.principal.Owns(job.Tenant, job.User), rq.backend != "" && job.Backend != rq.backend:
		return broker.Job{}, unknownTask(rq)
	}
	return job, nil
}

func unknownTask(rq *request) []byte {
	return jsonrpc.AppendError(nil, rq.msg.ID, jsonrpc.CodeInvalidParams, "There is no task of yours with this id: it never existed, or it ended more than 14 days ago.", nil)
}

func (s *Server) view(job broker.Job) taskView {
	if job.Status.Final() {
		return viewTask(job, nil)
	}
	return viewTask(job, s.opts.Broker.Questions(job.ID))
}

// cancelTask ends a task. ended says that it had ended before.
func (s *Server) cancelTask(rq *request, id string) (job broker.Job, ended bool, response []byte) {
	job, response = s.findTask(rq, id)
	if response != nil || job.Status.Final() {
		return job, response == nil, response
	}
	ctx, done := context.WithTimeout(rq.r.Context(), cancelLimit)
	defer done()
	after, err := s.opts.Broker.CancelJob(ctx, id, cancelReason, rq.principal)
	var refusal *broker.Refusal
	switch {
	case err == nil:
		return after, false, nil
	case errors.As(err, &refusal) && refusal.Code == broker.CodeJobTerminal:
		if job, response = s.findTask(rq, id); response != nil {
			return job, false, response
		}
		return job, true, nil
	case errors.As(err, &refusal):
		return job, false, refusalError(rq.msg.ID, refusal)
	}
	s.opts.Logger.Error("a task could not be cancelled", slog.String("job", id), slog.Any("error", err))
	return job, false, refusalError(rq.msg.ID, broker.AsRefusal(err))
}

// asking writes a task's question to the client of an exchange and hands the
// answer on.
func (s *Server) asking(ctx context.Context, x *exchange, id string, q actors.Question) {
	ask := s.askOnStream(x)
	if ask == nil {
		return
	}
	params := q.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	result, problem := ask(ctx, q.Method, withRelatedTask(params, id))
	if ctx.Err() != nil {
		return // the next tasks/result asks again
	}
	s.opts.Broker.Answer(id, q.Key, result, problem)
}
