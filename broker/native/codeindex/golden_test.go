package codeindex_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native/codeindex"
	"berth/broker/native/nativetest"
)

var update = flag.Bool("update", false, "rewrite the golden answers")

// TestAnswersToMissionsAreAsTheyWere holds every shape of the two verbs that
// missions have the index for.
func TestAnswersToMissionsAreAsTheyWere(t *testing.T) {
	d := newDeck(t, codeindex.CaptainSearch{MaxCalls: 2})
	have := &txtar.Archive{Comment: []byte("What the verbs for missions answer. Rewritten by -update; read the difference.\n")}
	ask := func(name, verb, arguments string) {
		var answer bytes.Buffer
		if err := json.Indent(&answer, []byte(nativetest.Call(t, d.family.Verbs, broker.LocalOperator, verb, arguments)), "", " "); err != nil {
			t.Fatal(err)
		}
		have.Files = append(have.Files, txtar.File{Name: name + ": " + verb + " " + arguments, Data: append(answer.Bytes(), '\n')})
	}
	ask("fresh", "mission_code_search", aSearch)
	d.built = indexed("c0", d.clock)
	ask("stale", "mission_code_search", `{"missionId":"msn_a","query":"aName","includeContent":true}`)
	ask("over its budget", "mission_code_search", aSearch)
	ask("without a query", "mission_code_search", `{"missionId":"msn_a"}`)
	ask("unknown", "mission_code_search", `{"missionId":"msn_x","query":"aName"}`)
	d.mission("msn_b", "vsl_a", dispatch.MissionComplete)
	ask("ended", "mission_code_search", `{"missionId":"msn_b","query":"aName"}`)
	d.mission("msn_b", "vsl_x", dispatch.MissionInProgress)
	ask("without a vessel", "mission_code_search", `{"missionId":"msn_b","query":"aName"}`)
	ask("stale", "context_pack", `{"vesselId":"vsl_a","goal":"Rename aName","tokenBudget":200}`)
	ask("without room", "context_pack", `{"vesselId":"vsl_a","goal":"Rename aName","tokenBudget":1}`)
	d.mission("msn_b", "vsl_a", dispatch.MissionInProgress)
	d.built = nil
	ask("without an index", "mission_code_search", `{"missionId":"msn_b","query":"aName"}`)
	ask("without an index", "context_pack", `{"vesselId":"vsl_a","goal":"Rename aName","tokenBudget":200}`)
	d.broken = errors.New("it is damaged")
	ask("with a broken index", "mission_code_search", `{"missionId":"msn_b","query":"aName"}`)
	ask("without a goal", "context_pack", `{"vesselId":"vsl_a","tokenBudget":200}`)
	file := filepath.Join("testdata", "missions.txtar")
	if *update {
		if err := os.WriteFile(file, txtar.Format(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := txtar.Format(have); !bytes.Equal(got, want) {
		t.Errorf("the answers are not those of %s; read the difference and run with -update:\n%s", file, got)
	}
}
