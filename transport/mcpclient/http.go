package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"berth/broker"

	"github.com/mark3labs/mcp-go/client/transport"
)

// HTTP is an MCP server that is reached over streamable HTTP.
type HTTP struct {
	config HTTPConfig
	opts   Options
	fresh  *fresh // nil: the headers of config are all
	noise  noise
	levels levels
}

// NewHTTP describes an upstream; nothing is sent before Open.
func NewHTTP(config HTTPConfig, opts Options) *HTTP {
	return &HTTP{config: config, opts: opts.withDefaults(), fresh: newFresh(config)}
}

// Noise gives the counts over all lives of the upstream.
func (h *HTTP) Noise() Noise { return h.noise.snapshot() }

// Open starts a session (or finds that the server keeps none) and lists the
// tools. Its error is a *broker.OpenError.
func (h *HTTP) Open(ctx context.Context, hear broker.Hear) (broker.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.OpenTimeout)
	defer cancel()
	conn, open, expired := h.start(ctx, hear)
	if expired && ctx.Err() == nil {
		conn, open, _ = h.start(ctx, hear)
	}
	if open != nil {
		return nil, open
	}
	return conn, nil
}

// start opens one life. expired says that the backend turned it away because
// the headers that it was sent are not good any more, which others may be.
func (h *HTTP) start(ctx context.Context, hear broker.Hear) (conn broker.Conn, open *broker.OpenError, expired bool) {
	if _, err := h.fresh.get(ctx); err != nil {
		return nil, refuse(err, "", h.opts), false
	}
	c, err := h.newConn(hear)
	if err != nil {
		return nil, refuse(err, "", h.opts), false
	}
	conn, err = c.open(ctx, &h.levels)
	if err != nil {
		open := refuse(err, "", h.opts)
		closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer stop()
		// A session that was half opened may stay at the backend; the cause of
		// the failure is what counts.
		_ = c.Close(closing)
		return nil, open, open.Auth && c.expired.Load()
	}
	return h.manifold(conn, c), nil, false
}

func (h *HTTP) newConn(hear broker.Hear) (*httpConn, error) {
	target, err := url.Parse(h.config.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, errors.New("the url is not an http or https address")
	}
	lifeCtx, cancel := context.WithCancel(context.Background())
	c := &httpConn{
		opts: h.opts, noise: &h.noise, fresh: h.fresh, life: newLife(), target: target, hear: hear,
		ctx: lifeCtx, cancel: cancel,
		desk: newDesk(&h.noise, h.opts.MaxInFlight), flying: map[int64]*exchange{},
		base: newBase(h.opts.MaxInFlight), finished: make(chan struct{}),
	}
	c.address(h.config.Headers)
	return c, nil
}

// newBase builds the pool of one life. It speaks HTTP/1.1 only: there a
// connection carries one request at a time, so that what was written on it
// says whether that request was handed over.
func newBase(inFlight int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialWire,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           inFlight + 16,
		MaxIdleConnsPerHost:    inFlight + 16,
		MaxResponseHeaderBytes: 256 << 10,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
}

// List implements broker.Conn.
func (c *httpConn) List(ctx context.Context) ([]broker.Tool, []string, error) {
	return listTools(ctx, c, c.opts)
}

// open finds out what the backend is and gives the connection as it must be
// used from then on.
func (c *httpConn) open(ctx context.Context, l *levels) (broker.Conn, error) {
	in, isStateless, err := meet(ctx, c, c.opts, !c.opts.Handshake)
	if err != nil {
		return nil, err
	}
	if id := c.reported.Load(); id != nil && in.runtimeID == "" {
		in.runtimeID = *id
	}
	inc := broker.Incarnation{
		RuntimeID: in.runtimeID, Reported: in.runtimeID != "", Server: in.server,
		Done: c.life.done, Cause: c.life.why,
	}
	var conn broker.Conn = c
	if isStateless {
		c.stateless.Store(true)
		conn = newStateless(ctx, c, c.opts, c.noise, c.hear, in.server.Capabilities, l, c.desk, c.life, c.bind)
	} else {
		c.addHeader(transport.HeaderKeyProtocolVersion, in.server.ProtocolVersion)
		if err := confirm(ctx, c); err != nil {
			return nil, err
		}
		c.hearken(ctx, in.server.Capabilities)
	}
	if in.hasTools {
		if inc.Tools, inc.Flags, err = conn.List(ctx); err != nil {
			return nil, err
		}
	}
	if c.life.over() {
		return nil, fmt.Errorf("the backend ended during the handshake: %s", c.life.why())
	}
	// A session is a life that Berth can see; a server without one has none.
	if inc.RuntimeID == "" && !isStateless && c.hasSession() {
		inc.RuntimeID = mintUUID()
	}
	c.inc.Store(&inc)
	return conn, nil
}
