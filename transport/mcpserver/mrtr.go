package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// A harness of the stateless era cannot be asked in the course of a request. A
// backend of the older era asks all the same, so the request then ends with
// what it asks (resultType "input_required") while the backend's call goes on
// waiting here; the harness repeats the request with its answers, and that
// repeat continues the call. A backend of the same era never asks: what it
// wants is its result, which passes through.

// multiRound are the requests that may end with questions.
var multiRound = map[string]bool{"tools/call": true, "prompts/get": true, "resources/read": true}

// The bounds of calls that wait for their harness.
const (
	talkPatience   = 5 * time.Minute       // for the harness to come back
	talkGather     = 50 * time.Millisecond // of silence, for questions that come together
	talkGatherMost = 500 * time.Millisecond
	maxTalks       = 1024
	maxTalksEach   = 64 // of one principal
	maxTalkAsks    = 16 // open questions of one call
	maxTalkBytes   = 1 << 20
	maxTalksBytes  = 64 << 20
)

// talk is one call over several requests of its harness.
type talk struct {
	// fixed at construction
	server *Server
	id     talkID
	who    string // digest of the principal
	owner  [32]byte
	client broker.Client
	render func(*request, actors.Reply) []byte
	cancel context.CancelFunc // of the call
	asked  chan struct{}      // capacity 1: there is a new question
	done   chan struct{}      // closed with reply
	reply  actors.Reply

	mu      sync.Mutex
	asks    []*inputAsk // open, in the order they came
	count   int         // of questions so far, which names them
	bytes   int         // of open questions
	round   uint32      // how often the harness was asked
	x       *exchange   // of the request that waits now; nil: the harness is away
	timer   *time.Timer // ends the talk while the harness is away
	over    bool        // nobody can continue it any more
	lacking string      // first capability that was needed and not declared
}

// inputAsk is one question of the backend.
type inputAsk struct {
	key    string
	method string
	params json.RawMessage // nil when absent
	answer chan json.RawMessage
}

// perform runs a call and gives its response. A harness of the stateless era
// may get questions instead, and takes the call up again with their answers.
func (s *Server) perform(ctx context.Context, x *exchange, req actors.Request, render func(*request, actors.Reply) []byte) []byte {
	rq := x.rq
	if rq.asker == nil {
		return render(rq, s.carry(ctx, rq, req))
	}
	req.DropCancels = true
	t := &talk{server: s, who: rq.principal.Digest(), client: rq.client, render: render,
		asked: make(chan struct{}, 1), done: make(chan struct{}), x: x}
	req.Peer, req.Away = t.peer(req.Peer), t.away
	if !multiRound[req.Call.Method] || !askable(rq.client.Capabilities) {
		t.reply = s.opts.Broker.Do(ctx, req)
		return t.response(rq)
	}
	if _, err := io.ReadFull(s.opts.Random, t.id[:]); err != nil {
		return refusalError(rq.msg.ID, broker.AsRefusal(err))
	}
	t.owner = stateOwner(t.who, rq.profile, rq.msg.Method, rq.asker.params)
	// The call outlives this request if its backend asks, so only the waiting
	// below ends it with the request.
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	go func() {
		defer cancel()
		defer close(t.done)
		t.reply = s.runTalk(over, t, req)
	}()
	return t.wait(ctx, rq)
}

// runTalk keeps a panic in a call from ending the process.
func (s *Server) runTalk(ctx context.Context, t *talk, req actors.Request) (reply actors.Reply) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("panic while a call was run", slog.String("method", req.Call.Method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			reply = actors.Reply{Refusal: broker.AsRefusal(fmt.Errorf("panic: %v", p))}
		}
	}()
	return s.opts.Broker.Do(ctx, req)
}

// askable reports whether a client of these capabilities can be asked at all.
func askable(capabilities json.RawMessage) bool {
	return declares(capabilities, "sampling") || declares(capabilities, "elicitation") || declares(capabilities, "roots")
}

// peer is the caller's side of the call: what it sends goes to the request
// that waits now, and is dropped between two of them.
func (t *talk) peer(first broker.Peer) broker.Peer {
	p := broker.Peer{Request: t.ask}
	if first.Progress != nil {
		p.Progress = func(n broker.Progress) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.x != nil && t.x.progress != nil {
				t.x.progress.report(n)
			}
		}
	}
	p.Notify = func(method string, params json.RawMessage) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.x != nil && t.x.rq.accept.stream && t.x.rq.hears(method, params) {
			t.x.notify(method, params)
		}
	}
	return p
}

// away reports that the harness was asked and is not back yet.
func (t *talk) away() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.x == nil && !t.over
}

// wait gives the response of one of the talk's requests: the backend's, or
// what it asks. The end of ctx ends the call: in this era a closed stream is a
// cancel.
func (t *talk) wait(ctx context.Context, rq *request) []byte {
	for {
		select {
		case <-t.done:
			return t.response(rq)
		case <-ctx.Done():
			t.cancel()
			<-t.done
			return t.response(rq)
		case <-t.asked:
			t.gather(ctx)
			if message := t.questions(rq); message != nil {
				return message
			}
		}
	}
}

// gather lets questions that a backend asks together come together.
func (t *talk) gather(ctx context.Context) {
	most := time.NewTimer(talkGatherMost)
	defer most.Stop()
	for {
		quiet := time.NewTimer(talkGather)
		select {
		case <-t.asked:
			quiet.Stop()
			continue
		case <-quiet.C:
		case <-most.C:
		case <-t.done:
		case <-ctx.Done():
		}
		quiet.Stop()
		return
	}
}

// questions ends a round: the harness is asked what is open and the call waits
// for it, for a limited time. It is nil when nothing is open any more.
func (t *talk) questions(rq *request) []byte {
	select {
	case <-t.done:
		return nil // the answer counts
	default:
	}
	if !t.server.talks.enter(t) {
		t.withdraw()
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asks) == 0 {
		return nil
	}
	t.round++
	t.x = nil
	t.timer = time.AfterFunc(talkPatience, t.expire)
	state := requestState{talk: t.id, round: t.round, expires: t.server.opts.Now().Add(talkPatience).Truncate(time.Second), owner: t.owner}
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, a := range t.asks {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, jsonrpc.Quote(a.key)...), `:{"method":`...)
		out = append(append(out, jsonrpc.Quote(a.method)...), `,"params":`...)
		if a.params == nil {
			out = append(out, "{}"...)
		}
		out = append(append(out, a.params...), '}')
	}
	out = append(append(append(out, `},"requestState":`...), jsonrpc.Quote(state.seal(t.server.opts.SessionKey))...), '}')
	return jsonrpc.AppendResult(nil, rq.msg.ID, out)
}

// withdraw answers every open question with an error.
func (t *talk) withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.asks {
		close(a.answer)
	}
	t.asks = nil
	t.release(t.bytes)
}

// release gives back the room of questions that are not open any more. The
// caller holds the lock.
func (t *talk) release(bytes int) {
	t.bytes -= bytes
	t.server.talks.give(bytes)
}

// expire ends the talk of a harness that did not come back: nobody could read
// the answer any more.
func (t *talk) expire() {
	t.mu.Lock()
	away := t.x == nil && !t.over
	t.over = t.over || away
	t.mu.Unlock()
	if away {
		t.cancel()
		t.server.talks.leave(t)
	}
}

// response is the end of the call.
func (t *talk) response(rq *request) []byte {
	t.mu.Lock()
	lacking := t.lacking
	t.x, t.over = nil, true
	t.mu.Unlock()
	t.server.talks.leave(t)
	if a := t.reply.Answer; lacking != "" && a != nil && a.Error != nil && a.Error.Code != codeMissingCapability {
		return missingCapability(rq.msg.ID, lacking, a.Error)
	}
	return t.render(rq, t.reply)
}

// missingCapability is the error for a call that could not be done because its
// backend needed what the client did not declare.
func missingCapability(id []byte, capability string, cause *broker.RPCError) []byte {
	data := []byte(`{"requiredCapabilities":`)
	names := strings.Split(capability, ".")
	for _, name := range names {
		data = append(append(append(data, '{'), jsonrpc.Quote(name)...), ':')
	}
	data = append(data, "{}"...)
	data = append(data, strings.Repeat("}", len(names))...)
	data = append(append(append(data, `,"cause":`...), cause.Object()...), '}')
	return jsonrpc.AppendError(nil, id, codeMissingCapability, "The call needs a capability that the client did not declare: "+capability, data)
}

// needed names the capability that a question needs.
func needed(method string, params json.RawMessage) string {
	switch method {
	case "sampling/createMessage":
		if asksTools(params) {
			return "sampling.tools"
		}
		return "sampling"
	case "roots/list":
		return "roots"
	case "elicitation/create":
		if o, err := jsonrpc.ParseObject(params); err == nil {
			if mode, _ := o.Text("mode"); mode == "url" {
				return "elicitation.url"
			}
		}
		return "elicitation"
	}
	return ""
}

// ask is how the backend asks: the answer comes with a later request.
func (t *talk) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
	capability := needed(method, params)
	if capability == "" {
		return nil, &broker.RPCError{Code: jsonrpc.CodeMethodNotFound, Message: "The harness speaks a version of the protocol in which it cannot be asked this: " + clip(method)}
	}
	if problem := undeclared(t.client.Capabilities, method, params); problem != nil {
		t.mu.Lock()
		if t.lacking == "" {
			t.lacking = capability
		}
		t.mu.Unlock()
		return nil, problem
	}
	a := &inputAsk{method: method, params: withoutToken(params), answer: make(chan json.RawMessage, 1)}
	if problem := t.add(a); problem != nil {
		return nil, problem
	}
	select {
	case answer, ok := <-a.answer:
		if !ok {
			return nil, broker.NoPeer("The harness was not asked: too many calls wait for theirs, or the broker is stopping.")
		}
		return answer, nil
	case <-ctx.Done():
		t.remove(a)
		return nil, broker.NoPeer("The harness did not answer before the call ended.")
	}
}

// add notes a question and wakes who waits.
func (t *talk) add(a *inputAsk) *broker.RPCError {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil {
		// The call cannot be taken up again: its method has no rounds.
		return broker.NoPeer("The harness cannot be asked in the course of this request.")
	}
	if len(t.asks) >= maxTalkAsks || t.bytes+len(a.params) > maxTalkBytes || !t.server.talks.take(len(a.params)) {
		return broker.NoPeer("Too much is asked of this harness at once.")
	}
	t.count++
	a.key = "input_" + strconv.Itoa(t.count)
	t.bytes += len(a.params)
	t.asks = append(t.asks, a)
	select {
	case t.asked <- struct{}{}:
	default:
	}
	return nil
}

// remove forgets a question that its backend does not ask any more.
func (t *talk) remove(a *inputAsk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.asks, a); i >= 0 {
		t.asks = slices.Delete(t.asks, i, i+1)
		t.release(len(a.params))
	}
}

// withoutToken takes a progress token of the backend's hop out of a question.
func withoutToken(params json.RawMessage) json.RawMessage {
	if params == nil {
		return nil
	}
	h, problem := readRelayed(params)
	if problem != "" {
		return params
	}
	return h.params
}
