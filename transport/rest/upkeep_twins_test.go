package rest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/transport/rest"
)

// uploads keeps one archive.
type uploads struct {
	name, body string
	removed    int
	err        error
}

func (u *uploads) Keep(body io.Reader, name string) (string, func() error, error) {
	raw, err := io.ReadAll(body)
	u.name, u.body = name, string(raw)
	return "/kept/archive", func() error { u.removed++; return errors.New("it cannot be removed") }, errors.Join(err, u.err)
}

func TestAnArchiveIsKeptWhileItIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, body string
		err        error
		none       bool
		status     int
		path       string // given to the verb
		removed    int
	}{
		"an archive":           {kind: "application/zip", body: "PK", status: 200, path: "/kept/archive", removed: 1},
		"a kind with a detail": {kind: "application/zip; x=y", body: "PK", status: 200, path: "/kept/archive", removed: 1},
		"a path":               {kind: "application/json", body: `{"filepath":"/srv/b.zip"}`, status: 200, path: "/srv/b.zip"},
		"a text":               {kind: "text/plain", body: "PK", status: 415},
		"nothing said":         {body: "PK", status: 415},
		"bad JSON":             {kind: "application/json", body: "PK", status: 400},
		"no room":              {kind: "application/zip", body: "PK", err: errors.New("the disk is full"), status: 500},
		"nobody keeps it":      {kind: "application/zip", body: "PK", none: true, status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			f, u := newFake(t), &uploads{err: tt.err}
			f.withTwins(t)
			h := f.handler(nil, func(o *rest.Options) {
				if !tt.none {
					o.Uploads = u
				}
			})
			r := httptest.NewRequest("POST", "http://localhost/api/v1/restore", strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer t0")
			r.Header.Set("Content-Type", tt.kind)
			r.Header.Set("X-Original-Filename", "../b.zip")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.status || u.removed != tt.removed {
				t.Fatalf("status %d, removed %d: %s", w.Code, u.removed, w.Body)
			}
			if tt.path == "" {
				if len(f.requests) > 0 {
					t.Error("the verb was called")
				}
				return
			}
			var params struct{ Arguments struct{ FilePath string } }
			if err := json.Unmarshal(f.requests[0].Call.Params, &params); err != nil || params.Arguments.FilePath != tt.path {
				t.Errorf("the verb got %s", f.requests[0].Call.Params)
			}
			if tt.removed > 0 && (u.body != "PK" || u.name != "../b.zip") {
				t.Errorf("kept %+v", u)
			}
		})
	}
}
