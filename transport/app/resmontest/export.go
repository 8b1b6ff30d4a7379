package resmontest

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var exportModel = []field{{name: "document_ids", kind: wholes, required: true}, {name: "format", kind: text}}

// columns of a reference, in order; the id comes last and on request.
var columns = []string{"title", "authors", "publication_date", "doi", "url", "source_repository", "external_id", "categories", "abstract"}

func exportReferences(w *world, r *request) answer {
	body, bad := read(r.body, exportModel)
	if bad != nil {
		return *bad
	}
	var docs []*document
	ids, _ := body["document_ids"].([]any)
	for _, id := range ids {
		n, _ := id.(int64)
		if d := w.document(n); d != nil {
			docs = append(docs, d)
		}
	}
	format := str(body, "format")
	if body["format"] == nil {
		format = "bibtex"
	}
	return references(docs, format, "resmon-selection", false)
}

func executionReferences(w *world, r *request) answer {
	e := w.execution(r.id)
	if e == nil {
		return plain(http.StatusNotFound, "Execution not found")
	}
	format := r.query.Get("format")
	if !r.query.Has("format") {
		format = "bibtex"
	}
	withIDs, _ := truth(r.query.Get("include_ids"))
	return references(w.found(e), format, "resmon-execution-"+strconv.FormatInt(e.ID, 10), withIDs)
}

func references(docs []*document, format, stem string, withIDs bool) answer {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, newest)
	docs = slices.Compact(docs)
	render, known := formats[format]
	if !known {
		return plain(http.StatusBadRequest, "Unknown export format %s. Expected one of: bibtex, csv, json, ris.", quoted(format))
	}
	return answer{status: http.StatusOK, body: []byte(render.text(docs, withIDs)), header: http.Header{
		"Content-Type":            {render.contentType},
		"Content-Disposition":     {fmt.Sprintf(`attachment; filename="%s.%s"`, stem, render.extension)},
		"X-Resmon-Document-Count": {strconv.Itoa(len(docs))},
	}}
}

var formats = map[string]struct {
	contentType, extension string
	text                   func(docs []*document, withIDs bool) string
}{
	"bibtex": {"application/x-bibtex", "bib", bibtex},
	"ris":    {"application/x-research-info-systems", "ris", ris},
	"csv":    {"text/csv; charset=utf-8", "csv", csvText},
	"json":   {"application/json", "json", jsonText},
}

func (d *document) column(name string) *string {
	return map[string]*string{"title": &d.Title, "authors": d.Authors, "publication_date": d.PublicationDate, "doi": d.DOI, "url": d.URL,
		"source_repository": &d.SourceRepository, "external_id": &d.ExternalID, "categories": d.Categories, "abstract": d.Abstract}[name]
}

func jsonText(docs []*document, withIDs bool) string {
	rows := make([]object, len(docs))
	for i, d := range docs {
		rows[i] = object{}
		for _, c := range columns {
			rows[i][c] = d.column(c)
		}
		if withIDs {
			rows[i]["id"] = d.ID
		}
	}
	return string(encode(rows))
}

func csvText(docs []*document, withIDs bool) string {
	var b strings.Builder
	out := csv.NewWriter(&b)
	header := columns
	if withIDs {
		header = append([]string{"id"}, columns...)
	}
	_ = out.Write(header) // a strings.Builder takes everything
	for _, d := range docs {
		var row []string
		if withIDs {
			row = append(row, strconv.FormatInt(d.ID, 10))
		}
		for _, c := range columns {
			row = append(row, str0(d.column(c)))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return b.String()
}

func nameList(d *document) []string {
	if d.Authors == nil {
		return nil
	}
	return strings.Split(*d.Authors, ", ")
}

func bibtex(docs []*document, _ bool) string {
	var entries []string
	used := map[string]int{}
	for _, d := range docs {
		kind := "article"
		if d.DOI == nil {
			kind = "misc"
		}
		lines := []string{}
		add := func(name, value string) {
			if value != "" {
				lines = append(lines, fmt.Sprintf("  %s = {%s}", name, value))
			}
		}
		add("title", d.Title)
		add("author", strings.Join(nameList(d), " and "))
		if d.PublicationDate != nil {
			add("year", (*d.PublicationDate)[:4])
		}
		add("doi", str0(d.DOI))
		add("url", str0(d.URL))
		add("note", "Retrieved via resmon from "+d.SourceRepository)
		add("keywords", str0(d.Categories))
		add("abstract", str0(d.Abstract))
		key := citeKey(d)
		used[key]++
		if n := used[key]; n > 1 {
			key += string(rune('a' + (n-2)%26))
		}
		entries = append(entries, fmt.Sprintf("@%s{%s,\n%s\n}\n", kind, key, strings.Join(lines, ",\n")))
	}
	return strings.Join(entries, "\n")
}

// citeKey is the last name of the first author, the year and the first long word
// of the title.
func citeKey(d *document) string {
	name, year, word := "anonymous", "nodate", ""
	if all := nameList(d); len(all) > 0 {
		parts := strings.Fields(all[0])
		name = parts[len(parts)-1]
	}
	if d.PublicationDate != nil {
		year = (*d.PublicationDate)[:4]
	}
	for _, w := range strings.Fields(d.Title) {
		if len(w) > 2 {
			word = w
			break
		}
	}
	keep := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(name+year+word))
}

func ris(docs []*document, _ bool) string {
	var entries []string
	for _, d := range docs {
		lines := []string{"TY  - JOUR", "TI  - " + d.Title}
		add := func(tag, value string) {
			if value != "" {
				lines = append(lines, tag+"  - "+value)
			}
		}
		for _, name := range nameList(d) {
			add("AU", name)
		}
		if d.PublicationDate != nil {
			add("PY", (*d.PublicationDate)[:4])
			add("DA", strings.ReplaceAll(*d.PublicationDate, "-", "/"))
		}
		add("AB", str0(d.Abstract))
		add("DO", str0(d.DOI))
		add("UR", str0(d.URL))
		add("KW", str0(d.Categories))
		add("DP", d.SourceRepository)
		entries = append(entries, strings.Join(append(lines, "ER  - "), "\n")+"\n")
	}
	return strings.Join(entries, "\n")
}
