package drain_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/drain"
	"berth/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	at  = time.Date(2026, 5, 4, 9, 12, 0, 0, time.UTC)
	who = broker.Principal{Tenant: "default", User: "ann", Role: broker.GlobalAdministrator}
)

// backends writes down what it is told.
type backends struct {
	told   []string
	left   int
	renew  *broker.Refusal
	during func() // while it is renewed
}

func (b *backends) Drainable(name string) bool { return name == "files" }

func (b *backends) SetDraining(_ context.Context, name string, n *drain.Notice) *broker.Refusal {
	said := "resume"
	if n != nil {
		said = "drain " + n.Reason
	}
	b.told = append(b.told, said)
	return nil
}

func (b *backends) AwaitIdle(context.Context, string) int { return b.left }

func (b *backends) Renew(context.Context, string) (int, *broker.Refusal) {
	b.told = append(b.told, "renew")
	if b.during != nil {
		b.during()
	}
	return 2, b.renew
}

func start(t *testing.T) (*drain.Desk, *backends, *journal.Journal) {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	b := &backends{}
	return drain.NewDesk(j, func() drain.Backends { return b }, func() time.Time { return at }), b, j
}

func events(t *testing.T, j *journal.Journal) string {
	t.Helper()
	all, err := j.Events("", 100)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.EventType+" "+e.EntityID+" "+string(e.Payload))
	}
	return strings.Join(out, "\n")
}

func TestADrainIsKeptWithItsEventUntilItIsResumed(t *testing.T) {
	d, b, j := start(t)
	b.left = 1
	done, err := d.Drain(t.Context(), who, "files", "new version")
	if err != nil || done.Status != "draining" || done.Left != 1 || done.Draining.By != "default/ann" || done.UnfinishedJobs == nil {
		t.Fatalf("%+v %v", done, err)
	}
	kept, err := drain.Read(j)
	if err != nil || len(kept) != 1 || kept["files"].Reason != "new version" || !kept["files"].Since.Equal(at) {
		t.Errorf("kept %+v, %v", kept, err)
	}
	b.left = 0
	if done, err = d.Idle(t.Context(), done); err != nil || done.Status != "drained" {
		t.Errorf("%+v %v", done, err)
	}
	for range 2 { // the second changes nothing
		if done, err := d.Resume(t.Context(), who, "files", ""); err != nil || done.Status != "resumed" || done.Draining != nil {
			t.Errorf("%+v %v", done, err)
		}
	}
	if kept, err := drain.Read(j); err != nil || len(kept) != 0 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	want := `backend.drained files {"Principal":"default/ann","Reason":"new version"}` + "\n" + `backend.resumed files {"Principal":"default/ann"}`
	if got := events(t, j); got != want {
		t.Errorf("events\n%s", got)
	}
}

func TestWhatIsNotDurableReachesNoBackend(t *testing.T) {
	d, b, j := start(t)
	_ = j.Close()
	if _, err := d.Drain(t.Context(), who, "files", ""); err == nil || len(b.told) > 0 {
		t.Errorf("%v, told %q", err, b.told)
	}
}

func TestARestartLeavesABackendAsItsRecordSays(t *testing.T) {
	for name, tt := range map[string]struct {
		drained bool
		renew   *broker.Refusal
		during  func(*drain.Desk)
		want    string
	}{
		"one that took calls":           {want: "drain restart, renew, resume"},
		"one that was drained":          {drained: true, want: "drain kept, drain kept, renew, drain kept"},
		"one that could not be":         {renew: broker.Refuse(broker.CodeShuttingDown, "No.", nil), want: "drain restart, renew, resume"},
		"one that is drained meanwhile": {during: func(d *drain.Desk) { _, _ = d.Drain(context.Background(), who, "files", "kept") }, want: "drain restart, renew, drain kept, drain kept"},
	} {
		t.Run(name, func(t *testing.T) {
			d, b, j := start(t)
			if tt.drained {
				if _, err := d.Drain(t.Context(), who, "files", "kept"); err != nil {
					t.Fatal(err)
				}
			}
			b.renew = tt.renew
			if tt.during != nil {
				b.during = func() { tt.during(d) }
			}
			done, err := d.Restart(t.Context(), t.Context(), who, "files", "")
			if got := strings.Join(b.told, ", "); got != tt.want {
				t.Errorf("told %s", got)
			}
			if (err == nil) != (tt.renew == nil) || err == nil && (*done.Ended != 2 || done.Status != "restarted") {
				t.Errorf("%+v %v", done, err)
			}
			if written := strings.Contains(events(t, j), `backend.restarted files {"Principal":"default/ann","Ended":2}`); written != (tt.renew == nil) {
				t.Errorf("events\n%s", events(t, j))
			}
		})
	}
}

func TestOnlyWhatCanBeDrainedIs(t *testing.T) {
	d, b, _ := start(t)
	for _, change := range []func(name, reason string) error{
		func(name, reason string) error { _, err := d.Drain(t.Context(), who, name, reason); return err },
		func(name, reason string) error { _, err := d.Resume(t.Context(), who, name, reason); return err },
		func(name, reason string) error {
			_, err := d.Restart(t.Context(), t.Context(), who, name, reason)
			return err
		},
	} {
		if err := change("berth", ""); broker.AsRefusal(err).Code != broker.CodeNotFound {
			t.Errorf("got %v", err)
		}
		if err := change("files", strings.Repeat("ä", 501)); broker.AsRefusal(err).Code != broker.CodeInvalidArguments {
			t.Errorf("got %v", err)
		}
	}
	if len(b.told) > 0 {
		t.Errorf("told %q", b.told)
	}
}
