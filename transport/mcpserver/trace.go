package mcpserver

import (
	"net/http"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// Tracer begins the trace of a request.
type Tracer interface {
	// Begin begins a part that continues parent, or a trace of its own.
	Begin(parent broker.TraceContext, name string, at time.Time) actors.Span
}

// traceOf reads the trace context of a request. What its `_meta` says goes
// before the headers: a client writes it for this one message, while headers
// may be those of a proxy or a bridge on the way. Where it is malformed it was
// not said.
func traceOf(r *http.Request, meta *jsonrpc.Object) broker.TraceContext {
	if meta != nil {
		if parent, ok := meta.Text(broker.TraceParentKey); ok {
			state, _ := meta.Text(broker.TraceStateKey)
			if t := broker.ParseTrace(parent, state); t.Known() {
				return t
			}
		}
	}
	// Canonical names; two parents are none, as one of them is not ours.
	if parents := r.Header["Traceparent"]; len(parents) == 1 {
		return broker.ParseTrace(parents[0], strings.Join(r.Header["Tracestate"], ","))
	}
	return broker.TraceContext{}
}

// traced begins the span of a request; nothing is read where nobody traces.
func (s *Server) traced(rq *request) {
	if s.opts.Tracer == nil {
		return
	}
	var meta *jsonrpc.Object
	if params, err := jsonrpc.ParseObject(rq.msg.Params); err == nil {
		if raw, ok := params.Get("_meta"); ok {
			meta, _ = jsonrpc.ParseObject(raw) // nil when it is none
		}
	}
	name := "request"
	if s.answerer(rq.era, rq) != nil {
		name = rq.msg.Method // one of a table's, or one that a backend may know
	}
	rq.span = s.opts.Tracer.Begin(traceOf(rq.r, meta), clip(name), s.opts.Now())
	rq.span.Set(actors.SpanPrincipal, rq.principal.Key())
	if rq.session != nil {
		rq.span.Set(actors.SpanSession, rq.session.key)
	}
}

// part begins a part of the request's span and gives what ends it.
func (s *Server) part(rq *request, name string) (end func(outcome string)) {
	if rq.span == nil {
		return func(string) {}
	}
	span := rq.span.Child(name, s.opts.Now())
	return func(outcome string) { span.End(s.opts.Now(), outcome) }
}

// joins puts a call into the trace of its request.
func (rq *request) joins(req *actors.Request, meta *jsonrpc.Object) {
	if rq.span == nil {
		req.Call.Trace = traceOf(rq.r, meta)
		return
	}
	req.Span, req.Call.Trace = rq.span, rq.span.Trace()
	rq.span.Set(actors.SpanBackend, req.Call.Backend)
	rq.span.Set(actors.SpanVerb, req.Call.Verb)
	rq.span.Set(actors.SpanCall, req.Call.ID)
}

// came notes what came of a request.
func (rq *request) came(outcome string) { rq.outcome = outcome }

// replied notes the broker's reply to it.
func (rq *request) replied(reply actors.Reply) {
	if rq.span != nil { // for nobody else it is worth to look into the answer
		rq.came(reply.Outcome())
	}
}

// turned counts a refusal of what was not handed to the broker.
func (s *Server) turned(rq *request, code broker.Code) {
	rq.came(string(code))
	if s.opts.Refused != nil {
		s.opts.Refused(code)
	}
}

// over ends the span of a request.
func (s *Server) over(rq *request) {
	if rq.span != nil {
		rq.span.End(s.opts.Now(), rq.outcome)
	}
}
