package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native/events"
	"berth/broker/native/status"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fake is a broker of one backend, `files`, and one job table. It keeps the
// promises that the API relies on: a change is signalled after it is readable,
// a final job does not change, and a call is what policy let through.
type fake struct {
	mu       sync.Mutex
	jobs     []broker.Job // newest first
	watchers map[string][]chan struct{}
	watched  chan string // gets an id whenever a watch begins; may be nil
	err      error       // of every read of jobs
	requests []actors.Request
	do       func(context.Context, actors.Request) actors.Reply

	snapshot *catalog.Snapshot
	sources  []catalog.Source
	awaited  *catalog.Snapshot // what AwaitCatalog gives; nil: waits for ctx, then snapshot
	views    []actors.BackendView
	sess     []actors.SessionView

	twin json.RawMessage // the result of a verb of the broker's own

	token   string
	rotated int

	reloads   []string // by whom
	reloadErr error
}

const okResult = `{"content":[{"type":"text","text":"a <b> & 12345678901234567890"}],"x":1.10}`

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{watchers: map[string][]chan struct{}{}, token: "t0"}
	f.snapshot, f.sources = filesCatalog(t, true)
	f.do = func(context.Context, actors.Request) actors.Reply {
		return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(okResult), RuntimeID: "life-1"},
			Timing: broker.Timing{Offered: at, Started: at.Add(5 * time.Millisecond), Ended: at.Add(20 * time.Millisecond)}}
	}
	return f
}

func filesCatalog(t *testing.T, listed bool) (*catalog.Snapshot, []catalog.Source) {
	t.Helper()
	source := catalog.Source{Backend: "files", Listed: listed}
	if listed {
		for _, entry := range []string{
			`{"name":"read","description":"Read a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`,
			`{"name":"build","description":"Build.","inputSchema":{"type":"object"}}`,
		} {
			var named struct{ Name string }
			if err := json.Unmarshal([]byte(entry), &named); err != nil {
				t.Fatal(err)
			}
			source.Tools = append(source.Tools, broker.Tool{Name: named.Name, Raw: json.RawMessage(entry)})
		}
		source.Rules = catalog.Rules{Long: []string{"build"}, PromoteAfter: map[string]time.Duration{"build": -1},
			Effects: []catalog.EffectRule{{Verb: "read", Is: broker.Read}}}
	}
	snapshot, quarantined := catalog.Build(1, []catalog.Source{source})
	if len(quarantined) > 0 {
		t.Fatalf("quarantined: %v", quarantined)
	}
	return snapshot, []catalog.Source{source}
}

func (f *fake) Do(ctx context.Context, r actors.Request) actors.Reply {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	return f.do(ctx, r)
}

func (f *fake) Catalog() *catalog.Snapshot { return f.snapshot }

func (f *fake) WhyPending(backends []string) *broker.Refusal {
	return broker.CatalogPending(backends)
}

func (f *fake) AwaitCatalog(ctx context.Context, _ string) *catalog.Snapshot {
	if f.awaited == nil {
		if p, ok := f.snapshot.Profile(""); ok && len(p.Pending()) > 0 {
			<-ctx.Done()
		}
		return f.snapshot
	}
	return f.awaited
}

func (f *fake) Sessions() []actors.SessionView                { return f.sess }
func (f *fake) Backends(context.Context) []actors.BackendView { return f.views }

func (f *fake) Job(id string) (broker.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return broker.Job{}, f.err
	}
	for _, j := range f.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return broker.Job{}, fmt.Errorf("read %s: %w", id, broker.ErrJobNotFound)
}

func (f *fake) Jobs(filter broker.JobFilter) (broker.JobPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return broker.JobPage{}, f.err
	}
	page := broker.JobPage{Unreadable: 1}
	for _, j := range f.jobs {
		if !filter.Match(j) {
			continue
		}
		if page.Total++; page.Total > filter.Offset && (filter.Limit == 0 || len(page.Jobs) < filter.Limit) {
			j.Result = nil
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

func (f *fake) Watch(id string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	f.watchers[id] = append(f.watchers[id], ch)
	f.mu.Unlock()
	if f.watched != nil {
		f.watched <- id
	}
	return ch, func() {}
}

func (f *fake) change(id string, c broker.JobChange) (broker.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, j := range f.jobs {
		if j.ID != id {
			continue
		}
		next, _, err := j.Apply(c)
		if err != nil {
			return j, err
		}
		f.jobs[i] = next
		for _, ch := range f.watchers[id] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
		return next, nil
	}
	return broker.Job{}, broker.ErrJobNotFound
}

func (f *fake) CancelJob(_ context.Context, id, reason string, by broker.Principal) (broker.Job, error) {
	return f.change(id, broker.JobChange{To: broker.JobFailed, At: at, Reason: broker.CodeCancelled, Message: by.Key() + ": " + reason})
}

func (f *fake) authenticate(token string) (broker.Principal, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := broker.LocalOperator
	if token == "a-user" {
		p.Role = broker.User
		return p, true
	}
	return p, token == f.token
}

func (f *fake) RotateToken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotated++
	f.token = fmt.Sprintf("t%d", f.rotated)
	return nil
}

type fakeJournal struct{ err error }

func (j fakeJournal) Stats(context.Context) (any, error) { return map[string]int{"Commits": 3}, j.err }
func (j fakeJournal) Check(context.Context) (any, error) {
	return map[string]any{"Success": true, "Clean": true, "Problems": []string{}, "Unseen": []string{}}, j.err
}

func (j fakeJournal) LookAt(ctx context.Context) (any, error) {
	_, bounded := ctx.Deadline()
	return map[string]any{"Success": true, "Clean": true, "Problems": []string{}, "Unseen": []string{fmt.Sprint("bounded ", bounded)}}, j.err
}

// fakeInspect gives what it has.
type fakeInspect struct {
	err    error
	cut    bool
	closed int
}

func (i *fakeInspect) Close() error { i.closed++; return nil }

func (i *fakeInspect) Backup(context.Context) (*rest.Archive, error) {
	if i.err != nil {
		return nil, i.err
	}
	return &rest.Archive{ReadCloser: struct {
		io.Reader
		io.Closer
	}{strings.NewReader("PK-archive"), i}, Name: "b.zip", Size: 10}, nil
}

func (i *fakeInspect) Dump(_ context.Context, w io.Writer, results bool) error {
	if _, err := fmt.Fprintf(w, "{\"Kind\":\"end\",\"Results\":%t}\n", results); err != nil {
		return err
	}
	if i.cut {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (i *fakeInspect) Explain(_ context.Context, id string) (any, error) {
	if i.err != nil {
		return nil, i.err
	}
	return map[string]any{"JobId": id, "Status": "Running", "Explanation": []string{"It runs."}, "Next": "Wait.", "Event": nil}, nil
}

// handler is the API over f; change may alter the options.
func (f *fake) handler(log io.Writer, change ...func(*rest.Options)) http.Handler {
	if log == nil {
		log = io.Discard
	}
	o := rest.Options{Guard: httpguard.New(httpguard.Options{Authenticate: httpguard.Bearers(f.authenticate)}),
		Overview: status.New(status.Options{Jobs: f, Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)}), Events: fakeEvents{}, Journalled: fakeEvents{}, Done: over(),
		Calls: f, Views: f, Jobs: f, Journal: fakeJournal{}, Inspect: &fakeInspect{}, Token: f, Accept: f, Board: &fakeBoard{}, Drains: fakeDrains{}, Reload: f,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "metric 1") }),
		Surface: func(p *catalog.Profile) any { return map[string]string{"profile": p.Name()} },
		Version: "v1", RuntimeID: "life-0", Started: at.Add(-time.Minute), Now: func() time.Time { return at },
		Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, c := range change {
		c(&o)
	}
	return rest.New(o)
}

// ask sends one request with the token and gives status and body.
func ask(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t0")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// object decodes a body that must be one JSON object.
func object(t *testing.T, body string) map[string]any {
	t.Helper()
	var v map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}

func job(id string, status broker.JobStatus, age time.Duration) broker.Job {
	j := broker.Job{ID: id, Operation: "files__build", Status: broker.JobAccepted, SubmittedAt: at.Add(-age), Tenant: "default", User: "operator"}
	done := at.Add(-age / 2)
	for _, to := range map[broker.JobStatus][]broker.JobStatus{
		broker.JobRunning:   {broker.JobRunning},
		broker.JobSucceeded: {broker.JobRunning, broker.JobSucceeded},
		broker.JobFailed:    {broker.JobFailed},
		broker.JobLost:      {broker.JobLost},
	}[status] {
		next, _, err := j.Apply(broker.JobChange{To: to, At: done, Result: json.RawMessage(okResult)})
		if err != nil {
			panic(err)
		}
		j = next
	}
	return j
}

// withTwins adds the broker's own verbs whose twins are routes.
func (f *fake) withTwins(t *testing.T) {
	t.Helper()
	own := catalog.Source{Backend: catalog.NativeName, Native: true, Family: "own", Listed: true, Effects: map[string]broker.Effects{}}
	for verb := range twinAnswers {
		name, _, _ := strings.Cut(verb, " ")
		if _, again := own.Effects[name]; again {
			continue
		}
		own.Tools = append(own.Tools, broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)})
		own.Effects[name] = broker.Write
	}
	snapshot, quarantined := catalog.Build(2, append(f.sources, own))
	if len(quarantined) > 0 {
		t.Fatalf("quarantined: %v", quarantined)
	}
	f.snapshot = snapshot
	f.jobs = append(f.jobs, voyageJob())
	f.do = func(_ context.Context, r actors.Request) actors.Reply {
		if r.Call.Verb == "dispatch" {
			return actors.Reply{Job: ptr(voyageJob())}
		}
		return actors.Reply{Answer: &broker.Answer{Result: f.twin}}
	}
	f.twin = json.RawMessage(`{"content":[],"structuredContent":{"Done":true}}`)
}

// good is the status of a route's answer that is no refusal.
func good(route rest.Route) int {
	switch route.Method + " " + route.Path {
	case "POST /api/v1/vessels/{id}/code-index/update":
		return http.StatusAccepted
	case "POST /api/v1/voyages":
		return http.StatusCreated
	}
	return http.StatusOK
}

func (f *fake) AcceptCatalog(context.Context, string) *broker.Refusal { return nil }

// fakeEvents has nothing to tell and deletes what it is asked to.
type fakeEvents struct{}

func (fakeEvents) List(_ broker.EventQuery, p broker.PageRequest) (events.Page, error) {
	return events.Page{Page: broker.NewPage[broker.EventView](p.Normal(), nil, 0, 0), Cursor: broker.FirstCursor}, nil
}

func (fakeEvents) Delete(_ context.Context, _ broker.Principal, id string) (events.Deleted, error) {
	return events.Deleted{Status: "deleted", EventID: id}, nil
}

func (fakeEvents) EventsAfter(string, int, int) (broker.EventRun, error) {
	return broker.EventRun{Last: broker.FirstCursor}, nil
}

func (fakeEvents) WatchEvents() (<-chan struct{}, func()) { return nil, func() {} }

// over is the end of a broker that goes down: no stream waits there.
func over() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (f *fake) Reload(_ context.Context, by string) (rest.Reloaded, error) {
	f.reloads = append(f.reloads, by)
	return rest.Reloaded{Success: true, Applied: []rest.AppliedChange{}, Unchanged: []string{"files"}, NeedsRestart: []string{}, Problems: []string{}}, f.reloadErr
}
