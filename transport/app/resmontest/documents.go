package resmontest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type document struct {
	ID               int64   `json:"id"`
	SourceRepository string  `json:"source_repository"`
	ExternalID       string  `json:"external_id"`
	DOI              *string `json:"doi"`
	Title            string  `json:"title"`
	Authors          *string `json:"authors"`
	Abstract         *string `json:"abstract"`
	PublicationDate  *string `json:"publication_date"`
	URL              *string `json:"url"`
	Categories       *string `json:"categories"`
	MetadataHash     string  `json:"metadata_hash"`
	FirstSeenAt      string  `json:"first_seen_at"`
	PubSort          string  `json:"pub_sort"`

	embedded bool
}

// ranked is a document of an answer by meaning.
type ranked struct {
	*document
	Distance *real `json:"distance"`
}

const embeddingModel = "nomic-embed-text"

// Queries whose order by meaning is known: the first ranks by id ascending, the
// second descending. Both match documents by their words too.
const (
	QueryAscending  = "perovskite stability"
	QueryDescending = "neural operators"
	// QueryAll is in every document, so that a walk over its pages meets all.
	QueryAll = "study"
)

var (
	topics  = []string{"perovskite stability", "neural operators", "protein folding", "coral bleaching", "federated learning", "graph sparsification"}
	angles  = []string{"under heat", "at scale", "in small samples", "with noisy labels", "over ten years"}
	authors = []string{"Ada Lovelace", "Grace Hopper", "Alan Turing", "Jane Doe", "Wei Zhang", "Amara Okafor", "Lena Müller", "Iván Ibáñez"}
	origins = []string{"arxiv", "crossref", "openalex", "pubmed", "core"}
)

func (w *world) makeDocuments() {
	w.events = map[int64][]object{}
	undated := map[int]bool{3: true, 9: true, w.amounts.documents: true}
	for n := 1; n <= w.amounts.documents; n++ {
		topic, source := topics[n%len(topics)], origins[n%len(origins)]
		d := &document{
			ID: w.id(n), SourceRepository: source, ExternalID: fmt.Sprintf("2601.%05d", w.id(n)),
			Title:    w.stamped(fmt.Sprintf("On %s %s, part %d", topic, angles[n%len(angles)], n)),
			Authors:  ptr(authors[n%len(authors)] + ", " + authors[(n+3)%len(authors)]),
			Abstract: ptr(fmt.Sprintf("We study %s and report measurement %d.", topic, n)),
			URL:      ptr(fmt.Sprintf("https://example.org/%s/%d", source, n)), Categories: ptr("cs.LG"),
			MetadataHash: fmt.Sprintf("h%d", n), FirstSeenAt: moment(n % 60), embedded: n%5 != 0,
		}
		if w.amounts.long {
			d.Title = w.stamped(fmt.Sprintf("A systematic and pre-registered comparison of methods for %s %s across instruments, sites and seasons: part %d", topic, angles[n%len(angles)], n))
			d.Authors = ptr(strings.Join(append(slices.Clone(authors), authors[n%len(authors)]+" on behalf of the consortium"), ", "))
			d.Abstract = ptr(strings.Repeat(*d.Abstract+" The effect holds in all groups that were examined and is larger where exposure is long. ", 12))
		}
		if n%7 != 0 {
			d.DOI = ptr(fmt.Sprintf("10.5555/%s.%d", source, n))
		}
		if n%11 == 0 {
			d.Authors = nil
		}
		if !undated[n] {
			d.PublicationDate = ptr(day(n / 2)) // two share a date, so that ids decide
			d.PubSort = *d.PublicationDate
		}
		w.documents = append(w.documents, d)
	}
	w.events[w.id(2)] = nil
	w.events[w.id(1)] = []object{w.event(1, "retraction", "critical", "Retraction", "The publisher withdrew the paper.")}
	w.events[w.id(4)] = []object{
		w.event(4, "published", "info", "Published", "The preprint appeared in a journal."),
		w.event(4, "version", "info", "New version", "The preprint has a version 2."),
	}
}

func (w *world) event(n int, kind, severity, label, detail string) object {
	notice := fmt.Sprintf("10.5555/notice.%d.%s", n, kind)
	return object{"document_id": w.id(n), "kind": kind, "severity": severity, "notice_key": notice, "label": label, "notice_doi": notice,
		"notice_url": "https://doi.org/" + notice, "notice_date": day(3), "detail": detail, "provider": "crossref",
		"provider_source": "retraction-watch", "first_seen_at": moment(2)}
}

func (w *world) document(id int64) *document {
	i, found := slices.BinarySearchFunc(w.documents, id, func(d *document, id int64) int { return cmp.Compare(d.ID, id) })
	if !found {
		return nil
	}
	return w.documents[i]
}

func noDocument(r *request) answer {
	return plain(http.StatusNotFound, "No document with id %s", r.idText)
}

// contains reports whether each word of the query stands somewhere in the document.
func (d *document) contains(query string) bool {
	text := strings.ToLower(strings.Join([]string{d.Title, str0(d.Abstract), str0(d.Categories), str0(d.Authors)}, " "))
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func str0(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func newest(a, b *document) int {
	return cmp.Or(cmp.Compare(b.PubSort, a.PubSort), cmp.Compare(b.ID, a.ID))
}

// distance of a document from a query, made up but always the same.
func (w *world) distance(query string, d *document) real {
	n := int(d.ID - w.options.FirstID)
	switch query {
	case QueryAscending:
	case QueryDescending:
		n = len(w.documents) - n
	default:
		h := fnv.New32a()
		fmt.Fprintf(h, "%s/%d", query, n)
		n = int(h.Sum32() % 10_000)
	}
	return real(math.Round((0.1+float64(n)*0.00005)*1e6) / 1e6)
}

var searchModel = []field{
	{name: "query", kind: text, nullable: true}, {name: "sources", kind: texts}, {name: "authors", kind: texts}, {name: "categories", kind: texts},
	{name: "date_from", kind: text, nullable: true}, {name: "date_to", kind: text, nullable: true}, {name: "cursor", kind: text, nullable: true},
	{name: "limit", kind: whole}, {name: "sort", kind: text}, {name: "include", kind: texts},
}

func searchCorpus(w *world, r *request) answer {
	body, bad := read(r.body, searchModel)
	if bad != nil {
		return *bad
	}
	limit := int(max(1, min(200, number(body, "limit", 50))))
	similarity := str(body, "sort") == "similarity" && r.declineSemantic == ""
	query, sources := str(body, "query"), list(body, "sources")
	var rows []ranked
	for _, d := range w.documents {
		from, to := str(body, "date_from"), str(body, "date_to")
		outside := (from != "" && d.PubSort < from) || (to != "" && (d.PubSort == "" || d.PubSort > to))
		if outside || (len(sources) > 0 && !slices.Contains(sources, d.SourceRepository)) || (!similarity && !d.contains(query)) {
			continue
		}
		row := ranked{document: d}
		if similarity && d.embedded {
			row.Distance = ptr(w.distance(query, d))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b ranked) int {
		switch {
		case a.Distance == nil && b.Distance == nil:
			return newest(a.document, b.document)
		case a.Distance == nil:
			return 1
		case b.Distance == nil:
			return -1
		}
		return cmp.Or(cmp.Compare(*a.Distance, *b.Distance), cmp.Compare(a.ID, b.ID))
	})
	start, wrong := after(rows, str(body, "cursor"))
	if wrong {
		return plain(http.StatusBadRequest, "Malformed cursor: %s", quoted(str(body, "cursor")))
	}
	page := rows[start:min(len(rows), start+limit)]
	answered := object{"next_cursor": nil, "has_more": start+limit < len(rows), "total": len(rows), "total_is_capped": false, "count_cap": 10000,
		"used_full_text_index": query != "" && !similarity, "page_size": limit, "sort": "newest"}
	if len(page) > 0 && start+limit < len(rows) {
		last := page[len(page)-1]
		answered["next_cursor"] = last.PubSort + "|" + strconv.FormatInt(last.ID, 10)
	}
	if str(body, "sort") == "similarity" && !similarity {
		answered["similarity_unavailable"] = r.declineSemantic
	}
	if !similarity {
		answered["results"] = plainRows(page)
		return r.whole(answered)
	}
	answered["sort"], answered["model"] = "similarity", embeddingModel
	answered["ranked_count"] = countOf(rows, func(d ranked) bool { return d.Distance != nil })
	answered["unranked_count"] = countOf(rows, func(d ranked) bool { return d.Distance == nil })
	answered["results"] = append([]ranked{}, page...)
	return r.whole(answered)
}

func plainRows(rows []ranked) []*document {
	out := make([]*document, len(rows))
	for i, row := range rows {
		out[i] = row.document
	}
	return out
}

func countOf[E any](list []E, is func(E) bool) int {
	n := 0
	for _, e := range list {
		if is(e) {
			n++
		}
	}
	return n
}

// after finds where the page behind a cursor begins. A cursor names the last row
// of the page before.
func after(rows []ranked, cursor string) (start int, wrong bool) {
	if cursor == "" {
		return 0, false
	}
	sorted, id, ok := strings.Cut(cursor, "|")
	n, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil {
		return 0, true
	}
	if i := slices.IndexFunc(rows, func(d ranked) bool { return d.ID == n }); i >= 0 {
		return i + 1, false
	}
	last := &document{ID: n, PubSort: sorted}
	if i := slices.IndexFunc(rows, func(d ranked) bool { return newest(last, d.document) < 0 }); i >= 0 {
		return i, false
	}
	return len(rows), false
}

func similar(w *world, r *request) answer {
	k, bad := bound(r, "k", 10, math.MinInt64, math.MaxInt64)
	if bad != nil {
		return *bad
	}
	k = max(1, min(50, k))
	body := object{"document_id": r.id, "model": embeddingModel, "neighbours": []ranked{}, "reason": nil}
	if r.emptySimilar != nil {
		if *r.emptySimilar != "" {
			body["reason"] = *r.emptySimilar
		}
		return r.whole(body)
	}
	of := w.document(r.id)
	switch {
	case of == nil || !of.embedded:
		body["reason"] = "This paper is not embedded, so there is nothing to compare it with."
		return r.whole(body)
	}
	var rows []ranked
	for _, d := range w.documents {
		if d.embedded && d != of {
			rows = append(rows, ranked{d, ptr(real(math.Round((0.05+0.01*math.Abs(float64(d.ID-of.ID)))*1e6) / 1e6))})
		}
	}
	slices.SortStableFunc(rows, func(a, b ranked) int { return cmp.Compare(*a.Distance, *b.Distance) })
	if len(rows) == 0 {
		body["reason"] = "No other paper is embedded yet."
		return r.whole(body)
	}
	body["neighbours"] = rows[:min(len(rows), int(k))]
	return r.whole(body)
}

func lifecycle(w *world, r *request) answer {
	if w.document(r.id) == nil {
		return noDocument(r)
	}
	events, looked := w.events[r.id]
	body := object{"document_id": r.id, "events": append([]object{}, events...), "checked_at": nil, "check_status": nil}
	if looked {
		body["checked_at"], body["check_status"] = moment(1), "ok"
	}
	return r.whole(body)
}

// SemanticOrder lists the ids of the documents in the order in which the query
// ranks them, those without a vector last.
func (f *Fake) SemanticOrder(query string) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	docs := slices.Clone(f.world.documents)
	slices.SortFunc(docs, func(a, b *document) int {
		switch {
		case a.embedded != b.embedded && a.embedded:
			return -1
		case a.embedded != b.embedded:
			return 1
		case !a.embedded:
			return newest(a, b)
		}
		return cmp.Or(cmp.Compare(f.world.distance(query, a), f.world.distance(query, b)), cmp.Compare(a.ID, b.ID))
	})
	out := make([]int64, len(docs))
	for i, d := range docs {
		out[i] = d.ID
	}
	return out
}
