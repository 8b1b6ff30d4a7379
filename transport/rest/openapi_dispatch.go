package rest

import (
	"berth/broker/dispatch"
)

// The shapes of the answers about voyages, missions, captains and docks that no
// reader decodes whole. A record may have more members than are named.
type (
	voyagePage       struct{ Page[Voyage] }
	missionPage      struct{ Page[Mission] }
	captainPage      struct{ Page[Captain] }
	dockPage         struct{ Page[Dock] }
	voyageDispatched struct {
		Voyage
		MissionStartRefs []StartRef
	}
	voyageCancelled struct {
		Voyage            Voyage
		CancelledMissions []string
	}
	voyagePurged struct {
		Status          string
		VoyageID        string `json:"VoyageId"`
		MissionsDeleted int
	}
	missionPurged struct {
		Status    string
		MissionID string `json:"MissionId"`
	}
	captainDone struct {
		Status    string
		CaptainID string `json:"CaptainId"`
	}
	captainsStopped struct {
		Status   string
		Stopped  *int `json:",omitempty"`
		Failed   *int `json:",omitempty"`
		Failures []struct {
			CaptainID       string `json:"CaptainId"`
			Reason, Message string
		} `json:",omitempty"`
	}
	captainLog struct {
		CaptainID  string `json:"CaptainId"`
		Log        string
		Lines      int
		TotalLines int
	}
	// captainDiagnostics keeps the casing of its verb.
	captainDiagnostics struct {
		CaptainID       string                `json:"captainId"`
		State           dispatch.CaptainState `json:"state"`
		ActiveMissionID *string               `json:"activeMissionId"`
		DockID          *string               `json:"dockId"`
	}
	dockGone struct {
		Status string
		DockID string `json:"DockId"`
	}
	manyDeleted struct {
		Status  string
		Deleted int
		Skipped []struct {
			ID     string `json:"Id"`
			Reason string
		}
	}
)

// listing are the parameters of a list of records, with filters of its own.
func listing(filters ...param) []param {
	return append(append(filters,
		param{Name: "createdAfter", Type: "string", Says: "Only records created at or after this time, such as 2026-05-04T09:12:00Z."},
		param{Name: "createdBefore", Type: "string", Says: "Only records created before this time."}, ordered), paging...)
}

// of filters a list by a record that its records belong to.
func of(name, what string) param {
	return param{Name: name, Type: "string", Says: "Only those of this " + what + "."}
}

var (
	ofStatus = param{Name: "status", Type: "string", Says: "Only this status; a word that is none is refused."}
	logPart  = []param{{Name: "offset", Type: "integer", Says: "How many lines to pass over; none without it."},
		{Name: "lines", Type: "integer", Says: "How many lines at most, 1 to 5000; 100 without it."}}
)

// dispatchDocuments describes dispatchRoutes.
var dispatchDocuments = map[string]document{
	"GET /api/v1/voyages": {Answer: voyagePage{}, Query: listing(ofStatus, of("vesselId", "vessel"), of("jobId", "job"),
		param{Name: "includeDescription", Type: "boolean", Says: "With whole descriptions, not their lengths."})},
	"POST /api/v1/voyages": {Answer: voyageDispatched{}, Body: voyageBody{}, Status: 201, Accepted: Job{},
		Query: waiting("How long the job has to make the voyage, 0 to 50 seconds; 30 without it.")},
	"GET /api/v1/voyages/{id}": {Answer: VoyageView{}, Query: []param{
		{Name: "includeDescription", Type: "boolean", Says: "With descriptions; texts are cut at 4096 characters."},
		{Name: "includeDiffs", Type: "boolean", Says: "With diffs, cut."}, {Name: "includeLogs", Type: "boolean", Says: "With logs, cut."},
		{Name: "includeFields", Type: "string", Says: "Names joined by commas: titles, statuses, commitHashes, dependsOn, prestaged, persona, model."}}},
	"DELETE /api/v1/voyages/{id}":              {Answer: voyageCancelled{}},
	"DELETE /api/v1/voyages/{id}/purge":        {Answer: voyagePurged{}},
	"POST /api/v1/voyages/delete/multiple":     {Answer: manyDeleted{}, Body: manyRecords{}},
	"GET /api/v1/missions":                     {Answer: missionPage{}, Query: listing(ofStatus, of("voyageId", "voyage"), of("vesselId", "vessel"), of("captainId", "captain"))},
	"POST /api/v1/missions":                    {Answer: Mission{}, Body: missionBody{}},
	"GET /api/v1/missions/{id}":                {Answer: Mission{}},
	"PUT /api/v1/missions/{id}":                {Answer: Mission{}, Body: missionChange{}},
	"DELETE /api/v1/missions/{id}":             {Answer: Mission{}},
	"DELETE /api/v1/missions/{id}/purge":       {Answer: missionPurged{}},
	"POST /api/v1/missions/delete/multiple":    {Answer: manyDeleted{}, Body: manyRecords{}},
	"PUT /api/v1/missions/{id}/status":         {Answer: Mission{}, Body: statusWanted{}},
	"POST /api/v1/missions/{id}/restart":       {Answer: Mission{}, Body: missionAgain{}},
	"POST /api/v1/missions/{id}/retry-landing": {Answer: Landed{}},
	"GET /api/v1/missions/{id}/diff":           {Answer: Diff{}},
	"GET /api/v1/missions/{id}/log": {Answer: MissionLog{}, Stream: FollowedLog{}, Query: append([]param{
		{Name: "follow", Type: "boolean", Says: "Server-sent events instead, each with a FollowedLog; the id of one is the offset to go on from. The last is event: end."},
		{Name: "Last-Event-ID", Type: "string", Header: true, Says: "The id that a browser sends when it comes back; it goes before offset."}}, logPart...)},
	"GET /api/v1/missions/{id}/output": {Answer: Output{}, Query: []param{
		{Name: "offset", Type: "integer", Says: "How many characters to pass over; none without it."},
		{Name: "length", Type: "integer", Says: "How many characters at most, 1 to 64000; 16000 without it."}}},
	"GET /api/v1/captains":                    {Answer: captainPage{}, Query: listing(ofStatus)},
	"POST /api/v1/captains":                   {Answer: Captain{}, Body: captainBody{}},
	"GET /api/v1/captains/{id}":               {Answer: Captain{}},
	"PUT /api/v1/captains/{id}":               {Answer: Captain{}, Body: captainBody{}},
	"DELETE /api/v1/captains/{id}":            {Answer: captainDone{}},
	"POST /api/v1/captains/delete/multiple":   {Answer: manyDeleted{}, Body: manyRecords{}},
	"POST /api/v1/captains/{id}/stop":         {Answer: captainDone{}},
	"POST /api/v1/captains/stop-all":          {Answer: captainsStopped{}},
	"POST /api/v1/captains/{id}/quarantine":   {Answer: captainDone{}, Body: quarantineBody{}},
	"POST /api/v1/captains/{id}/unquarantine": {Answer: captainDone{}},
	"GET /api/v1/captains/{id}/log":           {Answer: captainLog{}, Query: logPart},
	"GET /api/v1/captains/{id}/diagnostics":   {Answer: captainDiagnostics{}},
	"GET /api/v1/docks":                       {Answer: dockPage{}, Query: listing(ofStatus, of("vesselId", "vessel"), of("missionId", "mission"), of("captainId", "captain"))},
	"GET /api/v1/docks/{id}":                  {Answer: Dock{}},
	"DELETE /api/v1/docks/{id}":               {Answer: dockGone{}},
	"DELETE /api/v1/docks/{id}/purge":         {Answer: dockGone{}},
	"POST /api/v1/docks/delete/multiple":      {Answer: manyDeleted{}, Body: manyRecords{}},
	"POST /api/v1/docks/{id}/repair":          {Answer: Dock{}},
	"POST /api/v1/docks/{id}/unstick":         {Answer: Dock{}},
}
