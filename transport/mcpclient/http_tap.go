package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/broker"

	"github.com/mark3labs/mcp-go/client/transport"
)

var errConnectionRefused = syscall.ECONNREFUSED

// errHandled ends a request whose failure the exchange holds.
var errHandled = errors.New("the exchange holds the failure")

type exchangeKey struct{}

// exchange is one request on its way through mcp-go's transport: what the tap
// below it saw is kept here, as it came.
type exchange struct {
	id       int64 // zero for what has no answer
	plain    bool  // of the handshake
	progress func(broker.Progress)
	stop     context.CancelFunc
	hand     handover

	// Written by the request's goroutine, read by it after SendRequest.
	answer  *message
	failure *broker.Failure
	auth    bool
	status  int

	mu      sync.Mutex
	settled bool
	grace   *time.Timer
	expired bool
}

// beginGrace starts the wait for the answer to a cancelled request; false
// when the request has ended.
func (x *exchange) beginGrace(grace time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.settled {
		return false
	}
	x.grace = time.AfterFunc(grace, func() {
		x.mu.Lock()
		x.expired = true
		x.mu.Unlock()
		x.stop()
	})
	return true
}

// settle ends the exchange and reports whether its grace ran out.
func (x *exchange) settle() (expired bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.settled = true
	if x.grace != nil {
		x.grace.Stop()
	}
	return x.expired
}

func (x *exchange) cancelled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.grace != nil
}

// tap stands between mcp-go's transport and the network. It watches the
// handover, bounds and reads what comes back, keeps the answer's bytes, routes
// progress and answers requests of the backend. What it hands up is the shell
// of the answer alone: mcp-go needs no more for its session, and what it would
// decode (numbers, error data) would not come back as it was.
type tap struct{ c *httpConn }

// RoundTrip implements http.RoundTripper. It runs in the goroutine of the
// request and returns when the answer is there.
func (t tap) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return t.c.sessionEnd(req)
	}
	c := t.c
	ctx, cancel := context.WithCancel(c.ctx)
	unlink := context.AfterFunc(req.Context(), cancel)
	defer unlink()
	resp, err := c.send(ctx, x, req)
	if err != nil {
		cancel()
		return nil, err
	}
	x.status = resp.StatusCode
	keep, err := c.digest(ctx, x, resp)
	if keep {
		c.drain(resp.Body, cancel)
	} else {
		cancel()
		_ = resp.Body.Close() // read to where it was of use
	}
	if err != nil {
		return nil, err
	}
	return shell(req, resp.Header.Get(transport.HeaderKeySessionID), x), nil
}

// send hands the request to the network, again only when a connection that
// had been used before turned out dead and nothing was written on it.
func (c *httpConn) send(ctx context.Context, x *exchange, req *http.Request) (*http.Response, error) {
	const tries = 4
	for try := 1; ; try++ {
		out := req.WithContext(x.hand.trace(ctx))
		if req.GetBody != nil && try > 1 {
			body, err := req.GetBody()
			if err != nil {
				return nil, fmt.Errorf("the body again: %w", err)
			}
			out.Body = body
		}
		out.GetBody = nil // so that net/http itself cannot send it twice
		resp, err := c.base.RoundTrip(out)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil || try == tries || !x.hand.again() {
			return nil, err
		}
		if try > 1 {
			c.base.CloseIdleConnections() // the others are likely dead too
		}
	}
}

// digest reads the response. keep says that the rest of the body may be read
// on, so that its connection can be used again.
func (c *httpConn) digest(ctx context.Context, x *exchange, resp *http.Response) (keep bool, err error) {
	status := resp.StatusCode
	if status < 200 || status > 299 {
		return false, c.refused(x, resp)
	}
	if x.id == 0 {
		return true, nil // a notification: whatever it says is no answer
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch mediaType {
	case "application/json":
		body, over, err := readBody(resp, c.opts.MaxAnswer)
		if err != nil {
			return false, err
		}
		if over {
			c.noise.oversized.Add(1)
			x.failure = tooLarge(c.opts.MaxAnswer)
			return false, errHandled
		}
		return false, c.single(x, body)
	case "text/event-stream":
		return c.follow(ctx, x, resp)
	}
	x.failure = &broker.Failure{Dispatched: true, Cause: fmt.Sprintf("the backend answered HTTP %d without JSON and without a stream of events", status)}
	return false, errHandled
}

// single takes the one message of a JSON response.
func (c *httpConn) single(x *exchange, body []byte) error {
	body, replaced := validText(body)
	if replaced {
		c.noise.badText.Add(1)
	}
	m, err := decodeMessage(body)
	if err != nil || m.method != "" {
		c.noise.broken.Add(1)
		x.failure = &broker.Failure{Dispatched: true, Cause: "the backend answered with something that is no JSON-RPC response"}
		return errHandled
	}
	if !x.accept(&m) {
		c.noise.unknown.Add(1)
		x.failure = &broker.Failure{Dispatched: true, Cause: "the backend answered another request than the one that was sent"}
		return errHandled
	}
	return nil
}

// accept takes a response if it is the one to this request. An error without
// an id is: nothing else was asked on this stream.
func (x *exchange) accept(m *message) bool {
	id, ok := number(m.id)
	if ok && id == x.id || m.err != nil && !m.hasID() {
		x.answer = m
		return true
	}
	return false
}

// refused turns a status that is no success into a failure.
func (c *httpConn) refused(x *exchange, resp *http.Response) error {
	status := resp.StatusCode
	f := &broker.Failure{Dispatched: true}
	switch {
	case status == http.StatusUnauthorized:
		// RFC 9110 section 15.5.2: such a request has not been applied.
		f.Dispatched, f.Gone, x.auth = false, true, true
		f.Cause = "the backend does not accept our credentials (HTTP 401)"
		c.life.end(f.Cause)
	case status == http.StatusForbidden:
		// As for 401; but it may be about this one verb, so the life goes on.
		f.Dispatched, x.auth = false, true
		f.Cause = "the backend forbids this with our credentials (HTTP 403)"
	case status == http.StatusNotFound && c.client.GetSessionId() != "":
		f.Dispatched, f.Gone = false, true
		f.Cause = "the backend has lost our session (HTTP 404)"
		c.lost.Store(true)
		c.life.end(f.Cause)
	case status >= 300 && status < 400:
		f.Cause = fmt.Sprintf("the backend answers with a redirect (HTTP %d), which is not followed; configure the final address", status)
	default:
		return c.errorStatus(x, resp, f)
	}
	x.failure = f
	return errHandled
}

// errorStatus looks into the body of an error status: it may hold the answer.
func (c *httpConn) errorStatus(x *exchange, resp *http.Response, f *broker.Failure) error {
	f.Cause = fmt.Sprintf("the backend answered HTTP %d", resp.StatusCode)
	body, over, err := readBody(resp, min(c.opts.MaxAnswer, 1<<20))
	if m, broken := decodeMessage(body); err == nil && !over && broken == nil && m.err != nil {
		if id, ok := number(m.id); ok && id == x.id {
			x.answer = &m
			return nil
		}
		if e, err := decodeError(m.err); err == nil && e.Message != "" {
			f.Cause = c.opts.Redact(f.Cause + ": " + brief(e.Message))
		}
	}
	if resp.StatusCode == http.StatusBadRequest && !x.plain && x.id != 0 && c.client.GetSessionId() != "" {
		c.probe()
	}
	x.failure = f
	return errHandled
}

// probe finds out whether a 400 means that the session is unknown, as servers
// exist that do not say 404 then: it asks for a ping.
func (c *httpConn) probe() {
	if !c.probing.CompareAndSwap(false, true) {
		return
	}
	asked := c.help(func(ctx context.Context) {
		defer c.probing.Store(false)
		x := &exchange{id: c.lastID.Add(1), plain: true}
		_, _ = c.client.SendRequest(context.WithValue(ctx, exchangeKey{}, x), pingRequest(x.id))
		if x.status == http.StatusBadRequest && x.answer == nil {
			c.lost.Store(true)
			c.life.end("the backend has lost our session (HTTP 400 to a ping)")
		}
	})
	if !asked {
		c.probing.Store(false)
	}
}

// readBody reads at most max bytes; over says that there are more.
func readBody(resp *http.Response, max int) (body []byte, over bool, err error) {
	var b bytes.Buffer
	if n := resp.ContentLength; n > int64(max) {
		return nil, true, nil
	} else if n > 0 {
		b.Grow(int(min(n, 1<<20)) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(resp.Body, int64(max)+1))
	return b.Bytes(), n > int64(max), err
}

// drain reads the rest of a body in the background, so that its connection can
// be used again; a body that does not end soon is cut.
func (c *httpConn) drain(body io.ReadCloser, cancel context.CancelFunc) {
	const rest, limit = 256 << 10, time.Second
	ok := c.help(func(context.Context) {
		t := time.AfterFunc(limit, cancel)
		_, _ = io.CopyN(io.Discard, body, rest) // its end is all that counts
		t.Stop()
		cancel()
		_ = body.Close()
	})
	if !ok {
		cancel()
		_ = body.Close()
	}
}

// shell is the response that mcp-go gets: the session, and that there was an
// answer.
func shell(req *http.Request, session string, x *exchange) *http.Response {
	resp := &http.Response{
		StatusCode: http.StatusAccepted, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 2), Body: http.NoBody, Request: req,
	}
	if x.id == 0 {
		return resp
	}
	body := `{"jsonrpc":"2.0","id":1,"result":{}}`
	if x.answer.err != nil {
		body = `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":""}}`
	}
	resp.StatusCode = http.StatusOK
	resp.Header["Content-Type"] = []string{"application/json"}
	if session != "" {
		resp.Header.Set(transport.HeaderKeySessionID, session)
	}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp
}

// sessionEnd sends the DELETE of mcp-go's Close, with our headers and within
// the time of our Close.
func (c *httpConn) sessionEnd(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if req.Method != http.MethodDelete || closing == nil || c.lost.Load() {
		return nil, errHandled
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(closing, cancel)()
	out := req.Clone(ctx)
	c.dress(out)
	resp, err := c.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	resp.Body = http.NoBody
	return resp, nil
}

// dress sets the configured headers on a request of our own.
func (c *httpConn) dress(req *http.Request) {
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	if c.host != "" {
		req.Host = c.host
	}
}

// explain says in one sentence why the network gave no answer, without the
// URL that net/http puts before it.
func explain(err error) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case err == nil:
		return "the backend gave no answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the backend closed the connection before its answer was complete"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the backend reset the connection before its answer was complete"
	}
	return "the backend could not be reached or did not answer: " + brief(err.Error())
}
