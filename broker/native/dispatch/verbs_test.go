package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// TestARequestIsJudgedInTheContractsOrder has requests with which everything is
// wrong, and takes the faults away one after the other.
func TestARequestIsJudgedInTheContractsOrder(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.world.index.Freshness = dispatch.IndexStale
	request := map[string]any{"title": " ", "vesselId": "vsl_none", "missions": []map[string]any{{"startFromRef": "gone", "mode": "x"}}}
	mission := request["missions"].([]map[string]any)[0]
	for _, tt := range []struct {
		want broker.Code
		fix  func()
	}{
		{broker.CodeMissingTitle, func() { request["title"] = "t" }},
		{broker.CodeMissingMissionTitle, func() { mission["title"] = "m" }},
		{broker.CodeMissingMissionDescription, func() { mission["description"] = "d" }},
		{broker.CodeInvalidMissionMode, func() { delete(mission, "mode") }},
		{broker.CodeVesselNotFound, func() { request["vesselId"] = "vsl_pr" }},
		{broker.CodeLandingUnsupported, func() { request["vesselId"] = "vsl_one" }},
		{broker.CodeIndexStale, func() { request["codeContextMode"] = "off" }},
		{broker.CodeStartFromRefMissing, func() { mission["startFromRef"] = "main" }},
	} {
		raw, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		r.untouched(string(tt.want), func() { r.want("dispatch", string(raw), tt.want) })
		tt.fix()
	}
	raw, _ := json.Marshal(request)
	r.want("dispatch", string(raw), "")
	if len(r.world.told) != 1 || !strings.HasPrefix(r.world.told[0], "note: ") {
		t.Errorf("told %v", r.world.told)
	}
}

// TestWhatArgumentsSayIsJudgedBeforeAHold: policy asks for it before the actors
// look at keys and holds.
func TestWhatArgumentsSayIsJudgedBeforeAHold(t *testing.T) {
	r := newRig(t)
	s, faults := catalog.Settings{}.Build(1, []catalog.Source{r.family.Source()})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	full, _ := s.Profile(catalog.Full)
	v, _ := full.Resolve("dispatch")
	if !v.Held || !v.Long {
		t.Error("a dispatch is not held, or no job")
	}
	refusal := v.CheckArguments(json.RawMessage(`{"title":"t","vesselId":"v","missions":[{"title":"a"}]}`))
	if refusal == nil || refusal.Code != broker.CodeMissingMissionDescription {
		t.Errorf("got %v", refusal)
	}
	if refusal := v.CheckArguments(json.RawMessage(`{"title":"t","vesselId":"v","missions":[{"title":"a","description":"d"}]}`)); refusal != nil {
		t.Errorf("got %v", refusal)
	}
	for _, name := range []string{"create_mission", "restart_mission"} {
		if v, _ := full.Resolve(name); !v.Held {
			t.Errorf("%s is not held", name)
		}
	}
}

const oneMission = `{"title":"t","vesselId":"vsl_one","codeContextMode":"off","missions":[{"title":"a","description":"d"}]}`

func TestADispatchWithoutAnyCaptainIsAccepted(t *testing.T) {
	r := newRig(t)
	settle(r)
	for _, id := range []string{"cpt_idle", "cpt_working", "cpt_stalled"} {
		if _, err := r.store.Journal.Put(t.Context(), broker.RecordChange{Kind: dispatch.KindCaptain, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	r.want("dispatch", oneMission, "")
}

func TestACaptainOfABuiltRuntimeIsEnough(t *testing.T) {
	r := newRig(t)
	settle(r)
	for id, allowed := range map[string][]string{"cpt_working": nil, "cpt_stalled": {"Worker"}, "cpt_idle": {"Judge"}} {
		c := kept[dispatch.Captain](r, id)
		if c.AllowedPersonas = allowed; id != "cpt_idle" {
			c.Runtime = "Mux"
		}
		keep(r, c)
	}
	r.untouched("a dispatch", func() { r.want("dispatch", oneMission, broker.CodeRuntimeUnsupported) })
	c := kept[dispatch.Captain](r, "cpt_idle")
	c.AllowedPersonas = []string{"Judge", "Worker"}
	keep(r, c)
	r.want("dispatch", oneMission, "")
}

func TestTheIndexIsAskedOnlyWhereItMatters(t *testing.T) {
	const auto, force, off = `{"title":"t","vesselId":"vsl_one","missions":[{"title":"a","description":"d"}]}`,
		`{"title":"t","vesselId":"vsl_one","codeContextMode":"off","missions":[{"title":"a","description":"d"},{"title":"b","description":"d","codeContextMode":"force"}]}`, oneMission
	for _, tt := range []struct {
		freshness string
		err       error
		request   string
		want      broker.Code
	}{
		{dispatch.IndexStale, nil, auto, broker.CodeIndexStale}, {dispatch.IndexStale, nil, force, broker.CodeIndexStale}, {dispatch.IndexStale, nil, off, ""},
		{dispatch.IndexUpdating, nil, auto, broker.CodeIndexUpdating}, {dispatch.IndexUpdating, nil, off, ""},
		{dispatch.IndexMissing, nil, auto, ""}, {dispatch.IndexMissing, nil, force, broker.CodeContextUnavailable},
		{"", errors.New("the disk is slow"), force, ""}, // it fails open
	} {
		r := newRig(t)
		settle(r)
		r.world.index.Freshness, r.world.indexErr = tt.freshness, tt.err
		r.want("dispatch", tt.request, tt.want)
	}
}

func TestMissionsBelongToTheVesselsOwnerAndPinTheirStart(t *testing.T) {
	r := newRig(t)
	settle(r)
	v := kept[dispatch.Vessel](r, "vsl_one")
	v.TenantID, v.UserID = "acme", "ana"
	keep(r, v)
	r.world.refs["v1"] = "9999"
	got := r.call("dispatch", `{"title":"t","vesselId":"vsl_one","codeContextMode":"force","codeContextTokenBudget":900,"missions":[
		{"title":"a","description":"d","alias":"x","startFromRef":"v1"},{"title":"b","description":"d","dependsOnMissionAlias":"x","dependsOnMissionId":"msn_ignored","codeContextMode":"off"},{"title":"c","description":"d"}]}`)
	missions, err := dispatch.ReadAll[dispatch.Mission](r.store, dispatch.OfVoyage(got["Id"].(string)))
	if err != nil || len(missions) != 3 {
		t.Fatalf("%v %v", missions, err)
	}
	a, b, c := missions[0].Value, missions[1].Value, missions[2].Value
	if a.Title != "a" || b.Title != "b" || c.Title != "c" {
		t.Errorf("the order is %s %s %s", a.Title, b.Title, c.Title)
	}
	if a.TenantID != "acme" || a.UserID != "ana" || got["UserId"] != "ana" || *a.StartCommit != "9999" || c.StartCommit != nil || *b.DependsOn != a.ID ||
		a.Persona != dispatch.Worker || a.ContextMode != "force" || b.ContextMode != "off" || *a.ContextTokens != 900 || b.Assignment != dispatch.WaitingForMission {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
	if voyage := kept[dispatch.Voyage](r, got["Id"].(string)); !voyage.Materialized || *voyage.SourceJobID == "" || r.world.wakes == 0 {
		t.Errorf("%+v, %d wakes", voyage, r.world.wakes)
	}
}

// TestAVoyageIsMarkedWholeLast: whatever the last write before a crash was, a
// start finds a voyage that is whole, or one that says that it is not.
func TestAVoyageIsMarkedWholeLast(t *testing.T) {
	for last := range 4 {
		r := newRig(t)
		settle(r)
		n := 0
		dead := errors.New("the broker is gone")
		r.store.before = func([]broker.RecordChange) error {
			if n++; n > last {
				return dead
			}
			return nil
		}
		r.world.onCancel = func(string) { panic("a dead broker cancels nothing") }
		func() {
			defer func() { _ = recover() }()
			r.text(t.Context(), "dispatch", `{"title":"t","vesselId":"vsl_one","codeContextMode":"off",`+twoMissions+`}`)
		}()
		open, err := dispatch.ReadAll[dispatch.Voyage](r.store.Journal, dispatch.Open)
		if err != nil {
			t.Fatal(err)
		}
		open = slices.DeleteFunc(open, func(v dispatch.Kept[dispatch.Voyage]) bool { return strings.HasPrefix(*v.Value.SourceJobID, "job_of_") })
		if len(open) != min(last, 1) {
			t.Fatalf("after %d writes there are %d voyages", last, len(open))
		}
		for _, v := range open {
			missions, err := dispatch.ReadAll[dispatch.Mission](r.store.Journal, dispatch.OfVoyage(v.Value.ID))
			if err != nil || v.Value.Materialized != (last == 3) || v.Value.Materialized && len(missions) != 2 || len(missions) == 1 {
				t.Errorf("after %d writes: whole %v with %d missions (%v)", last, v.Value.Materialized, len(missions), err)
			}
		}
	}
}

func TestADispatchThatCannotBeWrittenIsCancelled(t *testing.T) {
	for failing := 1; failing <= 3; failing++ {
		r := newRig(t)
		settle(r)
		n := 0
		r.store.before = func([]broker.RecordChange) error {
			if n++; n == failing {
				return errors.New("no space left on device")
			}
			return nil
		}
		r.want("dispatch", oneMission, broker.CodeOutcomeUnknown)
		open, err := dispatch.ReadAll[dispatch.Voyage](r.store.Journal, dispatch.InState(string(dispatch.VoyageCancelled)))
		if err != nil || len(open) != min(failing-1, 1) {
			t.Errorf("write %d failed: %d voyages were cancelled (%v)", failing, len(open), err)
		}
		for _, v := range open {
			if *v.Value.Reason != string(dispatch.DispatchLost) {
				t.Errorf("write %d failed: %s", failing, *v.Value.Reason)
			}
		}
	}
}

func TestACancelledJobCancelsTheVoyageThatItMade(t *testing.T) {
	for writes := range 4 {
		r := newRig(t)
		settle(r)
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		r.store.before = func([]broker.RecordChange) error {
			if n++; n == writes+1 {
				cancel()
			}
			return nil
		}
		if writes == 3 {
			r.text(ctx, "dispatch", oneMission)
			cancel()
		} else {
			r.text(ctx, "dispatch", oneMission)
		}
		r.store.before = nil
		// The job actor tells of every cancel, however far the work was.
		r.family.Cancelled(t.Context(), broker.Job{ID: "job_1", Operation: Operation}, broker.LocalOperator)
		voyages, err := dispatch.ReadAll[dispatch.Voyage](r.store.Journal, dispatch.OfJob("job_1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range voyages {
			if v.Value.Status != dispatch.VoyageCancelled || *v.Value.Reason != string(dispatch.Cancelled) {
				t.Errorf("cancelled at write %d: %s %s", writes, v.Value.Status, *v.Value.Reason)
			}
		}
		told := len(r.world.told)
		r.family.Cancelled(t.Context(), broker.Job{ID: "job_1", Operation: Operation}, broker.LocalOperator)
		r.family.Cancelled(t.Context(), broker.Job{ID: "job_of_vyg_open", Operation: "st__work"}, broker.LocalOperator)
		if len(r.world.told) != told {
			t.Error("a second cancel did something")
		}
	}
}

func TestAHoldThatComesWhileAJobIsJudgedStopsIt(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.world.hold = broker.Refuse(broker.CodeDispatchHold, "Dispatch is on hold.", map[string]any{"SetBy": "ops-1"})
	r.untouched("a held dispatch", func() { r.want("dispatch", oneMission, broker.CodeDispatchHold) })
}

func TestARefThatIsMissingIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	r := newRig(t)
	settle(r)
	for verb, arguments := range map[string]string{
		"dispatch":       `{"title":"t","vesselId":"vsl_one","codeContextMode":"off","missions":[{"title":"a","description":"d"},{"title":"b","description":"d","startFromRef":"gone"}]}`,
		"create_mission": `{"title":"t","description":"d","vesselId":"vsl_one","startFromRef":"gone"}`,
	} {
		r.untouched(verb, func() {
			if got := r.want(verb, arguments, broker.CodeStartFromRefMissing); got["StartFromRef"] != "gone" {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestARefThatIsGoneWhenTheJobRunsCancelsItsVoyage: it was there when the
// request was accepted.
func TestARefThatIsGoneWhenTheJobRunsCancelsItsVoyage(t *testing.T) {
	r := newRig(t)
	settle(r)
	n := 0
	r.store.before = func([]broker.RecordChange) error {
		if n++; n == 2 {
			delete(r.world.refs, "main")
		}
		return nil
	}
	r.want("dispatch", `{"title":"t","vesselId":"vsl_one","codeContextMode":"off",`+twoMissions+`}`, broker.CodeStartFromRefMissing)
	voyages, err := dispatch.ReadAll[dispatch.Voyage](r.store.Journal, dispatch.OfJob("job_1"))
	if err != nil || len(voyages) != 1 || voyages[0].Value.Status != dispatch.VoyageCancelled || voyages[0].Value.Materialized {
		t.Errorf("%+v (%v)", voyages, err)
	}
}

func TestServerPathsOfADispatchAreTheGlobalAdministrators(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.who = broker.Principal{Tenant: "default", User: "ana", Role: broker.TenantAdministrator}
	r.untouched("a dispatch", func() {
		got := r.want("dispatch", `{"title":"t","vesselId":"vsl_one","codeContextMode":"off","missions":[{"title":"a","description":"d","prestagedFiles":[{"sourcePath":"/etc/motd","destPath":"motd"}]}]}`, broker.CodeServerPath)
		if fmt.Sprint(got["Arguments"]) != "[missions.prestagedFiles]" {
			t.Errorf("got %v", got)
		}
	})
}

// TestAnothersRecordReadsAsOneThatNeverExisted calls every verb that names a
// record.
func TestAnothersRecordReadsAsOneThatNeverExisted(t *testing.T) {
	ids := map[string][2]string{"vesselId": {"vsl_one", "vsl_none"}, "captainId": {"cpt_idle", "cpt_none"}, "dockId": {"dck_free", "dck_none"}, "missionId": {"msn_failed", "msn_none"}, "voyageId": {"vyg_over", "vyg_none"}}
	rest := map[string]string{"dispatch": `,"title":"t","missions":[{"title":"a","description":"d"}]`, "create_mission": `,"title":"t","description":"d"`, "transition_mission_status": `,"status":"Complete"`, "bench_captain": `,"reason":"x"`}
	r := newRig(t)
	settle(r)
	seen := 0
	for _, tool := range r.family.Source().Tools {
		var e struct{ InputSchema struct{ Required []string } }
		if err := json.Unmarshal(tool.Raw, &e); err != nil {
			t.Fatal(err)
		}
		for _, name := range e.InputSchema.Required {
			id, ok := ids[name]
			if !ok {
				continue
			}
			seen++
			call := func(id string) string {
				return strings.ReplaceAll(r.text(t.Context(), tool.Name, `{"`+name+`":"`+id+`"`+rest[tool.Name]+`}`), id, "ID")
			}
			r.who = broker.LocalOperator
			none := call(id[1])
			r.who = broker.Principal{Tenant: "other", User: "bob", Role: broker.TenantAdministrator}
			r.untouched(tool.Name, func() {
				if theirs := call(id[0]); theirs != none || !strings.Contains(none, "_not_found") {
					t.Errorf("%s: another's reads %s, none reads %s", tool.Name, theirs, none)
				}
			})
		}
	}
	if seen < 30 {
		t.Errorf("only %d verbs were called", seen)
	}
}

func TestIdsInArgumentsAreReadInTheCallersScope(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.who = broker.Principal{Tenant: "acme", User: "ana", Role: broker.TenantAdministrator}
	mine := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	mission := r.add("create_mission", `{"title":"t","description":"d","vesselId":"`+mine+`"}`)
	r.untouched("a reference to another's record", func() {
		r.want("create_mission", `{"title":"t","description":"d","vesselId":"`+mine+`","dependsOnMissionId":"msn_complete"}`, broker.CodeDependencyNotFound)
		r.want("create_mission", `{"title":"t","description":"d","vesselId":"`+mine+`","voyageId":"vyg_open"}`, broker.CodeVoyageNotFound)
		r.want("update_mission", `{"missionId":"`+mission+`","parentMissionId":"msn_complete"}`, broker.CodeParentNotFound)
		r.want("update_mission", `{"missionId":"`+mission+`","vesselId":"vsl_one"}`, broker.CodeVesselNotFound)
		r.want("dispatch", `{"title":"t","vesselId":"`+mine+`","missions":[{"title":"a","description":"d","dependsOnMissionId":"msn_complete"}]}`, broker.CodeDependencyNotFound)
	})
	if m := kept[dispatch.Mission](r, mission); m.TenantID != "acme" || m.UserID != "ana" {
		t.Errorf("the mission belongs to %+v", m.Owner)
	}
}

func TestEmptyStringsClearWhatMayBeCleared(t *testing.T) {
	r := newRig(t)
	settle(r)
	amend(r, "msn_pending", func(m *dispatch.Mission) { m.ParentID = ptr("msn_complete") })
	got := r.call("update_mission", `{"missionId":"msn_pending","title":"","description":"","voyageId":"","vesselId":"","persona":"","branchName":"","prUrl":""}`)
	if got["Title"] != "Do pending" || got["Description"] != "All of msn_pending." || got["VoyageId"] != "vyg_open" || got["ParentMissionId"] != "msn_complete" || got["DependsOnMissionId"] != "msn_running" || got["Persona"] != "Worker" {
		t.Errorf("an empty string changed something: %v", got)
	}
	got = r.call("update_mission", `{"missionId":"msn_pending","parentMissionId":"","dependsOnMissionId":""}`)
	if got["ParentMissionId"] != nil || got["DependsOnMissionId"] != nil || got["AssignmentState"] != "Pending" {
		t.Errorf("an empty string cleared nothing: %v", got)
	}
	for field, shown := range map[string]string{"model": "Model", "apiBaseUrl": "ApiBaseUrl", "systemInstructions": "SystemInstructions", "preferredPersona": "PreferredPersona"} {
		r.want("update_captain", `{"captainId":"cpt_idle","`+field+`":"x"}`, "")
		if got := r.call("update_captain", `{"captainId":"cpt_idle","`+field+`":""}`); got[shown] != nil {
			t.Errorf("%s was not cleared: %v", field, got[shown])
		}
	}
}

func TestOnlyACancelInterrupts(t *testing.T) {
	r := newRig(t)
	s, faults := catalog.Settings{}.Build(1, []catalog.Source{r.family.Source()})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	full, _ := s.Profile(catalog.Full)
	v, _ := full.Resolve("transition_mission_status")
	for _, status := range dispatch.MissionStatuses() {
		want := broker.Write
		if status == dispatch.MissionCancelled {
			want |= broker.Interrupt
		}
		if got := v.EffectsFor(json.RawMessage(`{"missionId":"m","status":"` + string(status) + `"}`)); got != want {
			t.Errorf("%s: %v", status, got.Names())
		}
	}
	if got := v.EffectsFor(json.RawMessage(`{"missionId":"m","status":"cancelled"}`)); got&broker.Interrupt == 0 {
		t.Errorf("cancelled: %v", got.Names())
	}
	for name, want := range map[string]broker.Effects{"voyage_status": broker.Read, "mission_output": broker.Read, "captain_diagnostics": broker.Read, "get_dock": broker.Read, "update_mission": broker.Write,
		"dispatch": broker.Write | broker.Exec, "create_mission": broker.Write | broker.Exec, "restart_mission": broker.Write | broker.Exec, "retry_landing": broker.Write | broker.Exec,
		"cancel_voyage": broker.Write | broker.Interrupt, "cancel_mission": broker.Write | broker.Interrupt, "stop_captain": broker.Write | broker.Interrupt, "stop_all": broker.Write | broker.Interrupt,
		"purge_voyage": broker.Destroy, "delete_missions": broker.Destroy, "purge_dock": broker.Destroy, "unstick_dock": broker.Destroy, "repair_dock": broker.Write} {
		if v, ok := full.Resolve(name); !ok || v.Effects != want {
			t.Errorf("%s: %v", name, v.Effects.Names())
		}
	}
}

// TestGatesOfAManualCompletionComeInOrder has a mission that no gate would let
// through, and opens one after the other.
func TestGatesOfAManualCompletionComeInOrder(t *testing.T) {
	r := newRig(t)
	settle(r)
	amend(r, "msn_review", func(m *dispatch.Mission) { m.VesselID = "vsl_checks" })
	amend(r, "msn_pending", func(m *dispatch.Mission) { m.DependsOn, m.Persona = ptr("msn_review"), dispatch.Judge })
	r.world.running["msn_review"] = true
	for _, tt := range []struct {
		want broker.Code
		open func()
	}{
		{broker.CodeCompletionReview, func() {
			amend(r, "msn_review", func(m *dispatch.Mission) { m.Status = dispatch.MissionWorkProduced })
		}},
		{broker.CodeCompletionJudge, func() {
			amend(r, "msn_pending", func(m *dispatch.Mission) { m.Status = dispatch.MissionComplete })
		}},
		{broker.CodeCompletionCaptain, func() { r.world.running = map[string]bool{} }},
		{broker.CodeCompletionCheck, func() {
			v := kept[dispatch.Vessel](r, "vsl_checks")
			v.ChecksToLand = false
			keep(r, v)
		}},
		{broker.CodeCompletionAncestry, func() { amend(r, "msn_review", func(m *dispatch.Mission) { m.Commit = ptr("7777") }) }},
		{broker.CodeCompletionNotLanded, func() { r.world.landed["7777"] = true }},
	} {
		r.untouched(string(tt.want), func() {
			got := r.want("transition_mission_status", `{"missionId":"msn_review","status":"Complete"}`, tt.want)
			if got["Reason"] != string(tt.want) || got["Error"] != "Manual completion blocked: "+string(tt.want) {
				t.Errorf("got %v", got)
			}
		})
		tt.open()
	}
	if got := r.want("transition_mission_status", `{"missionId":"msn_review","status":"Complete"}`, ""); got["Status"] != "Complete" {
		t.Errorf("got %v", got)
	}
}

func TestWhatLandsOrDeliversNoCommitNeedsNoAncestry(t *testing.T) {
	r := newRig(t)
	settle(r)
	amend(r, "msn_produced", func(m *dispatch.Mission) { m.VesselID = "vsl_merge" })
	d := kept[dispatch.Dock](r, "dck_produced")
	d.State = dispatch.DockLeased
	keep(r, d)
	r.want("transition_mission_status", `{"missionId":"msn_produced","status":"Complete"}`, "")
	amend(r, "msn_review", func(m *dispatch.Mission) { m.Status, m.Mode = dispatch.MissionWorkProduced, dispatch.Audit })
	r.want("transition_mission_status", `{"missionId":"msn_review","status":"Complete"}`, "")
	amend(r, "msn_landing", func(m *dispatch.Mission) {
		m.Status, m.VoyageID, m.VesselID = dispatch.MissionWorkProduced, nil, "vsl_gone"
	})
	r.want("transition_mission_status", `{"missionId":"msn_landing","status":"Complete"}`, broker.CodeCompletionAncestry)
}

func TestARestartedMissionTakesItsVoyageAlong(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.want("restart_mission", `{"missionId":"msn_failed"}`, "")
	if v := kept[dispatch.Voyage](r, "vyg_over"); v.Status != dispatch.VoyageInProgress || v.CompletedUTC != nil {
		t.Errorf("the voyage is %+v", v)
	}
	if r.world.wakes == 0 {
		t.Error("nobody was woken")
	}
}

// TestAMissionComesIntoNoVoyageThatEndsMeanwhile: the voyage is written with it.
func TestAMissionComesIntoNoVoyageThatEndsMeanwhile(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.store.before = func([]broker.RecordChange) error {
		r.store.before = nil
		v := kept[dispatch.Voyage](r, "vyg_open")
		v.Status = dispatch.VoyageComplete
		keep(r, v)
		return nil
	}
	r.want("create_mission", `{"title":"t","description":"d","vesselId":"vsl_one","voyageId":"vyg_open"}`, broker.CodeInvalid)
	if missions, err := dispatch.ReadAll[dispatch.Mission](r.store.Journal, dispatch.OfVoyage("vyg_open")); err != nil || len(missions) != 5 {
		t.Errorf("%d missions (%v)", len(missions), err)
	}
}

func TestOutputsArePagedByCharacters(t *testing.T) {
	r := newRig(t)
	settle(r)
	whole := strings.Repeat("größer — 多 👍🏽\n", 500)
	r.world.outputs["msn_complete"] = whole
	for _, length := range []int{1000, 7777, 64000} {
		got, offset, pages := "", 0.0, 0
		for {
			page := r.call("mission_output", fmt.Sprintf(`{"missionId":"msn_complete","offset":%v,"length":%d}`, offset, length))
			text := page["Content"].(string)
			if !utf8.ValidString(text) || float64(utf8.RuneCountInString(text)) != page["Length"] {
				t.Fatalf("page %d of %d splits a character, or its length is wrong", pages, length)
			}
			sum := sha256.Sum256([]byte(whole))
			if page["Sha256"] != hex.EncodeToString(sum[:]) || page["TotalUtf8Bytes"] != float64(len(whole)) {
				t.Errorf("%v", page["Sha256"])
			}
			got += text
			if pages++; page["HasMore"] != true {
				break
			}
			offset = page["NextOffset"].(float64)
		}
		if got != whole {
			t.Errorf("pages of %d do not give the whole", length)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.world.outputs["msn_complete"] = strings.Repeat("ö", 5000)
	got := r.call("mission_status", `{"missionId":"msn_complete"}`)["AgentOutput"].(map[string]any)
	if got["Truncated"] != true || got["FullLength"] != 5000.0 || got["Text"] != strings.Repeat("ö", 4096) {
		t.Errorf("%v of %v", utf8.RuneCountInString(got["Text"].(string)), got["FullLength"])
	}
}

func TestABrokerWithoutARunnerHasVesselsAlone(t *testing.T) {
	f := NewVessels(nil, Options{Options: native.Options{Now: time.Now}})
	var names []string
	for _, tool := range f.Source().Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "add_vessel get_vessel update_vessel update_vessel_context delete_vessel delete_vessels" {
		t.Error(got)
	}
	if entities := f.Entities(); len(entities) != 1 || entities[0].Names[0] != "vessels" {
		t.Errorf("%v", entities)
	}
	job := broker.Job{}
	if refusal := f.Admit(&broker.Call{Verb: Verb, Backend: catalog.NativeName}, &job); refusal != nil || job.Operation != "" {
		t.Errorf("%v %+v", refusal, job)
	}
}

func TestNoAnswerHasACredential(t *testing.T) {
	r := newRig(t)
	settle(r)
	const secret = "ghp_abcdefghij0123456789"
	r.want("update_captain", `{"captainId":"cpt_idle","apiKey":"`+secret+`"}`, "")
	r.want("update_vessel", `{"vesselId":"vsl_one","gitHubTokenOverride":"`+secret+`"}`, "")
	r.world.outputs["msn_complete"] = "the key is " + secret
	texts := []string{r.dump()}
	for verb, steps := range transcripts {
		for _, s := range steps {
			if s.before == nil {
				texts = append(texts, r.text(t.Context(), verb, s.arguments))
			}
		}
	}
	for _, text := range append(texts, r.dump()) {
		if strings.Contains(text, secret) {
			t.Errorf("a credential is in %.200s", text)
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(r.world.secrets)), secret) {
		t.Error("it is nowhere")
	}
}
