package mcpclient

import (
	"context"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"

	"github.com/mark3labs/mcp-go/mcp"
)

// dual is one life of an upstream of the stateless era that may offer the
// handshake era at the same address. Tools that were written for that one send
// requests in the middle of a call, and fail in the other. So the calls of a
// harness that can be asked in that way go over a session, which the first of
// them makes; on the stream of its own POST each question finds its call.
// Everything else stays in the stateless era.
type dual struct {
	*stateless
	main  *httpConn
	begin func(ctx context.Context) (*httpConn, error) // a session, or why there is none

	mu      sync.Mutex
	session *httpConn
	making  chan struct{} // closed when the attempt under way is over
	none    bool          // the backend offers no session
}

// sessionWait is how long a session may take to begin.
const sessionWait = 5 * time.Second

// Call implements broker.Conn.
func (d *dual) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	if peer.Request == nil || !inSession(call.Method) || !canBeAsked(call.Client) {
		return d.stateless.Call(ctx, call, peer)
	}
	for try := 1; ; try++ {
		c := d.awaitSession(ctx)
		if c == nil {
			return d.stateless.Call(ctx, call, peer)
		}
		if call.Method == string(mcp.MethodSetLogLevel) {
			if a, err := d.stateless.Call(ctx, call, peer); err != nil || a.Error != nil {
				return a, err
			}
		}
		a, err := c.Call(ctx, call, peer)
		if f, ok := err.(*broker.Failure); ok && f.Gone && !f.Dispatched && try == 1 && !d.main.life.over() {
			continue // the session was lost; the backend is there
		}
		return a, err
	}
}

// inSession reports whether a backend may ask something in the course of this,
// or has to know of it in the session.
func inSession(method string) bool {
	switch method {
	case string(mcp.MethodToolsCall), string(mcp.MethodPromptsGet), string(mcp.MethodResourcesRead), string(mcp.MethodSetLogLevel):
		return true
	}
	return false
}

// canBeAsked reports whether a harness is of the handshake era and declares
// anything that it can be asked for.
func canBeAsked(client broker.Client) bool {
	if client.Stateless {
		return false
	}
	capabilities, err := jsonrpc.ParseObject(client.Capabilities)
	if err != nil {
		return false
	}
	for _, m := range capabilities.Members() {
		switch m.Name {
		case "sampling", "elicitation", "roots":
			return true
		}
	}
	return false
}

// awaitSession gives the session, and makes one when there is none or the last
// was lost. Nil: there is none to be had now.
func (d *dual) awaitSession(ctx context.Context) *httpConn {
	for {
		d.mu.Lock()
		if d.none || d.session != nil && !d.session.life.over() {
			defer d.mu.Unlock()
			return d.session
		}
		if d.making == nil {
			making := make(chan struct{})
			d.making = making
			d.main.desk.background(func(ctx context.Context) {
				d.make(ctx)
				close(making)
			})
		}
		making := d.making
		d.mu.Unlock()
		select {
		case <-making:
			if d.main.life.over() {
				return nil
			}
			d.mu.Lock()
			c := d.session
			d.mu.Unlock()
			if c == nil {
				return nil
			}
		case <-d.main.life.done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *dual) make(ctx context.Context) {
	d.mu.Lock()
	old := d.session
	d.session = nil
	d.mu.Unlock()
	if old != nil {
		closing, cancel := context.WithTimeout(ctx, closeGrace)
		_ = old.Close(closing) // it is lost already
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	c, err := d.begin(ctx)
	d.mu.Lock()
	d.making = nil
	over := d.main.life.over() // then Close may have looked for it already
	if err == nil && !over {
		d.session = c
	}
	d.none = err != nil && old == nil
	d.mu.Unlock()
	if err == nil && over {
		closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer stop()
		_ = c.Close(closing) // nobody has used it
	}
}

// Close implements broker.Conn.
func (d *dual) Close(ctx context.Context) error {
	err := d.main.Close(ctx)
	d.mu.Lock()
	c := d.session
	d.mu.Unlock()
	if c != nil {
		if other := c.Close(ctx); err == nil {
			err = other
		}
	}
	return err
}
