package resmontest

import (
	"fmt"
	"net/http"
)

func searchRecord(w *world, r *request) answer {
	e := w.execution(r.id)
	if e == nil {
		return plain(http.StatusNotFound, "No execution with id %s", r.idText)
	}
	var routineName, schedule any
	if e.RoutineID != nil {
		if from := w.routine(*e.RoutineID); from != nil {
			routineName, schedule = from.Name, from.ScheduleCron
		}
	}
	sources, sent, answered := []object{}, []object{}, len(e.Repositories)
	for i, slug := range e.Repositories {
		row := object{"source": slug, "records_identified": e.ResultCount / len(e.Repositories), "status": "ok", "note": nil, "zero_reason": nil, "zero_detail": nil}
		query := object{"source": slug, "name": w.source(slug)["name"], "sent": []string{"all:" + e.Query}, "omitted": 0, "note": nil}
		if e.inPart && i == 0 {
			row["zero_reason"], row["zero_detail"] = "answered_in_part", object{"read": object{"order": "newest_first"}, "sentence": "It read the newest 400 of the 1900 records."}
			query["window"] = object{"date_from": day(3), "date_to": day(0)}
		}
		if e.oldRecord && i == 1 {
			answered--
			row["records_identified"], row["status"], row["note"] = 0, "error", "It was selected and failed with HTTP 503, so it gave no records."
		}
		sources, sent = append(sources, row), append(sent, query)
	}
	search := object{
		"execution_id": e.ID, "execution_type": e.ExecutionType, "run_at": e.StartTime, "completed_at": e.EndTime, "status": e.Status, "keywords": e.Keywords,
		"query_as_sent": e.Query, "queries_as_sent": sent, "date_from": nil, "date_to": nil, "max_results_per_source": 50,
		"routine_name": routineName, "routine_schedule": schedule, "configuration_name": nil,
	}
	caveats := []string{
		"Duplicates from several sources are counted and kept, not removed.",
		"One execution is one search; a review that searched several times needs a record of each.",
		"Screening happens outside resmon, and no figure here stands for it.",
	}
	var notRecorded any
	if e.oldRecord {
		search["queries_as_sent"] = nil
		notRecorded = "The figure was not kept when this run took place. Not recorded is not zero."
		caveats = append([]string{"The count of duplicates from several sources is absent for this run, not zero."}, caveats...)
	}
	figure := func(n *int, prisma any, meaning string) object {
		return object{"count": n, "prisma": prisma, "meaning": meaning}
	}
	cross := figure(e.DedupCrossSource, "Duplicate records removed before screening", "Records that another source gave as well; both stay.")
	cross["recorded"], cross["not_recorded_reason"] = e.DedupCrossSource != nil, notRecorded
	return r.whole(object{
		"record_type": "resmon_search_record", "record_version": 1, "generated_at": w.now(),
		"software": object{"name": "resmon", "version": w.options.Version, "citation": fmt.Sprintf("resmon %s", w.options.Version)},
		"search":   search, "sources": sources,
		"identification": object{"records_identified": e.ResultCount, "sources_searched": len(sources), "sources_that_answered": answered, "prisma": "Records identified from databases"},
		"deduplication": object{
			"records_processed":       e.DedupTotal,
			"cross_source_duplicates": cross,
			"already_held":            figure(e.DedupDuplicates, nil, "Records that were in the corpus before."),
			"discarded_unusable":      figure(e.DedupInvalid, "Records marked as ineligible by automation tools", "Records without a title or an identifier."),
			"records_added":           figure(e.DedupNew, "Records screened", "Records that are new in the corpus."),
		},
		"caveats": caveats,
	})
}
