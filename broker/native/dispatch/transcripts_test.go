package dispatch

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"berth/broker"
	"berth/broker/dispatch"
)

var update = flag.Bool("update", false, "write the transcripts")

func ptr[T any](v T) *T { return &v }

// settle fills a rig with one of everything: a voyage that goes on, one that has
// ended, missions and docks in every state that matters.
func settle(r *rig) {
	r.t.Helper()
	at := r.now.Add(-time.Hour)
	own := dispatch.OwnedBy(broker.LocalOperator)
	vessel := func(id, name string) dispatch.Vessel {
		return dispatch.Vessel{ID: id, Owner: own, Name: name, RepoURL: "https://example.com/" + name + ".git", DefaultBranch: "main", LandingMode: dispatch.LandNone, BranchCleanup: "LocalOnly",
			ProtectedPaths: []string{}, CreatedUTC: at, LastUpdateUTC: at}
	}
	pr, checks := vessel("vsl_pr", "pr"), vessel("vsl_checks", "checks")
	pr.LandingMode, checks.ChecksToLand = dispatch.LandPullRequest, true
	merge := vessel("vsl_merge", "merge")
	merge.LandingMode = dispatch.LandLocalMerge
	keep(r, vessel("vsl_one", "one"), vessel("vsl_two", "two"), pr, checks, merge)
	captain := func(id, name string, state dispatch.CaptainState) dispatch.Captain {
		return dispatch.Captain{ID: id, Owner: own, Name: name, Runtime: dispatch.ClaudeCode, Tier: dispatch.Standard, AllowedPersonas: []string{}, CustomCommand: []string{}, PromptDelivery: "stdin",
			State: state, CreatedUTC: at, LastUpdateUTC: at}
	}
	working, stalled := captain("cpt_working", "Ada", dispatch.CaptainWorking), captain("cpt_stalled", "Cyd", dispatch.CaptainStalled)
	working.MissionID, working.DockID, working.ProcessID = ptr("msn_running"), ptr("dck_leased"), ptr(77)
	keep(r, working, captain("cpt_idle", "Bob", dispatch.CaptainIdle), stalled)
	var names []broker.RecordChange
	for name, id := range map[string]string{"ada": "cpt_working", "bob": "cpt_idle", "cyd": "cpt_stalled"} {
		names = append(names, broker.RecordChange{Kind: kindName, ID: "default/" + name, Value: json.RawMessage(`{"captain":"` + id + `"}`)})
	}
	if _, err := r.store.Journal.PutAll(r.t.Context(), names...); err != nil {
		r.t.Fatal(err)
	}
	voyage := func(id, title, vessel string, s dispatch.VoyageStatus) dispatch.Voyage {
		return dispatch.Voyage{ID: id, Owner: own, Title: title, Description: ptr("What " + title + " is for."), Status: s, VesselID: vessel, SourceJobID: ptr("job_of_" + id), Materialized: true, CreatedUTC: at, LastUpdateUTC: at}
	}
	over := voyage("vyg_over", "Tests", "vsl_one", dispatch.VoyageFailed)
	over.CompletedUTC = &r.now
	keep(r, voyage("vyg_open", "Rate limits", "vsl_one", dispatch.VoyageInProgress), over, voyage("vyg_done", "Docs", "vsl_one", dispatch.VoyageComplete), voyage("vyg_two", "Elsewhere", "vsl_two", dispatch.VoyageOpen))
	mission := func(id, voyage string, s dispatch.MissionStatus) dispatch.Mission {
		m := dispatch.Mission{ID: id, Owner: own, VoyageID: &voyage, VesselID: "vsl_one", Title: "Do " + strings.TrimPrefix(id, "msn_"), Description: "All of " + id + ".", Mode: dispatch.Implementation,
			Persona: dispatch.Worker, Priority: 100, ContextMode: dispatch.ContextAuto, Prestaged: []dispatch.PrestagedFile{}, Status: s, Assignment: dispatch.AssignmentPending, CreatedUTC: at, LastUpdateUTC: at}
		if voyage == "" {
			m.VoyageID = nil
		}
		if s.Final() {
			m.CompletedUTC = ptr(r.now.Add(-time.Minute))
		}
		return m
	}
	running := mission("msn_running", "vyg_open", dispatch.MissionInProgress)
	running.CaptainID, running.DockID, running.StartCommit, running.Branch, running.StartedUTC, running.Assignment = ptr("cpt_working"), ptr("dck_leased"), ptr("1111"), ptr("berth/msn_running"), ptr(r.now.Add(-7*time.Minute)), dispatch.Assigned
	complete := mission("msn_complete", "vyg_open", dispatch.MissionComplete)
	complete.Commit, complete.Branch, complete.Alias = ptr("2222"), ptr("berth/msn_complete"), ptr("core")
	pending := mission("msn_pending", "vyg_open", dispatch.MissionPending)
	pending.DependsOn, pending.Assignment = ptr("msn_running"), dispatch.WaitingForMission
	failed := mission("msn_failed", "vyg_over", dispatch.MissionFailed)
	failed.FailureReason, failed.FailureMessage, failed.CaptainID, failed.Branch = ptr(dispatch.ExitNonzero), ptr("The agent ended with 3."), ptr("cpt_idle"), ptr("berth/msn_failed")
	follows := mission("msn_follows", "vyg_over", dispatch.MissionCancelled)
	follows.DependsOn, follows.FailureReason, follows.FailureMessage = ptr("msn_failed"), ptr(dispatch.DependencyFailed), ptr("The mission that it depends on ended Failed.")
	landing := mission("msn_landing", "vyg_over", dispatch.MissionLandingFailed)
	landing.Commit, landing.FailureReason, landing.FailureMessage = ptr("3333"), ptr(dispatch.MergeConflict), ptr("Both changed a file.")
	produced := mission("msn_produced", "vyg_open", dispatch.MissionWorkProduced)
	produced.Commit, produced.DockID = ptr("4444"), ptr("dck_produced")
	review := mission("msn_review", "vyg_open", dispatch.MissionReview)
	cancelled := mission("msn_cancelled", "vyg_done", dispatch.MissionCancelled)
	alone := mission("msn_alone", "", dispatch.MissionCancelled)
	keep(r, running, complete, pending, failed, follows, landing, produced, review, cancelled, alone)
	dock := func(id string, mission *string, s dispatch.DockState) dispatch.Dock {
		return dispatch.Dock{ID: id, Owner: own, VesselID: "vsl_one", MissionID: mission, Path: "/docks/one/" + id, Branch: "berth/" + id, State: s, CreatedUTC: at, UpdatedUTC: at}
	}
	keep(r, dock("dck_leased", ptr("msn_running"), dispatch.DockLeased), dock("dck_free", nil, dispatch.DockAvailable), dock("dck_failed", ptr("msn_failed"), dispatch.DockFailed),
		dock("dck_produced", ptr("msn_produced"), dispatch.DockReclaiming))
	r.world.running["msn_running"] = true
	r.world.logs["msn_running"] = []string{"begins", "reads the code", "edits limiter.go"}
	r.world.logs["msn_failed"] = []string{"begins", "gives up"}
	r.world.diffs["msn_complete"] = "diff --git a/limiter.go b/limiter.go\n+package limiter\n"
	r.world.outputs["msn_complete"], r.world.final["msn_complete"] = "Added the limiter — größer.\nexport API_KEY=sk-abcdefgh12345678\n", true
	r.world.outputs["msn_running"] = "I am reading"
	r.world.live, r.world.git = "diff of the worktree", " M limiter.go"
}

// step is one call of a transcript, after something was done to the world.
type step struct {
	name      string
	arguments string
	before    func(r *rig)
}

func vesselOne(r *rig, change func(v *dispatch.Vessel)) {
	v := kept[dispatch.Vessel](r, "vsl_one")
	change(&v)
	keep(r, v)
}

func amend(r *rig, id string, change func(m *dispatch.Mission)) {
	m := kept[dispatch.Mission](r, id)
	change(&m)
	keep(r, m)
}

const twoMissions = `"missions":[{"title":"Add limiter","description":"Token bucket on the public routes.","alias":"core","startFromRef":"main"},{"title":"Document it","description":"One page in docs/.","dependsOnMissionAlias":"core"}]`

// transcripts are the calls of each verb: answers, then every refusal that it
// has.
var transcripts = map[string][]step{
	"dispatch": {
		{"two missions by alias", `{"title":"Rate limits","vesselId":"vsl_one","codeContextMode":"off","idempotencyKey":"lane-a:1",` + twoMissions + `}`, nil},
		{"one that goes on from a mission that exists", `{"title":"More","vesselId":" vsl_one ","missions":[{"title":"a","description":"b","dependsOnMissionId":"msn_complete","mode":"Audit","preferredModel":"high","capabilityHint":"audit","codeContextQuery":"limiter","codeContextMode":"off"}]}`, nil},
		{"no title", `{"vesselId":"vsl_one",` + twoMissions + `}`, nil},
		{"no vessel", `{"title":"t",` + twoMissions + `}`, nil},
		{"no missions", `{"title":"t","vesselId":"vsl_one","missions":[]}`, nil},
		{"a mission without a title", `{"title":"t","vesselId":"vsl_one","missions":[{"description":"d"}]}`, nil},
		{"a mission without a description", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":" "}]}`, nil},
		{"a mode that does not exist", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","mode":"Repair"}]}`, nil},
		{"two of one alias", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","alias":"x"},{"title":"b","description":"d","alias":"x"}]}`, nil},
		{"an alias that none has", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","alias":"x","dependsOnMissionAlias":"y"}]}`, nil},
		{"a ring", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","alias":"x","dependsOnMissionAlias":"y"},{"title":"b","description":"d","alias":"y","dependsOnMissionAlias":"x"}]}`, nil},
		{"a file that cannot be placed", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","prestagedFiles":[{"sourcePath":"/etc/motd","destPath":"../motd"}]}]}`, nil},
		{"a ref of a mission that goes on from another", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","dependsOnMissionId":"msn_complete","startFromRef":"main"}]}`, nil},
		{"what is not built", `{"title":"t","vesselId":"vsl_one","objectiveId":"obj_1","pipeline":"x",` + twoMissions + `}`, nil},
		{"a hold", `{"title":"t","vesselId":"vsl_one",` + twoMissions + `}`, func(r *rig) {
			r.world.hold = broker.Refuse(broker.CodeDispatchHold, "Dispatch is on hold.", map[string]any{"SetBy": "ops-1", "SetByUtc": "2026-05-04T09:12:00Z", "Reason": "node upgrade"})
		}},
		{"a vessel that is not there", `{"title":"t","vesselId":"vsl_none",` + twoMissions + `}`, nil},
		{"a landing that is not built", `{"title":"t","vesselId":"vsl_pr",` + twoMissions + `}`, nil},
		{"captains that none can launch", `{"title":"t","vesselId":"vsl_one",` + twoMissions + `}`, func(r *rig) {
			for _, id := range []string{"cpt_idle", "cpt_working", "cpt_stalled"} {
				c := kept[dispatch.Captain](r, id)
				c.Runtime = "Mux"
				keep(r, c)
			}
		}},
		{"a dependency that is not there", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","dependsOnMissionId":"msn_none"}]}`, nil},
		{"a dependency of another vessel", `{"title":"t","vesselId":"vsl_two","missions":[{"title":"a","description":"d","dependsOnMissionId":"msn_complete"}]}`, nil},
		{"a stale index", `{"title":"t","vesselId":"vsl_one",` + twoMissions + `}`, func(r *rig) { r.world.index.Freshness = dispatch.IndexStale }},
		{"an index that is being updated", `{"title":"t","vesselId":"vsl_one",` + twoMissions + `}`, func(r *rig) {
			r.world.index = dispatch.IndexState{Freshness: dispatch.IndexUpdating, JobID: "job_update"}
		}},
		{"no index, and one is needed", `{"title":"t","vesselId":"vsl_one","codeContextMode":"force",` + twoMissions + `}`, func(r *rig) { r.world.index.Freshness = dispatch.IndexMissing }},
		{"a ref that is not there", `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d","startFromRef":"gone"}]}`, nil},
		{"refs that cannot be looked up", `{"title":"t","vesselId":"vsl_one",` + twoMissions + `}`, func(r *rig) { r.world.unknown = fmt.Errorf("the host does not answer") }},
	},
	"voyage_status": {
		{"counts", `{"voyageId":"vyg_open"}`, nil},
		{"no counts", `{"voyageId":"vyg_open","summary":false}`, nil},
		{"missions", `{"voyageId":"vyg_open","summary":false,"includeMissions":true,"includeDescription":true,"includeDiffs":true,"includeLogs":true}`, nil},
		{"some fields", `{"voyageId":"vyg_open","includeMissions":"true","includeFields":["titles","statuses","dependsOn"]}`, nil},
		{"no id", `{}`, nil},
		{"not there", `{"voyageId":"vyg_none"}`, nil},
		{"files that cannot be read", `{"voyageId":"vyg_open","includeMissions":true,"includeDiffs":true}`, func(r *rig) { r.world.papers = fmt.Errorf("input/output error") }},
	},
	"cancel_voyage": {{"one that goes on", `{"voyageId":"vyg_open"}`, nil}, {"one that has ended", `{"voyageId":"vyg_done"}`, nil}, {"no id", `{"voyageId":" "}`, nil}, {"not there", `{"voyageId":"vyg_none"}`, nil}},
	"purge_voyage": {{"one that has ended", `{"voyageId":"vyg_over"}`, nil}, {"one that goes on", `{"voyageId":"vyg_open"}`, nil}, {"not there", `{"voyageId":"vyg_none"}`, nil},
		{"a mission that another waits for", `{"voyageId":"vyg_over"}`, func(r *rig) {
			amend(r, "msn_pending", func(m *dispatch.Mission) { m.DependsOn = ptr("msn_landing") })
		}}},
	"delete_voyages": {{"some of them", `{"ids":["vyg_over","vyg_open","vyg_none","vyg_done"]}`, nil}, {"none", `{"ids":["vyg_open"]}`, nil}, {"no ids", `{"ids":[]}`, nil}},
	"create_mission": {
		{"alone", `{"title":"Add limiter","description":"Token bucket.","vesselId":"vsl_one","startFromRef":"main"}`, nil},
		{"in a voyage", `{"title":"Judge it","description":"Is it right?","vesselId":"vsl_one","voyageId":"vyg_open","persona":"Judge","mode":"Audit","dependsOnMissionId":"msn_running","priority":"5"}`, nil},
		{"no title", `{"description":"d","vesselId":"vsl_one"}`, nil},
		{"no vessel", `{"title":"t","description":"d"}`, nil},
		{"a vessel that is not there", `{"title":"t","description":"d","vesselId":"vsl_none"}`, nil},
		{"a landing that is not built", `{"title":"t","description":"d","vesselId":"vsl_pr"}`, nil},
		{"a mode that does not exist", `{"title":"t","description":"d","vesselId":"vsl_one","mode":"Repair"}`, nil},
		{"a dependency that is not there", `{"title":"t","description":"d","vesselId":"vsl_one","dependsOnMissionId":"msn_none"}`, nil},
		{"a voyage that is not there", `{"title":"t","description":"d","vesselId":"vsl_one","voyageId":"vyg_none"}`, nil},
		{"a voyage that has ended", `{"title":"t","description":"d","vesselId":"vsl_one","voyageId":"vyg_done"}`, nil},
		{"a voyage of another vessel", `{"title":"t","description":"d","vesselId":"vsl_one","voyageId":"vyg_two"}`, nil},
		{"a ref that is not there", `{"title":"t","description":"d","vesselId":"vsl_one","startFromRef":"gone"}`, nil},
		{"playbooks", `{"title":"t","description":"d","vesselId":"vsl_one","selectedPlaybooks":[{"playbookId":"pbk_1"}]}`, nil},
	},
	"restart_mission": {
		{"a failed one, whose voyage goes on with it", `{"missionId":"msn_failed","title":"Once more"}`, nil},
		{"one without a voyage", `{"missionId":"msn_alone"}`, nil},
		{"one that runs", `{"missionId":"msn_running"}`, nil},
		{"one whose dependency failed", `{"missionId":"msn_follows"}`, nil},
		{"one whose voyage cannot go on", `{"missionId":"msn_cancelled"}`, nil},
		{"one whose end is being seen to", `{"missionId":"msn_failed"}`, func(r *rig) { r.world.running["msn_failed"] = true }},
		{"no id", `{}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil},
	},
	"mission_status": {{"with its output", `{"missionId":"msn_complete"}`, nil}, {"without", `{"missionId":"msn_pending"}`, nil}, {"no id", `{}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"mission_output": {{"whole", `{"missionId":"msn_complete"}`, nil}, {"a page", `{"missionId":"msn_complete","offset":20,"length":5}`, nil}, {"past the end", `{"missionId":"msn_complete","offset":1e6}`, nil},
		{"while it works", `{"missionId":"msn_running","length":0}`, nil}, {"none", `{"missionId":"msn_pending"}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"get_mission_log":  {{"its lines", `{"missionId":"msn_running"}`, nil}, {"some", `{"missionId":"msn_running","lines":1,"offset":1}`, nil}, {"none", `{"missionId":"msn_pending"}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"get_mission_diff": {{"saved", `{"missionId":"msn_complete"}`, nil}, {"of its worktree", `{"missionId":"msn_running"}`, nil}, {"none", `{"missionId":"msn_pending"}`, nil}, {"no worktree", `{"missionId":"msn_running"}`, func(r *rig) { r.world.live = "" }}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"update_mission": {
		{"its words", `{"missionId":"msn_pending","title":"Second","priority":1,"dependsOnMissionId":"","branchName":"berth/mine","prUrl":"https://example.com/1","parentMissionId":"msn_complete"}`, nil},
		{"its voyage", `{"missionId":"msn_pending","vesselId":"vsl_two","voyageId":"vyg_two","dependsOnMissionId":""}`, nil},
		{"one that runs", `{"missionId":"msn_running","title":"x"}`, nil},
		{"a dependency that is not there", `{"missionId":"msn_pending","dependsOnMissionId":"msn_none"}`, nil},
		{"a ring", `{"missionId":"msn_pending","dependsOnMissionId":"msn_complete"}`, func(r *rig) {
			amend(r, "msn_complete", func(m *dispatch.Mission) { m.DependsOn = ptr("msn_pending") })
		}},
		{"a parent that is not there", `{"missionId":"msn_pending","parentMissionId":"msn_none"}`, nil},
		{"itself as its parent", `{"missionId":"msn_pending","parentMissionId":"msn_pending"}`, nil},
		{"another vessel than its voyage's", `{"missionId":"msn_pending","vesselId":"vsl_two","dependsOnMissionId":""}`, nil},
		{"no branch", `{"missionId":"msn_pending","branchName":"--upload-pack"}`, nil},
		{"no id", `{}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil},
	},
	"transition_mission_status": {
		{"complete, landed", `{"missionId":"msn_produced","status":"complete"}`, func(r *rig) { r.world.landed["4444"] = true }},
		{"cancelled", `{"missionId":"msn_running","status":"Cancelled"}`, nil},
		{"failed", `{"missionId":"msn_produced","status":"Failed"}`, nil},
		{"complete, under review", `{"missionId":"msn_review","status":"Complete"}`, nil},
		{"complete, a Judge is to say so", `{"missionId":"msn_produced","status":"Complete"}`, func(r *rig) {
			amend(r, "msn_pending", func(m *dispatch.Mission) { m.DependsOn, m.Persona = ptr("msn_produced"), dispatch.Judge })
		}},
		{"complete, its captain works", `{"missionId":"msn_running","status":"Complete"}`, nil},
		{"complete, checks are required", `{"missionId":"msn_produced","status":"Complete"}`, func(r *rig) { vesselOne(r, func(v *dispatch.Vessel) { v.ChecksToLand = true }) }},
		{"complete, not landed", `{"missionId":"msn_produced","status":"Complete"}`, nil},
		{"complete, nobody knows whether it was landed", `{"missionId":"msn_produced","status":"Complete"}`, func(r *rig) { r.world.unknown = fmt.Errorf("no repository") }},
		{"a status that does not exist", `{"missionId":"msn_produced","status":"Done"}`, nil},
		{"a step that does not exist", `{"missionId":"msn_complete","status":"Pending"}`, nil},
		{"a step of the broker's own", `{"missionId":"msn_pending","status":"Assigned"}`, nil},
		{"while its agent works", `{"missionId":"msn_running","status":"Testing"}`, nil},
		{"of a voyage that has ended", `{"missionId":"msn_landing","status":"WorkProduced"}`, nil},
		{"cancelled, after its end", `{"missionId":"msn_complete","status":"Cancelled"}`, nil},
		{"cancelled already", `{"missionId":"msn_cancelled","status":"Cancelled"}`, nil},
		{"no id", `{"status":"Complete"}`, nil}, {"not there", `{"missionId":"msn_none","status":"Complete"}`, nil},
	},
	"cancel_mission": {{"one that runs", `{"missionId":"msn_running"}`, nil}, {"once more", `{"missionId":"msn_cancelled"}`, nil}, {"one that is complete", `{"missionId":"msn_complete"}`, nil}, {"one that failed", `{"missionId":"msn_failed"}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"retry_landing":  {{"one that failed", `{"missionId":"msn_landing"}`, nil}, {"one that did not", `{"missionId":"msn_complete"}`, nil}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"purge_mission": {{"one that has ended", `{"missionId":"msn_failed"}`, nil}, {"one that runs", `{"missionId":"msn_running"}`, nil},
		{"one that another waits for", `{"missionId":"msn_complete"}`, func(r *rig) {
			amend(r, "msn_pending", func(m *dispatch.Mission) { m.DependsOn = ptr("msn_complete") })
		}}, {"not there", `{"missionId":"msn_none"}`, nil}},
	"delete_missions":     {{"some of them", `{"ids":["msn_failed","msn_running","msn_none"]}`, nil}, {"no ids", `{}`, nil}},
	"get_captain_log":     {{"of what it works on", `{"captainId":"cpt_working","lines":2}`, nil}, {"of its last mission", `{"captainId":"cpt_idle"}`, nil}, {"never had one", `{"captainId":"cpt_stalled"}`, nil}, {"not there", `{"captainId":"cpt_none"}`, nil}},
	"captain_diagnostics": {{"one that works", `{"captainId":"cpt_working"}`, nil}, {"one that does not", `{"captainId":"cpt_idle"}`, nil}, {"no worktree", `{"captainId":"cpt_working"}`, func(r *rig) { r.world.git = "" }}, {"not there", `{"captainId":"cpt_none"}`, nil}},
	"stop_captain":        {{"one that works", `{"captainId":"cpt_working"}`, nil}, {"one that does not", `{"captainId":"cpt_idle"}`, nil}, {"not there", `{"captainId":"cpt_none"}`, nil}},
	"stop_all": {{"all", `{}`, nil}, {"not all", `{}`, func(r *rig) {
		r.world.failStop = map[string]error{"cpt_working": fmt.Errorf("kill: no such process"), "cpt_a": broker.Refuse(broker.CodeShuttingDown, "The broker is stopping.", nil)}
	}}},
	"get_dock":     {{"one", `{"dockId":"dck_leased"}`, nil}, {"not there", `{"dockId":"dck_none"}`, nil}},
	"delete_dock":  {{"a free one", `{"dockId":"dck_free"}`, nil}, {"a failed one", `{"dockId":"dck_failed"}`, nil}, {"a leased one", `{"dockId":"dck_leased"}`, nil}, {"not there", `{"dockId":"dck_none"}`, nil}},
	"delete_docks": {{"some of them", `{"ids":["dck_free","dck_leased"]}`, nil}},
	"purge_dock": {{"even where git is confused", `{"dockId":"dck_failed"}`, func(r *rig) { r.world.reclaim = fmt.Errorf("fatal: not a worktree") }}, {"a process lives", `{"dockId":"dck_leased"}`, nil},
		{"no process lives", `{"dockId":"dck_leased"}`, func(r *rig) { r.world.running = map[string]bool{} }}, {"not there", `{"dockId":"dck_none"}`, nil}},
	"repair_dock": {{"a failed one", `{"dockId":"dck_failed"}`, nil}, {"a leased one", `{"dockId":"dck_leased"}`, nil},
		{"its branch is gone", `{"dockId":"dck_failed"}`, func(r *rig) { r.world.repair = &dispatch.Fault{Reason: dispatch.StartFromRefMissing} }}, {"not there", `{"dockId":"dck_none"}`, nil}},
	"unstick_dock": {{"of a mission that has ended", `{"dockId":"dck_failed"}`, nil}, {"of one that has not", `{"dockId":"dck_produced"}`, nil}, {"a process lives", `{"dockId":"dck_leased"}`, nil}, {"not there", `{"dockId":"dck_none"}`, nil}},
}

// TestTranscripts has, for each verb, its answers and each of its
// refusals as they leave the family.
func TestTranscripts(t *testing.T) {
	for verb, steps := range transcripts {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			ar := new(txtar.Archive)
			for i, s := range steps {
				r := newRig(t)
				settle(r)
				if s.before != nil {
					s.before(r)
				}
				before, had := r.everything()
				answer := r.text(t.Context(), verb, s.arguments)
				after, has := r.everything()
				if strings.HasPrefix(answer, `{"Error"`) && len(r.world.told) == 0 && !maps.Equal(before, after) {
					t.Errorf("%s: a refusal changed something", s.name)
				}
				data := fmt.Sprintf("call: %s %s\n", verb, s.arguments)
				for _, e := range has[len(had):] {
					data += "event: " + e + "\n"
				}
				for _, told := range r.world.told {
					data += "told: " + told + "\n"
				}
				ar.Files = append(ar.Files, txtar.File{Name: fmt.Sprintf("%02d %s", i+1, s.name), Data: []byte(data + "answer: " + pretty(t, answer) + "\n")})
			}
			golden(t, filepath.Join("testdata", verb+".txtar"), txtar.Format(ar))
		})
	}
}

func TestEveryVerbHasATranscript(t *testing.T) {
	for _, tool := range newRig(t).family.Source().Tools {
		if transcripts[tool.Name] == nil {
			t.Errorf("%s has none", tool.Name)
		}
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if transcripts[strings.TrimSuffix(filepath.Base(f), ".txtar")] == nil {
			t.Errorf("%s is left over", f)
		}
	}
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", " "); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}
