package httpguard_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

// knows is an Authenticate with one good value of each kind.
func knows(kind httpguard.Kind, value string) (broker.Caller, bool) {
	who := map[httpguard.Kind]struct{ value, user string }{
		httpguard.Bearer: {"bearer", "b"}, httpguard.SessionToken: {"session", "s"}, httpguard.APIKey: {"key", "k"}}[kind]
	return broker.Caller{Principal: broker.Principal{Tenant: "t", User: who.user}}, value == who.value
}

func browser(refused ...func(http.ResponseWriter, *http.Request, int, *broker.Refusal) bool) *httpguard.Guard {
	o := httpguard.Options{Authenticate: knows, Hosts: []string{"berth.example"}, Login: httpguard.Login{
		Paths: []string{"/", "/dashboard", "/api/v1", "/mcp/"}, CSRF: func(session string) string { return "csrf-of-" + session }}}
	if len(refused) > 0 {
		o.Login.Refused = refused[0]
	}
	return httpguard.New(o)
}

// served gives the status and who the caller was.
func served(g *httpguard.Guard, r *http.Request) (status int, user string, body map[string]any) {
	w := httptest.NewRecorder()
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, _ := httpguard.Principal(r.Context())
		user = p.User
	})).ServeHTTP(w, r)
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	return w.Code, user, body
}

// TestTheFirstCredentialThatIsPresentDecides: a bad one is not rescued by a
// good one further down, in the order of contracts/native.md section 1.2.
func TestTheFirstCredentialThatIsPresentDecides(t *testing.T) {
	headers := []struct{ name, good, user string }{{"Authorization", "Bearer bearer", "b"}, {"X-Token", "session", "s"}, {"X-Api-Key", "key", "k"}}
	for i := range 27 { // each header absent, good or bad
		r := httptest.NewRequest("GET", "http://localhost/mcp", untouchable{t})
		want, decided := "", false
		name := ""
		for j, n := 0, i; j < 3; j, n = j+1, n/3 {
			h := headers[j]
			switch n % 3 {
			case 1:
				r.Header.Set(h.name, h.good)
				name += h.name + " good, "
				if !decided {
					want = h.user
				}
			case 2:
				r.Header.Set(h.name, "Bearer wrong")
				name += h.name + " bad, "
			default:
				continue
			}
			decided = true
		}
		status, user, _ := served(browser(), r)
		if user != want || (status == 200) != (want != "") || (want == "" && status != 401) {
			t.Errorf("%s: %d as %q, want %q", name, status, user, want)
		}
	}
	for name, values := range map[string][]string{"Authorization": {"Bearer bearer", "Bearer bearer"}, "X-Token": {"session", "session"}, "X-Api-Key": {""}} {
		r := httptest.NewRequest("GET", "http://localhost/mcp", nil)
		r.Header[name] = values
		if status, _, _ := served(browser(), r); status != 401 {
			t.Errorf("%s %q: %d", name, values, status)
		}
	}
	r := httptest.NewRequest("GET", "http://localhost/mcp", nil)
	r.Header.Set("Authorization", "Bearer bearer")
	if status, _, _ := served(httpguard.New(httpguard.Options{}), r); status != 401 {
		t.Errorf("a guard without an authenticator: %d", status)
	}
}

func TestACookieIsGoodForItsPlacesAndItsOwnPages(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		header     map[string]string
		want       int
	}{
		{"a page", "/dashboard/jobs", nil, 200},
		{"the first page", "/dashboard", nil, 200},
		{"the API", "/api/v1/status", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{"typed by its user", "/dashboard", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"its own origin", "/api/v1/status", map[string]string{"Origin": "http://127.0.0.1:7420"}, 200},
		{"the root", "/", nil, 200},
		{"below the root", "/x", nil, 401},
		{"MCP", "/mcp", nil, 401},
		{"a profile", "/mcp/full", nil, 401},
		{"JSON-RPC", "/rpc", nil, 401},
		{"metrics", "/metrics", nil, 401},
		{"a place that begins alike", "/dashboards", nil, 401},
		{"a way out", "/dashboard/../mcp", nil, 401},
		{"a double slash", "/api/v1//../../mcp", nil, 401},
		{"another port of this machine", "/api/v1/status", map[string]string{"Origin": "http://127.0.0.1:9999"}, 401},
		{"the same site", "/api/v1/status", map[string]string{"Sec-Fetch-Site": "same-site"}, 401},
		{"another site", "/dashboard", map[string]string{"Sec-Fetch-Site": "cross-site"}, 401},
		{"a bad header before it", "/dashboard", map[string]string{"Authorization": "Bearer wrong"}, 401},
		{"a bad session header", "/dashboard", map[string]string{"X-Token": "wrong"}, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "http://127.0.0.1:7420/", nil)
			r.URL.Path = tc.path
			r.Header.Set("Cookie", "berth_session_7420=session; other=1")
			for name, value := range tc.header {
				r.Header.Set(name, value)
			}
			if status, user, _ := served(browser(), r); status != tc.want || (status == 200 && user != "s") {
				t.Errorf("%d as %q, want %d", status, user, tc.want)
			}
		})
	}
	for _, cookies := range []string{"berth_session_7420=session; berth_session_7420=session", "berth_session_7420=", "berth_session=session", "berth_session_7421=session", "berth_session_7420=wrong"} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:7420/dashboard", nil)
		r.Header.Set("Cookie", cookies)
		if status, _, _ := served(browser(), r); status != 401 {
			t.Errorf("%s: %d", cookies, status)
		}
	}
}

func TestAChangeByACookieNeedsItsToken(t *testing.T) {
	form := func(v string) (string, string) {
		return url.Values{"csrf": {v}, "reason": {"a b"}}.Encode(), "application/x-www-form-urlencoded; charset=utf-8"
	}
	for _, tc := range []struct {
		name, method, csrf, body, kind string
		want                           int
	}{
		{"none", "POST", "", "{}", "application/json", 403},
		{"in the header", "POST", "csrf-of-session", "{}", "application/json", 200},
		{"wrong in the header", "POST", "csrf-of-other", "{}", "application/json", 403},
		{"DELETE without", "DELETE", "", "", "", 403},
		{"DELETE with", "DELETE", "csrf-of-session", "", "", 200},
		{"a text that a form can send", "POST", "", "csrf=csrf-of-session", "text/plain", 403},
		{"a form with a query", "POST", "", "x=1", "application/x-www-form-urlencoded", 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "http://localhost/api/v1/x?csrf=csrf-of-session", strings.NewReader(tc.body))
			r.Header.Set("Cookie", "berth_session=session")
			r.Header.Set("Content-Type", tc.kind)
			if tc.csrf != "" {
				r.Header.Set(httpguard.CSRFHeader, tc.csrf)
			}
			status, _, body := served(browser(), r)
			if status != tc.want || (status == 403 && body["Code"] != "csrf_token_required") {
				t.Errorf("%d %v, want %d", status, body, tc.want)
			}
		})
	}
	for value, want := range map[string]int{"csrf-of-session": 200, "": 403, "csrf-of-other": 403} {
		body, kind := form(value)
		r := httptest.NewRequest("POST", "http://localhost/dashboard/jobs", strings.NewReader(body))
		r.Header.Set("Cookie", "berth_session=session")
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		reason := ""
		g := browser()
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reason = r.PostFormValue("reason")
			if got := g.CSRF(r); got != "csrf-of-session" {
				t.Errorf("a page is to send %q", got)
			}
		})).ServeHTTP(w, r)
		if w.Code != want || (reason == "a b") != (want == 200) {
			t.Errorf("a form with %q: %d, %q", value, w.Code, reason)
		}
	}
	r := httptest.NewRequest("POST", "http://localhost/api/v1/x", strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer bearer")
	if status, _, _ := served(browser(), r); status != 200 {
		t.Errorf("a program needs none: %d", status)
	}
	r = httptest.NewRequest("POST", "http://localhost/dashboard/x", io.LimitReader(endless{}, 2<<20))
	r.Header.Set("Cookie", "berth_session=session")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, _, _ := served(browser(), r); status != 413 {
		t.Errorf("a form of 2 MiB: %d", status)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestALoginIsACookieThatScriptsCannotRead(t *testing.T) {
	ended := ""
	attempts := 0
	g := httpguard.New(httpguard.Options{Authenticate: knows, Login: httpguard.Login{
		Issue: func(token string) (httpguard.Session, bool) {
			return httpguard.Session{Token: "session", Expires: time.Now().Add(time.Hour)}, token == "right"
		},
		End: func(session string) { ended = session },
		Begin: func(from netip.Addr) (func(), *broker.Refusal) {
			if from.String() != "192.0.2.1" {
				t.Errorf("an attempt from %s", from)
			}
			if attempts++; attempts > 2 {
				return nil, broker.Refuse(broker.CodeRateLimited, "Too many.", nil)
			}
			return func() { attempts-- }, nil
		},
	}})
	r := httptest.NewRequest("POST", "http://localhost:7420/login", nil) // of 192.0.2.1
	session, refusal := g.Authenticate(r, "right")
	if refusal != nil || session.Token != "session" || attempts != 0 {
		t.Fatal(refusal, attempts)
	}
	w := httptest.NewRecorder()
	httpguard.SetSession(w, r, session)
	cookie := w.Header().Get("Set-Cookie")
	for _, part := range []string{"berth_session_7420=session", "HttpOnly", "SameSite=Strict", "Path=/", "Expires="} {
		if !strings.Contains(cookie, part) {
			t.Errorf("%s has no %s", cookie, part)
		}
	}
	for i, want := range []broker.Code{broker.CodeUnauthorized, broker.CodeUnauthorized, broker.CodeRateLimited} {
		if _, refusal := g.Authenticate(r, []string{"wrong", "", "right"}[i]); refusal == nil || refusal.Code != want {
			t.Errorf("attempt %d: %v, want %s", i, refusal, want)
		}
	}
	r.Header.Set("Cookie", "berth_session_7420=session")
	w = httptest.NewRecorder()
	g.Logout(w, r)
	if ended != "session" || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%q ended, %s", ended, w.Header().Get("Set-Cookie"))
	}
}

func TestAPageMayAnswerInPlaceOfTheErrorBody(t *testing.T) {
	g := browser(func(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) bool {
		if r.URL.Path != "/dashboard" {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "page "+string(refusal.Code))
		return true
	})
	for path, want := range map[string]string{"/dashboard": "page unauthorized", "/api/v1/status": `"Code":"unauthorized"`} {
		w := httptest.NewRecorder()
		g.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if w.Code != 401 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestARequestEndsWithItsCredential(t *testing.T) {
	life, revoke := context.WithCancel(context.Background())
	g := httpguard.New(httpguard.Options{Authenticate: func(httpguard.Kind, string) (broker.Caller, bool) {
		return broker.Caller{Principal: broker.LocalOperator, Life: life}, true
	}})
	r := httptest.NewRequest("GET", "http://localhost/api/v1/x", nil)
	r.Header.Set("Authorization", "Bearer x")
	ended := false
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			t.Error("it has ended before")
		}
		revoke()
		<-r.Context().Done()
		ended = true
	})).ServeHTTP(httptest.NewRecorder(), r)
	if !ended {
		t.Error("the handler did not run")
	}
}

// TestEveryRefusalIsCounted: those of requests, and those of logins.
func TestEveryRefusalIsCounted(t *testing.T) {
	counted := map[broker.Code]int{}
	g := httpguard.New(httpguard.Options{Authenticate: knows, MaxBody: 3, Counted: func(code broker.Code) { counted[code]++ },
		Login: httpguard.Login{Paths: []string{"/"}, Issue: func(token string) (httpguard.Session, bool) { return httpguard.Session{}, token == "bearer" }}})
	ask := func(change func(*http.Request), body string) {
		r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer bearer")
		change(r)
		served(g, r)
	}
	ask(func(*http.Request) {}, "")
	ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }, "")
	ask(func(r *http.Request) { r.Header.Del("Authorization") }, "")
	ask(func(r *http.Request) { r.Host = "evil.example" }, "")
	ask(func(*http.Request) {}, "long")
	for _, token := range []string{"bearer", "wrong", ""} {
		_, _ = g.Authenticate(httptest.NewRequest("POST", "http://localhost/", nil), token)
	}
	want := map[broker.Code]int{broker.CodeUnauthorized: 4, broker.CodeOriginForbidden: 1, broker.CodeRequestTooLarge: 1}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}
