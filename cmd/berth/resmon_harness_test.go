package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"berth/cmd/internal/brokerproc"
	"berth/transport/app/resmontest"
	"berth/transport/rest"
)

// The broker of these tests runs in the test's own process, so that fakes of
// resmon can be told what to do at any moment. Its configuration, environment,
// state directory and log are its own.
type hall struct {
	t     *testing.T
	state string
	env   map[string]string
	log   *buffer
	base  string
	token string

	stop func()
}

// buffer is text that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newHall starts a broker that has these entries of mcpServers, and these keys
// of its own.
func newHall(t *testing.T, servers, broker map[string]any) *hall {
	t.Helper()
	h := &hall{t: t, state: filepath.Join(t.TempDir(), "state"), env: map[string]string{}, log: &buffer{}}
	h.start(servers, broker)
	t.Cleanup(func() { h.stop() })
	return h
}

// on is the hall for a subtest.
func (h *hall) on(t *testing.T) *hall {
	own := *h
	own.t = t
	return &own
}

func (h *hall) getenv(name string) (string, bool) { value, ok := h.env[name]; return value, ok }

func (h *hall) start(servers, broker map[string]any) {
	h.t.Helper()
	own := map[string]any{"log_level": "debug", "drain_timeout": "1s"}
	maps.Copy(own, broker)
	text, err := json.Marshal(map[string]any{"mcpServers": servers, "berth": own})
	must(h.t, err)
	config := filepath.Join(h.t.TempDir(), "mcp.json")
	must(h.t, os.WriteFile(config, text, 0o600))
	out := &buffer{}
	a := &app{in: strings.NewReader(""), out: out, err: h.log, getenv: h.getenv, stateDirFlag: h.state}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.runServe(ctx, serveOptions{config: config, listen: "127.0.0.1:0"}) }()
	said := regexp.MustCompile(`listens on (http://\S+)`)
	eventually(h.t, "the broker listens", func() bool {
		select {
		case err := <-ended:
			h.t.Fatalf("the broker ended: %v\n%s", err, h.log)
		default:
		}
		m := said.FindStringSubmatch(out.String())
		if m != nil {
			h.base = m[1]
		}
		return m != nil
	})
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(h.t, err)
	h.token = strings.TrimSpace(string(token))
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the broker ended with %v", err)
		}
		if log := h.log.String(); strings.Contains(log, "panic") {
			h.t.Errorf("the broker's log:\n%s", log)
		}
	})
}

// appEntry is an entry of mcpServers for a fake.
func appEntry(f *resmontest.Fake, berth map[string]any) map[string]any {
	own := map[string]any{"app": "resmon"}
	maps.Copy(own, berth)
	return map[string]any{"env": f.Env(), "berth": own}
}

// era is how a caller speaks: 2025-11-25 or 2026-07-28.
type era bool

const (
	handshake era = false
	stateless era = true
)

// caller is a client of one profile that says what it wants to in headers.
type caller struct {
	h       *hall
	path    string
	era     era
	header  http.Header
	client  *http.Client
	ctx     context.Context // of its requests; nil: the background
	session string
	mu      sync.Mutex
	lastID  int
}

func (h *hall) caller(profile string, e era, header ...string) *caller {
	h.t.Helper()
	c := &caller{h: h, path: "/mcp/" + cmp.Or(profile, "full"), era: e, header: http.Header{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	h.t.Cleanup(c.client.CloseIdleConnections)
	for i := 0; i < len(header); i += 2 {
		c.header.Set(header[i], header[i+1])
	}
	if e == handshake {
		c.want("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	}
	return c
}

// ask gives the whole response as it stood on the wire, and its status.
func (c *caller) ask(method string, params map[string]any) (response []byte, status int, err error) {
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.mu.Unlock()
	params = maps.Clone(params)
	if params == nil {
		params = map[string]any{}
	}
	if c.era == stateless {
		meta, _ := params["_meta"].(map[string]any)
		meta = maps.Clone(meta)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
		params["_meta"] = meta
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, 0, err
	}
	ctx := c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, brokerproc.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.h.base+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(req.Header, c.header)
	req.Header.Set("Authorization", "Bearer "+c.h.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case c.era == stateless:
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", method)
		if name, ok := params["name"].(string); ok {
			req.Header.Set("Mcp-Name", name)
		}
	case c.session != "":
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if method == "initialize" {
		c.session = resp.Header.Get("Mcp-Session-Id")
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(answer) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				answer = bytes.TrimSpace(data)
			}
		}
	}
	return answer, resp.StatusCode, err
}

// want gives the result of a request that must have one.
func (c *caller) want(method string, params map[string]any) json.RawMessage {
	c.h.t.Helper()
	raw, status, err := c.ask(method, params)
	must(c.h.t, err)
	var m struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Result == nil {
		c.h.t.Fatalf("%s is answered with %d %s", method, status, raw)
	}
	return m.Result
}

// said is a tool result of the surface.
type said struct {
	t        *testing.T
	raw      string
	document map[string]any
	text     string
	isError  bool
	call     struct {
		Backend   string  `json:"backend"`
		RuntimeID *string `json:"runtime_id"`
		Warnings  []string
	}
	job struct {
		ID        string `json:"id"`
		RuntimeID string `json:"runtime_id"`
	}
}

// call makes a call whose answer must be a result of one JSON text block.
func (c *caller) call(name string, arguments any, meta ...string) said {
	c.h.t.Helper()
	s, err := c.try(name, arguments, meta...)
	must(c.h.t, err)
	return s
}

// try is call for any goroutine.
func (c *caller) try(name string, arguments any, meta ...string) (said, error) {
	params := map[string]any{"name": name, "arguments": arguments}
	if len(meta) > 0 {
		m := map[string]any{}
		for i := 0; i < len(meta); i += 2 {
			m[meta[i]] = meta[i+1]
		}
		params["_meta"] = m
	}
	raw, status, err := c.ask("tools/call", params)
	if err != nil {
		return said{}, err
	}
	return readSaid(c.h.t, raw, status)
}

func readSaid(t *testing.T, raw []byte, status int) (said, error) {
	s := said{t: t, raw: string(raw)}
	var m struct {
		Result struct {
			Content []struct {
				Type, Text string
			}
			IsError    bool
			Structured json.RawMessage            `json:"structuredContent"`
			Meta       map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return s, fmt.Errorf("%d %s: %w", status, raw, err)
	}
	for len(m.Result.Content) > 1 && strings.HasPrefix(m.Result.Content[len(m.Result.Content)-1].Text, "[berth] ") {
		m.Result.Content = m.Result.Content[:len(m.Result.Content)-1] // the broker's own, after the answer
	}
	if len(m.Result.Content) != 1 || m.Result.Content[0].Type != "text" || m.Result.Structured != nil {
		return s, fmt.Errorf("not one text block: %d %s", status, raw)
	}
	s.text, s.isError = m.Result.Content[0].Text, m.Result.IsError
	if !json.Valid([]byte(s.text)) {
		return s, fmt.Errorf("the text is no JSON: %s", raw)
	}
	_ = json.Unmarshal([]byte(s.text), &s.document) // an exported text is no object
	for key, into := range map[string]any{"berth/call": &s.call, "berth/job": &s.job} {
		if fact, ok := m.Result.Meta[key]; ok {
			if err := json.Unmarshal(fact, into); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// ok fails the test unless it is an answer.
func (s said) ok() said {
	s.t.Helper()
	if s.isError {
		s.t.Fatalf("refused: %s", s.raw)
	}
	return s
}

// refused checks the shape and the code of a refusal and gives its detail.
func (s said) refused(code string) map[string]any {
	s.t.Helper()
	detail, isObject := s.document["detail"].(map[string]any)
	if message, _ := s.document["message"].(string); !s.isError || s.document["error"] != code || !isObject || message == "" {
		s.t.Fatalf("want a refusal %s: %s", code, s.raw)
	}
	return detail
}

// id reads a whole number of the answer.
func (s said) id(key string) int64 {
	s.t.Helper()
	n, ok := s.document[key].(float64)
	if !ok {
		s.t.Fatalf("no number %s: %s", key, s.raw)
	}
	return int64(n)
}

// job reads a job from the operator API.
func (h *hall) job(id string) (job struct {
	Status, Reason, FailureMessage string
	Result                         json.RawMessage
}) {
	h.t.Helper()
	must(h.t, h.api("/api/v1/jobs/"+id, &job))
	return job
}

func (h *hall) api(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), brokerproc.Patience)
	defer cancel()
	c := rest.NewClient(h.base, h.token)
	defer c.Close()
	raw, err := c.Get(ctx, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// ends waits for the end of a job.
func (h *hall) ends(id, status, reason string) (result json.RawMessage, message string) {
	h.t.Helper()
	job := h.job(id)
	eventually(h.t, "job "+id+" is "+status, func() bool {
		job = h.job(id)
		return job.Status != "Running" && job.Status != "Accepted"
	})
	if job.Status != status || job.Reason != reason {
		h.t.Errorf("job %s is %s for the reason %q (%s), want %s %q", id, job.Status, job.Reason, job.FailureMessage, status, reason)
	}
	return job.Result, job.FailureMessage
}

// line is a client on standard input and output.
type line struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	errs  *buffer
	ended chan error
	stop  context.CancelFunc
	last  int
}

// stdio runs `berth stdio` in the test's process; env is all of its
// environment.
func stdio(t *testing.T, state string, env map[string]string, o stdioOptions) *line {
	t.Helper()
	in, clientIn := io.Pipe()
	clientOut, out := io.Pipe()
	l := &line{t: t, in: clientIn, out: bufio.NewReader(clientOut), errs: &buffer{}, ended: make(chan error, 1)}
	a := &app{in: in, out: out, err: l.errs, stateDirFlag: state, getenv: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go func() {
		run := a.runStdio
		if o.embedded {
			run = a.runEmbedded
		}
		err := run(ctx, o)
		_ = out.Close()
		l.ended <- err
	}()
	t.Cleanup(func() {
		_ = clientIn.Close()
		_, _ = io.Copy(io.Discard, l.out)
		cancel()
	})
	return l
}

// ask makes one request and gives its response.
func (l *line) ask(method string, params map[string]any) []byte {
	l.t.Helper()
	l.last++
	if params == nil {
		params = map[string]any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": l.last, "method": method, "params": params})
	must(l.t, err)
	_, err = l.in.Write(append(body, '\n'))
	must(l.t, err)
	for {
		raw, err := l.out.ReadBytes('\n')
		must(l.t, err)
		var m struct{ ID *int }
		if json.Unmarshal(raw, &m) == nil && m.ID != nil && *m.ID == l.last {
			return bytes.TrimSpace(raw)
		}
	}
}

// open does the handshake and gives its result.
func (l *line) open() json.RawMessage {
	l.t.Helper()
	var m struct{ Result json.RawMessage }
	raw := l.ask("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	if json.Unmarshal(raw, &m) != nil || m.Result == nil {
		l.t.Fatalf("the handshake is answered with %s", raw)
	}
	return m.Result
}

func (l *line) call(name string, arguments any) said {
	l.t.Helper()
	s, err := readSaid(l.t, l.ask("tools/call", map[string]any{"name": name, "arguments": arguments}), 0)
	must(l.t, err)
	return s
}

// close ends the input and waits for the end of the command.
func (l *line) close() error {
	l.t.Helper()
	must(l.t, l.in.Close())
	_, _ = io.Copy(io.Discard, l.out)
	return <-l.ended
}
