package rest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/transport/rest"
)

func TestClientTellsFailuresApart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		check   func(error) bool
	}{
		{"a broker's refusal", newFake(t).handler(nil).ServeHTTP, func(err error) bool {
			var api *rest.APIError
			return errors.As(err, &api) && api.Status == 401 && api.Code == "unauthorized"
		}},
		{"another server's page", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, func(err error) bool { return errors.Is(err, rest.ErrForeign) }},
		{"another server's success", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, func(err error) bool { return errors.Is(err, rest.ErrForeign) }},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"a":1}`))
		}, func(err error) bool { return err != nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := httptest.NewServer(tc.handler)
			defer srv.Close()
			c := rest.NewClient(srv.URL, "wrong-token")
			defer c.Close()
			_, err := c.Get(t.Context(), "/api/v1/status", nil)
			if !tc.check(err) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), "wrong-token") {
				t.Error("the error holds the token")
			}
		})
	}
}

func TestClientGivesItsTokenToNobodyElse(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	srv := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c := rest.NewClient(srv.URL, "t0")
	defer c.Close()
	if _, err := c.Post(t.Context(), "/api/v1/token/rotate", nil); !errors.Is(err, rest.ErrForeign) {
		t.Fatalf("%v", err)
	}
}

func TestClientKnowsThatNothingListens(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c := rest.NewClient(srv.URL, "t0")
	defer c.Close()
	if _, err := c.Get(t.Context(), "/api/v1/status", nil); !errors.Is(err, rest.ErrNotRunning) {
		t.Fatalf("%v", err)
	}
}

func TestClientStopsWithItsContext(t *testing.T) {
	reached := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	c := rest.NewClient(srv.URL, "t0")
	defer c.Close()
	if _, err := c.Get(ctx, "/api/v1/status", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
}
