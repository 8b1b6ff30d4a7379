//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// trace writes what passes through the relay to a file, for --keep: who asked
// what, and each piece of an answer when it came.
type trace struct {
	began time.Time
	last  atomic.Int64
	next  http.RoundTripper

	mu  sync.Mutex
	out *os.File
}

func newTrace(path string, next http.RoundTripper) (*trace, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &trace{began: time.Now(), next: next, out: out}, nil
}

// maxTraced bounds what is written of one piece.
const maxTraced = 2000

func (t *trace) say(n int64, what string, text []byte) {
	if len(text) > maxTraced {
		text = text[:maxTraced]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// A trace that cannot be written is missed by who looks for it.
	_, _ = fmt.Fprintf(t.out, "%9.3f #%d %s %s\n", time.Since(t.began).Seconds(), n, what, bytes.TrimSpace(text))
}

func (t *trace) RoundTrip(r *http.Request) (*http.Response, error) {
	n := t.last.Add(1)
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	t.say(n, fmt.Sprintf("> %s %s session %.8s", r.Method, r.URL.Path, r.Header.Get("Mcp-Session-Id")), body)
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		t.say(n, "! "+err.Error(), nil)
		return nil, err
	}
	t.say(n, fmt.Sprintf("< %s %s session %.8s", resp.Status, resp.Header.Get("Content-Type"), resp.Header.Get("Mcp-Session-Id")), nil)
	resp.Body = &tracedBody{ReadCloser: resp.Body, t: t, n: n}
	return resp, nil
}

func (t *trace) close() error { return t.out.Close() }

type tracedBody struct {
	io.ReadCloser
	t *trace
	n int64
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.t.say(b.n, "<", p[:n])
	}
	if err != nil {
		b.t.say(b.n, "< "+err.Error(), nil)
	}
	return n, err
}
