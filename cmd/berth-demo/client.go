//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// client is one harness session: an MCP client of the official SDK.
type client struct {
	name       string
	session    *mcp.ClientSession
	handshakes atomic.Int64 // initialize requests that left this client; HTTP only
}

// dial connects over HTTP with the token, as a harness would.
func dial(ctx context.Context, name, url, token string) (*client, error) {
	c := &client{name: name}
	transport := &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: &bearer{token: token, client: c,
			inner: &http.Transport{MaxIdleConnsPerHost: 256}}}}
	return c, c.connect(ctx, transport)
}

// pipe connects through `berth stdio`.
func pipe(ctx context.Context, name, binary, stateDir string) (*client, error) {
	c := &client{name: name}
	bridge := exec.Command(binary, "stdio", "--profile", "full", "--state-dir", stateDir)
	bridge.Stderr = io.Discard // its complaints while the broker is dead are expected
	bridge.Env = os.Environ()
	return c, c.connect(ctx, &mcp.CommandTransport{Command: bridge})
}

func (c *client) connect(ctx context.Context, t mcp.Transport) error {
	var err error
	c.session, err = mcp.NewClient(&mcp.Implementation{Name: c.name, Version: "1"}, nil).Connect(ctx, t,
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return fmt.Errorf("connect %s: %w", c.name, err)
	}
	return nil
}

// bearer adds the token and counts handshakes.
type bearer struct {
	token  string
	client *client
	inner  http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		if bytes.Contains(body, []byte(`"method":"initialize"`)) {
			b.client.handshakes.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return b.inner.RoundTrip(r)
}

// answer is what came back to a call.
type answer struct {
	Text    string
	IsError bool
	Took    time.Duration
	QueueMS *int64 // from the broker's facts; nil when it gave none

	// Of a job's handle or status.
	JobID          string `json:"JobId"`
	Status         string
	Reason         string
	FailureMessage string
	Replayed       bool
	Result         json.RawMessage

	// Of a refusal.
	Code         string `json:"code"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	NativeCode   string `json:"Code"`
}

// call calls a tool; key is an idempotency key or empty.
func (c *client) call(ctx context.Context, tool string, arguments any, key string) (answer, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if key != "" {
		params.Meta = mcp.Meta{"berth/idempotencyKey": key}
	}
	began := time.Now()
	result, err := c.session.CallTool(ctx, params)
	if err != nil {
		return answer{}, fmt.Errorf("%s calls %s: %w", c.name, tool, err)
	}
	a := answer{IsError: result.IsError, Took: time.Since(began)}
	for _, block := range result.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			a.Text = t.Text
			break
		}
	}
	// A text that is no JSON is an answer like any other.
	_ = json.Unmarshal([]byte(a.Text), &a)
	if facts, ok := result.Meta["berth/call"].(map[string]any); ok {
		if queue, ok := facts["queue_ms"].(float64); ok {
			n := int64(queue)
			a.QueueMS = &n
		}
	}
	return a, nil
}

// follow asks job_status until the job is final.
func (c *client) follow(ctx context.Context, job string) (answer, int, error) {
	for polls := 1; ; polls++ {
		a, err := c.call(ctx, "job_status", map[string]any{"jobId": job, "waitSeconds": 20}, "")
		switch {
		case err != nil:
			return a, polls, err
		case a.NativeCode != "" || a.IsError:
			return a, polls, fmt.Errorf("job_status of %s: %s", job, a.Text)
		case a.Status != "Accepted" && a.Status != "Running":
			return a, polls, nil
		case polls == 50:
			return a, polls, fmt.Errorf("job %s is still %s", job, a.Status)
		}
	}
}

// tools lists the names of all tools, over all pages.
func (c *client) tools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("%s lists the tools: %w", c.name, err)
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

// resultText is the first text of a tool result that stands in a job.
func (a answer) resultText() string {
	var r struct{ Content []struct{ Text string } }
	if json.Unmarshal(a.Result, &r) != nil || len(r.Content) == 0 {
		return string(a.Result)
	}
	return strings.TrimSpace(r.Content[0].Text)
}
