package resmontest

import (
	"slices"
	"strings"
)

// A Pair is a method and a path template of resmon's API.
type Pair struct{ Method, Template string }

func (p Pair) String() string { return p.Method + " " + p.Template }

// Groups are the settings groups that have routes.
var Groups = []string{"ai", "assistant", "email", "embeddings", "storage", "notifications"}

type handler func(*world, *request) answer

type route struct {
	Pair
	handle handler
	write  bool
}

var routes = append([]route{
	{Pair{"GET", "/api/health"}, health, false},
	{Pair{"POST", "/api/explorer/search"}, searchCorpus, false},
	{Pair{"GET", "/api/documents/{document_id}/similar"}, similar, false},
	{Pair{"GET", "/api/repositories/catalog"}, sourceCatalog, false},
	{Pair{"GET", "/api/credentials"}, credentials, false},
	{Pair{"GET", "/api/routines"}, listRoutines, false},
	{Pair{"GET", "/api/routines/{routine_id}"}, getRoutine, false},
	{Pair{"GET", "/api/routines/{routine_id}/coverage"}, routineCoverage, false},
	{Pair{"GET", "/api/routines/{routine_id}/deliveries"}, routineDeliveries, false},
	{Pair{"GET", "/api/executions"}, listExecutions, false},
	{Pair{"GET", "/api/executions/{exec_id}"}, getExecution, false},
	{Pair{"GET", "/api/executions/{exec_id}/references"}, executionReferences, false},
	{Pair{"GET", "/api/executions/{exec_id}/search-record"}, searchRecord, false},
	{Pair{"GET", "/api/documents/{doc_id}/why"}, why, false},
	{Pair{"GET", "/api/documents/{doc_id}/lifecycle"}, lifecycle, false},
	{Pair{"GET", "/api/analytics/overview"}, analyticsOverview, false},
	{Pair{"GET", "/api/analytics/publication-volume"}, analyticsVolume, false},
	{Pair{"GET", "/api/analytics/source-contribution"}, analyticsSources, false},
	{Pair{"GET", "/api/analytics/keyword-contribution"}, analyticsKeywords, false},
	{Pair{"GET", "/api/analytics/routine-health"}, analyticsRoutines, false},
	{Pair{"GET", "/api/analytics/discovery-lag"}, analyticsLag, false},
	{Pair{"GET", "/api/watchdog"}, watchdog, false},
	{Pair{"POST", "/api/export/references"}, exportReferences, false},
	{Pair{"GET", "/api/profiles"}, listProfiles, false},
	{Pair{"POST", "/api/profiles"}, createProfile, true},
	{Pair{"GET", "/api/profiles/{profile_id}"}, getProfile, false},
	{Pair{"GET", "/api/profiles/{profile_id}/matches"}, profileMatches, false},
	{Pair{"POST", "/api/search/sweep"}, sweep, true},
	{Pair{"POST", "/api/routines"}, createRoutine, true},
	{Pair{"POST", "/api/routines/{routine_id}/run"}, runRoutine, true},
	{Pair{"POST", "/api/routines/{routine_id}/activate"}, activate(true), true},
	{Pair{"POST", "/api/routines/{routine_id}/deactivate"}, activate(false), true},
}, settingsRoutes()...)

func settingsRoutes() []route {
	var out []route
	for _, group := range Groups {
		path := "/api/settings/" + group
		out = append(out, route{Pair{"GET", path}, getSettings(group), false}, route{Pair{"PUT", path}, putSettings(group), true})
	}
	return out
}

// Pairs lists the routes, in the order of the contract.
func Pairs() []Pair {
	out := make([]Pair, len(routes))
	for i, r := range routes {
		out[i] = r.Pair
	}
	return out
}

// match finds the route of a request. Without one, allow lists the methods that
// the path has; an unknown path has none.
func match(method, path string) (found *route, id string, allow []string) {
	for i := range routes {
		r := &routes[i]
		got, ok := fits(r.Template, path)
		switch {
		case !ok:
		case r.Method == method:
			return r, got, nil
		case !slices.Contains(allow, r.Method):
			allow = append(allow, r.Method)
		}
	}
	return nil, "", allow
}

// fits reports whether path is an instance of template, and what stands in the
// one place that may vary.
func fits(template, path string) (id string, ok bool) {
	before, rest, varies := strings.Cut(template, "{")
	if !varies {
		return "", template == path
	}
	_, after, _ := strings.Cut(rest, "}")
	id, ok = strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// parameter is the name of the varying place of a template.
func parameter(template string) string {
	_, rest, _ := strings.Cut(template, "{")
	name, _, _ := strings.Cut(rest, "}")
	return name
}
