package dispatch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

func TestAMissionOfWhatWasDeletedIsNotRestarted(t *testing.T) {
	for name, of := range map[string]func(m *dispatch.Mission){
		"its dependency": func(m *dispatch.Mission) { m.DependsOn = ptr("msn_gone") },
		"its voyage":     func(m *dispatch.Mission) { m.VoyageID = ptr("vyg_gone") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			settle(r)
			m := kept[dispatch.Mission](r, "msn_failed")
			of(&m)
			keep(r, m)
			if got := r.want("restart_mission", `{"missionId":"msn_failed"}`, broker.CodeMissionNotRestartable); !strings.Contains(fmt.Sprint(got["Error"]), "deleted") {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestWhatAnEarlierTryMadeIsNotARestartedMissions(t *testing.T) {
	r := newRig(t)
	settle(r)
	r.world.outputs["msn_failed"], r.world.final["msn_failed"], r.world.diffs["msn_failed"] = "I gave up.", true, "+half"
	if got := r.call("mission_output", `{"missionId":"msn_failed"}`); got["Content"] != "I gave up." || got["Finalized"] != true {
		t.Errorf("before: %v", got)
	}
	r.want("get_mission_diff", `{"missionId":"msn_failed"}`, "")
	r.want("restart_mission", `{"missionId":"msn_failed"}`, "")
	if got := r.call("mission_output", `{"missionId":"msn_failed"}`); got["Content"] != "" || got["Finalized"] != false || got["Complete"] != false {
		t.Errorf("after: %v", got)
	}
	if got := r.call("mission_status", `{"missionId":"msn_failed"}`); got["AgentOutput"] != nil {
		t.Errorf("after: %v", got)
	}
	r.want("get_mission_diff", `{"missionId":"msn_failed"}`, broker.CodeMissionDiff)
	if got := r.call("get_mission_log", `{"missionId":"msn_failed"}`); got["TotalLines"] != 2.0 {
		t.Errorf("its log goes on: %v", got)
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
			if pages++; pages > len(whole) {
				t.Fatal("the pages do not end")
			}
			if page["HasMore"] != true {
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
	if !slices.Contains(slices.Collect(maps.Values(r.world.secrets)), secret) {
		t.Error("it is nowhere")
	}
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
}
