package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// closeGrace limits the end of a session, and what a life that failed to
	// open may take to close.
	closeGrace = 5 * time.Second
	// helperGrace limits a reply, a cancel or a probe.
	helperGrace = 10 * time.Second
)

// httpConn is one life of an upstream: a session, or as long as a stateless
// server can be reached.
type httpConn struct {
	// Fixed at construction; incarnation once open has returned.
	hear     broker.Hear // nil: nobody listens
	opts     Options
	noise    *noise
	fresh    *fresh // of the upstream; nil: there is no other header than ours
	life     *life
	target   *url.URL
	host     string // for the Host header; empty: the target's
	base     *http.Transport
	ctx      context.Context // ends when the life is closed
	cancel   context.CancelFunc
	finished chan struct{}                      // everything is torn down
	inc      atomic.Pointer[broker.Incarnation] // nil before open has returned
	reported atomic.Pointer[string]             // runtime id in the response to the first request

	// header is what every request carries. The map is never changed, only
	// replaced, and by open's goroutine alone: requests share it.
	header atomic.Pointer[http.Header]

	// Shared and safe.
	lastID    atomic.Int64
	stateless atomic.Bool // the backend is of that era
	bound     atomic.Pointer[map[string][]binding]
	desk      *desk
	probing   atomic.Bool
	lost      atomic.Bool // the session is unknown to the backend: no DELETE
	expired   atomic.Bool // it was not opened because its headers had been good for too long

	mu       sync.Mutex
	closing  context.Context     // of the first Close
	flying   map[int64]*exchange // the calls that wait for their answers
	helpers  int
	helpersW sync.WaitGroup
}

// Incarnation implements broker.Conn.
func (c *httpConn) Incarnation() broker.Incarnation { return known(&c.inc) }

// known gives the facts of a life; none before it has been opened.
func known(inc *atomic.Pointer[broker.Incarnation]) broker.Incarnation {
	if p := inc.Load(); p != nil {
		return *p
	}
	return broker.Incarnation{}
}

// Call implements broker.Conn.
func (c *httpConn) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	who := newCaller(call, peer)
	defer who.finish()
	params, err := undressed(call)
	if err != nil {
		return broker.Answer{}, badParams()
	}
	return c.send(ctx, call, who, params)
}

// send sends the call with params and waits for its answer.
func (c *httpConn) send(ctx context.Context, call *broker.Call, who *caller, params json.RawMessage) (broker.Answer, error) {
	x := &exchange{id: c.lastID.Add(1), call: call, who: who, extra: traceHeaders(c.headers(call.Method, params), call.Trace)}
	switch {
	case x.who.progress:
		var err error
		if params, err = withProgressToken(params, strconv.AppendInt(nil, x.id, 10)); err != nil {
			return broker.Answer{}, badParams()
		}
	case len(params) > 0 && !json.Valid(params):
		// A body that is no JSON may be answered by anything: 400, or a reset.
		return broker.Answer{}, badParams()
	}
	return c.exchange(ctx, x, call.Method, params)
}

// exchange sends one request and waits for its answer. The request runs under
// a context of its own: the end of ctx is a cancel, not a broken connection.
func (c *httpConn) exchange(ctx context.Context, x *exchange, method string, params json.RawMessage) (broker.Answer, error) {
	if ctx.Err() != nil {
		return broker.Answer{}, ended(ctx)
	}
	if c.life.over() {
		return broker.Answer{}, c.gone(false)
	}
	x.ctx, x.stop = context.WithCancel(c.ctx)
	stop := context.AfterFunc(ctx, func() { c.interrupt(ctx, x) })
	defer stop()
	c.depart(x)
	defer c.land(x)
	err := c.post(x, requestLine(x.id, method, params))
	abandoned := x.settle()
	if x.answer != nil {
		return c.conclude(x)
	}
	return broker.Answer{}, c.failure(ctx, x, err, abandoned)
}

func (c *httpConn) conclude(x *exchange) (broker.Answer, error) {
	life := c.Incarnation().RuntimeID
	if x.another != "" {
		life = x.another
	}
	a, err := x.answer.answer(life)
	if err != nil {
		c.noise.broken.Add(1)
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "the backend answered with an error that is no JSON-RPC error"}
	}
	return a, nil
}

func (c *httpConn) depart(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying[x.id] = x
}

func (c *httpConn) land(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flying, x.id)
}

// flight finds the call in flight that id is of.
func (c *httpConn) flight(id int64) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flying[id]
}

// sole finds the caller of a request that came on a stream of no call.
func (c *httpConn) sole(method string) (*caller, *broker.RPCError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var s sole
	for id, x := range c.flying {
		s.see(id, x.who)
	}
	return s.found(method)
}

// failure says why no answer came and how far the request got.
func (c *httpConn) failure(ctx context.Context, x *exchange, err error, abandoned bool) *broker.Failure {
	if x.failure != nil {
		return x.failure
	}
	handed := !x.hand.withdraw()
	switch {
	case c.ctx.Err() != nil:
		return c.gone(handed)
	case ctx.Err() != nil && !handed:
		return ended(ctx)
	case abandoned:
		return &broker.Failure{
			Dispatched: true, Abandoned: true,
			Cause: "the call was cancelled and the backend gave no answer within the grace",
		}
	case ctx.Err() != nil && x.cancelled() && c.stateless.Load():
		return &broker.Failure{Dispatched: true, Cause: "the call was cancelled, of which the end of its stream told the backend"}
	case ctx.Err() != nil && x.cancelled():
		return &broker.Failure{Dispatched: true, Cause: "the call was cancelled and the backend ended it without an answer"}
	case refusedConnection(err):
		c.life.end("the backend refuses connections")
		return c.gone(handed)
	}
	return &broker.Failure{Dispatched: handed, Cause: explain(err, c.opts)}
}

// interrupt runs when the context of a call ends: what was not handed over is
// withdrawn; else the backend is asked to cancel, and the grace begins.
func (c *httpConn) interrupt(ctx context.Context, x *exchange) {
	if x.hand.withdraw() {
		x.stop()
		return
	}
	if !x.beginGrace(c.opts.CancelGrace) {
		return // it has its answer
	}
	if c.stateless.Load() {
		x.stop() // the end of the stream is the cancel
		return
	}
	why := reason(ctx)
	c.help(func(helping context.Context) {
		if c.notify(helping, cancelledMethod, cancelParams(x.id, why)) != nil {
			c.noise.lostReplies.Add(1)
		}
	})
}

// help runs a bounded helper of this life, or drops it when too many run.
func (c *httpConn) help(f func(ctx context.Context)) bool {
	c.mu.Lock()
	if c.closing != nil || c.helpers >= 64+4*c.opts.MaxInFlight {
		c.mu.Unlock()
		c.noise.lostReplies.Add(1)
		return false
	}
	c.helpers++
	c.helpersW.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.helpersW.Done()
		ctx, cancel := context.WithTimeout(c.ctx, helperGrace)
		f(ctx)
		cancel()
		c.mu.Lock()
		c.helpers--
		c.mu.Unlock()
	}()
	return true
}

func (c *httpConn) gone(dispatched bool) *broker.Failure {
	cause := c.life.why()
	if cause == "" {
		cause = "the connection to the backend was closed"
	}
	return &broker.Failure{Dispatched: dispatched, Gone: true, Cause: cause}
}

// request is the handshake's view of the connection: nothing of it is worth a
// cancel, so the end of ctx ends the request itself.
func (c *httpConn) request(ctx context.Context, method string, params json.RawMessage) (broker.Answer, error) {
	x := &exchange{id: c.lastID.Add(1), plain: true, session: method == string(mcp.MethodInitialize), extra: c.headers(method, params)}
	x.first = x.session || method == string(mcp.MethodServerDiscover)
	err := c.postUnder(ctx, x, requestLine(x.id, method, params))
	if x.answer != nil {
		return c.conclude(x)
	}
	if x.auth {
		return broker.Answer{}, authError{x.failure}
	}
	if ctx.Err() != nil && x.failure == nil {
		return broker.Answer{}, &broker.Failure{Dispatched: true, Cause: "the backend did not answer in time"}
	}
	return broker.Answer{}, c.failure(ctx, x, err, false)
}

// listen sends a request whose answer ends a stream of notifications, which
// take gets. The end of ctx ends the stream.
func (c *httpConn) listen(ctx context.Context, method string, params json.RawMessage, take func(*message)) (broker.Answer, error) {
	x := &exchange{id: c.lastID.Add(1), plain: true, listen: take, extra: c.headers(method, params)}
	err := c.postUnder(ctx, x, requestLine(x.id, method, params))
	if x.answer != nil {
		return c.conclude(x)
	}
	return broker.Answer{}, c.failure(ctx, x, err, false)
}

func (c *httpConn) notify(ctx context.Context, method string, params json.RawMessage) error {
	x := &exchange{}
	if err := c.postUnder(ctx, x, requestLine(0, method, params)); err != nil {
		if x.auth {
			return authError{x.failure}
		}
		return c.failure(ctx, x, err, false)
	}
	return nil
}

// outdated implements hop.
func (c *httpConn) outdated(cause string) bool {
	c.life.end(cause)
	return true
}

// Close implements broker.Conn: it ends what runs and deletes the session.
func (c *httpConn) Close(ctx context.Context) error {
	c.mu.Lock()
	first := c.closing == nil
	if first {
		c.closing = ctx
	}
	c.mu.Unlock()
	if first {
		c.life.end("the connection was closed by the broker")
		go c.tearDown()
	}
	select {
	case <-c.finished:
		return nil
	case <-ctx.Done():
		select {
		case <-c.finished: // both were ready
			return nil
		default:
			return fmt.Errorf("the session is still being closed: %w", ctx.Err())
		}
	}
}

// tearDown is bounded: the DELETE by closeGrace and the context of Close, and
// helpers end with the life's context.
func (c *httpConn) tearDown() {
	defer close(c.finished)
	c.cancel()
	c.desk.close()
	c.helpersW.Wait()
	c.endSession()
	c.base.CloseIdleConnections()
}

// refusedConnection reports that nothing listens where the backend was.
func refusedConnection(err error) bool { return errors.Is(err, errConnectionRefused) }
