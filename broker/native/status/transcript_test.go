package status_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native/hold"
	"berth/broker/native/nativetest"
	"berth/broker/native/status"
)

var update = flag.Bool("update", false, "write the answers into the transcript")

func TestTranscript(t *testing.T) {
	const file = "testdata/calls.txtar"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{
		jobs: []broker.Job{job(4, broker.JobAccepted, at), job(3, broker.JobRunning, at), job(2, broker.JobSucceeded, at.Add(47*time.Hour)), job(1, broker.JobLost, at.Add(47*time.Hour))},
		events: []broker.Event{
			{ID: "evt_2", EventType: "backup.created", Message: "made", Payload: json.RawMessage(`{"a":1}`), CreatedAt: at},
			{ID: "evt_1", EventType: "job.lost", EntityType: "job", EntityID: "job_1", CreatedAt: at.Add(-time.Hour)}}}
	f := family(s, func(o *status.Options) {
		o.Hold = func() *hold.View {
			return &hold.View{Reason: "upgrade", SetBy: "ops-1", SetByUTC: "2026-05-04T09:12:00Z"}
		}
		o.Signals = func() (any, error) { return []string{}, nil }
	})
	played := nativetest.Transcript(t, kept, *update, func(verb, _, arguments string) string { return call(t, f, verb, arguments) })
	if *update {
		if err := os.WriteFile(file, played, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
