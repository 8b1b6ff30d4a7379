package upkeep_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/nativetest"
	"berth/broker/native/upkeep"
)

var update = flag.Bool("update", false, "write the answers into the transcript")

// keeper does what its caller's name says.
type keeper struct{ stopped int }

func (k *keeper) does(who broker.Principal, done any) (any, error) {
	switch who.User {
	case "refused":
		return nil, broker.Refuse(broker.CodeRestoreBlocked, "A job is unfinished; nothing was changed.", map[string]any{"JobIds": []string{"job_1"}})
	case "failing":
		return nil, errors.New("the disk is gone: /srv/secret")
	}
	return done, nil
}

func (k *keeper) BackUp(_ context.Context, who broker.Principal, path string) (any, error) {
	return k.does(who, map[string]string{"Status": "created", "Path": path})
}

func (k *keeper) Restore(_ context.Context, who broker.Principal, path string) (any, error) {
	return k.does(who, map[string]string{"Status": "restored", "From": path})
}

func (k *keeper) Stop(broker.Principal) { k.stopped++ }

// work is a job that is unfinished and a mission that goes on.
type work struct{ fail error }

func (w *work) UnfinishedJobs() ([]json.RawMessage, error) {
	return []json.RawMessage{[]byte(`{"JobId":"job_1","Status":"Running"}`)}, w.fail
}

func (w *work) WorkingMissions() ([]string, error) { return []string{"msn_1"}, w.fail }

func TestTranscript(t *testing.T) {
	const file = "testdata/calls.txtar"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k, w := &keeper{}, &work{}
	family := upkeep.NewFamily(k, w, native.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	played := nativetest.Transcript(t, kept, *update, func(verb, who, arguments string) string {
		principal := broker.LocalOperator
		if w.fail = nil; who == "unreadable" {
			w.fail = errors.New("the disk is gone")
		} else if who != "" {
			principal.User = who
		}
		return nativetest.Call(t, family, principal, verb, arguments)
	})
	if k.stopped != 2 {
		t.Errorf("the broker was asked to stop %d times; a journal that cannot be read keeps nobody from it", k.stopped)
	}
	if *update {
		if err := os.WriteFile(file, played, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
