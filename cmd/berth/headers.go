package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"berth/broker/config"
	"berth/broker/shape"
	"berth/transport/guard"
	"berth/transport/mcpclient"
)

// upstreamHTTP is a backend of type http, with its command for headers if it
// has one. What the command gives is hidden as what the file holds.
func (b *running) upstreamHTTP(c config.Backend, opts mcpclient.Options) *mcpclient.HTTP {
	to := mcpclient.HTTPConfig{URL: c.URL.Reveal(), Headers: c.Headers.Reveal()}
	if c.Settings.HeadersCommand != nil {
		hidden := newHiding(c.Confidential())
		opts.Redact = hidden.redact
		to.Fresh, to.FreshTTL = b.headersCommand(c, hidden), max(0, c.Settings.HeadersTTL)
	}
	return mcpclient.NewHTTP(to, opts)
}

// headersStderr is how much of the command's standard error is told, in bytes.
const headersStderr = 2 << 10

// headersCommand runs an entry's command for headers as its children are run:
// under a guard, with the broker's environment.
func (b *running) headersCommand(c config.Backend, hidden *hiding) func(context.Context) (map[string]string, error) {
	command := c.Settings.HeadersCommand.Reveal()
	spec := guard.Spec{Command: command[0], Args: command[1:], Env: os.Environ(), Dir: c.Dir(b.configDir),
		StderrLimit: headersStderr, Ledger: b.ledger, Name: c.Name}
	what := fmt.Sprintf("the command for headers, %q, ", filepath.Base(command[0]))
	return func(ctx context.Context) (map[string]string, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Settings.HeadersTimeout)
		defer cancel()
		out, err := guard.Output(ctx, spec, config.MaxHeadersOutput)
		var ended *guard.OutputError
		switch {
		case errors.As(err, &ended):
			return nil, &mcpclient.HeadersError{Cause: what + ended.Reason, Stderr: ended.Stderr}
		case err != nil:
			return nil, &mcpclient.HeadersError{Cause: "the command for headers cannot be used: " + err.Error()}
		}
		headers, err := config.ParseHeaders(out)
		if err != nil {
			return nil, &mcpclient.HeadersError{Cause: what + err.Error()}
		}
		hidden.add(headers.Confidential())
		b.log.Debug("the command for headers has run", slog.String("backend", c.Name), slog.Any("headers", headers.Names()))
		return headers.Reveal(), nil
	}
}

// hiding takes confidential texts out of messages: those of the configuration
// and those that came later.
type hiding struct {
	fixed []string
	mu    sync.Mutex
	later [][]string // the latest last
	now   atomic.Pointer[func(string) string]
}

// maxHidden is how many sets of later texts stay hidden. An old token may still
// stand in what a backend says of an old request.
const maxHidden = 8

func newHiding(fixed []string) *hiding {
	h := &hiding{fixed: fixed}
	h.set()
	return h
}

func (h *hiding) redact(text string) string { return (*h.now.Load())(text) }

// add hides a further set of texts from now on.
func (h *hiding) add(texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.later, func(known []string) bool { return slices.Equal(known, texts) }) {
		return
	}
	if len(h.later) == maxHidden {
		h.later = slices.Delete(h.later, 0, 1)
	}
	h.later = append(h.later, texts)
	h.set()
}

func (h *hiding) set() {
	f := shape.Hiding(slices.Concat(h.fixed, slices.Concat(h.later...)))
	h.now.Store(&f)
}
