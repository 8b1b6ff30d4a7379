package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// fakeTasks are the jobs of a fakeBroker: those of the verbs named long_*.
type fakeTasks struct {
	mu        sync.Mutex
	jobs      []broker.Job
	questions map[string][]actors.Question
	answers   map[string][]json.RawMessage
	watchers  map[chan struct{}]string
	publish   func(actors.Notice)
}

// longSource is the backend with verbs that are accepted as a job at once.
func longSource() catalog.Source {
	return catalog.Source{Backend: "lb", Listed: true, Rules: catalog.Rules{Long: []string{"long_*"}, RequireTask: []string{"long_must"}},
		Server: broker.ServerInfo{ProtocolVersion: "2025-11-25", Info: json.RawMessage(`{"name":"the-lb","version":"1"}`), Capabilities: json.RawMessage(`{"tools":{}}`)},
		Tools: []broker.Tool{tool("echo", ""), tool("long_ok", `"execution":{"taskSupport":"forbidden","x":1.0},`), tool("long_fail", ""), tool("long_rpc", ""),
			tool("long_lost", ""), tool("long_ask", ""), tool("long_ask_one", ""), tool("long_hang", ""), tool("long_must", "")}}
}

// do makes a job of a long verb's call; each ends after five seconds.
func (f *fakeTasks) do(req actors.Request) (actors.Reply, bool) {
	_, verb, _ := strings.Cut(req.Call.Verb, "__")
	if !strings.HasPrefix(verb, "long_") {
		return actors.Reply{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	j := broker.Job{ID: fmt.Sprintf("job_%d", len(f.jobs)+1), Operation: req.Call.Verb, Status: broker.JobRunning, SubmittedAt: now, StartedAt: &now,
		Tenant: req.Call.Principal.Tenant, User: req.Call.Principal.User, Backend: req.Call.Backend}
	f.jobs = append(f.jobs, j)
	f.signal(j.ID)
	end := broker.JobChange{To: broker.JobSucceeded, Result: json.RawMessage(`{"content":[{"type":"text","text":"done"}],"n":1.0,"_meta":{"own":1,"io.modelcontextprotocol/related-task":{"taskId":"inner"}}}`)}
	switch verb {
	case "long_fail":
		end = broker.JobChange{To: broker.JobFailed, Reason: broker.CodeOperationFailed, Message: "no", Result: json.RawMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`), ResultIsError: true}
	case "long_rpc":
		end = broker.JobChange{To: broker.JobFailed, Reason: broker.CodeOperationFailed, Message: "mine",
			Refusal: json.RawMessage(`{"code":"operation_failed","message":"mine","detail":{"rpc_code":-31999,"rpc_data":{"big":12345678901234567890}}}`)}
	case "long_lost":
		end = broker.LostOnRestart(now)
	case "long_hang":
		return actors.Reply{Job: &j}, true
	case "long_ask", "long_ask_one":
		if req.Tasks == nil {
			break
		}
		if problem := req.Tasks("elicitation/create", json.RawMessage(`{"message":"sure?"}`)); problem != nil {
			end = broker.JobChange{To: broker.JobFailed, Reason: broker.CodeOperationFailed, Message: problem.Message}
			break
		}
		f.ask(j.ID, actors.Question{Key: "q1", Method: "elicitation/create", Params: json.RawMessage(`{"message":"sure?","n":1.0}`)})
		if verb == "long_ask" {
			f.ask(j.ID, actors.Question{Key: "q2", Method: "elicitation/create", Params: json.RawMessage(`{"message":"really?"}`)})
		}
		return actors.Reply{Job: &j}, true
	}
	time.AfterFunc(5*time.Second, func() { f.change(j.ID, end) })
	return actors.Reply{Job: &j}, true
}

// ask is called with the lock held.
func (f *fakeTasks) ask(id string, q ...actors.Question) {
	if f.questions == nil {
		f.questions, f.answers = map[string][]actors.Question{}, map[string][]json.RawMessage{}
	}
	f.questions[id] = append(f.questions[id], q...)
	f.signal(id)
}

func (f *fakeTasks) signal(id string) {
	f.publish(actors.Notice{Method: actors.TaskChanged, Params: json.RawMessage(`{"taskId":"` + id + `"}`)})
	for w, of := range f.watchers {
		if of == id {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	}
}

func (f *fakeTasks) change(id string, c broker.JobChange) (broker.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.jobs {
		if f.jobs[i].ID == id {
			c.At = time.Now()
			next, _, err := f.jobs[i].Apply(c)
			if err == nil {
				f.jobs[i] = next
				delete(f.questions, id)
				f.signal(id)
			}
			return next, err
		}
	}
	return broker.Job{}, broker.ErrJobNotFound
}

func (b *fakeBroker) Job(id string) (broker.Job, error) {
	b.tasks.mu.Lock()
	defer b.tasks.mu.Unlock()
	for _, j := range b.tasks.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return broker.Job{}, broker.ErrJobNotFound
}

func (b *fakeBroker) Jobs(filter broker.JobFilter) (broker.JobPage, error) {
	b.tasks.mu.Lock()
	defer b.tasks.mu.Unlock()
	var page broker.JobPage
	for _, j := range slices.Backward(b.tasks.jobs) {
		if !filter.Match(j) {
			continue
		}
		if page.Total >= filter.Offset && (filter.Limit == 0 || len(page.Jobs) < filter.Limit) {
			j.Result = nil
			page.Jobs = append(page.Jobs, j)
		}
		page.Total++
	}
	return page, nil
}

func (b *fakeBroker) Watch(id string) (<-chan struct{}, func()) {
	f := &b.tasks
	w := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers == nil {
		f.watchers = map[chan struct{}]string{}
	}
	f.watchers[w] = id
	return w, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, w)
	}
}

func (b *fakeBroker) WatchQuestions(id string) (<-chan struct{}, func()) { return b.Watch(id) }

func (b *fakeBroker) CancelJob(_ context.Context, id, reason string, by broker.Principal) (broker.Job, error) {
	return b.tasks.change(id, broker.JobChange{To: broker.JobFailed, Reason: broker.CodeCancelled, Message: "Cancelled by " + by.Key() + ": " + reason})
}

func (b *fakeBroker) Questions(id string) []actors.Question {
	b.tasks.mu.Lock()
	defer b.tasks.mu.Unlock()
	return slices.Clone(b.tasks.questions[id])
}

// Answer ends the job with what was answered once nothing is asked any more.
func (b *fakeBroker) Answer(id, key string, result json.RawMessage, problem *broker.RPCError) bool {
	f := &b.tasks
	f.mu.Lock()
	i := slices.IndexFunc(f.questions[id], func(q actors.Question) bool { return q.Key == key })
	if i < 0 {
		f.mu.Unlock()
		return false
	}
	if problem != nil {
		result = problem.Object()
	}
	f.questions[id] = slices.Delete(f.questions[id], i, i+1)
	f.answers[id] = append(f.answers[id], append(append([]byte(`{"`+key+`":`), result...), '}'))
	more, answers := len(f.questions[id]) > 0, f.answers[id]
	f.signal(id)
	f.mu.Unlock()
	if !more {
		slices.SortFunc(answers, func(x, y json.RawMessage) int { return strings.Compare(string(x), string(y)) })
		text, _ := json.Marshal(answers)
		f.change(id, broker.JobChange{To: broker.JobSucceeded, Result: fmt.Appendf(nil, `{"content":[],"answers":%s}`, text)})
	}
	return true
}
