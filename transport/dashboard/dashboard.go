package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

// Jobs reads jobs as the journal has them.
type Jobs interface {
	// Jobs lists records without results, newest submission first.
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
	// JobWithoutResult reads one record; broker.ErrJobNotFound where there is none.
	JobWithoutResult(id string) (broker.Job, error)
}

// Options is what the dashboard stands on.
type Options struct {
	// Guard checks every request; its Login has [Dashboard.Refused], and Paths
	// among its places. Required.
	Guard *httpguard.Guard
	// API is the operator API behind that same guard. Required.
	API http.Handler
	// Routes are those of API: a page whose routes are not among them is left
	// out. Required.
	Routes []rest.Route
	// Jobs is required.
	Jobs Jobs
	// Sampler has the plots and the counts of jobs. Required.
	Sampler *Sampler
	// Start is what the start of this broker found.
	Start Start

	// Every is how often the live parts of an open page are made again; zero is 2 s.
	Every time.Duration
	// MaxLive is how many pages may be kept live at once; zero is 64.
	MaxLive int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log takes what a person at a browser is not told; nil discards.
	Log *slog.Logger
}

// Dashboard is the handler of its [Routes].
type Dashboard struct {
	Options
	has      map[string]bool // "METHOD path" of the operator API
	live     chan struct{}   // a token for each open stream
	closing  chan struct{}
	closed   sync.Once
	handlers map[string]http.Handler // open ones, by path
	guarded  http.Handler
}

// Paths are the places of the dashboard: where the session of a browser is good,
// beside the operator API. "/" stands for itself alone.
var Paths = []string{"/", "/logout", "/live", "/jobs", "/events", "/catalog", "/board", "/hold", "/restart", "/credentials", "/voyages", "/missions", "/backends"}

// Owns reports whether a path is the dashboard's.
func Owns(path string) bool {
	if path == "/" || path == "/login" || strings.HasPrefix(path, "/login/") {
		return true
	}
	return slices.ContainsFunc(Paths[1:], func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var templates = template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "pages/*.html"))

// New builds the dashboard.
func New(o Options) (*Dashboard, error) {
	if o.Guard == nil || o.API == nil || o.Jobs == nil || o.Sampler == nil {
		return nil, errors.New("the dashboard needs a guard, the operator API, jobs and a sampler")
	}
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.MaxLive <= 0 {
		o.MaxLive = 64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{Options: o, has: map[string]bool{}, live: make(chan struct{}, o.MaxLive), closing: make(chan struct{})}
	for _, r := range o.Routes {
		d.has[r.Method+" "+r.Path] = true
	}
	var err error
	if d.handlers, err = d.open(); err != nil {
		return nil, err
	}
	d.guarded = o.Guard.Wrap(d.mux())
	return d, nil
}

// Close ends the streams of open pages. It is idempotent and does not wait for
// their requests, which their server waits for.
func (d *Dashboard) Close() { d.closed.Do(func() { close(d.closing) }) }

// policy lets a page load what this server serves as files, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP answers the paths that are the dashboard's.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpguard.Recover(d.Log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := d.handlers[r.URL.Path]; ok {
			h.ServeHTTP(w, r)
			return
		}
		d.guarded.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
}

// Route is one row of the dashboard.
type Route struct {
	Method, Path string
	Open         bool   // no credential is asked for
	needs        string // the route of the API without which this one is not there
	show         func(*Dashboard, *http.Request) (*page, error)
	change       func(*Dashboard, *http.Request) (to string, err error)
	handle       func(*Dashboard, http.ResponseWriter, *http.Request)
}

// routes is the one table. It is a function, because pages look into it.
func routes() []Route {
	return []Route{
		{Method: "GET", Path: "/login", Open: true, handle: (*Dashboard).loginForm},
		{Method: "POST", Path: "/login", Open: true, handle: (*Dashboard).login},
		{Method: "POST", Path: "/logout", handle: (*Dashboard).logout},
		{Method: "GET", Path: "/{$}", show: (*Dashboard).overview},
		{Method: "GET", Path: "/live", handle: (*Dashboard).stream},
		{Method: "GET", Path: "/jobs", show: (*Dashboard).jobList},
		{Method: "GET", Path: "/jobs/{id}", show: (*Dashboard).job},
		{Method: "POST", Path: "/jobs/{id}/cancel", change: (*Dashboard).cancelJob},
		{Method: "GET", Path: "/events", needs: "GET /api/v1/events", show: (*Dashboard).events},
		{Method: "GET", Path: "/catalog", show: (*Dashboard).catalog},
		{Method: "GET", Path: "/board", needs: "GET /api/v1/board", show: (*Dashboard).board},
		{Method: "POST", Path: "/board", needs: "POST /api/v1/board", change: (*Dashboard).post},
		{Method: "GET", Path: "/hold", needs: "GET /api/v1/hold", show: (*Dashboard).hold},
		{Method: "POST", Path: "/hold", needs: "POST /api/v1/hold", change: (*Dashboard).changeHold},
		{Method: "GET", Path: "/restart", show: (*Dashboard).restart},
		{Method: "GET", Path: "/credentials", needs: "GET /api/v1/credentials", show: (*Dashboard).credentials},
		{Method: "POST", Path: "/credentials/{id}/revoke", needs: "POST /api/v1/credentials/{id}/revoke", change: (*Dashboard).revokeCredential},
		{Method: "GET", Path: "/backends/{name}", show: (*Dashboard).backend},
		{Method: "POST", Path: "/backends/{name}/drain", needs: "POST /api/v1/backends/{name}/drain", change: changeBackend("drain")},
		{Method: "POST", Path: "/backends/{name}/resume", needs: "POST /api/v1/backends/{name}/resume", change: changeBackend("resume")},
		{Method: "POST", Path: "/backends/{name}/restart", needs: "POST /api/v1/backends/{name}/restart", change: changeBackend("restart")},
		{Method: "GET", Path: "/voyages", needs: "GET /api/v1/voyages", show: (*Dashboard).voyageList},
		{Method: "GET", Path: "/voyages/{id}", needs: "GET /api/v1/voyages", show: (*Dashboard).voyage},
		{Method: "POST", Path: "/voyages/{id}/cancel", needs: "DELETE /api/v1/voyages/{id}", change: (*Dashboard).cancelVoyage},
		{Method: "GET", Path: "/missions/{id}", needs: "GET /api/v1/missions/{id}", show: (*Dashboard).mission},
		{Method: "POST", Path: "/missions/{id}/cancel", needs: "DELETE /api/v1/missions/{id}", change: (*Dashboard).cancelMission},
		{Method: "POST", Path: "/missions/{id}/restart", needs: "POST /api/v1/missions/{id}/restart", change: (*Dashboard).restartMission},
		{Method: "POST", Path: "/missions/{id}/retry-landing", needs: "POST /api/v1/missions/{id}/retry-landing", change: (*Dashboard).retryLanding},
	}
}

// Routes lists every row, whether or not its routes of the operator API are there.
func Routes() []Route { return routes() }

// Routes lists what the dashboard answers.
func (d *Dashboard) Routes() []Route {
	return slices.DeleteFunc(routes(), func(r Route) bool { return r.needs != "" && !d.has[r.needs] })
}

func (d *Dashboard) mux() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range d.Routes() {
		if r.Open {
			continue
		}
		mux.Handle(r.Method+" "+r.Path, d.handler(r))
		methods[r.Path] = append(methods[r.Path], r.Method)
	}
	for path, allowed := range methods {
		mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			d.refuse(w, r, http.StatusMethodNotAllowed, broker.Refuse(broker.CodeMethodNotAllowed, "This page answers to "+strings.Join(allowed, ", ")+" only.", nil))
		}))
	}
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.refuse(w, r, http.StatusNotFound, broker.Refuse(broker.CodeNotFound, "There is no such page.", nil))
	}))
	return mux
}

func (d *Dashboard) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case route.handle != nil:
			route.handle(d, w, r)
		case route.show != nil:
			p, err := route.show(d, r)
			if err == nil {
				d.write(w, r, http.StatusOK, p)
			} else if to := d.instead(r, err); to != "" {
				httpguard.Deadline(w)
				http.Redirect(w, r, to, http.StatusSeeOther)
			} else {
				d.fail(w, r, err)
			}
		default:
			if !form(w, r) {
				d.refuse(w, r, http.StatusBadRequest, broker.Refuse(broker.CodeRequestIncomplete, "The form could not be read; nothing was done.", nil))
				return
			}
			to, err := route.change(d, r)
			if err != nil {
				d.fail(w, r, err)
				return
			}
			httpguard.Deadline(w)
			http.Redirect(w, r, to, http.StatusSeeOther)
		}
	})
}

// instead is where somebody goes who may not see the first page, which everybody
// comes to: to the first that they may, or nowhere.
func (d *Dashboard) instead(r *http.Request, err error) string {
	var refused *refusedError
	if r.URL.Path != "/" || !errors.As(err, &refused) || refused.status != http.StatusForbidden {
		return ""
	}
	for _, at := range places {
		if d.sees(r, at.api) {
			return at.path
		}
	}
	return ""
}

// sees reports whether who asks may read a route of the API.
func (d *Dashboard) sees(r *http.Request, api string) bool {
	caller, in := httpguard.Caller(r.Context())
	return in && d.has["GET "+api] && (caller.Role == broker.GlobalAdministrator || d.gate(r, api) == nil)
}

// maxForm bounds a form, in bytes.
const maxForm = 1 << 20

// form reads the form of a change. Of a browser's session the guard has read it.
func form(w http.ResponseWriter, r *http.Request) bool {
	if r.PostForm == nil && r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	return r.ParseForm() == nil
}

// fail shows why a page is not there, or why nothing was changed.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	var refused *refusedError
	if errors.As(err, &refused) {
		d.refuse(w, r, refused.status, refused.refusal)
		return
	}
	if errors.Is(err, broker.ErrJobNotFound) {
		d.refuse(w, r, http.StatusNotFound, broker.Refuse(broker.CodeJobNotFound, "Job not found", nil))
		return
	}
	refusal, status := broker.AsRefusal(err), http.StatusBadRequest
	if refusal.Code == broker.CodeInternal {
		status = http.StatusInternalServerError
		d.Log.Error("a page failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	d.refuse(w, r, status, refusal)
}

func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, refusal *broker.Refusal) {
	back := "/"
	if r.URL.Path == "/" {
		back = "" // it would lead here again
	}
	if u, err := url.Parse(r.Header.Get("Referer")); err == nil && u.Host == r.Host && Owns(u.Path) {
		back = u.RequestURI()
	}
	unfit, _ := refusal.Detail["Violations"].([]string) // as ask tells them
	p := &page{Title: "Refused", Parts: []part{{ID: "refused", Name: "refused", Data: map[string]any{
		"Code": string(refusal.Code), "Message": refusal.Message, "Status": status, "Word": http.StatusText(status), "Back": back, "Typed": typed(r),
		"Violations": unfit}}}}
	d.write(w, r, status, p)
}

// typed gives back what somebody wrote into a form that was refused. Who was not
// let in is shown nothing of what came.
func typed(r *http.Request) []field {
	if _, in := httpguard.Principal(r.Context()); !in || r.Method != http.MethodPost {
		return nil
	}
	var fields []field
	for _, f := range []field{{Name: "content", Label: "What you wrote"}, {Name: "to", Label: "To"}, {Name: "reason", Label: "What you wrote"}} {
		if f.Text = r.PostForm.Get(f.Name); f.Text != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// field is one field of a form, as somebody filled it.
type field struct{ Name, Label, Text string }

// page is one page: what stands around it, and its parts in their order.
type page struct {
	Title string
	At    string // path of the navigation's entry; empty: none
	Parts []part

	Done string // what the last change did, in one of our own sentences
	Nav  []link
	Who  *who
	CSRF string
	Live string // where the live parts come from; empty: none are live
}

type who struct{ Tenant, User, Role string }

type link struct {
	Path, Name string
	Here       bool
}

// part is a piece of a page that can be made again by itself.
type part struct {
	ID, Name string // Name is of its template
	Live     bool
	Status   bool // a change of it is read out
	Data     any
	HTML     template.HTML // made of Name and Data
}

// places are the entries of the navigation, with the route of the API whose
// answer decides who sees them.
var places = []struct{ path, name, api string }{
	{"/", "Overview", "/api/v1/backends"}, {"/jobs", "Jobs", "/api/v1/jobs"}, {"/voyages", "Voyages", "/api/v1/voyages"}, {"/events", "Events", "/api/v1/events"},
	{"/catalog", "Catalog", "/api/v1/catalog"}, {"/board", "Board", "/api/v1/board"}, {"/hold", "Hold", "/api/v1/hold"},
	{"/restart", "Restart report", "/api/v1/status"}, {"/credentials", "Credentials", "/api/v1/credentials"},
}

// write renders a page whole before a byte of it is sent.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, p *page) {
	if caller, ok := httpguard.Caller(r.Context()); ok {
		p.Who = &who{caller.Tenant, caller.User, string(caller.Role)}
		p.CSRF = d.Guard.CSRF(r)
		for _, at := range places {
			if d.sees(r, at.api) {
				p.Nav = append(p.Nav, link{at.path, at.name, at.path == p.At})
			}
		}
	}
	if done := r.URL.Query().Get("done"); done != "" {
		p.Done = sentences[done]
	}
	if err := p.render(); err != nil {
		panic(err) // a template of ours is broken: a neutral 500, and the log
	}
	if slices.ContainsFunc(p.Parts, func(q part) bool { return q.Live }) && r.Method == http.MethodGet && p.Who != nil {
		p.Live = "/live?page=" + url.QueryEscape(r.URL.RequestURI())
	}
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "page", p); err != nil {
		panic(fmt.Errorf("render a page: %w", err))
	}
	writeHTML(w, status, body.Bytes())
}

func (p *page) render() error {
	for i := range p.Parts {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, p.Parts[i].Name, p.Parts[i].Data); err != nil {
			return fmt.Errorf("render a part of a page: %w", err)
		}
		p.Parts[i].HTML = template.HTML(out.String()) //nolint:gosec // it is what html/template made
	}
	return nil
}

func writeHTML(w http.ResponseWriter, status int, body []byte) {
	httpguard.Headers(w)
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	// Under no-referrer a browser would send the forms of a page with the Origin
	// "null", as from nowhere.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	httpguard.Deadline(w)
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody to tell when the browser is gone
}

// sentences are what a page says after a change; the address names one.
var sentences = map[string]string{
	"cancelled": "The job was cancelled.",
	"posted":    "The note is on the board.",
	"engaged":   "Dispatch is on hold.",
	"cleared":   "The hold was cleared.",
	"revoked":   "The credential was revoked.",

	"backend-drain":     "The backend takes no new calls.",
	"backend-resume":    "The backend takes calls again.",
	"backend-restart":   "The backend began another life.",
	"voyage-cancelled":  "The voyage was cancelled.",
	"mission-cancelled": "The mission was cancelled.",
	"mission-restarted": "The mission is pending again.",
	"landed":            "The landing was tried again.",
}

// within bounds what one page may ask for, patience a change: an agent has to
// end, or a branch to be landed.
const (
	within   = 20 * time.Second
	patience = 2 * time.Minute
)

func bounded(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if method == http.MethodGet {
		return context.WithTimeout(ctx, within)
	}
	return context.WithTimeout(ctx, patience)
}
