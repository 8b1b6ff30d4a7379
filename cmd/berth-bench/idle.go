package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// idleResult is what an idle session without an open connection costs.
type idleResult struct {
	sessions int
	heap     float64 // live bytes of the heap and of stacks, a session
	resident float64 // bytes of the process, a session
	total    float64 // resident bytes of the process before the first session
}

// measureIdle opens sessions that make one call each and then only exist. The
// broker is a build that collects its garbage when told to, so that memory
// that is merely not collected yet is not counted.
func measureIdle(ctx context.Context, l *lab, r *report) error {
	sessions := 10_000
	if l.opts.quick {
		sessions = 2_000
	}
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	b, err := l.berth(ctx, "idle", config{httpBackend: echo.line, tags: "profile"})
	if err != nil {
		return err
	}
	// What is made once, for the first sessions, is not theirs.
	if err := b.openSessions(ctx, sessions/10); err != nil {
		return err
	}
	before, err := b.settled(ctx, 1)
	if err != nil {
		return err
	}
	if err := b.openSessions(ctx, sessions); err != nil {
		return err
	}
	after, err := b.settled(ctx, 2)
	if err != nil {
		return err
	}
	if got := after["berth_sessions"] - before["berth_sessions"]; int(got) != sessions {
		return fmt.Errorf("%d sessions were opened and the broker knows of %g", sessions, got)
	}
	each := func(names ...string) (sum float64) {
		for _, n := range names {
			sum += (after[n] - before[n]) / float64(sessions)
		}
		return sum
	}
	r.idle = &idleResult{sessions: sessions, total: before["process_resident_memory_bytes"],
		heap:     each("go_memstats_heap_alloc_bytes", "go_memstats_stack_inuse_bytes"),
		resident: each("process_resident_memory_bytes")}
	return l.stopAll()
}

// openSessions opens sessions one after the other on one connection, and
// closes it.
func (b *broker) openSessions(ctx context.Context, n int) error {
	return b.openIdle(ctx, n, "echo__echo", 0)
}

// openIdle is openSessions over several backends, whose number goes into tool.
func (b *broker) openIdle(ctx context.Context, n int, tool string, backends int) (err error) {
	name := func(i int) string {
		if backends == 0 {
			return tool
		}
		return fmt.Sprintf(tool, i%backends)
	}
	c, err := dialClient(ctx, b.target(nameBerth, "/mcp", name(0)), 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 {
			if err := c.handshake(); err != nil {
				return err
			}
			c.script = newScript(0, name(i), func(body []byte) []byte { return c.wrap(string(body)) })
			c.check = c.script.check
		}
		if err := c.call(); err != nil {
			return err
		}
	}
	return nil
}

// settled has the broker collect its garbage for the n-th time and gives its
// metrics then.
func (b *broker) settled(ctx context.Context, n int) (map[string]float64, error) {
	if err := b.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		return nil, err
	}
	file := fmt.Sprintf("%s.heap-%d", b.profile, n)
	limit := time.Now().Add(startLimit)
	for {
		if _, err := os.Stat(file); err == nil {
			return b.scrape(ctx)
		} else if !errors.Is(err, os.ErrNotExist) || time.Now().After(limit) {
			return nil, fmt.Errorf("wait for the broker's heap: %w", err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
