package board_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"berth/broker/native/nativetest"
)

var updateTalk = flag.Bool("update-talk", false, "rewrite the golden answers of what speaks to captains and voyages")

func TestAnswersToWhoSpeaksAreAsTheyWere(t *testing.T) {
	c := newCrew(t)
	have := &txtar.Archive{Comment: []byte("What send_signal and nudge_voyage answer. Rewritten by -update-talk; read the difference.\n")}
	for _, call := range []struct{ verb, arguments string }{
		{"send_signal", `{"captainId":"cpt_1","message":"Mind the <tests>."}`},
		{"send_signal", `{"captainId":"cpt_9","message":"x"}`},
		{"send_signal", `{"captainId":"cpt_1"}`},
		{"nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge","message":"Smaller steps.","createdBy":"ops"}`},
		{"nudge_voyage", `{"missionId":"msn_2","type":"Mail","message":"Smaller steps."}`},
		{"nudge_voyage", `{"voyageId":"vyg_1","missionId":"msn_2","type":"Nudge","message":"x"}`},
		{"nudge_voyage", `{"voyageId":"vyg_1","type":"Wake","message":"x"}`},
		{"nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge"}`},
		{"nudge_voyage", `{"voyageId":"vyg_9","type":"Nudge","message":"x"}`},
		{"nudge_voyage", `{"missionId":"msn_9","type":"Nudge","message":"x"}`},
	} {
		var answer bytes.Buffer
		if err := json.Indent(&answer, []byte(nativetest.Call(t, c.verbs, admin, call.verb, call.arguments)), "", " "); err != nil {
			t.Fatal(err)
		}
		have.Files = append(have.Files, txtar.File{Name: call.verb + " " + call.arguments, Data: append(answer.Bytes(), '\n')})
	}
	file := filepath.Join("testdata", "talk.txtar")
	if *updateTalk {
		if err := os.WriteFile(file, txtar.Format(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := txtar.Format(have); !bytes.Equal(got, want) {
		t.Errorf("the answers are not those of %s; read the difference and run with -update-talk:\n%s", file, got)
	}
}
