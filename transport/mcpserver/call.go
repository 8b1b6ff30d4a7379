package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/broker/shape"
	"berth/transport/jsonrpc"
)

// toolCall is the params of tools/call, read once.
type toolCall struct {
	params    *jsonrpc.Object
	name      string
	arguments json.RawMessage // nil when absent or null
	meta      *jsonrpc.Object // nil when absent
	metaRaw   json.RawMessage
}

// callTool answers tools/call.
func (s *Server) callTool(rq *request) {
	tc, problem := readToolCall(rq.msg.Params)
	profile, ok := s.profile(rq)
	if problem != "" && (!ok || profile.SurfaceOf(verbNamed(profile, tc)) == nil) {
		rq.refuse(broker.Refuse(broker.CodeInvalidArguments, problem, nil))
		return
	}
	if !ok {
		rq.refuse(broker.Refuse(broker.CodeProfileUnknown, "There is no profile or backend of this name.", nil))
		return
	}
	if problem != "" {
		rq.answer(rq.malformed(profile, tc, problem))
		return
	}
	if refusal := s.admit(rq); refusal != nil {
		rq.answer(rq.refusedCall(profile, tc, refusal))
		return
	}
	defer s.streams.leave()

	plan, refusal := check(rq, profile, tc)
	owners := mayAppear(profile, tc.name, refusal)
	if refusal != nil && len(owners) == 0 {
		rq.answer(s.refused(rq, profile, tc, refusal))
		return
	}
	rq.no = func(refusal *broker.Refusal) []byte { return rq.refusedCall(profile, tc, refusal) }
	x := &exchange{rq: rq}
	if tc.meta != nil {
		token, _ := tc.meta.Get("progressToken")
		x.progress = newProgress(token, s.opts.Now)
	}
	s.run(x, func(ctx context.Context) []byte {
		if refusal != nil {
			waiting, done := s.waits.enter(ctx, rq)
			profile, refusal = s.awaitOwners(waiting, rq, owners)
			cancelled := waiting.Err() != nil
			done()
			switch {
			case cancelled:
				return nil
			case refusal != nil:
				return refusalError(rq.msg.ID, refusal)
			}
			if plan, refusal = check(rq, profile, tc); refusal != nil {
				return s.refused(rq, profile, tc, refusal)
			}
		}
		return s.do(ctx, x, profile, tc, plan)
	})
}

// readToolCall takes the params apart. A repeated name would let a backend
// read another call than the one that was checked, so it is refused where
// anything is decided by it.
func readToolCall(raw json.RawMessage) (tc toolCall, problem string) {
	var err error
	if tc.params, err = jsonrpc.ParseObject(raw); err != nil {
		return tc, "tools/call needs an object with name and arguments as params"
	}
	if name, again := tc.params.Repeated(); again {
		return tc, "params repeat the member " + clip(name)
	}
	var ok bool
	if tc.name, ok = tc.params.Text("name"); !ok {
		return tc, `"name" must be a string`
	}
	if arguments, there := tc.params.Get("arguments"); there && string(arguments) != "null" {
		if arguments[0] != '{' {
			return tc, `"arguments" must be an object`
		}
		tc.arguments = arguments
	}
	if tc.metaRaw, ok = tc.params.Get("_meta"); ok {
		if tc.meta, err = jsonrpc.ParseObject(tc.metaRaw); err != nil {
			return tc, `"_meta" must be an object`
		}
		if name, again := tc.meta.Repeated(); again {
			return tc, "_meta repeats the member " + clip(name)
		}
	}
	return tc, ""
}

func check(rq *request, profile *catalog.Profile, tc toolCall) (policy.Plan, *broker.Refusal) {
	return policy.Check(policy.Input{Profile: profile, Principal: rq.principal, Name: tc.name, Arguments: tc.arguments, Meta: tc.metaRaw})
}

// mayAppear lists the backends that have not listed yet and that a refused name
// may be one of, so that waiting for them a little is worth it.
func mayAppear(profile *catalog.Profile, name string, refusal *broker.Refusal) []string {
	if refusal == nil || (refusal.Code != broker.CodeVerbUnknown && refusal.Code != broker.CodeCatalogPending) {
		return nil
	}
	return profile.MayHold(name)
}

// awaitOwners gives a profile once the backends that matter to a call have
// listed, or as it is when the limit has passed. Another backend that does not
// list delays nobody.
func (s *Server) awaitOwners(ctx context.Context, rq *request, owners []string) (*catalog.Profile, *broker.Refusal) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Limits.ListWait)
	defer cancel()
	for _, backend := range owners {
		s.opts.Broker.AwaitCatalog(ctx, backend)
	}
	profile, ok := s.profile(rq)
	if !ok {
		return nil, profileUnknown()
	}
	return profile, nil
}

// do hands the call to the broker and turns the reply into the response.
func (s *Server) do(ctx context.Context, x *exchange, profile *catalog.Profile, tc toolCall, plan policy.Plan) []byte {
	rq, verb := x.rq, plan.Verb
	task, problem := rq.asTask(tc, &plan)
	if problem != nil {
		return problem.response(rq.msg.ID)
	}
	call := &broker.Call{
		ID: s.callID(), Principal: rq.principal, Backend: verb.Backend, Verb: verb.Name, Effects: plan.Effects,
		Lane: plan.Lane, Seats: max(1, verb.Seats),
		Method: "tools/call", Params: upstreamParams(tc, plan),
		WantProgress: x.progress != nil, ExpectedRuntimeID: plan.ExpectedRuntimeID, Client: rq.client,
	}
	req := actors.Request{Call: call, PromoteAfter: s.promoteAfter(rq, verb), Long: plan.Long,
		IdempotencyKey: plan.IdempotencyKey, Digest: plan.Digest, Peer: s.levelled(rq, verb.Backend, s.peer(x)),
		Held: verb.Held, Binding: rq.binding}
	if verb.CallTimeout != nil {
		req.CallTimeout = *verb.CallTimeout
	}
	if rq.session != nil {
		// Without a session every request is a scope of ids of its own, so
		// there is none that another request could cancel or collide with.
		call.Session, req.RequestID = rq.session.key, string(rq.msg.ID)
	}
	if task {
		req.Tasks = rq.judge()
	}
	return s.perform(ctx, x, req, func(rq *request, reply actors.Reply) []byte {
		if reply.Job != nil && verb.Surface != nil {
			reply = s.awaitAnswer(ctx, call, reply)
		}
		if reply.Job != nil && (task && rq.taskForm() == legacyTasks || rq.taskForm() == extensionTasks) {
			return s.taskCreated(rq, *reply.Job)
		}
		return s.render(rq, profile, tc, call, verb, reply)
	})
}

// promoteAfter is the verb's own rule, else what the client is known for. The
// broker's own verbs answer for themselves and become no jobs unless told to.
func (s *Server) promoteAfter(rq *request, verb *catalog.Verb) time.Duration {
	switch {
	case verb.PromoteAfter != nil:
		return max(0, *verb.PromoteAfter)
	case verb.Native, verb.Surface != nil:
		return 0
	}
	return patience(s.opts.Clients, rq.clientNamed())
}

// upstreamParams is what the backend gets: its own name of the verb, the
// arguments that policy settled on (others than those that came only for the
// broker's own verbs), and `_meta` without what is addressed to this hop. The
// rest keeps its bytes.
func upstreamParams(tc toolCall, plan policy.Plan) json.RawMessage {
	if tc.name != plan.Verb.Upstream {
		tc.params.Set("name", jsonrpc.Quote(plan.Verb.Upstream))
	}
	if plan.Arguments != nil && !bytes.Equal(plan.Arguments, tc.arguments) {
		tc.params.Set("arguments", plan.Arguments)
	}
	if tc.meta != nil && tc.meta.DeleteFunc(hopKey) {
		if tc.meta.Len() == 0 {
			tc.params.Delete("_meta")
		} else {
			tc.params.Set("_meta", tc.meta.Bytes())
		}
	}
	return tc.params.Bytes()
}

func hopKey(name string) bool { return name == "progressToken" || strings.HasPrefix(name, "berth/") }

// callFacts is `_meta["berth/call"]`. A null was not observed.
type callFacts struct {
	CallID    string   `json:"call_id"`
	Backend   string   `json:"backend"`
	RuntimeID *string  `json:"runtime_id"`
	QueueMS   *int64   `json:"queue_ms"`
	RunMS     *int64   `json:"run_ms"`
	Warnings  []string `json:"warnings,omitempty"` // stable codes
}

// The hints in a job's record, for the model that reads it.
const (
	hintFollow = "The call goes on as a job. Follow it with job_status and this JobId; do not repeat the call."
	hintEnded  = "An earlier call with this idempotency key made this job, and it has ended. job_status with this JobId gives its result."
)

// render turns the broker's reply into a response, or nil when nothing is to
// be said.
func (s *Server) render(rq *request, profile *catalog.Profile, tc toolCall, call *broker.Call, verb *catalog.Verb, reply actors.Reply) []byte {
	id := rq.msg.ID
	switch {
	case reply.Cancelled:
		return nil
	case reply.Refusal != nil:
		return rq.refusedCall(profile, tc, reply.Refusal)
	case reply.Job != nil:
		// An exact profile shows the backend's outputSchema, and so does every list
		// of a verb whose answers are never cut.
		schemaShown := verb.HasOutputSchema && (profile.Exact() || verb.ResultTokens == shape.Whole)
		hint := hintFollow
		if reply.Job.Status.Final() {
			hint = hintEnded
		}
		return jsonrpc.AppendResult(nil, id, rq.shaped(shape.Handle(*reply.Job, reply.Replayed, schemaShown, hint)))
	case reply.Answer != nil && reply.Answer.Error != nil:
		return jsonrpc.AppendErrorObject(nil, id, reply.Answer.Error.Object())
	case reply.Answer != nil && len(reply.Answer.Result) > 0:
		return jsonrpc.AppendResult(nil, id, rq.shaped(s.withFacts(profile, call, reply)))
	}
	s.opts.Logger.Error("the broker gave an empty reply", slog.String("call", call.ID), slog.String("verb", call.Verb), slog.String("backend", call.Backend))
	return rq.refusedCall(profile, tc, broker.Refuse(broker.CodeInternal, "The broker has no answer to this call; the log has the details.", nil))
}

// withFacts adds the broker's facts to a result of the merged profile. An
// exact one stays byte for byte, and so does what has no place for facts.
func (s *Server) withFacts(profile *catalog.Profile, call *broker.Call, reply actors.Reply) json.RawMessage {
	result := reply.Answer.Result
	if profile.Exact() && profile.Surface() == nil {
		return result
	}
	if !profile.Exact() {
		s.learnLinks(call.Backend, result)
	}
	facts := callFacts{CallID: call.ID, Backend: call.Backend}
	if reply.Answer.RuntimeID != "" {
		facts.RuntimeID = &reply.Answer.RuntimeID
	}
	facts.QueueMS = between(reply.Timing.Offered, reply.Timing.Started)
	facts.RunMS = between(reply.Timing.Started, reply.Timing.Ended)
	if reply.Untracked {
		facts.Warnings = append(facts.Warnings, warnUntracked)
	}
	marked, err := shape.WithCallMeta(result, facts)
	if err == nil && reply.Tracked != nil {
		marked, err = shape.WithMeta(marked, metaJob, jobFacts{reply.Tracked.ID, reply.Tracked.RuntimeID})
	}
	if err != nil {
		s.opts.Logger.Debug("a result has no place for the broker's facts", slog.String("verb", call.Verb), slog.Any("error", err))
		return result
	}
	return marked
}

func between(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	ms := to.Sub(from).Milliseconds()
	return &ms
}

// refused renders what policy said no to. Only an unknown name is an error of
// the request; everything else is an answer that a model should read.
func (s *Server) refused(rq *request, profile *catalog.Profile, tc toolCall, refusal *broker.Refusal) []byte {
	if owners := mayAppear(profile, tc.name, refusal); len(owners) > 0 {
		// Nobody knows yet whether the verb exists.
		return rq.refusedCall(profile, tc, s.opts.Broker.WhyPending(owners))
	}
	if refusal.Code == broker.CodeVerbUnknown && profile.Surface() == nil {
		return refusalError(rq.msg.ID, refusal)
	}
	return rq.refusedCall(profile, tc, refusal)
}

// refusedCall is a refusal as a tool result with isError, in the form of the
// verb's surface; a reused request id and a failure of ours are errors of the
// request, unless the surface has a form for them.
func (rq *request) refusedCall(profile *catalog.Profile, tc toolCall, refusal *broker.Refusal) []byte {
	verb := verbNamed(profile, tc)
	if surface := profile.SurfaceOf(verb); surface != nil {
		return rq.refusedBy(surface, verb, tc, refusal)
	}
	switch refusal.Code {
	case broker.CodeDuplicateRequestID, broker.CodeInternal:
		return refusalError(rq.msg.ID, refusal)
	}
	text := refusal.JSON()
	if verb != nil && verb.Native {
		text = refusal.NativeJSON()
	}
	return jsonrpc.AppendResult(nil, rq.msg.ID, rq.shaped(shape.ToolResult(text, true)))
}

// maxReason bounds the reason of a cancel, which goes to logs and records.
const maxReason = 500

// cancelled passes a client's cancel on. What names no request of this session
// is passed over, as the protocol says.
func (s *Server) cancelled(rq *request) {
	if rq.session == nil {
		return
	}
	params, err := jsonrpc.ParseObject(rq.msg.Params)
	if err != nil {
		return
	}
	id, ok := params.Get("requestId")
	if !ok || len(id) > jsonrpc.MaxIDBytes {
		return
	}
	reason, _ := params.Text("reason")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	s.waits.cancel(rq.session.key, string(id))
	s.opts.Broker.Cancel(rq.session.key, string(id), reason)
	if end, ok := s.gathering.Load(rq.session.key + " " + string(id)); ok {
		end.(context.CancelFunc)()
	}
}
