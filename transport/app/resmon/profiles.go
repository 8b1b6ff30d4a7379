package resmon

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/broker/shape"
	"berth/transport/app"
)

func listProfiles(c *app.Call) (json.RawMessage, *app.Problem) {
	r := app.Request{Route: routeProfiles}
	if c.Given("kind") {
		r.Query = url.Values{"kind": {c.Text("kind")}}
	}
	reply, problem := c.Send(r)
	if problem != nil {
		return nil, problem
	}
	body, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.RowsIn(body.Get("profiles"))
	if problem != nil {
		return nil, problem
	}
	profiles := each(rows, profileRow)
	return app.Object{{Name: "profiles", Value: app.Objects(profiles)}, {Name: "count", Value: app.Int(len(profiles))}}.JSON(), nil
}

func profileRow(row app.Object) app.Object {
	shown := row.Text("display_name")
	names := valuesOf(row.Get("names"))
	aliases := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == shown })
	identifiers, _ := app.ReadObject(app.OrNull(row.Get("identifiers")))
	schemes := []string{}
	orcid := app.Null
	for _, f := range identifiers {
		schemes = append(schemes, f.Name)
		if f.Name == "orcid" {
			if v := valuesOf(app.Array([]json.RawMessage{f.Value})); len(v) == 1 {
				orcid = app.Quote(v[0])
			}
		}
	}
	slices.Sort(schemes)
	return append(app.Columns{{"id", "id"}, {"kind", "kind"}, {"name", "display_name"}, {"display_name", "display_name"}}.Of(row),
		app.Field{Name: "names", Value: app.JSON(names)},
		app.Field{Name: "aliases", Value: app.JSON(aliases)},
		app.Field{Name: "identifiers", Value: app.JSON(schemes)},
		app.Field{Name: "orcid", Value: orcid},
		app.Field{Name: "affiliations", Value: app.OrNull(row.Get("affiliations"))},
		app.Field{Name: "basis_warning", Value: app.OrNull(row.Get("basis_warning"))})
}

// valuesOf lists the strings of an array whose elements are strings, or objects
// with a value.
func valuesOf(raw json.RawMessage) []string {
	out := []string{}
	rows, _ := app.ReadArray(app.OrNull(raw))
	for _, r := range rows {
		s, ok := shape.Text(r)
		if !ok {
			o, _ := app.ReadObject(r)
			s = o.Text("value")
		}
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func getProfile(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeProfile, ID: c.Text("profile_id")})
	if problem != nil {
		return nil, problem
	}
	profile, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	found, problem := matchesOf(c, url.Values{"limit": {"1"}})
	if problem != nil {
		return nil, problem // a profile without its counts by basis is not answered
	}
	return app.Object{{Name: "profile", Value: profile.JSON()},
		{Name: "matches", Value: app.Columns{{"total", "total"}, {"by_basis", "by_basis"}}.Of(found).JSON()}}.JSON(), nil
}

func matchesOf(c *app.Call, query url.Values) (app.Object, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeMatches, ID: c.Text("profile_id"), Query: query})
	if problem != nil {
		return nil, problem
	}
	return c.Object(reply)
}

var matchRow = app.Columns{{"doc_id", "document_id"}, {"title", "title"}, {"basis", "basis"}, {"matched_author", "matched_author"}, {"evidence", "evidence"},
	{"source", "source_repository"}, {"doi", "doi"}, {"url", "url"}, {"publication_date", "publication_date"}, {"first_seen_at", "first_seen_at"}}

// basisMeans stands in every answer about matches, an empty one too.
var basisMeans = app.Object{
	{Name: "identifier", Value: app.Quote("The source itself gave this profile's identifier on the paper.")},
	{Name: "name+affiliation", Value: app.Quote("A name and an affiliation of the profile agree with an author of the paper. That is not identity.")},
	{Name: "name_only", Value: app.Quote("A name of the profile appears among the authors. That is no evidence that it is this person.")},
}

func getMatches(c *app.Call) (json.RawMessage, *app.Problem) {
	found, problem := matchesOf(c, url.Values{"limit": {strconv.Itoa(c.Int("limit"))}, "offset": {strconv.Itoa(c.Int("offset"))}})
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.RowsIn(found.Get("matches"))
	if problem != nil {
		return nil, problem
	}
	matched := each(rows, matchRow.Of)
	return app.Object{{Name: "matches", Value: app.Objects(matched)}, {Name: "count", Value: app.Int(len(matched))},
		{Name: "total", Value: app.OrNull(found.Get("total"))}, {Name: "by_basis", Value: app.OrNull(found.Get("by_basis"))},
		{Name: "what_a_basis_means", Value: basisMeans.JSON()}}.JSON(), nil
}

func createProfile(c *app.Call) (json.RawMessage, *app.Problem) {
	name := c.Text("name")
	type value struct {
		Value string `json:"value"`
	}
	names := []value{{name}}
	for _, alias := range c.List("aliases") {
		names = append(names, value{alias})
	}
	identifiers := json.RawMessage("{}")
	if orcid := c.Text("orcid"); strings.TrimSpace(orcid) != "" {
		cited := c.Text("orcid_cited")
		if strings.TrimSpace(cited) == "" {
			cited = "Given through an MCP client."
		}
		identifiers = app.JSON(map[string]any{"orcid": map[string]string{"value": orcid, "cited": cited}})
	}
	list := func(name string) json.RawMessage { return app.JSON(append([]string{}, c.List(name)...)) }
	body := app.Object{{Name: "kind", Value: app.Quote("person")}, {Name: "display_name", Value: app.Quote(name)}, {Name: "names", Value: app.JSON(names)},
		{Name: "identifiers", Value: identifiers}, {Name: "affiliations", Value: list("affiliations")}, {Name: "field_hints", Value: list("field_hints")}}
	reply, problem := c.Send(app.Request{Route: routeCreateProfile, Body: body.JSON()})
	if problem != nil {
		return nil, problem
	}
	profile, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	if !isWhole(profile.Get("id")) {
		return nil, c.Unreadable("id_missing")
	}
	out := app.Object{{Name: "profile", Value: profile.JSON()}}
	detail := "The watch profile was created."
	if orcid := profileRow(profile).Text("orcid"); orcid != "" {
		detail = "The watch profile was created, with the ORCID " + orcid + "."
	}
	if warning := profile.Text("basis_warning"); warning != "" {
		out = append(out, app.Field{Name: "basis_warning", Value: app.Quote(warning)})
		detail += " " + warning
	}
	return append(out, app.Field{Name: "detail", Value: app.Quote(detail)}).JSON(), nil
}
