package hold_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/nativetest"
)

var update = flag.Bool("update", false, "write the answers into the transcript")

func TestTranscript(t *testing.T) {
	const file = "testdata/calls.txtar"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t)
	job := broker.Job{ID: "job_1", Operation: "st__work", Status: broker.JobAccepted, SubmittedAt: at, Tenant: "default", User: "ann", Backend: "st"}
	if _, _, err := w.journal.CreateJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	family := w.hold.NewFamily(native.Options{Now: func() time.Time { return at }})
	played := nativetest.Transcript(t, kept, *update, func(verb, _, arguments string) string {
		return nativetest.Call(t, family, who, verb, arguments)
	})
	if *update {
		if err := os.WriteFile(file, played, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
