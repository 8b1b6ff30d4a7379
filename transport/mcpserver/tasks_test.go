package mcpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"berth/actors"
	"berth/broker"
)

// The transcripts of tasks have a broker with long verbs (tasks_harness_test.go);
// their form is that of TestTranscripts.
func TestTaskTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/tasks/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "testdata/tasks/"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			synctest.Test(t, func(t *testing.T) { playWith(t, newFakeBroker(t, longSource()), archive) })
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// at is a time of the mapping tests.
func at(seconds int) *time.Time {
	t := time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC)
	return &t
}

func TestAJobIsShownAsATask(t *testing.T) {
	job := func(change func(*broker.Job)) broker.Job {
		j := broker.Job{ID: "job_1", Status: broker.JobRunning, SubmittedAt: *at(0), StartedAt: at(1)}
		change(&j)
		return j
	}
	ended := func(status broker.JobStatus, reason broker.Code) broker.Job {
		return job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt, j.FailureMessage = status, reason, at(9), "why"
		})
	}
	question := []actors.Question{{Key: "q1", Method: "roots/list"}}
	for _, tt := range []struct {
		name      string
		job       broker.Job
		questions []actors.Question
		status    taskStatus
		updated   int
		fault     string // the error object; empty: none
		result    string
	}{
		{"accepted", job(func(j *broker.Job) { j.Status, j.StartedAt = broker.JobAccepted, nil }), nil, taskWorking, 0, "", ""},
		{"running", job(func(*broker.Job) {}), nil, taskWorking, 1, "", ""},
		{"tracked", job(func(j *broker.Job) { j.Tracking = &broker.Tracking{LastGood: *at(5)} }), nil, taskWorking, 5, "", ""},
		{"running and asking", job(func(*broker.Job) {}), question, taskInputRequired, 1, "", ""},
		{"succeeded", job(func(j *broker.Job) {
			j.Status, j.CompletedAt, j.Result = broker.JobSucceeded, at(9), json.RawMessage(`{"content":[]}`)
		}), nil, taskCompleted, 9, "", `{"content":[]}`},
		{"succeeded, with a question that came too late", job(func(j *broker.Job) {
			j.Status, j.CompletedAt, j.Result = broker.JobSucceeded, at(9), json.RawMessage(`{}`)
		}), question, taskCompleted, 9, "", `{}`},
		{"failed with a tool result", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt, j.ResultIsError, j.Result = broker.JobFailed, broker.CodeOperationFailed, at(9), true, json.RawMessage(`{"isError":true}`)
		}), nil, taskCompleted, 9, "", `{"isError":true}`},
		{"failed with an error of the protocol", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt = broker.JobFailed, broker.CodeOperationFailed, at(9)
			j.Refusal = json.RawMessage(`{"code":"operation_failed","message":"theirs","detail":{"rpc_code":-5,"rpc_data":null}}`)
		}), nil, taskFailed, 9, `{"code":-5,"message":"theirs","data":{"reason":"operation_failed"}}`, ""},
		{"failed with an error that has data", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt = broker.JobFailed, broker.CodeOperationFailed, at(9)
			j.Refusal = json.RawMessage(`{"message":"theirs","detail":{"rpc_code":-5,"rpc_data":{"n":1.0}}}`)
		}), nil, taskFailed, 9, `{"code":-5,"message":"theirs","data":{"n":1.0,"reason":"operation_failed"}}`, ""},
		{"failed with an error whose data has a reason", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt = broker.JobFailed, broker.CodeOperationFailed, at(9)
			j.Refusal = json.RawMessage(`{"message":"theirs","detail":{"rpc_code":-5,"rpc_data":{"reason":"own"}}}`)
		}), nil, taskFailed, 9, `{"code":-5,"message":"theirs","data":{"reason":"own","berth/reason":"operation_failed"}}`, ""},
		{"failed with an error whose data is no object", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt = broker.JobFailed, broker.CodeOperationFailed, at(9)
			j.Refusal = json.RawMessage(`{"message":"theirs","detail":{"rpc_code":-5,"rpc_data":[1]}}`)
		}), nil, taskFailed, 9, `{"code":-5,"message":"theirs","data":{"reason":"operation_failed","data":[1]}}`, ""},
		{"refused", job(func(j *broker.Job) {
			j.Status, j.Reason, j.CompletedAt, j.FailureMessage = broker.JobFailed, broker.CodeBackendUnavailable, at(9), "gone"
			j.Refusal = json.RawMessage(`{"code":"backend_unavailable"}`)
		}), nil, taskFailed, 9, `{"code":-32010,"message":"gone","data":{"reason":"backend_unavailable","refusal":{"code":"backend_unavailable"}}}`, ""},
		{"lost", ended(broker.JobLost, broker.CodeJobLostOnRestart), nil, taskFailed, 9, `{"code":-32010,"message":"why","data":{"reason":"job_lost_on_restart"}}`, ""},
		{"reaped", ended(broker.JobFailed, broker.CodeReapedAsStale), nil, taskFailed, 9, `{"code":-32010,"message":"why","data":{"reason":"reaped_as_stale"}}`, ""},
		{"cancelled", ended(broker.JobFailed, broker.CodeCancelled), nil, taskCancelled, 9, `{"code":-32010,"message":"why","data":{"reason":"cancelled"}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := viewTask(tt.job, tt.questions)
			fault := ""
			if v.fault != nil {
				raw, err := json.Marshal(v.fault)
				if err != nil {
					t.Fatal(err)
				}
				fault = string(raw)
			}
			if v.status != tt.status || !v.updated.Equal(*at(tt.updated)) || fault != tt.fault || string(v.result) != tt.result {
				t.Errorf("%s, updated %v, %s, %s", v.status, v.updated, fault, v.result)
			}
			if v.final() != tt.job.Status.Final() {
				t.Error("the task and the job are not final together")
			}
			for form, raw := range map[string]json.RawMessage{"legacy": v.legacy(), "legacy created": v.legacyCreated("x"), "created": v.createdResult(), "detailed": v.detailed(true)} {
				if !json.Valid(raw) {
					t.Errorf("%s: %s", form, raw)
				}
			}
		})
	}
}

func TestCreateTaskResultHasNothingOfTheOutcome(t *testing.T) {
	v := viewTask(broker.Job{ID: "job_1", Status: broker.JobSucceeded, SubmittedAt: *at(0), CompletedAt: at(9), Result: json.RawMessage(`{"content":[]}`)}, nil)
	want := `{"resultType":"task","taskId":"job_1","status":"completed","createdAt":"2026-01-02T03:04:00Z","lastUpdatedAt":"2026-01-02T03:04:09Z","ttlMs":1209600000,"pollIntervalMs":1000}`
	if got := string(v.createdResult()); got != want {
		t.Error(got)
	}
	want = `{"taskId":"job_1","status":"completed","createdAt":"2026-01-02T03:04:00Z","lastUpdatedAt":"2026-01-02T03:04:09Z","ttl":1209600000,"pollInterval":1000}`
	if got := string(v.legacy()); got != want {
		t.Error(got)
	}
}

func TestABackendsTaskIdNeverReachesACaller(t *testing.T) {
	for _, tt := range []struct{ name, in, id, want string }{
		{"ours in its place", `{"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"inner"},"b":2}}`, "job_1", `{"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"job_1"},"b":2}}`},
		{"ours beside it", `{"x":1.0}`, "job_1", `{"x":1.0,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"job_1"}}}`},
		{"taken away", `{"_meta":{"a":1,"io.modelcontextprotocol/related-task":{"taskId":"inner"}}}`, "", `{"_meta":{"a":1}}`},
		{"taken away with its place", `{"x":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"inner"}}}`, "", `{"x":1}`},
		{"nothing to take", `{ "x" : 1 }`, "", `{ "x" : 1 }`},
		{"no place", `[1]`, "job_1", `[1]`},
		{"a place that is none", `{"_meta":3}`, "job_1", `{"_meta":3}`},
	} {
		if got := string(withRelatedTask(json.RawMessage(tt.in), tt.id)); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestTasksAreDeclaredAsTheyAreServed(t *testing.T) {
	b := newFakeBroker(t, longSource())
	const theirs = `{"tools":{},"tasks":{"list":{}},"x":1.0}`
	const ours = `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	for _, tt := range []struct {
		name, in string
		form     taskForm
		profile  string
		want     string
	}{
		{"older clients", theirs, noTasks, "lb", `{"tools":{},"x":1.0}`},
		{"a backend with long verbs", theirs, legacyTasks, "lb", `{"tools":{},"x":1.0,` + ours + `}`},
		{"a backend without", theirs, legacyTasks, "fs", `{"tools":{},"x":1.0}`},
		{"all backends", `{"tools":{}}`, legacyTasks, "", `{"tools":{},` + ours + `}`},
		{"the extension", theirs, extensionTasks, "fs", `{"tools":{},"x":1.0,"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"the extension beside others", `{"extensions":{"a/b":{"c":1.0},"io.modelcontextprotocol/tasks":{"d":1}}}`, extensionTasks, "fs", `{"extensions":{"a/b":{"c":1.0},"io.modelcontextprotocol/tasks":{"d":1}}}`},
	} {
		p, _ := b.Catalog().Profile(tt.profile)
		if got := string(withTaskCapability(json.RawMessage(tt.in), tt.form, p)); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// runLong makes a job of the operator's, or of another caller's.
func (f *fakeTasks) runLong(verb string, who broker.Principal) string {
	reply, _ := f.do(actors.Request{Call: &broker.Call{Verb: "lb__" + verb, Backend: "lb", Principal: who},
		Tasks: func(string, json.RawMessage) *broker.RPCError { return nil }})
	return reply.Job.ID
}

func TestListenTellsOfTheCallersTasks(t *testing.T) {
	const head = `{"taskId":"job_1","status":%q,%s"createdAt":"2000-01-01T00:00:00Z","lastUpdatedAt":"2000-01-01T00:00:%sZ","ttlMs":1209600000,"pollIntervalMs":1000,%s` + subMark + `}`
	tasks := `{"taskIds":["job_3","job_2","job_1","job_1"]}`
	inListen(t, nil, func(h *hears) {
		f := &h.broker.tasks
		f.runLong("long_ask", broker.LocalOperator)
		f.runLong("long_ok", broker.Principal{Tenant: "t", User: "other", Role: broker.User})
		h.caps = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		h.listen("lb", tasks)
		asks := `"statusMessage":"waits for an answer of the client",`
		q2 := `"q2":{"method":"elicitation/create","params":{"message":"really?"}}`
		h.expect("the beginning, and how things stand", note("0.00", "subscriptions/acknowledged", `{`+subMark+`,"notifications":{"taskIds":["job_1"]}}`),
			note("0.00", "tasks", fmt.Sprintf(head, "input_required", asks, "00", `"inputRequests":{"q1":{"method":"elicitation/create","params":{"message":"sure?","n":1.0}},`+q2+`},`)))
		elapse(time.Second)
		h.broker.Answer("job_1", "q1", json.RawMessage(`{}`), nil)
		h.expect("one answer", note("1.00", "tasks", fmt.Sprintf(head, "input_required", asks, "00", `"inputRequests":{`+q2+`},`)))
		elapse(10 * time.Second)
		h.broker.Answer("job_1", "q2", json.RawMessage(`{}`), nil)
		h.expect("the end", note("11.00", "tasks", fmt.Sprintf(head, "completed", "", "11", `"result":{"content":[],"answers":[{"q1":{}},{"q2":{}}]},`)))
	})
}

// TestListenRefusesTasksOfAClientThatDeclaresNone: the extension wants the
// error, where other wishes that cannot be met are left out of what is agreed.
func TestListenRefusesTasksOfAClientThatDeclaresNone(t *testing.T) {
	for wish, refused := range map[string]bool{`{"taskIds":["job_1"]}`: true, `{"taskIds":["job_7"],"toolsListChanged":true}`: true, `{"taskIds":[]}`: false} {
		inListen(t, nil, func(h *hears) {
			h.broker.tasks.runLong("long_ok", broker.LocalOperator)
			h.listen("lb", wish)
			if got := strings.Join(h.take(), "\n"); strings.Contains(got, `"code":-32021`) != refused || refused && (h.status != http.StatusBadRequest ||
				!strings.Contains(got, `"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"call_id":`) || strings.Contains(got, "acknowledged")) {
				t.Errorf("%s: %d %s", wish, h.status, got)
			}
		})
	}
}

// TestATasksNotificationIsWhatTasksGetAnswers is what the scenario
// tasks-status-notifications of the official suite describes and does not check
// yet, with what the extension adds: a notification is a whole task, the same
// as tasks/get gives at that moment, it comes for every state, and nothing but
// that is said of a task on its stream.
func TestATasksNotificationIsWhatTasksGetAnswers(t *testing.T) {
	for verb, end := range map[string]string{
		"long_ok": "completed", "long_fail": "completed", "long_rpc": "failed", "long_lost": "failed", "long_hang": "cancelled", "long_ask": "input_required",
	} {
		t.Run(verb, func(t *testing.T) {
			inListen(t, nil, func(h *hears) {
				h.caps = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
				id := h.broker.tasks.runLong(verb, broker.LocalOperator)
				h.listen("lb", `{"taskIds":["`+id+`"]}`)
				lines := h.take()
				if len(lines) != 2 || !strings.Contains(lines[0], `"method":"notifications/subscriptions/acknowledged"`) || !strings.Contains(lines[0], `"taskIds":["`+id+`"]`) {
					t.Fatalf("the beginning: %s", lines)
				}
				h.isTask(lines[1], id)
				if end == "input_required" || end == "cancelled" {
					if end == "cancelled" {
						h.asks("tasks/cancel", id)
						lines = h.take()
					}
				} else {
					elapse(6 * time.Second)
					lines = h.take()
				}
				if len(lines) == 0 || h.isTask(lines[len(lines)-1], id) != end {
					t.Errorf("the end: %s", lines)
				}
				for _, line := range lines {
					if strings.Contains(line, `"method"`) && !strings.Contains(line, `"method":"notifications/tasks"`) && !strings.Contains(line, "acknowledged") {
						t.Errorf("on the stream of a task: %s", line)
					}
				}
			})
		})
	}
}

// isTask compares a notification with what tasks/get answers now, and gives the
// status.
func (h *hears) isTask(line, id string) string {
	h.t.Helper()
	_, text, _ := strings.Cut(line, " ")
	var told struct {
		Method string
		Params map[string]any
	}
	var got struct{ Result map[string]any }
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		h.t.Fatalf("%s: %v", line, err)
	}
	if err := json.Unmarshal([]byte(h.asks("tasks/get", id)), &got); err != nil {
		h.t.Fatal(err)
	}
	if fmt.Sprint(told.Params["_meta"]) != "map[io.modelcontextprotocol/subscriptionId:sub]" {
		h.t.Errorf("_meta is %v", told.Params["_meta"])
	}
	delete(told.Params, "_meta")
	delete(got.Result, "resultType")
	if told.Method != "notifications/tasks" || told.Params["taskId"] != id || !reflect.DeepEqual(told.Params, got.Result) {
		h.t.Errorf("%s of\n%v\nwhere tasks/get answers\n%v", told.Method, told.Params, got.Result)
	}
	status, _ := told.Params["status"].(string)
	return status
}

// asks sends a request about a task.
func (h *hears) asks(method, id string) string {
	h.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q,"_meta":{%q:"2026-07-28",%q:%s}}}`, method, id, metaVersion, metaCapabilities, h.caps)
	req, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:7420/mcp/lb", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + testToken, headerVersion: "2026-07-28", headerMethod: method, headerName: id} {
		req.Header.Set(name, value)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(answer)
}
