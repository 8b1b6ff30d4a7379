package rest_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"berth/broker"
	"berth/transport/rest"
)

// served runs the API over i and gives a client of it.
func served(t *testing.T, i rest.Inspect) *rest.Client {
	t.Helper()
	srv := httptest.NewServer(newFake(t).handler(nil, func(o *rest.Options) { o.Inspect = i }))
	c := rest.NewClient(srv.URL, "t0")
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

func TestABackupIsSentWholeAndClosed(t *testing.T) {
	i := &fakeInspect{}
	srv := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://localhost/api/v1/backup", nil)
	r.Header.Set("Authorization", "Bearer t0")
	newFake(t).handler(nil, func(o *rest.Options) { o.Inspect = i }).ServeHTTP(srv, r)
	if srv.Header().Get("Content-Type") != "application/zip" || srv.Header().Get("Content-Disposition") != "attachment; filename=b.zip" || srv.Header().Get("Content-Length") != "10" {
		t.Errorf("headers %v", srv.Header())
	}
	if srv.Body.String() != "PK-archive" || i.closed != 1 {
		t.Errorf("body %q, closed %d times", srv.Body, i.closed)
	}
}

func TestADownloadSaysHowItEnded(t *testing.T) {
	refused := func(code broker.Code) error { return broker.Refuse(code, "No.", nil) }
	for _, tt := range []struct {
		name, path string
		inspect    rest.Inspect
		want       string // of the body; empty: an error
		code       broker.Code
		status     int
	}{
		{"backup", "/api/v1/backup", &fakeInspect{}, "PK-archive", "", 0},
		{"dump", "/api/v1/journal/dump", &fakeInspect{}, `"Results":true`, "", 0},
		{"dump that is cut", "/api/v1/journal/dump", &fakeInspect{cut: true}, "", "", 0},
		{"another backup", "/api/v1/backup", &fakeInspect{err: refused(broker.CodeBackupInProgress)}, "", broker.CodeBackupInProgress, 409},
		{"a copy that fails", "/api/v1/backup", &fakeInspect{err: refused(broker.CodeBackupFailed)}, "", broker.CodeBackupFailed, 500},
		{"a copy that is not sound", "/api/v1/backup", &fakeInspect{err: refused(broker.CodeBackupVerify)}, "", broker.CodeBackupVerify, 500},
		{"no journal", "/api/v1/backup", nil, "", broker.CodeNotFound, 404},
		{"no journal to dump", "/api/v1/journal/dump", nil, "", broker.CodeNotFound, 404},
		{"no journal to explain from", "/api/v1/jobs/job_1/explain", nil, "", broker.CodeNotFound, 404},
		{"no such job", "/api/v1/jobs/job_1/explain", &fakeInspect{err: fmt.Errorf("read: %w", broker.ErrJobNotFound)}, "", broker.CodeJobNotFound, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			err := served(t, tt.inspect).Download(t.Context(), tt.path, url.Values{"results": {"true"}}, &b)
			if tt.want != "" {
				if err != nil || !strings.Contains(b.String(), tt.want) {
					t.Fatalf("%v, %q", err, &b)
				}
				return
			}
			var api *rest.APIError
			if err == nil || errors.As(err, &api) != (tt.code != "") || api != nil && (api.Code != tt.code || api.Status != tt.status) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestALookAtTheJournalIsBounded(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/journal/check":                    `"Unseen":[]`,
		"/api/v1/journal/check?withinSeconds=0":    `"Unseen":[]`,
		"/api/v1/journal/check?withinSeconds=5":    `"Unseen":["bounded true"]`,
		"/api/v1/journal/check?withinSeconds=5000": `"Unseen":["bounded true"]`,
	} {
		if status, body := ask(t, newFake(t).handler(nil), "GET", path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
}
