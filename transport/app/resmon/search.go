package resmon

import (
	"encoding/json"
	"net/url"
	"strconv"

	"berth/transport/app"
)

// paper is the form of a paper in every list: seven fields, no abstract.
var paper = app.Columns{{"id", "id"}, {"title", "title"}, {"authors", "authors"}, {"date", "publication_date"},
	{"source", "source_repository"}, {"doi", "doi"}, {"url", "url"}}

// paperAt is a paper with its distance.
func paperAt(row app.Object) app.Object {
	return append(paper.Of(row), app.Field{Name: "distance", Value: app.OrNull(row.Get("distance"))})
}

func searchCorpus(c *app.Call) (json.RawMessage, *app.Problem) {
	semantic := c.Text("mode") == "semantic"
	sort := "newest"
	if semantic {
		sort = "similarity"
	}
	body := app.Object{{Name: "query", Value: app.Quote(c.Text("query"))}, {Name: "limit", Value: app.Int(c.Int("limit"))}, {Name: "sort", Value: app.Quote(sort)}}
	body = append(body, given(c, "cursor", "sources", "date_from", "date_to")...)
	reply, problem := c.Send(app.Request{Route: routeSearch, Body: body.JSON()})
	if problem != nil {
		return nil, problem
	}
	found, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.RowsIn(found.Get("results"))
	if problem != nil {
		return nil, problem
	}
	served := found.Text("sort") == "similarity"
	form, mode := paper.Of, "keyword"
	if served {
		form, mode = paperAt, "semantic"
	}
	papers := each(rows, form)
	out := app.Object{{Name: "papers", Value: app.Objects(papers)}, {Name: "count", Value: app.Int(len(papers))}}
	out = append(out, app.Columns{{"next_cursor", "next_cursor"}, {"has_more", "has_more"}, {"total", "total"}, {"total_is_capped", "total_is_capped"}}.Of(found)...)
	out = append(out, app.Field{Name: "mode", Value: app.Quote(mode)})
	switch {
	case served:
		out = append(out, app.Columns{{"ranked_count", "ranked_count"}, {"unranked_count", "unranked_count"}, {"model", "model"}}.Of(found)...)
	case semantic:
		why := found.Text("similarity_unavailable")
		if why == "" {
			why = "resmon did not rank by meaning and gave no reason; these papers are in order of date, the newest first."
		}
		out = append(out, app.Field{Name: "mode_unavailable", Value: app.Quote(why)})
	}
	return out.JSON(), nil
}

func findSimilar(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeSimilar, ID: c.Text("doc_id"), Query: url.Values{"k": {strconv.Itoa(c.Int("limit"))}}})
	if problem != nil {
		return nil, problem
	}
	found, problem := c.Object(reply)
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.RowsIn(found.Get("neighbours"))
	if problem != nil {
		return nil, problem
	}
	reason := app.OrNull(found.Get("reason"))
	if len(rows) == 0 && found.Text("reason") == "" {
		reason = app.Quote("resmon found no similar paper and gave no reason for it.")
	}
	papers := each(rows, paperAt)
	return app.Object{{Name: "document_id", Value: app.OrNull(found.Get("document_id"))}, {Name: "model", Value: app.OrNull(found.Get("model"))},
		{Name: "papers", Value: app.Objects(papers)}, {Name: "count", Value: app.Int(len(papers))}, {Name: "reason", Value: reason}}.JSON(), nil
}

func exportReferences(c *app.Call) (json.RawMessage, *app.Problem) {
	ofRun, ofPapers := c.Given("exec_id"), c.Given("doc_ids")
	if ofRun == ofPapers {
		return nil, app.Invalid("export_references takes exec_id or doc_ids: exactly one of them.", nil)
	}
	format := c.Text("format")
	r := app.Request{Route: routeReferences, ID: c.Text("exec_id"), Query: url.Values{"format": {format}}}
	if ofPapers {
		ids := make([]json.RawMessage, len(c.List("doc_ids")))
		for i, id := range c.List("doc_ids") {
			ids[i] = json.RawMessage(id)
		}
		r = app.Request{Route: routeExport, Body: app.Object{{Name: "document_ids", Value: app.Array(ids)}, {Name: "format", Value: app.Quote(format)}}.JSON()}
	}
	reply, problem := c.Send(r)
	if problem != nil {
		return nil, problem
	}
	if format != "json" {
		return app.Quote(string(reply.Body)), nil
	}
	if _, problem := c.Rows(reply); problem != nil {
		return nil, problem
	}
	return reply.Body, nil
}

func getResults(c *app.Call) (json.RawMessage, *app.Problem) {
	reply, problem := c.Send(app.Request{Route: routeReferences, ID: c.Text("exec_id"), Query: url.Values{"format": {"json"}, "include_ids": {"true"}}})
	if problem != nil {
		return nil, problem
	}
	rows, problem := c.Rows(reply)
	if problem != nil {
		return nil, problem
	}
	from := min(c.Int("offset"), len(rows))
	papers := each(rows[from:min(from+c.Int("limit"), len(rows))], paper.Of)
	return app.Object{{Name: "papers", Value: app.Objects(papers)}, {Name: "count", Value: app.Int(len(papers))}, {Name: "total", Value: app.Int(len(rows))}}.JSON(), nil
}

// given are the arguments of these names that came, as members of a body.
func given(c *app.Call, names ...string) app.Object {
	var out app.Object
	for _, name := range names {
		if c.Given(name) {
			out = append(out, app.Field{Name: name, Value: c.Raw(name)})
		}
	}
	return out
}

func each(rows []app.Object, form func(app.Object) app.Object) []app.Object {
	out := make([]app.Object, len(rows))
	for i, r := range rows {
		out[i] = form(r)
	}
	return out
}
