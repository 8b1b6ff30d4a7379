package board_test

import (
	"flag"
	"os"
	"testing"

	"berth/broker/native/nativetest"
)

var update = flag.Bool("update", false, "write the answers into the transcript")

func TestTranscript(t *testing.T) {
	const file = "testdata/calls.txtar"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := newDesk(t)
	played := nativetest.Transcript(t, kept, *update, func(verb, who, arguments string) string { return d.call(who, verb, arguments) })
	if *update {
		if err := os.WriteFile(file, played, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
