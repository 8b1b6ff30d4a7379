package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// The bounds of what is asked of clients and not answered yet.
const (
	maxQuestions        = 8192
	maxQuestionsSession = 64
)

// questions are the requests that were written on clients' streams and wait
// for their responses, which come as messages of their own. One session cannot
// answer for another.
type questions struct {
	prefix string // unique to this process: a response to an earlier life answers nothing

	mu   sync.Mutex
	next uint64
	open map[string]*question // by raw id
	each map[string]int       // by session
}

// question is one of them. Exactly one response is taken.
type question struct {
	session string
	id      json.RawMessage
	answer  chan jsonrpc.Message // capacity 1
}

func (q *questions) begin(session string) (*question, *broker.RPCError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) >= maxQuestions || q.each[session] >= maxQuestionsSession {
		return nil, broker.NoPeer("Too many requests to this client wait for their answers.")
	}
	if q.open == nil {
		q.open, q.each = map[string]*question{}, map[string]int{}
	}
	q.next++
	one := &question{session: session, id: jsonrpc.Quote(q.prefix + strconv.FormatUint(q.next, 10)), answer: make(chan jsonrpc.Message, 1)}
	q.open[string(one.id)] = one
	q.each[session]++
	return one, nil
}

func (q *questions) end(one *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[string(one.id)] != one {
		return
	}
	delete(q.open, string(one.id))
	if q.each[one.session]--; q.each[one.session] == 0 {
		delete(q.each, one.session)
	}
}

// answered takes a response. One that answers nothing of its session is passed
// over: it comes late, or twice.
func (q *questions) answered(session string, msg jsonrpc.Message) {
	q.mu.Lock()
	one := q.open[string(msg.ID)]
	q.mu.Unlock()
	if one == nil || one.session != session {
		return
	}
	q.end(one)
	select {
	case one.answer <- msg:
	default: // another response was faster
	}
}

// askOnStream asks the client of an exchange by writing the request on its
// stream. Without a session nobody could tell whose response comes back, and
// without a stream there is no way to ask.
func (s *Server) askOnStream(x *exchange) func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
	rq := x.rq
	if rq.session == nil || !rq.accept.stream {
		return nil
	}
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
		if problem := undeclared(rq.session.caps, method, params); problem != nil {
			return nil, problem
		}
		one, problem := s.questions.begin(rq.session.key)
		if problem != nil {
			return nil, problem
		}
		defer s.questions.end(one)
		if !x.outbox.put(jsonrpc.AppendRequest(nil, one.id, method, params)) {
			return nil, broker.NoPeer("The client does not read what it is sent, so it cannot be asked.")
		}
		select {
		case msg := <-one.answer:
			return responseOf(msg)
		case <-ctx.Done():
			x.outbox.put(jsonrpc.AppendNotification(nil, "notifications/cancelled",
				fmt.Appendf(nil, `{"requestId":%s,"reason":"the answer is not waited for any more"}`, one.id)))
			return nil, broker.NoPeer("The client did not answer before the call ended.")
		}
	}
}

// responseOf gives a client's response as a backend is to have it.
func responseOf(msg jsonrpc.Message) (json.RawMessage, *broker.RPCError) {
	if msg.Error == nil {
		return msg.Result, nil
	}
	problem := new(broker.RPCError)
	if err := json.Unmarshal(msg.Error, problem); err != nil {
		return nil, broker.NoPeer("The client answered with an error that cannot be read.")
	}
	return nil, problem
}
