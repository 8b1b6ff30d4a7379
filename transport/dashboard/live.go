package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

// quiet is how long a stream says nothing before it shows that it lives.
const quiet = 15 * time.Second

// stream sends the live parts of a page, each when it has changed, until the
// browser leaves, its session ends or the broker stops.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	target, show := d.pageOf(r)
	if show == nil {
		d.refuse(w, r, http.StatusNotFound, broker.Refuse(broker.CodeNotFound, "There is no such page.", nil))
		return
	}
	select {
	case d.live <- struct{}{}:
		defer func() { <-d.live }()
	default:
		httpguard.WriteError(w, http.StatusTooManyRequests, "", broker.Refuse(broker.CodeOverloaded, "Too many pages are kept live; this one stays as it was loaded.", nil).Retry(time.Minute))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := streamer{w: w, sent: map[string][32]byte{}, last: d.Now()}
	if s.write(": live\n\n") != nil {
		return
	}
	for {
		p, err := show(d, target)
		if err != nil {
			_ = s.write("event: over\ndata: {}\n\n") // refused or gone: a reload tells
			return
		}
		if err := p.render(); err != nil {
			panic(err)
		}
		if s.parts(p) != nil || s.alive(d.Now()) != nil {
			return
		}
		again := time.NewTimer(d.Every) // after the work: a slow page is made less often
		select {
		case <-again.C:
		case <-r.Context().Done():
			again.Stop()
			return
		case <-d.closing:
			again.Stop()
			return
		}
	}
}

// pageOf gives the page that a stream is for, as a request of its own.
func (d *Dashboard) pageOf(r *http.Request) (*http.Request, func(*Dashboard, *http.Request) (*page, error)) {
	target, err := url.ParseRequestURI(r.URL.Query().Get("page"))
	if err != nil || target.Host != "" {
		return nil, nil
	}
	q := r.Clone(context.WithValue(r.Context(), watchedKey{}, true))
	q.URL = &url.URL{Path: target.Path, RawPath: target.RawPath, RawQuery: target.RawQuery}
	q.RequestURI, q.Form, q.PostForm = target.RequestURI(), nil, nil
	for _, route := range d.Routes() {
		if route.show == nil {
			continue
		}
		var show func(*Dashboard, *http.Request) (*page, error)
		mux := http.NewServeMux()
		mux.HandleFunc("GET "+route.Path, func(_ http.ResponseWriter, m *http.Request) { q, show = m, route.show })
		if mux.ServeHTTP(&answer{header: http.Header{}}, q); show != nil {
			return q, show
		}
	}
	return nil, nil
}

// watchedKey marks a request whose page is made for its live parts alone.
type watchedKey struct{}

// watched reports whether only the live parts of a page are wanted.
func watched(r *http.Request) bool { return r.Context().Value(watchedKey{}) != nil }

type streamer struct {
	w    http.ResponseWriter
	sent map[string][32]byte
	last time.Time
	said bool
}

// parts sends what differs from what was sent before.
func (s *streamer) parts(p *page) error {
	for _, q := range p.Parts {
		if !q.Live {
			continue
		}
		sum := sha256.Sum256([]byte(q.HTML))
		if s.sent[q.ID] == sum {
			continue
		}
		var data bytes.Buffer
		enc := json.NewEncoder(&data)
		if err := enc.Encode(struct{ ID, HTML string }{q.ID, string(q.HTML)}); err != nil {
			return fmt.Errorf("encode a part: %w", err)
		}
		if err := s.write("event: part\ndata: " + data.String() + "\n"); err != nil {
			return err
		}
		s.sent[q.ID] = sum
	}
	return nil
}

// alive shows a sign of life when nothing else was said for some time.
func (s *streamer) alive(now time.Time) error {
	if s.said {
		s.said, s.last = false, now
	}
	if now.Sub(s.last) < quiet {
		return nil
	}
	s.last = now
	return s.write(":\n\n")
}

func (s *streamer) write(text string) error {
	httpguard.Deadline(s.w)
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	s.said = true
	return http.NewResponseController(s.w).Flush()
}
