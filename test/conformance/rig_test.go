package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
	"berth/journal"
	"berth/transport/httpguard"
	"berth/transport/mcpclient"
	"berth/transport/mcpserver"
)

const (
	token     = "the-token"
	maxBody   = 1 << 20
	maxAnswer = 1 << 20
	// patience is how long anything here may take before it counts as hanging.
	patience = 30 * time.Second
)

// pipes is a network in memory, so that a whole broker runs in a synctest
// bubble and a client can stop reading in the middle of an answer.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7420} }

func (p *pipes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
	case <-ctx.Done():
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
}

// rig is a broker with one backend, named b, and a client of it.
type rig struct {
	t       testing.TB
	backend *backend
	pipes   *pipes
	client  *http.Client
	close   func()
	// patience is how long a request of the client may take.
	patience time.Duration
}

// kind is how the backend is reached.
type kind string

const (
	overPipes kind = "stdio"
	overHTTP  kind = "http"
)

var kinds = []kind{overPipes, overHTTP}

// newRig starts a broker in front of a backend. close must be called, in the
// bubble where there is one.
func newRig(t testing.TB, k kind, b *backend) *rig {
	t.Helper()
	opts := mcpclient.Options{MaxAnswer: maxAnswer, OpenTimeout: patience, MaxInFlight: 16}
	var upstream actors.Upstream
	stop := func() {}
	switch k {
	case overPipes:
		upstream = mcpclient.NewStdio(mcpclient.StdioConfig{Start: b.startChild}, opts)
	case overHTTP:
		server := b.serveHTTP()
		stop = server.Close
		upstream = mcpclient.NewHTTP(mcpclient.HTTPConfig{URL: server.URL}, opts)
	}
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	system, err := actors.Start(actors.Options{
		Journal: j, Logger: log, Now: time.Now, Random: rand.Reader,
		Sources:  []catalog.Source{{Backend: "b"}},
		Backends: []actors.BackendConfig{{Name: "b", Kind: string(k), Upstream: upstream, Eager: true, Admission: admission.Limits{Seats: 16, MaxQueuedCalls: 64}}},
		Fatal:    func(reason string) { panic(reason) },
	})
	must(t, err)
	front, err := mcpserver.New(mcpserver.Options{Tier: catalog.Full,
		Broker: system, SessionKey: []byte("0123456789abcdef0123"), RuntimeID: "rt", Version: "1", Logger: log,
		Clients: []mcpserver.ClientLimits{{Client: "tester", PromoteAfter: 24 * time.Hour}},
		Guard: httpguard.New(httpguard.Options{MaxBody: maxBody, Authenticate: httpguard.Bearers(func(got string) (broker.Principal, bool) {
			return broker.LocalOperator, got == token
		})}),
	})
	must(t, err)
	r := &rig{t: t, backend: b, pipes: newPipes(), patience: patience}
	server := &http.Server{Handler: front, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(r.pipes)
	}()
	r.client = &http.Client{Transport: &http.Transport{DialContext: r.pipes.dial, MaxIdleConnsPerHost: 100}}
	r.close = func() {
		r.client.CloseIdleConnections()
		_ = server.Close()
		<-served
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		system.Stop(ctx)
		stop()
		must(t, j.Close())
	}
	return r
}

// session is a conversation with the rig's broker.
type session struct {
	rig     *rig
	path    string
	id      string // none in the stateless era
	version string
	lastID  int
	mu      sync.Mutex
}

const initializeLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + clientCapabilities + `,"clientInfo":` + clientInfo + `}}`

// handshake opens a session of 2025-11-25 on the backend's own endpoint.
func (r *rig) handshake() *session { return r.open("/mcp/b") }

func (r *rig) open(path string) *session {
	r.t.Helper()
	// Ids of our own begin where those in the tests' texts do not go.
	s := &session{rig: r, path: path, version: "2025-11-25", lastID: 1000}
	resp := s.post([]byte(initializeLine))
	if s.id = resp.header.Get("Mcp-Session-Id"); s.id == "" {
		r.t.Fatalf("no session: %d %s", resp.status, resp.body)
	}
	s.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return s
}

// answer is one HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *session) request(ctx context.Context, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:7420"+s.path, body)
	if err != nil {
		panic(err) // the path is a constant of the tests
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
	}
	if s.id != "" || s.version == statelessVersion {
		req.Header.Set("MCP-Protocol-Version", s.version)
	}
	return req
}

// message makes a request of a body, with the headers that repeat it.
func (s *session) message(ctx context.Context, body []byte) *http.Request {
	req := s.request(ctx, bytes.NewReader(body))
	if s.version == statelessVersion {
		repeatInHeaders(req.Header, body)
	}
	return req
}

// post sends bytes as they are.
func (s *session) post(body []byte) answer {
	s.rig.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.rig.patience)
	defer cancel()
	a, err := s.do(s.message(ctx, body))
	must(s.rig.t, err)
	return a
}

func (s *session) do(req *http.Request) (answer, error) {
	resp, err := s.rig.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("after %q: %w", body, err)
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// message is a JSON-RPC message, its parts as they came.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// messages reads a JSON body or a stream.
func (a answer) messages() ([]message, error) {
	texts := [][]byte{a.body}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		texts = nil
		for line := range bytes.Lines(a.body) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
				texts = append(texts, data)
			}
		}
	}
	var out []message
	for _, text := range texts {
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("%w in %q", err, text)
		}
		out = append(out, m)
	}
	return out, nil
}

// roundTrip makes one request with raw params and gives the raw response and
// the notifications before it.
func (s *session) roundTrip(method string, params []byte) (response message, before []message, err error) {
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	s.mu.Unlock()
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	ctx, cancel := context.WithTimeout(context.Background(), s.rig.patience)
	defer cancel()
	a, err := s.do(s.message(ctx, body))
	if err != nil {
		return message{}, nil, err
	}
	all, err := a.messages()
	if err != nil || len(all) == 0 {
		return message{}, nil, fmt.Errorf("%d %q: %w", a.status, a.body, err)
	}
	response = all[len(all)-1]
	if string(response.ID) != fmt.Sprint(id) || (response.Result == nil) == (response.Error == nil) {
		return message{}, nil, fmt.Errorf("no response to %d: %q", id, a.body)
	}
	return response, all[:len(all)-1], nil
}

// call calls the backend's tool and gives the result.
func (s *session) call(tool string) (json.RawMessage, error) {
	m, _, err := s.roundTrip("tools/call", s.params(fmt.Sprintf(`"name":%q,"arguments":{}`, tool)))
	if err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, errors.New(string(m.Error))
	}
	return m.Result, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for a signal of the test.
func await[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
