package dispatch

import (
	"testing"

	"berth/broker"
)

func TestTheIndexIsJudgedByTheModeOfTheContext(t *testing.T) {
	const none = broker.Code("")
	for _, tt := range []struct {
		freshness        string
		off, auto, force broker.Code
	}{
		{IndexFresh, none, none, none},
		{IndexMissing, none, none, broker.CodeContextUnavailable},
		{IndexError, none, none, broker.CodeContextUnavailable},
		{IndexStale, none, broker.CodeIndexStale, broker.CodeIndexStale},
		{IndexUpdating, none, broker.CodeIndexUpdating, broker.CodeIndexUpdating},
	} {
		for mode, want := range map[string]broker.Code{ContextOff: tt.off, ContextAuto: tt.auto, ContextForce: tt.force} {
			got := none
			refusal := CheckIndex("vsl_a", mode, IndexState{Freshness: tt.freshness, JobID: "job_a"})
			if refusal != nil {
				got = refusal.Code
				for _, key := range []string{"VesselId", "Freshness", "Action"} {
					if text, _ := refusal.Detail[key].(string); text == "" {
						t.Errorf("%s, %s: no %s in %v", tt.freshness, mode, key, refusal.Detail)
					}
				}
				if job, there := refusal.Detail["JobId"]; there != (got == broker.CodeIndexUpdating) || there && job != "job_a" {
					t.Errorf("%s, %s: JobId %v", tt.freshness, mode, job)
				}
			}
			if got != want {
				t.Errorf("%s, %s: got %q, want %q", tt.freshness, mode, got, want)
			}
		}
	}
	if r := CheckIndex("vsl_a", ContextAuto, IndexState{Freshness: IndexUpdating}); r == nil || r.Detail["JobId"] != nil {
		t.Errorf("an update of which no job is known: %v", r)
	}
}

func TestARequestAsksForTheMostThatAMissionAsksFor(t *testing.T) {
	for _, tt := range []struct {
		voyage   string
		missions []string
		want     string
	}{
		{"", []string{""}, ContextAuto},
		{"", []string{"off"}, ContextOff},
		{"off", []string{"", "off"}, ContextOff},
		{"off", []string{"", "auto"}, ContextAuto},
		{"off", []string{"auto", "force", "off"}, ContextForce},
		{"force", []string{"off", "auto"}, ContextAuto},
		{"force", []string{"off", ""}, ContextForce},
	} {
		a := Asked{ContextMode: tt.voyage}
		for _, m := range tt.missions {
			a.Missions = append(a.Missions, AskedMission{ContextMode: m})
		}
		if got := a.Context(); got != tt.want {
			t.Errorf("%q %q: got %q, want %q", tt.voyage, tt.missions, got, tt.want)
		}
	}
}
