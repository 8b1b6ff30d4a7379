package mcpserver

import (
	"context"
	"strconv"
	"sync"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// Tasks in the form of 2025-11-25: the client asks for a task with `task` in
// its tools/call, and fetches the outcome with tasks/result.

// taskListPage is how many tasks a page of tasks/list holds.
const taskListPage = 100

// ofLegacyTasks wraps a method that only clients of that version have.
func ofLegacyTasks(handle func(*Server, *request)) func(*Server, *request) {
	return func(s *Server, rq *request) {
		if rq.taskForm() != legacyTasks {
			rq.fail(jsonrpc.CodeMethodNotFound, "Method not found: "+clip(rq.msg.Method), nil)
			return
		}
		if rq.attach != nil {
			rq.refuse(rq.attach)
			return
		}
		handle(s, rq)
	}
}

func (s *Server) legacyGetTask(rq *request) {
	_, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	job, response := s.findTask(rq, id)
	if response == nil {
		response = jsonrpc.AppendResult(nil, rq.msg.ID, s.view(job).legacy())
	}
	rq.answer(response)
}

// legacyCancelTask refuses what has ended, as the protocol says.
func (s *Server) legacyCancelTask(rq *request) {
	_, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	job, ended, response := s.cancelTask(rq, id)
	switch {
	case response != nil:
	case ended:
		response = jsonrpc.AppendError(nil, rq.msg.ID, jsonrpc.CodeInvalidParams, "The task has ended: it is "+string(viewTask(job, nil).status)+".", nil)
	default:
		response = jsonrpc.AppendResult(nil, rq.msg.ID, viewTask(job, nil).legacy())
	}
	rq.answer(response)
}

// legacyListTasks lists the caller's own, newest first; in an exact profile
// those of its backend.
func (s *Server) legacyListTasks(rq *request) {
	offset := 0
	if rq.msg.Params != nil {
		params, err := jsonrpc.ParseObject(rq.msg.Params)
		if err != nil {
			rq.fail(jsonrpc.CodeInvalidParams, `"params" must be an object`, nil)
			return
		}
		if raw, there := params.Get("cursor"); there {
			cursor, _ := params.Text("cursor")
			if offset, err = strconv.Atoi(cursor); err != nil || offset <= 0 || len(raw) > 12 {
				rq.fail(jsonrpc.CodeInvalidParams, "The cursor is none that a list of tasks gave.", nil)
				return
			}
		}
	}
	if rq.principal.Tenant == "" || rq.principal.User == "" { // an empty field would select everybody's
		rq.result([]byte(`{"tasks":[]}`))
		return
	}
	page, err := s.opts.Broker.Jobs(broker.JobFilter{Tenant: rq.principal.Tenant, User: rq.principal.User, Backend: rq.backend, Limit: taskListPage, Offset: offset})
	if err != nil {
		rq.refuse(broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", nil))
		return
	}
	out := []byte(`{"tasks":[`)
	for i, job := range page.Jobs {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, s.view(job).legacy()...)
	}
	out = append(out, ']')
	if next := offset + len(page.Jobs); len(page.Jobs) > 0 && next < page.Total {
		out = append(append(append(out, `,"nextCursor":"`...), strconv.Itoa(next)...), '"')
	}
	rq.result(append(out, '}'))
}

// legacyTaskResult waits for the end of a task and answers as its call would
// have been answered. What the task asks meanwhile is written on the stream.
func (s *Server) legacyTaskResult(rq *request) {
	_, id, ok := taskParams(rq)
	if !ok {
		rq.fail(jsonrpc.CodeInvalidParams, `"taskId" must be a string`, nil)
		return
	}
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	x := &exchange{rq: rq}
	s.run(x, func(ctx context.Context) []byte {
		ctx, end := s.waits.enter(ctx, rq)
		defer end()
		return s.awaitTask(ctx, x, id)
	})
}

// awaitTask gives nil when the wait was cancelled.
func (s *Server) awaitTask(ctx context.Context, x *exchange, id string) []byte {
	var asks sync.WaitGroup
	defer asks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := map[string]bool{}
	for {
		// Watch before looking: a change between the two is not missed.
		changed, stop := s.opts.Broker.Watch(id)
		asking, stopAsking := s.opts.Broker.WatchQuestions(id)
		job, response := s.findTask(x.rq, id)
		if response == nil && job.Status.Final() {
			response = taskOutcome(x.rq.msg.ID, s.sized(x.rq, job, viewTask(job, nil)))
		}
		if response == nil {
			for _, q := range s.opts.Broker.Questions(id) {
				if !asked[q.Key] {
					asked[q.Key] = true
					asks.Go(func() { s.asking(ctx, x, id, q) })
				}
			}
			select {
			case <-changed:
			case <-asking:
			case <-ctx.Done():
			case <-s.waits.over:
				response = refusalError(x.rq.msg.ID, broker.Refuse(broker.CodeShuttingDown, "The broker is stopping; ask again when it is back.", nil))
			}
		}
		stop()
		stopAsking()
		if response != nil || ctx.Err() != nil {
			return response
		}
	}
}

// taskOutcome is the response of tasks/result: the call's own result or error.
func taskOutcome(id []byte, v taskView) []byte {
	switch {
	case v.fault != nil:
		return jsonrpc.AppendErrorObject(nil, id, v.fault.Object())
	case len(v.result) == 0:
		return jsonrpc.AppendError(nil, id, codeRefused, "The task has no result.", nil)
	}
	return jsonrpc.AppendResult(nil, id, withRelatedTask(v.result, v.id))
}

// waits are the requests that wait for a task or for a backend's list, so that
// a cancel by id finds them (and a stop those for a task): no call of the
// broker's belongs to them.
type waits struct {
	over chan struct{} // closed when the front drains
	once sync.Once

	mu   sync.Mutex
	open map[string]context.CancelFunc // by session and raw id
}

func (w *waits) enter(ctx context.Context, rq *request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if rq.session == nil {
		return ctx, cancel
	}
	key := rq.session.key + " " + string(rq.msg.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[string]context.CancelFunc{}
	}
	if _, taken := w.open[key]; taken {
		return ctx, cancel // the id is in use: only the first can be cancelled by it
	}
	w.open[key] = cancel
	return ctx, func() {
		w.mu.Lock()
		delete(w.open, key)
		w.mu.Unlock()
		cancel()
	}
}

// stop ends all waits, and those that begin later.
func (w *waits) stop() { w.once.Do(func() { close(w.over) }) }

// cancel ends the wait of a request, if there is one.
func (w *waits) cancel(session, requestID string) {
	w.mu.Lock()
	cancel := w.open[session+" "+requestID]
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
