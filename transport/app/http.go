package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// This file is the HTTP to an app.

// Limits bound what an app may take. The zero value is the contract's.
type Limits struct {
	Connect time.Duration // of one connection: 3 s
	Probe   time.Duration // of a health check: 3 s
	Request time.Duration // of one request: 30 s
	Call    time.Duration // of a whole call: 40 s
	Body    int64         // of one answer, in bytes: 32 MiB
}

func (l Limits) withDefaults() Limits {
	or := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	or(&l.Connect, 3*time.Second)
	or(&l.Probe, 3*time.Second)
	or(&l.Request, 30*time.Second)
	or(&l.Call, 40*time.Second)
	if l.Body <= 0 {
		l.Body = 32 << 20
	}
	return l
}

// keepIdle is how long a connection without a request is kept: less than the 5
// seconds after which common servers close theirs.
const keepIdle = 4 * time.Second

// wire is the pool of connections of one attachment. Each connection is
// confirmed before a request goes over it: whatever holds the port by then, the
// process at the other end of this connection has answered as the app.
type wire struct {
	base   string
	addr   string
	token  string
	health string
	limits Limits
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	pool   *http.Transport

	dropped atomic.Bool // no request begins on it any more

	mu    sync.Mutex
	spare *link // confirmed, not in the pool yet
}

func newWire(n named, token, health string, limits Limits, connections int, dial func(context.Context, string, string) (net.Conn, error)) *wire {
	w := &wire{base: n.base(), token: token, health: health, limits: limits, dial: dial}
	w.addr = w.base[len("http://"):]
	w.pool = &http.Transport{
		Proxy:                  nil,
		DialContext:            w.connect,
		DisableCompression:     true,
		IdleConnTimeout:        keepIdle,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		MaxConnsPerHost:        connections,
		MaxResponseHeaderBytes: 256 << 10,
	}
	return w
}

// errProbe is why a connection was not confirmed.
type errProbe struct {
	status int   // what was answered; 0: no answer
	broken bool  // what was answered is no answer of the app
	err    error // of the network
}

func (e *errProbe) Error() string {
	if e.err != nil {
		return "the health check failed: " + e.err.Error()
	}
	return fmt.Sprintf("the health check was answered with status %d", e.status)
}

func (e *errProbe) Unwrap() error { return e.err }

// connect gives the pool a confirmed connection.
func (w *wire) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.Lock()
	conn := w.spare
	w.spare = nil
	w.mu.Unlock()
	if conn != nil && !hasEnded(conn.Conn) {
		return conn, nil
	}
	if conn != nil {
		conn.Close()
	}
	conn, _, err := w.probe(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// probe opens a connection and asks for the app's health on it.
func (w *wire) probe(ctx context.Context) (*link, *Reply, error) {
	conn, err := w.open(ctx)
	if err != nil {
		return nil, nil, &errProbe{err: err}
	}
	reply, keep, err := w.check(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	if keep {
		return conn, reply, nil
	}
	// A server that closes each connection cannot be confirmed on the one that
	// is used; it has just been confirmed on the one before.
	conn.Close()
	if conn, err = w.open(ctx); err != nil {
		return nil, nil, &errProbe{err: err}
	}
	return conn, reply, nil
}

func (w *wire) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limits.Connect)
	defer cancel()
	conn, err := w.dial(ctx, "tcp4", w.addr)
	if err != nil {
		return nil, err
	}
	return &link{Conn: conn}, nil
}

// maxHealth bounds the answer to a health check.
const maxHealth = 1 << 20

// check asks for the app's health on conn. keep reports whether the connection
// can carry more.
func (w *wire) check(ctx context.Context, conn net.Conn) (reply *Reply, keep bool, err error) {
	deadline := time.Now().Add(w.limits.Probe)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, false, &errProbe{err: err}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req, err := w.request(ctx, Get, w.health, nil)
	if err != nil {
		return nil, false, &errProbe{err: err}
	}
	if err := req.Write(conn); err != nil {
		return nil, false, &errProbe{err: err}
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, false, &errProbe{err: err, broken: !isNetwork(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, false, &errProbe{status: resp.StatusCode}
	case err != nil:
		return nil, false, &errProbe{err: err}
	case len(body) > maxHealth || !saysOK(body):
		return nil, false, &errProbe{status: resp.StatusCode, broken: true}
	}
	if !stop() {
		return nil, false, &errProbe{err: context.Cause(ctx)}
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, false, &errProbe{err: err}
	}
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, !resp.Close && in.Buffered() == 0, nil
}

// isNetwork tells a connection that failed from an answer that is not HTTP.
func isNetwork(err error) bool {
	var n net.Error
	var op *net.OpError
	return errors.As(err, &n) || errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// seed keeps a confirmed connection for the first request.
func (w *wire) seed(conn *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = conn
}

// drop lets go of it for good: what requests still use goes when they end.
func (w *wire) drop() {
	w.dropped.Store(true)
	w.close()
}

// close lets go of what no request uses.
func (w *wire) close() {
	w.mu.Lock()
	spare := w.spare
	w.spare = nil
	w.mu.Unlock()
	if spare != nil {
		spare.Close()
	}
	w.pool.CloseIdleConnections()
}

// unreplayable is an empty body that keeps net/http from sending a request
// again when its connection breaks: nothing here is sent twice.
type unreplayable struct{}

func (unreplayable) Read([]byte) (int, error) { return 0, io.EOF }
func (unreplayable) Close() error             { return nil }

// request builds a request; target is a path with its query.
func (w *wire) request(ctx context.Context, method Method, target string, body json.RawMessage) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method.String(), w.base+target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "berth")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return req, nil
}

// errHTTP is why a request got no answer that could be read.
type errHTTP struct {
	sent   bool   // it may have been handed over
	stale  bool   // certainly not, because its connection had ended before
	status int    // the status line came; the body did not
	reason string // refused, timeout, closed or truncated; too_large
	err    error
}

func (e *errHTTP) Error() string { return e.reason + ": " + e.err.Error() }
func (e *errHTTP) Unwrap() error { return e.err }

var errTooLarge = errors.New("the answer is over the limit")

// do sends one request, once, and reads its answer. A pooled connection that
// turns out to have ended before anything was written on it is replaced.
func (w *wire) do(ctx context.Context, method Method, target string, query url.Values, body json.RawMessage) (*Reply, *errHTTP) {
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	defer w.swept()
	for tries := 1; ; tries++ {
		resp, failed := w.roundTrip(ctx, method, target, body)
		switch {
		case failed == nil:
			return w.read(ctx, resp)
		case !failed.stale || tries > maxStale:
			return nil, failed
		}
	}
}

// maxStale bounds how many connections in a row may turn out to have ended.
const maxStale = 16

// roundTrip makes one attempt.
func (w *wire) roundTrip(ctx context.Context, method Method, target string, body json.RawMessage) (*http.Response, *errHTTP) {
	var (
		mu     sync.Mutex
		on     *link
		mark   int
		reused bool
	)
	got := func(info httptrace.GotConnInfo) {
		mu.Lock()
		defer mu.Unlock()
		if on, _ = info.Conn.(*link); on != nil {
			mark = on.mark()
		}
		reused = info.Reused
	}
	req, err := w.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: got}), method, target, body)
	if err != nil {
		return nil, &errHTTP{reason: "refused", err: err}
	}
	if method == Get {
		req.Body = unreplayable{}
	}
	traceHeaders(ctx, req.Header)
	// RoundTrip, not a client: it follows no redirect and keeps no cookies.
	resp, err := w.pool.RoundTrip(req)
	if err == nil {
		return resp, nil
	}
	mu.Lock()
	defer mu.Unlock()
	sent := on != nil && !on.seal(mark)
	stale := on != nil && !sent && (reused || errors.Is(err, errStale)) && ctx.Err() == nil
	return nil, &errHTTP{sent: sent, stale: stale, reason: reasonOf(ctx, err), err: err}
}

func (w *wire) read(ctx context.Context, resp *http.Response) (*Reply, *errHTTP) {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, w.limits.Body+1))
	reply := &Reply{Status: resp.StatusCode, Header: resp.Header, Body: raw}
	switch {
	case resp.StatusCode/100 != 2:
		return reply, nil // the status says it all; what came of the body is a sentence
	case int64(len(raw)) > w.limits.Body:
		return nil, &errHTTP{sent: true, status: resp.StatusCode, reason: "too_large", err: errTooLarge}
	case err != nil && reasonOf(ctx, err) == "timeout":
		return nil, &errHTTP{sent: true, status: resp.StatusCode, reason: "timeout", err: err}
	case err != nil:
		return nil, &errHTTP{sent: true, status: resp.StatusCode, reason: "truncated", err: err}
	}
	return reply, nil
}

// swept closes what a request gave back to a pool that was dropped meanwhile.
func (w *wire) swept() {
	if w.dropped.Load() {
		w.pool.CloseIdleConnections()
	}
}

func reasonOf(ctx context.Context, err error) string {
	var n net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &n) && n.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	}
	return "closed"
}

func asProbe(err error, probe **errProbe) bool { return errors.As(err, probe) }
