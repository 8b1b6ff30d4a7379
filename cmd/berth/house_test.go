package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/cmd/internal/brokerproc"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// The tests of whole brokers share binaries that are built when the first of
// them asks, with the race detector when the tests have it. The broker with
// fail points is another file with the same name.
type binaries struct{ berth, fixture, failpoint string }

var built struct {
	dir  string
	once sync.Once
	bin  binaries
	err  error
}

func buildBinaries() (binaries, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "berth-test-"); built.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		defer cancel()
		points := filepath.Join(built.dir, "failpoint")
		built.err = errors.Join(os.Mkdir(points, 0o700),
			brokerproc.Build(ctx, built.dir, brokerproc.BuildOptions{Race: raceDetector}, "berth", "berth-fixture"),
			brokerproc.Build(ctx, points, brokerproc.BuildOptions{Race: raceDetector, Tags: "failpoint"}, "berth"))
		built.bin = binaries{berth: filepath.Join(built.dir, "berth"), fixture: filepath.Join(built.dir, "berth-fixture"),
			failpoint: filepath.Join(points, "berth")}
	})
	return built.bin, built.err
}

// removeBinaries is called when all tests have run.
func removeBinaries() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

func binariesOf(t *testing.T) binaries {
	t.Helper()
	bin, err := buildBinaries()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// house is one state directory and the brokers that live on it, one after the
// other.
type house struct {
	t       *testing.T
	bin     binaries
	dir     string
	state   string
	config  string // file; empty: none
	listen  string // address; empty: any port of loopback
	env     []string
	broker  *brokerproc.Process
	witness *brokerproc.Witness // of the present broker
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, bin: binariesOf(t), dir: t.TempDir()}
	h.state = filepath.Join(h.dir, "state")
	t.Cleanup(func() {
		if h.broker != nil {
			h.broker.Kill()
			if log := h.broker.Log(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
				t.Errorf("the broker's log:\n%s", log)
			}
			if t.Failed() {
				t.Logf("the last broker's log:\n%s", h.broker.Log())
			}
		}
		if h.witness != nil {
			_ = h.witness.Close()
		}
	})
	return h
}

// configure writes the configuration for the next broker.
func (h *house) configure(config map[string]any) {
	h.t.Helper()
	text, err := json.Marshal(config)
	must(h.t, err)
	h.config = filepath.Join(h.dir, "mcp.json")
	must(h.t, os.WriteFile(h.config, text, 0o600))
}

// fixtureEntry is the stdio fixture as a backend whose processes the house's
// witness sees; the broker expands the variable.
func (h *house) fixtureEntry(berth map[string]any) map[string]any {
	return map[string]any{"command": h.bin.fixture, "args": []string{"stdio"},
		"env": map[string]string{"BERTH_FIXTURE_WITNESS": "${TEST_WITNESS}"}, "berth": berth}
}

// start starts a broker; env may name a fail point, for which the binary with
// fail points is used. It may end before it listens: then the error says so.
func (h *house) start(env ...string) error {
	h.t.Helper()
	if h.broker != nil {
		h.broker.Kill()
	}
	if h.witness != nil {
		must(h.t, h.witness.Close())
	}
	var err error
	h.witness, err = brokerproc.NewWitness(filepath.Join(h.dir, "witness"))
	must(h.t, err)
	binary := h.bin.berth
	if len(env) > 0 {
		binary = h.bin.failpoint
	}
	env = append(append(env, h.env...), "TEST_WITNESS="+h.witness.Path())
	p, err := brokerproc.Serve(h.t.Context(), brokerproc.Options{Binary: binary, StateDir: h.state, Config: h.config, Listen: h.listen, Env: env, Witness: h.witness})
	if p != nil {
		h.broker = p
	}
	return err
}

// awaitEnd waits until the broker ends by itself, or fails the test.
func (h *house) awaitEnd() {
	h.t.Helper()
	select {
	case <-h.broker.Ended():
	case <-time.After(brokerproc.Patience):
		h.t.Fatalf("the broker still runs after %s", brokerproc.Patience)
	}
}

// awaitNobody waits until the broker, its guards and all their descendants are
// gone.
func (h *house) awaitNobody() {
	h.t.Helper()
	if err := h.witness.AwaitNobody(brokerproc.Patience); err != nil {
		h.t.Fatal(err)
	}
}

// berth runs a subcommand of the real binary on the house's state directory.
func (h *house) berth(args ...string) (code int, out, errOut string) { return h.berthIn("", args...) }

// berthIn is berth with a text on standard input.
func (h *house) berthIn(in string, args ...string) (code int, out, errOut string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), brokerproc.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.bin.berth, append(args, "--state-dir", h.state)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// api reads from the operator API.
func (h *house) api(path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(h.t.Context(), brokerproc.Patience)
	defer cancel()
	addr, token, err := statedir.Discover(h.state)
	if err != nil {
		return err
	}
	c := rest.NewClient("http://"+addr, token)
	defer c.Close()
	raw, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// fixtureHTTP starts the HTTP fixture and gives its URL.
func fixtureHTTP(t *testing.T, bin binaries) (address string) {
	t.Helper()
	p, err := brokerproc.Start(t.Context(), exec.Command(bin.fixture, "http"))
	must(t, err)
	t.Cleanup(p.Kill)
	return "http://" + p.Addr() + "/mcp"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually asks again and again until the answer is yes, for what nobody
// announces.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	limit := time.After(brokerproc.Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// wire is an MCP client of the handshake era that is made of net/http only, so
// that a test decides what is on the wire and sees what came back.
type wire struct {
	house   *house
	http    *http.Client
	token   string // empty: the one of the state directory
	session string
	lastID  int
	mu      sync.Mutex
}

// newWire makes a client and its session.
func newWire(h *house, name string) *wire { return newWireFor(h, name, "") }

// newWireFor is newWire for the holder of a token.
func newWireFor(h *house, name, token string) *wire {
	h.t.Helper()
	w := &wire{house: h, token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	h.t.Cleanup(w.http.CloseIdleConnections)
	_, err := w.request(h.t.Context(), "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": name, "version": "1"}})
	must(h.t, err)
	if w.session == "" {
		h.t.Fatal("no session id came with the handshake")
	}
	return w
}

// rpcError is a JSON-RPC error that came back.
type rpcError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *rpcError) Error() string { return e.Message + " " + string(e.Data) }

// request makes one request of the running broker and gives its result.
func (w *wire) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerproc.Patience)
	defer cancel()
	w.mu.Lock()
	w.lastID++
	id := w.lastID
	w.mu.Unlock()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	token := []byte(w.token)
	if w.token == "" {
		if token, err = os.ReadFile(filepath.Join(w.house.state, "api-token")); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.house.broker.Addr()+"/mcp/full", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if method == "initialize" {
		w.session = resp.Header.Get("Mcp-Session-Id")
	}
	return readResponse(resp, answer)
}

// readResponse takes the response out of a JSON body or a stream.
func readResponse(resp *http.Response, body []byte) (json.RawMessage, error) {
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status + ": " + string(body))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		var last []byte
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				last = data
			}
		}
		body = last
	}
	var message struct {
		Result json.RawMessage
		Error  *rpcError
	}
	if err := json.Unmarshal(body, &message); err != nil {
		return nil, err // cut off: the broker is gone
	}
	if message.Error != nil {
		return nil, message.Error
	}
	return message.Result, nil
}

// reply is the tool result that a call had.
type reply struct {
	Text    string
	IsError bool

	// Of a job.
	JobID          string `json:"JobId"`
	Status         string
	Reason         string
	FailureMessage string
	Replayed       bool
	Result         json.RawMessage
	// Of a refusal.
	Code string
}

// call calls a tool; a key makes it a keyed call.
func (w *wire) call(ctx context.Context, tool string, arguments any, key string) (reply, error) {
	params := map[string]any{"name": tool, "arguments": arguments}
	if key != "" {
		params["_meta"] = map[string]any{"berth/idempotencyKey": key}
	}
	raw, err := w.request(ctx, "tools/call", params)
	if err != nil {
		return reply{}, err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return reply{}, err
	}
	r := reply{IsError: result.IsError}
	if len(result.Content) > 0 {
		r.Text = result.Content[0].Text
		_ = json.Unmarshal([]byte(r.Text), &r) // a text that is no JSON is an answer too
	}
	return r, nil
}

// status asks for a job, waiting up to wait seconds for a change.
func (w *wire) status(ctx context.Context, job string, wait int) (reply, error) {
	return w.call(ctx, "job_status", map[string]any{"jobId": job, "waitSeconds": wait}, "")
}

// follow asks until the job is final.
func (w *wire) follow(ctx context.Context, job string) (reply, error) {
	for {
		r, err := w.status(ctx, job, 20)
		if err != nil {
			return r, err
		}
		if r.Code != "" {
			return r, errors.New(r.Text)
		}
		if r.Status != "Accepted" && r.Status != "Running" {
			return r, nil
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
}

// want follows a job to its end, which has to be this one.
func (w *wire) want(job, status, reason string) reply {
	t := w.house.t
	t.Helper()
	got, err := w.follow(t.Context(), job)
	must(t, err)
	if got.Status != status || got.Reason != reason {
		t.Errorf("job %s is %s for the reason %q (%s), want %s %q", job, got.Status, got.Reason, got.FailureMessage, status, reason)
	}
	return got
}
