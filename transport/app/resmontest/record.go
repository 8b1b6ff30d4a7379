package resmontest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

const (
	maxRecorded = 10_000
	maxBody     = 64 << 10
)

// Token says what a request brought as its credential, without saying it.
type Token string

const (
	TokenNone    Token = "none"
	TokenCurrent Token = "current"
	TokenEarlier Token = "earlier" // of an earlier life of this fake
	TokenOther   Token = "other"   // of nobody that this fake knows
)

// A Request is what the fake was asked, in the order of arrival.
type Request struct {
	Seq      int    // counts from 1, over all lives
	Life     string // the runtime id that got it
	Method   string
	Path     string
	Template string // empty where no route has the path and the method
	Query    string
	Body     string // at most 64 KiB
	Host     string
	Headers  []string // canonical names, sorted
	Token    Token
	Refused  string // the guard's reason, or empty
	Fault    string // names of the faults that it met, joined by a comma
	Status   int    // 0 while it runs, and where no status line was sent
	Applied  bool   // a write took effect
	// Exposed is true when a token stood anywhere but in the Authorization header:
	// in the path, the query, the body or another header.
	Exposed bool
}

// Pair is the request's route; its Template is empty where there is none.
func (r Request) Pair() Pair { return Pair{r.Method, r.Template} }

// noted makes the entry of a request. Tokens of every life are cut out of what
// is kept.
func (f *Fake) noted(req *http.Request, body []byte) *Request {
	e := &Request{Method: req.Method, Path: req.URL.EscapedPath(), Query: req.URL.RawQuery, Host: req.Host, Token: f.presented(req.Header)}
	for name, values := range req.Header {
		e.Headers = append(e.Headers, name)
		if name != "Authorization" {
			for _, v := range values {
				_ = f.cleaned(e, v)
			}
		}
	}
	slices.Sort(e.Headers)
	e.Path, e.Query = f.cleaned(e, e.Path), f.cleaned(e, e.Query)
	e.Body = f.cleaned(e, string(body[:min(len(body), maxBody)]))
	return e
}

func (f *Fake) cleaned(e *Request, s string) string {
	for _, token := range f.tokens {
		if strings.Contains(s, token) {
			e.Exposed = true
			s = strings.ReplaceAll(s, token, "[token]")
		}
	}
	return s
}

func (f *Fake) presented(h http.Header) Token {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return TokenNone
	}
	given := bearer(values)
	switch {
	case given == "":
		return TokenOther
	case given == f.token:
		return TokenCurrent
	case slices.Contains(f.tokens, given):
		return TokenEarlier
	}
	return TokenOther
}

// bearer is the token of one well-formed Authorization header.
func bearer(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Requests lists what came over all lives, oldest first: at most 10,000, and the
// oldest went first.
func (f *Fake) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Request, len(f.record))
	for i, e := range f.record {
		out[i] = *e
		out[i].Headers = slices.Clone(e.Headers)
	}
	return out
}

// Forget empties the record. Numbers go on.
func (f *Fake) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record = nil
}

// Pairs lists the routes of the record, each once, in the order of the contract.
func (f *Fake) Pairs() []Pair {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Pair
	for _, p := range Pairs() {
		if slices.ContainsFunc(f.record, func(e *Request) bool { return e.Pair() == p }) {
			out = append(out, p)
		}
	}
	return out
}

// keep stores an entry; f.mu is held.
func (f *Fake) keep(e *Request) {
	f.seq++
	e.Seq = f.seq
	if len(f.record) == maxRecorded {
		f.record = slices.Delete(f.record, 0, maxRecorded/10)
	}
	f.record = append(f.record, e)
}

func half(b []byte) []byte { return bytes.Clone(b[:len(b)/2]) }
