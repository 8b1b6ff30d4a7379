package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// relayed is a client's request, other than tools/call, on its way to one
// backend. The backend gets method and params as the client gave them, less
// what is addressed to this hop.
type relayed struct {
	backend string
	method  string
	params  json.RawMessage // nil when absent
	// id is what a cancel names: the request's own id, or one made of it where
	// a request goes to several backends. Empty: no cancel can name it.
	id string
}

// sessionMethods change only what belongs to the calling session. They are one
// short round trip, so they wait for no seat.
var sessionMethods = map[string]bool{
	"logging/setLevel": true, "resources/subscribe": true, "resources/unsubscribe": true,
}

// readMethods change nothing. What is neither is a method that we do not know,
// which may do anything.
var readMethods = map[string]bool{
	"completion/complete": true, "prompts/get": true, "prompts/list": true,
	"resources/list": true, "resources/read": true, "resources/templates/list": true,
	"server/discover": true, "tools/list": true, "ping": true,
}

// relayExact answers any request of an exact profile with what its backend
// says: the one path of every method that the front has no hand in.
//
// Where only reading is allowed, a method that nobody knows is not handed on.
func (s *Server) relayExact(rq *request) {
	if method := rq.msg.Method; !readMethods[method] && !sessionMethods[method] {
		if profile, ok := s.profile(rq); ok && profile.OnlyReads() {
			rq.refuse(broker.Refuse(broker.CodeReadOnly, "Only what reads may be asked here, and nobody knows what "+clip(method)+" does; nothing was sent.", nil))
			return
		}
	}
	s.relay(rq, relayed{backend: rq.backend, method: rq.msg.Method, params: rq.msg.Params, id: string(rq.msg.ID)})
}

// relay sends a request to one backend and answers with what it says, on an
// exchange of its own.
func (s *Server) relay(rq *request, to relayed) {
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	params, problem := readRelayed(to.params)
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	x := &exchange{rq: rq, progress: newProgress(params.token, s.opts.Now)}
	s.run(x, func(ctx context.Context) []byte {
		return s.perform(ctx, x, s.asked(x, to, params), func(rq *request, reply actors.Reply) []byte { return s.told(rq, to, reply) })
	})
}

// hopped is the params of a request without what is addressed to this hop.
type hopped struct {
	params json.RawMessage
	token  json.RawMessage // of progress; nil without one
	meta   *jsonrpc.Object // nil without one
}

// readRelayed takes the hop's own keys out of `_meta`; everything else keeps
// its bytes. Absent params become an object, because a backend's transport has
// a `_meta` of its own to add.
func readRelayed(raw json.RawMessage) (h hopped, problem string) {
	if raw == nil {
		return hopped{params: json.RawMessage("{}")}, ""
	}
	params, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return h, `"params" must be an object`
	}
	// Of a member that is said twice the backend might read the other one.
	if name, again := params.Repeated(); again {
		return h, "params repeat the member " + clip(name)
	}
	metaRaw, ok := params.Get("_meta")
	if !ok {
		return hopped{params: raw}, ""
	}
	meta, err := jsonrpc.ParseObject(metaRaw)
	if err != nil {
		return h, `"_meta" must be an object`
	}
	h.meta = meta
	h.token, _ = meta.Get("progressToken")
	if meta.DeleteFunc(hopKey) {
		if meta.Len() == 0 {
			params.Delete("_meta")
		} else {
			params.Set("_meta", meta.Bytes())
		}
	}
	h.params = params.Bytes()
	return h, ""
}

// ask has the broker run a request, with x as the caller's side. It can be
// asked several times for one exchange.
func (s *Server) ask(ctx context.Context, x *exchange, to relayed, params hopped) actors.Reply {
	req := s.asked(x, to, params)
	req.DropCancels = x.rq.asker != nil
	return s.carry(ctx, x.rq, req)
}

// asked makes a call of a request.
func (s *Server) asked(x *exchange, to relayed, params hopped) actors.Request {
	rq := x.rq
	call := &broker.Call{
		ID: s.callID(), Principal: rq.principal, Backend: to.backend, Verb: to.backend + " " + clip(to.method), Seats: 1,
		Method: to.method, Params: params.params, WantProgress: x.progress != nil, Client: rq.client, Share: rq.caller.ShareOf(to.backend),
	}
	switch {
	case readMethods[to.method]:
		call.Effects = broker.Read
	case sessionMethods[to.method]:
		call.Effects, call.Lane = broker.Session, broker.LaneControl
	default:
		call.Effects = broker.UnknownEffects
	}
	req := actors.Request{Call: call, Peer: s.levelled(rq, to.backend, s.peer(x))}
	rq.joins(&req, params.meta)
	if rq.session != nil {
		call.Session, req.RequestID = rq.session.key, to.id
	}
	return req
}

// carry runs a request, and has the broker keep what a session asks for that
// goes on after it.
func (s *Server) carry(ctx context.Context, rq *request, req actors.Request) actors.Reply {
	if rq.session == nil || !sessionMethods[req.Call.Method] {
		return s.opts.Broker.Do(ctx, req)
	}
	holder := rq.session.key
	member := "uri"
	if req.Call.Method == "logging/setLevel" {
		member = "level"
	}
	params, err := jsonrpc.ParseObject(req.Call.Params)
	if err != nil {
		return s.opts.Broker.Do(ctx, req) // the backend's to refuse
	}
	value, ok := params.Text(member)
	switch {
	case !ok:
		return s.opts.Broker.Do(ctx, req)
	case req.Call.Method == "resources/subscribe":
		return s.opts.Broker.Subscribe(ctx, holder, value, req)
	case req.Call.Method == "resources/unsubscribe":
		return s.opts.Broker.Unsubscribe(ctx, holder, value, req)
	}
	return s.opts.Broker.SetLevel(ctx, holder, value, req)
}

// told turns the broker's reply to a relayed request into the response, or nil
// when nothing is to be said.
func (s *Server) told(rq *request, to relayed, reply actors.Reply) []byte {
	id := rq.msg.ID
	rq.replied(reply)
	switch {
	case reply.Cancelled:
		return nil
	case reply.Refusal != nil:
		return refusalError(id, reply.Refusal)
	case reply.Answer != nil && reply.Answer.Error != nil:
		return jsonrpc.AppendErrorObject(nil, id, reply.Answer.Error.Object())
	case reply.Answer != nil && len(reply.Answer.Result) > 0:
		return jsonrpc.AppendResult(nil, id, rq.shaped(reply.Answer.Result))
	}
	s.opts.Logger.Error("the broker gave an empty reply", slog.String("method", clip(to.method)), slog.String("backend", to.backend))
	return refusalError(id, broker.Refuse(broker.CodeInternal, "The broker has no answer to this request; the log has the details.", nil))
}

// shaped is a result as the request's era has it.
func (rq *request) shaped(result json.RawMessage) json.RawMessage {
	if rq.era == nil || rq.era.result == nil {
		return result
	}
	return rq.era.result(rq, result)
}

// levelled keeps log messages from a session that asked for more severe ones:
// a backend that many share has one level for all of them.
func (s *Server) levelled(rq *request, backend string, p broker.Peer) broker.Peer {
	notify := p.Notify
	if notify == nil || rq.session == nil {
		return p
	}
	p.Notify = func(method string, params json.RawMessage) {
		if method == logMessage {
			if wanted, said := s.opts.Broker.Level(backend, levelOf(params), rq.session.key); said && !wanted {
				return
			}
		}
		notify(method, params)
	}
	return p
}

// peer is the caller's side of what runs on an exchange. Where the client reads
// no stream there is nowhere to say anything before the answer.
func (s *Server) peer(x *exchange) broker.Peer {
	var p broker.Peer
	if x.progress != nil {
		p.Progress = x.progress.report
	}
	if x.rq.accept.stream {
		p.Notify = func(method string, params json.RawMessage) {
			if x.rq.hears(method, params) {
				x.notify(method, params)
			}
		}
	}
	if x.rq.era != nil && x.rq.era.ask != nil {
		p.Request = x.rq.era.ask(s, x)
	}
	return p
}

// ours are requests that no profile hands to a backend from here: the tables
// of the eras answer them, or they belong to another era.
var ours = map[string]bool{
	"initialize": true, "server/discover": true, "subscriptions/listen": true,
}

// relays reports whether a request that is in no table goes to the profile's
// backend. Tasks do not: a backend that many share would show each its
// neighbours'.
func (s *Server) relays(rq *request) bool {
	if rq.backend == "" || ours[rq.msg.Method] || strings.HasPrefix(rq.msg.Method, "tasks/") {
		return false
	}
	profile, ok := s.profile(rq)
	return ok && !profile.Native() && profile.Surface() == nil
}
