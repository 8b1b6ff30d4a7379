package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"berth/broker"
	"berth/transport/httpguard"
)

// refusedError is what the operator API refused, with its status.
type refusedError struct {
	status  int
	refusal *broker.Refusal
}

func (e *refusedError) Error() string { return e.refusal.Error() }
func (e *refusedError) Unwrap() error { return e.refusal }

// get asks the operator API in the name of who looks at the page.
func (d *Dashboard) get(r *http.Request, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return d.ask(r, http.MethodGet, path, nil, into)
}

// gate reports how the operator API refuses the caller a subject; nil: it does
// not. One record at most is read.
func (d *Dashboard) gate(r *http.Request, path string) error {
	return d.get(r, path, url.Values{"pageNumber": {"1"}, "pageSize": {"1"}, "limit": {"1"}, "status": {"Running"}}, nil)
}

// change changes something through the operator API.
func (d *Dashboard) change(r *http.Request, path string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("a change of %s: %w", path, err)
	}
	return d.ask(r, http.MethodPost, path, encoded, into)
}

// send is change by another method, of which nothing is read but a refusal.
func (d *Dashboard) send(r *http.Request, method, path string, body any) error {
	if method == http.MethodPost {
		return d.change(r, path, body, nil)
	}
	return d.ask(r, method, path, nil, nil)
}

// identity are the headers that say who asks and from which page.
var identity = []string{"Authorization", "X-Token", "X-Api-Key", "Cookie", "Origin", "Sec-Fetch-Site"}

func (d *Dashboard) ask(r *http.Request, method, path string, body []byte, into any) error {
	ctx, cancel := bounded(r.Context(), method)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	q.Host, q.RemoteAddr, q.TLS, q.RequestURI = r.Host, r.RemoteAddr, r.TLS, path
	for _, name := range identity {
		if values := r.Header.Values(name); len(values) > 0 {
			q.Header[name] = values
		}
	}
	if method != http.MethodGet {
		q.Header.Set("Content-Type", "application/json")
		if token := d.Guard.CSRF(r); token != "" {
			q.Header.Set(httpguard.CSRFHeader, token)
		}
	}
	a := &answer{header: http.Header{}, status: http.StatusOK}
	d.API.ServeHTTP(a, q)
	if a.status >= 300 {
		var said httpguard.ErrorBody
		if err := json.Unmarshal(a.body.Bytes(), &said); err != nil || said.Message == "" {
			return fmt.Errorf("ask %s: status %d without a reason", path, a.status)
		}
		return &refusedError{a.status, broker.Refuse(said.Code, said.Message, map[string]any{"Violations": said.Violations()})}
	}
	if into == nil {
		return nil
	}
	dec := json.NewDecoder(&a.body)
	dec.UseNumber()
	if err := dec.Decode(into); err != nil && err != io.EOF {
		return fmt.Errorf("what %s answered: %w", path, err)
	}
	return nil
}

// answer takes what the operator API writes.
type answer struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}
