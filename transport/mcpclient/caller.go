package mcpclient

import (
	"context"
	"encoding/json"
	"sync"

	"berth/broker"
)

// caller is who made a call that is in flight, as its backend may address it:
// nothing reaches it once the call is over.
type caller struct {
	peer     broker.Peer
	progress bool   // it wants it
	session  string // who it is, to tell one session from another

	mu     sync.Mutex
	closed bool
	over   context.Context // ends with the call; made with the first question
	end    context.CancelFunc
	asking sync.WaitGroup
}

func newCaller(call *broker.Call, peer broker.Peer) *caller {
	who := &caller{peer: peer, progress: call.WantProgress && peer.Progress != nil}
	// Requests of the stateless era belong to no session, whatever they are
	// queued by.
	if call.Session == "" || call.Client.Stateless {
		who.session = "call " + call.ID
	} else {
		who.session = "session " + call.Principal.Key() + " " + call.Session
	}
	return who
}

// takeProgress hands on a progress notification; false when nobody takes it.
func (w *caller) takeProgress(p broker.Progress) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !w.progress {
		return false
	}
	w.peer.Progress(p)
	return true
}

// notify hands on another notification; false when nobody takes it.
func (w *caller) notify(method string, params json.RawMessage) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.peer.Notify == nil {
		return false
	}
	w.peer.Notify(method, params)
	return true
}

// ask puts a question to the caller and waits, at most until ctx or the call
// ends.
func (w *caller) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
	if w.peer.Request == nil {
		return nil, cannotAsk(method)
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, broker.NoPeer("The call that this belongs to is over.")
	}
	if w.over == nil {
		w.over, w.end = context.WithCancel(context.Background())
	}
	w.asking.Add(1)
	w.mu.Unlock()
	defer w.asking.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.over, cancel)()
	result, refused := w.peer.Request(ctx, method, params)
	if result == nil && refused == nil {
		refused = broker.NoPeer("The harness gave no answer.")
	}
	return result, refused
}

// finish ends what the backend may still ask and waits for it, as nothing of
// the peer may be used once the call has returned.
func (w *caller) finish() {
	w.mu.Lock()
	w.closed = true
	end := w.end
	w.mu.Unlock()
	if end != nil {
		end()
	}
	w.asking.Wait()
}

// sole finds out whether all calls in flight are of one session, and whom a
// request of the backend that names no call is then for.
type sole struct {
	who     *caller // who can be asked, of the latest call
	id      int64
	session string
	any     bool
	many    bool
}

func (s *sole) see(id int64, who *caller) {
	if s.any && s.session != who.session {
		s.many = true
	}
	s.any, s.session = true, who.session
	if who.peer.Request != nil && (s.who == nil || id > s.id) {
		s.who, s.id = who, id
	}
}

// found is the caller, or why there is none.
func (s *sole) found(method string) (*caller, *broker.RPCError) {
	switch {
	case !s.any:
		return nil, broker.NoPeer("No call is in flight, so there is no session to ask for " + method + ".")
	case s.many:
		return nil, broker.NoPeer("Calls of several sessions are in flight on this connection, so it cannot be told whom to ask for " + method + ".")
	case s.who == nil:
		return nil, cannotAsk(method)
	}
	return s.who, nil
}
