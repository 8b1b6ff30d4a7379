package resmontest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestGuardAnswersBeforeAnythingElse(t *testing.T) {
	const window = "http://127.0.0.1:5173"
	f := Run(t, Options{Data: Small, Origin: window})
	port := strings.TrimPrefix(f.Base(), "http://127.0.0.1:")
	good := "Bearer " + f.Token()
	tests := []struct {
		name, host    string
		origin, token []string
		status        int
		reason        string
	}{
		{"the address and the token", "127.0.0.1:" + port, nil, []string{good}, 200, ""},
		{"localhost", "localhost:" + port, nil, []string{good}, 200, ""},
		{"the scheme in capitals", "127.0.0.1:" + port, nil, []string{"BEARER " + f.Token()}, 200, ""},
		{"its own window", "127.0.0.1:" + port, []string{window}, []string{good}, 200, ""},
		{"another host", "resmon.example:" + port, nil, []string{good}, 403, "host_refused"},
		{"another port", "127.0.0.1:1", nil, []string{good}, 403, "host_refused"},
		{"no port", "127.0.0.1", nil, []string{good}, 403, "host_refused"},
		{"host comes before origin", "resmon.example", []string{"http://evil.example"}, nil, 403, "host_refused"},
		{"another origin", "127.0.0.1:" + port, []string{"http://evil.example"}, []string{good}, 403, "origin_refused"},
		{"its own origin twice", "127.0.0.1:" + port, []string{window, window}, []string{good}, 403, "origin_refused"},
		{"origin comes before token", "127.0.0.1:" + port, []string{"null"}, nil, 403, "origin_refused"},
		{"no token", "127.0.0.1:" + port, nil, nil, 401, "token_missing"},
		{"a repeated token", "127.0.0.1:" + port, nil, []string{good, good}, 401, "token_invalid"},
		{"another scheme", "127.0.0.1:" + port, nil, []string{"Basic " + f.Token()}, 401, "token_invalid"},
		{"another token", "127.0.0.1:" + port, nil, []string{good + "x"}, 401, "token_invalid"},
		{"an empty token", "127.0.0.1:" + port, nil, []string{"Bearer "}, 401, "token_invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/api/health", "/api/nope"} {
				req := f.request(t, "GET", path, "")
				req.Host = tt.host
				req.Header["Authorization"], req.Header["Origin"] = tt.token, tt.origin
				if tt.token == nil {
					req.Header.Del("Authorization")
				}
				got, err := do(req)
				if err != nil {
					t.Fatal(err)
				}
				want := tt.status
				if path == "/api/nope" && want == 200 {
					want = 404
				}
				if got.status != want {
					t.Fatalf("%s: status %d, want %d: %s", path, got.status, want, got.body)
				}
				if tt.reason == "" {
					continue
				}
				detail, _ := got.object(t)["detail"].(object)
				if detail["reason"] != tt.reason || detail["message"] == "" || len(detail) != 2 {
					t.Errorf("detail %v, want reason %s and a message", detail, tt.reason)
				}
				if got.header.Get("Cache-Control") != "no-store" {
					t.Error("a refusal may be stored")
				}
				if challenge := got.header.Get("WWW-Authenticate"); (challenge == `Bearer realm="resmon"`) != (want == 401) {
					t.Errorf("WWW-Authenticate is %q for %d", challenge, want)
				}
				if last := f.Requests(); last[len(last)-1].Refused != tt.reason {
					t.Errorf("the record says %q", last[len(last)-1].Refused)
				}
			}
		})
	}
}

func TestRecordHasEveryRequestAndNoToken(t *testing.T) {
	f := Run(t, Options{Data: Small})
	first := f.Token()
	must(t, f, "GET", "/api/executions?limit=2", "")
	ask(t, f, "POST", "/api/search/sweep", `{"query":"`+first+`","repositories":["arxiv"]}`)
	get(t, f, "/api/nope?t="+first)
	if err := f.Restart(); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[Token]string{TokenEarlier: first, TokenOther: strings.Repeat("x", 43), TokenCurrent: f.Token()} {
		req := f.request(t, "GET", "/api/routines/1", "")
		req.Header.Set("Authorization", "Bearer "+token)
		if _, err := do(req); err != nil {
			t.Fatal(err)
		}
		last := f.Requests()
		if got := last[len(last)-1].Token; got != name {
			t.Errorf("the token is said to be %s, want %s", got, name)
		}
	}
	all := f.Requests()
	if len(all) != 6 {
		t.Fatalf("%d requests on record, want 6", len(all))
	}
	for i, e := range all {
		if e.Seq != i+1 || e.Host != strings.TrimPrefix(f.Base(), "http://") || !slices.Contains(e.Headers, "Authorization") {
			t.Errorf("entry %d is %+v", i, e)
		}
		for _, part := range append(slices.Clone(e.Headers), e.Path, e.Query, e.Body, e.Template) {
			if strings.Contains(part, first) || strings.Contains(part, f.Token()) {
				t.Errorf("entry %d has a token", i)
			}
		}
	}
	if e := all[0]; e.Template != "/api/executions" || e.Query != "limit=2" || e.Status != 200 || e.Applied || e.Exposed || e.Token != TokenCurrent {
		t.Errorf("the list is recorded as %+v", e)
	}
	if e := all[1]; e.Pair() != (Pair{"POST", "/api/search/sweep"}) || !e.Applied || !e.Exposed || e.Body != `{"query":"[token]","repositories":["arxiv"]}` {
		t.Errorf("the sweep is recorded as %+v", e)
	}
	if e := all[2]; e.Template != "" || e.Status != 404 || !e.Exposed || e.Query != "t=[token]" {
		t.Errorf("the unknown path is recorded as %+v", e)
	}
	if want := []Pair{{"GET", "/api/routines/{routine_id}"}, {"GET", "/api/executions"}, {"POST", "/api/search/sweep"}}; !slices.Equal(f.Pairs(), want) {
		t.Errorf("pairs %v, want %v", f.Pairs(), want)
	}
	f.Forget()
	if len(f.Requests()) != 0 {
		t.Error("the record is not empty")
	}
}

func TestRecordIsBounded(t *testing.T) {
	f, err := New(Options{Dir: t.TempDir(), Data: Small})
	if err != nil {
		t.Fatal(err)
	}
	for range maxRecorded + 5 {
		f.keep(&Request{})
	}
	all := f.Requests()
	if len(all) > maxRecorded || all[len(all)-1].Seq != maxRecorded+5 {
		t.Errorf("%d entries, the last is %d", len(all), all[len(all)-1].Seq)
	}
	e := f.noted(&http.Request{URL: mustURL(t, "/"), Header: http.Header{}}, make([]byte, 2*maxBody))
	if len(e.Body) != maxBody {
		t.Errorf("%d bytes of a body are kept", len(e.Body))
	}
}

func TestMethodsAndPathsOutsideTheTable(t *testing.T) {
	f := Run(t, Options{Data: Small})
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"DELETE", "/api/executions/1", 405, "GET"},
		{"POST", "/api/health", 405, "GET"},
		{"PUT", "/api/routines", 405, "GET, POST"},
		{"POST", "/api/settings/ai", 405, "GET, PUT"},
		{"GET", "/api/executions/1/restart", 404, ""},
		{"GET", "/api/executions/1/2", 404, ""},
		{"GET", "/api/executions/", 404, ""},
		{"PUT", "/api/credentials/openai_api_key", 404, ""},
		{"PUT", "/api/settings/execution", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/api/executions/x", 422, ""},
		{"GET", "/api/executions/1.5", 422, ""},
		{"GET", "/api/executions/99999999999999999999999", 404, ""},
		{"GET", "/api/executions/-1", 404, ""},
		{"GET", "/api/documents/99999999999999999999999/why", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			got := ask(t, f, tt.method, tt.path, "")
			if got.status != tt.status || got.header.Get("Allow") != tt.allow {
				t.Errorf("%d with Allow %q, want %d with %q", got.status, got.header.Get("Allow"), tt.status, tt.allow)
			}
		})
	}
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
