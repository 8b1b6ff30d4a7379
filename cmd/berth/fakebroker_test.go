package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native/events"
	"berth/journal"
	"berth/transport/httpguard"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// fakeBroker answers the operator API with the real handlers, catalog, policy,
// state directory and journal; only the backend behind it is made up.
type fakeBroker struct {
	snapshot *catalog.Snapshot
	mu       sync.Mutex
	jobs     []broker.Job
	looks    int // at the log of the mission that runs
}

// onStuck is called when somebody waits for a job that never ends.
var onStuck = func() {}

// startFakeBroker runs one on dir and gives the directory and what ends it.
// Without facts it has a journal of its own.
func startFakeBroker(dir string, facts ...journalFacts) (string, func(), error) {
	state, err := statedir.Open(dir)
	if err != nil {
		return "", nil, err
	}
	lock, err := state.Lock()
	if err != nil {
		return "", nil, err
	}
	credential, err := state.Credential()
	if err != nil {
		return "", nil, err
	}
	kept, err := journal.Open(filepath.Join(dir, journalFile), journal.Options{})
	if err != nil {
		return "", nil, err
	}
	if len(facts) == 0 {
		facts = append(facts, journalFacts{kept})
	}
	f := &fakeBroker{snapshot: fakeCatalog()}
	down := make(chan struct{})
	srv := httptest.NewServer(rest.New(rest.Options{
		Guard: httpguard.New(httpguard.Options{Authenticate: httpguard.Bearers(func(token string) (broker.Principal, bool) {
			return broker.LocalOperator, credential.Verify(token)
		})}),
		Calls: f, Views: f, Jobs: f, Journal: facts[0], Inspect: &inspector{journal: kept, state: dir}, Token: state,
		Events: events.New(kept, time.Now, slog.New(slog.DiscardHandler)), Journalled: kept, Done: down,
		Version: "test", RuntimeID: "life-0", Started: time.Now(), Log: slog.New(slog.DiscardHandler),
	}))
	if err := state.WritePort(strings.TrimPrefix(srv.URL, "http://")); err != nil {
		return "", nil, err
	}
	return dir, func() {
		close(down)
		srv.Close()
		if err := errors.Join(kept.Close(), state.RemovePort(), lock.Release()); err != nil {
			panic(err)
		}
	}, nil
}

func fakeCatalog() *catalog.Snapshot {
	source := catalog.Source{Backend: "demo", Listed: true, Rules: catalog.Rules{Long: []string{"slow", "doomed", "stuck"}}}
	for _, name := range []string{"echo", "fail", "rpc", "full", "slow", "doomed", "stuck"} {
		source.Tools = append(source.Tools, broker.Tool{Name: name,
			Raw: json.RawMessage(`{"name":"` + name + `","description":"The tool ` + name + `.\nMore of it.","inputSchema":{"type":"object"}}`)})
	}
	snapshot, _ := catalog.Build(1, []catalog.Source{source, fakeFleet()})
	return snapshot
}

func (f *fakeBroker) Catalog() *catalog.Snapshot { return f.snapshot }

func (f *fakeBroker) WhyPending(backends []string) *broker.Refusal {
	return broker.CatalogPending(backends)
}

func (f *fakeBroker) AwaitCatalog(context.Context, string) *catalog.Snapshot { return f.snapshot }

func (f *fakeBroker) Do(_ context.Context, r actors.Request) actors.Reply {
	var params struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(r.Call.Params, &params); err != nil {
		return actors.Reply{Refusal: broker.AsRefusal(err)}
	}
	text := func(s string, isError bool) actors.Reply {
		quoted, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":%t}`, quoted, isError))}}
	}
	if r.Call.Backend == catalog.NativeName {
		return f.dispatch(params.Name, params.Arguments)
	}
	switch params.Name {
	case "echo":
		return text(string(params.Arguments), false)
	case "fail":
		return text("it broke", true)
	case "rpc":
		return actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -32000, Message: "no such thing"}}}
	case "full":
		return actors.Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "The queue of demo is full.", nil).Retry(time.Second)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	j := broker.Job{ID: fmt.Sprintf("job_%d", len(f.jobs)+1), Operation: r.Call.Verb, Status: broker.JobAccepted, SubmittedAt: time.Now()}
	f.jobs = append([]broker.Job{j}, f.jobs...)
	return actors.Reply{Job: &j}
}

func (f *fakeBroker) Sessions() []actors.SessionView {
	return []actors.SessionView{{SessionInfo: actors.SessionInfo{Key: "s-1", Principal: broker.LocalOperator, ClientName: "evil\x1b[2Jclient",
		ClientVersion: "2", ProtocolVersion: "2025-11-25", Started: time.Now()}, InFlight: 1, Calls: 9, LastSeen: time.Now()}}
}

func (f *fakeBroker) Backends(context.Context) []actors.BackendView {
	tools, life := 7, "life-1"
	until := time.Now().Add(time.Hour)
	return []actors.BackendView{
		{Name: "demo", Kind: "stdio", State: actors.StateReady, RuntimeID: &life, Tools: &tools, PID: 4711, Seats: 8, InFlight: 1, EnvNames: []string{"DEMO_KEY"}},
		{Name: "gone", Kind: "http", State: actors.StateBackoff, BackoffUntil: &until, LastError: "connection refused", Seats: 4},
		{Name: "wrong", Kind: "stdio", State: actors.StateIdle, FailedStarts: 3, LastError: "no such program", Seats: 4},
	}
}

func (f *fakeBroker) Job(id string) (broker.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return broker.Job{}, broker.ErrJobNotFound
}

func (f *fakeBroker) Jobs(filter broker.JobFilter) (broker.JobPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page broker.JobPage
	for _, j := range f.jobs {
		if filter.Match(j) {
			if page.Total++; page.Total > filter.Offset && len(page.Jobs) < filter.Limit {
				page.Jobs = append(page.Jobs, j)
			}
		}
	}
	return page, nil
}

// Watch moves the job on, one status a watch: whoever follows a job sees all.
func (f *fakeBroker) Watch(id string) (<-chan struct{}, func()) {
	j, _ := f.Job(id)
	if strings.HasSuffix(j.Operation, "stuck") {
		onStuck()
		return make(chan struct{}), func() {}
	}
	if j.Status == broker.JobAccepted {
		f.change(id, broker.JobChange{To: broker.JobRunning, At: time.Now()})
	} else if strings.HasSuffix(j.Operation, "doomed") {
		f.change(id, broker.JobChange{To: broker.JobLost, At: time.Now(), Reason: broker.CodeTrackedWorkLost, Message: "It got lost."})
	} else {
		f.change(id, broker.JobChange{To: broker.JobSucceeded, At: time.Now(), Result: json.RawMessage(`{"content":[{"type":"text","text":"built it"}]}`)})
	}
	return make(chan struct{}), func() {}
}

func (f *fakeBroker) change(id string, c broker.JobChange) (out broker.Job, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err = broker.ErrJobNotFound
	for i, j := range f.jobs {
		if j.ID == id {
			f.jobs[i], _, err = j.Apply(c)
			out = f.jobs[i]
		}
	}
	return out, err
}

func (f *fakeBroker) CancelJob(_ context.Context, id, reason string, _ broker.Principal) (broker.Job, error) {
	return f.change(id, broker.JobChange{To: broker.JobFailed, At: time.Now(), Reason: broker.CodeCancelled, Message: reason})
}
