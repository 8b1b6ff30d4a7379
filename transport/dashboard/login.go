package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

// open are the handlers that ask for no credential: the login and its files.
func (d *Dashboard) open() (map[string]http.Handler, error) {
	out := map[string]http.Handler{"/login": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.Guard.AdmitOpen(w, r) {
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			httpguard.Unread(w, r)
			d.loginForm(w, r)
		case http.MethodPost:
			d.login(w, r)
		default:
			httpguard.Unread(w, r)
			w.Header().Set("Allow", "GET, POST")
			d.showLogin(w, http.StatusMethodNotAllowed, "/", "")
		}
	})}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return nil, fmt.Errorf("the static files: %w", err)
	}
	for _, e := range entries {
		content, err := fs.ReadFile(staticFiles, path.Join("static", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("the static files: %w", err)
		}
		out["/login/"+e.Name()] = d.file(e.Name(), content)
	}
	return out, nil
}

var fileTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// file serves one static file. A browser may keep it, and asks each time
// whether it is still the same.
func (d *Dashboard) file(name string, content []byte) http.Handler {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.Guard.AdmitOpen(w, r) {
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET")
			httpguard.Refuse(w, r, http.StatusMethodNotAllowed, broker.Refuse(broker.CodeMethodNotAllowed, "This file can only be read.", nil))
			return
		}
		httpguard.Unread(w, r)
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "private, no-cache")
		h.Set("ETag", tag)
		h.Set("Content-Type", fileTypes[path.Ext(name)])
		httpguard.Deadline(w)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}

func (d *Dashboard) loginForm(w http.ResponseWriter, r *http.Request) {
	d.showLogin(w, http.StatusOK, r.URL.Query().Get("next"), "")
}

// login exchanges a token for a session and goes on to where the browser was
// going.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	if !form(w, r) {
		d.showLogin(w, http.StatusBadRequest, "/", "The form could not be read.")
		return
	}
	next := r.PostForm.Get("next")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default: // another page, of another port of this machine at best, logs its reader in
		d.showLogin(w, http.StatusForbidden, next, "Only this page logs in here.")
		return
	}
	session, refusal := d.Guard.Authenticate(r, strings.TrimSpace(r.PostForm.Get("token")))
	if refusal != nil {
		status := http.StatusUnauthorized
		if refusal.Code != broker.CodeUnauthorized {
			status = http.StatusTooManyRequests
		}
		d.showLogin(w, status, next, refusal.Message)
		return
	}
	httpguard.SetSession(w, r, session)
	httpguard.Deadline(w)
	http.Redirect(w, r, local(next), http.StatusSeeOther)
}

func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	d.Guard.Logout(w, r)
	httpguard.Deadline(w)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// local gives an address of the dashboard's own pages, whatever was asked for.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") || !Owns(u.Path) || u.Path == "/login" || u.Path == "/logout" || u.Path == "/live" {
		return "/"
	}
	return u.RequestURI()
}

func (d *Dashboard) showLogin(w http.ResponseWriter, status int, next, problem string) {
	p := &page{Title: "Log in", Parts: []part{{ID: "login", Name: "login", Data: map[string]any{"Next": local(next), "Problem": problem}}}}
	if err := p.render(); err != nil {
		panic(err)
	}
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "page", p); err != nil {
		panic(fmt.Errorf("render the login: %w", err))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeHTML(w, status, body.Bytes())
}

// Refused answers in place of a guard's error body where a person at a browser
// was refused; it is [httpguard.Login].Refused.
func (d *Dashboard) Refused(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) bool {
	if !Owns(r.URL.Path) || r.URL.Path == "/live" || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	if status == http.StatusUnauthorized {
		next := "/"
		if r.Method == http.MethodGet {
			next = r.URL.RequestURI()
		}
		d.showLogin(w, status, next, "")
		return true
	}
	d.refuse(w, r, status, refusal)
	return true
}
