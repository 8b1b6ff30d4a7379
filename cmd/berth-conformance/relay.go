//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// relay stands between the suite, which sends no credential, and Berth, which
// wants one. Everything else passes as it came, a forged Host included: one of
// the scenarios tests that.
type relay struct {
	addr   string
	server *http.Server
	served chan error
	trace  *trace // nil without one
}

// startRelay begins to listen. traceTo is a file that is given all that passes;
// empty is none.
func startRelay(target, token, traceTo string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{addr: l.Addr().String(), served: make(chan error, 1)}
	var transport http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	if traceTo != "" {
		if r.trace, err = newTrace(traceTo, transport); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		transport = r.trace
	}
	r.server = &http.Server{Handler: forward(r.addr, target, token, transport), ReadHeaderTimeout: 10 * time.Second}
	go func() { r.served <- r.server.Serve(l) }()
	return r, nil
}

func forward(own, target, token string, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1,                                                      // streams
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // a caller that went away is no news
		Transport:     transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			whole(r)
			r.Out.URL.Scheme, r.Out.URL.Host = "http", target
			r.Out.Host = r.In.Host
			if r.In.Host == own {
				r.Out.Host = target
			}
			if r.In.Header.Get("Authorization") == "" {
				r.Out.Header.Set("Authorization", "Bearer "+token)
			}
		},
	}
}

// close ends the relay and what runs through it.
func (r *relay) close() error {
	err := r.server.Close()
	if served := <-r.served; !errors.Is(served, http.ErrServerClosed) && !errors.Is(served, context.Canceled) {
		err = errors.Join(err, served)
	}
	if r.trace != nil {
		err = errors.Join(err, r.trace.close())
	}
	return err
}

// whole reads the body before it is forwarded. An answer that begins while the
// last read of it is still to come closes the body, and the half-written
// request then takes its connection, and with it the answer, down.
func whole(r *httputil.ProxyRequest) {
	if r.In.Body == nil {
		return
	}
	body, err := io.ReadAll(r.In.Body)
	if err != nil { // the caller is gone; what follows fails on its own
		return
	}
	r.Out.Body = io.NopCloser(bytes.NewReader(body))
	r.Out.ContentLength = int64(len(body))
}
