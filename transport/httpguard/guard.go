package httpguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"berth/broker"
)

// DefaultMaxBody is the limit on a request body when Options names none, in bytes.
const DefaultMaxBody = 64 << 20

// Kind is how a credential comes.
type Kind uint8

// The kinds, in the order in which they are looked for.
const (
	Bearer       Kind = iota // Authorization: Bearer
	SessionToken             // X-Token, and the cookie
	APIKey                   // X-Api-Key
)

// credentialHeaders are the headers that hold a credential, in their order. The
// first that is present decides: a bad one is not rescued by a good one further
// down (contracts/native.md section 1.2). The names are canonical.
var credentialHeaders = [...]struct {
	name string
	kind Kind
}{{"Authorization", Bearer}, {"X-Token", SessionToken}, {"X-Api-Key", APIKey}}

// Options says what a guard lets through.
type Options struct {
	// Authenticate gives the caller that a credential stands for. It must
	// compare in constant time. Required: without it every request is 401.
	Authenticate func(kind Kind, value string) (broker.Caller, bool)
	// Hosts are names allowed in Host beside the loopback names, without port.
	Hosts []string
	// Origins are allowed in Origin beside the request's own loopback name:
	// scheme://host[:port].
	Origins []string
	// MaxBody limits a request body in bytes; zero is DefaultMaxBody.
	MaxBody int64
	// MaxReading limits what of bodies is held while they are read, over all
	// requests, in bytes; the first MiB of each does not count. Zero is four
	// times MaxBody.
	MaxReading int64
	// Login is how a browser gets and keeps a session; the zero value lets none.
	Login Login
	// Counted is told the code of each refusal; nil: nobody is.
	Counted func(broker.Code)
}

// Bearers is an Authenticate that knows bearer tokens only.
func Bearers(principal func(token string) (broker.Principal, bool)) func(Kind, string) (broker.Caller, bool) {
	return func(kind Kind, value string) (broker.Caller, bool) {
		if kind != Bearer {
			return broker.Caller{}, false
		}
		p, ok := principal(value)
		return broker.Caller{Principal: p}, ok
	}
}

// Guard checks requests before a handler sees them.
type Guard struct {
	authenticate func(Kind, string) (broker.Caller, bool)
	hosts        map[string]bool
	origins      map[string]bool
	maxBody      int64
	reading      *sum
	login        Login
	counted      func(broker.Code)
}

// New builds a guard.
func New(o Options) *Guard {
	g := &Guard{authenticate: o.Authenticate, hosts: map[string]bool{}, origins: map[string]bool{}, maxBody: o.MaxBody, login: o.Login, counted: o.Counted}
	for _, h := range o.Hosts {
		g.hosts[canonicalHost(h)] = true
	}
	for _, origin := range o.Origins {
		g.origins[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	if g.authenticate == nil {
		g.authenticate = func(Kind, string) (broker.Caller, bool) { return broker.Caller{}, false }
	}
	if g.counted == nil {
		g.counted = func(broker.Code) {}
	}
	if g.maxBody <= 0 {
		g.maxBody = DefaultMaxBody
	}
	g.reading = &sum{max: o.MaxReading}
	if g.reading.max <= 0 {
		g.reading.max = 4 * g.maxBody
	}
	return g
}

// Wrap puts the guard before next, which finds the caller with [Caller]. The
// request's context ends with the caller's credential.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, ok := g.admit(w, r)
		if !ok {
			return
		}
		ctx, done := Until(context.WithValue(r.Context(), admittedKey{}, in), in.caller)
		defer done()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// errRevoked is the cause with which the context of a request ends whose
// credential is no longer good.
var errRevoked = errors.New("the credential is no longer good")

// Until gives a context that ends with ctx, and with the life of a caller's
// credential. done must be called when the request is over.
func Until(ctx context.Context, c broker.Caller) (_ context.Context, done func()) {
	if c.Life == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.Life, func() { cancel(errRevoked) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// admitted is what the guard found out about a request.
type admitted struct {
	caller  broker.Caller
	session string // the cookie's token; empty: the caller brought a header
}

// Admit gives the caller of r, or answers r and gives false. It is [Guard.Wrap]
// for a handler that needs no context: nothing of the request is copied.
//
// A body has [BodyWithin] from here to arrive and is cut at the guard's limit;
// [ReadBody] reads it.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (broker.Caller, bool) {
	in, ok := g.admit(w, r)
	return in.caller, ok
}

func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (admitted, bool) {
	Headers(w)
	in, ok := g.caller(r)
	if !ok {
		g.refuse(w, r, http.StatusUnauthorized, broker.Refuse(broker.CodeUnauthorized, "This request carries no valid credential.", nil))
		return in, false
	}
	if !g.place(w, r) {
		return in, false
	}
	if in.session != "" && !safe(r.Method) && !g.changes(w, r, in.session) {
		return in, false
	}
	return in, true
}

// AdmitOpen is for the routes that ask for no credential: it checks Host, Origin
// and the length of the body, and has answered when it gives false.
func (g *Guard) AdmitOpen(w http.ResponseWriter, r *http.Request) bool {
	Headers(w)
	return g.place(w, r)
}

// place checks where a request comes from and limits its body.
func (g *Guard) place(w http.ResponseWriter, r *http.Request) bool {
	host := canonicalHost(r.Host)
	if !loopback(host) && !g.hosts[host] {
		g.refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "The Host of this request is not one that this broker answers to.", nil))
		return false
	}
	if !g.originAllowed(r.Header["Origin"], host) {
		g.refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "Pages of this Origin may not use this broker.", nil))
		return false
	}
	if r.ContentLength > g.maxBody {
		g.refuse(w, r, http.StatusRequestEntityTooLarge, TooLarge(g.maxBody))
		return false
	}
	if r.ContentLength != 0 {
		readDeadline(w, time.Now().Add(BodyWithin))
		r.Body = &admittedBody{http.MaxBytesReader(w, r.Body, g.maxBody), g.reading}
	}
	return true
}

// Over refuses what a request waited for when its credential ended meanwhile,
// else nil: what came of it is not for who holds that credential now. ctx is the
// request's.
func (g *Guard) Over(ctx context.Context) *broker.Refusal {
	if !errors.Is(context.Cause(ctx), errRevoked) {
		return nil
	}
	g.counted(broker.CodeUnauthorized)
	return broker.Refuse(broker.CodeUnauthorized, "The credential of this request ended while it waited. What it asked for may have been done.", nil)
}

// refuse answers as a page where the login knows one for it.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) {
	g.counted(refusal.Code)
	Unread(w, r)
	if g.login.Refused != nil && g.login.Refused(w, r, status, refusal) {
		return
	}
	Refuse(w, r, status, refusal)
}

// Refuse answers a request whose body nobody reads.
func Refuse(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) {
	Unread(w, r)
	WriteError(w, status, "", refusal)
}

type admittedKey struct{}

// Caller gives the caller of a request that came through a guard.
func Caller(ctx context.Context) (broker.Caller, bool) {
	in, ok := ctx.Value(admittedKey{}).(admitted)
	return in.caller, ok
}

// Principal is who the caller is.
func Principal(ctx context.Context) (broker.Principal, bool) {
	c, ok := Caller(ctx)
	return c.Principal, ok
}

// headers tell a browser that nothing here is to be framed, sniffed, cached or
// read across origins. The values are shared by all answers: they are replaced
// in a header, never changed.
var headers = [...]struct {
	name  string // canonical
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"X-Frame-Options", []string{"DENY"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Cache-Control", []string{"no-store"}},
}

// Headers sets the security headers, which every answer of Berth has.
func Headers(w http.ResponseWriter) {
	h := w.Header()
	for i := range headers {
		h[headers[i].name] = headers[i].value
	}
}

// caller is the one place that reads a credential.
func (g *Guard) caller(r *http.Request) (admitted, bool) {
	for _, h := range credentialHeaders {
		values, present := r.Header[h.name]
		if !present {
			continue
		}
		if len(values) != 1 { // two are ambiguous: a proxy and we might each believe another
			return admitted{}, false
		}
		value := strings.TrimSpace(values[0])
		if h.kind == Bearer {
			scheme, token, found := strings.Cut(value, " ")
			if !found || !strings.EqualFold(scheme, "Bearer") {
				return admitted{}, false
			}
			value = strings.TrimSpace(token)
		}
		if value == "" {
			return admitted{}, false
		}
		caller, ok := g.authenticate(h.kind, value)
		return admitted{caller: caller}, ok
	}
	return g.cookie(r)
}

// originAllowed lets programs pass, which send no Origin, configured pages,
// and pages that this machine itself serves under the very name that the
// request is for, from any port. A loopback page under another loopback name
// is not taken for ours.
func (g *Guard) originAllowed(values []string, host string) bool {
	if len(values) == 0 {
		return true
	}
	if len(values) != 1 {
		return false
	}
	if g.origins[strings.ToLower(values[0])] {
		return true
	}
	u, err := url.Parse(values[0])
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	origin := canonicalHost(u.Host)
	return origin == host && loopback(origin)
}

// canonicalHost is the name in host[:port], lower case, without brackets and
// without the dot of a full domain name.
func canonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func loopback(name string) bool {
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
