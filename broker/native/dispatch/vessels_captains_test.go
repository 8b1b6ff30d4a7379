package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/native"
)

func TestTheFamilyFitsTheCatalog(t *testing.T) {
	f := New(nil, Options{Options: native.Options{Now: time.Now}})
	s, faults := catalog.Settings{}.Build(1, []catalog.Source{f.Source()})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	full, _ := s.Profile(catalog.Full)
	for _, tool := range f.Source().Tools {
		v, ok := full.Resolve("armada_" + tool.Name)
		if !ok || v.Name != tool.Name || !slices.Equal(v.Scope, administrators) {
			t.Errorf("%s: %+v", tool.Name, v)
		}
	}
}

func TestAVesselIsAddedReadChangedAndDeleted(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"berth","repoUrl":"https://example.com/a.git","gitHubTokenOverride":" ghp_secret ","projectContext":"x","allowConcurrentMissions":"true"}`)
	got := r.call("get_vessel", `{"vesselId":" `+id+` "}`)
	if got["DefaultBranch"] != "main" || got["LandingMode"] != "None" || got["HasGitHubTokenOverride"] != true || got["AllowConcurrentMissions"] != true ||
		got["WorkingDirectory"] != nil || got["ProjectContext"] != "x" || got["TenantId"] != "default" {
		t.Errorf("got %v", got)
	}
	if r.world.secrets["vessel-"+id] != "ghp_secret" {
		t.Errorf("secrets %v", r.world.secrets)
	}
	if text := fmt.Sprint(got, r.dump()); strings.Contains(text, "ghp_secret") {
		t.Error("the token is in a record, an answer or an event")
	}
	r.now = r.now.Add(time.Hour)
	got = r.call("update_vessel", `{"vesselId":"`+id+`","name":"","styleGuide":"tabs","landingMode":"LocalMerge"}`)
	if got["Name"] != "berth" || got["StyleGuide"] != "tabs" || got["LandingMode"] != "LocalMerge" || got["HasGitHubTokenOverride"] != true || got["LastUpdateUtc"] == got["CreatedUtc"] {
		t.Errorf("got %v", got)
	}
	got = r.call("update_vessel_context", `{"vesselId":"`+id+`","projectContext":""}`)
	if got["ProjectContext"] != nil || got["StyleGuide"] != "tabs" {
		t.Errorf("got %v", got)
	}
	got = r.call("update_vessel", `{"vesselId":"`+id+`","gitHubTokenOverride":""}`)
	if got["HasGitHubTokenOverride"] != false || len(r.world.secrets) != 0 {
		t.Errorf("got %v", got)
	}
	if got := r.call("delete_vessel", `{"vesselId":"`+id+`"}`); got["Status"] != "deleted" || got["VesselId"] != id || !slices.Equal(r.world.removed, []string{id}) {
		t.Errorf("got %v", got)
	}
	if got := r.want("get_vessel", `{"vesselId":"`+id+`"}`, broker.CodeVesselNotFound); got["Error"] != "Vessel not found" {
		t.Errorf("got %v", got)
	}
	_, events := r.everything()
	if got := strings.Join(events, " "); got != "vessel.added vessel.updated vessel.updated vessel.updated vessel.deleted" {
		t.Errorf("events %s", got)
	}
}

func TestUpdateVesselContextChangesTheTwoTextsAlone(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	before := r.call("get_vessel", `{"vesselId":"`+id+`"}`)
	got := r.call("update_vessel_context", `{"vesselId":"`+id+`","styleGuide":"tabs","name":"../b","repoUrl":"/srv/a","localPath":"/srv","landingMode":"LocalMerge","fleetId":"flt_1","gitHubTokenOverride":"t"}`)
	if got["StyleGuide"] != "tabs" || len(r.world.secrets) != 0 {
		t.Errorf("got %v, secrets %v", got, r.world.secrets)
	}
	before["StyleGuide"], before["LastUpdateUtc"] = got["StyleGuide"], got["LastUpdateUtc"]
	if fmt.Sprint(before) != fmt.Sprint(got) {
		t.Errorf("before %v, then %v", before, got)
	}
}

func TestALocalCloneIsWorkedInAndNeverDeleted(t *testing.T) {
	r := newRig(t)
	for url, want := range map[string]any{"/srv/clone": "/srv/clone", "file:///srv/clone": "/srv/clone", "/srv/other": nil, "https://example.com/clone": nil, "ssh://git@example.com/clone": nil, "git@example.com:clone": nil} {
		got := r.call("get_vessel", `{"vesselId":"`+r.add("add_vessel", `{"name":"a","repoUrl":"`+url+`"}`)+`"}`)
		if got["WorkingDirectory"] != want || got["LocalPath"] != nil {
			t.Errorf("%s: %v", url, got)
		}
	}
	id := r.add("add_vessel", `{"name":"a","repoUrl":"/srv/clone","workingDirectory":"/home/me/a"}`)
	if got := r.call("get_vessel", `{"vesselId":"`+id+`"}`); got["WorkingDirectory"] != "/home/me/a" {
		t.Errorf("got %v", got)
	}
}

func TestVesselsThatCannotBeAreRefused(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		arguments string
		want      broker.Code
	}{
		{`{"repoUrl":"https://example.com/a"}`, broker.CodeInvalidArguments},
		{`{"name":"a","repoUrl":" "}`, broker.CodeInvalidArguments},
		{`{"name":"../a","repoUrl":"https://example.com/a"}`, broker.CodeInvalidVesselName},
		{`{"name":"a","repoUrl":"--upload-pack=id"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"ext::sh -c id"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a\n"}`, ""}, // trimmed
		{`{"name":"a","repoUrl":"https://example.com/\u0007"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"../a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","projectContext":"` + strings.Repeat("x", 100_001) + `"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","protectedPaths":["` + strings.Repeat("x", 2<<20) + `"]}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://me:secret@example.com/a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"HTTPS://ghp_secret@example.com/a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://me:sec%zzret@example.com/a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"ssh://git:secret@example.com/a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","workingDirectory":"a"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","defaultBranch":"-x"}`, broker.CodeInvalid},
		{`{"name":"a","repoUrl":"https://example.com/a","landingMode":"PullRequest"}`, broker.CodeLandingUnsupported},
		{`{"name":"a","repoUrl":"https://example.com/a","landingMode":"Push"}`, broker.CodeInvalidArguments},
		{`{"name":"a","repoUrl":"https://example.com/a","fleetId":"flt_1"}`, broker.CodeNotBuilt},
		{`{"name":"a","repoUrl":"https://example.com/a","requirePassingChecksToLand":true}`, broker.CodeNotBuilt},
	} {
		r.want("add_vessel", tt.arguments, tt.want)
	}
	r.want("add_vessel", `{"name":"a","repoUrl":"https://[2001:db8::1]/a.git"}`, "")
	if records, _ := r.everything(); len(records) != 2 || len(r.world.secrets) != 0 {
		t.Errorf("%d records, secrets %v", len(records), r.world.secrets)
	}
	r.who = broker.Principal{Tenant: "acme", User: "ana", Role: broker.User}
	for _, arguments := range []string{`{"name":"a","repoUrl":"/srv/a"}`, `{"name":"a","repoUrl":"file:///srv/a"}`, `{"name":"a","repoUrl":"https://example.com/a","workingDirectory":"/srv/a"}`} {
		r.want("add_vessel", arguments, broker.CodeServerPath)
	}
	mine := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.want("update_vessel", `{"vesselId":"`+mine+`","localPath":"/srv/a"}`, broker.CodeServerPath)
	r.who = broker.Principal{Tenant: "other", User: "bob", Role: broker.TenantAdministrator}
	theirs, none := r.want("update_vessel", `{"vesselId":"`+mine+`","name":"../x","gitHubTokenOverride":"t"}`, broker.CodeVesselNotFound), r.want("get_vessel", `{"vesselId":"vsl_none"}`, broker.CodeVesselNotFound)
	if theirs["Error"] != none["Error"] || len(r.world.secrets) != 0 {
		t.Errorf("another tenant's reads %v, none reads %v", theirs, none)
	}
}

func TestNothingIsDeletedWhileAMissionWorks(t *testing.T) {
	r := newRig(t)
	busy, free := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`), r.add("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`)
	captain := r.add("create_captain", `{"name":"c"}`)
	keep(r, dispatch.Mission{ID: "m", VesselID: busy, CaptainID: &captain, Status: dispatch.MissionInProgress})
	r.want("delete_vessel", `{"vesselId":"`+busy+`"}`, broker.CodeVesselBusy)
	keep(r, dispatch.Mission{ID: "waits", VesselID: free, Status: dispatch.MissionPending})
	r.want("delete_vessel", `{"vesselId":"`+free+`"}`, broker.CodeVesselBusy)
	keep(r, dispatch.Mission{ID: "waits", VesselID: free, Status: dispatch.MissionFailed})
	r.want("delete_captain", `{"captainId":"`+captain+`"}`, broker.CodeCaptainBusy)
	got := r.call("delete_vessels", `{"ids":["`+busy+`","`+free+`","vsl_none"]}`)
	if got["Status"] != "PartiallyDeleted" || got["Deleted"] != 1.0 || fmt.Sprint(got["Skipped"]) != "[map[Id:"+busy+" Reason:vessel_busy] map[Id:vsl_none Reason:vessel_not_found]]" {
		t.Errorf("got %v", got)
	}
	if got := r.call("delete_vessels", `{"ids":["vsl_none"]}`); got["Status"] != "NoneDeleted" {
		t.Errorf("got %v", got)
	}
	keep(r, dispatch.Mission{ID: "m", VesselID: busy, CaptainID: &captain, Status: dispatch.MissionComplete})
	if got := r.call("delete_captains", `{"ids":["`+captain+`"]}`); got["Status"] != "Deleted" {
		t.Errorf("got %v", got)
	}
}

func TestACaptainIsCreatedChangedAndBenched(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":" Ada ","model":"claude-opus-4","apiKey":"sk-secret","preferenceRank":5000,"allowedPersonas":"[\"Worker\"]","reasoningEffort":"high"}`)
	got := r.call("get_captain", `{"captainId":"`+id+`"}`)
	if got["Name"] != "Ada" || got["Runtime"] != "ClaudeCode" || got["Tier"] != "Premium" || got["PreferenceRank"] != 1000.0 || got["HasApiKey"] != true || got["State"] != "Idle" ||
		fmt.Sprint(got["AllowedPersonas"]) != "[Worker]" {
		t.Errorf("got %v", got)
	}
	if text := fmt.Sprint(got, r.dump()); strings.Contains(text, "sk-secret") || r.world.secrets["captain-"+id] != "sk-secret" {
		t.Error("the key is in a record, an answer or an event, or nowhere")
	}
	got = r.call("update_captain", `{"captainId":"`+id+`","model":"gpt-5-mini","tier":"","apiKey":"","allowedPersonas":"","reasoningEffort":""}`)
	if got["Tier"] != "Economy" || got["HasApiKey"] != false || fmt.Sprint(got["AllowedPersonas"]) != "[]" || got["ReasoningEffort"] != nil || got["Name"] != "Ada" {
		t.Errorf("got %v", got)
	}
	if got := r.call("update_captain", `{"captainId":"`+id+`","model":""}`); got["Model"] != nil || got["Tier"] != "Economy" {
		t.Errorf("got %v", got)
	}
	got = r.call("bench_captain", `{"captainId":"`+id+`","reason":"tired","durationMinutes":"30"}`)
	if got["State"] != "Benched" || got["BenchReason"] != "tired" || got["BenchUntilUtc"] != "2026-05-04T09:30:00Z" {
		t.Errorf("got %v", got)
	}
	if got := r.call("bench_captain", `{"captainId":"`+id+`","reason":"still"}`); got["BenchReason"] != "still" || got["BenchUntilUtc"] != nil {
		t.Errorf("got %v", got)
	}
	if got := r.call("unbench_captain", `{"captainId":"`+id+`"}`); got["State"] != "Idle" {
		t.Errorf("got %v", got)
	}
	r.want("unbench_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainNotBenched)
	r.want("bench_captain", `{"captainId":"`+id+`"}`, broker.CodeMissingReason)
	if got := r.want("bench_captain", `{"captainId":"`+id+`","reason":"x","untilUtc":"tomorrow"}`, broker.CodeInvalid); got["Argument"] != "untilUtc" {
		t.Errorf("got %v", got)
	}
}

func TestABusyCaptainIsLeftAlone(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	c := kept[dispatch.Captain](r, id)
	c.State = dispatch.CaptainWorking
	keep(r, c)
	r.want("bench_captain", `{"captainId":"`+id+`","reason":"x"}`, broker.CodeCaptainBusy)
	r.want("unbench_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainNotBenched)
	r.want("delete_captain", `{"captainId":"`+id+`"}`, broker.CodeCaptainBusy)
}

func TestCaptainsThatCannotBeAreRefused(t *testing.T) {
	r := newRig(t)
	r.add("create_captain", `{"name":"Ada"}`)
	for _, tt := range []struct {
		arguments string
		want      broker.Code
	}{
		{`{}`, broker.CodeInvalidArguments}, {`{"name":"a\u0001"}`, broker.CodeInvalid}, {`{"name":"` + strings.Repeat("x", 101) + `"}`, broker.CodeInvalid},
		{`{"name":"ada"}`, broker.CodeCaptainNameTaken}, {`{"name":"x","runtime":"Mux"}`, broker.CodeRuntimeUnsupported},
		{`{"name":"x","tier":"Best"}`, broker.CodeInvalidTier}, {`{"name":"x","allowedPersonas":"Worker"}`, broker.CodeInvalid},
		{`{"name":"x","runtime":"Custom"}`, broker.CodeInvalid}, {`{"name":"x","runtime":"Custom","customCommand":["agent"]}`, broker.CodeInvalid},
		{`{"name":"x","customCommand":["/bin/agent"]}`, broker.CodeInvalid}, {`{"name":"x","defaultPlaybooks":[{}]}`, broker.CodeNotBuilt},
		{`{"name":"x","state":"Working","processId":7}`, broker.CodeServerOwnedField}, {`{"name":"x","state":"Idle","processId":null}`, ""},
		{`{"name":"y","runtime":"Custom","customCommand":["/bin/agent","{prompt}"]}`, ""},
		{`{"name":"a","runtime":"Custom","customCommand":["/bin/agent"],"customPromptDelivery":"argument"}`, broker.CodeInvalid},
		{`{"name":"a","runtime":"Custom","customCommand":["/bin/agent","{prompt}"],"customPromptDelivery":"file"}`, broker.CodeInvalid},
		{`{"name":"a","runtime":"Custom","customCommand":["/bin/agent","--in={promptFile}"],"customPromptDelivery":"file"}`, ""},
		{`{"name":"b","recoveryAttempts":1}`, broker.CodeServerOwnedField}, {`{"name":"b","recoveryAttempts":0,"quarantineUntilUtc":null,"lastProcessAliveUtc":null}`, ""},
	} {
		r.want("create_captain", tt.arguments, tt.want)
	}
	got := r.want("create_captain", `{"name":"z","state":"Working","processId":7}`, broker.CodeServerOwnedField)
	if !strings.HasPrefix(got["Error"].(string), "captain_server_owned_field:") || fmt.Sprint(got["Fields"]) != "[state processId]" {
		t.Errorf("got %v", got)
	}
	r.want("get_captain", `{"captainId":"cpt_none"}`, broker.CodeCaptainNotFound)
}

func TestARecordThatWasReadCanBeSentBack(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	r.add("create_captain", `{"name":"Bob"}`)
	stored := r.call("get_captain", `{"captainId":"`+id+`"}`)
	args := map[string]any{"captainId": id, "model": "gpt-5"}
	for _, name := range owned {
		if v, there := stored[strings.ToUpper(name[:1])+name[1:]]; there {
			args[name] = v
		}
	}
	raw, _ := json.Marshal(args)
	if got := r.want("update_captain", string(raw), ""); got["Model"] != "gpt-5" {
		t.Errorf("got %v", got)
	}
	r.want("update_captain", `{"captainId":"`+id+`","recoveryAttempts":0}`, "")
	r.want("update_captain", `{"captainId":"`+id+`","currentMissionId":"msn_x"}`, broker.CodeServerOwnedField)
	r.want("update_captain", `{"captainId":"`+id+`","name":"bob"}`, broker.CodeCaptainNameTaken)
	r.want("update_captain", `{"captainId":"`+id+`","name":"ADA"}`, "")
}

func TestAnEmptyStringClearsEveryTextOfACaptain(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada","runtime":"Custom","customCommand":["/bin/agent","{prompt}"],"customPromptDelivery":"argument","model":"gpt-5-mini","apiKey":"k","apiBaseUrl":"http://x",
		"systemInstructions":"s","allowedPersonas":"[\"Worker\"]","preferredPersona":"Worker","tier":"Premium","reasoningEffort":"low"}`)
	got := r.call("update_captain", `{"captainId":"`+id+`","runtime":"","customCommand":[],"customPromptDelivery":"","model":"","apiKey":"","apiBaseUrl":"","systemInstructions":"","allowedPersonas":"",
		"preferredPersona":"","tier":"","reasoningEffort":""}`)
	want := map[string]any{"Runtime": "ClaudeCode", "CustomPromptDelivery": "stdin", "Model": nil, "HasApiKey": false, "ApiBaseUrl": nil, "SystemInstructions": nil, "AllowedPersonas": []any{},
		"PreferredPersona": nil, "Tier": "Standard", "ReasoningEffort": nil}
	for field, value := range want {
		if fmt.Sprint(got[field]) != fmt.Sprint(value) {
			t.Errorf("%s is %v", field, got[field])
		}
	}
	r.untouched("an empty name", func() { r.want("update_captain", `{"captainId":"`+id+`","name":""}`, broker.CodeInvalid) })
}

func TestOfTwoCaptainsOfOneNameOneStays(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			if got := r.call("create_captain", `{"name":"Ada","apiKey":"k"}`); got["Id"] != nil {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if records, _ := r.everything(); len(records) != 2 || made != 1 || len(r.world.secrets) != 1 { // the captain and the claim of its name
		t.Errorf("%d records, %d said to be made, %d keys", len(records), made, len(r.world.secrets))
	}
}

func TestANameIsFreeAgainWhenNobodyBearsIt(t *testing.T) {
	r := newRig(t)
	id := r.add("create_captain", `{"name":"Ada"}`)
	r.want("update_captain", `{"captainId":"`+id+`","name":"Eva"}`, "")
	other := r.add("create_captain", `{"name":"Ada"}`)
	r.want("delete_captain", `{"captainId":"`+other+`"}`, "")
	r.add("create_captain", `{"name":"Ada"}`)
	// A claim whose captain is gone.
	if _, err := r.store.Journal.Put(t.Context(), broker.RecordChange{Kind: kindName, ID: "default/bob", Value: json.RawMessage(`{"captain":"cpt_gone"}`)}); err != nil {
		t.Fatal(err)
	}
	r.add("create_captain", `{"name":"Bob"}`)
}

func TestAChangeThatMetAnotherIsMadeAgain(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.store.before = func([]broker.RecordChange) error {
		r.store.before = nil
		v := kept[dispatch.Vessel](r, id)
		v.DefaultBranch = "trunk"
		keep(r, v)
		return nil
	}
	if got := r.call("update_vessel", `{"vesselId":"`+id+`","styleGuide":"tabs"}`); got["DefaultBranch"] != "trunk" || got["StyleGuide"] != "tabs" {
		t.Errorf("got %v", got)
	}
}

func TestAJournalThatFailsIsNoMissingRecord(t *testing.T) {
	r := newRig(t)
	id := r.add("add_vessel", `{"name":"a","repoUrl":"https://example.com/a"}`)
	r.store.fail = errors.New("the disk is gone")
	for _, verb := range []string{"get_vessel", "delete_vessel"} {
		if got := r.want(verb, `{"vesselId":"`+id+`"}`, broker.CodeJobJournal); strings.Contains(fmt.Sprint(got), "disk") {
			t.Errorf("got %v", got)
		}
	}
	r.want("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`, broker.CodeOutcomeUnknown)
	r.store.fail, r.store.before = nil, func([]broker.RecordChange) error { return errors.New("no space left on device") }
	r.want("create_captain", `{"name":"may be there","apiKey":"k"}`, broker.CodeOutcomeUnknown)
	r.store.fail, r.store.before = nil, func([]broker.RecordChange) error { return broker.ErrJournalBusy }
	r.want("create_captain", `{"name":"is not there","apiKey":"k"}`, broker.CodeJobJournal)
	r.want("add_vessel", `{"name":"b","repoUrl":"https://example.com/b","gitHubTokenOverride":"t"}`, broker.CodeJobJournal)
	if len(r.world.secrets) != 1 {
		t.Errorf("credentials of what may be there: %v", r.world.secrets)
	}
	r.store.before = nil
	r.store.fail = broker.ErrJournalBusy
	r.want("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`, broker.CodeJobJournal)
	r.store.fail, r.store.before = nil, func([]broker.RecordChange) error { return broker.ErrRecordRevision }
	r.want("add_vessel", `{"name":"b","repoUrl":"https://example.com/b"}`, broker.CodeOverloaded)
}
