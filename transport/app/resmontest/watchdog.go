package resmontest

import "fmt"

func (w *world) makeFindings() {
	kinds := []struct{ key, severity, kind, source, title string }{
		{"source_errors:openalex", "broken", "source_errors", "openalex", "openalex has failed on its last 7 runs"},
		{"source_zeros:core", "unusual", "source_zeros", "core", "core has returned nothing 4 times"},
		{"source_in_part:biorxiv", "advice", "source_in_part", "biorxiv", "biorxiv answered its last 3 runs in part"},
		{"source_withdrawn:ieee", "withdrawn", "source_withdrawn", "ieee", "ieee is no longer asked"},
		{"source_novel:hal", "curious", "source_novel", "hal", "hal behaves in a way that has a new name"},
		{"source_errors:springer", "broken", "source_errors", "springer", "springer has failed on its last 3 runs"}, // muted
	}
	for i := range max(w.amounts.findings, len(kinds)) {
		k := kinds[i%len(kinds)]
		key, muted, mutedAt := k.key, k.source == "springer", any(nil)
		if i >= len(kinds) {
			key = fmt.Sprintf("%s_%d", k.key, i)
		}
		if muted {
			mutedAt = moment(3)
		}
		w.findings = append(w.findings, object{
			"key": key, "severity": k.severity, "kind": k.kind, "scope": object{"type": "source", "id": k.source}, "title": w.stamped(k.title),
			"detail": "The last runs are on record and say so.", "what_to_do": "Look whether " + k.source + " can be reached.",
			"evidence": object{"consecutive_errors": 7, "last_error": "HTTP 503", "last_success_at": nil, "runs_recorded": 7}, "muted": muted, "muted_at": mutedAt,
		})
	}
}

// watchdog lists muted findings too: the route has no argument.
func watchdog(w *world, r *request) answer {
	counts := map[string]int{}
	for _, f := range w.findings {
		if f["muted"] == true {
			counts["muted"]++
			continue
		}
		counts[f["severity"].(string)]++
	}
	return r.whole(object{
		"checked_at": w.now(), "findings": append([]object{}, w.findings...),
		"counts":          object{"broken": counts["broken"], "unusual": counts["unusual"], "advice": counts["advice"], "muted": counts["muted"], "alarms": counts["broken"] + counts["unusual"]},
		"not_enough_data": []object{{"scope": object{"type": "source", "id": "arxiv"}, "reason": "1 run on record; a baseline needs 5.", "runs_recorded": 1, "runs_needed": 5}},
		"watching":        object{"sources": 6, "routines": len(w.routines)},
		"thresholds": object{"consecutive_errors": 3, "consecutive_zeros": 4, "min_baseline_runs": 5, "flatline_runs": 5, "overdue_cadence_multiple": 3,
			"overdue_floor_days": real(1), "cadence_lag_multiple": real(2), "min_runs_for_cadence": 3},
		"sufficient": true,
	})
}
