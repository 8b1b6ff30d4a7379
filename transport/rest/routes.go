package rest

import (
	"math"
	"net/http"
	"slices"
	"strings"

	"berth/broker"
	"berth/transport/httpguard"
)

// Scope is who a route answers.
type Scope uint8

// The scopes. A row is for administrators unless contracts/native.md section 21
// says "caller".
const (
	Administrators Scope = iota // global ones; others get 403
	Callers                     // whoever is authenticated
	Everyone                    // nobody is asked for a credential
)

// Route is one row of the operator API. Path uses the patterns of
// http.ServeMux.
type Route struct {
	Method  string
	Path    string
	Summary string
	Scope   Scope
	// maxBody limits the body in bytes; zero leaves the guard's limit.
	maxBody int64
	handler func(*api) http.Handler
}

// routes is the one table: registration, tests and documents derive from it.
var routes = slices.Concat([]Route{
	{"GET", "/healthz", "Says ok, nothing else.", Everyone, 0, func(*api) http.Handler { return http.HandlerFunc(healthz) }},
	{"POST", "/api/v1/authenticate", "A session token for a credential token, given as Token or as Authorization: Bearer.", Everyone, maxSmallBody, answering((*api).authenticate)},
	{"GET", "/metrics", "Metrics in the Prometheus text format.", Administrators, maxSmallBody, func(a *api) http.Handler { return orNotFound(a.Metrics) }},
	{"GET", "/api/v1/status", "Version, runtime id, start, uptime and counts.", Administrators, maxSmallBody, answering((*api).status)},
	{"GET", "/api/v1/tools", "The verbs that a profile advertises (?profile=), with their effects, and the backends of which nothing is known yet.", Administrators, maxSmallBody, answering((*api).tools)},
	{"GET", "/api/v1/catalog", "Every record of the registry, and what is not served and why (?tokens=true counts what each costs in a list).", Administrators, maxSmallBody, answering((*api).catalog)},
	{"GET", "/api/v1/catalog/surface", "The tool surface of a profile (?profile=), as health shows it.", Administrators, maxSmallBody, answering((*api).surface)},
	{"GET", "/api/v1/profiles/{name}", "What a profile lists, what that costs, and what did not fit.", Administrators, maxSmallBody, answering((*api).profileView)},
	{"GET", "/api/v1/backends", "Every backend: state, runtime id, queue and counters.", Administrators, maxSmallBody, answering((*api).backends)},
	{"POST", "/api/v1/backends/{name}/drain", "Refuses new calls of a backend until it is resumed, also over a restart: {Reason}; ?waitSeconds=0..50 waits until nothing is left there.", Administrators, maxSmallBody, answering((*api).drainBackend)},
	{"POST", "/api/v1/backends/{name}/resume", "Lets a drained backend take calls again: {Reason}.", Administrators, maxSmallBody, answering((*api).resumeBackend)},
	{"POST", "/api/v1/backends/{name}/restart", "Ends the present life of a backend and begins another: {Reason}; what runs has ?waitSeconds=0..50 (10).", Administrators, maxSmallBody, answering((*api).restartBackend)},
	{"GET", "/api/v1/hold", "Whether new work is held, by whom and why, and all unfinished jobs.", Administrators, maxSmallBody, answering((*api).holdStatus)},
	{"POST", "/api/v1/hold", "Holds new work, or lets it go on: {Action, Reason, SetBy}, as dispatch_hold.", Administrators, maxSmallBody, answering((*api).changeHold)},
	{"POST", "/api/v1/restore", "Puts the journal of a backup in the place of the present one; the body is the ZIP file (X-Original-Filename names it).", Administrators, maxArchive, answering((*api).restore)},
	{"POST", "/api/v1/server/stop", "Has the broker go down; the answer lists what is unfinished.", Administrators, maxSmallBody, answering((*api).stopServer)},
	{"POST", "/api/v1/backends/{name}/accept", "Takes what a pinned backend lists now.", Administrators, maxSmallBody, answering((*api).acceptCatalog)},
	{"GET", "/api/v1/sessions", "Every live harness session.", Administrators, maxSmallBody, answering((*api).sessions)},
	{"GET", "/api/v1/jobs", "Jobs, newest first (?status=&operation=&pageNumber=&pageSize=).", Administrators, maxSmallBody, answering((*api).jobs)},
	{"GET", "/api/v1/jobs/{id}", "One job with its result; ?waitSeconds=0..50 waits for a change.", Administrators, maxSmallBody, answering((*api).job)},
	{"POST", "/api/v1/jobs/{id}/cancel", "Ends an unfinished job; Reason is required.", Administrators, maxSmallBody, answering((*api).cancelJob)},
	{"POST", "/api/v1/calls", "Calls a verb and waits for its answer or its job.", Administrators, 0, func(a *api) http.Handler { return http.HandlerFunc(a.call) }},
	{"GET", "/api/v1/journal/stats", "Size and counts of the journal.", Administrators, maxSmallBody, answering((*api).journalStats)},
	{"GET", "/api/v1/journal/check", "Reads the whole journal and reports what is wrong with it.", Administrators, maxSmallBody, answering((*api).journalCheck)},
	{"GET", "/api/v1/journal/dump", "Every record and event as lines of JSON (?results=true with results); the last line says Kind end.", Administrators, maxSmallBody, func(a *api) http.Handler { return http.HandlerFunc(a.dump) }},
	{"GET", "/api/v1/jobs/{id}/explain", "What happened to a job, in sentences.", Administrators, maxSmallBody, answering((*api).explain)},
	{"GET", "/api/v1/backup", "A verified copy of the journal as a ZIP file.", Administrators, maxSmallBody, func(a *api) http.Handler { return http.HandlerFunc(a.backup) }},
	{"GET", "/api/v1/credentials", "Every credential, revoked ones too; never a token.", Administrators, maxSmallBody, answering((*api).credentials)},
	{"POST", "/api/v1/credentials", "Makes a credential; the answer is the only one that has its Token.", Administrators, maxSmallBody, answering((*api).createCredential)},
	{"POST", "/api/v1/credentials/{id}/revoke", "Ends a credential at once, and what it has open.", Administrators, maxSmallBody, answering((*api).revokeCredential)},
	{"GET", "/api/v1/board", "A room of the coordination board (?room=&limit=&after=&participant=&full=true).", Administrators, maxSmallBody, answering((*api).readBoard)},
	{"POST", "/api/v1/board", "Posts a note.", Administrators, maxNote, answering((*api).postNote)},
	{"POST", "/api/v1/signals/{id}/read", "Marks a signal as read.", Administrators, maxSmallBody, answering((*api).readSignal)},
	{"GET", "/api/v1/vessels", "Vessels, in pages, newest first.", Administrators, maxSmallBody, records("vessels", "includeContext")},
	{"POST", "/api/v1/vessels", "Registers a repository, as add_vessel.", Administrators, maxNote, answering((*api).addVessel)},
	{"GET", "/api/v1/vessels/{id}", "One vessel.", Administrators, maxSmallBody, about("get_vessel", "vesselId")},
	{"PUT", "/api/v1/vessels/{id}", "Changes the given fields of a vessel.", Administrators, maxNote, answering((*api).updateVessel)},
	{"DELETE", "/api/v1/vessels/{id}", "Deletes a vessel, its bare clone and its code index.", Administrators, maxSmallBody, about("delete_vessel", "vesselId")},
	{"POST", "/api/v1/vessels/delete/multiple", "Deletes vessels on which nobody works, each by itself: {Ids}.", Administrators, maxNote, told[manyRecords]("delete_vessels", "")},
	{"GET", "/api/v1/vessels/{id}/code-index/status", "What there is of a vessel's code index, as index_status.", Administrators, maxSmallBody, about("index_status", "vesselId")},
	{"POST", "/api/v1/vessels/{id}/code-index/update", "Brings a vessel's code index to the present commit; 202 with the job.", Administrators, maxSmallBody, answering((*api).updateCodeIndex)},
	{"POST", "/api/v1/vessels/{id}/code-index/search", "Searches a vessel's code index, as code_search.", Administrators, maxSmallBody, answering((*api).searchCode)},
	{"POST", "/api/v1/reload", "Puts the configuration file in force as it is now; Applied, Unchanged and NeedsRestart say what became of it.", Administrators, maxSmallBody, answering((*api).reload)},
	{"POST", "/api/v1/token/rotate", "Replaces the token at once; the new one is in the state directory.", Administrators, maxSmallBody, answering((*api).rotateToken)},
	{Method: "GET", Path: "/api/v1/status/health", Summary: "Whether the broker answers, since when, and its version.", maxBody: maxSmallBody, handler: answering((*api).health)},
	{Method: "GET", Path: "/api/v1/inbox", Summary: "What waits for an operator, the gravest first.", maxBody: maxSmallBody, handler: answering((*api).inbox)},
	{Method: "GET", Path: "/api/v1/events", Summary: "Events of the journal, newest first, in pages.", maxBody: maxSmallBody, handler: answering((*api).events)},
	{Method: "DELETE", Path: "/api/v1/events/{id}", Summary: "Deletes one event; what it tells of does not change.", maxBody: maxSmallBody, handler: answering((*api).deleteEvent)},
	{Method: "GET", Path: "/api/v1/events/stream", Summary: "Events as they are written, as server-sent events; ?cursor= or Last-Event-ID goes on from there, ?live=true adds changes of jobs.", maxBody: maxSmallBody, handler: func(a *api) http.Handler { return http.HandlerFunc(a.stream) }},
	{Method: "GET", Path: "/api/v1/openapi.json", Summary: "The OpenAPI 3.1 document of these routes.", maxBody: maxSmallBody, handler: func(a *api) http.Handler { return http.HandlerFunc(a.openAPI) }},
}, dispatchRoutes)

// Routes lists the rows of the operator API, in the order in which they are
// documented.
func Routes() []Route { return slices.Clone(routes) }

// open are the routes for everyone, by path.
func (a *api) open() map[string]http.Handler {
	open := map[string]http.Handler{}
	for _, r := range routes {
		if r.Scope != Everyone {
			continue
		}
		mux, handler := http.NewServeMux(), r.handler(a)
		mux.Handle("/", otherMethod(r.Method))
		open[r.Path] = mux
		if r.Method != http.MethodGet {
			handler = a.readBody(r.maxBody, handler)
			open[r.Path] = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if a.Guard.AdmitOpen(w, q) {
					mux.ServeHTTP(w, q)
				}
			})
		} // else a probe, which comes from anywhere, and no guard bounds what comes with it: its body is not read
		mux.Handle(r.Method+" "+r.Path, handler)
	}
	return open
}

// mux registers every row that is behind the guard, an answer for a known path
// with another method, and one for unknown paths.
func (a *api) mux() http.Handler {
	mux := http.NewServeMux()
	var methods []string // of any route
	for _, r := range routes {
		if r.Scope == Everyone {
			continue
		}
		mux.Handle(r.Method+" "+r.Path, a.admit(r, a.typed(r, a.readBody(r.maxBody, r.handler(a)))))
		if !slices.Contains(methods, r.Method) {
			methods = append(methods, r.Method)
		}
	}
	// A pattern for every method of a path would contradict a wildcard beside it
	// (events/stream, events/{id}), so the mux itself is asked.
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range methods {
			if _, pattern := mux.Handler(&http.Request{Method: m, URL: r.URL, Host: r.Host}); pattern != "/" {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) > 0 {
			otherMethod(strings.Join(allowed, ", ")).ServeHTTP(w, r)
			return
		}
		notFound(w, r)
	}))
	return mux
}

// typed refuses a request whose query has a boolean or a number that is none, as
// the document of its route types them.
func (a *api) typed(route Route, next http.Handler) http.Handler {
	params := documents[route.Method+" "+route.Path].Query
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, p := range params {
			var err error
			switch {
			case p.Header:
			case p.Type == "boolean":
				_, err = truth(r, p.Name)
			case p.Type == "integer":
				_, err = number(r, p.Name, 0, math.MinInt, math.MaxInt)
			}
			if err != nil {
				a.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// pathCalls is where the call itself is judged, not its method.
const pathCalls = "/api/v1/calls"

// admit lets those through that a route is for: rows without "caller" are for
// global administrators (contracts/native.md section 21). A credential that only
// reads changes nothing here either.
func (a *api) admit(route Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := httpguard.Caller(r.Context())
		switch {
		case !ok, route.Scope == Administrators && caller.Role != broker.GlobalAdministrator:
			httpguard.Refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeGlobalAdministrator,
				"The operator API is for global administrators.", map[string]any{"Reason": broker.CodeGlobalAdministrator}))
		case caller.ReadOnly && route.Method != http.MethodGet && route.Path != pathCalls:
			httpguard.Refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeReadOnly, "This credential only reads; nothing was done.", nil))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func healthz(w http.ResponseWriter, r *http.Request) {
	httpguard.Unread(w, r)
	httpguard.Deadline(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok")) // nobody to tell when the prober is gone
}

func notFound(w http.ResponseWriter, r *http.Request) {
	httpguard.Refuse(w, r, http.StatusNotFound, broker.Refuse(broker.CodeNotFound, "There is no such route.", nil))
}

func otherMethod(allowed string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		httpguard.Refuse(w, r, http.StatusMethodNotAllowed, broker.Refuse(broker.CodeMethodNotAllowed,
			"This route answers to "+allowed+" only.", nil))
	})
}

func orNotFound(h http.Handler) http.Handler {
	if h == nil {
		return http.HandlerFunc(notFound)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the deadline of an earlier answer on this connection would count.
		httpguard.Deadline(w)
		h.ServeHTTP(w, r)
	})
}
