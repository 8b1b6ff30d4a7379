package events_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/nativetest"
)

var update = flag.Bool("update", false, "write the answers into the transcript")

func TestTranscript(t *testing.T) {
	const file = "testdata/calls.txtar"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now, log := clock(), slog.New(slog.DiscardHandler)
	family := events.NewFamily(events.New(&store{ids: []string{"a", "b", "c"}}, now, log), native.Options{Now: now, Log: log})
	played := nativetest.Transcript(t, kept, *update, func(verb, who, arguments string) string {
		principal := broker.LocalOperator
		if who != "" {
			principal = broker.Principal{Tenant: "acme", User: who, Role: broker.User}
		}
		return nativetest.Call(t, family, principal, verb, arguments)
	})
	if *update {
		if err := os.WriteFile(file, played, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
