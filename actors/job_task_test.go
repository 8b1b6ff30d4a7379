package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// tasker is a backend that answers with tasks of its own, in either form. Its
// answers are the test's to change.
type tasker struct {
	legacy bool

	mu      sync.Mutex
	get     string // the answer to tasks/get; an error when it begins with "error"
	result  string // the answer to tasks/result
	asks    bool   // tasks/result asks the caller first and answers what it heard
	sent    []string
	created int
}

func (k *tasker) set(get string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.get = get
}

// seen gives the params of each request of a method.
func (k *tasker) seen(method string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, s := range k.sent {
		if m, params, _ := strings.Cut(s, " "); m == method {
			out = append(out, params)
		}
	}
	return out
}

func said(text string) (broker.Answer, error) {
	if rest, is := strings.CutPrefix(text, "error "); is {
		e := new(broker.RPCError)
		if err := json.Unmarshal([]byte(rest), e); err != nil {
			return broker.Answer{}, &broker.Failure{Cause: err.Error()}
		}
		return broker.Answer{Error: e}, nil
	}
	return broker.Answer{Result: json.RawMessage(text)}, nil
}

func (k *tasker) call(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
	k.mu.Lock()
	k.sent = append(k.sent, c.Method+" "+string(c.Params))
	get, result, asks := k.get, k.result, k.asks
	k.mu.Unlock()
	switch c.Method {
	case "tools/call":
		k.mu.Lock()
		k.created++
		k.mu.Unlock()
		if k.legacy {
			return said(`{"task":{"taskId":"inner","status":"working"}}`)
		}
		return said(`{"resultType":"task","taskId":"inner","status":"working"}`)
	case "tasks/get":
		if c.Lane != broker.LaneControl || !strings.Contains(string(c.Client.Capabilities), "io.modelcontextprotocol/tasks") {
			return broker.Answer{}, &broker.Failure{Cause: "a poll that takes a seat, or whose client takes no tasks"}
		}
		return said(get)
	case "tasks/result":
		if asks {
			heard, problem := peer.Request(ctx, "elicitation/create", json.RawMessage(`{"message":"sure?"}`))
			if problem != nil {
				return broker.Answer{Error: problem}, nil
			}
			return said(`{"content":[],"heard":` + string(heard) + `}`)
		}
		return said(result)
	}
	return said(`{"resultType":"complete"}`)
}

// takesTasks is a caller of tasks who can be asked anything.
func takesTasks(r *Request) {
	r.Tasks = func(string, json.RawMessage) *broker.RPCError { return nil }
}

// tasking is a job whose work is a task in its backend.
func tasking(t *testing.T, k *tasker) (*world, string) {
	t.Helper()
	k.set(`{"taskId":"inner","status":"working"}`)
	up := &upstream{call: k.call, tasks: k.legacy}
	w := start(t, up)
	w.do() // the backend lists its verbs
	synctest.Wait()
	r := w.do(long, takesTasks)
	if r.Job == nil {
		t.Fatalf("%+v", r)
	}
	synctest.Wait()
	return w, r.Job.ID
}

func TestABackendsOwnTaskIsFollowedToItsEnd(t *testing.T) {
	const task = `"taskId":"inner","ttl":null`
	for _, tt := range []struct {
		name, get, result string // of the older form
		inline            string // of the extension
		status            broker.JobStatus
		reason            broker.Code
		isError           bool
		says              string
	}{
		{"completed", `{` + task + `,"status":"completed"}`, `{"content":[],"n":1.0}`, `{` + task + `,"status":"completed","result":{"content":[],"n":1.0}}`,
			broker.JobSucceeded, "", false, `{"content":[],"n":1.0}`},
		{"a tool error", `{` + task + `,"status":"failed"}`, `{"content":[{"type":"text","text":"no"}],"isError":true}`, `{` + task + `,"status":"completed","result":{"content":[{"type":"text","text":"no"}],"isError":true}}`,
			broker.JobFailed, broker.CodeOperationFailed, true, `{"content":[{"type":"text","text":"no"}],"isError":true}`},
		{"an error of the protocol", `{` + task + `,"status":"failed"}`, `error {"code":-5,"message":"broke"}`, `{` + task + `,"status":"failed","error":{"code":-5,"message":"broke"}}`,
			broker.JobFailed, broker.CodeOperationFailed, false, ""},
		{"lost there", `{` + task + `,"status":"failed"}`, `error {"code":-32000,"message":"lost","data":{"reason":"job_lost_on_restart"}}`, `{` + task + `,"status":"failed","error":{"code":-32000,"message":"lost","data":{"reason":"job_lost_on_restart"}}}`,
			broker.JobLost, broker.CodeJobLostOnRestart, false, ""},
		{"cancelled there", `{` + task + `,"status":"cancelled","statusMessage":"stopped"}`, "", `{` + task + `,"status":"cancelled"}`,
			broker.JobFailed, broker.CodeCancelled, false, ""},
		{"unknown there", `error {"code":-32602,"message":"no such task"}`, "", `error {"code":-32602,"message":"no such task"}`,
			broker.JobLost, broker.CodeTrackedWorkLost, false, ""},
	} {
		for _, legacy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, older form %v", tt.name, legacy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := &tasker{legacy: legacy, result: tt.result}
					w, id := tasking(t, k)
					elapse(time.Hour)
					j, _ := w.Job(id)
					if j.Status != broker.JobRunning || j.Tracking == nil || j.Tracking.Handle != "inner" || !j.Tracking.Kind.IsTask() {
						t.Fatalf("%+v", j)
					}
					if legacy {
						k.set(tt.get)
					} else {
						k.set(tt.inline)
					}
					j = w.job(id)
					if j.Status != tt.status || j.Reason != tt.reason || j.ResultIsError != tt.isError || string(j.Result) != tt.says {
						t.Fatalf("%+v %s", j, j.Result)
					}
					if tt.name == "an error of the protocol" && !strings.Contains(string(j.Refusal), `"rpc_code":-5`) {
						t.Errorf("%s", j.Refusal)
					}
					// The first call lists the backend's verbs; that it was answered with a
					// task of the extension made a job of it, too.
					sent := k.seen("tools/call")
					if task := strings.Contains(sent[len(sent)-1], `"task":{}`); task != legacy {
						t.Errorf("the call was sent as %s", sent[len(sent)-1])
					}
				})
			})
		}
	}
}

func TestACallThatIsAnsweredWithATaskBecomesAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{get: `{"taskId":"inner","status":"working"}`}
		w := start(t, &upstream{call: k.call})
		r := w.do()
		if r.Job == nil || r.Job.Status != broker.JobRunning || r.Job.Tracking == nil {
			t.Fatalf("%+v", r)
		}
		if stored, err := w.journal.Job(r.Job.ID); err != nil || stored.Tracking == nil || stored.RuntimeID == "" {
			t.Fatalf("what the caller was told is not on disk: %+v, %v", stored, err)
		}
		k.set(`{"taskId":"inner","status":"completed","result":{"content":[]}}`)
		if j := w.job(r.Job.ID); j.Status != broker.JobSucceeded {
			t.Fatalf("%+v", j)
		}
		if n := w.BytesInFlight(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

func TestATaskWithoutAnIdIsNoAnswer(t *testing.T) {
	for _, answer := range []string{
		`{"resultType":"task","status":"working"}`,
		`{"resultType":"task","taskId":""}`,
		`{"resultType":"task","taskId":null}`,
		`{"resultType":"task","taskId":5}`,
		`{"resultType":"task","taskId":"` + strings.Repeat("x", maxTaskID+1) + `"}`,
	} {
		for _, change := range [][]func(*Request){nil, {long, takesTasks}} {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) { return said(answer) }})
				r := w.do(change...)
				code := broker.CodeOutcomeUnknown
				if r.Job != nil {
					code, r.Refusal = w.job(r.Job.ID).Reason, broker.Refuse(code, "", nil)
				}
				if w.code(r) != broker.CodeOutcomeUnknown || code != broker.CodeOutcomeUnknown {
					t.Errorf("%.60s: %s %+v", answer, code, r.Refusal)
				}
			})
		}
	}
	for _, answer := range []string{`{"content":[{"type":"task"}]}`, `{"resultType":"complete","structuredContent":{"a":"task"}}`} {
		if a, _ := said(answer); lostTask(&broker.Call{Method: "tools/call"}, &a) {
			t.Errorf("a task: %s", answer)
		}
	}
}

func TestATaskIsFollowedWhateverElseIsWrongWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{get: `{"status":"working"}`}
		w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
			if c.Method == "tools/call" {
				return said(`{"resultType":"task","taskId":"inner","status":5,"error":"x","task":7,"inputRequests":[]}`)
			}
			return k.call(ctx, c, peer)
		}})
		r := w.do()
		if r.Job == nil || r.Job.Tracking == nil || r.Job.Tracking.Handle != "inner" {
			t.Fatalf("%+v", r)
		}
		for _, wrong := range []string{`null`, `5`, `["x"]`} {
			k.set(`{"status":"completed","result":` + wrong + `}`)
			if j := w.job(r.Job.ID); j.Status != broker.JobFailed || j.Reason != broker.CodeOperationFailed || j.ResultIsError {
				t.Fatalf("%s: %+v", wrong, j)
			}
			r = w.do()
		}
	})
}

func TestATaskThatCannotBeRecordedIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{}
		w := start(t, &upstream{call: k.call})
		w.faults.down.Store(true)
		if code := w.code(w.do()); code != broker.CodeOutcomeUnknown {
			t.Error(code)
		}
		synctest.Wait()
		if got := k.seen("tasks/cancel"); !slices.Equal(got, []string{`{"taskId":"inner"}`}) {
			t.Error(got)
		}
	})
}

func TestCancelReachesTheBackendsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{}
		w, id := tasking(t, k)
		if j, err := w.CancelJob(context.Background(), id, "enough", broker.LocalOperator); err != nil || j.Reason != broker.CodeCancelled || !strings.Contains(j.FailureMessage, "asked to stop") {
			t.Fatalf("%+v, %v", j, err)
		}
		synctest.Wait()
		if got := k.seen("tasks/cancel"); len(got) != 1 {
			t.Error(got)
		}
	})
}

func TestABackendsTaskOverARestart(t *testing.T) {
	t.Run("goes on in any incarnation that knows it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := &tasker{}
			w, id := tasking(t, k)
			w.restart()
			elapse(time.Minute)
			if got := w.status(id); got != broker.JobRunning {
				t.Fatal(got)
			}
			k.set(`{"taskId":"inner","status":"completed","result":{"content":[]}}`)
			if j := w.job(id); j.Status != broker.JobSucceeded {
				t.Fatalf("%+v", j)
			}
			if k.created != 2 { // the first lists the verbs
				t.Errorf("the work was started %d times", k.created-1)
			}
		})
	})
	t.Run("is Lost where nobody knows it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := &tasker{}
			w, id := tasking(t, k)
			k.set(`error {"code":-32602,"message":"no such task"}`)
			w.restart()
			if j := w.job(id); j.Status != broker.JobLost || j.Reason != broker.CodeTrackedWorkLost {
				t.Fatalf("%+v", j)
			}
		})
	})
}

func TestWhatABackendsTaskAsksIsAskedOfTheJobsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{}
		w, id := tasking(t, k)
		changed, stop := w.WatchQuestions(id)
		defer stop()
		k.set(`{"taskId":"inner","status":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"n":1.0}}}}`)
		<-changed
		elapse(time.Minute)
		if q := w.Questions(id); len(q) != 2 {
			t.Fatalf("%+v", q)
		}
		if !w.Answer(id, "b", json.RawMessage(`{"action":"accept"}`), nil) || w.Answer(id, "b", json.RawMessage(`{}`), nil) {
			t.Error("an answer is taken once")
		}
		synctest.Wait()
		if got := k.seen("tasks/update"); !slices.Equal(got, []string{`{"inputResponses":{"b":{"action":"accept"}},"taskId":"inner"}`}) {
			t.Error(got)
		}
		k.set(`{"taskId":"inner","status":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`)
		elapse(time.Minute)
		if q := w.Questions(id); len(q) != 1 || q[0].Key != "a" {
			t.Fatalf("%+v", q)
		}
		k.set(`{"taskId":"inner","status":"completed","result":{"content":[]}}`)
		w.job(id)
		synctest.Wait()
		if q := w.Questions(id); len(q) != 0 {
			t.Errorf("a job that is over asks %+v", q)
		}
	})
}

func TestATaskOfTheOlderFormAsksOnTasksResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &tasker{legacy: true, asks: true}
		w, id := tasking(t, k)
		k.set(`{"taskId":"inner","status":"input_required"}`)
		q := w.question(id)
		elapse(10 * time.Minute) // longer than a poll may take
		w.Answer(id, q.Key, json.RawMessage(`{"action":"accept"}`), nil)
		if j := w.job(id); string(j.Result) != `{"content":[],"heard":{"action":"accept"}}` {
			t.Fatalf("%+v %s", j, j.Result)
		}
	})
}

// question waits until a job asks something.
func (w *world) question(id string) Question {
	w.t.Helper()
	changed, stop := w.WatchQuestions(id)
	defer stop()
	for {
		if q := w.Questions(id); len(q) > 0 {
			return q[0]
		}
		<-changed
	}
}

func TestAJobAsksItsCallerWhenTheCallerTakesTasks(t *testing.T) {
	ask := func(ctx context.Context, _ *broker.Call, peer broker.Peer) (broker.Answer, error) {
		if peer.Request == nil {
			return broker.Answer{Result: text("no way to ask")}, nil
		}
		result, problem := peer.Request(ctx, "elicitation/create", json.RawMessage(`{"n":1.0}`))
		if problem != nil {
			return broker.Answer{Error: problem}, nil
		}
		return broker.Answer{Result: text(string(result))}, nil
	}
	t.Run("and goes on with the answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: ask})
			id := w.do(long, takesTasks).Job.ID
			if q := w.question(id); q.Key != "q1" || q.Method != "elicitation/create" || string(q.Params) != `{"n":1.0}` {
				t.Fatalf("%+v", q)
			}
			if w.Answer(id, "q2", nil, nil) || w.Answer("job_none", "q1", nil, nil) {
				t.Error("a question that nobody asked was answered")
			}
			w.Answer(id, "q1", json.RawMessage(`{"action":"accept"}`), nil)
			if j := w.job(id); string(j.Result) != string(text(`{"action":"accept"}`)) {
				t.Fatalf("%s", j.Result)
			}
		})
	})
	t.Run("an error is an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: ask})
			id := w.do(long, takesTasks).Job.ID
			w.Answer(id, w.question(id).Key, nil, &broker.RPCError{Code: -1, Message: "the client says no"})
			if j := w.job(id); j.FailureMessage != "the client says no" {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("but not for what it did not declare", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: ask})
			id := w.do(long, func(r *Request) {
				r.Tasks = func(method string, _ json.RawMessage) *broker.RPCError {
					return &broker.RPCError{Code: -32601, Message: method + " is not mine"}
				}
			}).Job.ID
			if j := w.job(id); j.FailureMessage != "elicitation/create is not mine" {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("and not otherwise", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: ask})
			id := w.do(long, func(r *Request) {
				r.Peer.Request = func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
					t.Error("a caller that has its handle was asked")
					return nil, broker.NoPeer("")
				}
			}).Job.ID
			if j := w.job(id); j.Status != broker.JobFailed || !strings.Contains(j.FailureMessage, "cannot be asked") {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("when the call was promoted before it asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: func(ctx context.Context, c *broker.Call, peer broker.Peer) (broker.Answer, error) {
				elapse(time.Minute)
				return ask(ctx, c, peer)
			}})
			r := w.do(takesTasks, func(r *Request) { r.PromoteAfter = 45 * time.Second })
			w.Answer(r.Job.ID, w.question(r.Job.ID).Key, json.RawMessage(`1`), nil)
			if j := w.job(r.Job.ID); string(j.Result) != string(text(`1`)) {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("until it is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: ask})
			id := w.do(long, takesTasks).Job.ID
			w.question(id)
			if _, err := w.CancelJob(context.Background(), id, "enough", broker.LocalOperator); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if q := w.Questions(id); len(q) > 0 || len(w.asked.jobs) > 0 || w.asked.count != 0 || w.asked.bytes != 0 {
				t.Errorf("%+v %+v", q, w.asked.jobs)
			}
		})
	})
}

func TestAJobAnswersWhatAStatelessBackendAsksForByItsResult(t *testing.T) {
	// Two rounds; the state of each must come back, with the answers.
	rounds := func(_ context.Context, c *broker.Call, _ broker.Peer) (broker.Answer, error) {
		var p struct {
			Name      string                     `json:"name"`
			Responses map[string]json.RawMessage `json:"inputResponses"`
			State     string                     `json:"requestState"`
		}
		if err := json.Unmarshal(c.Params, &p); err != nil {
			return broker.Answer{}, &broker.Failure{Cause: err.Error()}
		}
		switch p.State {
		case "":
			return said(`{"resultType":"input_required","inputRequests":{"x":{"method":"elicitation/create","params":{}},"y":{"method":"roots/list"}},"requestState":"one"}`)
		case "one":
			return said(`{"resultType":"input_required","inputRequests":{},"requestState":"two"}`)
		}
		return broker.Answer{Result: text(p.Name + " " + string(c.Params))}, nil
	}
	t.Run("when its caller takes tasks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: rounds})
			id := w.do(long, takesTasks).Job.ID
			for range 2 {
				q := w.question(id)
				w.Answer(id, q.Key, json.RawMessage(`{"for":"`+q.Method+`"}`), nil)
			}
			j := w.job(id)
			if j.Status != broker.JobSucceeded || !strings.Contains(string(j.Result), `echo`) || !strings.Contains(string(j.Result), `two`) {
				t.Fatalf("%+v %s", j, j.Result)
			}
		})
	})
	t.Run("and fails when it cannot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: rounds})
			if j := w.job(w.do(long).Job.ID); j.Status != broker.JobFailed || !strings.Contains(j.FailureMessage, "cannot be asked") {
				t.Fatalf("%+v", j)
			}
		})
	})
	t.Run("and not for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, &upstream{call: func(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
				return said(`{"resultType":"input_required","requestState":"one"}`)
			}})
			if j := w.job(w.do(long, takesTasks).Job.ID); j.Status != broker.JobFailed || !strings.Contains(j.FailureMessage, "again and again") {
				t.Fatalf("%+v", j)
			}
		})
	})
}

func TestEveryChangeOfAJobIsToldOnceItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := start(t, &upstream{call: gated(release)})
		l := w.Listen(func(n Notice) bool { return n.Method == TaskChanged })
		defer l.Close()
		id := w.do(long).Job.ID
		for _, want := range []broker.JobStatus{broker.JobRunning, broker.JobSucceeded} {
			synctest.Wait()
			all, _ := l.Take()
			if len(all) != 1 || string(all[0].Params) != `{"taskId":"`+id+`"}` || all[0].Backend != "b" {
				t.Fatalf("%+v", all)
			}
			if j, _ := w.journal.Job(id); j.Status != want {
				t.Fatalf("told of %s, want %s", j.Status, want)
			}
			if want == broker.JobRunning {
				close(release)
			}
		}
	})
}

func TestWhatJobsAskIsBounded(t *testing.T) {
	a := asked{tell: func(string) {}}
	drop := func(json.RawMessage, *broker.RPCError) {}
	for i := range maxAskedJob {
		if _, problem := a.put("job_1", Question{Method: "roots/list"}, drop); problem != nil {
			t.Fatalf("%d: %v", i, problem)
		}
	}
	if _, problem := a.put("job_1", Question{}, drop); problem == nil {
		t.Error("one job asks without bound")
	}
	if _, problem := a.put("job_2", Question{Params: make(json.RawMessage, maxAskedBytes+1)}, drop); problem == nil {
		t.Error("questions weigh without bound")
	}
	if key, _ := a.put("job_2", Question{Key: "own"}, drop); key != "own" {
		t.Error(key)
	}
	a.end("job_1")
	a.end("job_2")
	if len(a.jobs) != 0 || a.count != 0 || a.bytes != 0 {
		t.Errorf("%+v", a.jobs)
	}
}
