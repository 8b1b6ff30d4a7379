package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
)

// TestARequestIsJudgedInTheContractsOrder has requests with which everything is
// wrong, and takes the faults away one after the other.
func TestFilesThatNoWorktreeTakesAreRefusedBeforeAcceptance(t *testing.T) {
	r := newRig(t)
	settle(r)
	const file = `{"sourcePath":"/srv/%d.iso","destPath":"%d"}`
	one, two := fmt.Sprintf(file, 1, 1), fmt.Sprintf(file, 1, 1)+","+fmt.Sprintf(file, 2, 2)
	mission := `{"title":"a","description":"d","prestagedFiles":[%s]}`
	r.untouched("files of 60 MB", func() {
		got := r.want("dispatch", `{"title":"t","vesselId":"vsl_one","missions":[`+fmt.Sprintf(mission, one)+","+fmt.Sprintf(mission, two)+`]}`, broker.CodePrestagedFileInvalid)
		if got["Mission"] != 1.0 || got["Bytes"] != float64(60<<20) || got["LimitBytes"] != float64(50<<20) {
			t.Errorf("got %v", got)
		}
	})
	r.want("dispatch", `{"title":"t","vesselId":"vsl_one","missions":[`+fmt.Sprintf(mission, one)+","+fmt.Sprintf(mission, one)+`]}`, "") // of each, 30 MB
}

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
	if refusal := v.CheckArguments(json.RawMessage(`{"title":"t"}`)); refusal == nil || refusal.Code != broker.CodeMissingMissions || v.CheckArguments(refusal.Detail["MinimalCall"].(json.RawMessage)) != nil {
		t.Errorf("the minimal call does not fit: %v", refusal)
	}
	if refusal := v.CheckArguments(json.RawMessage(`{"title":"t","vesselId":"v","missions":[{"title":7,"description":"d"}]}`)); refusal == nil || refusal.Code != broker.CodeInvalidArguments || !strings.Contains(fmt.Sprint(refusal.Detail), "/missions/0/title") {
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
