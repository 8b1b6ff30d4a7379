package httpguard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

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
	// Origins are allowed in Origin beside the loopback names: scheme://host[:port].
	Origins []string
	// MaxBody limits a request body in bytes; zero is DefaultMaxBody.
	MaxBody int64
	// Refuse writes a refusal; nil is WriteError with the status's usual word.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal)
}

// Guard checks requests before a handler sees them.
type Guard struct {
	authenticate func(string) (broker.Principal, bool)
	hosts        map[string]bool
	origins      map[string]bool
	maxBody      int64
	refuse       func(http.ResponseWriter, *http.Request, int, *broker.Refusal)
}

// New builds a guard.
func New(o Options) *Guard {
	g := &Guard{authenticate: o.Authenticate, hosts: map[string]bool{}, origins: map[string]bool{}, maxBody: o.MaxBody, refuse: o.Refuse}
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
	if g.refuse == nil {
		g.refuse = func(w http.ResponseWriter, _ *http.Request, status int, refusal *broker.Refusal) {
			WriteError(w, status, "", refusal)
		}
	}
	return g
}

// Wrap puts the guard before next, which finds the caller with [Principal].
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Headers(w)
		principal, ok := g.caller(r)
		if !ok {
			g.refuse(w, r, http.StatusUnauthorized, broker.Refuse(broker.CodeUnauthorized, "This request carries no valid token.", nil))
			return
		}
		if !g.hostAllowed(r.Host) {
			g.refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "The Host of this request is not one that this broker answers to.", nil))
			return
		}
		if !g.originAllowed(r.Header.Values("Origin")) {
			g.refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeOriginForbidden, "Pages of this Origin may not use this broker.", nil))
			return
		}
		if r.ContentLength > g.maxBody {
			g.refuse(w, r, http.StatusRequestEntityTooLarge, TooLarge(g.maxBody))
			return
		}
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, g.maxBody)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
	})
}

// TooLarge is the refusal of a body over limit bytes. A handler gives it when
// reading the body ends in a *http.MaxBytesError.
func TooLarge(limit int64) *broker.Refusal {
	return broker.Refuse(broker.CodeRequestTooLarge, fmt.Sprintf("The request body is over the limit of %d bytes.", limit),
		map[string]any{"LimitBytes": limit})
}

type principalKey struct{}

// Principal gives the caller of a request that came through a guard.
func Principal(ctx context.Context) (broker.Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(broker.Principal)
	return p, ok
}

// Headers sets what every answer of Berth tells a browser: nothing here is to
// be framed, sniffed, cached or read across origins.
func Headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

func (g *Guard) caller(r *http.Request) (broker.Principal, bool) {
	values := r.Header.Values("Authorization")
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

func (g *Guard) hostAllowed(host string) bool {
	name := canonicalHost(host)
	return loopback(name) || g.hosts[name]
}

func (g *Guard) originAllowed(values []string) bool {
	if len(values) == 0 { // not a browser, or a same-origin GET
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
	return loopback(canonicalHost(u.Host))
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
