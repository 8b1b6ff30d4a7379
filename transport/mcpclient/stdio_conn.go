package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
)

const (
	// stopGrace limits the stop of a child whose end nobody asked for.
	stopGrace = 10 * time.Second
	// drainGrace is how long an exited child's stdout is read on: what it
	// wrote before it ended is an answer.
	drainGrace = 500 * time.Millisecond
	// exitGrace is how long an exit is waited for after a pipe ended, so that
	// its reason can be told.
	exitGrace = 500 * time.Millisecond
	// notesKept is how many notifications wait for a slow reader.
	notesKept = 64
)

// stdioConn is one life of a child.
type stdioConn struct {
	// Fixed at construction; incarnation once open has returned.
	hear  broker.Hear // nil: nobody listens
	child Child
	opts  Options
	noise *noise
	life  *life
	inc   atomic.Pointer[broker.Incarnation] // nil before open has returned

	// Shared and safe.
	lastID   atomic.Int64
	desk     *desk
	calls    chan *outgoing  // to the writer
	control  chan *outgoing  // to the writer, ahead of calls
	broken   chan string     // a pipe ended, and which
	closing  chan closeOrder // Close was called; capacity 1
	finished chan struct{}   // the keeper has torn everything down
	readDone chan struct{}   // the reader has seen the end of stdout

	mu      sync.Mutex
	pending map[int64]*pending
	closed  error // what the stop said; written before finished is closed
}

type closeOrder struct{ ctx context.Context }

// pending is a request that waits for its answer.
type pending struct {
	out    *outgoing
	answer chan verdict // capacity 1; the reader or the keeper sends once
	who    *caller      // nil for a request of our own
	notes  notes
	// listen takes what comes on the stream that this request opened, if it
	// opened one. It is called by the reader and must not block.
	listen func(*message)
}

// verdict is how a request ended.
type verdict struct {
	message message
	failure *broker.Failure
}

func newStdioConn(child Child, opts Options, n *noise, hear broker.Hear) *stdioConn {
	c := &stdioConn{
		child: child, opts: opts, noise: n, life: newLife(), hear: hear,
		desk:     newDesk(n, opts.MaxInFlight),
		calls:    make(chan *outgoing, 4*opts.MaxInFlight),
		control:  make(chan *outgoing, 64+opts.MaxInFlight),
		broken:   make(chan string, 2),
		closing:  make(chan closeOrder, 1),
		finished: make(chan struct{}),
		readDone: make(chan struct{}),
		pending:  map[int64]*pending{},
	}
	var pipes sync.WaitGroup
	pipes.Go(c.write)
	pipes.Go(c.read)
	go c.keep(&pipes)
	return c
}

// Incarnation implements broker.Conn.
func (c *stdioConn) Incarnation() broker.Incarnation { return known(&c.inc) }

// Call implements broker.Conn.
func (c *stdioConn) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	who := newCaller(call, peer)
	defer who.finish()
	params, err := undressed(call)
	if err != nil {
		return broker.Answer{}, badParams()
	}
	return c.send(ctx, call, who, params)
}

// send sends the call with params and waits for its answer.
func (c *stdioConn) send(ctx context.Context, call *broker.Call, who *caller, params json.RawMessage) (broker.Answer, error) {
	id := c.lastID.Add(1)
	if who.progress {
		var err error
		// The token is the id: both are ours and unique on this hop.
		if params, err = withProgressToken(params, strconv.AppendInt(nil, id, 10)); err != nil {
			return broker.Answer{}, badParams()
		}
	}
	p := newPending(id, call.Method, params)
	p.who = who
	if who.progress || who.peer.Notify != nil {
		p.notes.wake = make(chan struct{}, 1)
	}
	return c.exchange(ctx, id, p)
}

func newPending(id int64, method string, params json.RawMessage) *pending {
	return &pending{
		out:    &outgoing{line: requestLine(id, method, params)},
		answer: make(chan verdict, 1),
	}
}

func badParams() *broker.Failure {
	return &broker.Failure{
		Cause:   "the params are not an object with an object as _meta",
		Refusal: broker.Refuse(broker.CodeInvalidArguments, "The params must be a JSON object, and so must their _meta.", nil),
	}
}

// exchange sends one request and waits for its answer.
func (c *stdioConn) exchange(ctx context.Context, id int64, p *pending) (broker.Answer, error) {
	if err := ctx.Err(); err != nil {
		return broker.Answer{}, ended(ctx)
	}
	if !c.register(id, p) {
		return broker.Answer{}, c.gone(false)
	}
	defer c.forget(id)
	select {
	case c.calls <- p.out:
	case v := <-p.answer:
		return c.conclude(v)
	case <-ctx.Done():
		return broker.Answer{}, ended(ctx)
	}
	for {
		select {
		case v := <-p.answer:
			p.notes.hand(p.who) // what came before the answer
			return c.conclude(v)
		case <-p.notes.wake:
			p.notes.hand(p.who)
		case <-ctx.Done():
			if p.out.withdraw() {
				return broker.Answer{}, ended(ctx)
			}
			return c.abandon(ctx, id, p)
		}
	}
}

// abandon asks the backend to cancel and waits for the answer that may come
// all the same.
func (c *stdioConn) abandon(ctx context.Context, id int64, p *pending) (broker.Answer, error) {
	line := requestLine(0, cancelledMethod, cancelParams(id, reason(ctx)))
	c.sendControl(line)
	grace := time.NewTimer(c.opts.CancelGrace)
	defer grace.Stop()
	for {
		select {
		case v := <-p.answer:
			p.notes.hand(p.who)
			return c.conclude(v)
		case <-p.notes.wake:
			p.notes.hand(p.who)
		case <-grace.C:
			return broker.Answer{}, &broker.Failure{
				Dispatched: true, Abandoned: true,
				Cause: "the call was cancelled and the backend gave no answer within the grace",
			}
		}
	}
}

func (c *stdioConn) conclude(v verdict) (broker.Answer, error) {
	if v.failure != nil {
		return broker.Answer{}, v.failure
	}
	a, err := v.message.answer(c.Incarnation().RuntimeID)
	if err != nil {
		c.noise.broken.Add(1)
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "the backend answered with an error that is no JSON-RPC error"}
	}
	return a, nil
}

// register makes the request known to the reader. It reports false when the
// life is over.
func (c *stdioConn) register(id int64, p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return false
	}
	c.pending[id] = p
	return true
}

func (c *stdioConn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// sole finds the caller of a request of the backend: over one pair of pipes it
// names no call. A call that is not written yet cannot have caused it.
func (c *stdioConn) sole(method string) (*caller, *broker.RPCError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var s sole
	for id, p := range c.pending {
		if p.who != nil && p.out.state.Load() == lineWriting {
			s.see(id, p.who)
		}
	}
	return s.found(method)
}

// take gives the request that waits for id, once.
func (c *stdioConn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

func (c *stdioConn) gone(dispatched bool) *broker.Failure {
	cause := c.life.why()
	if cause == "" {
		cause = "the child is gone"
	}
	return &broker.Failure{
		Dispatched: dispatched, Gone: true,
		Cause: cause, Stderr: c.opts.Redact(c.child.Life.StderrTail()),
	}
}

// request and notify are the handshake's view of the connection.
func (c *stdioConn) request(ctx context.Context, method string, params json.RawMessage) (broker.Answer, error) {
	// The handshake has no use for an answer after its time: a short way out
	// is better than the grace, as the child is stopped next.
	id := c.lastID.Add(1)
	p := newPending(id, method, params)
	if !c.register(id, p) {
		return broker.Answer{}, c.gone(false)
	}
	defer c.forget(id)
	select {
	case c.calls <- p.out:
	case <-ctx.Done():
		return broker.Answer{}, ended(ctx)
	}
	select {
	case v := <-p.answer:
		return c.conclude(v)
	case <-ctx.Done():
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "the backend did not answer in time"}
	}
}

// listen sends a request whose answer ends a stream of notifications, which
// take gets. The end of ctx ends the stream.
func (c *stdioConn) listen(ctx context.Context, method string, params json.RawMessage, take func(*message)) (broker.Answer, error) {
	id := c.lastID.Add(1)
	p := newPending(id, method, params)
	p.listen = take
	return c.exchange(ctx, id, p)
}

func (c *stdioConn) notify(_ context.Context, method string, params json.RawMessage) error {
	if !c.sendControl(requestLine(0, method, params)) {
		return errors.New("the child does not read its input")
	}
	return nil
}

// outdated implements hop: a child is what it was as long as it lives.
func (c *stdioConn) outdated(string) bool { return false }

// sendControl queues a line ahead of calls; a full queue means that the child
// has not read for long, and the line is dropped and counted.
func (c *stdioConn) sendControl(line []byte) bool {
	select {
	case c.control <- &outgoing{line: line}:
		return true
	default:
		c.noise.lostReplies.Add(1)
		return false
	}
}

// ended is the failure of a call whose context ended before it was sent.
func ended(ctx context.Context) *broker.Failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &broker.Failure{Cause: "the time of the call was over before it was sent"}
	}
	return &broker.Failure{Cause: "the call was cancelled before it was sent"}
}

// reason is what a backend is told about a cancel: the cause that was given,
// if one was.
func reason(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return "The time of the call is over."
	case errors.Is(cause, context.Canceled):
		return "The caller cancelled the call."
	default:
		return cause.Error()
	}
}
