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
	// era is the one it speaks; the zero value is the handshake.
	era era
	// responses are a client's answers to what ask asked. Nil: they are passed
	// over; else it must not be full.
	responses chan message
	// listening hears of each stream that is open for what belongs to no call.
	// Nil: nobody is told; else it must not be full.
	listening chan struct{}

	mu    sync.Mutex
	lives map[string]int  // by what was declared at their beginning
	ears  map[*reply]bool // streams on which it can speak outside of calls
}

const oneTool = `[{"name":"t","inputSchema":{"type":"object"}}]`

// reply is the way back to Berth for one request.
type reply struct {
	id   json.RawMessage
	over <-chan struct{}  // closed when Berth does not listen any more
	mark string           // `_meta` of what comes on a subscription; "": none
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
	switch {
	case m.Method == "initialize" && b.era == handshake:
		b.live(m)
		out.result(`{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"scripted","version":"1"}}`)
		return true
	case m.Method == "server/discover" && b.era == stateless:
		b.live(m)
		out.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1"}}}`)
		return true
	case m.Method == "subscriptions/listen" && b.era == stateless:
		b.heard(out, m)
		return true
	}
	switch m.Method {
	case "tools/list":
		tools := b.listed()
		if tools == "" {
			tools = oneTool
		}
		out.result(`{"tools":` + tools + `}`)
	case "ping":
		out.result(`{}`)
	case "own/method", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get", "completion/complete":
		return false
	default:
		out.fail(`{"code":-32601,"message":"Method not found"}`)
	}
	return true
}

const capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

func (b *backend) live(m message) {
	var p struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	// What does not decode declares nothing.
	_ = json.Unmarshal(m.Params, &p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lives == nil {
		b.lives = map[string]int{}
	}
	b.lives[string(p.Capabilities)]++
}

func (b *backend) listed() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools
}

// setTools changes what is listed; say tells of it.
func (b *backend) setTools(tools string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = tools
}

// heard agrees to a subscription and keeps its stream open.
func (b *backend) heard(out *reply, m message) {
	var p struct {
		Notifications json.RawMessage `json:"notifications"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		out.fail(`{"code":-32602,"message":"no notifications"}`)
		return
	}
	out.mark = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, out.id)
	out.notify("notifications/subscriptions/acknowledged", fmt.Sprintf(`{%s,"notifications":%s}`, out.mark, p.Notifications))
	b.keep(out)
}

// keep lets say speak on a stream until it is over.
func (b *backend) keep(out *reply) {
	b.mu.Lock()
	if b.ears == nil {
		b.ears = map[*reply]bool{}
	}
	b.ears[out] = true
	b.mu.Unlock()
	if b.listening != nil {
		b.listening <- struct{}{}
	}
	<-out.over
	b.mu.Lock()
	delete(b.ears, out)
	b.mu.Unlock()
}

// say sends a notification outside of any call, and reports on how many streams.
func (b *backend) say(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for out := range b.ears {
		out.notify(method, "{"+out.mark+"}")
	}
	return len(b.ears)
}

// shout sends a text on every stream outside of calls.
func (b *backend) shout(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for out := range b.ears {
		out.send([]byte(text))
	}
}

// response takes a client's answer.
func (b *backend) response(m message) bool {
	if b.responses == nil || m.Method != "" || m.ID == nil {
		return false
	}
	b.responses <- m
	return true
}

// lived is how often it was introduced. A session that declares something else
// than another stands beside that one, and does not follow it.
func (b *backend) lived() (most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.lives {
		most = max(most, n)
	}
	return most
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
	if c.backend.era == handshake { // anything may come at any time
		c.work.Go(func() { c.backend.keep(c.reply(nil)) })
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.end()
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || c.backend.response(m) || m.Method == "" || m.ID == nil {
			continue
		}
		c.work.Go(func() { c.backend.respond(c.reply(m.ID), m) })
	}
}

func (c *child) reply(id json.RawMessage) *reply {
	return &reply{id: id, over: c.done, cut: c.end, raw: c.write, send: func(raw []byte) { c.write(append(bytes.Clone(raw), '\n')) }}
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
		flush := http.NewResponseController(w)
		raw := func(p []byte) {
			_, _ = w.Write(p)
			_ = flush.Flush()
		}
		out := &reply{
			http: w, raw: raw, over: r.Context().Done(),
			cut: func() { panic(http.ErrAbortHandler) },
			send: func(data []byte) {
				w.Header().Set("Content-Type", "text/event-stream")
				var event []byte
				for line := range bytes.SplitSeq(data, []byte("\n")) {
					event = append(append(append(event, "data: "...), bytes.TrimSuffix(line, []byte("\r"))...), '\n')
				}
				raw(append(event, '\n'))
			},
		}
		switch {
		case r.Method == http.MethodGet && b.era == handshake:
			w.Header().Set("Content-Type", "text/event-stream")
			raw([]byte(":\n\n"))
			b.keep(out)
			return
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m message
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if b.response(m) || m.Method == "" || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if m.Method == "initialize" && b.era == handshake {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		out.id = m.ID
		b.respond(out, m)
	}))
}
