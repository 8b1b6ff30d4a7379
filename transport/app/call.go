package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"berth/broker"

	"github.com/go-json-experiment/json/jsontext"
)

// Call is one call of a tool while it runs.
type Call struct {
	*Args

	b        *Backend
	tool     *Tool
	caller   context.Context // ends when the caller has gone
	ctx      context.Context // the same, with the limit of a call
	expected string          // the process that the call is bound to; empty: any

	att    *attachment
	wrote  bool // a write was handed over; what became of it may be unknown
	ended  bool // the caller had gone before it was done
	other  bool // an answer named another process than the one that was attached
	unlock func()
}

// Request is one request of a call.
type Request struct {
	Route Route
	ID    string // the path's parameter, as digits
	Query url.Values
	Body  json.RawMessage
}

// Now is the backend's clock.
func (c *Call) Now() time.Time { return c.b.opts.Now() }

// call answers one call. Every error is a *broker.Failure.
func (b *Backend) call(ctx context.Context, call *broker.Call) (answer broker.Answer, err error) {
	ctx = withTrace(ctx, call.Trace)
	limited, cancel := context.WithTimeout(ctx, b.opts.Limits.Call)
	defer cancel()
	c := &Call{b: b, caller: ctx, ctx: limited, unlock: func() {}}
	defer func() { c.unlock() }()
	document, problem := b.answer(c, call)
	if c.ended || problem != nil && ctx.Err() != nil {
		return broker.Answer{}, &broker.Failure{Dispatched: c.wrote, Abandoned: c.wrote, Cause: "the caller had gone before the answer came"}
	}
	if problem != nil {
		document = problem.JSON()
	}
	answer.Result = Result(b.clean(document), problem != nil)
	if c.att != nil && !c.other { // else it is not known which of the two it is of
		answer.RuntimeID = c.att.runtimeID
	}
	return answer, nil
}

// answer runs a call through its guards, in order.
func (b *Backend) answer(c *Call, call *broker.Call) (document json.RawMessage, problem *Problem) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(call.Params, &params) != nil {
		return nil, Invalid("The call is malformed; nothing was sent.", nil)
	}
	defer func() {
		if v := recover(); v != nil {
			b.opts.Log.Error("a tool of an app panicked", slog.String("verb", params.Name), slog.String("panic", string(b.hide([]byte(fmt.Sprint(v))))), slog.String("stack", string(debug.Stack())))
			document, problem = nil, c.maybe(NewProblem(InternalError, "The tool "+params.Name+" failed inside the adapter.", map[string]any{"reason": "panic"}))
		}
	}()
	tool, ok := b.surface.Tool(params.Name)
	if !ok {
		name := cut(params.Name, maxField)
		return nil, Invalid("There is no tool "+name+" here.", map[string]any{"name": name})
	}
	c.tool = tool
	if b.opts.ReadOnly && tool.Effects != broker.Read {
		return nil, b.surface.readOnly()
	}
	arguments := Object{}
	if !IsNull(params.Arguments) {
		if arguments, ok = ReadObject(params.Arguments); !ok {
			return nil, Invalid("The arguments must be an object.", nil)
		}
	}
	if tool.First != nil {
		if problem := tool.First(arguments); problem != nil {
			return nil, problem
		}
	}
	if c.expected, problem = expectation(arguments, call.ExpectedRuntimeID); problem != nil {
		return nil, problem
	}
	if c.Args, problem = tool.Read(arguments); problem != nil {
		return nil, problem
	}
	return tool.Run(c)
}

// Alone waits until no other call of this tool holds it, and holds it until the
// call is over.
func (c *Call) Alone() *Problem {
	slot := c.b.alone[c.tool.Name]
	select {
	case slot <- struct{}{}:
		c.unlock = func() { <-slot }
		return nil
	case <-c.ctx.Done():
		return NewProblem(Conflict, "Another call of "+c.tool.Name+" has not ended yet; nothing was changed by this one.", nil)
	}
}

// Send sends one request on the call's attachment and gives the answer with a
// status of 2xx; every other is a Problem. The first makes the attachment, and,
// for a bound call, confirms the process.
func (c *Call) Send(r Request) (*Reply, *Problem) {
	if problem := c.begin(); problem != nil {
		return nil, problem
	}
	return c.send(r)
}

// begin attaches, once in a call.
func (c *Call) begin() *Problem {
	if c.att != nil {
		return nil
	}
	att, problem := c.b.attach(c.ctx)
	if problem != nil {
		return problem
	}
	if att == nil {
		return NewProblem(BackendUnavailable, "The call ran out of time before "+c.b.surface.Name+" was found.", map[string]any{"tried": []string{}, "reason": "timeout"})
	}
	c.att = att
	if c.expected == "" || c.tool.SelfBound {
		return nil
	}
	_, problem = c.send(Request{Route: c.b.surface.Discovery.Health})
	return problem
}

// send sends one request, once.
func (c *Call) send(r Request) (*Reply, *Problem) {
	s := c.b.surface
	endpoint := s.Routes[r.Route]
	query := r.Query
	if endpoint.Identity && c.expected != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set(expectedArgument, c.expected)
	}
	if c.caller.Err() != nil {
		c.ended = true
	}
	if c.ctx.Err() != nil {
		return nil, c.stopped("timeout")
	}
	writes := endpoint.Method != Get && c.tool.Effects != broker.Read
	ctx, cancel := c.patience(writes)
	defer cancel()
	select {
	case c.b.slots <- struct{}{}:
		defer func() { <-c.b.slots }()
	case <-c.ctx.Done():
		return nil, c.stopped("timeout")
	}
	c.wrote = c.wrote || writes
	reply, failed := c.att.wire.do(ctx, endpoint.Method, endpoint.path(r.ID), query, r.Body)
	if failed != nil {
		if writes && !failed.sent {
			c.wrote = false
		}
		return nil, c.failed(failed)
	}
	if reply.Status/100 != 2 { // what is told of it is cut, and half a token would not be found
		reply.Body = c.b.clean(reply.Body)
	}
	if reply.Status == http.StatusUnauthorized {
		c.wrote = false
		c.b.drop(c.att)
		return nil, s.unavailable(s.Sentences.Restarted, c.att.named, "").With("reason", "token_refused")
	}
	if problem := c.judge(endpoint, reply); problem != nil {
		problem.reply = reply
		return nil, problem
	}
	return reply, nil
}

// patience is the context of one request: a read ends with its caller; a write
// that is under way is waited for, for the grace.
func (c *Call) patience(writes bool) (context.Context, context.CancelFunc) {
	if !writes {
		return context.WithTimeout(c.ctx, c.b.opts.Limits.Request)
	}
	limit := c.b.opts.Limits.Request
	if deadline, ok := c.ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), limit)
	stop := context.AfterFunc(c.caller, func() {
		timer := time.AfterFunc(c.b.opts.CancelGrace, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// failed is a request that got no answer.
func (c *Call) failed(f *errHTTP) *Problem {
	s := c.b.surface
	if f.reason == "too_large" {
		return c.Unreadable("too_large")
	}
	c.b.drop(c.att)
	var probe *errProbe
	if !f.sent && asProbe(f.err, &probe) && probe.status == http.StatusUnauthorized {
		return s.unavailable(s.Sentences.Restarted, c.att.named, "").With("reason", "token_refused")
	}
	if !f.sent && probe != nil && (probe.status != 0 || probe.broken) {
		return s.unconfirmed(c.att.named, f.err)
	}
	return c.stopped(f.reason)
}

// stopped is a failure after the attachment was made.
func (c *Call) stopped(reason string) *Problem {
	s := c.b.surface
	return c.maybe(s.unavailable(s.Sentences.Stopped, c.att.named, "").With("reason", reason))
}

// judge is what an answer says no with, its identity included.
func (c *Call) judge(endpoint Endpoint, reply *Reply) *Problem {
	ok := reply.Status/100 == 2
	said := identity{}
	if ok {
		if said = readIdentity(reply.Body); said.valid && said.id != c.att.runtimeID {
			c.other = true
			c.b.drop(c.att)
		}
	}
	switch {
	case c.expected != "" && endpoint.Identity:
		if problem := classify(c.expected, reply); problem != nil {
			return problem
		}
	case c.expected != "" && said.came:
		if problem := confirm(c.expected, said); problem != nil {
			return c.maybe(problem)
		}
	}
	if ok {
		return nil
	}
	problem := refusalOf(c.b.surface.Name, reply, endpoint.Identity)
	switch {
	case reply.Status/100 == 5:
		return c.maybe(problem)
	case endpoint.Method != Get:
		c.wrote = false // it was told no
	}
	return problem
}

// maybe adds that a write of this call may have taken effect.
func (c *Call) maybe(p *Problem) *Problem {
	if !c.wrote {
		return p
	}
	p = p.With("outcome_unknown", true)
	p.Message = strings.TrimSpace(p.Message + " " + fill(c.b.surface.Sentences.Unsure, "{verb}", c.tool.Tells))
	return p
}

// Unreadable is an answer of 2xx that is not what was promised; reason says how
// (not_json, wrong_type, id_missing, too_large).
func (c *Call) Unreadable(reason string) *Problem {
	return c.maybe(NewProblem(UpstreamError, "The answer of "+c.b.surface.Name+" could not be read.", map[string]any{"reason": reason}))
}

// Settled says that what the call wrote is known to have been taken.
func (c *Call) Settled() { c.wrote = false }

// Object reads an answer that was promised to be an object.
func (c *Call) Object(r *Reply) (Object, *Problem) {
	o, ok := ReadObject(r.Body)
	if !ok {
		return nil, c.unlike(r)
	}
	return o, nil
}

// Rows reads an answer that was promised to be an array of objects.
func (c *Call) Rows(r *Reply) ([]Object, *Problem) { return c.RowsIn(r.Body) }

// RowsIn reads a part of an answer that was promised to be an array of objects.
func (c *Call) RowsIn(raw json.RawMessage) ([]Object, *Problem) {
	rows, ok := ReadRows(raw)
	if !ok {
		return nil, c.unlike(&Reply{Body: raw})
	}
	return rows, nil
}

func (c *Call) unlike(r *Reply) *Problem {
	if !jsontext.Value(r.Body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return c.Unreadable("not_json")
	}
	return c.Unreadable("wrong_type")
}

// Whole gives a Run that sends one request, with the argument that is the
// path's parameter (or none), and answers with what came: an object, unchanged.
func Whole(route Route, id string) Run {
	return func(c *Call) (json.RawMessage, *Problem) {
		r := Request{Route: route}
		if id != "" {
			r.ID = c.Text(id)
		}
		reply, problem := c.Send(r)
		if problem != nil {
			return nil, problem
		}
		if _, problem := c.Object(reply); problem != nil {
			return nil, problem
		}
		return reply.Body, nil
	}
}

// clean is the last pass over what leaves: no white space between tokens, each
// character as itself (so that a token in escapes is found), and no token.
func (b *Backend) clean(document json.RawMessage) json.RawMessage {
	v := jsontext.Value(bytes.Clone(document))
	if err := v.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err == nil {
		document = json.RawMessage(v)
	}
	return b.hide(document)
}

// hide cuts the tokens that were read out of a text.
func (b *Backend) hide(text []byte) []byte {
	b.mu.Lock()
	known := slices.Clone(b.known)
	b.mu.Unlock()
	for _, token := range known {
		text = bytes.ReplaceAll(text, []byte(token), []byte(redacted))
	}
	return text
}

// redacted stands where a credential stood.
const redacted = "[redacted]"
