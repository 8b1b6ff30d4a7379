package dispatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/dispatch"
)

// TestAnAliasGraphIsCarriedOverOrRefused: of any missions that name each other,
// either a simple model finds the fault that is refused, or the missions that
// come of it depend on each other as it was written.
func TestAnAliasGraphIsCarriedOverOrRefused(t *testing.T) {
	r := newRig(t)
	settle(r)
	rapid.Check(t, func(t *rapid.T) {
		type mission struct {
			Title       string `json:"title"`
			Description string `json:"description"`
			Alias       string `json:"alias,omitempty"`
			DependsOn   string `json:"dependsOnMissionAlias,omitempty"`
		}
		n := rapid.IntRange(1, 8).Draw(t, "missions")
		aliases := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f"})
		missions := make([]mission, n)
		for i := range missions {
			missions[i] = mission{fmt.Sprintf("m%d", i), "d", aliases.Draw(t, "alias"), aliases.Draw(t, "dependsOn")}
		}
		at := func(alias string) int {
			return slices.IndexFunc(missions, func(m mission) bool { return alias != "" && m.Alias == alias })
		}
		want := broker.Code("")
		for i := n - 1; i >= 0; i-- {
			hops := 0
			for at2 := i; missions[at2].DependsOn != "" && at(missions[at2].DependsOn) >= 0 && hops <= n; hops++ {
				at2 = at(missions[at2].DependsOn)
			}
			if hops > n {
				want = broker.CodeMissionAliasCycle
			}
		}
		if slices.ContainsFunc(missions, func(m mission) bool { return m.DependsOn != "" && at(m.DependsOn) < 0 }) {
			want = broker.CodeMissionAliasUnknown
		}
		for i, m := range missions {
			if m.Alias != "" && at(m.Alias) != i {
				want = broker.CodeMissionAliasDuplicate
			}
		}
		raw, err := json.Marshal(map[string]any{"title": "t", "vesselId": "vsl_one", "codeContextMode": "off", "missions": missions})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Code             broker.Code
			ID               string `json:"Id"`
			MissionStartRefs []startRef
		}
		if err := json.Unmarshal([]byte(r.text(r.t.Context(), "dispatch", string(raw))), &got); err != nil {
			t.Fatal(err)
		}
		if got.Code != want {
			t.Fatalf("%s: got %q, want %q", raw, got.Code, want)
		}
		if want != "" {
			return
		}
		made, err := dispatch.ReadAll[dispatch.Mission](r.store.Journal, dispatch.OfVoyage(got.ID))
		if err != nil || len(made) != n || len(got.MissionStartRefs) != n {
			t.Fatalf("%d missions of %d (%v)", len(made), n, err)
		}
		for i, m := range made {
			dependsOn := ""
			if j := at(missions[i].DependsOn); j >= 0 {
				dependsOn = made[j].Value.ID
			}
			if m.Value.Title != missions[i].Title || deref(m.Value.DependsOn) != dependsOn || deref(m.Value.Alias) != missions[i].Alias || got.MissionStartRefs[i].MissionID != m.Value.ID {
				t.Fatalf("mission %d of %s became %+v", i, raw, m.Value)
			}
		}
	})
}

// TestDeletionOfManyDoesEachByItself: any list of ids, of records that may go,
// that may not, that never were, or that stand twice in it.
func TestDeletionOfManyDoesEachByItself(t *testing.T) {
	r := newRig(t)
	settle(r)
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"free", "live", "none"}
		n := rapid.IntRange(1, 8).Draw(t, "ids")
		ids, want := []string{}, broker.DeletedMany{Skipped: []broker.Skipped{}}
		gone := map[string]bool{}
		for i := range n {
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			id := fmt.Sprintf("msn_%s_%d", kind, rapid.IntRange(0, 3).Draw(t, "which"))
			_ = i
			ids = append(ids, id)
			switch {
			case kind == "free" && !gone[id]:
				keep(r, dispatch.Mission{ID: id, Owner: dispatch.OwnedBy(broker.LocalOperator), VesselID: "vsl_one", Status: dispatch.MissionFailed})
				gone[id] = true
				want.Deleted++
			case kind == "live":
				keep(r, dispatch.Mission{ID: id, Owner: dispatch.OwnedBy(broker.LocalOperator), VesselID: "vsl_one", Status: dispatch.MissionInProgress})
				want.Skipped = append(want.Skipped, broker.Skipped{ID: id, Reason: broker.CodeMissionActive})
			default:
				want.Skipped = append(want.Skipped, broker.Skipped{ID: id, Reason: broker.CodeMissionNotFound})
			}
		}
		switch {
		case want.Deleted == 0:
			want.Status = "NoneDeleted"
		case len(want.Skipped) > 0:
			want.Status = "PartiallyDeleted"
		default:
			want.Status = "Deleted"
		}
		raw, err := json.Marshal(map[string]any{"ids": ids})
		if err != nil {
			t.Fatal(err)
		}
		var got broker.DeletedMany
		if err := json.Unmarshal([]byte(r.text(r.t.Context(), "delete_missions", string(raw))), &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != want.Status || got.Deleted != want.Deleted || !slices.Equal(got.Skipped, want.Skipped) {
			t.Fatalf("%s: got %+v, want %+v", raw, got, want)
		}
		for id := range gone {
			if _, err := dispatch.Read[dispatch.Mission](r.store.Journal, id); err == nil {
				t.Fatalf("%s is still there", id)
			}
		}
	})
}
