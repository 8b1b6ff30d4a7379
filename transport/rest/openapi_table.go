package rest

import (
	"encoding/json"
	"maps"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/drain"
	"berth/broker/native/board"
	"berth/broker/native/codeindex"
	verbs "berth/broker/native/dispatch"
	"berth/broker/native/events"
	"berth/broker/native/hold"
	"berth/broker/native/status"
	"berth/broker/native/upkeep"
)

// The types that stand in for raw JSON of other packages.
type (
	credentialPage struct{ Page[Credential] }
	revokeRequest  struct{ Reason string }
	logIn          struct{ Token string }

	backendPage struct{ Page[Backend] }
	sessionPage struct{ Page[Session] }
	jobPage     struct {
		Page[Job]
		UnreadableJournalRecords int
	}
	inboxItems   []status.Item
	journalStats map[string]any
	surfaceView  map[string]any
	done         struct{ Success bool }
	checkReport  struct {
		Success, Clean bool
		Problems       []struct{ Kind, ID, Detail string }
		Unseen         []string // parts that were not looked at; empty: everything was
	}
	explanation struct {
		JobID       string `json:"JobId"`
		Status      broker.JobStatus
		Explanation []string
		Next        string
		Event       map[string]any
	}
	cancelRequest struct{ Reason string }
	openAPI       map[string]any
	reasonGiven   struct{ Reason string }
	holdRequest   struct {
		Action string
		Reason string `json:",omitempty"`
		SetBy  string `json:",omitempty"`
	}
	// holdChange is what engage answers, or clear.
	holdChange struct {
		Active         bool
		Hold           *hold.View        `json:",omitempty"`
		UnfinishedJobs []json.RawMessage `json:",omitempty"`
		Cleared        *bool             `json:",omitempty"`
		WasActive      *bool             `json:",omitempty"`
		ClearedBy      *string           `json:",omitempty"`
		ClearedUTC     string            `json:"ClearedUtc,omitempty"`
	}
	restoreRequest struct{ FilePath string }
	restored       struct {
		Status           string
		SafetyBackupPath *string
		SchemaVersion    int
		RecordCounts     map[string]int
		Message          string
		RestartRequired  bool
	}
	eventPage     events.Page
	vesselPage    struct{ Page[verbs.VesselRow] }
	vesselDeleted struct {
		Status   string
		VesselID string `json:"VesselId"`
		Warnings []string
	}
	codeIndexState struct{ codeindex.Status }
	// codeAnswer is what a search found, or why there was none.
	codeAnswer struct {
		Status            codeIndexState
		Query             string
		Results           []codeResult   `json:",omitempty"`
		Available         *bool          `json:",omitempty"`
		UnavailableReason string         `json:",omitempty"`
		Readiness         *codeReadiness `json:",omitempty"`
	}
	codeResult struct {
		Score   int
		Record  map[string]any
		Excerpt string
	}
	codeReadiness struct {
		VesselID  string `json:"VesselId"`
		Freshness codeindex.Freshness
		Remedy    string
	}
	eventDeleted events.Deleted
)

// The parameters of every paged list.
var paging = []param{
	{Name: "pageNumber", Type: "integer", Says: "Which page, from 1."},
	{Name: "pageSize", Type: "integer", Says: "Records on a page, 1 to 1000; a number outside is taken as the nearest one inside."},
}

// ordered is which way round such a list is.
var ordered = param{Name: "order", Type: "string", Words: []string{broker.CreatedDescending, broker.CreatedAscending}, Says: "The newest first without it."}

// documents describes every route, by method and path: a route without a row
// here, and a row without a route, fail a test.
var documents = joined(map[string]document{
	"GET /healthz":         {Media: "text/plain"},
	"GET /metrics":         {Media: "text/plain"},
	"GET /api/v1/status":   {Answer: Status{}},
	"GET /api/v1/backends": {Answer: backendPage{}},
	"GET /api/v1/sessions": {Answer: sessionPage{}},
	"GET /api/v1/tools":    {Answer: ToolPage{}, Query: []param{{Name: "profile", Type: "string", Says: "Of this profile; the merged one without it."}}},
	"GET /api/v1/catalog":  {Answer: CatalogPage{}, Query: []param{{Name: "tokens", Type: "boolean", Says: "Counts what each verb costs in a list."}}},
	"GET /api/v1/catalog/surface": {Answer: surfaceView{}, Query: []param{
		{Name: "profile", Type: "string", Says: "Of this profile; without it the one of an endpoint that names none."}}},
	"GET /api/v1/profiles/{name}":         {Answer: ProfileView{}},
	"POST /api/v1/backends/{name}/accept": {Answer: done{}},
	"GET /api/v1/jobs": {Answer: jobPage{}, Query: append([]param{
		{Name: "status", Type: "string", Words: words(jobStatuses), Says: "Only this status."},
		{Name: "operation", Type: "string", Says: "Only jobs of this verb."}}, paging...)},
	"GET /api/v1/jobs/{id}":         {Answer: Job{}, Query: []param{{Name: "waitSeconds", Type: "integer", Says: "Waits for a change of the status, 0 to 50 seconds."}}},
	"GET /api/v1/jobs/{id}/explain": {Answer: explanation{}},
	"POST /api/v1/jobs/{id}/cancel": {Answer: Job{}, Body: cancelRequest{}},
	"POST /api/v1/calls":            {Answer: CallAnswer{}, Body: CallRequest{}},
	"GET /api/v1/journal/stats":     {Answer: journalStats{}},
	"GET /api/v1/journal/check": {Answer: checkReport{}, Query: []param{{Name: "withinSeconds", Type: "integer",
		Says: "Looks as far as it comes in 1 to 60 seconds, without the pages, which writes would wait for; Unseen names what was left out. 0, or without it: everything."}}},
	"GET /api/v1/journal/dump":  {Media: "application/x-ndjson", Query: []param{{Name: "results", Type: "boolean", Says: "With the results of the jobs."}}},
	"GET /api/v1/backup":        {Media: "application/zip"},
	"POST /api/v1/token/rotate": {Answer: Rotated{}},
	"GET /api/v1/status/health": {Answer: Health{}},
	"GET /api/v1/inbox":         {Answer: inboxItems{}},
	"GET /api/v1/events": {Answer: eventPage{}, Query: append([]param{
		{Name: "eventType", Type: "string", Says: "Only events of this type, such as job.failed."},
		{Name: "entityType", Type: "string", Says: "Only events of such an entity, such as job."},
		{Name: "entityId", Type: "string", Says: "Only events of this entity."},
		{Name: "jobId", Type: "string", Says: "Only events of this job, its end on an objective included."},
		{Name: "captainId", Type: "string", Says: "Only events with this captain."},
		{Name: "missionId", Type: "string", Says: "Only events with this mission."},
		{Name: "vesselId", Type: "string", Says: "Only events with this vessel."},
		{Name: "voyageId", Type: "string", Says: "Only events with this voyage."},
		{Name: "createdAfter", Type: "string", Says: "Only events created at or after this time, such as 2026-05-04T09:12:00Z."},
		{Name: "createdBefore", Type: "string", Says: "Only events created before this time."},
		ordered}, paging...)},
	"DELETE /api/v1/events/{id}": {Answer: eventDeleted{}},
	"GET /api/v1/events/stream": {Answer: StreamEvent{}, Media: "text/event-stream", Query: []param{
		{Name: "cursor", Type: "string", Says: "Goes on after this event. What was missed is given again, up to 128 events or 1 MiB; an event.gap says that there was more."},
		{Name: "live", Type: "boolean", Says: "With changes of jobs, job.changed, which stand in no journal."},
		{Name: "Last-Event-ID", Type: "string", Header: true, Says: "The cursor that a browser sends when it comes back; it goes before the one in the query."}}},
	"POST /api/v1/backends/{name}/drain":          {Answer: drain.Drained{}, Body: reasonGiven{}, Query: waiting("Waits until nothing is left there, 0 to 50 seconds.")},
	"POST /api/v1/backends/{name}/resume":         {Answer: drain.Drained{}, Body: reasonGiven{}},
	"POST /api/v1/backends/{name}/restart":        {Answer: drain.Drained{}, Body: reasonGiven{}, Query: waiting("How long what runs has to end, 0 to 50 seconds; 10 without it.")},
	"GET /api/v1/hold":                            {Answer: hold.Standing{}},
	"POST /api/v1/hold":                           {Answer: holdChange{}, Body: holdRequest{}},
	"GET /api/v1/vessels":                         {Answer: vesselPage{}, Query: listing(param{Name: "includeContext", Type: "boolean", Says: "With what missions are told, not its length."})},
	"POST /api/v1/vessels":                        {Answer: dispatch.Vessel{}, Body: vesselBody{}},
	"GET /api/v1/vessels/{id}":                    {Answer: dispatch.Vessel{}},
	"PUT /api/v1/vessels/{id}":                    {Answer: dispatch.Vessel{}, Body: vesselBody{}},
	"DELETE /api/v1/vessels/{id}":                 {Answer: vesselDeleted{}},
	"POST /api/v1/vessels/delete/multiple":        {Answer: manyDeleted{}, Body: manyRecords{}},
	"GET /api/v1/vessels/{id}/code-index/status":  {Answer: codeIndexState{}},
	"POST /api/v1/vessels/{id}/code-index/update": {Answer: Job{}, Body: updateBody{}, Status: 202},
	"POST /api/v1/vessels/{id}/code-index/search": {Answer: codeAnswer{}, Body: codeSearchBody{}},
	"POST /api/v1/restore": {Answer: restored{}, Body: restoreRequest{}, Query: []param{
		{Name: "X-Original-Filename", Type: "string", Header: true, Says: "The name of an archive that is the body itself, with Content-Type application/zip."}}},
	"POST /api/v1/server/stop": {Answer: upkeep.Stopping{}},
	"POST /api/v1/reload":      {Answer: Reloaded{}},
	"GET /api/v1/board": {Answer: board.Room{}, Query: []param{
		{Name: "room", Type: "string", Says: "The key of the room; the one that all share without it."},
		{Name: "limit", Type: "integer", Says: "Notes at most, 1 to 500; 50 without it."},
		{Name: "after", Type: "string", Says: "The earliest notes after this time, such as 2026-05-04T09:12:00Z; the latest without it."},
		{Name: "participant", Type: "string", Says: "With the notes to this participant, and its unread wakes."},
		{Name: "full", Type: "boolean", Says: "Whole notes, not their first 600 characters."}}},
	"POST /api/v1/board":                   {Answer: board.Message{}, Body: board.Draft{}},
	"POST /api/v1/signals/{id}/read":       {Answer: board.Acknowledged{}},
	"POST /api/v1/authenticate":            {Answer: Authenticated{}, Body: logIn{}},
	"GET /api/v1/credentials":              {Answer: credentialPage{}},
	"POST /api/v1/credentials":             {Answer: Credential{}, Body: CredentialRequest{}},
	"POST /api/v1/credentials/{id}/revoke": {Answer: Credential{}, Body: revokeRequest{}},
	"GET /api/v1/openapi.json":             {Answer: openAPI{}},
}, dispatchDocuments)

// joined are the rows of several tables.
func joined(tables ...map[string]document) map[string]document {
	out := map[string]document{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}

func waiting(says string) []param {
	return []param{{Name: "waitSeconds", Type: "integer", Says: says}}
}

func words[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}
