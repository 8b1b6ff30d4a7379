package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"berth/transport/mcpclient"
)

// backend is an MCP server that says what it is told to say.
type backend struct {
	// tools is the "tools" member of tools/list; set before it is started.
	tools string
	// handle answers a request by writing to out, raw. It runs in a goroutine of
	// its own for each request. Nil answers {}.
	handle func(out *reply, m message)

	mu    sync.Mutex
	lives int
}

const oneTool = `[{"name":"t","inputSchema":{"type":"object"}}]`

// reply is the way back to Berth for one request.
type reply struct {
	id   json.RawMessage
	send func(raw []byte) // bytes of the wire: a line, or an event's data
	cut  func()           // breaks the connection off
	raw  func(p []byte)   // bytes with no framing at all
	http http.ResponseWriter
}

func (r *reply) result(raw string) {
	r.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.id, raw))
}

func (r *reply) fail(raw string) {
	r.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, r.id, raw))
}

func (r *reply) notify(method, params string) {
	r.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// introduce answers what every client asks first; the rest is for handle.
func (b *backend) introduce(out *reply, m message) bool {
	switch m.Method {
	case "initialize":
		b.mu.Lock()
		b.lives++
		b.mu.Unlock()
		out.result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}},"serverInfo":{"name":"scripted","version":"1"}}`)
	case "tools/list":
		tools := b.tools
		if tools == "" {
			tools = oneTool
		}
		out.result(`{"tools":` + tools + `}`)
	case "ping":
		out.result(`{}`)
	case "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get", "completion/complete":
		return false
	default:
		out.fail(`{"code":-32601,"message":"Method not found"}`)
	}
	return true
}

func (b *backend) respond(out *reply, m message) {
	switch {
	case b.introduce(out, m):
	case b.handle != nil:
		b.handle(out, m)
	default:
		out.result(`{}`)
	}
}

// child is a backend at the end of two pipes.
type child struct {
	backend *backend
	in      *io.PipeReader
	out     *io.PipeWriter
	done    chan struct{}
	once    sync.Once
	mu      sync.Mutex
	work    sync.WaitGroup
}

func (b *backend) startChild(context.Context) (mcpclient.Child, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &child{backend: b, in: inR, out: outW, done: make(chan struct{})}
	go c.serve()
	return mcpclient.Child{Stdin: inW, Stdout: outR, PID: 4711, Life: c}, nil
}

func (c *child) serve() {
	lines := bufio.NewReaderSize(c.in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.end()
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.Method == "" || m.ID == nil {
			continue
		}
		out := &reply{id: m.ID, cut: c.end, raw: c.write, send: func(raw []byte) { c.write(append(bytes.Clone(raw), '\n')) }}
		c.work.Add(1)
		go func() {
			defer c.work.Done()
			c.backend.respond(out, m)
		}()
	}
}

// write does not mix two messages; after the end it fails in silence.
func (c *child) write(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(p)
}

func (c *child) end() {
	c.once.Do(func() {
		_ = c.in.CloseWithError(io.ErrClosedPipe)
		_ = c.out.Close()
		close(c.done)
	})
}

func (c *child) Done() <-chan struct{} { return c.done }
func (c *child) StderrTail() string    { return "" }

func (c *child) ExitReason() string {
	select {
	case <-c.done:
		return "the child exited"
	default:
		return ""
	}
}

func (c *child) Stop(context.Context) error {
	c.end()
	return nil
}

// serveHTTP makes it a streamable HTTP server that answers every request with
// a stream.
func (b *backend) serveHTTP() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m message
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if m.Method == "" || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		flush := http.NewResponseController(w)
		raw := func(p []byte) {
			_, _ = w.Write(p)
			_ = flush.Flush()
		}
		b.respond(&reply{
			id: m.ID, http: w, raw: raw,
			cut: func() { panic(http.ErrAbortHandler) },
			send: func(data []byte) {
				w.Header().Set("Content-Type", "text/event-stream")
				var event []byte
				for line := range bytes.SplitSeq(data, []byte("\n")) {
					event = append(append(append(event, "data: "...), bytes.TrimSuffix(line, []byte("\r"))...), '\n')
				}
				raw(append(event, '\n'))
			},
		}, m)
	}))
}
