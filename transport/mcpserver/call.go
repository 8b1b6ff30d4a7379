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

// aimed is a call with what policy found out about it.
type aimed struct {
	tc      toolCall
	profile *catalog.Profile
	plan    policy.Plan  // of a refused call: what was found until then
	call    *broker.Call // nil: it was not handed on
	id      string
}

// callTool answers tools/call.
func (s *Server) callTool(rq *request) {
	tc, problem := readToolCall(rq.msg.Params)
	profile, ok := s.profile(rq)
	if problem != "" && (!ok || profile.SurfaceOf(verbNamed(profile, tc)) == nil) {
		s.misfit(rq, problem)
		return
	}
	if !ok {
		rq.refuse(broker.Refuse(broker.CodeProfileUnknown, "There is no profile or backend of this name.", nil))
		return
	}
	if problem != "" {
		rq.answer(s.malformed(rq, profile, tc, problem))
		return
	}
	if refusal := s.admit(rq); refusal != nil {
		c, _ := s.check(rq, profile, tc)
		rq.answer(s.refusedCall(rq, c, refusal))
		return
	}
	defer s.streams.leave()

	c, refusal := s.check(rq, profile, tc)
	owners := mayAppear(c, refusal)
	if refusal != nil && len(owners) == 0 {
		rq.answer(s.refused(rq, c, refusal))
		return
	}
	rq.no = func(refusal *broker.Refusal) []byte { return s.refusedCall(rq, c, refusal) }
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
			if c, refusal = s.check(rq, profile, tc); refusal != nil {
				return s.refused(rq, c, refusal)
			}
		}
		return s.do(ctx, x, s.looked(ctx, rq, c))
	})
}

// looked is a call of a verb that looks into the catalog, after a wait for the
// backends of which nothing is known: what they have is part of every answer of
// its kind. Others are not delayed.
func (s *Server) looked(ctx context.Context, rq *request, c aimed) aimed {
	if v := c.plan.Verb; !v.Native || v.Family != catalog.FamilyCatalog || len(c.profile.Unseen()) == 0 {
		return c
	}
	waiting, done := s.waits.enter(ctx, rq)
	defer done()
	waiting, cancel := context.WithTimeout(waiting, s.opts.Limits.ListWait)
	defer cancel()
	s.opts.Broker.AwaitCatalog(waiting, catalog.Full)
	if profile, ok := s.profile(rq); ok {
		c.profile = profile
	}
	return c
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

// check plans a call. Its id names it in the log and in every answer.
func (s *Server) check(rq *request, profile *catalog.Profile, tc toolCall) (aimed, *broker.Refusal) {
	in := policy.Input{Profile: profile, Principal: rq.principal, Name: tc.name, Arguments: tc.arguments, Meta: tc.metaRaw,
		Availability: s.opts.Broker.Availability}
	if s.opts.Proofs != nil {
		in.Gate = s.opts.Proofs
	}
	if rq.session != nil {
		in.Session = rq.session.key
	}
	end := s.part(rq, "policy")
	plan, refusal := policy.Check(in)
	end(codeOf(refusal))
	return aimed{tc: tc, profile: profile, plan: plan, id: s.callID()}, refusal
}

func codeOf(refusal *broker.Refusal) string {
	if refusal == nil {
		return ""
	}
	return string(refusal.Code)
}

// mayAppear lists the backends that have not listed yet and that a refused name
// may be one of, so that waiting for them a little is worth it.
func mayAppear(c aimed, refusal *broker.Refusal) []string {
	if refusal == nil || (refusal.Code != broker.CodeVerbUnknown && refusal.Code != broker.CodeCatalogPending) {
		return nil
	}
	return c.profile.MayHold(c.plan.Name)
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
func (s *Server) do(ctx context.Context, x *exchange, c aimed) []byte {
	rq, plan, verb := x.rq, c.plan, c.plan.Verb
	task, problem := rq.asTask(c.tc, &plan)
	if problem != nil {
		return problem.response(rq.msg.ID)
	}
	s.exercised(rq, c)
	call := &broker.Call{
		ID: c.id, Principal: rq.principal, Backend: verb.Backend, Verb: verb.Name, Effects: plan.Effects,
		Lane: plan.Lane, Seats: max(1, verb.Seats),
		Method: "tools/call", Params: upstreamParams(c.tc, plan),
		WantProgress: x.progress != nil, ExpectedRuntimeID: plan.ExpectedRuntimeID, Client: rq.client, Pinned: verb.Pinned(),
		Origin: broker.Origin{Profile: c.profile, Holder: rq.holder(), Participant: rq.participant}, Share: rq.caller.ShareOf(verb.Backend),
	}
	if plan.Proving != nil {
		call.Proof = plan.Proving
	}
	c.call = call
	req := actors.Request{Call: call, PromoteAfter: s.promoteAfter(rq, verb), Long: plan.Long,
		IdempotencyKey: plan.IdempotencyKey, Digest: plan.Digest, Peer: s.levelled(rq, verb.Backend, s.peer(x)),
		Held: verb.Held, Binding: rq.binding}
	if verb.CallTimeout != nil {
		req.CallTimeout = *verb.CallTimeout
	}
	rq.joins(&req, c.tc.meta)
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
		return s.render(rq, c, reply)
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
	return patience(s.tables.Load().clients, rq.clientNamed())
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

// The hints in a job's record, for the model that reads it.
const (
	hintFollow = "The call goes on as a job. Follow it with job_status and this JobId; do not repeat the call."
	hintEnded  = "An earlier call with this idempotency key made this job, and it has ended. job_status with this JobId gives its result."
)

// render turns the broker's reply into a response, or nil when nothing is to
// be said.
func (s *Server) render(rq *request, c aimed, reply actors.Reply) []byte {
	id := rq.msg.ID
	rq.replied(reply)
	defer s.part(rq, "shape")("")
	switch {
	case reply.Cancelled:
		return nil
	case reply.Refusal != nil:
		return s.refusedAfter(rq, c, reply, reply.Refusal)
	case reply.Job != nil:
		// An exact profile shows the backend's outputSchema, and so does every list
		// of a verb whose answers are never cut.
		verb := c.plan.Verb
		schemaShown := verb.HasOutputSchema && (c.profile.Exact() || verb.ResultTokens == shape.Whole)
		hint := hintFollow
		if reply.Job.Status.Final() {
			hint = hintEnded
		}
		s.released(rq, *reply.Job).Grant() // a handle is never cut
		return s.callResult(rq, c, s.withFacts(c, shape.Handle(*reply.Job, reply.Replayed, schemaShown, hint), reply, nil))
	case reply.Answer != nil && reply.Answer.Error != nil:
		return jsonrpc.AppendErrorObject(nil, id, reply.Answer.Error.Object())
	case reply.Answer != nil && len(reply.Answer.Result) > 0:
		return s.callResult(rq, c, s.answered(rq, c, reply))
	}
	s.opts.Logger.Error("the broker gave an empty reply", slog.String("call", c.id), slog.String("verb", c.plan.Verb.Name), slog.String("backend", c.plan.Verb.Backend))
	return s.refusedAfter(rq, c, reply, broker.Refuse(broker.CodeInternal, "The broker has no answer to this call; the log has the details.", nil))
}

func between(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	ms := to.Sub(from).Milliseconds()
	return &ms
}

// refused renders what policy said no to. Only an unknown name is an error of
// the request, and only where it was called and not passed on: everything else
// is an answer that a model should read.
func (s *Server) refused(rq *request, c aimed, refusal *broker.Refusal) []byte {
	if owners := mayAppear(c, refusal); len(owners) > 0 {
		// Nobody knows yet whether the verb exists.
		return s.refusedCall(rq, c, s.opts.Broker.WhyPending(owners))
	}
	if refusal.Code == broker.CodeVerbUnknown && c.profile.Surface() == nil && c.plan.Via == catalog.ViaDirect {
		s.turned(rq, refusal.Code)
		return unknownTool(rq.msg.ID, c.id, refusal)
	}
	return s.refusedCall(rq, c, refusal)
}

// unknownTool is the error for a name that is not there, in the form of
// contracts/catalog.md section 7: its data is flat.
func unknownTool(id []byte, callID string, refusal *broker.Refusal) []byte {
	data := map[string]any{"code": refusal.Code, "call_id": callID}
	for name, value := range refusal.Detail {
		data[name] = value
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return refusalError(id, refusal)
	}
	return jsonrpc.AppendError(nil, id, jsonrpc.CodeInvalidParams, refusal.Message, raw)
}

// refusedCall is a refusal of a call that was not sent.
func (s *Server) refusedCall(rq *request, c aimed, refusal *broker.Refusal) []byte {
	s.turned(rq, refusal.Code)
	return s.refusedAfter(rq, c, actors.Reply{}, refusal)
}

// refusedAfter is a refusal as a tool result with isError, in the form of the
// verb's surface; a reused request id and a failure of ours are errors of the
// request, unless the surface has a form for them. What is passed on to a verb
// that is not there is refused as the broker's own verb that passes it on.
func (s *Server) refusedAfter(rq *request, c aimed, reply actors.Reply, refusal *broker.Refusal) []byte {
	verb := c.plan.Verb
	var text json.RawMessage
	switch surface := c.profile.SurfaceOf(verb); {
	case surface != nil:
		name := clip(c.plan.Name)
		if verb != nil {
			name = verb.Upstream
		}
		text = surface.Refuse(name, refusal)
	case refusal.Code == broker.CodeDuplicateRequestID, refusal.Code == broker.CodeInternal:
		return callError(rq.msg.ID, c.id, refusal)
	case verb != nil && verb.Native, verb == nil && c.plan.Via != catalog.ViaDirect:
		text = refusal.NativeJSON()
	default:
		text = refusal.JSON()
	}
	return s.callResult(rq, c, s.withFacts(c, shape.ToolResult(text, true), reply, nil))
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
