package rest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/actors"
	"berth/transport/rest"
)

// concrete fills the wildcards of a route's path.
func concrete(path string) string {
	return strings.NewReplacer("{id}", "job_1", "{name}", "files").Replace(path)
}

func TestEveryRouteAsksForTheTokenFirst(t *testing.T) {
	open := map[string]bool{"/healthz": true, "/api/v1/authenticate": true} // contracts/native.md section 1.1
	for _, route := range rest.Routes() {
		for _, credential := range []string{"", "Bearer wrong", "Basic t0"} {
			t.Run(route.Method+" "+route.Path+" "+credential, func(t *testing.T) {
				f := newFake(t)
				r := httptest.NewRequest(route.Method, "http://evil.example"+concrete(route.Path), strings.NewReader(`{"Name":"files__read","Reason":"r"}`))
				if credential != "" {
					r.Header.Set("Authorization", credential)
				}
				w := httptest.NewRecorder()
				f.handler(nil).ServeHTTP(w, r)
				if route.Path == "/api/v1/authenticate" { // its body is the credential; Host and Origin count
					if w.Code != 403 || object(t, w.Body.String())["Code"] != "origin_forbidden" {
						t.Fatalf("status %d, body %q", w.Code, w.Body)
					}
					return
				}
				if open[route.Path] {
					if w.Code != 200 || w.Body.String() != "ok" {
						t.Fatalf("status %d, body %q", w.Code, w.Body)
					}
					return
				}
				if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
					t.Fatalf("status %d, WWW-Authenticate %q", w.Code, w.Header().Get("WWW-Authenticate"))
				}
				if body := object(t, w.Body.String()); body["Error"] != "Unauthorized" || body["Code"] != "unauthorized" {
					t.Errorf("body %v", body)
				}
				if len(f.requests) != 0 || f.rotated != 0 {
					t.Error("the broker was touched")
				}
			})
		}
		if (route.Scope == rest.Everyone) != open[route.Path] {
			t.Errorf("%s: open is %v", route.Path, route.Scope)
		}
		if route.Summary == "" {
			t.Errorf("%s has no summary", route.Path)
		}
	}
}

func TestPathsThatAreNoRouteAskForTheTokenToo(t *testing.T) {
	for _, path := range []string{"/", "/nowhere", "/healthz/", "/healthz/../api/v1/status", "//healthz", "/HEALTHZ", "/api/v1/jobs/"} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		newFake(t).handler(nil).ServeHTTP(w, r)
		if w.Code != 401 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}

func TestEveryRouteAnswersTheTokenHolder(t *testing.T) {
	for _, route := range rest.Routes() {
		if route.Path == "/api/v1/authenticate" || strings.HasPrefix(route.Path, "/api/v1/credentials") {
			continue // credentials_test.go: they need more than a token
		}
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			f := newFake(t)
			f.jobs = append(f.jobs, job("job_1", "Running", 0))
			f.withTwins(t)
			status, body := ask(t, f.handler(nil), route.Method, concrete(route.Path), `{"Name":"files__read","Arguments":{"path":"p"},"Reason":"r"}`)
			if status != good(route) {
				t.Fatalf("status %d, body %s", status, body)
			}
		})
	}
}

func TestOnlyAdministratorsPass(t *testing.T) {
	for _, route := range rest.Routes() {
		if route.Scope == rest.Everyone {
			continue
		}
		f := newFake(t)
		r := httptest.NewRequest(route.Method, "http://localhost"+concrete(route.Path), nil)
		r.Header.Set("Authorization", "Bearer a-user")
		w := httptest.NewRecorder()
		f.handler(nil).ServeHTTP(w, r)
		if w.Code != 403 || object(t, w.Body.String())["Code"] != "global_administrator_required" {
			t.Errorf("%s %s: status %d, body %s", route.Method, route.Path, w.Code, w.Body)
		}
	}
}

func TestOtherMethodsAndUnknownPaths(t *testing.T) {
	h := newFake(t).handler(nil)
	for _, tc := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"DELETE", "/api/v1/jobs", 405, "method_not_allowed", "GET"},
		{"GET", "/api/v1/token/rotate", 405, "method_not_allowed", "POST"},
		{"POST", "/healthz", 405, "method_not_allowed", "GET"},
		{"GET", "/api/v1/nothing", 404, "not_found", ""},
	} {
		r := httptest.NewRequest(tc.method, "http://localhost"+tc.path, nil)
		r.Header.Set("Authorization", "Bearer t0")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status || object(t, w.Body.String())["Code"] != tc.code || w.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: status %d, Allow %q, body %s", tc.method, tc.path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}

// Nobody is asked for a credential there, and no limit of a guard counts.
func TestTheProbeReadsNoBody(t *testing.T) {
	r := httptest.NewRequest("GET", "http://localhost/healthz", nil)
	left := &untouched{}
	r.Body, r.ContentLength = io.NopCloser(left), -1
	w := httptest.NewRecorder()
	newFake(t).handler(nil).ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "ok" || left.reads != 0 || w.Header().Get("Connection") != "close" {
		t.Errorf("status %d, header %v, %d reads of the body", w.Code, w.Header(), left.reads)
	}
}

// untouched is a body that counts how often it is read.
type untouched struct{ reads int }

func (u *untouched) Read([]byte) (int, error) {
	u.reads++
	return 0, io.EOF
}

func TestAPanicIsANeutral500(t *testing.T) {
	var log bytes.Buffer
	h := newFake(t).handler(&log, func(o *rest.Options) {
		o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("inside") })
	})
	status, body := ask(t, h, "GET", "/metrics", "")
	if status != 500 || strings.Contains(body, "inside") || object(t, body)["Error"] != "InternalError" {
		t.Fatalf("status %d, body %s", status, body)
	}
	if !strings.Contains(log.String(), "inside") {
		t.Error("the panic is not in the log")
	}
}

func TestAnInternalErrorStaysInside(t *testing.T) {
	var log bytes.Buffer
	h := newFake(t).handler(&log, func(o *rest.Options) { o.Journal = fakeJournal{errors.New("disk on fire at /secret/place")} })
	status, body := ask(t, h, "GET", "/api/v1/journal/stats", "")
	if status != 500 || strings.Contains(body, "fire") || object(t, body)["Code"] != "internal" {
		t.Fatalf("status %d, body %s", status, body)
	}
	if !strings.Contains(log.String(), "disk on fire") {
		t.Error("the cause is not in the log")
	}
}

func TestWhatIsNotConfiguredIsNotFound(t *testing.T) {
	h := newFake(t).handler(nil, func(o *rest.Options) { o.Journal, o.Token, o.Metrics = nil, nil, nil })
	for _, route := range [][2]string{{"GET", "/metrics"}, {"GET", "/api/v1/journal/stats"}, {"GET", "/api/v1/journal/check"}, {"POST", "/api/v1/token/rotate"}} {
		if status, body := ask(t, h, route[0], route[1], ""); status != 404 || object(t, body)["Code"] != "not_found" {
			t.Errorf("%s: status %d, body %s", route[1], status, body)
		}
	}
}

func TestStatusCountsAndAdmitsWhatItDoesNotKnow(t *testing.T) {
	f := newFake(t)
	f.jobs = append(f.jobs, job("job_2", "Running", 0), job("job_1", "Succeeded", 0))
	f.sess = []actors.SessionView{{}, {}}
	f.views = []actors.BackendView{{State: actors.StateReady, InFlight: 2, QueuedCalls: 3}, {State: actors.StateReady, QueuedJobs: 1}, {State: actors.StateBackoff}}
	_, body := ask(t, f.handler(nil), "GET", "/api/v1/status", "")
	var s rest.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Version != "v1" || s.RuntimeID != "life-0" || s.UptimeSeconds != 60 || s.StartedUTC != "2026-11-30T11:59:00Z" {
		t.Errorf("%+v", s)
	}
	c := s.Counts
	if c.Sessions != 2 || c.Backends["ready"] != 2 || c.Backends["backoff"] != 1 || c.InFlight != 2 || c.Queued != 4 || c.Tools != 2 ||
		c.Jobs == nil || *c.Jobs != 2 || c.UnfinishedJobs == nil || *c.UnfinishedJobs != 1 {
		t.Errorf("%+v", c)
	}
	f.err = errors.New("journal gone")
	status, body := ask(t, f.handler(nil), "GET", "/api/v1/status", "")
	if counts := object(t, body)["Counts"].(map[string]any); status != 200 || counts["Jobs"] != nil || counts["UnfinishedJobs"] != nil {
		t.Errorf("status %d, an unreadable journal counts as %v", status, counts)
	}
}

func TestStatusIsAlsoWhatTheVerbAnswers(t *testing.T) {
	f := newFake(t)
	f.jobs = append(f.jobs, job("job_2", "Running", 0))
	_, body := ask(t, f.handler(nil), "GET", "/api/v1/status", "")
	s := object(t, body)
	if s["UnfinishedJobCount"] != json.Number("1") || s["UnreadableJournalRecords"] != json.Number("1") || s["TimestampUtc"] != "2026-11-30T12:00:00Z" {
		t.Errorf("%s", body)
	}
	if captains, there := s["TotalCaptains"]; !there || captains != nil {
		t.Errorf("captains are %v", captains)
	}
	_, body = ask(t, f.handler(nil, func(o *rest.Options) { o.Overview = nil }), "GET", "/api/v1/status", "")
	if _, there := object(t, body)["TotalCaptains"]; there {
		t.Errorf("%s", body)
	}
}

func TestTheInboxIsABareList(t *testing.T) {
	f := newFake(t)
	if status, body := ask(t, f.handler(nil), "GET", "/api/v1/inbox", ""); status != 200 || body != "[]\n" {
		t.Errorf("status %d, body %s", status, body)
	}
	f.jobs = append(f.jobs, job("job_1", "Lost", time.Hour), job("job_0", "Lost", 50*time.Hour))
	_, body := ask(t, f.handler(nil), "GET", "/api/v1/inbox", "")
	var items []map[string]any
	if err := json.Unmarshal([]byte(body), &items); err != nil || len(items) != 1 || items[0]["kind"] != "job_lost" || items[0]["entityId"] != "job_1" || items[0]["severity"] != "Warning" {
		t.Errorf("%s (%v)", body, err)
	}
	f.err = errors.New("journal gone")
	if status, _ := ask(t, f.handler(nil), "GET", "/api/v1/inbox", ""); status != 503 {
		t.Errorf("an unreadable journal gives %d", status)
	}
	if status, _ := ask(t, f.handler(nil, func(o *rest.Options) { o.Overview = nil }), "GET", "/api/v1/inbox", ""); status != 404 {
		t.Errorf("status %d", status)
	}
}

func TestHealthHasItsFiveFields(t *testing.T) {
	status, body := ask(t, newFake(t).handler(nil), "GET", "/api/v1/status/health", "")
	want := `{"Status":"healthy","Timestamp":"2026-11-30T12:00:00Z","StartUtc":"2026-11-30T11:59:00Z","Uptime":"1m0s","Version":"v1"}` + "\n"
	if status != 200 || body != want {
		t.Errorf("status %d, body %s", status, body)
	}
}

func TestBackendsShowUnknownAsNull(t *testing.T) {
	f := newFake(t)
	tools, life := 3, "life-1"
	until := at
	f.views = []actors.BackendView{
		{Name: "a", State: actors.StateReady, Since: at, RuntimeID: &life, Tools: &tools, PID: 7, EnvNames: []string{"API_KEY"}, HeaderNames: []string{"Authorization"}},
		{Name: "b", State: actors.StateBackoff, BackoffUntil: &until, LastError: "it died"},
	}
	_, body := ask(t, f.handler(nil), "GET", "/api/v1/backends", "")
	objects := object(t, body)["Objects"].([]any)
	a, b := objects[0].(map[string]any), objects[1].(map[string]any)
	if a["RuntimeId"] != "life-1" || a["Tools"] != json.Number("3") || a["Pid"] != json.Number("7") || a["LastError"] != nil || a["SinceUtc"] != "2026-11-30T12:00:00Z" {
		t.Errorf("%v", a)
	}
	if b["RuntimeId"] != nil || b["Tools"] != nil || b["Pid"] != nil || b["BackoffUntilUtc"] != "2026-11-30T12:00:00Z" || b["LastError"] != "it died" {
		t.Errorf("%v", b)
	}
	if env := a["EnvNames"].([]any); len(env) != 1 || env[0] != "API_KEY" {
		t.Errorf("%v", env)
	}
}

func TestToolsOfAProfile(t *testing.T) {
	f := newFake(t)
	for _, tc := range []struct {
		query string
		names []string
	}{
		{"", []string{"files__build", "files__read"}},
		{"?profile=files", []string{"build", "read"}},
	} {
		_, body := ask(t, f.handler(nil), "GET", "/api/v1/tools"+tc.query, "")
		var list rest.ToolPage
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Objects) != 2 || list.TotalRecords != 2 || list.Objects[0].Name != tc.names[0] || list.Objects[1].Name != tc.names[1] {
			t.Fatalf("%s: %s", tc.query, body)
		}
		build, read := list.Objects[0], list.Objects[1]
		if build.Upstream != "build" || !build.Long || *build.PromoteAfterSeconds >= 0 || build.EffectsSource != catalogUnknown {
			t.Errorf("%+v", build)
		}
		if read.Long || read.PromoteAfterSeconds != nil || read.Effects[0] != "read" || !strings.Contains(string(read.Listed), "Read a file.") {
			t.Errorf("%+v", read)
		}
	}
	if status, body := ask(t, f.handler(nil), "GET", "/api/v1/tools?profile=nobody", ""); status != 404 || object(t, body)["Code"] != "profile_unknown" {
		t.Errorf("status %d, body %s", status, body)
	}
}

const catalogUnknown = "unknown"

func TestToolsSayWhatIsPending(t *testing.T) {
	f := newFake(t)
	f.snapshot, _ = filesCatalog(t, false)
	_, body := ask(t, f.handler(nil, func(o *rest.Options) { o.CatalogWait = 1 }), "GET", "/api/v1/tools", "")
	list := object(t, body)
	if pending := list["Pending"].([]any); len(pending) != 1 || pending[0] != "files" {
		t.Errorf("%s", body)
	}
}

func TestRotatedTokenIsNotShownAndTheOldOneIsRefused(t *testing.T) {
	f := newFake(t)
	h := f.handler(nil)
	status, body := ask(t, h, "POST", "/api/v1/token/rotate", "")
	if status != 200 || object(t, body)["Success"] != true || strings.Contains(body, "t1") {
		t.Fatalf("status %d, body %s", status, body)
	}
	if status, _ := ask(t, h, "GET", "/api/v1/status", ""); status != 401 {
		t.Errorf("the old token still works: status %d", status)
	}
}
