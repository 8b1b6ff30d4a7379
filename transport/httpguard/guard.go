package httpguard

import (
	"context"
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

// Options says what a guard lets through.
type Options struct {
	// Authenticate gives the principal that a bearer token stands for. It must
	// compare in constant time. Required: without it every request is 401.
	Authenticate func(token string) (broker.Principal, bool)
	// Hosts are names allowed in Host beside the loopback names, without port.
	Hosts []string
	// Origins are allowed in Origin beside the request's own loopback name:
	// scheme://host[:port].
	Origins []string
	// MaxBody limits a request body in bytes; zero is DefaultMaxBody.
	MaxBody int64
}

// Guard checks requests before a handler sees them.
type Guard struct {
	authenticate func(string) (broker.Principal, bool)
	hosts        map[string]bool
	origins      map[string]bool
	maxBody      int64
}

// New builds a guard.
func New(o Options) *Guard {
	g := &Guard{authenticate: o.Authenticate, hosts: map[string]bool{}, origins: map[string]bool{}, maxBody: o.MaxBody}
	for _, h := range o.Hosts {
		g.hosts[canonicalHost(h)] = true
	}
	for _, origin := range o.Origins {
		g.origins[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	if g.authenticate == nil {
		g.authenticate = func(string) (broker.Principal, bool) { return broker.Principal{}, false }
	}
	if g.maxBody <= 0 {
		g.maxBody = DefaultMaxBody
	}
	return g
}

// Wrap puts the guard before next, which finds the caller with [Principal].
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principal, ok := g.Admit(w, r); ok {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
		}
	})
}

// Admit gives the caller of r, or answers r and gives false. It is [Guard.Wrap]
// for a handler that needs no context: nothing of the request is copied.
//
// A body has [BodyWithin] from here to arrive and is cut at the guard's limit;
// [ReadBody] reads it.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (broker.Principal, bool) {
	Headers(w)
	principal, ok := g.caller(r)
	if !ok {
		Refuse(w, r, http.StatusUnauthorized, broker.Refuse(broker.CodeUnauthorized, "This request carries no valid token.", nil))
		return principal, false
	}
	host := canonicalHost(r.Host)
	if !loopback(host) && !g.hosts[host] {
		Refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "The Host of this request is not one that this broker answers to.", nil))
		return principal, false
	}
	if !g.originAllowed(r.Header["Origin"], host) {
		Refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "Pages of this Origin may not use this broker.", nil))
		return principal, false
	}
	if r.ContentLength > g.maxBody {
		Refuse(w, r, http.StatusRequestEntityTooLarge, TooLarge(g.maxBody))
		return principal, false
	}
	if r.ContentLength != 0 {
		readDeadline(w, time.Now().Add(BodyWithin))
		r.Body = http.MaxBytesReader(w, r.Body, g.maxBody)
	}
	return principal, true
}

// Refuse answers a request whose body nobody reads.
func Refuse(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) {
	if r.ContentLength != 0 {
		abandonBody(w)
	}
	WriteError(w, status, "", refusal)
}

type principalKey struct{}

// Principal gives the caller of a request that came through a guard.
func Principal(ctx context.Context) (broker.Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(broker.Principal)
	return p, ok
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

// caller is the one place that reads a credential. Where there is more than
// one kind, the first that is present decides: a bad one is not rescued by a
// good one of another kind (contracts/native.md section 1.2).
func (g *Guard) caller(r *http.Request) (broker.Principal, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 { // two are ambiguous: a proxy and we might each believe another
		return broker.Principal{}, false
	}
	scheme, token, found := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return broker.Principal{}, false
	}
	return g.authenticate(token)
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
