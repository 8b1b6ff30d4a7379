package mcpserver

import (
	"context"
	"encoding/json"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// resumed is the state of a request that continues a call which waits here.
func (rq *request) resumed() (state string, ok bool) {
	if rq.asker == nil || !multiRound[rq.msg.Method] {
		return "", false
	}
	state, ok = rq.asker.params.Text("requestState")
	return state, ok && isOurState(state)
}

// resume answers a repeat that brings the answers to what a call asked.
func (s *Server) resume(rq *request, state string) {
	if refusal := s.admit(rq); refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.streams.leave()
	t, st, refusal := s.findTalk(rq, state)
	if refusal != nil {
		rq.refuse(refusal)
		return
	}
	answers, problem := readAnswers(rq.asker.params)
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	hop, problem := readRelayed(rq.msg.Params)
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	x := &exchange{rq: rq, progress: newProgress(hop.token, s.opts.Now)}
	s.run(x, func(ctx context.Context) []byte {
		if refusal := t.resume(x, st.round, answers); refusal != nil {
			return refusalError(rq.msg.ID, refusal)
		}
		return t.wait(ctx, rq)
	})
}

// findTalk finds the call of a state. A state is good for its owner and its
// request only, for a limited time, and once.
func (s *Server) findTalk(rq *request, text string) (*talk, requestState, *broker.Refusal) {
	st, ok := openState(text, s.opts.SessionKey)
	if !ok {
		return nil, st, stateRefused("The requestState is not one that this broker gave.", "forged")
	}
	if st.owner != stateOwner(rq.principal.Digest(), rq.profile, rq.msg.Method, rq.asker.params) {
		return nil, st, stateRefused("The requestState belongs to another caller or to another request.", "foreign")
	}
	if !s.opts.Now().Before(st.expires) {
		return nil, st, stateRefused("The requestState has expired: the call was cancelled. Call again.", "expired")
	}
	t := s.talks.find(st.talk)
	if t == nil {
		return nil, st, stateRefused("The call that this requestState continues does not wait any more; it may have taken effect. Check before calling again.", "over")
	}
	return t, st, nil
}

func stateRefused(message, why string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, message, map[string]any{"requestState": why})
}

// readAnswers reads the answers by the key of what they answer. What each has to
// look like is the backend's to say; here it must be an object.
func readAnswers(params *jsonrpc.Object) (map[string]json.RawMessage, string) {
	raw, ok := params.Get("inputResponses")
	if !ok {
		return nil, ""
	}
	o, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return nil, `"inputResponses" must be an object`
	}
	answers := make(map[string]json.RawMessage, o.Len())
	for _, m := range o.Members() {
		if m.Value[0] != '{' {
			return nil, "inputResponses." + clip(m.Name) + " must be an object"
		}
		answers[m.Name] = m.Value
	}
	return answers, ""
}

// resume hands the answers over and takes the talk for this request. What was
// not answered is asked again; what was not asked is passed over.
func (t *talk) resume(x *exchange, round uint32, answers map[string]json.RawMessage) *broker.Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return stateRefused("The call that this requestState continues does not wait any more.", "over")
	case t.x != nil || round != t.round:
		return stateRefused("The requestState was used already.", "used")
	}
	t.timer.Stop()
	t.x, t.client = x, x.rq.client
	open := t.asks[:0]
	for _, a := range t.asks {
		answer, ok := answers[a.key]
		if !ok {
			open = append(open, a)
			continue
		}
		// The params are the request's, which may be gone before the backend reads.
		a.answer <- append(json.RawMessage(nil), answer...)
		t.release(len(a.params))
	}
	clear(t.asks[len(open):])
	t.asks = open
	if len(open) > 0 {
		select {
		case t.asked <- struct{}{}:
		default:
		}
	}
	return nil
}
