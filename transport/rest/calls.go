package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy"
	"berth/broker/policy/proof"
	"berth/transport/httpguard"
)

// maxPromoteAfter bounds what a request may ask for; who wants to wait longer
// says never.
const maxPromoteAfter = 24 * time.Hour

// call answers POST /api/v1/calls. It is the MCP front's path without MCP:
// policy, then the broker.
func (a *api) call(w http.ResponseWriter, r *http.Request) {
	var request CallRequest
	if err := request.decode(r); err != nil {
		a.fail(w, r, err)
		return
	}
	free, refusal := a.wait()
	if refusal != nil {
		a.fail(w, r, refusal)
		return
	}
	defer free()
	caller, _ := httpguard.Caller(r.Context())
	out := keepAlive(w, a.KeepAlive)
	defer out.stop() // also when what follows panics
	answer := a.run(r.Context(), caller, request)
	out.stop()
	over := a.Guard.Over(r.Context())
	switch {
	case over != nil && !out.begun:
		a.fail(w, r, over)
		return
	case over != nil:
		answer = CallAnswer{Refusal: over.JSON()}
	}
	if out.begun {
		writeRest(w, answer)
		return
	}
	httpguard.WriteJSON(w, http.StatusOK, answer)
}

func (c *CallRequest) decode(r *http.Request) error {
	c.trace = broker.ParseTrace(r.Header.Get(broker.TraceParentKey), strings.Join(r.Header.Values(broker.TraceStateKey), ","))
	if err := decode(r.Body, c); err != nil {
		return err
	}
	if strings.TrimSpace(c.Name) == "" {
		return badRequest(broker.CodeInvalidArguments, "Name must say which verb to call.", map[string]any{"Name": "Name"})
	}
	arguments := bytes.TrimSpace(c.Arguments)
	switch {
	case len(arguments) == 0 || string(arguments) == "null":
		c.Arguments = json.RawMessage("{}") // a verb gets an object, whatever its caller left out
	case arguments[0] != '{':
		return badRequest(broker.CodeInvalidArguments, "Arguments must be an object.", map[string]any{"Name": "Arguments"})
	}
	if s := c.PromoteAfterSeconds; s != nil && *s > maxPromoteAfter.Seconds() {
		return badRequest(broker.CodeInvalidArguments, "PromoteAfterSeconds must be at most a day.", map[string]any{"Name": "PromoteAfterSeconds"})
	}
	return nil
}

// run takes one call through policy and the broker.
func (a *api) run(ctx context.Context, caller broker.Caller, c CallRequest) CallAnswer {
	request, refusal := a.planned(ctx, caller, c)
	if refusal != nil {
		return CallAnswer{Refusal: refusal.JSON()}
	}
	end := a.trace(&request, c.trace)
	reply := a.Calls.Do(ctx, request)
	end(reply)
	answer := CallAnswer{Timing: timingView(reply.Timing)}
	switch {
	case reply.Refusal != nil:
		answer.Refusal = reply.Refusal.JSON()
	case reply.Job != nil:
		answer.Job = a.released(caller.Principal, *reply.Job, reply.Replayed)
	case reply.Answer != nil:
		if a.Proofs != nil {
			a.Proofs.Shows(request.Call, reply).Grant() // nothing is cut here
		}
		answer.Result, answer.Error, answer.RuntimeID = reply.Answer.Result, reply.Answer.Error, text(reply.Answer.RuntimeID)
		if answer.Untracked = reply.Untracked; reply.Tracked != nil {
			answer.Tracked = reply.Tracked.Handle(reply.Replayed)
		}
	case reply.Cancelled:
		answer.Refusal = broker.Refuse(broker.CodeCancelled, "The call was cancelled.", nil).JSON()
	default:
		a.Log.Error("a call ended without an answer", slog.String("verb", request.Call.Verb))
		answer.Refusal = broker.AsRefusal(fmt.Errorf("no answer")).JSON()
	}
	return answer
}

// planned takes a call through policy.
func (a *api) planned(ctx context.Context, caller broker.Caller, c CallRequest) (actors.Request, *broker.Refusal) {
	profile, refusal := a.profile(ctx, caller, c)
	if refusal != nil {
		return actors.Request{}, refusal
	}
	in := policy.Input{Profile: profile, Principal: caller.Principal, Name: c.Name, Arguments: c.Arguments, Meta: c.meta()}
	if a.Proofs != nil {
		in.Gate = a.Proofs
	}
	plan, refusal := policy.Check(in)
	if refusal != nil {
		if a.Refused != nil {
			a.Refused(refusal.Code)
		}
		if owners := profile.MayHold(c.Name); refusal.Code == broker.CodeVerbUnknown && len(owners) > 0 {
			// Nobody knows yet whether the verb exists.
			refusal = a.Calls.WhyPending(owners)
		}
		return actors.Request{}, refusal
	}
	return a.request(caller, c, plan), nil
}

// trace puts a call into its caller's trace and gives what ends its span.
func (a *api) trace(request *actors.Request, from broker.TraceContext) (end func(actors.Reply)) {
	call := request.Call
	call.Trace = from
	if a.Tracer == nil {
		return func(actors.Reply) {}
	}
	span := a.Tracer.Begin(from, "call", a.Now())
	span.Set(actors.SpanBackend, call.Backend)
	span.Set(actors.SpanVerb, call.Verb)
	span.Set(actors.SpanCall, call.ID)
	span.Set(actors.SpanPrincipal, call.Principal.Key())
	request.Span, call.Trace = span, span.Trace()
	return func(reply actors.Reply) { span.End(a.Now(), reply.Outcome()) }
}

// Tracer begins the trace of a call.
type Tracer interface {
	// Begin begins a part that continues parent, or a trace of its own.
	Begin(parent broker.TraceContext, name string, at time.Time) actors.Span
}

// profile gives the profile to look the name up in. Only a name that is not
// known yet waits, for the backends that it may belong to.
func (a *api) profile(ctx context.Context, caller broker.Caller, c CallRequest) (*catalog.Profile, *broker.Refusal) {
	serving, permitted := caller.Serving(c.Profile)
	if !permitted {
		return nil, broker.Refuse(broker.CodeProfileNotPermitted, "This credential does not accept this profile.", map[string]any{"profile": c.Profile})
	}
	c.Profile = serving
	unknown := broker.Refuse(broker.CodeProfileUnknown, "There is no profile of this name.", map[string]any{"profile": c.Profile})
	profile, ok := a.callable(caller, a.Calls.Catalog(), c.Profile)
	if !ok {
		return nil, unknown
	}
	owners := profile.MayHold(c.Name)
	if _, known := profile.Resolve(c.Name); known || len(owners) == 0 {
		return profile.As(overREST), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.CatalogWait)
	defer cancel()
	snapshot := a.Calls.Catalog()
	for _, backend := range owners {
		snapshot = a.Calls.AwaitCatalog(ctx, backend)
	}
	if profile, ok = a.callable(caller, snapshot, c.Profile); !ok {
		return nil, unknown
	}
	return profile.As(overREST), nil
}

// callable is a profile as far as a caller may use it.
func (a *api) callable(c broker.Caller, s *catalog.Snapshot, name string) (*catalog.Profile, bool) {
	p, ok := a.allowed(s, name)
	if ok && c.ReadOnly {
		p = p.Limited(catalog.Limit{All: true})
	}
	return p, ok
}

// allowed is a profile as far as this process lets anybody use it.
func (a *api) allowed(s *catalog.Snapshot, name string) (*catalog.Profile, bool) {
	p, ok := s.Profile(name)
	if ok && a.ReadOnly {
		p = p.Limited(catalog.Limit{All: true})
	}
	return p, ok
}

// Proofs is the gate that holds writes back; actors.ProofGate is one.
type Proofs interface {
	policy.Gate
	// Shows finds what an answer shows its caller; nil is nothing.
	Shows(call *broker.Call, reply actors.Reply) *actors.Shown
	// Released finds what the result of a job grants to whom it is released.
	Released(to proof.Caller, job string) *actors.Shown
}

// meta puts what the request says beside its arguments where policy reads it.
func (c *CallRequest) meta() json.RawMessage {
	meta := map[string]string{}
	if c.IdempotencyKey != "" {
		meta[policy.MetaIdempotencyKey] = c.IdempotencyKey
	}
	if c.ExpectedRuntimeID != "" {
		meta[policy.MetaExpectedRuntimeID] = c.ExpectedRuntimeID
	}
	if len(meta) == 0 {
		return nil
	}
	return raw(meta)
}

func (a *api) request(caller broker.Caller, c CallRequest, plan policy.Plan) actors.Request {
	verb := plan.Verb
	request := actors.Request{
		Call: &broker.Call{
			ID: a.CallID(), Principal: caller.Principal, Backend: verb.Backend, Verb: verb.Name,
			Effects: plan.Effects, Lane: plan.Lane, Seats: max(1, verb.Seats),
			Method: "tools/call", Params: params(verb.Upstream, plan.Arguments),
			ExpectedRuntimeID: plan.ExpectedRuntimeID, Share: caller.ShareOf(verb.Backend), Pinned: verb.Pinned(),
		},
		PromoteAfter: a.PromoteAfter, Long: plan.Long,
		IdempotencyKey: plan.IdempotencyKey, Digest: plan.Digest, Held: verb.Held,
	}
	if plan.Proving != nil {
		request.Call.Proof = plan.Proving
	}
	switch {
	case c.PromoteAfterSeconds != nil:
		request.PromoteAfter = time.Duration(max(0, *c.PromoteAfterSeconds) * float64(time.Second))
	case verb.PromoteAfter != nil:
		request.PromoteAfter = max(0, *verb.PromoteAfter)
	case verb.Native, verb.Surface != nil: // answers for itself; contracts/native.md section 1.10
		request.PromoteAfter = 0
	}
	if verb.CallTimeout != nil {
		request.CallTimeout = *verb.CallTimeout
	}
	return request
}

// params is what a backend receives; the arguments keep their bytes.
func params(upstream string, arguments json.RawMessage) json.RawMessage {
	return raw(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{upstream, arguments})
}

// raw encodes without escaping for HTML.
func raw(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("encode a value that was decoded before: " + err.Error())
	}
	return bytes.TrimSpace(out.Bytes())
}
