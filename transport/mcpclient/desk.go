package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

// clientCapabilities is what a backend of the handshake era is told: what some
// harness behind Berth may be able to do. One that cannot is asked all the
// same, and says so. Roots do not report changes, as there is no one session
// whose roots they could be.
const clientCapabilities = `{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`

// askable reports whether a harness is asked for this.
func askable(method string) bool {
	switch method {
	case string(mcp.MethodSamplingCreateMessage), string(mcp.MethodElicitationCreate), string(mcp.MethodListRoots):
		return true
	}
	return false
}

// desk holds the open questions of a backend over one life, and what else runs
// as long as that. It is safe for concurrent use.
type desk struct {
	noise *noise
	limit int
	ctx   context.Context
	stop  context.CancelFunc

	mu      sync.Mutex
	open    map[*question]struct{}
	closed  bool
	working sync.WaitGroup
}

// question is one request of the backend that waits for its answer.
type question struct {
	scope  *exchange // the stream that it came on; nil on stdio
	id     string    // as the backend wrote it
	cancel context.CancelFunc
	// withdrawn by the backend, which then expects no answer; guarded by the
	// desk's lock.
	withdrawn bool
}

func newDesk(n *noise, inFlight int) *desk {
	d := &desk{noise: n, limit: 32 + 2*inFlight, open: map[*question]struct{}{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// take answers a request of the backend: at once, or when the caller that find
// names has. send takes the response and must not block.
func (d *desk) take(scope *exchange, m *message, find func() (*caller, *broker.RPCError), send func(line []byte)) {
	if m.method == string(mcp.MethodPing) {
		send(jsonrpc.AppendResult(nil, m.id, json.RawMessage(`{}`)))
		return
	}
	who, refused := (*caller)(nil), methodUnknown
	if askable(m.method) {
		who, refused = find()
	}
	if refused == nil && who.peer.Request == nil {
		refused = cannotAsk(m.method)
	}
	var q *question
	var ctx context.Context
	if refused == nil {
		q, ctx, refused = d.enter(scope, m.id)
	}
	if refused != nil {
		d.noise.requests.Add(1)
		send(jsonrpc.AppendErrorObject(nil, m.id, refused.Object()))
		return
	}
	go func() {
		defer d.working.Done()
		result, failed := who.ask(ctx, m.method, m.params)
		if d.leave(q) {
			return
		}
		if failed != nil {
			send(jsonrpc.AppendErrorObject(nil, m.id, failed.Object()))
			return
		}
		send(jsonrpc.AppendResult(nil, m.id, result))
	}()
}

func cannotAsk(method string) *broker.RPCError {
	return broker.NoPeer("The caller of this call cannot be asked for " + method + ".")
}

var methodUnknown = &broker.RPCError{Code: mcp.METHOD_NOT_FOUND, Message: "This client declares no such capability."}

func (d *desk) enter(scope *exchange, id json.RawMessage) (*question, context.Context, *broker.RPCError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, nil, broker.NoPeer("The connection is being closed.")
	case len(d.open) >= d.limit:
		return nil, nil, broker.NoPeer("Too many requests of this backend are open.")
	}
	for q := range d.open {
		if q.scope == scope && q.id == string(id) {
			return nil, nil, &broker.RPCError{Code: mcp.INVALID_REQUEST, Message: "Another request with this id is open."}
		}
	}
	ctx, cancel := context.WithCancel(d.ctx)
	q := &question{scope: scope, id: string(id), cancel: cancel}
	d.open[q] = struct{}{}
	d.working.Add(1)
	return q, ctx, nil
}

// leave ends a question and reports whether the backend has withdrawn it.
func (d *desk) leave(q *question) (withdrawn bool) {
	q.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, q)
	return q.withdrawn
}

// withdraw takes a cancel of the backend. It may come on another stream than
// the question did; then the question must be the only one of its id.
func (d *desk) withdraw(scope *exchange, params json.RawMessage) {
	named, err := jsonrpc.ParseObject(params)
	if err != nil {
		d.noise.broken.Add(1)
		return
	}
	id, ok := named.Get("requestId")
	if !ok {
		d.noise.broken.Add(1)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *question
	elsewhere := 0
	for q := range d.open {
		if q.id != string(bytes.TrimSpace(id)) {
			continue
		}
		if q.scope == scope {
			found, elsewhere = q, 0
			break
		}
		found = q
		elsewhere++
	}
	if found != nil && elsewhere <= 1 {
		found.withdrawn = true
		found.cancel()
	}
}

// background runs what lasts as long as the life.
func (d *desk) background(f func(ctx context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.working.Go(func() { f(d.ctx) })
	}
}

// close ends all questions, and what runs in the background, and waits.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.working.Wait()
}

// cancelParams are the params of notifications/cancelled.
func cancelParams(id int64, reason string) []byte {
	b := append([]byte(`{"requestId":`), strconv.FormatInt(id, 10)...)
	b = append(b, `,"reason":`...)
	return append(jsonrpc.AppendQuote(b, reason), '}')
}
