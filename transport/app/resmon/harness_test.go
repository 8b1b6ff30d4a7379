package resmon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/transport/app"
	"berth/transport/app/resmontest"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden transcripts and the table of costs")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is one instance of resmon with the backend that reaches it. It keeps all
// that leaves the adapter.
type rig struct {
	t       *testing.T
	fake    *resmontest.Fake
	backend *app.Backend
	conn    broker.Conn

	mu  sync.Mutex
	out bytes.Buffer // results and log lines
}

// Write takes the log.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

// small is an instance with a dozen of each thing.
func small(t *testing.T) *rig { return run(t, resmontest.Options{Data: resmontest.Small}) }

func run(t *testing.T, o resmontest.Options) *rig {
	t.Helper()
	fake := resmontest.Run(t, o)
	return reach(t, fake, app.Options{Env: fake.Env()})
}

// reach makes a backend. Its connections end with the test.
func reach(t *testing.T, fake *resmontest.Fake, o app.Options) *rig {
	return reachBy(t, Surface(), fake, o)
}

func reachBy(t *testing.T, s *app.Surface, fake *resmontest.Fake, o app.Options) *rig {
	t.Helper()
	r := &rig{t: t, fake: fake}
	o.Log = slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.backend = app.New(s, o)
	conn, err := r.backend.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.backend.Wait()
	})
	return r
}

// answer is what a caller of a tool gets.
type answer struct {
	text      string
	isError   bool
	runtimeID string
}

func (r *rig) try(ctx context.Context, expected, name, arguments string) (answer, error) {
	call := &broker.Call{ID: "c", Verb: name, ExpectedRuntimeID: expected, Method: "tools/call"}
	call.Params = app.Object{{Name: "name", Value: app.Quote(name)}, {Name: "arguments", Value: app.OrNull(json.RawMessage(arguments))}}.JSON()
	got, err := r.conn.Call(ctx, call, broker.Peer{})
	if err != nil {
		return answer{}, err
	}
	_, _ = r.Write(got.Result)
	var result struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(got.Result, &result); err != nil || len(result.Content) != 1 || result.Content[0].Type != "text" {
		r.t.Fatalf("%s: not one text block: %s", name, got.Result)
	}
	if strings.Contains(string(got.Result), "structuredContent") {
		r.t.Errorf("%s: structured content: %s", name, got.Result)
	}
	return answer{result.Content[0].Text, result.IsError, got.RuntimeID}, nil
}

func (r *rig) call(name, arguments string) answer { return r.bound("", name, arguments) }

func (r *rig) bound(expected, name, arguments string) answer {
	r.t.Helper()
	a, err := r.try(r.t.Context(), expected, name, arguments)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	if !json.Valid([]byte(a.text)) {
		r.t.Fatalf("%s: the text is not JSON: %s", name, a.text)
	}
	return a
}

// good is the document of a call that must succeed.
func (r *rig) good(name, arguments string) map[string]any {
	r.t.Helper()
	a := r.call(name, arguments)
	if a.isError {
		r.t.Fatalf("%s %s: %s", name, arguments, a.text)
	}
	return decode(r.t, a.text)
}

// refused is the error of a call that must not succeed.
func (r *rig) refused(name, arguments string) refusal {
	r.t.Helper()
	return r.call(name, arguments).refusal(r.t)
}

type refusal struct {
	Error, Message string
	Tried          []string
	NoPortNamed    *bool `json:"no_port_named"`
	Detail         map[string]any
}

func (a answer) refusal(t *testing.T) refusal {
	t.Helper()
	if !a.isError {
		t.Fatalf("no refusal: %s", a.text)
	}
	var r refusal
	if err := json.Unmarshal([]byte(a.text), &r); err != nil || r.Detail == nil || r.Message == "" {
		t.Fatalf("not the shape of an error (%v): %s", err, a.text)
	}
	return r
}

// detail holds the details of a refusal against a JSON object.
func (r refusal) detail(t *testing.T, want string) {
	t.Helper()
	got := app.JSON(r.Detail)
	if string(got) != want {
		t.Errorf("detail %s, want %s", got, want)
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// sent are the requests that reached the app, the health checks of connections
// aside.
func (r *rig) sent() []string {
	var out []string
	for _, q := range r.fake.Requests() {
		line := q.Method + " " + q.Path
		if q.Query != "" {
			line += "?" + q.Query
		}
		if line != "GET /api/health" {
			out = append(out, line)
		}
	}
	return out
}

func (r *rig) id(n int64) string { return strconv.FormatInt(n, 10) }

// dials counts connections, so that a test sees that none was made.
type dials struct {
	mu sync.Mutex
	n  int
	to []string
}

func (d *dials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.n++
	d.to = append(d.to, address)
	d.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (d *dials) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// lines are connections that say when the adapter has let go of them all.
type lines struct {
	mu   sync.Mutex
	open int
	peak int
	none chan struct{} // closed while there is none
}

type line struct {
	net.Conn
	of   *lines
	once sync.Once
}

func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open++; l.open == 1 {
		l.none = make(chan struct{})
	}
	l.peak = max(l.peak, l.open)
	return &line{Conn: conn, of: l}, nil
}

func (c *line) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if c.of.open--; c.of.open == 0 {
			close(c.of.none)
		}
	})
	return c.Conn.Close()
}

// gone waits until the pool has noticed that resmon closed its connections:
// that travels, and a request that overtakes it is lost like any other.
func (l *lines) gone() {
	l.mu.Lock()
	none := l.none
	l.mu.Unlock()
	if none != nil {
		<-none
	}
}

// brief are limits that a test can wait for, and that a busy machine keeps.
var brief = app.Limits{Probe: time.Second, Request: 1200 * time.Millisecond, Call: 3 * time.Second}

func isFailure(err error) *broker.Failure {
	var f *broker.Failure
	if !errors.As(err, &f) {
		return nil
	}
	return f
}

// shared is a directory of contracts beside the module, which is not part of it.
func shared(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../../../shared/contracts/" + name)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("skipped: the contract's %s is not beside the module", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
