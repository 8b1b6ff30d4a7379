package dashboard_test

import (
	"fmt"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/transport/rest"
)

const aDiff = `diff --git a/limit/bucket.go b/limit/bucket.go
new file mode 100644
--- /dev/null
+++ b/limit/bucket.go
@@ -0,0 +1,4 @@
+package limit
+
+// Bucket lets so many pass.
+type Bucket struct{ tokens int }
diff --git a/server.go b/server.go
index 1..2 100644
--- a/server.go
+++ b/server.go
@@ -10,3 +10,3 @@ func serve() {
 	mux := newMux()
-	listen(mux)
+	listen(limit.New(mux)) // a line that is rather long, so that it can be seen what becomes of one that does not fit into a narrow window
`

// fleet writes down a voyage of six missions, in every kind of state, and the
// captains that work on it.
func (r *rig) fleet() {
	ago := func(d time.Duration) *string { return ptr(broker.FormatTime(epoch.Add(-d))) }
	mission := func(id, title string, status dispatch.MissionStatus, change func(*rest.Mission)) rest.Mission {
		m := rest.Mission{ID: id, Title: title, Status: status, VoyageID: ptr("vyg_1"), VesselID: "vsl_1", Mode: dispatch.Implementation, Priority: ptr(100), CreatedUTC: ago(time.Hour)}
		change(&m)
		return m
	}
	missions := []rest.Mission{
		mission("msn_core", "Add a token bucket to the public routes", dispatch.MissionComplete, func(m *rest.Mission) {
			m.Alias, m.Branch, m.Commit, m.StartedUTC, m.CompletedUTC = ptr("core"), ptr("berth/msn_core"), ptr("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"), ago(50*time.Minute), ago(30*time.Minute)
			m.CaptainID, m.StartFromRef, m.StartCommit = ptr("cpt_gone"), ptr("main"), ptr("ffeeddccbbaa99887766554433221100ffeeddcc")
		}),
		mission("msn_run", "Document it", dispatch.MissionInProgress, func(m *rest.Mission) {
			m.Alias, m.DependsOn, m.CaptainID, m.DockID, m.Branch, m.AssignedUTC, m.StartedUTC = ptr("docs"), ptr("msn_core"), ptr("cpt_1"), ptr("dck_1"), ptr("berth/msn_core"), ago(20*time.Minute), ago(19*time.Minute)
		}),
		mission("msn_wait", "Release notes", dispatch.MissionPending, func(m *rest.Mission) {
			m.DependsOn, m.Assignment = ptr("msn_run"), dispatch.WaitingForMission
		}),
		mission("msn_bad", "Measure what it costs", dispatch.MissionFailed, func(m *rest.Mission) {
			m.DependsOn, m.FailureReason, m.FailureMessage, m.CompletedUTC = ptr("msn_core"), ptr("no_commit_produced"), ptr("The agent ended without a commit."), ago(10*time.Minute)
		}),
		mission("msn_off", "Publish the numbers", dispatch.MissionCancelled, func(m *rest.Mission) {
			m.DependsOn, m.FailureReason, m.CompletedUTC = ptr("msn_bad"), ptr("dependency_failed"), ago(10*time.Minute)
		}),
		mission("msn_land", "Tidy up the old limiter", dispatch.MissionLandingFailed, func(m *rest.Mission) {
			m.DependsOn, m.FailureReason, m.FailureMessage = ptr("msn_of_another_voyage"), ptr("working_directory_dirty"), ptr("The working directory has changes of its own.")
		}),
	}
	voyage := rest.Voyage{ID: "vyg_1", Title: "Rate limits", Status: dispatch.VoyageInProgress, VesselID: "vsl_1", SourceJobID: ptr("job_ok"), CreatedUTC: ago(time.Hour)}
	over := rest.Voyage{ID: "vyg_0", Title: "An older one", Status: dispatch.VoyageComplete, VesselID: "vsl_1", CreatedUTC: ago(30 * time.Hour), CompletedUTC: ago(29 * time.Hour)}
	captain := rest.Captain{ID: "cpt_1", Name: "claude-1", Runtime: dispatch.ClaudeCode, State: dispatch.CaptainWorking, Model: ptr("claude-sonnet-4-5"), Tier: dispatch.Standard, MissionID: ptr("msn_run"), LastHeartbeat: ago(5 * time.Second)}
	r.answers["/api/v1/voyages"] = map[string]any{"Objects": []rest.Voyage{voyage, over}, "TotalRecords": 2, "TotalPages": 1}
	r.answers["/api/v1/voyages/vyg_1"] = rest.VoyageView{Voyage: voyage, Missions: missions}
	r.answers["/api/v1/voyages/vyg_0"] = rest.VoyageView{Voyage: over, Missions: missions[:1]}
	r.answers["/api/v1/captains"] = map[string]any{"Objects": []rest.Captain{captain,
		{ID: "cpt_2", Name: "codex-1", Runtime: dispatch.Codex, State: dispatch.CaptainBenched, Tier: dispatch.Premium, BenchReason: ptr("its quota is used up"), BenchUntil: ptr(broker.FormatTime(epoch.Add(time.Hour)))},
		{ID: "cpt_3", Name: "mine", Runtime: dispatch.Custom, State: dispatch.CaptainIdle, Tier: dispatch.Economy}}, "TotalRecords": 3}
	r.answers["/api/v1/captains/cpt_1"] = captain
	r.answers["/api/v1/docks/dck_1"] = rest.Dock{ID: "dck_1", VesselID: "vsl_1", State: dispatch.DockLeased, MissionID: ptr("msn_run"), Path: "/srv/docks/app/msn_run", Branch: "berth/msn_core"}
	var log strings.Builder
	for n := range 60 {
		fmt.Fprintf(&log, "2026-11-30T11:%02d:00Z reads a file and thinks about it, line %d\n", n, n)
	}
	for _, m := range missions {
		path := "/api/v1/missions/" + m.ID
		r.answers[path] = m
		r.answers[path+"/log"] = rest.MissionLog{MissionID: m.ID, Log: log.String(), Lines: 60, TotalLines: 60}
		r.answers[path+"/diff"] = rest.Diff{MissionID: m.ID, Branch: m.Branch, Diff: aDiff}
		r.answers[path+"/output"] = rest.Output{MissionID: m.ID, Content: "The public routes are limited now.\n\nWhat I did:\n- a token bucket in limit/bucket.go\n- the server uses it", TotalLength: 100, Finalized: m.Status.Final(), Complete: true}
	}
	delete(r.answers, "/api/v1/missions/msn_bad/diff")
	r.answers["/api/v1/missions/msn_bad/output"] = rest.Output{MissionID: "msn_bad", Finalized: true}
}
