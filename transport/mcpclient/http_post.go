package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/broker"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

var errConnectionRefused = syscall.ECONNREFUSED

// errHandled ends a request whose failure the exchange holds.
var errHandled = errors.New("the exchange holds the failure")

// exchange is one message on its way to the backend, and what came of it.
type exchange struct {
	id      int64           // zero for what has no answer
	call    *broker.Call    // nil for what is none
	who     *caller         // of the call
	plain   bool            // of the handshake
	session bool            // it asks for one
	first   bool            // it is the first of a life
	extra   http.Header     // headers of this request alone
	listen  func(*message)  // takes the notifications of the stream
	fresh   *credentials    // that it has; nil: none
	ctx     context.Context // of the HTTP request
	stop    context.CancelFunc
	hand    handover

	// Written and read by the goroutine that posts.
	answer  *message
	failure *broker.Failure
	auth    bool
	status  int
	another string // runtime id of another life than ours, which answered

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

// address sets what every request of this life carries.
func (c *httpConn) address(configured map[string]string) {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	for name, value := range configured {
		if strings.EqualFold(name, "host") {
			c.host = value
			continue
		}
		header.Set(name, value)
	}
	if user := c.target.User; user != nil && header.Get("Authorization") == "" {
		password, _ := user.Password()
		req := http.Request{Header: header}
		req.SetBasicAuth(user.Username(), password)
	}
	c.header.Store(&header)
}

// addHeader has later requests carry one more. The configured ones go first:
// a name that is set already stays.
func (c *httpConn) addHeader(name, value string) {
	header := *c.header.Load()
	if _, taken := header[name]; taken || value == "" {
		return
	}
	header = maps.Clone(header)
	header.Set(name, value)
	c.header.Store(&header)
}

func (c *httpConn) hasSession() bool {
	return c.header.Load().Get(transport.HeaderKeySessionID) != ""
}

// newRequest makes a request to the backend. One with a body and without fresh
// headers shares its header with others. It has no GetBody, so that net/http
// cannot send it twice.
func (c *httpConn) newRequest(ctx context.Context, method string, body []byte, fresh *credentials) *http.Request {
	req := &http.Request{
		Method: method, URL: c.target, Host: c.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: *c.header.Load(),
	}
	if fresh != nil {
		req.Header = maps.Clone(req.Header)
		maps.Copy(req.Header, fresh.header)
	}
	if body == nil {
		// Servers exist that refuse a content type without content.
		req.Header = maps.Clone(req.Header)
		req.Header.Del("Content-Type")
	} else {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return req.WithContext(ctx)
}

// postUnder posts a message that has no worth after the end of ctx.
func (c *httpConn) postUnder(ctx context.Context, x *exchange, body []byte) error {
	x.ctx, x.stop = context.WithCancel(c.ctx)
	defer context.AfterFunc(ctx, x.stop)()
	return c.post(x, body)
}

// post sends one message and reads the response up to the answer, which x
// holds when the error is nil; for a notification there is none. It ends
// x.ctx, or leaves that to the reading of what follows the answer.
func (c *httpConn) post(x *exchange, body []byte) error {
	var err error
	if x.fresh, err = c.fresh.get(x.ctx); err != nil {
		if x.ctx.Err() == nil {
			x.failure, err = noHeaders(err, c.opts), errHandled
		}
		x.stop()
		return err
	}
	resp, err := c.hand(x, body)
	if err != nil {
		x.stop()
		return err
	}
	x.status = resp.StatusCode
	keep, err := c.digest(x.ctx, x, resp)
	if keep {
		c.drain(resp.Body, x.stop)
	} else {
		x.stop()
		_ = resp.Body.Close() // read to where it was of use
	}
	return err
}

// request makes the POST of the message.
func (x *exchange) request(c *httpConn, ctx context.Context, body []byte) *http.Request {
	req := c.newRequest(ctx, http.MethodPost, body, x.fresh)
	if len(x.extra) > 0 {
		req.Header = maps.Clone(req.Header)
		maps.Copy(req.Header, x.extra)
	}
	return req
}

// hand hands the message to the network, again only when a connection that
// had been used before turned out dead and nothing was written on it.
func (c *httpConn) hand(x *exchange, body []byte) (*http.Response, error) {
	const tries = 4
	traced := x.hand.trace(x.ctx)
	for try := 1; ; try++ {
		resp, err := c.base.RoundTrip(x.request(c, traced, body))
		if err == nil {
			return resp, nil
		}
		if x.ctx.Err() != nil || try == tries || !x.hand.again() {
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
	expired := c.fresh.answered(x.fresh, status)
	if status < 200 || status > 299 {
		return false, c.refused(x, resp, expired)
	}
	if x.id == 0 {
		return true, nil // a notification: whatever it says is no answer
	}
	c.identify(x, resp.Header.Get(headerRuntimeID))
	if x.session {
		c.addHeader(transport.HeaderKeySessionID, resp.Header.Get(transport.HeaderKeySessionID))
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

// headerRuntimeID is the header in which a Berth names its life: its sessions
// outlive it, so that nothing else would tell that another life answers.
const headerRuntimeID = "Berth-Runtime-Id"

// identify notes which life of the backend a response comes from. That of
// another life than the one that was opened ends ours.
func (c *httpConn) identify(x *exchange, id string) {
	switch {
	case id == "" || len(id) > maxRuntimeID:
	case x.first:
		c.reported.Store(&id)
	default:
		if inc := c.inc.Load(); inc == nil || !inc.Reported || id == inc.RuntimeID {
			return
		}
		x.another = id
		c.life.end("another incarnation answers at the backend's address")
	}
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
		x.failure = notAResponse()
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
	if ok && id == x.id || x.id != 0 && m.err != nil && !m.hasID() {
		x.answer = m
		return true
	}
	return false
}

// refused turns a status that is no success into a failure. expired says that
// headers which had been good were turned away: with others a life may go on,
// but one that is being opened must not change its mind about the era half way.
func (c *httpConn) refused(x *exchange, resp *http.Response, expired bool) error {
	status := resp.StatusCode
	f := &broker.Failure{Dispatched: true}
	opening := c.inc.Load() == nil
	switch {
	case expired && opening:
		f.Gone, x.auth = true, true
		f.Cause = fmt.Sprintf("the backend does not accept the headers any more that the command gave (HTTP %d)", status)
		c.expired.Store(true)
		c.life.end(f.Cause)
	case expired:
		x.auth = true
		f.Cause = fmt.Sprintf("the backend does not accept the headers any more that the command gave (HTTP %d)", status)
		f.Refusal = turnedAway(x.call, status)
	case status == http.StatusUnauthorized:
		f.Gone, x.auth = true, true
		f.Cause = "the backend does not accept our credentials (HTTP 401)"
		f.Refusal = turnedAway(x.call, status)
		c.life.end(f.Cause)
	case status == http.StatusForbidden:
		// It may be about this one verb, so the life goes on.
		x.auth = true
		f.Cause = "the backend forbids this with our credentials (HTTP 403)"
		f.Refusal = turnedAway(x.call, status)
	case status == http.StatusNotFound && c.hasSession():
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

// turnedAway is the answer to a call that met 401 or 403. RFC 9110 says that
// such a request has not been applied; what stands behind the address need not
// have read it, so nothing is promised. The handshake has no call.
func turnedAway(call *broker.Call, status int) *broker.Refusal {
	if call == nil {
		return nil
	}
	return broker.Refuse(broker.CodeBackendRefused, fmt.Sprintf("The backend %s turned the call away (HTTP %d): Berth's credentials do not allow it.", call.Backend, status),
		map[string]any{"backend": call.Backend, "verb": call.Verb, "http_status": status, "outcome_unknown": call.Effects != broker.Read})
}

// errorStatus looks into the body of an error status: it may hold the answer.
func (c *httpConn) errorStatus(x *exchange, resp *http.Response, f *broker.Failure) error {
	f.Cause = fmt.Sprintf("the backend answered HTTP %d", resp.StatusCode)
	said := false
	body, over, err := readBody(resp, min(c.opts.MaxAnswer, 1<<20))
	if m, broken := decodeMessage(body); err == nil && !over && broken == nil && m.err != nil {
		if id, ok := number(m.id); ok && id == x.id {
			x.answer = &m
			return nil
		}
		if e, err := decodeError(m.err); err == nil && e.Message != "" {
			said = true
			f.Cause = f.Cause + ": " + c.opts.foreign(e.Message)
		}
	}
	if resp.StatusCode == http.StatusBadRequest && !x.plain && x.id != 0 && c.hasSession() {
		if !said && x.call != nil && !methods[x.call.Method] && c.unnamed(x) {
			return nil
		}
		c.probe()
	}
	x.failure = f
	return errHandled
}

// methods are the requests that a version of the protocol names.
var methods = map[string]bool{
	"initialize": true, "ping": true, "logging/setLevel": true, "completion/complete": true,
	"tools/list": true, "tools/call": true, "prompts/list": true, "prompts/get": true,
	"resources/list": true, "resources/templates/list": true, "resources/read": true, "resources/subscribe": true, "resources/unsubscribe": true,
	"tasks/get": true, "tasks/result": true, "tasks/list": true, "tasks/cancel": true, "tasks/update": true,
	"server/discover": true, "subscriptions/listen": true,
}

// unnamed gives x the answer to a 400 that says nothing to a method that the
// protocol does not name, when the session is known: servers exist (the official Go SDK)
// that turn such a request away in this way.
func (c *httpConn) unnamed(x *exchange) bool {
	c.check(x.ctx)
	if c.life.over() || x.ctx.Err() != nil {
		return false
	}
	x.answer = &message{err: json.RawMessage(`{"code":-32601,"message":"The backend answered HTTP 400 to this method, which the protocol does not name.","data":{"httpStatus":400}}`)}
	return true
}

// probe finds out whether a 400 means that the session is unknown, as servers
// exist that do not say 404 then: it asks for a ping.
func (c *httpConn) probe() {
	if !c.probing.CompareAndSwap(false, true) {
		return
	}
	asked := c.help(func(ctx context.Context) {
		defer c.probing.Store(false)
		c.check(ctx)
	})
	if !asked {
		c.probing.Store(false)
	}
}

// check sends a ping, and ends the life when the answer says that the backend
// does not know our session.
func (c *httpConn) check(ctx context.Context) {
	x := &exchange{id: c.lastID.Add(1), plain: true}
	// What counts is the status.
	_ = c.postUnder(ctx, x, requestLine(x.id, string(mcp.MethodPing), nil))
	if x.status == http.StatusBadRequest && x.answer == nil {
		c.lost.Store(true)
		c.life.end("the backend has lost our session (HTTP 400 to a ping)")
	}
}

// readBody reads at most max bytes; over says that there are more.
func readBody(resp *http.Response, max int) (body []byte, over bool, err error) {
	const claim = 1 << 20 // so much is set aside because of the length alone
	length := resp.ContentLength
	switch {
	case length > int64(max):
		return nil, true, nil
	case length >= 0 && length <= claim:
		body = make([]byte, length)
		_, err = io.ReadFull(resp.Body, body)
		return body, false, err
	}
	var b bytes.Buffer
	if length > 0 {
		b.Grow(claim)
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

// endSession tells the backend, within the time of our Close, that its session
// is not needed any more. The session's fate there is not ours to report: it
// expires.
func (c *httpConn) endSession() {
	if c.lost.Load() || !c.hasSession() {
		return
	}
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(closing, closeGrace)
	defer cancel()
	if resp, err := c.base.RoundTrip(c.newRequest(ctx, http.MethodDelete, nil, c.fresh.last())); err == nil {
		_ = resp.Body.Close()
	}
}

// explain says in one sentence why the network gave no answer, without the
// URL that net/http puts before it.
func explain(err error, opts Options) string {
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
	return "the backend could not be reached or did not answer: " + opts.foreign(err.Error())
}
