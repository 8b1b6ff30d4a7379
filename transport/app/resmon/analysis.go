package resmon

import (
	"encoding/json"
	"net/url"

	"berth/transport/app"
)

// views are the tool's words for the analytics routes, in the contract's order.
var views = []struct {
	name  string
	route app.Route
}{
	{"overview", routeOverview}, {"volume", routeVolume}, {"sources", routeSources},
	{"keywords", routeKeywords}, {"routine-health", routeRoutineHealth}, {"discovery-lag", routeDiscoveryLag},
}

func viewNames() []string {
	out := make([]string, len(views))
	for i, v := range views {
		out[i] = v.name
	}
	return out
}

func getAnalytics(c *app.Call) (json.RawMessage, *app.Problem) {
	var r app.Request
	for _, v := range views {
		if v.name == c.Text("view") {
			r.Route = v.route
		}
	}
	if c.Given("window") {
		r.Query = url.Values{"window": {c.Text("window")}}
	}
	reply, problem := c.Send(r)
	if problem != nil {
		return nil, problem
	}
	figures, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	if c.Given("window") && figures.Get("window") == nil {
		figures = figures.Set("window_note", app.Quote("resmon did not confirm the window, so these figures may cover everything on record."))
	}
	return figures.JSON(), nil
}

// getFindings drops what the user muted, unless it was asked for: the route
// always lists it. Nothing is counted again.
func getFindings(c *app.Call) (json.RawMessage, *app.Problem) {
	r := app.Request{Route: routeWatchdog}
	if c.Flag("include_muted") {
		r.Query = url.Values{"include_muted": {"true"}}
	}
	reply, problem := c.Send(r)
	if problem != nil {
		return nil, problem
	}
	report, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.RowsIn(report.Get("findings"))
	if problem != nil {
		return nil, problem
	}
	if c.Flag("include_muted") {
		return reply.Body, nil
	}
	kept := make([]app.Object, 0, len(rows))
	for _, row := range rows {
		if !truthy(row.Get("muted")) {
			kept = append(kept, row)
		}
	}
	return report.Set("findings", app.Objects(kept)).JSON(), nil
}

// status words of a stored credential.
var credentialStates = map[string]bool{"present": true, "absent": true, "unreadable": true}

func listSources(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeCatalog})
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.Rows(reply)
	if problem != nil {
		return nil, problem
	}
	states, unavailable := credentials(c)
	columns := app.Columns{{"slug", "slug"}, {"name", "name"}, {"coverage", "subject_coverage"}}
	rest := app.Columns{{"attribution", "attribution"}, {"attribution_requirement", "attribution_requirement"}}
	sources := each(rows, func(row app.Object) app.Object {
		state := app.Null
		if word := states[row.Text("credential_name")]; word != "" {
			state = app.Quote(word)
		}
		out := append(columns.Of(row),
			app.Field{Name: "key_required", Value: app.Bool(row.Text("api_key_requirement") == "required")},
			app.Field{Name: "credential_alias", Value: app.OrNull(row.Get("credential_name"))},
			app.Field{Name: "credential_status", Value: state})
		return append(out, rest.Of(row)...)
	})
	out := app.Object{{Name: "sources", Value: app.Objects(sources)}, {Name: "count", Value: app.Int(len(sources))}}
	if unavailable != "" {
		out = append(out, app.Field{Name: "credentials_unavailable", Value: app.Quote(unavailable)})
	}
	return out.JSON(), nil
}

// credentials gives the state of each stored credential by its alias, or why
// they are not known. It reads nothing but the word.
func credentials(c *app.Call) (states map[string]string, unavailable string) {
	const sentence = "resmon did not say which keys it has, so credential_status is not known for any source."
	reply, problem := c.Send(app.Request{Route: routeCredentials})
	if problem != nil {
		return nil, sentence
	}
	body, _ := app.ReadObject(reply.Body)
	list, ok := app.ReadObject(app.OrNull(body.Get("credentials")))
	if !ok {
		return nil, sentence
	}
	states = map[string]string{}
	for _, alias := range list {
		if entry, ok := app.ReadObject(alias.Value); ok && alias.Name != "" && credentialStates[entry.Text("status")] {
			states[alias.Name] = entry.Text("status")
		}
	}
	return states, ""
}
