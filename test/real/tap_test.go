package real

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tap keeps the messages that a CLI sends to Berth, over either way.
type tap struct {
	t      *testing.T
	record string // a file, over stdio
	mu     sync.Mutex
	lines  []string // over HTTP
}

// startTap puts a tap before an entry. Over stdio it is a process of its own
// that no signal ends, so that what the CLI says last is kept.
func startTap(t *testing.T, at entry) (*tap, entry) {
	t.Helper()
	p := &tap{t: t}
	if at.url == "" {
		p.record = filepath.Join(t.TempDir(), "input")
		at.line = append([]string{"sh", "-c", `trap "" INT TERM; tee -a "$0" | "$@"`, p.record}, at.line...)
		return p, at
	}
	target, err := url.Parse(at.url)
	mustNot(t, "tap", err)
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{DisableKeepAlives: true},
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if len(body) > 0 {
			p.mu.Lock()
			p.lines = append(p.lines, string(body))
			p.mu.Unlock()
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	at.url = server.URL + target.Path
	return p, at
}

// heard is a message that the CLI sent.
type heard struct {
	ID     json.RawMessage
	Method string
	Params struct {
		RequestID json.RawMessage
		Name      string
	}
	Result struct{ Action string }
}

func (p *tap) heard() (all []heard) {
	p.t.Helper()
	p.mu.Lock()
	lines := p.lines
	p.mu.Unlock()
	if p.record != "" {
		lines = readLines(p.t, p.record)
	}
	for _, line := range lines {
		var m heard
		unmarshal(p.t, line, &m)
		all = append(all, m)
	}
	return all
}
