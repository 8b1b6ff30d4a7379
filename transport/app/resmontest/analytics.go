package resmontest

import (
	"maps"
	"slices"
)

// sourceTotals counts documents by source, in order of the name.
func (w *world) sourceTotals() ([]string, map[string]int) {
	totals := map[string]int{}
	for _, d := range w.documents {
		totals[d.SourceRepository]++
	}
	return slices.Sorted(maps.Keys(totals)), totals
}

func analyticsSources(w *world, r *request) answer { return r.whole(w.sourceContribution()) }

func (w *world) sourceContribution() object {
	names, totals := w.sourceTotals()
	rows := []object{}
	for _, s := range names {
		rows = append(rows, object{"source": s, "total": totals[s], "unique_papers": totals[s], "duplicated": 0, "unique_share": real(1)})
	}
	return object{"sources": rows, "sample_size": len(w.documents), "sufficient": true, "insufficient_reason": nil}
}

func analyticsLag(w *world, r *request) answer { return r.whole(w.discoveryLag()) }

func (w *world) discoveryLag() object {
	names, totals := w.sourceTotals()
	rows, reason := []object{}, any("Needs at least 5 dated papers from a source.")
	for _, s := range names {
		row := object{"source": s, "sample_size": totals[s], "sufficient": totals[s] >= 5, "median_days": nil, "fastest_days": nil, "slowest_days": nil}
		if totals[s] >= 5 {
			row["median_days"], row["fastest_days"], row["slowest_days"], reason = 12, 1, 60, nil
		}
		rows = append(rows, row)
	}
	return object{"sources": rows, "sample_size": len(w.documents), "sufficient": reason == nil, "minimum_sample": 5, "insufficient_reason": reason}
}

func analyticsKeywords(w *world, r *request) answer {
	rows, matched := []object{}, map[int64]bool{}
	for _, topic := range topics {
		n := 0
		for _, d := range w.documents {
			if d.contains(topic) {
				n++
				matched[d.ID] = true
			}
		}
		row := object{"keyword": topic, "matched": n, "unique": n, "shared": 0, "contains_operators": false, "unique_share": nil}
		if n >= 10 {
			row["unique_share"] = real(1)
		}
		rows = append(rows, row)
	}
	return r.whole(object{"scope": object{"type": "corpus"}, "keywords": rows, "documents_considered": len(w.documents), "documents_matched": len(matched),
		"documents_unexplained": len(w.documents) - len(matched), "sample_size": len(w.documents), "minimum_sample_for_share": 10, "sufficient": true, "insufficient_reason": nil,
		"fields_checked": searchedFields})
}

func analyticsRoutines(w *world, r *request) answer { return r.whole(w.routineHealth()) }

func (w *world) routineHealth() object {
	rows := []object{}
	for _, of := range w.routines {
		series, total := []object{}, 0
		for _, e := range w.executions {
			if e.RoutineID != nil && *e.RoutineID == of.ID && len(series) < 10 {
				series = append(series, object{"start_time": e.StartTime, "new_results": e.NewResultCount, "total_results": e.ResultCount})
				total += e.NewResultCount
			}
		}
		rows = append(rows, object{"routine_id": of.ID, "name": of.Name, "schedule_cron": of.ScheduleCron, "is_active": of.IsActive, "runs": len(series), "series": series, "runs_since_new": 0,
			"last_new_result_at": of.LastExecutedAt, "total_new": total, "status": "healthy", "sample_size": len(series), "sufficient": len(series) >= 3,
			"missed_fires": of.MissedFires["count"], "last_missed_fire_at": of.MissedFires["last_due_at_utc"]})
	}
	return object{"routines": rows, "minimum_runs": 3, "stale_after": 3, "sample_size": len(rows), "sufficient": true, "insufficient_reason": nil}
}

func analyticsVolume(w *world, r *request) answer { return r.whole(w.publicationVolume()) }

func (w *world) publicationVolume() object {
	names, _ := w.sourceTotals()
	months := map[string]map[string]int{}
	dated := 0
	for _, d := range w.documents {
		if d.PublicationDate == nil {
			continue
		}
		dated++
		month := (*d.PublicationDate)[:7]
		if months[month] == nil {
			months[month] = map[string]int{}
		}
		months[month][d.SourceRepository]++
	}
	series := []object{}
	for _, month := range slices.Sorted(maps.Keys(months)) {
		total := 0
		for _, n := range months[month] {
			total += n
		}
		series = append(series, object{"month": month, "total": total, "groups": months[month]})
	}
	return object{"group_by": "source", "groups": names, "series": series, "sample_size": dated, "sufficient": true, "insufficient_reason": nil}
}

func analyticsOverview(w *world, r *request) answer {
	names, _ := w.sourceTotals()
	people, withDOI, completed := map[string]bool{}, 0, 0
	for _, d := range w.documents {
		if d.DOI != nil {
			withDOI++
		}
		for _, a := range nameList(d) {
			people[a] = true
		}
	}
	for _, e := range w.executions {
		if e.Status == "completed" {
			completed++
		}
	}
	return r.whole(object{
		"summary": object{"documents": len(w.documents), "unique_papers": len(w.documents), "distinct_authors": len(people), "sources": len(names), "completed_executions": completed,
			"first_seen": moment(59), "last_seen": moment(0), "doi_coverage": share(withDOI, len(w.documents)), "sample_size": len(w.documents), "sufficient": true},
		"source_contribution": w.sourceContribution(), "discovery_lag": w.discoveryLag(), "routine_health": w.routineHealth(), "publication_volume": w.publicationVolume(),
	})
}
