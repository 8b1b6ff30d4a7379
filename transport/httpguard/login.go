package httpguard

import (
	"crypto/subtle"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/broker"
)

// Login is how a browser gets a session and how far that reaches. A session is a
// token in a cookie that scripts cannot read and that no other site's page can
// send. It counts only where no credential header is present.
type Login struct {
	// Paths are the places where a cookie is good: each and everything below it;
	// of the root only the page itself. It is never good for /mcp and /rpc.
	Paths []string
	// Issue gives a session for a credential token.
	Issue func(token string) (Session, bool)
	// End makes a session token no good any more.
	End func(session string)
	// CSRF is what a page of a session sends back with each change.
	CSRF func(session string) string
	// Begin counts an attempt from an address, or refuses it; succeeded takes it
	// out of the count. Nil: attempts are not limited.
	Begin func(from netip.Addr) (succeeded func(), refusal *broker.Refusal)
	// Refused may answer in place of the error body, for people; true: it has.
	Refused func(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) bool
}

// Session is a session token and when it ends.
type Session struct {
	Token   string
	Expires time.Time
}

// The names under which a page sends the CSRF token of its session.
const (
	CSRFHeader = "X-Csrf-Token"
	CSRFField  = "csrf"
)

// maxForm bounds a form of a page, in bytes.
const maxForm = 1 << 20

const cookieName = "berth_session"

// cookieFor is the name of the cookie at the address that a request is for:
// cookies do not tell the ports of a host apart, and two brokers may run on one.
func cookieFor(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		return cookieName + "_" + port
	}
	return cookieName
}

// Authenticate exchanges a credential token for a session.
func (g *Guard) Authenticate(r *http.Request, token string) (Session, *broker.Refusal) {
	session, refusal := g.logIn(r, token)
	if refusal != nil {
		g.counted(refusal.Code)
	}
	return session, refusal
}

func (g *Guard) logIn(r *http.Request, token string) (Session, *broker.Refusal) {
	succeeded := func() {}
	if g.login.Begin != nil {
		var refusal *broker.Refusal
		if succeeded, refusal = g.login.Begin(from(r)); refusal != nil {
			return Session{}, refusal
		}
	}
	if g.login.Issue != nil && token != "" {
		if s, ok := g.login.Issue(token); ok {
			succeeded()
			return s, nil
		}
	}
	return Session{}, broker.Refuse(broker.CodeUnauthorized, "This is no valid credential.", nil)
}

// from is the address of who sent a request; the zero address is a place like
// any other.
func from(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(host)
	return addr.WithZone("")
}

// SetSession gives the browser a session.
func SetSession(w http.ResponseWriter, r *http.Request, s Session) {
	http.SetCookie(w, &http.Cookie{Name: cookieFor(r), Value: s.Token, Path: "/", Expires: s.Expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
}

// Logout ends the session of a request, here and in the browser.
func (g *Guard) Logout(w http.ResponseWriter, r *http.Request) {
	for _, c := range r.CookiesNamed(cookieFor(r)) {
		if g.login.End != nil {
			g.login.End(c.Value)
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieFor(r), Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
}

// CSRF gives what a page for this request puts into its forms; empty when the
// request came without a session.
func (g *Guard) CSRF(r *http.Request) string {
	in, _ := r.Context().Value(admittedKey{}).(admitted)
	if in.session == "" || g.login.CSRF == nil {
		return ""
	}
	return g.login.CSRF(in.session)
}

// cookie reads a session, where it is good: on the paths that were named, for
// the pages of this very origin.
func (g *Guard) cookie(r *http.Request) (admitted, bool) {
	here := func(place string) bool { return below(r.URL.Path, place) }
	if !slices.ContainsFunc(g.login.Paths, here) || here("/mcp") || here("/rpc") || !sameOrigin(r) {
		return admitted{}, false
	}
	found := r.CookiesNamed(cookieFor(r))
	if len(found) != 1 || found[0].Value == "" {
		return admitted{}, false
	}
	caller, ok := g.authenticate(SessionToken, found[0].Value)
	return admitted{caller: caller, session: found[0].Value}, ok
}

// below reports whether a path is a place or below it. A path that another
// reader might take for another one is nowhere.
func below(path, place string) bool {
	if strings.Contains(path, "//") || slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return false
	}
	if place == "/" {
		return path == "/"
	}
	place = strings.TrimSuffix(place, "/")
	return path == place || strings.HasPrefix(path, place+"/")
}

// sameOrigin reports whether a browser sends a request for a page of the
// broker's own origin, or for its user. Another port of this machine is the same
// site, whose pages a browser gives the cookie to, and not the same origin.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}

func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// changes lets a change of a session through that carries its CSRF token, in
// the header or in a form, which it reads. It has answered when it gives false.
func (g *Guard) changes(w http.ResponseWriter, r *http.Request, session string) bool {
	given := r.Header.Get(CSRFHeader)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "application/x-www-form-urlencoded" {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			abandonBody(w)
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				g.refuse(w, r, http.StatusRequestEntityTooLarge, TooLarge(large.Limit))
			} else {
				g.refuse(w, r, http.StatusBadRequest, incomplete("The form could not be read."))
			}
			return false
		}
		readDeadline(w, time.Time{})
		if given == "" {
			given = r.PostForm.Get(CSRFField)
		}
	}
	want := ""
	if g.login.CSRF != nil {
		want = g.login.CSRF(session)
	}
	if want != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1 {
		return true
	}
	g.refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeCSRF,
		"A change by a browser's session needs its token, in the header "+CSRFHeader+" or the field "+CSRFField+"; nothing was done.", nil))
	return false
}
