//go:build linux

package guard

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/transport/guard/procid"
)

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		ring, all := newTail(limit), ""
		for _, s := range rapid.SliceOf(rapid.StringN(0, 30, 60)).Draw(t, "writes") {
			if n, err := ring.Write([]byte(s)); n != len(s) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			all += s
			if want := all[max(0, len(all)-limit):]; ring.String() != want {
				t.Fatalf("%q, want %q", ring.String(), want)
			}
		}
	})
}

func TestLastEntryOfAnEnvironmentNameCounts(t *testing.T) {
	t.Parallel()
	got := lastOfEach([]string{"A=1", "B=2", "A=3", "C=", "B=4=5"})
	if want := []string{"A=3", "C=", "B=4=5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := lastOfEach(nil); got == nil || len(got) != 0 {
		t.Errorf("%#v: nil would mean the broker's own environment", got)
	}
}

func TestStatusLineSurvivesItsReason(t *testing.T) {
	t.Parallel()
	tests := []struct {
		give event
		want event
	}{
		{event{kind: eventStarted, pid: 12, start: 1 << 60}, event{kind: eventStarted, pid: 12, start: 1 << 60}},
		{event{kind: eventExited, number: 255}, event{kind: eventExited, number: 255}},
		{event{kind: eventSignaled, number: 9}, event{kind: eventSignaled, number: 9}},
		{event{kind: eventFailed, reason: "two\nlines\r\n"}, event{kind: eventFailed, reason: "two lines"}},
	}
	for _, tt := range tests {
		got, err := parseEvent(tt.give.String())
		if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v", tt.give, got, err)
		}
	}
	long := event{kind: eventFailed, reason: strings.Repeat("ü", maxStatusLine)}.String()
	if len(long) >= maxStatusLine || !strings.HasSuffix(long, "ü") {
		t.Errorf("a long reason makes a line of %d bytes", len(long))
	}
	for _, bad := range []string{"", "started", "started 1 5", "started -4 5", "started 12", "started 12 x", "failed", "exited", "exited -1", "signaled x", "ended 1"} {
		if e, err := parseEvent(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, e)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, s := range []string{"started 12 34", "failed why", "exited 3", "signaled 9", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := parseEvent(line)
		if err != nil {
			return
		}
		again, err := parseEvent(e.String())
		if e.kind == eventFailed {
			return // white space is folded
		}
		if err != nil || again != e {
			t.Fatalf("%q: %+v, then %+v, %v", line, e, again, err)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"command":"x","guard":{"pid":7,"start":1},"child":{"pid":8,"start":2},"pipes":[{"inode":3,"write":true}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseRecord(data)
		if err != nil {
			return
		}
		if rec.Guard.PID <= 1 || rec.Child.PID <= 1 {
			t.Fatalf("a record of %d and %d", rec.Guard.PID, rec.Child.PID)
		}
		written, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseRecord(written); err != nil || !reflect.DeepEqual(again.Guard, rec.Guard) {
			t.Fatalf("%+v, then %+v, %v", rec, again, err)
		}
	})
}

func TestLeftoversArePickedOnEvidenceOnly(t *testing.T) {
	t.Parallel()
	const self = 900
	id := func(pid int, start uint64) procid.ID { return procid.ID{PID: pid, Start: start, Boot: "b"} }
	proc := func(pid int, start uint64, parent, group, session int) procid.Entry {
		return procid.Entry{ID: id(pid, start), Parent: parent, Group: group, Session: session}
	}
	zombie := func(e procid.Entry) procid.Entry { e.Zombie = true; return e }
	rec := Record{Guard: id(100, 50), Child: id(101, 51)}
	guard, child := proc(100, 50, 1, 100, 100), proc(101, 51, 100, 101, 100)
	tests := []struct {
		name  string
		table []procid.Entry
		holds []int
		want  []int
	}{
		{"nothing runs", []procid.Entry{proc(1, 0, 0, 1, 1), proc(300, 60, 1, 300, 300)}, nil, nil},
		{"the guard alone goes last", []procid.Entry{guard}, nil, []int{100}},
		{"the guard waits for its children", []procid.Entry{guard, child}, nil, []int{101}},
		{"descendants at any depth", []procid.Entry{guard, child, proc(102, 52, 101, 102, 102), proc(103, 53, 102, 103, 103)}, nil, []int{101, 102, 103}},
		{"an orphan that the guard adopted", []procid.Entry{guard, proc(104, 54, 100, 104, 104)}, nil, []int{104}},
		{"the session of a zombie guard", []procid.Entry{zombie(guard), proc(105, 55, 1, 105, 100)}, nil, []int{105}},
		{"the session of a guard that is gone", []procid.Entry{proc(105, 55, 1, 105, 100)}, nil, nil},
		{"the session of a child whose guard is gone", []procid.Entry{proc(101, 51, 1, 101, 100), proc(105, 55, 1, 105, 100)}, nil, []int{101, 105}},
		{"the group of a child", []procid.Entry{proc(101, 51, 1, 101, 100), proc(106, 56, 1, 101, 100)}, nil, []int{101, 106}},
		{"the group of a child that is gone", []procid.Entry{proc(106, 56, 1, 101, 100)}, nil, nil},
		{"who holds the pipes, and its children", []procid.Entry{proc(107, 57, 1, 107, 107), proc(108, 58, 107, 107, 107)}, []int{107}, []int{107, 108}},
		{"zombies are dead", []procid.Entry{zombie(guard), zombie(child)}, nil, nil},
		{"the pid of the guard was reused", []procid.Entry{proc(100, 70, 1, 100, 100), proc(109, 71, 100, 100, 100)}, nil, nil},
		{"the pid of the child was reused", []procid.Entry{proc(101, 70, 1, 101, 101), proc(109, 71, 101, 101, 101)}, nil, nil},
		{"never what is older than the guard", []procid.Entry{guard, proc(110, 49, 100, 100, 100)}, nil, []int{100}},
		{"never ourselves", []procid.Entry{guard, proc(self, 60, 100, 100, 100)}, []int{self}, []int{100}},
		{"never init", []procid.Entry{guard, proc(1, 60, 100, 100, 100)}, []int{1}, []int{100}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := leftovers(rec, tt.table, self, func(pid int) bool { return slices.Contains(tt.holds, pid) })
			var pids []int
			for _, id := range got {
				pids = append(pids, id.PID)
			}
			if !slices.Equal(pids, tt.want) {
				t.Errorf("picked %v, want %v", pids, tt.want)
			}
		})
	}
}
