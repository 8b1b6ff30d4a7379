package journaltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/journal"
)

func note(id, value string, keys ...string) broker.RecordChange {
	return broker.RecordChange{Kind: "note", ID: id, Value: json.RawMessage(value), Keys: keys}
}

func (r *rig) put(c broker.RecordChange) broker.Record {
	r.t.Helper()
	stored, err := r.Put(context.Background(), c)
	if err != nil {
		r.t.Fatalf("put %s %s: %v", c.Kind, c.ID, err)
	}
	return stored
}

func recordIDs(list []broker.Record) string {
	out := make([]string, 0, len(list))
	for _, r := range list {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func (r *rig) wantRecords(q broker.RecordQuery, want string) {
	r.t.Helper()
	list, err := r.Records(q)
	if got := recordIDs(list); err != nil || got != want {
		r.t.Errorf("%+v: got %q, want %q, error %v", q, got, want, err)
	}
	if n, err := r.CountRecords(q); err != nil || n != len(list) {
		r.t.Errorf("%+v: counted %d of %d, error %v", q, n, len(list), err)
	}
}

func testRecords(t *testing.T, e Engine) {
	bg := context.Background()
	t.Run("a record comes back as it was put, also after a restart", func(t *testing.T) {
		r := open(t, e, Faults{})
		const value = `{"b":1.0, "a":"\u00e9","a":2}`
		want := r.put(note("n1", value, "room/x", "all", "all"))
		r.reopen(Faults{})
		got, err := r.Record("note", "n1")
		if err != nil || string(got.Value) != value || got.Revision != 1 || want.Revision != 1 || !slices.Equal(got.Keys, []string{"all", "room/x"}) {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := r.Record("other", "n1"); !errors.Is(err, broker.ErrRecordNotFound) {
			t.Errorf("of another kind: %v", err)
		}
	})
	t.Run("several records are written in one step, or none of them", func(t *testing.T) {
		r := open(t, e, Faults{})
		at := func(id, value string, revision uint64) broker.RecordChange {
			c := note(id, value, "all")
			c.If, c.Events = &revision, []broker.Event{{EventType: "note.written"}}
			return c
		}
		got, err := r.PutAll(bg, at("b", "1", 0), at("a", "2", 0))
		if err != nil || len(got) != 2 || got[0].ID != "b" || got[1].ID != "a" || got[1].Revision != 1 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := r.PutAll(bg, at("c", "3", 0), at("a", "4", 1), at("b", "5", 7)); !errors.Is(err, broker.ErrRecordRevision) {
			t.Errorf("got %v", err)
		}
		if _, err := r.PutAll(bg, at("d", "1", 0), at("d", "2", 0)); err == nil {
			t.Error("one record was changed twice in one step")
		}
		r.wantRecords(broker.RecordQuery{Kind: "note", Key: "all"}, "a b")
		if a, err := r.Record("note", "a"); err != nil || string(a.Value) != "2" {
			t.Errorf("after a step that did not fit it is %+v, %v", a, err)
		}
		if page, err := r.EventsPage(broker.EventQuery{EventType: "note.written", Limit: 10}); err != nil || len(page.Events) != 2 {
			t.Errorf("its events are %+v, %v", page, err)
		}
	})
	t.Run("a change meets the revision that it names, or writes nothing", func(t *testing.T) {
		r := open(t, e, Faults{})
		event := []broker.Event{{EventType: "note.written"}}
		fresh := note("n1", "1", "all")
		fresh.If, fresh.Events = broker.AtRevision(0), event
		r.put(fresh)
		for _, tt := range []struct {
			at   uint64
			want error
		}{{0, broker.ErrRecordRevision}, {2, broker.ErrRecordRevision}, {1, nil}, {1, broker.ErrRecordRevision}} {
			c := note("n1", "2", "other")
			c.If, c.Events = &tt.at, event
			if _, err := r.Put(bg, c); !errors.Is(err, tt.want) {
				t.Errorf("at %d: %v", tt.at, err)
			}
		}
		if events, err := r.Events("", 0); err != nil || len(events) != 2 {
			t.Errorf("events %v, %v", events, err)
		}
		r.wantRecords(broker.RecordQuery{Kind: "note", Key: "all"}, "")
		r.wantRecords(broker.RecordQuery{Kind: "note", Key: "other"}, "n1")
	})
	t.Run("a deleted record is in no list and begins anew", func(t *testing.T) {
		r := open(t, e, Faults{})
		r.put(note("n1", "1", "all"))
		if gone := r.put(broker.RecordChange{Kind: "note", ID: "n1"}); string(gone.Value) != "1" {
			t.Errorf("gave %+v", gone)
		}
		r.wantRecords(broker.RecordQuery{Kind: "note"}, "")
		r.wantRecords(broker.RecordQuery{Kind: "note", Key: "all"}, "")
		if _, err := r.Put(bg, broker.RecordChange{Kind: "note", ID: "n1"}); !errors.Is(err, broker.ErrRecordNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		if again := r.put(note("n1", "2")); again.Revision != 1 {
			t.Errorf("began at %d", again.Revision)
		}
	})
	t.Run("lists are paged both ways and stay apart", func(t *testing.T) {
		r := open(t, e, Faults{})
		for _, id := range []string{"a", "b", "c", "d"} {
			r.put(note(id, "1", "all"))
		}
		r.put(note("b", "1", "all", "al"))
		r.put(broker.RecordChange{Kind: "notes", ID: "z", Value: json.RawMessage("1"), Keys: []string{"all"}})
		for _, tt := range []struct {
			q    broker.RecordQuery
			want string
		}{
			{broker.RecordQuery{Key: "all"}, "a b c d"}, {broker.RecordQuery{Key: "al"}, "b"}, {broker.RecordQuery{}, "a b c d"},
			{broker.RecordQuery{Key: "all", Limit: 2}, "a b"}, {broker.RecordQuery{Key: "all", After: "b", Limit: 2}, "c d"},
			{broker.RecordQuery{Key: "all", Newest: true}, "d c b a"}, {broker.RecordQuery{Newest: true, Limit: 1}, "d"},
			{broker.RecordQuery{Key: "all", Newest: true, After: "c"}, "b a"}, {broker.RecordQuery{Key: "all", Newest: true, After: "a"}, ""},
			{broker.RecordQuery{Key: "all", After: "bb"}, "c d"}, {broker.RecordQuery{Newest: true, After: "bb"}, "b a"},
			{broker.RecordQuery{Key: "all", After: "d"}, ""}, {broker.RecordQuery{Key: "l"}, ""},
		} {
			tt.q.Kind = "note"
			r.wantRecords(tt.q, tt.want)
		}
	})
	t.Run("what has expired is pruned, what was extended stays", func(t *testing.T) {
		r := open(t, e, Faults{})
		for i, id := range []string{"old", "extended", "young", "kept"} {
			c := note(id, "1", "all")
			if id != "kept" {
				c.Expires = after(time.Duration(i) * time.Minute)
			}
			r.put(c)
		}
		c := note("extended", "2", "all")
		c.Expires = after(time.Hour)
		r.put(c)
		if _, err := r.Prune(bg, after(time.Minute), 0); err != nil {
			t.Fatal(err)
		}
		r.wantRecords(broker.RecordQuery{Kind: "note", Key: "all"}, "extended kept young")
		r.wantSound()
	})
	t.Run("a watch hears of its record and of its kind", func(t *testing.T) {
		r := open(t, e, Faults{})
		one, endOne := r.WatchRecords("note", "n1")
		kind, endKind := r.WatchRecords("note", "")
		defer endOne()
		defer endKind()
		r.put(note("n2", "1"))
		<-kind
		select {
		case <-one:
			t.Error("another record's change was heard")
		default:
		}
		r.put(note("n1", "1"))
		<-one
		<-kind
	})
	t.Run("what could not be found again is refused", func(t *testing.T) {
		r := open(t, e, Faults{})
		for name, c := range map[string]broker.RecordChange{
			"no kind": {ID: "a", Value: json.RawMessage("1")}, "no id": {Kind: "note", Value: json.RawMessage("1")},
			"zero byte in the id": note("a\x00b", "1"), "zero byte in a key": note("a", "1", "k\x00"), "an empty key": note("a", "1", ""),
			"no JSON": note("a", "{"), "too large": note("a", `"`+strings.Repeat("x", 1<<20)+`"`), "an id too long": note(strings.Repeat("x", 600), "1"),
			"an event without a type": {Kind: "note", ID: "a", Value: json.RawMessage("1"), Events: []broker.Event{{}}},
		} {
			if _, err := r.Put(bg, c); err == nil {
				t.Errorf("%s was taken", name)
			}
		}
		r.wantRecords(broker.RecordQuery{Kind: "note"}, "")
	})
	t.Run("a failed commit may have happened", func(t *testing.T) {
		fail := true
		r := open(t, e, Faults{Commit: func(commit func() error) error {
			if err := commit(); err != nil || !fail {
				return err
			}
			fail = false
			return errors.New("no power")
		}})
		if _, err := r.Put(bg, note("n1", "1")); !errors.Is(err, journal.ErrInDoubt) {
			t.Errorf("got %v", err)
		}
		r.put(note("n2", "1"))
	})
	t.Run("histories match a model", func(t *testing.T) { recordHistories(t, e) })
}

// recordHistories compares random changes with a map.
func recordHistories(t *testing.T, e Engine) {
	bg := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		r := open(t, e, Faults{})
		defer func() { _ = r.Close() }()
		model := map[string]broker.Record{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			id := rapid.SampledFrom([]string{"a", "b", "ab", "c"}).Draw(rt, "id")
			c := broker.RecordChange{Kind: "note", ID: id, Keys: rapid.SliceOfN(rapid.SampledFrom([]string{"k", "kk", "l"}), 0, 3).Draw(rt, "keys")}
			if rapid.Bool().Draw(rt, "write") {
				c.Value = json.RawMessage(fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "value")))
			}
			if rapid.Bool().Draw(rt, "conditional") {
				c.If = broker.AtRevision(uint64(rapid.IntRange(0, 3).Draw(rt, "revision")))
			}
			before, there := model[id]
			want := error(nil)
			switch {
			case c.If != nil && *c.If != before.Revision:
				want = broker.ErrRecordRevision
			case c.Value == nil && !there:
				want = broker.ErrRecordNotFound
			}
			if _, err := r.Put(bg, c); !errors.Is(err, want) {
				rt.Fatalf("%+v over %+v: %v, want %v", c, before, err, want)
			}
			if want == nil {
				delete(model, id)
				if c.Value != nil {
					model[id] = broker.Record{ID: id, Revision: before.Revision + 1, Value: c.Value, Keys: c.Keys}
				}
			}
		}
		for _, key := range []string{"", "k", "kk", "l"} {
			var want []broker.Record
			for _, rec := range model {
				if key == "" || slices.Contains(rec.Keys, key) {
					want = append(want, rec)
				}
			}
			slices.SortFunc(want, func(a, b broker.Record) int { return cmp.Compare(a.ID, b.ID) })
			got, err := r.Records(broker.RecordQuery{Kind: "note", Key: key})
			if err != nil || recordIDs(got) != recordIDs(want) {
				rt.Fatalf("list %q: got %s, want %s of %v, %v", key, recordIDs(got), recordIDs(want), slices.Collect(maps.Keys(model)), err)
			}
			for i := range got {
				if got[i].Revision != want[i].Revision || string(got[i].Value) != string(want[i].Value) {
					rt.Fatalf("got %+v, want %+v", got[i], want[i])
				}
			}
		}
	})
}
