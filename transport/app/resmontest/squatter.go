package resmontest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// SquatterKind is how something that is no resmon answers.
type SquatterKind string

const (
	SquatHTML   SquatterKind = "html"   // 200 with a page
	SquatJSON   SquatterKind = "json"   // 200 with an object that is not health's
	Squat401    SquatterKind = "401"    // 401 of its own
	SquatSilent SquatterKind = "silent" // accepts and says nothing
)

// A Squatter is another program on a port. It notes who came and whether they
// brought a credential.
type Squatter struct {
	port    int
	server  *http.Server
	over    chan struct{}
	once    sync.Once
	serving sync.WaitGroup

	mu   sync.Mutex // guards the rest
	seen []Request
	came int
}

// Squat takes the port of an instance that is down.
func (f *Fake) Squat(kind SquatterKind) (*Squatter, error) {
	f.mu.Lock()
	up, port := f.listener != nil, f.port
	f.mu.Unlock()
	if up || port == 0 {
		return nil, errors.New("resmontest: stop or crash the instance before its port is taken")
	}
	return NewSquatter(port, kind)
}

// NewSquatter listens on a port of 127.0.0.1; 0 is a free one.
func NewSquatter(port int, kind SquatterKind) (*Squatter, error) {
	l, err := listen(port)
	if err != nil {
		return nil, fmt.Errorf("resmontest: %w", err)
	}
	s := &Squatter{port: l.Addr().(*net.TCPAddr).Port, over: make(chan struct{})}
	s.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(kind, w, r) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.came++
			}
		}}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = s.server.Serve(l)
	}()
	return s, nil
}

func (s *Squatter) serve(kind SquatterKind, w http.ResponseWriter, r *http.Request) {
	entry := Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host, Token: TokenNone}
	for name := range r.Header {
		entry.Headers = append(entry.Headers, name)
	}
	slices.Sort(entry.Headers)
	if r.Header.Get("Authorization") != "" {
		entry.Token = TokenOther
	}
	s.mu.Lock()
	if len(s.seen) < maxRecorded {
		entry.Seq = len(s.seen) + 1
		s.seen = append(s.seen, entry)
	}
	s.mu.Unlock()
	switch kind {
	case SquatSilent:
		select {
		case <-s.over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case Squat401:
		w.Header().Set("WWW-Authenticate", `Basic realm="somebody else"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized"}`)
	case SquatJSON:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"UP","service":"somebody else","results":[],"routines":[],"papers":[]}`)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>ok</title><p>It works")
	}
}

// URL is where it listens.
func (s *Squatter) URL() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

// Requests lists the first 10,000 that came. Token is only none or other.
func (s *Squatter) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Connections is how many were accepted, with a request or without.
func (s *Squatter) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came
}

// Close frees the port and waits for what runs.
func (s *Squatter) Close() error {
	var err error
	s.once.Do(func() {
		close(s.over)
		err = s.server.Close()
		s.serving.Wait()
	})
	return err
}
