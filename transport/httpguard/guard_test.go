package httpguard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

const token = "correct-token"

func guard(o httpguard.Options) *httpguard.Guard {
	o.Authenticate = httpguard.Bearers(func(t string) (broker.Principal, bool) { return broker.LocalOperator, t == token })
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
		{"loopback beside 127.0.0.1", []string{"Bearer " + token}, "127.9.9.9", nil, 200},
		{"loopback full domain name in another case", []string{"Bearer " + token}, "LOCALHOST.:1", nil, 200},
		{"loopback origin on the port of the request", []string{"Bearer " + token}, "localhost:7420", []string{"http://localhost:7420"}, 200},
		{"loopback origin on another port", []string{"Bearer " + token}, "localhost:7420", []string{"http://localhost:6274"}, 200},
		{"IPv6 loopback origin", []string{"Bearer " + token}, "[::1]:7420", []string{"http://[::1]:3000"}, 200},
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
		{"name that begins with localhost", []string{"Bearer " + token}, "localhost.evil.example", nil, 403},
		{"address of a network", []string{"Bearer " + token}, "192.168.0.1:7420", nil, 403},
		{"configured origin on a rebound name", []string{"Bearer " + token}, "evil.example", []string{"https://console.example.com"}, 403},
		{"loopback origin under another name than the request's", []string{"Bearer " + token}, "localhost", []string{"http://127.0.0.1"}, 403},
		{"loopback origin of a request for a configured host", []string{"Bearer " + token}, "berth.example.com", []string{"http://localhost:3000"}, 403},
		{"a configured host is no origin", []string{"Bearer " + token}, "berth.example.com", []string{"https://berth.example.com"}, 403},
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
			body := refusedBody(t, w)
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

// refusedBody is the error body of an answer.
func refusedBody(t *testing.T, w *httptest.ResponseRecorder) httpguard.ErrorBody {
	t.Helper()
	var body httpguard.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return body
}

// reads answers with the body that it read, or with why not.
func reads(limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, status, refusal := httpguard.ReadBody(w, r, limit)
		if refusal != nil {
			httpguard.WriteError(w, status, "", refusal)
			return
		}
		_, _ = w.Write(body)
	})
}

func TestBodyIsLimited(t *testing.T) {
	for _, tc := range []struct {
		name           string
		guard, handler int64
		body           string
		declared       bool
		want           int
	}{
		{"at the guard's limit", 8, 0, "12345678", true, 200},
		{"streamed at the guard's limit", 8, 0, "12345678", false, 200},
		{"declared over the guard's limit", 8, 0, "123456789", true, 413},
		{"streamed over the guard's limit", 8, 0, "123456789", false, 413},
		{"at the handler's own limit", 8, 4, "1234", true, 200},
		{"declared over the handler's own limit", 8, 4, "12345", true, 413},
		{"a handler cannot take more than its guard", 8, 100, "123456789", false, 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(tc.body))
			if !tc.declared {
				r.ContentLength = -1
			}
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			guard(httpguard.Options{MaxBody: tc.guard}).Wrap(reads(tc.handler)).ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Fatalf("status %d, want %d", w.Code, tc.want)
			}
			if tc.want == 200 && w.Body.String() != tc.body {
				t.Errorf("body %q", w.Body)
			}
			if tc.want == 413 && (refusedBody(t, w).Code != broker.CodeRequestTooLarge || w.Header().Get("Connection") != "close") {
				t.Errorf("header %v, body %s", w.Header(), w.Body)
			}
		})
	}
}

// Who sends many large bodies at once fills the memory of the broker with them,
// slowly or not, so there is a limit over all; what is usual does not count.
func TestBodiesThatAreReadTogetherAreLimited(t *testing.T) {
	h := guard(httpguard.Options{MaxBody: 8 << 20, MaxReading: 2 << 20}).Wrap(reads(0))
	send := func(body io.Reader, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost/", body)
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	zeros := func(n int64) io.Reader { return io.LimitReader(zero{}, n) }
	for name, length := range map[string]int64{"declared": 2 << 20, "streamed": -1} {
		asked := false
		meanwhile := readerFunc(func([]byte) (int, error) { // what is before it has been read
			asked = true
			if w := send(zeros(3<<20), -1); w.Code != 429 || refusedBody(t, w).Code != broker.CodeOverloaded || w.Header().Get("Connection") != "close" || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: a body that finds no room: status %d, header %v", name, w.Code, w.Header())
			}
			if w := send(zeros(1<<20), 1<<20); w.Code != 200 {
				t.Errorf("%s: a body of a MiB: status %d, %s", name, w.Code, w.Body)
			}
			return 0, io.EOF
		})
		if w := send(io.MultiReader(zeros(2<<20), meanwhile), length); w.Code != 200 || !asked {
			t.Errorf("%s: the body that was there first: status %d", name, w.Code)
		}
		if w := send(zeros(3<<20), 3<<20); w.Code != 200 {
			t.Errorf("%s: a body after it: status %d, %s", name, w.Code, w.Body)
		}
	}
}

// zero reads zeros without an end.
type zero struct{}

func (zero) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestBodyThatDoesNotArriveIsToldApart(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"too late", os.ErrDeadlineExceeded, http.StatusRequestTimeout},
		{"cut short", io.ErrUnexpectedEOF, http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "http://localhost/", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(tc.err)))
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			guard(httpguard.Options{}).Wrap(reads(0)).ServeHTTP(w, r)
			if w.Code != tc.want || refusedBody(t, w).Code != broker.CodeRequestIncomplete || w.Header().Get("Connection") != "close" {
				t.Errorf("status %d, header %v, body %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// net/http would read what is left of the body before it sends the answer.
func TestConnectionOfARefusedBodyIsClosed(t *testing.T) {
	h := guard(httpguard.Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	for body, want := range map[string]string{"x": "close", "": ""} {
		r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 401 || w.Header().Get("Connection") != want {
			t.Errorf("body %q: status %d, Connection %q", body, w.Code, w.Header().Get("Connection"))
		}
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

// deaf is a client that takes nothing.
type deaf struct{ http.ResponseWriter }

func (deaf) FlushError() error { return io.ErrClosedPipe }

func TestRecoverPassesTheErrorOfAFlushOn(t *testing.T) {
	h := httpguard.Recover(slog.New(slog.DiscardHandler), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != io.ErrClosedPipe {
			t.Errorf("got %v", err)
		}
	}))
	h.ServeHTTP(deaf{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
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
