package resmon

import (
	"encoding/json"

	"berth/broker"
	"berth/transport/app"
)

// Arguments that several tools share.
var (
	docID     = app.Param{Name: "doc_id", Kind: app.ID, Required: true, About: "A paper's id in this corpus."}
	execID    = app.Param{Name: "exec_id", Kind: app.ID, Required: true, About: "A run's id."}
	routineID = app.Param{Name: "routine_id", Kind: app.ID, Required: true, About: "A routine's id."}
	profileID = app.Param{Name: "profile_id", Kind: app.ID, Required: true, About: "A watch profile's id."}
	limit     = app.Param{Name: "limit", Kind: app.Limit, Least: 1, Most: 100, Else: 25}
	offset    = app.Param{Name: "offset", Kind: app.Offset}
	dateFrom  = app.Param{Name: "date_from", Kind: app.Text, About: "YYYY-MM-DD"}
	dateTo    = app.Param{Name: "date_to", Kind: app.Text, About: "YYYY-MM-DD"}
	expected  = app.Param{Name: "expected_runtime_id", Kind: app.Text, About: "Answer only if this very process of resmon does: identity.runtime_id as health reports it. Leave it out otherwise."}
	slugs     = "Slugs as list_sources gives them."
)

// newTools is the table, in the order of tools/list, which is by name. walk
// bounds the pages that a filtered list of runs reads.
func newTools(walk int) []app.Tool {
	return []app.Tool{
		{Name: "activate_routine", Effects: broker.Write, Confirm: true, Tells: "get_routine", Run: app.Whole(routeActivate, "routine_id"),
			About:  "Puts a routine on its schedule. Repeating it is no error.",
			Params: []app.Param{routineID}},
		{Name: "create_routine", Effects: broker.Write, Confirm: true, Tells: "list_routines", Run: createRoutine,
			About:   "Creates a routine, a search that can repeat on a schedule. It is created inactive: activate_routine starts the schedule. A warning in detail must be told to the user.",
			Example: json.RawMessage(`{"keywords":["<keyword>"],"name":"<name>","schedule":"0 6 * * *","sources":["arxiv"]}`),
			Params: []app.Param{
				{Name: "name", Kind: app.Text, Required: true},
				{Name: "keywords", Kind: app.TextOrTexts, Required: true},
				{Name: "sources", Kind: app.Texts, Required: true, About: slugs},
				{Name: "schedule", Kind: app.Text, Required: true, About: "A cron expression of five fields."},
				{Name: "intent", Kind: app.Text, About: "One sentence that results are audited against. Only the user's own words; never the keywords."},
				{Name: "entity", Kind: app.Any, About: "Follows a person instead of words.",
					Schema: json.RawMessage(`{"type":"object","properties":{"profile_id":{"type":"integer"},"mode":{"type":"string","enum":["new_papers","retractions"]}}}`)},
				{Name: "ai_enabled", Kind: app.Flag},
				{Name: "email_enabled", Kind: app.Flag},
				{Name: "email_ai_summary_enabled", Kind: app.Flag},
				{Name: "notify_on_complete", Kind: app.Flag},
				{Name: "is_active", Refused: "create_routine does not take is_active: a routine is created inactive, and activate_routine starts its schedule."},
				{Name: "ai_settings", Refused: "create_routine does not take ai_settings: they could choose a provider or an address, which is done in the app."},
				{Name: "storage_settings", Refused: "create_routine does not take storage_settings: they could choose a directory, which is done in the app."},
			}},
		{Name: "create_watch_profile", Effects: broker.Write, Confirm: true, Tells: "list_watch_profiles", Run: createProfile,
			About: "Creates the watch profile of a person. Without an ORCID its matches rest on names alone; basis_warning says so and must be told to the user.",
			Params: []app.Param{
				{Name: "name", Kind: app.Text, Required: true},
				{Name: "orcid", Kind: app.Text},
				{Name: "orcid_cited", Kind: app.Text, About: "Where the ORCID is from."},
				{Name: "aliases", Kind: app.Texts},
				{Name: "affiliations", Kind: app.Texts},
				{Name: "field_hints", Kind: app.Texts},
			}},
		{Name: "deactivate_routine", Effects: broker.Write, Confirm: true, Tells: "get_routine", Run: app.Whole(routeDeactivate, "routine_id"),
			About:  "Takes a routine off its schedule. The routine and what it found stay.",
			Params: []app.Param{routineID}},
		{Name: "explain_match", Run: app.Whole(routeWhy, "doc_id"),
			About:  "Which keywords of its runs appear in a paper, where, and what resmon cannot verify. Most sources rank by relevance, so a paper that matches no keyword is expected and no fault; repeat what_resmon_cannot_see.",
			Params: []app.Param{docID}},
		{Name: "export_references", Run: exportReferences, Records: records, Fewer: "Or export fewer at once with doc_ids.",
			About:   "The references of a run, or of papers by id, as one text for a reference manager. Give exec_id or doc_ids, not both.",
			Example: json.RawMessage(`{"exec_id":0}`),
			Params: []app.Param{
				{Name: "exec_id", Kind: app.ID, About: execID.About},
				{Name: "doc_ids", Kind: app.IDs},
				{Name: "format", Kind: app.Word, Words: []string{"bibtex", "ris", "csv", "json"}, Default: "bibtex"},
			}},
		{Name: "find_similar", Run: findSimilar,
			About:  "The papers nearest to one paper by stored vectors, with distances. An empty list says why in reason.",
			Params: []app.Param{docID, {Name: "limit", Kind: app.Limit, Least: 1, Most: 50, Else: 25}}},
		{Name: "get_analytics", Run: getAnalytics,
			About: "One summary of the corpus or of the routines, with its sample sizes.",
			Params: []app.Param{
				{Name: "view", Kind: app.Word, Required: true, Words: viewNames()},
				{Name: "window", Kind: app.Text, About: "A period, such as 30d; window_note says when it may not have been used."},
			}},
		{Name: "get_execution", Control: true, Run: getExecution,
			About:  "One run whole: status, per-source coverage, counts, times, parameters. status is running, completed, failed, cancelled or interrupted; interrupted means that the process went away, not that the search failed.",
			Params: []app.Param{execID, expected}},
		{Name: "get_execution_results", Run: getResults,
			About:  "The papers that a run found, newest first. Each id can be given to explain_match.",
			Params: []app.Param{execID, limit, offset}},
		{Name: "get_paper_lifecycle", Run: app.Whole(routeLifecycle, "doc_id"),
			About:  "Retraction, publication of a preprint and version changes of a paper, each with its notice. No events with checked_at null means that nobody looked.",
			Params: []app.Param{docID}},
		{Name: "get_profile_matches", Run: getMatches,
			About:  "The papers that match a watch profile. Each row says on what basis: a name alone is no evidence that it is this person. Repeat the basis with any claim.",
			Params: []app.Param{profileID, limit, offset}},
		{Name: "get_routine", Run: getRoutine,
			About:  "One routine whole, with fires it missed, an audit of its results against its intent (coverage) and a summary of where its reports go (delivery), without addresses.",
			Params: []app.Param{routineID}},
		{Name: "get_search_record", Run: app.Whole(routeSearchRecord, "exec_id"),
			About:  "The reproducible record of a run, shaped for PRISMA: search.queries_as_sent is what each source was sent, search.query_as_sent what was typed. Repeat its caveats.",
			Params: []app.Param{execID}},
		{Name: "get_watch_profile", Run: getProfile,
			About:  "One watch profile whole, with its number of matches by basis.",
			Params: []app.Param{profileID}},
		{Name: "get_watchdog_findings", Run: getFindings,
			About:  "What the watchdog finds wrong with sources and routines, what to do, and what it cannot judge. severity is broken, unusual, advice or withdrawn; a word that is none of these is not an alarm.",
			Params: []app.Param{{Name: "include_muted", Kind: app.Flag, About: "Also those that the user muted."}}},
		{Name: "health", Control: true, SelfBound: true, Run: app.Whole(routeHealth, ""),
			About:  "Version, state and identity of the running resmon.",
			Params: []app.Param{expected}},
		{Name: "list_executions", Run: listExecutions(walk),
			About: "Runs, newest first. total is null unless the end was seen; truncated says that older runs were not looked at.",
			Params: []app.Param{
				{Name: "routine_id", Kind: app.ID},
				{Name: "status", Kind: app.Text, About: "running, completed, failed, cancelled or interrupted"},
				limit, offset,
			}},
		{Name: "list_routines", Run: listRoutines,
			About:  "All routines with schedule, sources, keywords and missed fires: those that came due while resmon was closed.",
			Params: []app.Param{{Name: "active_only", Kind: app.Flag}}},
		{Name: "list_sources", Run: listSources,
			About: "All sources that resmon can search, and whether one needs a key and has it (present, absent or unreadable). No value of a key is shown."},
		{Name: "list_watch_profiles", Run: listProfiles,
			About:  "The people, institutions and groups that are watched. basis_warning says that a profile has no identifier.",
			Params: []app.Param{{Name: "kind", Kind: app.Word, Words: []string{"person", "institution", "group"}}}},
		{Name: "run_routine", Effects: broker.Exec, Confirm: true, Held: true, Tells: "list_executions", Run: runRoutine, Tracks: tracks,
			About:  "Runs a routine now, an inactive one too. Read queued before execution_id: at the run limit the run is queued and has no id yet. Poll get_execution; the run may end interrupted.",
			Params: []app.Param{routineID}},
		{Name: "run_sweep", Effects: broker.Exec, Confirm: true, Held: true, Tells: "list_executions", Run: runSweep, Tracks: tracks,
			About:   "Starts a search of sources and answers at once with its execution_id. Poll get_execution; the run may end interrupted, which means that resmon went away, not that the search failed.",
			Example: json.RawMessage(`{"query":"<query>","sources":["arxiv"]}`),
			Params: []app.Param{
				{Name: "query", Kind: app.Text, Required: true},
				{Name: "sources", Kind: app.Texts, Required: true, About: slugs},
				dateFrom, dateTo,
				{Name: "max_results", Kind: app.Count, Least: 1, Else: 50, About: "For each source."},
				{Name: "ai_enabled", Kind: app.Flag},
			}},
		{Name: "search_corpus", Run: searchCorpus,
			About: "Searches the stored papers: keyword finds papers with every word, newest first; semantic ranks by meaning. mode in the answer is what was served. For the next page give next_cursor as cursor.",
			Params: []app.Param{
				{Name: "query", Kind: app.Text, Required: true},
				{Name: "mode", Kind: app.Word, Words: []string{"keyword", "semantic"}, Default: "keyword", AnyCase: true},
				{Name: "sources", Kind: app.Texts, About: slugs},
				dateFrom, dateTo, limit,
				{Name: "cursor", Kind: app.Text},
				{Name: "offset", Refused: "search_corpus takes no offset: give the next_cursor of one page as cursor to get the next."},
			}},
		{Name: "update_settings", Effects: broker.Write, Confirm: true, Tells: "The settings in the app", First: refuseCredentials, Run: updateSettings,
			About:   "Changes settings of one group and answers what moved. Where resmon sends, runs or writes things, what a model is told, and keys are changed in the app only. Give booleans as \"true\" or \"false\".",
			Example: json.RawMessage(`{"group":"notifications","settings":{"notify_manual":"true"}}`),
			Params: []app.Param{
				{Name: "group", Kind: app.Word, Required: true, Words: groupNames},
				{Name: "settings", Kind: app.Record, Required: true, Schema: json.RawMessage(`{"type":"object","additionalProperties":{"type":"string"}}`)},
			}},
		findQueuedRun,
	}
}
