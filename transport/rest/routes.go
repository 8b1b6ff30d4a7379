package rest

import (
	"net/http"
	"slices"
	"strings"

	"berth/broker"
	"berth/transport/httpguard"
)

// Route is one row of the operator API. Path uses the patterns of
// http.ServeMux.
type Route struct {
	Method  string
	Path    string
	Summary string
	// Open is true where no credential is asked for.
	Open bool
	// maxBody limits the body in bytes; zero leaves the guard's limit.
	maxBody int64
	handler func(*api) http.Handler
}

// routes is the one table: registration, tests and documents derive from it.
var routes = []Route{
	{"GET", "/healthz", "Says ok, nothing else.", true, 0, func(*api) http.Handler { return http.HandlerFunc(healthz) }},
	{"GET", "/metrics", "Metrics in the Prometheus text format.", false, maxSmallBody, func(a *api) http.Handler { return orNotFound(a.Metrics) }},
	{"GET", "/api/v1/status", "Version, runtime id, start, uptime and counts.", false, maxSmallBody, answering((*api).status)},
	{"GET", "/api/v1/tools", "The verbs that a profile advertises (?profile=), with their effects, and the backends of which nothing is known yet.", false, maxSmallBody, answering((*api).tools)},
	{"GET", "/api/v1/catalog", "Every record of the registry, and what is not served and why (?tokens=true counts what each costs in a list).", false, maxSmallBody, answering((*api).catalog)},
	{"GET", "/api/v1/catalog/surface", "The tool surface of a profile (?profile=), as health shows it.", false, maxSmallBody, answering((*api).surface)},
	{"GET", "/api/v1/profiles/{name}", "What a profile lists, what that costs, and what did not fit.", false, maxSmallBody, answering((*api).profileView)},
	{"GET", "/api/v1/backends", "Every backend: state, runtime id, queue and counters.", false, maxSmallBody, answering((*api).backends)},
	{"POST", "/api/v1/backends/{name}/accept", "Takes what a pinned backend lists now.", false, maxSmallBody, answering((*api).acceptCatalog)},
	{"GET", "/api/v1/sessions", "Every live harness session.", false, maxSmallBody, answering((*api).sessions)},
	{"GET", "/api/v1/jobs", "Jobs, newest first (?status=&operation=&pageNumber=&pageSize=).", false, maxSmallBody, answering((*api).jobs)},
	{"GET", "/api/v1/jobs/{id}", "One job with its result; ?waitSeconds=0..50 waits for a change.", false, maxSmallBody, answering((*api).job)},
	{"POST", "/api/v1/jobs/{id}/cancel", "Ends an unfinished job; Reason is required.", false, maxSmallBody, answering((*api).cancelJob)},
	{"POST", "/api/v1/calls", "Calls a verb and waits for its answer or its job.", false, 0, func(a *api) http.Handler { return http.HandlerFunc(a.call) }},
	{"GET", "/api/v1/journal/stats", "Size and counts of the journal.", false, maxSmallBody, answering((*api).journalStats)},
	{"GET", "/api/v1/journal/check", "Reads the whole journal and reports what is wrong with it.", false, maxSmallBody, answering((*api).journalCheck)},
	{"GET", "/api/v1/journal/dump", "Every record and event as lines of JSON (?results=true with results); the last line says Kind end.", false, maxSmallBody, func(a *api) http.Handler { return http.HandlerFunc(a.dump) }},
	{"GET", "/api/v1/jobs/{id}/explain", "What happened to a job, in sentences.", false, maxSmallBody, answering((*api).explain)},
	{"GET", "/api/v1/backup", "A verified copy of the journal as a ZIP file.", false, maxSmallBody, func(a *api) http.Handler { return http.HandlerFunc(a.backup) }},
	{"POST", "/api/v1/reload", "Puts the configuration file in force as it is now; Applied, Unchanged and NeedsRestart say what became of it.", false, maxSmallBody, answering((*api).reload)},
	{"POST", "/api/v1/token/rotate", "Replaces the token at once; the new one is in the state directory.", false, maxSmallBody, answering((*api).rotateToken)},
}

// Routes lists the rows of the operator API, in the order in which they are
// documented.
func Routes() []Route { return slices.Clone(routes) }

func openPaths() map[string]func(*api) http.Handler {
	open := map[string]func(*api) http.Handler{}
	for _, r := range routes {
		if r.Open {
			open[r.Path] = r.handler
		}
	}
	return open
}

// mux registers every row that is behind the guard, an answer for a known path
// with another method, and one for unknown paths.
func (a *api) mux() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range routes {
		if r.Open {
			continue
		}
		mux.Handle(r.Method+" "+r.Path, administrators(a.readBody(r.maxBody, r.handler(a))))
		methods[r.Path] = append(methods[r.Path], r.Method)
	}
	for path, allowed := range methods {
		mux.Handle(path, otherMethod(strings.Join(allowed, ", ")))
	}
	mux.Handle("/", http.HandlerFunc(notFound))
	return mux
}

// administrators is the Decided line of contracts/native.md section 21: rows
// without "caller" are for global administrators.
func administrators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := httpguard.Principal(r.Context()); !ok || p.Role != broker.GlobalAdministrator {
			httpguard.Refuse(w, r, http.StatusForbidden, broker.Refuse(broker.CodeGlobalAdministrator,
				"The operator API is for global administrators.", nil))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func healthz(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		otherMethod("GET").ServeHTTP(w, r)
		return
	}
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
