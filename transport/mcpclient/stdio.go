package mcpclient

import (
	"context"
	"fmt"

	"berth/broker"
)

// Stdio is an MCP server that runs as a child and speaks over its pipes.
type Stdio struct {
	config StdioConfig
	opts   Options
	noise  noise
}

// NewStdio describes a child; nothing is started before Open.
func NewStdio(config StdioConfig, opts Options) *Stdio {
	return &Stdio{config: config, opts: opts.withDefaults()}
}

// Noise gives the counts over all lives of the child.
func (s *Stdio) Noise() Noise { return s.noise.snapshot() }

// Open starts a child, shakes hands and lists its tools. Its error is a
// *broker.OpenError.
func (s *Stdio) Open(ctx context.Context, hear broker.Hear) (broker.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.OpenTimeout)
	defer cancel()
	child, err := s.config.Start(ctx)
	if err != nil {
		return nil, refuse(fmt.Errorf("the child could not be started: %w", err), "", s.opts)
	}
	c := newStdioConn(child, s.opts, &s.noise, hear)
	if err := c.open(ctx); err != nil {
		open := refuse(err, child.Life.StderrTail(), s.opts)
		closing, stop := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer stop()
		if err := c.Close(closing); err != nil {
			open.Cause += "; stopping the child failed too"
		}
		return nil, open
	}
	return c, nil
}

// List implements broker.Conn.
func (c *stdioConn) List(ctx context.Context) ([]broker.Tool, []string, error) {
	return listTools(ctx, c, c.opts)
}

func (c *stdioConn) open(ctx context.Context) error {
	in, err := introduce(ctx, c, c.opts)
	if err != nil {
		return err
	}
	if err := confirm(ctx, c); err != nil {
		return err
	}
	inc := broker.Incarnation{
		RuntimeID: in.runtimeID, Reported: in.runtimeID != "",
		Server: in.server, PID: c.child.PID,
		Done: c.life.done, Cause: c.life.why,
	}
	if in.hasTools {
		if inc.Tools, inc.Flags, err = listTools(ctx, c, c.opts); err != nil {
			return err
		}
	}
	if inc.RuntimeID == "" {
		inc.RuntimeID = mintUUID()
	}
	c.incarnation = inc
	return nil
}
