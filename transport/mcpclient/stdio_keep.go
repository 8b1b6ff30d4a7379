package mcpclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/broker"
)

// keep is the keeper goroutine: it waits for the first sign of the end, ends
// the life and tears everything down. It alone closes the pipes.
func (c *stdioConn) keep(pipes *sync.WaitGroup) {
	defer close(c.finished)
	ctx := context.Background()
	var cause string
	select {
	case order := <-c.closing:
		ctx, cause = order.ctx, "the backend was stopped by the broker"
	case what := <-c.broken:
		cause = c.exitCause(what)
	case <-c.child.Life.Done():
		// What the child wrote before it exited is still in the pipe. A
		// descendant may hold the pipe open: then there is no end to wait for.
		wait(c.readDone, drainGrace)
		cause = c.exitCause("")
	}
	c.life.end(c.opts.Redact(cause))
	c.failPending()
	c.desk.stop() // nobody can be answered any more

	stopping, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if err := c.child.Life.Stop(stopping); err != nil {
		c.closed = fmt.Errorf("stop the child: %w", err)
	}
	// Their errors say nothing that the stop has not: the pipes may be closed.
	_ = c.child.Stdin.Close()
	_ = c.child.Stdout.Close()
	pipes.Wait()
	c.desk.close()
}

// exitCause tells why the child ended, or else what was seen of it.
func (c *stdioConn) exitCause(seen string) string {
	exited := wait(c.child.Life.Done(), exitGrace)
	// The reason may be there before Done, which also waits for what the child
	// left behind.
	if why := c.child.Life.ExitReason(); why != "" {
		return why
	}
	if exited || seen == "" {
		return "the child exited"
	}
	return seen
}

func wait(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// failPending ends every request that waits; none can be registered after it.
func (c *stdioConn) failPending() {
	c.mu.Lock()
	waiting := c.pending
	c.pending = nil
	c.mu.Unlock()
	stderr := c.opts.Redact(c.child.Life.StderrTail())
	for _, p := range waiting {
		p.answer <- verdict{failure: &broker.Failure{
			Dispatched: !p.out.withdraw(), Gone: true, Cause: c.life.why(), Stderr: stderr,
		}}
	}
}

// Close implements broker.Conn.
func (c *stdioConn) Close(ctx context.Context) error {
	select {
	case c.closing <- closeOrder{ctx}:
	default: // another Close came first, or the life had ended
	}
	select {
	case <-c.finished:
		return c.closed
	case <-ctx.Done():
		return fmt.Errorf("the child is still being stopped: %w", ctx.Err())
	}
}
