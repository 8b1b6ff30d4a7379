package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"berth/actors"
	"berth/broker"
	"berth/transport/rest"
)

// described is the API's own description of itself.
func described(t *testing.T, h http.Handler) *openapi3.T {
	t.Helper()
	_, text := ask(t, h, "GET", "/api/v1/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// conforms compares an answer with what the document says of its route.
func conforms(t *testing.T, doc *openapi3.T, method, path string, status int, header http.Header, body string) {
	t.Helper()
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("the document does not have %s %s", method, path)
	}
	r := httptest.NewRequest(method, concrete(path), nil)
	input := &openapi3filter.ResponseValidationInput{Status: status, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r,
			Route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)}}}
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s %s answers with status %d against its description: %v\n%s", method, path, status, err, body)
	}
}

func init() {
	for _, media := range []string{"application/x-ndjson", "application/zip", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
}

// request is one request of a test, with or without the token.
func request(t *testing.T, h http.Handler, method, path, body, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEveryRouteAnswersAndRefusesAsTheDocumentSays(t *testing.T) {
	life, tools, until := "life-1", 3, at
	full := func(f *fake) {
		f.jobs = []broker.Job{job("job_1", broker.JobRunning, 0), job("job_2", broker.JobLost, time.Hour), job("job_3", broker.JobSucceeded, time.Hour)}
		f.views = []actors.BackendView{{Name: "a", State: actors.StateReady, Since: at, RuntimeID: &life, Tools: &tools, PID: 7, EnvNames: []string{"K"}, BackoffUntil: &until, LastError: "e"}, {Name: "b"}}
		f.sess = []actors.SessionView{{}, {SessionInfo: actors.SessionInfo{Key: "s", ClientName: "c", Capabilities: json.RawMessage(`{"x":1}`), Started: at}, LastSeen: at}}
	}
	for name, fill := range map[string]func(*fake){"empty": func(f *fake) { f.jobs = []broker.Job{job("job_1", broker.JobAccepted, 0)} }, "full": full} {
		for _, route := range rest.Routes() {
			if route.Path == "/api/v1/authenticate" || strings.HasPrefix(route.Path, "/api/v1/credentials") {
				continue // they need more than a token: the next test
			}
			t.Run(name+" "+route.Method+" "+route.Path, func(t *testing.T) {
				f := newFake(t)
				fill(f)
				f.twins(t)
				h := f.handler(nil)
				doc := described(t, h)
				w := request(t, h, route.Method, concrete(route.Path), bodyOf(route.Path), "t0")
				if w.Code != good(route) {
					t.Fatalf("status %d, body %s", w.Code, w.Body)
				}
				conforms(t, doc, route.Method, route.Path, w.Code, w.Header(), w.Body.String())
				if route.Scope == rest.Everyone {
					return
				}
				for _, token := range []string{"", "a-user"} {
					w := request(t, h, route.Method, concrete(route.Path), "", token)
					if w.Code != 401 && w.Code != 403 {
						t.Errorf("the token %q is answered with status %d", token, w.Code)
					}
					conforms(t, doc, route.Method, route.Path, w.Code, w.Header(), w.Body.String())
				}
			})
		}
	}
}

// bodyOf is a body that a route takes.
func bodyOf(path string) string {
	switch path {
	case "/api/v1/board":
		return `{"Content":"c","AuthorName":"a"}`
	case "/api/v1/hold":
		return `{"Action":"engage","Reason":"r","SetBy":"ops-1"}`
	case "/api/v1/restore":
		return `{"FilePath":"/b.zip"}`
	}
	return `{"Name":"files__read","Arguments":{"path":"p"},"Reason":"r"}`
}

// twins has the verbs behind routes answer what they answer.
func (f *fake) twins(t *testing.T) {
	t.Helper()
	before := f.do
	f.withTwins(t)
	answers := f.do
	f.do = func(ctx context.Context, r actors.Request) actors.Reply {
		verb := r.Call.Verb
		if verb == "dispatch" {
			return answers(ctx, r)
		}
		if verb == "enumerate" {
			var params struct{ Arguments struct{ EntityType string } }
			if err := json.Unmarshal(r.Call.Params, &params); err != nil {
				t.Error(err)
			}
			verb += " " + params.Arguments.EntityType
		}
		answer, twin := twinAnswers[verb]
		if !twin {
			return before(ctx, r)
		}
		return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"content":[],"structuredContent":` + answer + `}`)}}
	}
}

func TestCredentialsAreAsTheDocumentSays(t *testing.T) {
	x := newTeam(t)
	doc := described(t, x.handler)
	id, _ := x.make(`{"Tenant":"t","User":"ana","Role":"user","Label":"l","Shares":{"*":{"Weight":2}}}`)
	for _, tc := range []struct {
		method, route, path, body string
		status                    int
	}{
		{"POST", "/api/v1/credentials", "/api/v1/credentials", `{"Tenant":"t","User":"bob","Role":"user"}`, 200},
		{"POST", "/api/v1/credentials", "/api/v1/credentials", `{`, 400},
		{"GET", "/api/v1/credentials", "/api/v1/credentials", "", 200},
		{"POST", "/api/v1/credentials/{id}/revoke", "/api/v1/credentials/" + id + "/revoke", `{"Reason":"r"}`, 200},
		{"POST", "/api/v1/credentials/{id}/revoke", "/api/v1/credentials/crd_none/revoke", `{"Reason":"r"}`, 404},
	} {
		w := request(t, x.handler, tc.method, tc.path, tc.body, "t0")
		if w.Code != tc.status {
			t.Errorf("%s %s: status %d, body %s", tc.method, tc.path, w.Code, w.Body)
		}
		conforms(t, doc, tc.method, tc.route, w.Code, w.Header(), w.Body.String())
	}
	_, token := x.make(`{"Tenant":"t","User":"eve","Role":"user"}`)
	for token, want := range map[string]int{token: 200, "wrong": 401} {
		w := request(t, x.handler, "POST", "/api/v1/authenticate", "", token)
		if w.Code != want {
			t.Errorf("status %d, body %s", w.Code, w.Body)
		}
		conforms(t, doc, "POST", "/api/v1/authenticate", w.Code, w.Header(), w.Body.String())
	}
}

func TestRefusalsOfRoutesAreAsTheDocumentSays(t *testing.T) {
	j, over := journalled(t)
	happen(t, j, broker.Event{EventType: "note", Payload: json.RawMessage(`[1]`)})
	f := newFake(t)
	f.jobs = []broker.Job{job("job_2", broker.JobSucceeded, time.Hour)}
	h := f.handler(nil, over, func(o *rest.Options) { o.Metrics = nil })
	doc := described(t, h)
	for _, tc := range []struct {
		method, route, path, body string
		status                    int
	}{
		{"GET", "/metrics", "/metrics", "", 404},
		{"GET", "/api/v1/tools", "/api/v1/tools?profile=nobody", "", 404},
		{"GET", "/api/v1/profiles/{name}", "/api/v1/profiles/nobody", "", 404},
		{"GET", "/api/v1/jobs", "/api/v1/jobs?status=Done", "", 400},
		{"GET", "/api/v1/jobs/{id}", "/api/v1/jobs/job_9", "", 404},
		{"POST", "/api/v1/jobs/{id}/cancel", "/api/v1/jobs/job_2/cancel", `{"Reason":"r"}`, 409},
		{"POST", "/api/v1/jobs/{id}/cancel", "/api/v1/jobs/job_2/cancel", `{`, 400},
		{"POST", "/api/v1/calls", "/api/v1/calls", `{}`, 400},
		{"POST", "/api/v1/calls", "/api/v1/calls", `{"Name":"nobody"}`, 200}, // with the refusal of policy
		{"GET", "/api/v1/events", "/api/v1/events?order=Newest", "", 400},
		{"GET", "/api/v1/events", "/api/v1/events", "", 200},
		{"DELETE", "/api/v1/events/{id}", "/api/v1/events/evt_1", "", 404},
		{"GET", "/api/v1/events/stream", "/api/v1/events/stream?cursor=x", "", 400},
		{"POST", "/api/v1/token/rotate", "/api/v1/token/rotate", strings.Repeat("x", 65<<10), 413},
	} {
		w := request(t, h, tc.method, tc.path, tc.body, "t0")
		if w.Code != tc.status {
			t.Errorf("%s %s: status %d, body %s", tc.method, tc.path, w.Code, w.Body)
		}
		conforms(t, doc, tc.method, tc.route, w.Code, w.Header(), w.Body.String())
	}
}
