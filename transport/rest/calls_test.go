package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/rest"
)

func TestCallGivesTheBackendsAnswerUnchanged(t *testing.T) {
	f := newFake(t)
	arguments := `{"path":"a<b>","n":12345678901234567890,"z":1.10,"a":null}`
	status, body := ask(t, f.handler(nil), "POST", "/api/v1/calls", `{"name":"files__read","ARGUMENTS":`+arguments+`,"expectedRuntimeId":"life-1","Unknown":1}`)
	var answer rest.CallAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
		t.Fatalf("status %d, %v in %s", status, err, body)
	}
	if string(answer.Result) != okResult || answer.RuntimeID == nil || *answer.RuntimeID != "life-1" {
		t.Errorf("answer %s", body)
	}
	if answer.Timing == nil || *answer.Timing.QueueMS != 5 || *answer.Timing.RunMS != 15 {
		t.Errorf("timing %+v", answer.Timing)
	}
	if len(f.requests) != 1 {
		t.Fatalf("%d requests", len(f.requests))
	}
	r := f.requests[0]
	if want := `{"name":"read","arguments":` + arguments + `}`; string(r.Call.Params) != want {
		t.Errorf("params %s, want %s", r.Call.Params, want)
	}
	if r.Call.Principal != broker.LocalOperator || r.Call.Method != "tools/call" || r.Call.Verb != "files__read" || r.Call.Backend != "files" ||
		r.Call.Effects != broker.Read || r.Call.Seats != 1 || r.Call.ID == "" || r.Call.Session != "" || r.Call.ExpectedRuntimeID != "life-1" {
		t.Errorf("call %+v", r.Call)
	}
	if r.PromoteAfter != 45*time.Second || r.Long || r.IdempotencyKey != "" {
		t.Errorf("request %+v", r)
	}
}

func TestCallSettlesWhenItBecomesAJob(t *testing.T) {
	for _, tc := range []struct {
		name, body   string
		promoteAfter time.Duration
		long         bool
		lane         broker.Lane
		key          string
	}{
		{"default", `{"Name":"files__read","Arguments":{"path":"p"}}`, 45 * time.Second, false, broker.LaneCalls, ""},
		{"caller's own", `{"Name":"files__read","Arguments":{"path":"p"},"PromoteAfterSeconds":1.5}`, 1500 * time.Millisecond, false, broker.LaneCalls, ""},
		{"caller waits for ever", `{"Name":"files__read","Arguments":{"path":"p"},"PromoteAfterSeconds":-1}`, 0, false, broker.LaneCalls, ""},
		{"verb that is never promoted but long", `{"Name":"files__build"}`, 0, true, broker.LaneJobs, ""},
		{"caller before verb", `{"Name":"files__build","PromoteAfterSeconds":2}`, 2 * time.Second, true, broker.LaneJobs, ""},
		{"idempotency key", `{"Name":"files__read","Arguments":{"path":"p"},"IdempotencyKey":"k"}`, 45 * time.Second, true, broker.LaneJobs, "k"},
		{"null arguments in an exact profile", `{"Name":"build","Profile":"files","Arguments":null}`, 0, true, broker.LaneJobs, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			if status, body := ask(t, f.handler(nil), "POST", "/api/v1/calls", tc.body); status != 200 || len(f.requests) != 1 {
				t.Fatalf("status %d, %d requests, body %s", status, len(f.requests), body)
			}
			r := f.requests[0]
			if r.PromoteAfter != tc.promoteAfter || r.Long != tc.long || r.Call.Lane != tc.lane || r.IdempotencyKey != tc.key || (tc.key != "") != (r.Digest != "") {
				t.Errorf("%+v lane %d", r, r.Call.Lane)
			}
			if !strings.Contains(string(r.Call.Params), `"arguments":{`) {
				t.Errorf("params %s", r.Call.Params)
			}
		})
	}
}

func TestCallsThatNeverReachTheBroker(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		status     int
		code       string // of the error body, or of the refusal when status is 200
	}{
		{"no name", `{}`, 400, "invalid_arguments"},
		{"no body", ``, 400, "invalid_arguments"},
		{"arguments that are a list", `{"Name":"files__read","Arguments":[1]}`, 400, "invalid_arguments"},
		{"arguments that are text", `{"Name":"files__read","Arguments":"{}"}`, 400, "invalid_arguments"},
		{"promotion after more than a day", `{"Name":"files__read","PromoteAfterSeconds":86401}`, 400, "invalid_arguments"},
		{"promotion after a word", `{"Name":"files__read","PromoteAfterSeconds":"soon"}`, 400, "invalid_arguments"},
		{"unknown profile", `{"Name":"read","Profile":"nobody"}`, 200, "profile_unknown"},
		{"unknown verb", `{"Name":"files__raed"}`, 200, "verb_unknown"},
		{"another profile's name", `{"Name":"files__read","Profile":"files"}`, 200, "verb_unknown"},
		{"arguments that do not fit the schema", `{"Name":"files__read","Arguments":{}}`, 200, "invalid_argument"},
		{"key that is too long", `{"Name":"files__build","IdempotencyKey":"` + strings.Repeat("k", 129) + `"}`, 200, "invalid_idempotency_key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			status, body := ask(t, f.handler(nil), "POST", "/api/v1/calls", tc.body)
			got := object(t, body)
			if status == 200 {
				refusal, _ := got["Refusal"].(map[string]any)
				if refusal == nil {
					t.Fatalf("body %s", body)
				}
				got["Code"] = refusal["code"]
			}
			if status != tc.status || got["Code"] != tc.code {
				t.Errorf("status %d, body %s", status, body)
			}
			if len(f.requests) != 0 {
				t.Error("the broker was asked")
			}
		})
	}
}

func TestCallTellsEveryKindOfReplyApart(t *testing.T) {
	failed := job("job_1", broker.JobAccepted, 0)
	for _, tc := range []struct {
		name  string
		reply actors.Reply
		want  string
	}{
		{"the backend's error", actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -32000, Message: "no", Data: json.RawMessage(`{"d":1}`)}}},
			`{"Error":{"code":-32000,"message":"no","data":{"d":1}},"RuntimeId":null,"Timing":null}`},
		{"the backend's error as it came", actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -32000, Message: "no", Raw: json.RawMessage(`{"z":1.0,"code":-32000,"message":"<no>","own":{}}`)}}},
			`{"Error":{"z":1.0,"code":-32000,"message":"<no>","own":{}},"RuntimeId":null,"Timing":null}`},
		{"a refusal", actors.Reply{Refusal: broker.Refuse(broker.CodeOverloaded, "Full.", nil).Retry(time.Second)},
			`{"Refusal":{"code":"overloaded","message":"Full.","retryable":true,"retry_after_ms":1000},"RuntimeId":null,"Timing":null}`},
		{"a job", actors.Reply{Job: &failed}, `{"Job":` + string(failed.Handle(false)) + `,"RuntimeId":null,"Timing":null}`},
		{"an answer with a job beside it", actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"x":1.0}`), RuntimeID: "r"}, Tracked: &failed},
			`{"Result":{"x":1.0},"Tracked":` + string(failed.Handle(false)) + `,"RuntimeId":"r","Timing":null}`},
		{"an answer that no job could be written for", actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"x":1.0}`), RuntimeID: "r"}, Untracked: true},
			`{"Result":{"x":1.0},"Untracked":true,"RuntimeId":"r","Timing":null}`},
		{"a replayed job", actors.Reply{Job: &failed, Replayed: true}, `{"Job":` + string(failed.Handle(true)) + `,"RuntimeId":null,"Timing":null}`},
		{"cancelled", actors.Reply{Cancelled: true}, `{"Refusal":{"code":"cancelled","message":"The call was cancelled.","retryable":false},"RuntimeId":null,"Timing":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			f.do = func(context.Context, actors.Request) actors.Reply { return tc.reply }
			status, body := ask(t, f.handler(nil), "POST", "/api/v1/calls", `{"Name":"files__build"}`)
			if status != 200 || strings.TrimSpace(body) != tc.want {
				t.Errorf("status %d\n got %s\nwant %s", status, body, tc.want)
			}
		})
	}
}

func TestAWaitingCallIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		answered := f.do
		f.do = func(ctx context.Context, r actors.Request) actors.Reply {
			<-time.After(35 * time.Second)
			return answered(ctx, r)
		}
		r := httptest.NewRequest("POST", "http://localhost/api/v1/calls", strings.NewReader(`{"Name":"files__build"}`))
		r.Header.Set("Authorization", "Bearer t0")
		w := httptest.NewRecorder()
		f.handler(nil).ServeHTTP(w, r)
		if body := w.Body.String(); !w.Flushed || !strings.HasPrefix(body, "\n\n\n{") || object(t, body)["Result"] == nil {
			t.Errorf("flushed %v, body %q", w.Flushed, body)
		}
		if w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", w.Header())
		}
	})
}

// A socket is needed here: only net/http ends a request's context with its
// connection.
func TestACallLearnsThatItsCallerLeft(t *testing.T) {
	f := newFake(t)
	running, dropped := make(chan struct{}), make(chan struct{})
	f.do = func(ctx context.Context, _ actors.Request) actors.Reply {
		close(running)
		<-ctx.Done()
		close(dropped)
		return actors.Reply{Cancelled: true}
	}
	srv := httptest.NewServer(f.handler(nil))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	client := rest.NewClient(srv.URL, "t0")
	defer client.Close()
	go func() {
		<-running
		cancel()
	}()
	if _, err := client.Post(ctx, "/api/v1/calls", rest.CallRequest{Name: "files__build"}); err == nil {
		t.Error("a call that was left was answered")
	}
	<-dropped
}

func TestAPanicInACallThatWaitedCutsTheConnection(t *testing.T) {
	f := newFake(t)
	first := make(chan struct{})
	f.do = func(context.Context, actors.Request) actors.Reply {
		<-first
		panic("inside")
	}
	srv := httptest.NewServer(f.handler(nil, func(o *rest.Options) { o.KeepAlive = time.Millisecond }))
	defer srv.Close()
	req, err := http.NewRequest("POST", srv.URL+"/api/v1/calls", strings.NewReader(`{"Name":"files__build"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t0")
	resp, err := srv.Client().Do(req) // returns with the first white space
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(first)
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("half an answer arrived as a whole one: %q", body)
	}
}

func TestANameNotKnownYetWaitsForItsBackend(t *testing.T) {
	f := newFake(t)
	f.awaited = f.snapshot
	f.snapshot, _ = filesCatalog(t, false)
	if _, body := ask(t, f.handler(nil), "POST", "/api/v1/calls", `{"Name":"files__build"}`); object(t, body)["Result"] == nil {
		t.Errorf("body %s", body)
	}
}

func TestAnUnknownNameOfABackendThatHasNotListedIsPending(t *testing.T) {
	f := newFake(t)
	f.snapshot, _ = filesCatalog(t, false)
	h := f.handler(nil, func(o *rest.Options) { o.CatalogWait = 1 })
	for name, want := range map[string]string{"files__read": "catalog_pending", "nobody__read": "verb_unknown"} {
		_, body := ask(t, h, "POST", "/api/v1/calls", `{"Name":"`+name+`"}`)
		refusal, _ := object(t, body)["Refusal"].(map[string]any)
		if refusal["code"] != want {
			t.Errorf("%s: %s, want %s", name, body, want)
		}
	}
}
