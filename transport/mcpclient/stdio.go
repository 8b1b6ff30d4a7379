package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"berth/broker"
)

// Stdio is an MCP server that runs as a child and speaks over its pipes.
type Stdio struct {
	config StdioConfig
	opts   Options
	noise  noise
	levels levels
}

// NewStdio describes a child; nothing is started before Open.
func NewStdio(config StdioConfig, opts Options) *Stdio {
	return &Stdio{config: config, opts: opts.withDefaults()}
}

// Noise gives the counts over all lives of the child.
func (s *Stdio) Noise() Noise { return s.noise.snapshot() }

// Open starts a child, finds out what it speaks and lists its tools. Its error
// is a *broker.OpenError.
func (s *Stdio) Open(ctx context.Context, hear broker.Hear) (broker.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.OpenTimeout)
	defer cancel()
	conn, open, unprobed := s.start(ctx, hear, !s.opts.Handshake)
	if unprobed && ctx.Err() == nil {
		// Servers exist that end when the first thing they read is not
		// initialize.
		conn, open, _ = s.start(ctx, hear, false)
	}
	if open != nil {
		return nil, open
	}
	return conn, nil
}

// start brings up one child. unprobed says that it ended before it answered
// the question for the stateless era.
func (s *Stdio) start(ctx context.Context, hear broker.Hear, probe bool) (conn broker.Conn, open *broker.OpenError, unprobed bool) {
	child, err := s.config.Start(ctx)
	if err != nil {
		return nil, refuse(fmt.Errorf("the child could not be started: %w", err), "", s.opts), false
	}
	c := newStdioConn(child, s.opts, &s.noise, hear)
	if conn, err = c.open(ctx, &s.levels, probe); err == nil {
		return conn, nil, false
	}
	open = refuse(err, child.Life.StderrTail(), s.opts)
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer stop()
	if err := c.Close(closing); err != nil {
		open.Cause += "; stopping the child failed too"
	}
	return nil, open, errors.As(err, new(errUnprobed))
}

// List implements broker.Conn.
func (c *stdioConn) List(ctx context.Context) ([]broker.Tool, []string, error) {
	return listTools(ctx, c, c.opts)
}

// open finds out what the child speaks and gives the connection as it must be
// used from then on.
func (c *stdioConn) open(ctx context.Context, l *levels, probe bool) (broker.Conn, error) {
	in, isStateless, err := meet(ctx, c, c.opts, probe)
	if err != nil {
		return nil, err
	}
	inc := broker.Incarnation{
		RuntimeID: in.runtimeID, Reported: in.runtimeID != "",
		Server: in.server, PID: c.child.PID,
		Done: c.life.done, Cause: c.life.why,
	}
	var conn broker.Conn = c
	if isStateless {
		conn = newStateless(ctx, c, c.opts, c.noise, c.hear, in.server.Capabilities, l, c.desk, c.life, nil)
	} else if err := confirm(ctx, c); err != nil {
		return nil, err
	}
	if in.hasTools {
		if inc.Tools, inc.Flags, err = conn.List(ctx); err != nil {
			return nil, err
		}
	}
	if inc.RuntimeID == "" {
		inc.RuntimeID = mintUUID()
	}
	c.inc.Store(&inc)
	return conn, nil
}
