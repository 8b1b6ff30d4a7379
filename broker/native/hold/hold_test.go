package hold_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/hold"
	"berth/journal"
)

var at = time.Date(2026, 5, 4, 9, 12, 0, 0, time.UTC)

// world is a hold on a real journal.
type world struct {
	*testing.T
	hold.Store
	journal *journal.Journal
	hold    *hold.Hold
	board   *board
	before  func() // of each write
	fails   error  // of each write, after it took effect
}

func (w *world) Put(ctx context.Context, c broker.RecordChange) (broker.Record, error) {
	if w.before != nil {
		w.before()
	}
	r, err := w.Store.Put(ctx, c)
	return r, errors.Join(err, w.fails)
}

// board keeps what it is told.
type board struct {
	mu    sync.Mutex
	lines []string
	err   error
}

func (b *board) PostSystem(_ context.Context, content string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, "note "+content)
	return b.err
}

func (b *board) StoreWake(_ context.Context, payload string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, "wake "+payload)
	return b.err
}

func start(t *testing.T) *world {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if problems, err := j.Check(context.Background()); err != nil && !errors.Is(err, journal.ErrClosed) || len(problems) > 0 {
			t.Errorf("the journal: %v %v", problems, err)
		}
		_ = j.Close()
	})
	w := &world{T: t, Store: j, journal: j, board: &board{}}
	w.hold = w.open()
	return w
}

// open is a hold as a new process has it.
func (w *world) open() *hold.Hold {
	w.Helper()
	h := hold.New(w, w.board, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	if err := h.Load(); err != nil {
		w.Fatal(err)
	}
	return h
}

var who = broker.Principal{Tenant: "default", User: "ann", Role: broker.GlobalAdministrator}

// ask calls the verb and gives the text of its result.
func ask(t *testing.T, h *hold.Hold, arguments string) string {
	t.Helper()
	conn, err := h.NewFamily(native.Options{Now: func() time.Time { return at }}).Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := conn.Call(t.Context(), &broker.Call{ID: "c1", Verb: hold.Verb, Principal: who,
		Params: json.RawMessage(`{"name":"dispatch_hold","arguments":` + arguments + `}`)}, broker.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ StructuredContent json.RawMessage }
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		t.Fatal(err)
	}
	return string(result.StructuredContent)
}

func (w *world) events() (out []string) {
	w.Helper()
	events, err := w.journal.Events("", 100)
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range events {
		out = append(out, e.EventType+" "+string(e.Payload))
	}
	return out
}

const engageOps = `{"action":"engage","reason":"node upgrade","setBy":"ops-1"}`

func TestAHoldIsSetReplacedAndCleared(t *testing.T) {
	w := start(t)
	none := `{"Active":false,"Hold":null,"UnfinishedJobs":[]}`
	active := `{"Active":true,"Hold":{"Reason":"node upgrade","SetBy":"ops-1","SetByUtc":"2026-05-04T09:12:00Z"},"UnfinishedJobs":[]}`
	for _, step := range []struct{ ask, want string }{
		{`{}`, none},
		{`{"action":"status"}`, none},
		{`{"action":"engage","setBy":"ops-1"}`, `"Code":"missing_reason"`},
		{`{"action":"engage","reason":"   ","setBy":"ops-1"}`, `"Code":"missing_reason"`},
		{`{"action":"engage","reason":"x"}`, `"Code":"missing_set_by"`},
		{`{"action":"stop"}`, `"Code":"invalid_action","Actions":["status","engage","clear"]`},
		{`{"action":"clear"}`, `{"Active":false,"Cleared":true,"WasActive":false,"ClearedBy":"default/ann","ClearedUtc":"2026-05-04T09:12:00Z"}`},
		{`{"action":"engage","reason":"first","setBy":"ops-0"}`, `"SetBy":"ops-0"`},
		{engageOps, active},
		{`{}`, active},
		{`{"action":"clear","setBy":"ops-2"}`, `{"Active":false,"Cleared":true,"WasActive":true,"ClearedBy":"ops-2","ClearedUtc":"2026-05-04T09:12:00Z"}`},
		{`{}`, none},
	} {
		if got := ask(t, w.hold, step.ask); !strings.Contains(got, step.want) {
			t.Errorf("%s gave %s, want %s", step.ask, got, step.want)
		}
	}
	first, second := `{"Reason":"first","SetBy":"ops-0","SetByUtc":"2026-05-04T09:12:00Z"}`, `{"Reason":"node upgrade","SetBy":"ops-1","SetByUtc":"2026-05-04T09:12:00Z"}`
	want := []string{
		`dispatch_hold.engaged {"Principal":"default/ann","SetBy":"ops-0","Reason":"first"}`,
		`dispatch_hold.engaged {"Principal":"default/ann","SetBy":"ops-1","Reason":"node upgrade","Replaced":` + first + `}`,
		`dispatch_hold.cleared {"Principal":"default/ann","SetBy":"ops-2","Ended":` + second + `}`,
	}
	if got := w.events(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := len(w.board.lines); got != 6 || !strings.HasPrefix(w.board.lines[0], "note [hold] ") || !strings.HasPrefix(w.board.lines[5], "wake [hold] ") {
		t.Errorf("the board has %q", w.board.lines)
	}
}

func TestAHoldRefusesWithOneBodyAlsoAfterARestart(t *testing.T) {
	w := start(t)
	if r := w.hold.Refuse("dispatch"); r != nil {
		t.Fatal(r)
	}
	ask(t, w.hold, engageOps)
	want := `{"Error":"Dispatch is on hold since 2026-05-04T09:12:00Z (set by ops-1): node upgrade.","Code":"dispatch_hold_active",` +
		`"Action":"Nothing was accepted or created. Dispatch again when the hold is cleared; ask its holder on the board.",` +
		`"Reason":"node upgrade","SetBy":"ops-1","SetByUtc":"2026-05-04T09:12:00Z"}`
	for name, h := range map[string]*hold.Hold{"at once": w.hold, "in a new process": w.open()} {
		if got := string(h.Refuse("dispatch").NativeJSON()); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestUnfinishedJobsAreOldestFirst(t *testing.T) {
	w := start(t)
	for i, id := range []string{"job_b", "job_a"} {
		j := broker.Job{ID: id, Operation: "voyage_dispatch", Status: broker.JobAccepted, SubmittedAt: at.Add(time.Duration(i) * time.Second), Tenant: "t", User: "u", VesselID: "vsl_1"}
		if _, _, err := w.journal.CreateJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	want := `"UnfinishedJobs":[{"JobId":"job_b","Operation":"voyage_dispatch","Status":"Accepted","SubmittedAtUtc":"2026-05-04T09:12:00Z","StartedAtUtc":null,"ObjectiveId":null,"VesselId":"vsl_1"},{"JobId":"job_a",`
	if got := ask(t, w.hold, `{}`); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestMissionsThatAgentsWorkOnAreUnfinishedToo(t *testing.T) {
	w := start(t)
	broken := error(nil)
	w.hold.Missions(func() ([]string, error) { return []string{"msn_1"}, broken })
	if got := ask(t, w.hold, `{}`); !strings.Contains(got, `"UnfinishedJobs":[],"WorkingMissions":["msn_1"]`) {
		t.Errorf("got %s", got)
	}
	broken = errors.New("the disk")
	if got := ask(t, w.hold, `{}`); strings.Contains(got, "UnfinishedJobs") || strings.Contains(got, "the disk") {
		t.Errorf("missions that could not be read: got %s", got)
	}
}

func TestABoardThatFailsUndoesNoHold(t *testing.T) {
	w := start(t)
	w.board.err = errors.New("the board is away")
	if got := ask(t, w.hold, engageOps); !strings.Contains(got, `"Active":true`) || w.hold.Refuse("x") == nil {
		t.Errorf("got %s", got)
	}
}

func TestAHoldIsWhatTheJournalSays(t *testing.T) {
	t.Run("a write that fails without effect", func(t *testing.T) {
		w := start(t)
		_ = w.journal.Close()
		if got := ask(t, w.hold, engageOps); !strings.Contains(got, `"Code":"job_journal_unavailable"`) || w.hold.Refuse("x") != nil {
			t.Errorf("got %s", got)
		}
	})
	t.Run("a write that took effect and was not confirmed", func(t *testing.T) {
		w := start(t)
		w.fails = journal.ErrInDoubt
		if got := ask(t, w.hold, engageOps); !strings.Contains(got, `"Code":"job_journal_unavailable"`) || w.hold.Refuse("x") == nil {
			t.Errorf("got %s, held %v", got, w.hold.Refuse("x"))
		}
	})
	t.Run("a change between look and write", func(t *testing.T) {
		w := start(t)
		other := w.open()
		w.before = func() {
			w.before = nil
			ask(t, other, `{"action":"engage","reason":"theirs","setBy":"ops-9"}`)
		}
		ask(t, w.hold, engageOps)
		if got := w.events(); len(got) != 2 || !strings.Contains(got[1], `"Replaced":{"Reason":"theirs"`) {
			t.Errorf("events %q", got)
		}
	})
	t.Run("another journal", func(t *testing.T) {
		w, other := start(t), start(t)
		ask(t, other.hold, engageOps)
		apply, err := w.hold.Renew(other.journal)
		if err != nil || w.hold.Refuse("x") != nil {
			t.Fatalf("held before it counts: %v", err)
		}
		apply()
		if w.hold.Refuse("x") == nil {
			t.Error("not held")
		}
	})
}

func TestManyChangesAtOnceEndInWhatIsStored(t *testing.T) {
	w := start(t)
	var all sync.WaitGroup
	for range 4 {
		for _, action := range []string{engageOps, `{"action":"clear"}`} {
			all.Go(func() { ask(t, w.hold, action) })
		}
	}
	all.Wait()
	if now, stored := w.hold.Present(), w.open().Present(); (now == nil) != (stored == nil) {
		t.Errorf("now %v, stored %v", now, stored)
	}
}
