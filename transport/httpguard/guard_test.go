package httpguard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

const token = "correct-token"

func guard(o httpguard.Options) *httpguard.Guard {
	o.Authenticate = func(t string) (broker.Principal, bool) { return broker.LocalOperator, t == token }
	return httpguard.New(o)
}

// untouchable is a body that must not be read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body of an unauthenticated request was read")
	return 0, io.EOF
}

func TestGuardLetsThroughOnlyWhatItShould(t *testing.T) {
	g := guard(httpguard.Options{Hosts: []string{"Berth.Example.com"}, Origins: []string{"https://console.example.com"}})
	for _, tc := range []struct {
		name    string
		auth    []string
		host    string
		origins []string
		want    int
	}{
		{"good token", []string{"Bearer " + token}, "127.0.0.1:7420", nil, 200},
		{"scheme in another case", []string{"bearer " + token}, "localhost", nil, 200},
		{"IPv6 loopback", []string{"Bearer " + token}, "[::1]:7420", nil, 200},
		{"configured host in another case with a port", []string{"Bearer " + token}, "berth.example.COM:443", nil, 200},
		{"full domain name", []string{"Bearer " + token}, "berth.example.com.", nil, 200},
		{"loopback origin", []string{"Bearer " + token}, "localhost:7420", []string{"http://localhost:6274"}, 200},
		{"configured origin", []string{"Bearer " + token}, "localhost", []string{"https://console.example.com"}, 200},
		{"no header", nil, "localhost", nil, 401},
		{"empty token", []string{"Bearer "}, "localhost", nil, 401},
		{"wrong token", []string{"Bearer wrong"}, "localhost", nil, 401},
		{"another scheme", []string{"Basic " + token}, "localhost", nil, 401},
		{"token without a scheme", []string{token}, "localhost", nil, 401},
		{"two headers, one good", []string{"Bearer " + token, "Bearer wrong"}, "localhost", nil, 401},
		{"bad token is told before a bad host", []string{"Bearer wrong"}, "evil.example", []string{"https://evil.example"}, 401},
		{"rebound name", []string{"Bearer " + token}, "evil.example:7420", nil, 403},
		{"name that begins like loopback", []string{"Bearer " + token}, "127.0.0.1.evil.example", nil, 403},
		{"empty host", []string{"Bearer " + token}, "", nil, 403},
		{"foreign origin", []string{"Bearer " + token}, "localhost", []string{"https://evil.example"}, 403},
		{"origin null", []string{"Bearer " + token}, "localhost", []string{"null"}, 403},
		{"origin of another scheme", []string{"Bearer " + token}, "localhost", []string{"file://localhost"}, 403},
		{"origin that hides its host", []string{"Bearer " + token}, "localhost", []string{"http://localhost@evil.example"}, 403},
		{"two origins", []string{"Bearer " + token}, "localhost", []string{"http://localhost", "https://evil.example"}, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reached := false
			h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				if p, ok := httpguard.Principal(r.Context()); !ok || p != broker.LocalOperator {
					t.Errorf("principal %v %v", p, ok)
				}
			}))
			r := httptest.NewRequest("POST", "/x", nil)
			if tc.want != 200 {
				r.Body = io.NopCloser(untouchable{t})
			}
			r.Host = tc.host
			r.Header["Authorization"] = tc.auth
			if tc.origins != nil {
				r.Header["Origin"] = tc.origins
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.want || reached != (tc.want == 200) {
				t.Fatalf("status %d, handler reached %v; want %d", w.Code, reached, tc.want)
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
				t.Error("the security headers are missing")
			}
			if tc.want == 200 {
				return
			}
			var body httpguard.ErrorBody
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if want := map[int]string{401: "Unauthorized", 403: "Forbidden"}[tc.want]; body.Error != want || body.Code == "" || body.Message == "" {
				t.Errorf("body %+v", body)
			}
			if tc.want == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Error("401 without WWW-Authenticate: Bearer")
			}
			if strings.Contains(w.Body.String(), token) {
				t.Error("the answer echoes the token")
			}
		})
	}
}

func TestGuardWithoutAuthenticatorRefusesEverybody(t *testing.T) {
	h := httpguard.New(httpguard.Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 401 {
		t.Fatalf("status %d", w.Code)
	}
}

func TestGuardLimitsTheBody(t *testing.T) {
	h := guard(httpguard.Options{MaxBody: 8}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			httpguard.WriteError(w, http.StatusRequestEntityTooLarge, "", httpguard.TooLarge(8))
		}
	}))
	for _, tc := range []struct {
		name     string
		body     string
		declared bool
		want     int
	}{
		{"at the limit", "12345678", true, 200},
		{"declared over it", "123456789", true, 413},
		{"streamed over it", "123456789", false, 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(tc.body))
			if !tc.declared {
				r.ContentLength = -1
			}
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Fatalf("status %d, want %d", w.Code, tc.want)
			}
		})
	}
}

func TestRecoverAnswersNeutrallyAndLogs(t *testing.T) {
	var log bytes.Buffer
	h := httpguard.Recover(slog.New(slog.NewTextHandler(&log, nil)), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("the-inside-of-the-house")
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/some/path", nil))
	if w.Code != 500 || strings.Contains(w.Body.String(), "house") || strings.Contains(w.Body.String(), "goroutine") {
		t.Fatalf("status %d, body %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "the-inside-of-the-house") || !strings.Contains(log.String(), "/some/path") {
		t.Errorf("log %q", log.String())
	}
}

func TestRecoverCutsAnAnswerThatHasBegun(t *testing.T) {
	srv := httptest.NewServer(httpguard.Recover(slog.New(slog.DiscardHandler), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"half":`)
		_ = http.NewResponseController(w).Flush()
		panic("too late")
	})))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Fatalf("half an answer arrived as a whole one: %q", body)
	}
}

func TestWriteErrorSaysWhenToRetry(t *testing.T) {
	w := httptest.NewRecorder()
	httpguard.WriteError(w, http.StatusTooManyRequests, "", broker.Refuse(broker.CodeOverloaded, "Full.", nil).Retry(1500*time.Millisecond))
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Fatalf("status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}
