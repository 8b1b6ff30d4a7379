package rest_test

import (
	"encoding/json"
	"time"

	"berth/broker"
)

const (
	aVessel = `{"Id":"vsl_1","TenantId":"t","UserId":"u","Name":"p","RepoUrl":"/r","DefaultBranch":"main","WorkingDirectory":"/r","LocalPath":null,"ProjectContext":null,"StyleGuide":null,"LandingMode":"None","BranchCleanupPolicy":"LocalOnly","AllowConcurrentMissions":false,"RequirePassingChecksToLand":false,"ProtectedPaths":[],"HasGitHubTokenOverride":false,"CreatedUtc":"2026-05-04T09:12:00Z","LastUpdateUtc":"2026-05-04T09:12:00Z"}`
	anIndex = `{"VesselId":"vsl_1","VesselName":"p","DefaultBranch":"main","IndexedCommitSha":"c","CurrentCommitSha":null,"IndexedAtUtc":"2026-05-04T09:12:00Z","Freshness":"Stale","UpdateInProgress":false,"UpdateStage":null,"UpdateHeartbeatUtc":null,"UpdateProgressDone":null,"UpdateProgressTotal":null,"UpdateProgressPercent":null,"DocumentCount":1,"ChunkCount":2,"UseSemanticSearch":false,"LastError":null,"SkippedFiles":{"Binary":1},"Warnings":["w"]}`

	aVoyage  = `{"Id":"vyg_1","TenantId":"t","UserId":"u","Title":"v","Description":null,"Status":"Open","VesselId":"vsl_1","SourceJobId":"job_v","Materialized":true,"Reason":null,"CreatedUtc":"2026-05-04T09:12:00Z","CompletedUtc":null,"LastUpdateUtc":"2026-05-04T09:12:00Z"`
	aMission = `{"Id":"msn_1","TenantId":"t","UserId":"u","VoyageId":"vyg_1","VesselId":"vsl_1","Title":"m","Description":"d","Mode":"Implementation","Persona":"Worker","Priority":100,"Alias":"a","DependsOnMissionId":null,"ParentMissionId":null,"StartFromRef":null,"StartCommit":null,"PreferredModel":null,"CapabilityHint":null,"CodeContextMode":"auto","CodeContextQuery":null,"PrestagedFiles":null,"Status":"InProgress","AssignmentState":"Assigned","CaptainId":"cpt_1","DockId":"dck_1","ProcessId":7,"ProcessStartedUtc":"2026-05-04T09:12:00Z","BranchName":"berth/msn_1","CommitHash":null,"PrUrl":null,"FailureReason":null,"FailureMessage":null,"LandingBegun":false,"CreatedUtc":"2026-05-04T09:12:00Z","AssignedUtc":null,"StartedUtc":null,"CompletedUtc":null,"LastUpdateUtc":"2026-05-04T09:12:00Z"}`
	aCaptain = `{"Id":"cpt_1","TenantId":"t","UserId":"u","Name":"c","Runtime":"Custom","Model":null,"ApiBaseUrl":null,"HasApiKey":true,"SystemInstructions":null,"AllowedPersonas":[],"PreferredPersona":null,"Tier":"Standard","PreferenceRank":0,"ReasoningEffort":null,"CustomCommand":["/bin/c"],"CustomPromptDelivery":"stdin","State":"Idle","CurrentMissionId":null,"CurrentDockId":null,"ProcessId":null,"ProcessStartedUtc":null,"LastHeartbeatUtc":null,"BenchReason":null,"BenchUntilUtc":null,"QuarantineReason":null,"CreatedUtc":"2026-05-04T09:12:00Z","LastUpdateUtc":"2026-05-04T09:12:00Z"}`
	aDock    = `{"Id":"dck_1","TenantId":"t","UserId":"u","VesselId":"vsl_1","MissionId":"msn_1","CaptainId":"cpt_1","WorktreePath":"/w","BranchName":"berth/msn_1","State":"Leased","Error":null,"CreatedUtc":"2026-05-04T09:12:00Z","LastUpdateUtc":"2026-05-04T09:12:00Z"}`
	aBench   = `{"Status":"benched","CaptainId":"cpt_1","Name":"c","State":"Benched","BenchReason":"r","BenchUntilUtc":null}`
	someGone = `{"Status":"PartiallyDeleted","Deleted":1,"Skipped":[{"Id":"x","Reason":"not_found"}]}`

	// landedVoyage is the result of a dispatch.
	landedVoyage = aVoyage + `,"MissionStartRefs":[{"MissionId":"msn_1","StartFromRef":"main","Alias":"a"},{"MissionId":"msn_2","StartFromRef":null}]}`
)

func pageOf(records string) string {
	return `{"Success":true,"PageNumber":1,"PageSize":10,"TotalPages":1,"TotalRecords":1,"Objects":[` + records + `],"TotalMs":0}`
}

// twinAnswers are the answers of the verbs behind routes, by verb; those of
// enumerate by what is listed.
var twinAnswers = map[string]string{
	"dispatch_hold":      `{"Active":true,"Hold":{"Reason":"r","SetBy":"ops-1","SetByUtc":"2026-05-04T09:12:00Z"},"UnfinishedJobs":[{"JobId":"job_1"}]}`,
	"restore":            `{"Status":"restored","SafetyBackupPath":"/s.zip","SchemaVersion":2,"RecordCounts":{"jobs":1},"Message":"m","RestartRequired":false}`,
	"stop_server":        `{"Status":"shutting_down","UnfinishedJobs":[],"WorkingMissions":[]}`,
	"enumerate vessels":  pageOf(aVessel),
	"enumerate voyages":  pageOf(aVoyage + `}`),
	"enumerate missions": pageOf(`{"Id":"msn_1","Status":"Pending","Title":"m"}`),
	"enumerate captains": pageOf(aCaptain),
	"enumerate docks":    pageOf(aDock),
	"add_vessel":         aVessel,
	"get_vessel":         aVessel,
	"update_vessel":      aVessel,
	"delete_vessel":      `{"Status":"deleted","VesselId":"vsl_1","Warnings":["w"]}`,
	"delete_vessels":     someGone,
	"index_status":       anIndex,
	"index_update":       string(job("job_1", broker.JobAccepted, 0).Handle(false)),
	"code_search":        `{"Status":` + anIndex + `,"Query":"q","Results":[{"Score":44,"Record":{"Path":"a.go"},"Excerpt":"e"}]}`,

	"dispatch":                  ``, // a job
	"voyage_status":             `{"Voyage":` + aVoyage + `},"Missions":[` + aMission + `]}`,
	"cancel_voyage":             `{"Voyage":` + aVoyage + `},"CancelledMissions":["msn_1"]}`,
	"purge_voyage":              `{"Status":"deleted","VoyageId":"vyg_1","MissionsDeleted":2}`,
	"delete_voyages":            someGone,
	"create_mission":            aMission,
	"mission_status":            aMission,
	"update_mission":            aMission,
	"cancel_mission":            aMission,
	"purge_mission":             `{"Status":"deleted","MissionId":"msn_1"}`,
	"delete_missions":           someGone,
	"transition_mission_status": aMission,
	"restart_mission":           aMission,
	"retry_landing":             `{"Success":true,"Mission":` + aMission + `}`,
	"get_mission_diff":          `{"MissionId":"msn_1","Branch":"berth/msn_1","Diff":"+a\n"}`,
	"get_mission_log":           `{"MissionId":"msn_1","Log":"one\n","Lines":1,"TotalLines":1}`,
	"mission_output":            `{"MissionId":"msn_1","ArtifactRef":"mission-output:msn_1","Offset":0,"Length":2,"TotalLength":2,"TotalUtf8Bytes":2,"Content":"ok","HasMore":false,"NextOffset":null,"Sha256":"s","Finalized":true,"Complete":true}`,
	"create_captain":            aCaptain,
	"get_captain":               aCaptain,
	"update_captain":            aCaptain,
	"delete_captain":            `{"Status":"deleted","CaptainId":"cpt_1"}`,
	"delete_captains":           someGone,
	"stop_captain":              `{"Status":"stopped","CaptainId":"cpt_1"}`,
	"stop_all":                  `{"Status":"stopped_with_failures","Stopped":1,"Failed":1,"Failures":[{"CaptainId":"cpt_2","Reason":"r","Message":"m"}]}`,
	"bench_captain":             aBench,
	"unbench_captain":           `{"Status":"unbenched","CaptainId":"cpt_1","State":"Idle"}`,
	"get_captain_log":           `{"CaptainId":"cpt_1","Log":"","Lines":0,"TotalLines":0}`,
	"captain_diagnostics":       `{"captainId":"cpt_1","state":"Working","activeMissionId":"msn_1","activeMissionTitle":"m","elapsedMinutes":1,"dockId":"dck_1","dockPath":"/w","dockGitStatus":"","dockGitStatusError":null,"hasUncommittedDockChanges":false,"codeIndex":null}`,
	"get_dock":                  aDock,
	"delete_dock":               `{"Status":"deleted","DockId":"dck_1"}`,
	"delete_docks":              someGone,
	"purge_dock":                `{"Status":"purged","DockId":"dck_1"}`,
	"repair_dock":               aDock,
	"unstick_dock":              aDock,
}

// voyageJob is the job of a dispatch that made its voyage.
func voyageJob() broker.Job {
	j := broker.Job{ID: "job_v", Operation: "voyage_dispatch", Backend: "berth", Status: broker.JobAccepted, SubmittedAt: at.Add(-time.Minute), Tenant: "default", User: "operator"}
	for _, c := range []broker.JobChange{{To: broker.JobRunning, At: at}, {To: broker.JobSucceeded, At: at, Result: json.RawMessage(`{"content":[],"structuredContent":` + landedVoyage + `}`)}} {
		var err error
		if j, _, err = j.Apply(c); err != nil {
			panic(err)
		}
	}
	return j
}

func ptr[T any](v T) *T { return &v }
