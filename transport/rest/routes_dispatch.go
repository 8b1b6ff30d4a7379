package rest

import "net/http"

// dispatchRoutes are the twins of the verbs of voyages, missions, captains and
// docks. quarantine and unquarantine are bench_captain and unbench_captain:
// there is no other verb that keeps a captain from work.
var dispatchRoutes = []Route{
	{"GET", "/api/v1/voyages", "Voyages, in pages, newest first (?status=&vesselId=&jobId=).", Administrators, maxSmallBody, records("voyages", "status", "vesselId", "jobId", "includeDescription")},
	{"POST", "/api/v1/voyages", "Dispatches a voyage, as dispatch: 201 with it when it is there within ?waitSeconds=0..50 (30), else 202 with the job.", Administrators, maxNote, answering((*api).dispatch)},
	{"GET", "/api/v1/voyages/{id}", "One voyage and its missions.", Administrators, maxSmallBody, answering((*api).voyage)},
	{"DELETE", "/api/v1/voyages/{id}", "Cancels a voyage, as cancel_voyage: what runs is ended, the records stay.", Administrators, maxSmallBody, about("cancel_voyage", "voyageId")},
	{"DELETE", "/api/v1/voyages/{id}/purge", "Deletes a voyage that has ended, and its missions.", Administrators, maxSmallBody, about("purge_voyage", "voyageId")},
	{"POST", "/api/v1/voyages/delete/multiple", "Deletes voyages that have ended, each by itself: {Ids}.", Administrators, maxNote, told[manyRecords]("delete_voyages", "")},

	{"GET", "/api/v1/missions", "Missions, in pages, newest first (?status=&voyageId=&vesselId=&captainId=).", Administrators, maxSmallBody, records("missions", "status", "voyageId", "vesselId", "captainId")},
	{"POST", "/api/v1/missions", "Creates a mission, as create_mission.", Administrators, maxNote, told[missionBody]("create_mission", "")},
	{"GET", "/api/v1/missions/{id}", "One mission.", Administrators, maxSmallBody, about("mission_status", "missionId")},
	{"PUT", "/api/v1/missions/{id}", "Changes the given fields of a mission that was not assigned yet.", Administrators, maxNote, told[missionChange]("update_mission", "missionId")},
	{"DELETE", "/api/v1/missions/{id}", "Cancels a mission, as cancel_mission: its agent is ended, the record stays.", Administrators, maxSmallBody, about("cancel_mission", "missionId")},
	{"DELETE", "/api/v1/missions/{id}/purge", "Deletes a mission that is not under way, its dock, log and diff.", Administrators, maxSmallBody, about("purge_mission", "missionId")},
	{"POST", "/api/v1/missions/delete/multiple", "Deletes missions that are not under way, each by itself: {Ids}.", Administrators, maxNote, told[manyRecords]("delete_missions", "")},
	{"PUT", "/api/v1/missions/{id}/status", "Has a mission take another status: {Status}, as transition_mission_status.", Administrators, maxSmallBody, told[statusWanted]("transition_mission_status", "missionId")},
	{"POST", "/api/v1/missions/{id}/restart", "Makes a mission that Failed or was Cancelled Pending again: {Title, Description} replace its own.", Administrators, maxNote, told[missionAgain]("restart_mission", "missionId")},
	{"POST", "/api/v1/missions/{id}/retry-landing", "Lands a mission whose landing failed; answers with the end of it.", Administrators, maxSmallBody, about("retry_landing", "missionId")},
	{"GET", "/api/v1/missions/{id}/diff", "What a mission changed, as a diff.", Administrators, maxSmallBody, about("get_mission_diff", "missionId")},
	{"GET", "/api/v1/missions/{id}/log", "Lines of a mission's log (?offset=&lines=); ?follow=true gives them as server-sent events as they come, until the mission has ended.", Administrators, maxSmallBody, func(a *api) http.Handler { return http.HandlerFunc(a.missionLog) }},
	{"GET", "/api/v1/missions/{id}/output", "A part of a mission's final message (?offset=&length=, in characters).", Administrators, maxSmallBody, asked("mission_output", "missionId", "offset", "length")},

	{"GET", "/api/v1/captains", "Captains, in pages, newest first (?status=).", Administrators, maxSmallBody, records("captains", "status")},
	{"POST", "/api/v1/captains", "Registers an agent program, as create_captain.", Administrators, maxNote, told[captainBody]("create_captain", "")},
	{"GET", "/api/v1/captains/{id}", "One captain; never its key.", Administrators, maxSmallBody, about("get_captain", "captainId")},
	{"PUT", "/api/v1/captains/{id}", "Changes the given fields of a captain.", Administrators, maxNote, told[captainBody]("update_captain", "captainId")},
	{"DELETE", "/api/v1/captains/{id}", "Deletes a captain that does nothing.", Administrators, maxSmallBody, about("delete_captain", "captainId")},
	{"POST", "/api/v1/captains/delete/multiple", "Deletes captains that do nothing, each by itself: {Ids}.", Administrators, maxNote, told[manyRecords]("delete_captains", "")},
	{"POST", "/api/v1/captains/{id}/stop", "Ends what a captain does; its mission ends Cancelled.", Administrators, maxSmallBody, about("stop_captain", "captainId")},
	{"POST", "/api/v1/captains/stop-all", "Ends what every captain does.", Administrators, maxSmallBody, plainly("stop_all")},
	{"POST", "/api/v1/captains/{id}/quarantine", "Keeps a captain from work, as bench_captain: {Reason, UntilUtc, DurationMinutes}.", Administrators, maxSmallBody, told[quarantineBody]("bench_captain", "captainId")},
	{"POST", "/api/v1/captains/{id}/unquarantine", "Lets a captain work again, as unbench_captain.", Administrators, maxSmallBody, about("unbench_captain", "captainId")},
	{"GET", "/api/v1/captains/{id}/log", "Lines of the log of a captain's mission (?offset=&lines=).", Administrators, maxSmallBody, asked("get_captain_log", "captainId", "lines", "offset")},
	{"GET", "/api/v1/captains/{id}/diagnostics", "What a captain does, and how its dock stands.", Administrators, maxSmallBody, about("captain_diagnostics", "captainId")},

	{"GET", "/api/v1/docks", "Docks, in pages, newest first (?status=&vesselId=&missionId=).", Administrators, maxSmallBody, records("docks", "status", "vesselId", "missionId", "captainId")},
	{"GET", "/api/v1/docks/{id}", "One dock: a worktree of a vessel.", Administrators, maxSmallBody, about("get_dock", "dockId")},
	{"DELETE", "/api/v1/docks/{id}", "Deletes a dock that is not in use.", Administrators, maxSmallBody, about("delete_dock", "dockId")},
	{"DELETE", "/api/v1/docks/{id}/purge", "Deletes a dock whose process is gone, also when git is confused.", Administrators, maxSmallBody, about("purge_dock", "dockId")},
	{"POST", "/api/v1/docks/delete/multiple", "Deletes docks that are not in use, each by itself: {Ids}.", Administrators, maxNote, told[manyRecords]("delete_docks", "")},
	{"POST", "/api/v1/docks/{id}/repair", "Makes the missing worktree of a dock again, from its branch.", Administrators, maxSmallBody, about("repair_dock", "dockId")},
	{"POST", "/api/v1/docks/{id}/unstick", "Frees a dock whose mission is final and whose process is gone.", Administrators, maxSmallBody, about("unstick_dock", "dockId")},
}
