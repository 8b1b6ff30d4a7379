package resmontest

import (
	"fmt"
	"strings"
)

var searchedFields = []string{"title", "abstract", "categories", "authors"}

// why explains a match with the routine's keywords, in words of its own: what a
// test needs is that every caveat is there, not how it is phrased.
func why(w *world, r *request) answer {
	d := w.document(r.id)
	if d == nil {
		return noDocument(r)
	}
	source := w.source(d.SourceRepository)
	from := w.routines[0]
	runs, keywords, matched := []object{}, []object{}, 0
	for _, e := range w.executions {
		if e.RoutineID != nil && *e.RoutineID == from.ID && len(runs) < 1 {
			runs = append(runs, object{"execution_id": e.ID, "execution_type": e.ExecutionType, "start_time": e.StartTime, "routine_name": from.Name, "keywords": from.keywords})
		}
	}
	for _, word := range from.keywords {
		fields := d.fieldsWith(word)
		where := "nowhere resmon can check"
		if len(fields) > 0 {
			matched++
			where = "the " + strings.Join(fields, " and the ")
		}
		keywords = append(keywords, object{"keyword": word, "matched": len(fields) > 0, "fields": fields, "where": where, "contains_operators": false})
	}
	verdict, headline := "local_evidence", fmt.Sprintf("%d of the keywords stand in this paper. %s decided to return it, and resmon cannot see why.", matched, source["name"])
	if matched == 0 {
		verdict, headline = "no_local_evidence", fmt.Sprintf("None of the keywords stands where resmon can look. %s returned the paper all the same, which is no fault.", source["name"])
	}
	return r.whole(object{
		"document": object{"id": d.ID, "title": d.Title, "source_repository": d.SourceRepository, "doi": d.DOI, "publication_date": d.PublicationDate, "first_seen_at": d.FirstSeenAt},
		"source": object{"slug": d.SourceRepository, "name": source["name"], "keyword_combination": source["keyword_combination"],
			"keyword_combination_notes": source["keyword_combination_notes"], "resmon_filtered_locally": false},
		"runs": runs, "keywords": keywords, "matched_count": matched, "keyword_count": len(keywords), "verdict": verdict, "headline": headline,
		"what_resmon_cannot_see": []string{
			"Titles, abstracts, authors and categories are stored; the full text is not, and a word in it is not found.",
			fmt.Sprintf("%s joins words like this: %s. Most sources rank by relevance, so no keyword at all may match.", source["name"], source["keyword_combination"]),
		},
		"fields_checked": searchedFields,
	})
}

func (d *document) fieldsWith(word string) []string {
	out := []string{}
	for i, value := range []string{d.Title, str0(d.Abstract), str0(d.Categories), str0(d.Authors)} {
		if strings.Contains(strings.ToLower(value), strings.ToLower(word)) {
			out = append(out, searchedFields[i])
		}
	}
	return out
}
