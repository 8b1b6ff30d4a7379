package main

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// serveProxy is the baseline of a hop: the standard library's reverse proxy
// and nothing else. Its pool is as large as Berth's, because the default of
// two idle connections would have it dial for most calls.
func serveProxy(backend string, parent io.Reader, out io.Writer) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	proxy.Transport = &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second}
	return serveUntil(parent, out, proxy)
}
