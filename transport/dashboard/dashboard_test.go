package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/drain"
	"berth/transport/dashboard"
	"berth/transport/rest"
)

func concrete(path string) string {
	id := "job_run"
	switch {
	case strings.HasPrefix(path, "/voyages"):
		id = "vyg_1"
	case strings.HasPrefix(path, "/missions"):
		id = "msn_run"
	}
	return strings.NewReplacer("{$}", "", "{id}", id, "{name}", "files").Replace(path)
}

// contracts/native.md section 1.1: open are the login and its static files.
func TestEveryPageAsksForALogin(t *testing.T) {
	r := newRig(t)
	for _, route := range r.pages.Routes() {
		for _, accept := range []string{"text/html", "*/*"} {
			for _, cookie := range []*http.Cookie{nil, {Name: "berth_session_7420", Value: "forged"}} {
				b := &browser{r: r, cookie: cookie}
				w := b.send(route.Method, concrete(route.Path), nil, func(q *http.Request) { q.Header.Set("Accept", accept) })
				if route.Open {
					continue
				}
				if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s %s (%s): status %d", route.Method, route.Path, accept, w.Code)
				}
				page := accept == "text/html" && route.Path != "/live"
				if got := strings.Contains(w.Body.String(), `action="/login"`); got != page {
					t.Errorf("%s %s (%s): the login form is there: %v", route.Method, route.Path, accept, got)
				}
			}
		}
	}
	for _, path := range []string{"/login", "/login/berth.css", "/login/berth.js", "/login/icon.svg"} {
		if w := (&browser{r: r}).send("GET", path, nil); w.Code != 200 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	for _, path := range []string{"/login/", "/login/../jobs", "/login/berth.css/", "/login/page.html", "/login/%2e%2e/doc.go"} {
		if w := (&browser{r: r}).send("GET", path, nil); w.Code != 401 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if len(r.changes) > 0 {
		t.Errorf("something was changed: %v", r.changes)
	}
}

func TestEveryAnswerHasThePolicy(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	for _, path := range []string{"/", "/jobs", "/jobs/none", "/login", "/login/berth.js", "/nowhere/else", "/hold"} {
		w := b.send("GET", path, nil)
		if path == "/nowhere/else" {
			continue // not the dashboard's
		}
		if got := w.Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: policy %q", path, got)
		}
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
			if w.Header().Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, w.Header().Get(name))
			}
		}
	}
}

// Nothing on a page needs what the policy forbids, and nothing points elsewhere.
func TestPagesHaveNothingInlineAndNothingForeign(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, page := range everyPage {
		w := b.send("GET", page.path, nil)
		if w.Code != 200 {
			t.Fatalf("%s: status %d", page.path, w.Code)
		}
		walk(parse(t, w.Body.String()), func(n *element) {
			for name, value := range n.attrs {
				if strings.HasPrefix(name, "on") || name == "style" {
					t.Errorf("%s: <%s %s=%q>", page.path, n.name, name, value)
				}
				if (name == "href" || name == "src" || name == "action") && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "#") {
					t.Errorf("%s: <%s %s=%q>", page.path, n.name, name, value)
				}
			}
			if n.name == "style" || (n.name == "script" && text(n) != "") {
				t.Errorf("%s: an inline %s", page.path, n.name)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	for _, tt := range []struct {
		name, token, next string
		status            int
		to                string
	}{
		{"a good token", "operator-token", "/jobs?status=Lost", 303, "/jobs?status=Lost"},
		{"with spaces around it", " operator-token\n", "/", 303, "/"},
		{"a bad token", "wrong", "/jobs", 401, ""},
		{"no token", "", "/jobs", 401, ""},
		{"on to another site", "operator-token", "https://evil.example/", 303, "/"},
		{"on to another site, without a scheme", "operator-token", "//evil.example/jobs", 303, "/"},
		{"on to another site, by a backslash", "operator-token", `/\evil.example`, 303, "/"},
		{"on to something that is no page", "operator-token", "/api/v1/backup", 303, "/"},
		{"on to a header of its own", "operator-token", "/jobs\r\nSet-Cookie: a=b", 303, "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			w := (&browser{r: r}).send("POST", "/login", url.Values{"token": {tt.token}, "next": {tt.next}})
			if w.Code != tt.status || w.Header().Get("Location") != tt.to {
				t.Errorf("status %d, to %q", w.Code, w.Header().Get("Location"))
			}
			cookies := w.Result().Cookies()
			if tt.status != 303 {
				if len(cookies) > 0 {
					t.Error("a cookie was set")
				}
				if tt.token != "" && strings.Contains(w.Body.String(), tt.token) {
					t.Error("the token is on the page")
				}
				return
			}
			if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Secure || cookies[0].Path != "/" {
				t.Errorf("cookies %v", cookies)
			}
		})
	}
}

func TestAnotherPageLogsNobodyIn(t *testing.T) {
	r := newRig(t)
	for _, site := range []string{"cross-site", "same-site"} {
		w := (&browser{r: r}).send("POST", "/login", url.Values{"token": {"operator-token"}}, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", site) })
		if w.Code != 403 || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: status %d", site, w.Code)
		}
	}
}

func TestTheCookieIsSecureBehindTLS(t *testing.T) {
	r := newRig(t)
	s := httptest.NewTLSServer(r.handler)
	defer s.Close()
	client := s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.PostForm(s.URL+"/login", url.Values{"token": {"operator-token"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	client.CloseIdleConnections()
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies %v", c)
	}
}

func TestLoginAttemptsAreLimited(t *testing.T) {
	r := newRig(t)
	r.limit = 3
	for n := range 5 {
		w := (&browser{r: r}).send("POST", "/login", url.Values{"token": {"wrong"}})
		want := 401
		if n >= 3 {
			want = 429
		}
		if w.Code != want {
			t.Errorf("attempt %d: status %d, want %d", n+1, w.Code, want)
		}
	}
}

// A change needs the session, its own token and this origin; one of another
// session is none.
func TestAChangeNeedsItsToken(t *testing.T) {
	r := newRig(t)
	b, other := r.login("operator-token"), r.login("tenant-token")
	for _, route := range r.pages.Routes() {
		if route.Method != "POST" || route.Open {
			continue
		}
		path := concrete(route.Path)
		for name, w := range map[string]*httptest.ResponseRecorder{
			"no token":        b.send("POST", path, url.Values{"reason": {"reflected"}, "action": {"engage"}, "content": {"reflected"}}),
			"another's token": b.send("POST", path, url.Values{"csrf": {other.csrf}, "reason": {"reflected"}, "content": {"reflected"}}),
			"in the address":  b.send("POST", path+"?csrf="+url.QueryEscape(b.csrf), url.Values{"reason": {"r"}}),
			"another origin":  b.send("POST", path, url.Values{"csrf": {b.csrf}, "reason": {"r"}}, func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") }),
			"another port":    b.send("POST", path, url.Values{"csrf": {b.csrf}, "reason": {"r"}}, func(q *http.Request) { q.Header.Set("Origin", "http://127.0.0.1:9999") }),
			"from nowhere":    b.send("POST", path, url.Values{"csrf": {b.csrf}, "reason": {"r"}}, func(q *http.Request) { q.Header.Set("Origin", "null") }),
			"another site":    b.send("POST", path, url.Values{"csrf": {b.csrf}, "reason": {"r"}}, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }),
		} {
			if w.Code != 403 && w.Code != 401 || strings.Contains(w.Body.String(), "reflected") {
				t.Errorf("%s, %s: status %d, %s", path, name, w.Code, w.Body)
			}
		}
		if w := b.send("GET", path, nil); route.Path != "/board" && route.Path != "/hold" && w.Code != 405 {
			t.Errorf("GET %s: status %d", path, w.Code)
		}
	}
	if len(r.changes) > 0 {
		t.Errorf("something was changed: %v", r.changes)
	}
}

func TestChangesGoThroughTheOperatorAPI(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, tt := range []struct {
		path string
		form url.Values
		to   string
		want string
	}{
		{"/jobs/job_run/cancel", url.Values{"reason": {"a wrong branch"}}, "/jobs/job_run?done=cancelled", `{"Reason":"a wrong branch"}`},
		{"/hold", url.Values{"action": {"engage"}, "reason": {"node upgrade"}}, "/hold?done=engaged", `{"Action":"engage","Reason":"node upgrade","SetBy":"operator"}`},
		{"/hold", url.Values{"action": {"clear"}}, "/hold?done=cleared", `{"Action":"clear","Reason":"","SetBy":"operator"}`},
		{"/board", url.Values{"content": {"it is\r\nfree"}, "room": {"dock"}, "to": {"lane-a"}}, "/board?done=posted&room=dock", `{"AuthorName":"operator","Content":"it is\nfree","RoomKey":"dock","ToParticipantKey":"lane-a"}`},
	} {
		w := b.post(tt.path, tt.form)
		if w.Code != 303 || w.Header().Get("Location") != tt.to {
			t.Errorf("%s: status %d, to %q", tt.path, w.Code, w.Header().Get("Location"))
		}
		if last := r.changes[len(r.changes)-1]; last.body != tt.want || last.by != "default/operator" {
			t.Errorf("%s: the API was told %+v", tt.path, last)
		}
	}
	r.refuse["POST /api/v1/jobs/job_run/cancel"] = broker.CodeJobTerminal
	w := b.post("/jobs/job_run/cancel", url.Values{"reason": {"late <b>and</b> & long"}})
	if page := text(parse(t, w.Body.String())); w.Code != 409 || !strings.Contains(page, "late <b>and</b> & long") || !strings.Contains(page, "job_terminal") || !strings.Contains(page, "The broker says no.") {
		t.Errorf("a refused cancel: status %d, %s", w.Code, page)
	}
	r.refuse["POST /api/v1/board"] = broker.CodeInvalidArguments
	w = b.post("/board", url.Values{"content": {"hello"}, "to": {"lane <a>"}})
	for _, want := range []string{"hello", "lane <a>", "<i>content: maxLength: wanted at most 65536 characters"} {
		if page := text(parse(t, w.Body.String())); w.Code != 409 || !strings.Contains(page, want) {
			t.Errorf("a refused note: status %d, no %q in %s", w.Code, want, page)
		}
	}
}

// A role sees what its API allows: the answer of the page is that of its route.
func TestARoleSeesWhatItsAPIAllows(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		token string
		pages map[string]int
	}{
		{"operator-token", map[string]int{"/": 200, "/jobs": 200, "/jobs/job_run": 200, "/events": 200, "/catalog": 200, "/board": 200, "/hold": 200, "/restart": 200, "/credentials": 200, "/voyages": 200, "/voyages/vyg_1": 200, "/missions/msn_run": 200, "/backends/files": 200}},
		{"tenant-token", map[string]int{"/": 303, "/jobs": 403, "/jobs/job_run": 403, "/jobs/none": 403, "/events": 403, "/catalog": 403, "/board": 200, "/hold": 403, "/restart": 403, "/credentials": 403, "/voyages": 403, "/voyages/vyg_1": 403, "/missions/msn_run": 403, "/backends/files": 403}},
		{"user-token", map[string]int{"/": 303, "/jobs": 403, "/jobs/job_run": 403, "/jobs/none": 403, "/events": 403, "/catalog": 403, "/board": 200, "/hold": 403, "/restart": 403, "/credentials": 403, "/voyages": 403, "/voyages/vyg_1": 403, "/missions/msn_run": 403, "/backends/files": 403}},
	} {
		b := r.login(tt.token)
		var nav []string
		for path, want := range tt.pages {
			w := b.send("GET", path, nil)
			if w.Code != want {
				t.Errorf("%s, %s: status %d, want %d", tt.token, path, w.Code, want)
			}
			if want == 303 {
				if to := w.Header().Get("Location"); tt.pages[to] != 200 {
					t.Errorf("%s: from the first page they are led to %q", tt.token, to)
				}
				continue
			}
			page := parse(t, w.Body.String())
			if want == 403 && (strings.Contains(text(page), "job_run") || strings.Contains(text(page), "files")) {
				t.Errorf("%s, %s: a refused page tells something", tt.token, path)
			}
			nav = nil
			for _, a := range all(all(page, "nav")[0], "a") {
				nav = append(nav, attr(a, "href"))
			}
		}
		for _, place := range nav {
			if tt.pages[place] != 200 {
				t.Errorf("%s: the navigation has %s, which is refused", tt.token, place)
			}
		}
		if w := b.send("GET", "/live?page=%2Fjobs", nil, cancelled); tt.pages["/jobs"] == 403 && strings.Contains(w.Body.String(), "job_run") {
			t.Errorf("%s: the stream tells what the page does not", tt.token)
		}
		if w := b.post("/jobs/job_run/cancel", url.Values{"reason": {"r"}}); (w.Code == 303) != (tt.pages["/jobs"] == 200) {
			t.Errorf("%s: a cancel has status %d", tt.token, w.Code)
		}
	}
}

// cancelled ends a request before it is made: a stream says what it has and ends.
func cancelled(q *http.Request) {
	ctx, cancel := context.WithCancel(q.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	*q = *q.WithContext(ctx)
}

func TestASessionIsForPagesAndTheAPIOnly(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	if w := b.send("GET", "/api/v1/backends", nil); w.Code != 200 {
		t.Errorf("same-origin API: status %d", w.Code)
	}
	for _, path := range []string{"/mcp", "/mcp/full", "/rpc", "/metrics"} {
		q := httptest.NewRequest("GET", "http://127.0.0.1:7420"+path, nil)
		q.AddCookie(b.cookie)
		if _, ok := r.guard.Admit(httptest.NewRecorder(), q); ok {
			t.Errorf("the cookie is good at %s", path)
		}
	}
	if w := b.post("/logout", url.Values{}); w.Code != 303 || w.Header().Get("Location") != "/login" {
		t.Errorf("logout: status %d", w.Code)
	}
	if w := b.send("GET", "/jobs", nil); w.Code != 401 {
		t.Errorf("after the logout: status %d", w.Code)
	}
}

func TestJobsAreFiltered(t *testing.T) {
	r := newRig(t)
	r.jobs = append(r.jobs, job("job_other", broker.JobSucceeded, func(j *broker.Job) { j.Tenant, j.User, j.Operation = "other", "bob", "mail__send" }))
	b := r.login("operator-token")
	for query, want := range map[string][]string{
		"":                        {"job_run", "job_ok", "job_bad", "job_other"},
		"?status=Failed":          {"job_bad"},
		"?operation=mail__send":   {"job_other"},
		"?principal=acme/ann":     {"job_run", "job_ok", "job_bad"},
		"?principal=bob":          {"job_other"},
		"?text=DISK":              {"job_bad"},
		"?text=nothing+like+it":   nil,
		"?page=2":                 nil,
		"?page=-1&status=Running": {"job_run"},
	} {
		w := b.send("GET", "/jobs"+query, nil)
		var got []string
		for _, a := range all(parse(t, w.Body.String()), "a") {
			if id, found := strings.CutPrefix(attr(a, "href"), "/jobs/"); found {
				got = append(got, id)
			}
		}
		if w.Code != 200 || !slices.Equal(got, want) {
			t.Errorf("%q: status %d, %v, want %v", query, w.Code, got, want)
		}
	}
}

// A word that names no status is refused: the whole list would look as if it
// held everything that has it.
func TestAFilterByAStatusThatThereIsNotIsRefused(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, path := range []string{"/jobs?status=nonsense", "/voyages?status=nonsense"} {
		if w := b.send("GET", path, nil); w.Code != 400 || !strings.Contains(w.Body.String(), "invalid_status") {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}

func TestAJobTellsWhatHappenedToIt(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	page := text(parse(t, b.send("GET", "/jobs/job_bad", nil).Body.String()))
	for _, want := range []string{"Failed", "files__build", "acme/ann", "The disk is full.", `"Code": "operation_failed"`, "job.failed", "evt_1", "What to do"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(page, "Cancel this job") {
		t.Error("a job that ended can be cancelled")
	}
	if page := text(parse(t, b.send("GET", "/jobs/job_ok", nil).Body.String())); !strings.Contains(page, "2.0 KiB") {
		t.Error("the size of the result is not there")
	}
	if page := b.send("GET", "/jobs/job_run", nil).Body.String(); !strings.Contains(page, "Cancel this job") {
		t.Error("a running job cannot be cancelled")
	}
	if w := b.send("GET", "/jobs/none", nil); w.Code != 404 || !strings.Contains(w.Body.String(), "job_not_found") {
		t.Errorf("no such job: status %d", w.Code)
	}
}

// Whatever a backend or a caller says stands on the page as text: the page has
// the elements that it has without it, and nobody's characters act on others'.
func TestHostileStringsAreText(t *testing.T) {
	for n, hostile := range append(slices.Clone(nasty), nastyText) {
		r := newRig(t)
		save := nastyText
		nastyText = hostile
		r.hostile()
		nastyText = save
		b := r.login("operator-token")
		for _, page := range everyPage {
			nastyText = hostile
			path := hostilePath(page.path)
			nastyText = save
			w := b.send("GET", path, nil)
			if w.Code != 200 {
				t.Fatalf("%d, %s: status %d: %s", n, path, w.Code, w.Body)
			}
			body := w.Body.String()
			if len(body) > 200<<10 {
				t.Errorf("%d, %s: %d bytes", n, path, len(body))
			}
			if strings.ContainsAny(body, "\u202e\u2066\u0000\u0007\u001b") {
				t.Errorf("%d, %s: a character that nobody sees is on the page", n, path)
			}
			walk(parse(t, body), func(e *element) {
				switch {
				case slices.Contains([]string{"img", "iframe", "object", "b onclick"}, e.name):
					t.Errorf("%d, %s: a hostile string became <%s>", n, path, e.name)
				case e.name == "script" && attr(e, "src") != "/login/berth.js":
					t.Errorf("%d, %s: a hostile string became a script", n, path)
				}
				for name, value := range e.attrs {
					if strings.HasPrefix(name, "on") || (name == "href" && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "#")) {
						t.Errorf("%d, %s: a hostile string became %s=%q", n, path, name, value)
					}
				}
			})
		}
	}
}

func TestAStreamSendsWhatChanged(t *testing.T) {
	r := newRig(t)
	base := r.serve()
	q, err := http.NewRequest("GET", base+"/live?page="+url.QueryEscape("/jobs?status=Running"), nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer operator-token")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	events := lines(resp)
	if part := next(t, events); part.ID != "jobs" || !strings.Contains(part.HTML, "job_run") || strings.Contains(part.HTML, "job_bad") {
		t.Errorf("first %+v", part)
	}
	r.mu.Lock()
	r.jobs = nil
	r.mu.Unlock()
	if part := next(t, events); part.ID != "jobs" || !strings.Contains(part.HTML, "No job is like that.") {
		t.Errorf("then %+v", part)
	}
	r.pages.Close()
	for range events { // ends
	}
}

func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t)
	d, err := dashboard.New(dashboard.Options{Guard: r.guard, API: r.handler, Jobs: r, Sampler: r.sampler, MaxLive: 1, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.pages, r.handler = d, d
	base := r.serve()
	ask := func() *http.Response {
		q, _ := http.NewRequest("GET", base+"/live?page=%2Fjobs", nil)
		q.Header.Set("Authorization", "Bearer operator-token")
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	defer http.DefaultClient.CloseIdleConnections()
	first := ask()
	defer first.Body.Close()
	second := ask()
	defer second.Body.Close()
	if first.StatusCode != 200 || second.StatusCode != 429 || second.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, then %d", first.StatusCode, second.StatusCode)
	}
}

func TestStreamsAreForPagesOnly(t *testing.T) {
	r := newRig(t)
	b := r.login("operator-token")
	for _, page := range []string{"", "/nowhere", "/live?page=/", "/logout", "/login", "http://evil.example/", "//evil.example/jobs", "/api/v1/backup", "/jobs/../hold/x"} {
		if w := b.send("GET", "/live?page="+url.QueryEscape(page), nil, cancelled); w.Code != 404 {
			t.Errorf("%q: status %d", page, w.Code)
		}
	}
}

type sent struct{ ID, HTML string }

// lines gives the data of each event of a stream.
func lines(resp *http.Response) <-chan string {
	out := make(chan string, 100)
	go func() {
		defer close(out)
		dec := bufio.NewReader(resp.Body)
		for {
			line, err := dec.ReadString('\n')
			if err != nil {
				return
			}
			if data, found := strings.CutPrefix(line, "data: "); found {
				out <- data
			}
		}
	}()
	return out
}

func next(t *testing.T, events <-chan string) (p sent) {
	t.Helper()
	data, ok := <-events
	if !ok {
		t.Fatal("the stream ended")
	}
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A drained backend takes no call, however well it is.
func TestTheOverviewSaysWhatIsDrained(t *testing.T) {
	r := newRig(t)
	page := r.answers["/api/v1/backends"].(rest.Page[rest.Backend])
	page.Objects[0].Draining = &drain.View{Reason: ptr("<b>new version</b>"), By: "default/operator", SinceUTC: broker.FormatTime(epoch)}
	page.Objects = page.Objects[:1]
	r.answers["/api/v1/backends"] = page
	got := r.login("operator-token").send("GET", "/", nil).Body.String()
	for _, want := range []string{"and takes no new calls: files", "Every other backend", "drained by <bdi>default/operator</bdi>: <bdi>&lt;b&gt;new version", "<dd>0<small> of 1</small>"} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
}

// What nobody needs now is idle; that it failed to start when somebody did is
// not good.
func TestTheOverviewSaysWhatCouldNotBeStarted(t *testing.T) {
	r := newRig(t)
	page := r.answers["/api/v1/backends"].(rest.Page[rest.Backend])
	page.Objects = []rest.Backend{{Name: "wrong", Kind: "stdio", State: actors.StateIdle, FailedStarts: 3, LastError: ptr("no such program")}}
	r.answers["/api/v1/backends"] = page
	got := r.login("operator-token").send("GET", "/", nil).Body.String()
	for _, want := range []string{"Does not answer: wrong (could not be started).", "no such program", "<dd>0<small> of 1</small>"} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
}

// A restart ends what agents work on: the hold's page says so, and not that
// nothing is lost.
func TestTheHoldListsWhatAgentsWorkOn(t *testing.T) {
	r := newRig(t)
	r.answers["/api/v1/hold"] = map[string]any{"Active": true, "Hold": nil, "UnfinishedJobs": []any{}, "WorkingMissions": []string{"msn_run"}}
	got := r.login("operator-token").send("GET", "/hold", nil).Body.String()
	if !strings.Contains(got, `href="/missions/msn_run"`) || strings.Contains(got, "loses nothing") {
		t.Errorf("the page: %s", got)
	}
	r.answers["/api/v1/hold"] = map[string]any{"Active": true, "Hold": nil, "UnfinishedJobs": []any{}, "WorkingMissions": []string{}}
	if got := r.login("operator-token").send("GET", "/hold", nil).Body.String(); !strings.Contains(got, "a restart loses nothing") {
		t.Errorf("the page: %s", got)
	}
}
