package actors

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
	"berth/journal"
)

// upstream is a backend that does as its test says.
type upstream struct {
	open func(ctx context.Context, life int) (*conn, error) // nil: a conn with call
	call func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error)
	verb string               // a further tool
	list func() []broker.Tool // nil: echo, and verb
	// tasks makes echo a verb that its backend runs as a task of its own.
	tasks bool

	mu    sync.Mutex
	lives []*conn
	tries int
	ears  []broker.Hear // of each life
}

func (u *upstream) Open(ctx context.Context, hear broker.Hear) (broker.Conn, error) {
	u.mu.Lock()
	u.tries++
	u.ears = append(u.ears, hear)
	life := u.tries
	u.mu.Unlock()
	c := &conn{up: u, id: fmt.Sprintf("life-%d", life), done: make(chan struct{})}
	if u.open != nil {
		given, err := u.open(ctx, life)
		if err != nil {
			return nil, err
		}
		if given != nil {
			given.up, given.done = u, make(chan struct{})
			c = given
		}
	}
	u.mu.Lock()
	u.lives = append(u.lives, c)
	u.mu.Unlock()
	return c, nil
}

func (u *upstream) last() *conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lives[len(u.lives)-1]
}

// say has the present life send something outside of any call.
func (u *upstream) say(method, params string) {
	u.mu.Lock()
	hear := u.ears[len(u.ears)-1]
	u.mu.Unlock()
	hear(method, json.RawMessage(params))
}

func (u *upstream) attempts() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tries
}

// conn is one life of an upstream.
type conn struct {
	up       *upstream
	id       string // runtime id
	reported bool
	call     func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error)
	broken   bool // Incarnation panics
	perCall  bool // it finds out with each call who answers
	done     chan struct{}
	once     sync.Once
	closed   func() // at its end; nil: nobody asks
}

func (c *conn) Incarnation() broker.Incarnation {
	if c.broken {
		panic("this incarnation is broken")
	}
	tools := []broker.Tool{tool("echo")}
	if c.up.verb != "" {
		tools = append(tools, tool(c.up.verb))
	}
	if c.up.list != nil {
		tools = c.up.list()
	}
	server := broker.ServerInfo{}
	if c.up.tasks {
		server.Capabilities = json.RawMessage(`{"tasks":{"requests":{"tools":{"call":{}}}}}`)
		tools[0].Raw = json.RawMessage(`{"name":"echo","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`)
	}
	return broker.Incarnation{RuntimeID: c.id, Reported: c.reported, Server: server, Tools: tools, PerCall: c.perCall, Done: c.done, Cause: func() string { return "the test ended it" }}
}

func (c *conn) Call(ctx context.Context, call *broker.Call, peer broker.Peer) (broker.Answer, error) {
	f := c.call
	if f == nil {
		f = c.up.call
	}
	if f == nil {
		f = echo
	}
	a, err := f(ctx, call, peer)
	if err == nil && a.RuntimeID == "" {
		a.RuntimeID = c.id
	}
	return a, err
}

func (c *conn) List(context.Context) ([]broker.Tool, []string, error) {
	return c.Incarnation().Tools, nil, nil
}

func (c *conn) Close(context.Context) error {
	c.die()
	return nil
}

func (c *conn) die() {
	c.once.Do(func() {
		close(c.done)
		if c.closed != nil {
			c.closed()
		}
	})
}

func tool(name string) broker.Tool {
	return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)}
}

func echo(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
	return broker.Answer{Result: text(string(c.Params))}, nil
}

func text(s string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}})
	return b
}

// untilCancelled is a call that runs until it is cancelled and never answers.
func untilCancelled(ctx context.Context, _ *broker.Call, _ broker.Peer) (broker.Answer, error) {
	<-ctx.Done()
	return broker.Answer{}, &broker.Failure{Dispatched: true, Abandoned: true, Cause: "cancelled"}
}

// world is a running system on a real journal.
type world struct {
	*System
	t       *testing.T
	journal *journal.Journal
	faults  *faults
	log     *syncBuffer
	dir     string
	up      *upstream
	opts    Options
	next    atomic.Int64
}

// faults decorates a journal: writes fail while it is down.
type faults struct {
	Journal
	down atomic.Bool
	late atomic.Bool // creations and changes fail after they took effect
	// catalogs says when they are saved; nil: at once.
	catalogs atomic.Pointer[stalledCatalogs]
}

var errDown = errors.New("the disk is gone")

func (f *faults) CreateJob(ctx context.Context, j broker.Job) (broker.Job, bool, error) {
	if f.down.Load() {
		return j, false, errDown
	}
	stored, created, err := f.Journal.CreateJob(ctx, j)
	if f.late.Load() && err == nil {
		return j, false, errDown
	}
	return stored, created, err
}

func (f *faults) ChangeJob(ctx context.Context, id string, c broker.JobChange) (broker.Job, error) {
	if f.down.Load() {
		return broker.Job{}, errDown
	}
	stored, err := f.Journal.ChangeJob(ctx, id, c)
	if f.late.Load() && err == nil {
		return broker.Job{}, errDown
	}
	return stored, err
}

func (f *faults) SaveCatalog(ctx context.Context, c broker.StoredCatalog, events ...broker.Event) error {
	if f.down.Load() {
		return errDown
	}
	if s := f.catalogs.Load(); s != nil {
		s.wait()
	}
	return f.Journal.SaveCatalog(ctx, c, events...)
}

// records fail while the journal is down.
type records struct {
	Records
	down *atomic.Bool
}

func (r *records) Put(ctx context.Context, c broker.RecordChange) (broker.Record, error) {
	if r.down.Load() {
		return broker.Record{}, errDown
	}
	return r.Records.Put(ctx, c)
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// start brings up a system with one backend "b" on up. change may alter what
// it is made of.
func start(t *testing.T, up *upstream, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, up: up, dir: t.TempDir(), log: &syncBuffer{}}
	w.opts = Options{
		Backends: []BackendConfig{{Name: "b", Kind: "stdio", Upstream: up,
			Admission: admission.Limits{Seats: 4, MaxQueuedCalls: 8, MaxQueuedJobs: 8, QueueTimeout: time.Minute}}},
		Sources: []catalog.Source{{Backend: "b"}},
		Now:     time.Now, Random: rand.Reader,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&w.opts)
	}
	w.boot()
	t.Cleanup(w.halt)
	return w
}

func (w *world) boot() {
	w.t.Helper()
	var err error
	if w.journal, err = journal.Open(filepath.Join(w.dir, "journal.db"), journal.Options{}); err != nil {
		w.t.Fatal(err)
	}
	r, err := w.journal.Recover(context.Background(), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.faults = &faults{Journal: w.journal}
	w.opts.Journal, w.opts.Records, w.opts.Tracked = w.faults, &records{w.journal, &w.faults.down}, r.Tracked
	if w.System, err = Start(w.opts); err != nil {
		w.t.Fatal(err)
	}
	w.session("s")
}

func (w *world) session(key string) {
	w.t.Helper()
	if r := w.Attach(SessionInfo{Key: key, Principal: broker.LocalOperator, Started: time.Now()}); r != nil {
		w.t.Fatal(r)
	}
}

// halt stops the system as an impatient operator would, and checks the journal.
func (w *world) halt() {
	w.t.Helper()
	w.faults.down.Store(false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.Stop(ctx)
	problems, err := w.journal.Check(context.Background())
	if err != nil || len(problems) > 0 {
		w.t.Errorf("the journal is not clean: %v %v", problems, err)
	}
	if err := w.journal.Close(); err != nil {
		w.t.Error(err)
	}
	elapse(time.Second) // the dead-letter throttle of protoactor ends
}

// elapse lets the bubble's clock run.
func elapse(d time.Duration) { <-time.After(d) }

// request is a call of session s to b's echo with the effects of a write.
func (w *world) request(change ...func(*Request)) Request {
	r := Request{Call: &broker.Call{
		ID: w.NewCallID(), Principal: broker.LocalOperator, Session: "s", Backend: "b", Verb: "b__echo",
		Effects: broker.Write, Method: "tools/call", Params: json.RawMessage(`{"name":"echo"}`),
	}, RequestID: fmt.Sprint(w.next.Add(1))}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (w *world) do(change ...func(*Request)) Reply {
	return w.Do(context.Background(), w.request(change...))
}

// async runs a call and gives its reply when it comes.
func (w *world) async(ctx context.Context, change ...func(*Request)) <-chan Reply {
	r := w.request(change...)
	out := make(chan Reply, 1)
	go func() { out <- w.Do(ctx, r) }()
	return out
}

func reading(r *Request) { c := *r.Call; c.Effects = broker.Read; r.Call = &c }

func (w *world) code(r Reply) broker.Code {
	w.t.Helper()
	if r.Refusal == nil {
		w.t.Fatalf("not refused: %+v", r)
	}
	return r.Refusal.Code
}

// job waits until a job is final.
func (w *world) job(id string) broker.Job {
	w.t.Helper()
	signal, end := w.Watch(id)
	defer end()
	for {
		j, err := w.Job(id)
		if err != nil {
			w.t.Fatal(err)
		}
		if j.Status.Final() {
			return j
		}
		<-signal
	}
}
