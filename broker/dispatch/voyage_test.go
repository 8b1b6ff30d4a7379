package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

// fleet reads "a:Failed b<a:Pending": missions in the order of their age.
func fleet(text string) (out []Mission) {
	for i, word := range strings.Fields(text) {
		head, status, _ := strings.Cut(word, ":")
		id, on, depends := strings.Cut(head, "<")
		m := Mission{ID: id, Status: MissionStatus(status), CreatedUTC: at.Add(time.Duration(i) * time.Second)}
		if depends {
			m.DependsOn = &on
		}
		out = append(out, m)
	}
	return out
}

func changes(list []Change) string {
	var out []string
	for _, c := range list {
		word := c.Mission.ID + ":" + string(c.Mission.Status)
		if c.Mission.FailureReason != nil {
			word += "(" + string(*c.Mission.FailureReason) + ")"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestWhatFollowsFromAMissionsEnd(t *testing.T) {
	for _, tt := range []struct{ name, missions, want string }{
		{"nothing while it runs", "a:InProgress b<a:Pending", ""},
		{"its dependants are cancelled, and theirs", "a:Failed b<a:Pending c<b:Pending d:Pending", "b:Cancelled(dependency_failed) c:Cancelled(dependency_failed)"},
		{"also when it was called off", "a:Cancelled b<a:Pending", "b:Cancelled(dependency_failed)"},
		{"also when they are older", "b<a:Pending a:Failed", "b:Cancelled(dependency_failed)"},
		{"a chain is complete with its last stage", "a:WorkProduced b<a:WorkProduced c<b:Complete", "a:Complete b:Complete"},
		{"it waits for the last stage", "a:WorkProduced b<a:InProgress", ""},
		{"it is called off with it", "a:WorkProduced b<a:Failed", "a:Cancelled(chain_not_landed)"},
		{"one of two ends is not enough", "a:WorkProduced b<a:Complete c<a:InProgress", ""},
		{"one of two ends that failed", "a:WorkProduced b<a:Complete c<a:Failed", "a:Cancelled(chain_not_landed)"},
		{"the last stage is nobody's to settle", "a:WorkProduced", ""},
		{"a landing that failed can be tried again", "a:WorkProduced b<a:LandingFailed", ""},
		{"a dependency elsewhere decides nothing here", "b<x:Pending", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := changes(Follow(fleet(tt.missions), at)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAVoyageEndsWhenNoMissionIsOpen(t *testing.T) {
	for missions, want := range map[string]VoyageStatus{
		"a:Complete b:Pending": "", "a:Complete b:Review": "", "a:WorkProduced": "",
		"a:Complete": VoyageComplete, "a:Complete b:Cancelled": VoyageComplete, "a:Complete b:Failed": VoyageFailed,
		"a:LandingFailed b:Complete": VoyageFailed, "a:Cancelled b:Cancelled": VoyageCancelled, "": VoyageComplete,
	} {
		if got, ended := Outcome(fleet(missions)); got != want || ended != (want != "") {
			t.Errorf("%q: %q, %v", missions, got, ended)
		}
	}
}

func TestMissionsAreAssignedInOrder(t *testing.T) {
	list := fleet("a:Pending b:Pending c<a:Pending d<e:Pending e:WorkProduced f<x:Pending g:Pending")
	list[1].Priority, list[6].Priority = 50, 10
	list[0].Priority, list[3].Priority = 100, 100
	ready, waiting := Ready(list)
	var ids []string
	for _, m := range ready {
		ids = append(ids, m.ID)
	}
	if got := strings.Join(ids, " "); got != "g b a d" {
		t.Errorf("ready are %s", got)
	}
	if want := map[string]Assignment{"c": WaitingForMission, "f": WaitingForMission}; !maps.Equal(waiting, want) {
		t.Errorf("waiting are %v", waiting)
	}
}

// TestRandomVoyagesSettle drives random voyages with legal steps: what follows is
// legal, follows once, and a voyage always comes to an end.
func TestRandomVoyagesSettle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(rt, "missions")
		list := make([]Mission, n)
		for i := range list {
			list[i] = Mission{ID: fmt.Sprint("m", i), Status: MissionPending, CreatedUTC: at.Add(time.Duration(i))}
			if on := rapid.IntRange(-2, i-1).Draw(rt, "depends on"); on >= 0 {
				list[i].DependsOn = &list[on].ID
			}
		}
		for range 400 {
			for _, c := range Follow(list, at) {
				i := slices.IndexFunc(list, func(m Mission) bool { return m.ID == c.Mission.ID })
				if c.From != list[i].Status || c.From.Final() {
					rt.Fatalf("%+v follows for %+v", c, list[i])
				}
				list[i] = c.Mission
			}
			if more := Follow(list, at); len(more) > 0 {
				rt.Fatalf("more follows: %s", changes(more))
			}
			if _, ended := Outcome(list); ended {
				return
			}
			ready, _ := Ready(list)
			var can []int
			for i, m := range list {
				if m.Status != MissionPending && !m.Status.Final() || slices.ContainsFunc(ready, func(r Mission) bool { return r.ID == m.ID }) {
					can = append(can, i)
				}
			}
			if len(can) == 0 {
				rt.Fatalf("a voyage is stuck: %+v", list)
			}
			i := rapid.SampledFrom(can).Draw(rt, "mission")
			to := rapid.SampledFrom(missions[list[i].Status]).Draw(rt, "to")
			next, err := list[i].Step(to, "", "", at)
			if err != nil {
				rt.Fatal(err)
			}
			list[i] = next
		}
		rt.Fatalf("a voyage went on for ever: %+v", list)
	})
}

func TestTheCaptainThatFitsIsPicked(t *testing.T) {
	model := func(s string) *string { return &s }
	mine := func(name string, change func(*Captain)) Captain {
		c := Captain{Name: name, Owner: Owner{TenantID: "acme"}, Runtime: ClaudeCode, State: CaptainIdle, Tier: Standard}
		change(&c)
		return c
	}
	all := []Captain{
		mine("busy", func(c *Captain) { c.State, c.PreferenceRank = CaptainWorking, 99 }),
		mine("benched", func(c *Captain) { c.State, c.PreferenceRank = CaptainBenched, 99 }),
		mine("foreign", func(c *Captain) { c.TenantID, c.PreferenceRank = "other", 99 }),
		mine("mux", func(c *Captain) { c.Runtime, c.PreferenceRank = "Mux", 99 }),
		mine("judge", func(c *Captain) { c.AllowedPersonas, c.PreferenceRank = []string{"Judge"}, 99 }),
		mine("plain", func(*Captain) {}), mine("another", func(*Captain) {}),
		mine("ranked", func(c *Captain) { c.PreferenceRank, c.AllowedPersonas = 5, []string{"Worker", "Judge"} }),
		mine("premium", func(c *Captain) { c.Tier = Premium }), mine("opus", func(c *Captain) { c.Model = model("opus") }),
	}
	for _, tt := range []struct {
		prefers *string
		want    string
	}{{nil, "ranked"}, {model("high"), "premium"}, {model("opus"), "opus"}, {model("mid"), "ranked"}, {model("unheard-of"), "ranked"}} {
		m := Mission{Owner: Owner{TenantID: "acme"}, Persona: "Worker", PreferredModel: tt.prefers}
		for range 2 {
			slices.Reverse(all)
			if got, ok := Pick(m, all); !ok || got.Name != tt.want {
				t.Errorf("%v: got %s", tt, got.Name)
			}
		}
	}
	if got, ok := Pick(Mission{Owner: Owner{TenantID: "nobody"}}, all); ok {
		t.Errorf("another tenant got %s", got.Name)
	}
}

func TestHintAndPersonaDecideAmongCaptainsThatFit(t *testing.T) {
	text := func(s string) *string { return &s }
	captain := func(name string, tier Tier, model, persona *string, rank int) Captain {
		return Captain{Name: name, Runtime: ClaudeCode, State: CaptainIdle, Tier: tier, Model: model, PreferredPersona: persona, PreferenceRank: rank}
	}
	all := []Captain{captain("cheap", Economy, nil, nil, 0), captain("plain", Standard, nil, nil, 9), captain("dear", Premium, text("opus"), nil, 0),
		captain("worker", Standard, nil, text("Worker"), 0), captain("judge", Standard, nil, text("Judge"), 99)}
	for _, tt := range []struct {
		name, persona string
		hint, model   *string
		want          string
	}{
		{"no wish: who prefers the persona", "Worker", nil, nil, "worker"},
		{"another persona", "Judge", nil, nil, "judge"},
		{"nobody prefers it: the rank, but not who prefers another", "Tester", nil, nil, "plain"},
		{"mechanical", "Worker", text("mechanical"), nil, "cheap"},
		{"doc-only", "Worker", text("doc-only"), nil, "cheap"},
		{"audit", "Worker", text("audit"), nil, "dear"},
		{"reasoning-heavy", "Worker", text("reasoning-heavy"), nil, "dear"},
		{"the model goes before the hint", "Worker", text("mechanical"), text("opus"), "dear"},
		{"a hint that is none", "Worker", text("unheard-of"), nil, "worker"},
	} {
		for range 2 {
			slices.Reverse(all)
			if got, _ := Pick(Mission{Persona: tt.persona, CapabilityHint: tt.hint, PreferredModel: tt.model}, all); got.Name != tt.want {
				t.Errorf("%s: got %s", tt.name, got.Name)
			}
		}
	}
}

func TestRecordsAreReadWithinTheirTenant(t *testing.T) {
	o := Owner{"acme", "ana"}
	for _, tt := range []struct {
		p    broker.Principal
		want bool
	}{{broker.LocalOperator, true}, {broker.Principal{Tenant: "acme", User: "bob", Role: broker.User}, true}, {broker.Principal{Tenant: "x", User: "ana", Role: broker.TenantAdministrator}, false}} {
		if o.Readable(tt.p) != tt.want {
			t.Errorf("%+v: %v", tt.p, !tt.want)
		}
	}
	if OwnedBy(broker.Principal{Tenant: "acme", User: "ana"}) != o {
		t.Error("a principal does not own what it creates")
	}
}

func TestATierIsReadFromAModelsName(t *testing.T) {
	for model, want := range map[string]Tier{"claude-opus-4-5": Premium, "claude-haiku-4-5": Economy, "gpt-5-mini": Economy, "gpt-5": Standard,
		"gemini-3-pro": Premium, "Gemini-3-Flash": Economy, "claude-sonnet-4-5": Standard, "": Standard} {
		if got := TierOf(&model); got != want {
			t.Errorf("%s: %s", model, got)
		}
	}
	if TierOf(nil) != Standard {
		t.Error("no model has a tier of its own")
	}
}
