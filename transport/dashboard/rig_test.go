package dashboard_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/actors"
	"berth/broker"
	"berth/broker/credential"
	"berth/broker/drain"
	"berth/transport/dashboard"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tokens of the rig, by who holds them.
var tokens = map[string]broker.Principal{
	"operator-token": broker.LocalOperator,
	"tenant-token":   {Tenant: "acme", User: "boss", Role: broker.TenantAdministrator},
	"user-token":     {Tenant: "acme", User: "ann", Role: broker.User},
}

// rig is a dashboard over an operator API whose answers a test writes down. The
// API stands behind the guard and refuses whom the real one refuses.
type rig struct {
	t       *testing.T
	guard   *httpguard.Guard
	handler http.Handler
	pages   *dashboard.Dashboard
	sampler *dashboard.Sampler

	mu      sync.Mutex
	now     time.Time
	answers map[string]any            // by path
	refuse  map[string]broker.Code    // by "METHOD path": a refusal in its place
	changes []change                  // in their order
	on      map[string]func(b []byte) // what else a change does, by path
	asked   func(*http.Request)       // of each question, before its answer
	jobs    []broker.Job              // newest first
	views   []actors.BackendView
	begun   int // attempts to log in
	limit   int
}

type change struct{ path, by, body string }

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// open are the routes of the API that callers of the board may use, too.
var forCallers = map[string]bool{"/api/v1/board": true}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch, answers: map[string]any{}, refuse: map[string]broker.Code{}, on: map[string]func([]byte){}, limit: 100}
	sessions, err := credential.NewSessions([]byte("0123456789abcdef0123456789abcdef"), strings.NewReader(strings.Repeat("some randomness ", 10_000)))
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func(kind httpguard.Kind, value string) (broker.Caller, bool) {
		if kind == httpguard.SessionToken {
			var ok bool
			if value, ok = sessions.Open(value, r.clock()); !ok {
				return broker.Caller{}, false
			}
		}
		p, ok := tokens[value]
		return broker.Caller{Principal: p}, ok
	}
	r.guard = httpguard.New(httpguard.Options{Authenticate: authenticate, Login: httpguard.Login{
		Paths: append([]string{"/api/v1"}, dashboard.Paths...), CSRF: sessions.CSRF,
		Issue: func(token string) (httpguard.Session, bool) {
			if _, ok := tokens[token]; !ok {
				return httpguard.Session{}, false
			}
			s, until, err := sessions.Issue(token, r.clock())
			return httpguard.Session{Token: s, Expires: until}, err == nil
		},
		End: func(s string) { sessions.End(s, r.clock()) },
		Begin: func(netip.Addr) (func(), *broker.Refusal) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.begun++; r.begun > r.limit {
				return nil, broker.Refuse(broker.CodeOverloaded, "Too many attempts; try again later.", nil).Retry(time.Minute)
			}
			return func() {}, nil
		},
		Refused: func(w http.ResponseWriter, q *http.Request, status int, refusal *broker.Refusal) bool {
			return r.pages.Refused(w, q, status, refusal)
		},
	}})
	api := r.guard.Wrap(http.HandlerFunc(r.api))
	routes := rest.Routes()
	routes = append(routes, rest.Route{Method: "GET", Path: "/api/v1/events"}, rest.Route{Method: "GET", Path: "/api/v1/board"}, rest.Route{Method: "POST", Path: "/api/v1/board"},
		rest.Route{Method: "GET", Path: "/api/v1/hold"}, rest.Route{Method: "POST", Path: "/api/v1/hold"})
	r.sampler = dashboard.NewSampler(r, r, r.clock, nil)
	r.pages, err = dashboard.New(dashboard.Options{Guard: r.guard, API: api, Routes: routes, Jobs: r, Sampler: r.sampler, Now: r.clock, Every: time.Second,
		Start: dashboard.Start{Version: "v1", RuntimeID: "life-1", At: epoch.Add(-time.Hour), Pruned: func() int64 { return 0 }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pages.Close)
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if dashboard.Owns(q.URL.Path) {
			r.pages.ServeHTTP(w, q)
			return
		}
		api.ServeHTTP(w, q)
	})
	r.fill()
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// api answers what the test wrote down.
func (r *rig) api(w http.ResponseWriter, q *http.Request) {
	caller, _ := httpguard.Caller(q.Context())
	if caller.Role != broker.GlobalAdministrator && !forCallers[q.URL.Path] {
		httpguard.Refuse(w, q, http.StatusForbidden, broker.Refuse(broker.CodeGlobalAdministrator, "The operator API is for global administrators.", nil))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if code, ok := r.refuse[q.Method+" "+q.URL.Path]; ok {
		var detail map[string]any
		if code == broker.CodeInvalidArguments {
			detail = map[string]any{"Violations": []any{map[string]any{"Path": "/<i>content", "Problem": "maxLength: wanted at most 65536 characters"}}}
		}
		httpguard.WriteError(w, http.StatusConflict, "", broker.Refuse(code, "The broker says no.", detail))
		return
	}
	if q.Method != http.MethodGet {
		body, _ := json.Marshal(decoded(q))
		r.changes = append(r.changes, change{q.URL.Path, caller.Key(), string(body)})
		if then := r.on[q.URL.Path]; then != nil {
			then(body)
		}
		httpguard.WriteJSON(w, http.StatusOK, map[string]bool{"Success": true})
		return
	}
	if r.asked != nil {
		r.asked(q)
	}
	v, ok := r.answers[q.URL.Path]
	if !ok {
		httpguard.Refuse(w, q, http.StatusNotFound, broker.Refuse(broker.CodeNotFound, "There is no such route.", nil))
		return
	}
	httpguard.WriteJSON(w, http.StatusOK, v)
}

func decoded(q *http.Request) (v any) {
	if json.NewDecoder(q.Body).Decode(&v) != nil {
		return nil
	}
	return v
}

func (r *rig) Jobs(f broker.JobFilter) (broker.JobPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var page broker.JobPage
	for _, j := range r.jobs {
		if !f.Match(j) {
			continue
		}
		if page.Total++; page.Total > f.Offset && len(page.Jobs) < f.Limit {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

func (r *rig) JobWithoutResult(id string) (broker.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return broker.Job{}, fmt.Errorf("read %s: %w", id, broker.ErrJobNotFound)
}

func (r *rig) Backends(context.Context) []actors.BackendView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views
}

func (r *rig) CountJobs() (map[broker.JobStatus]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[broker.JobStatus]int{}
	for _, j := range r.jobs {
		out[j.Status]++
	}
	return out, nil
}

func ptr[T any](v T) *T { return &v }

func job(id string, status broker.JobStatus, change ...func(*broker.Job)) broker.Job {
	j := broker.Job{ID: id, Operation: "files__build", Status: status, SubmittedAt: epoch.Add(-10 * time.Minute), Tenant: "acme", User: "ann", Backend: "files"}
	if status != broker.JobAccepted {
		j.StartedAt = ptr(epoch.Add(-9 * time.Minute))
	}
	if status.Final() {
		j.CompletedAt = ptr(epoch.Add(-5 * time.Minute))
	}
	if status == broker.JobFailed || status == broker.JobLost {
		j.Reason, j.FailureMessage = broker.CodeOperationFailed, "The disk is full."
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// fill writes down a small broker.
func (r *rig) fill() {
	r.jobs = []broker.Job{job("job_run", broker.JobRunning), job("job_ok", broker.JobSucceeded, func(j *broker.Job) { j.ResultBytes = 2048 }),
		job("job_bad", broker.JobFailed, func(j *broker.Job) { j.Refusal = json.RawMessage(`{"Code":"operation_failed"}`) })}
	r.answers["/api/v1/status"] = rest.Status{Version: "v1", RuntimeID: "life-1", StartedUTC: broker.FormatTime(epoch.Add(-time.Hour)), UptimeSeconds: 3600,
		Counts: rest.Counts{Sessions: 1, InFlight: 2, Queued: 1, Jobs: ptr(3), UnfinishedJobs: ptr(1)}}
	r.answers["/api/v1/backends"] = rest.Page[rest.Backend]{Success: true, Objects: []rest.Backend{
		{Name: "files", Kind: "stdio", State: actors.StateReady, SinceUTC: ptr(broker.FormatTime(epoch.Add(-time.Hour))), RuntimeID: ptr("5d9f6c1e-0000-4000-8000-2a61f0a6b1aa"), PID: ptr(4711), Incarnations: 2, Tools: ptr(12), InFlight: 2, Seats: 8, QueuedCalls: 1, Answered: 1234, OldestWaitMS: 1500},
		{Name: "remote", Kind: "http", State: actors.StateBackoff, LastError: ptr("connection refused"), BackoffUntilUTC: ptr(broker.FormatTime(epoch.Add(8 * time.Second))), Seats: 16, Failed: 7,
			Draining: &drain.View{Reason: ptr("node upgrade"), By: "default/operator", SinceUTC: broker.FormatTime(epoch.Add(-time.Minute))}}}}
	r.answers["/api/v1/sessions"] = rest.Page[rest.Session]{Success: true, Objects: []rest.Session{{Key: "s1", Tenant: "acme", User: "ann", Role: broker.User, ClientName: ptr("claude-code"),
		ClientVersion: ptr("2.1"), ProtocolVersion: ptr("2025-11-25"), StartedUTC: ptr(broker.FormatTime(epoch.Add(-time.Minute))), LastSeenUTC: ptr(broker.FormatTime(epoch)), InFlight: 2, Calls: 40}}}
	r.answers["/api/v1/jobs"] = rest.JobPage{}
	r.answers["/api/v1/hold"] = map[string]any{"Active": false, "Hold": nil, "UnfinishedJobs": []any{map[string]any{"JobId": "job_run", "Operation": "files__build", "Status": "Running", "SubmittedAtUtc": broker.FormatTime(epoch)}}}
	r.answers["/api/v1/events"] = map[string]any{"TotalRecords": 1, "TotalPages": 1, "Objects": []any{map[string]any{"Id": "evt_1", "EventType": "job.failed", "EntityType": "job", "EntityId": "job_bad",
		"TenantId": "acme", "Message": "job_bad: The disk is full.", "Payload": map[string]any{"a": 1}, "CreatedUtc": broker.FormatTime(epoch)}}}
	r.answers["/api/v1/board"] = map[string]any{"RoomKey": "fleet", "Messages": []any{map[string]any{"Id": "bnt_1", "AuthorType": "Operator", "AuthorName": "lane-b", "Content": "the vessel is free",
		"ContentLength": 18, "ToParticipantKey": "lane-a", "CreatedUtc": broker.FormatTime(epoch)}}, "ActiveParticipants": []any{map[string]any{"ParticipantKey": "lane-b", "DisplayName": "Lane B"}}}
	r.answers["/api/v1/catalog"] = rest.CatalogPage{Tier: "essential", Profiles: []string{"essential"}, Page: rest.Page[rest.Record]{Objects: []rest.Record{
		{Name: "files__read", Backend: "files", Summary: "Reads a file.", Effects: []string{"READ"}, Availability: "ready", Tokens: ptr(120)},
		{Name: "files__build", Backend: "files", Summary: "Builds.", Effects: []string{"EXEC"}, Availability: "ready", Tokens: ptr(300)}}},
		Quarantined: []rest.Quarantined{{Backend: "files", Verb: "odd", Code: "verb_changed", Reason: "its schema is no schema"}}}
	r.answers["/api/v1/profiles/essential"] = rest.ProfileView{Profile: "essential", Tools: 2, Tokens: ptr(420), MaxTokens: ptr(8000), Callable: 2}
	r.fleet()
	r.answers["/api/v1/credentials"] = rest.Page[rest.Credential]{Objects: []rest.Credential{{CredentialID: "crd_1", Tenant: "acme", User: "ann", Role: broker.User, Label: ptr("laptop"), CreatedUTC: broker.FormatTime(epoch), CreatedBy: "default/operator"}}}
	r.views = []actors.BackendView{{Name: "files", State: actors.StateReady, Seats: 8, InFlight: 2, QueuedCalls: 1, OldestWait: 1500 * time.Millisecond}, {Name: "remote", State: actors.StateBackoff, Seats: 16}}
}

// serve puts the rig on a socket.
func (r *rig) serve() string {
	r.t.Helper()
	s := httptest.NewServer(r.handler)
	r.t.Cleanup(func() {
		r.pages.Close() // else the server would wait for pages that are kept live
		s.Close()
	})
	return s.URL
}

// hour samples an hour, with a gap of ten minutes in it.
func (r *rig) hour() {
	for n := range 360 {
		r.mu.Lock()
		r.now = epoch.Add(-time.Hour + time.Duration(n+1)*dashboard.SlotLength)
		r.views[0].InFlight, r.views[0].QueuedCalls, r.views[0].OldestWait = n/20%7, n/31%4, time.Duration(n%90)*40*time.Millisecond
		r.mu.Unlock()
		if n < 200 || n > 260 {
			r.sampler.Sample(context.Background())
		}
	}
	r.sampler.Count()
}

// browser is a client with the cookies of one who logged in.
type browser struct {
	r      *rig
	cookie *http.Cookie
	csrf   string
}

func (r *rig) login(token string) *browser {
	r.t.Helper()
	w := (&browser{r: r}).send("POST", "/login", url.Values{"token": {token}, "next": {"/jobs"}})
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		r.t.Fatalf("login: status %d, %s", w.Code, w.Body)
	}
	b := &browser{r: r, cookie: w.Result().Cookies()[0]}
	b.csrf = r.csrf(b)
	return b
}

// csrf reads the token out of a page.
func (r *rig) csrf(b *browser) string {
	for _, n := range all(parse(r.t, b.send("GET", "/board", nil).Body.String()), "input") {
		if attr(n, "name") == "csrf" {
			return attr(n, "value")
		}
	}
	r.t.Fatal("no page has a CSRF token")
	return ""
}

// send asks as a browser does for a page of its own; a form is a change.
func (b *browser) send(method, path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	body := strings.NewReader(form.Encode())
	q := httptest.NewRequest(method, "http://127.0.0.1:7420"+path, body)
	q.Header.Set("Accept", "text/html,application/xhtml+xml")
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Origin", "http://127.0.0.1:7420")
	}
	q.Header.Set("Sec-Fetch-Site", "same-origin")
	if b.cookie != nil {
		q.AddCookie(b.cookie)
	}
	for _, c := range change {
		c(q)
	}
	w := httptest.NewRecorder()
	b.r.handler.ServeHTTP(w, q)
	return w
}

// post sends a form with the token of the session.
func (b *browser) post(path string, form url.Values) *httptest.ResponseRecorder {
	form.Set("csrf", b.csrf)
	return b.send("POST", path, form)
}

// element is a piece of a page: with a name, or text without one.
type element struct {
	name, text string
	attrs      map[string]string
	children   []*element
}

// parse reads a page as strictly as XML is read, but for elements and
// attributes that HTML writes without their ends.
func parse(t *testing.T, page string) *element {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(page))
	dec.Strict, dec.AutoClose, dec.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	open := []*element{{}}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return open[0]
		}
		if err != nil {
			t.Fatalf("the page cannot be parsed: %v\n%s", err, page)
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			n := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.children = append(top.children, &element{text: string(token)})
		}
	}
}

func walk(n *element, visit func(*element)) {
	visit(n)
	for _, c := range n.children {
		walk(c, visit)
	}
}

// all are the elements of a name, in their order.
func all(n *element, name string) (out []*element) {
	walk(n, func(n *element) {
		if n.name == name {
			out = append(out, n)
		}
	})
	return out
}

func attr(n *element, name string) string { return n.attrs[name] }

// text is all text below a node.
func text(n *element) string {
	var b strings.Builder
	walk(n, func(n *element) { b.WriteString(n.text) })
	return b.String()
}
