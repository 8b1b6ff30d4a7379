package actors

import (
	"time"

	"berth/broker"
)

// Span is one timed part of a call in a trace. A nil Span is that of a call
// which nobody traces; the functions below take it. A Span is safe for
// concurrent use, and so are its methods after its end, which then do nothing.
type Span interface {
	// Trace is what continues the trace below this part.
	Trace() broker.TraceContext
	// Child begins a part of this one.
	Child(name string, at time.Time) Span
	// Follow begins what goes on after this one has ended; the two are linked.
	Follow(name string, at time.Time) Span
	// Set says what the part is about. Keys are the constants of this file; no
	// value is a payload, an argument or a credential.
	Set(key, value string)
	// End ends the part; the outcome is a word of [Reply.Outcome], a status of a
	// job, or empty.
	End(at time.Time, outcome string)
}

// The keys of what a span says.
const (
	SpanBackend   = "berth.backend"
	SpanVerb      = "berth.verb"
	SpanSession   = "berth.session"
	SpanPrincipal = "berth.principal"
	SpanCall      = "berth.call_id"
	SpanJob       = "berth.job_id"
	SpanOutcome   = "berth.outcome"
	SpanMethod    = "mcp.method.name"
)

// The parts of a call.
const (
	spanQueue = "queue"
	// SpanRun is the part in which a backend has the call: what continues the
	// trace there continues this one.
	SpanRun = "run"
	spanJob = "job"
)

// traced records the wait of an admitted call and begins its run. The call
// that the backend gets continues the trace there; one that nobody traces is
// passed on as it is, with its caller's own trace context or none.
func (r *run) traced(started time.Time) (call *broker.Call, span Span) {
	o := r.offer
	if o.span == nil {
		return o.call, nil
	}
	if !r.retried {
		o.span.Child(spanQueue, o.offered).End(started, "")
	}
	span = o.span.Child(SpanRun, started)
	describe(span, o.call)
	c := *o.call
	c.Trace = span.Trace()
	return &c, span
}

// describe says which call a span is of.
func describe(span Span, call *broker.Call) {
	span.Set(SpanBackend, call.Backend)
	span.Set(SpanVerb, call.Verb)
	span.Set(SpanCall, call.ID)
	span.Set(SpanPrincipal, call.Principal.Key())
	if call.Session != "" {
		span.Set(SpanSession, call.Session)
	}
}

// endRun ends a run's span with what came of it.
func endRun(span Span, done *runDone) {
	if span == nil {
		return
	}
	outcome := Reply{Answer: &done.answer}.Outcome()
	if f := done.failure; f != nil {
		outcome = string(broker.CodeBackendUnavailable)
		if f.Dispatched {
			outcome = string(broker.CodeOutcomeUnknown)
		}
		if f.Refusal != nil {
			outcome = string(f.Refusal.Code)
		}
	}
	span.End(done.ended, outcome)
}

// neverRan records the wait of a call that was not sent.
func (o *offer) neverRan(out outcome) {
	if o.span == nil || !out.timing.Started.IsZero() {
		return
	}
	o.span.Child(spanQueue, o.offered).End(o.sys.now(), Reply{Answer: out.answer, Refusal: out.refusal}.Outcome())
}

// traceFrom begins a job's span beside its call's. Which trace a job belongs to
// is known while its actor lives, and to nobody after a restart.
func (j *job) traceFrom(call Span) {
	if call == nil {
		return
	}
	j.span = call.Follow(spanJob, j.sys.now())
	describe(j.span, j.start.req.Call)
	j.span.Set(SpanJob, j.record.ID)
}

// ended ends a job's span.
func (j *job) ended(outcome string) {
	if j.span != nil {
		j.span.End(j.sys.now(), outcome)
		j.span = nil
	}
}

// outcomeWord is how a job ended, for its span.
func (j *job) outcomeWord() string {
	switch {
	case j.final == nil:
		return "not_created"
	case j.final.Reason != "":
		return string(j.final.Reason)
	}
	return string(j.final.To)
}

// Outcome is the reply in one word, for metrics and traces: ok, tool_error,
// rpc_error, job, cancelled or the refusal's code.
func (r Reply) Outcome() string {
	switch {
	case r.Refusal != nil:
		return string(r.Refusal.Code)
	case r.Job != nil:
		return "job"
	case r.Answer != nil && r.Answer.Error != nil:
		return "rpc_error"
	case r.Answer != nil && r.Answer.ToolError():
		return "tool_error"
	case r.Answer != nil:
		return "ok"
	}
	return "cancelled"
}
