package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native/jobs"
	"berth/transport/httpguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "the-token"

// pipes is a network in memory, so that a whole server runs in a synctest bubble.
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

// fakeBroker answers like the real one, from a script of verbs.
type fakeBroker struct {
	meta    broker.Conn    // answers the catalog family; nil: there is none
	options func(*Options) // of the front before it; nil: as they are

	mu       sync.Mutex
	snapshot *catalog.Snapshot
	changed  chan struct{}
	inFlight map[string]chan string // session and id -> cancel with its reason
	attached []actors.SessionInfo
	ended    []string
	cancels  []string
	requests []actors.Request
	refuse   *broker.Refusal // every Attach is answered with it
	tasks    fakeTasks
	standing
	subscribed map[string]bool   // by holder and URI
	levels     map[string]string // by holder
	dropped    chan string       // verbs whose ctx ended; capacity 16
}

func tool(name, rest string) broker.Tool {
	return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `",` + rest + `"inputSchema":{"type":"object"}}`)}
}

// fsTools are the verbs of the backend that is always there.
func fsTools() []broker.Tool {
	return []broker.Tool{
		{Name: "add", Raw: json.RawMessage(`{"name":"add", "description":"Adds.", "inputSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}}`)},
		tool("echo", `"x-own":1.0,`), tool("fail", ""), tool("rpcerror", ""), tool("slow", ""), tool("hang", ""),
		tool("shed", ""), tool("job", ""), tool("panic", ""), tool("empty", ""),
		tool("schema", `"outputSchema":{"type":"object"},`),
	}
}

func fsSource() catalog.Source {
	return catalog.Source{Backend: "fs", Listed: true, Tools: fsTools(), Server: broker.ServerInfo{ProtocolVersion: "2025-06-18",
		Info: json.RawMessage(`{"name":"the-fs","version":"9","x":1.0}`), Instructions: "Use fs with care."}}
}

// nativeSource is the broker's own family, cut down to what the front shows of it.
func nativeSource() catalog.Source {
	return catalog.Source{Backend: jobs.Backend, Native: true, Family: "jobs", Listed: true,
		Tools:   []broker.Tool{{Name: jobs.Verb, Raw: json.RawMessage(`{"name":"job_status","description":"Follows a job.","inputSchema":{"type":"object","properties":{"jobId":{"type":"string"},"waitSeconds":{"type":"integer"}},"required":["jobId"]}}`)}},
		Effects: map[string]broker.Effects{jobs.Verb: broker.Read}, Control: []string{jobs.Verb}, Beside: []string{jobs.Verb}}
}

func newFakeBroker(t testing.TB, more ...catalog.Source) *fakeBroker {
	b := &fakeBroker{inFlight: map[string]chan string{}, dropped: make(chan string, 16), subscribed: map[string]bool{}, levels: map[string]string{}}
	b.tasks.publish = b.publish
	b.set(t, append([]catalog.Source{nativeSource(), fsSource()}, more...)...)
	return b
}

func (b *fakeBroker) set(t testing.TB, sources ...catalog.Source) {
	snapshot, faults := catalog.Build(1, sources)
	for _, f := range faults {
		t.Errorf("the catalog of the test is at fault: %+v", f)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
	}
	b.snapshot, b.changed = snapshot, make(chan struct{})
}

func (b *fakeBroker) Catalog() *catalog.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snapshot
}

func (b *fakeBroker) Availability(string) string { return "ready" }

func (b *fakeBroker) WhyPending(backends []string) *broker.Refusal {
	return broker.CatalogPending(backends)
}

func (b *fakeBroker) AwaitCatalog(ctx context.Context, profile string) *catalog.Snapshot {
	for {
		b.mu.Lock()
		snapshot, changed := b.snapshot, b.changed
		b.mu.Unlock()
		if p, ok := snapshot.Profile(profile); !ok || len(p.Pending()) == 0 {
			return snapshot
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return snapshot
		}
	}
}

func (b *fakeBroker) Attach(info actors.SessionInfo) *broker.Refusal {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attached = append(b.attached, info)
	return b.refuse
}

func (b *fakeBroker) End(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, session)
}

func (b *fakeBroker) Cancel(session, id, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancels = append(b.cancels, id+" "+reason)
	if c := b.inFlight[session+" "+id]; c != nil {
		select {
		case c <- reason:
		default:
		}
	}
}

func (b *fakeBroker) Do(ctx context.Context, req actors.Request) actors.Reply {
	if b.meta != nil && req.Call.Backend == catalog.NativeName && req.Call.Verb != jobs.Verb {
		now := time.Now()
		answer, err := b.meta.Call(ctx, req.Call, broker.Peer{})
		if err != nil {
			return actors.Reply{Refusal: broker.AsRefusal(err)}
		}
		return actors.Reply{Answer: &answer, Timing: broker.Timing{Offered: now, Started: now, Ended: now, Attempt: 1}}
	}
	cancel := make(chan string, 1)
	key := req.Call.Session + " " + req.RequestID
	b.mu.Lock()
	b.requests = append(b.requests, req)
	if reply, is := b.tasks.do(req); is {
		b.mu.Unlock()
		return reply
	}
	if req.RequestID != "" {
		if b.inFlight[key] != nil {
			b.mu.Unlock()
			return actors.Reply{Refusal: broker.Refuse(broker.CodeDuplicateRequestID, "A request with this id is running in this session.", nil)}
		}
		b.inFlight[key] = cancel
		defer func() {
			b.mu.Lock()
			delete(b.inFlight, key)
			b.mu.Unlock()
		}()
	}
	b.mu.Unlock()
	offered := time.Now()
	reply := b.verb(ctx, req, cancel)
	if reply.Answer != nil {
		reply.Answer.RuntimeID = "rt-" + req.Call.Backend
		reply.Timing = broker.Timing{Offered: offered, Started: offered, Ended: time.Now()}
	}
	return reply
}

func (b *fakeBroker) verb(ctx context.Context, req actors.Request, cancel <-chan string) actors.Reply {
	var params struct {
		Name      string `json:"name"`
		Arguments struct {
			MS       int    `json:"ms"`
			Progress int    `json:"progress"`
			Link     bool   `json:"link"`
			Ask      *asked `json:"ask"`
			Say      []struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			} `json:"say"` // on the call's stream, before anything else
			Result json.RawMessage `json:"result"`
		} `json:"arguments"`
	}
	if req.Call.Method != "tools/call" {
		return b.other(ctx, req, cancel)
	}
	if err := json.Unmarshal(req.Call.Params, &params); err != nil {
		return actors.Reply{Refusal: broker.AsRefusal(err)}
	}
	result := func(format string, args ...any) actors.Reply {
		return actors.Reply{Answer: &broker.Answer{Result: fmt.Appendf(nil, format, args...)}}
	}
	for _, n := range params.Arguments.Say {
		if req.Peer.Notify != nil {
			req.Peer.Notify(n.Method, n.Params)
		}
	}
	if params.Arguments.Result != nil {
		return actors.Reply{Answer: &broker.Answer{Result: params.Arguments.Result}}
	}
	if params.Arguments.Link {
		return result(`{"content":[{"type":"resource_link","uri":"link://%s","name":"l"}]}`, req.Call.Backend)
	}
	if params.Arguments.Ask != nil {
		return b.ask(ctx, req, *params.Arguments.Ask)
	}
	switch params.Name {
	case "fail":
		return result(`{"content":[{"type":"text","text":"no"}],"isError":true}`)
	case "rpcerror":
		return actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -31999, Message: "mine",
			Raw: json.RawMessage(`{"code":-31999,"message":"mine","data":{"big":12345678901234567890},"own":1.0}`)}}}
	case "shed":
		return actors.Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "The queue of fs is full.", map[string]any{"queued": 32}).Retry(1500 * time.Millisecond)}
	case "job", "schema":
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return actors.Reply{Job: &broker.Job{ID: "job_1", Operation: req.Call.Verb, Status: broker.JobAccepted, SubmittedAt: at}}
	case "panic":
		panic("of a verb")
	case "empty":
		return actors.Reply{}
	case "slow":
		every := time.Duration(params.Arguments.MS) * time.Millisecond / time.Duration(params.Arguments.Progress+1)
		for i := range params.Arguments.Progress + 1 {
			select {
			case <-time.After(every):
			case <-ctx.Done():
				b.dropped <- params.Name
				return actors.Reply{Cancelled: true}
			}
			if i < params.Arguments.Progress && req.Peer.Progress != nil {
				req.Peer.Progress(broker.Progress{Params: fmt.Appendf(nil, `{"progress":%d, "x-own":1.0}`, i+1)})
			}
		}
		return result(`{"content":[],"slept":%d}`, params.Arguments.MS)
	case "hang":
		select {
		case <-cancel:
		case <-ctx.Done():
			b.dropped <- params.Name
		}
		return actors.Reply{Cancelled: true}
	}
	return result(`{"content":[], "got":%s}`, req.Call.Params)
}

// front is a served Server and a client of it.
type front struct {
	*Server
	broker *fakeBroker
	pipes  *pipes
	client *http.Client
	http   *http.Server
}

// testGuard knows two callers; maxBody zero is the default.
func testGuard(maxBody int64) *httpguard.Guard {
	return httpguard.New(httpguard.Options{MaxBody: maxBody, Authenticate: httpguard.Bearers(func(token string) (broker.Principal, bool) {
		switch token {
		case testToken:
			return broker.LocalOperator, true
		case "other":
			return broker.Principal{Tenant: "t", User: "other", Role: broker.User}, true
		}
		return broker.Principal{}, false
	})})
}

func testOptions(b Broker) Options {
	return Options{Tier: catalog.Full,
		Broker: b, SessionKey: []byte("0123456789abcdef0123"), RuntimeID: "rt-berth", Version: "1.2.3",
		Guard:  testGuard(0),
		Random: bytes.NewReader(make([]byte, 1<<16)),
	}
}

// serve starts a front; it must be stopped inside the bubble that it was started in.
func serve(t testing.TB, b *fakeBroker, change func(*Options)) *front {
	opts := testOptions(b)
	if b.options != nil {
		b.options(&opts)
	}
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{Server: s, broker: b, pipes: newPipes(), http: &http.Server{Handler: s}}
	f.client = &http.Client{Transport: &http.Transport{DialContext: f.pipes.dial, MaxIdleConnsPerHost: 100}}
	go func() { _ = f.http.Serve(f.pipes) }()
	return f
}

// stop ends the server inside its bubble. net/http lingers half a second on a
// connection that it closes before all was read; the bubble's clock skips that.
func (f *front) stop() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	f.Drain(over) // as serve does, without its patience
	f.client.CloseIdleConnections()
	_ = f.http.Close()
	elapse(time.Second)
}

// post sends one message as the operator.
func (f *front) post(ctx context.Context, path, session, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:7420"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	if session != "" {
		req.Header.Set(headerSession, session)
	}
	return f.client.Do(req)
}

// token is a session of the operator without a handshake: any broker with the
// key accepts it.
func (f *front) token(profile, client string) string {
	s := session{nonce: make([]byte, nonceBytes), principal: broker.LocalOperator.Digest(), profile: profile,
		version: versions[0], client: client, started: f.opts.Now()}
	return s.token(f.opts.SessionKey)
}

// instant is a broker that remembers nothing and answers at once, for benchmarks.
type instant struct{ *fakeBroker }

var instantResult = json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)

func (i *instant) Attach(actors.SessionInfo) *broker.Refusal { return nil }

func (i *instant) Do(context.Context, actors.Request) actors.Reply {
	return actors.Reply{Answer: &broker.Answer{Result: instantResult}}
}
