package credential

import (
	"errors"
	"strings"
	"testing"
)

func TestARestoreKeepsWhoWasPutOutOut(t *testing.T) {
	present := &memory{}
	d, _ := open(t, present)
	stays, _ := create(t, d, ana)
	goes, token := create(t, d, ana)
	next := &memory{rows: map[string]Stored{}}
	for id, r := range present.rows {
		next.rows[id] = r
	}
	gone := Stored{Record: goes}
	gone.ID, gone.Hash = "crd_only_there", strings.Repeat("0", len(gone.Hash))
	next.rows[gone.ID] = gone
	later, _ := create(t, d, ana)
	for _, id := range []string{goes.ID, later.ID} {
		if _, err := d.Revoke(t.Context(), admin, id, "lost"); err != nil {
			t.Fatal(err)
		}
	}
	present.events = nil

	next.err = errors.New("the disk is full")
	if err := StayRevoked(t.Context(), present, next, admin, noon); !errors.Is(err, next.err) {
		t.Errorf("a store that fails: %v", err)
	}
	next.err = nil
	for range 2 { // the second time there is nothing to do
		if err := StayRevoked(t.Context(), present, next, admin, noon); err != nil {
			t.Fatal(err)
		}
	}
	if r := next.rows[goes.ID]; r.RevokedAt == nil || r.RevokedBy != admin.Key() {
		t.Errorf("who was put out: %+v", r)
	}
	if next.rows[stays.ID].RevokedAt != nil || next.rows[gone.ID].RevokedAt != nil || len(next.rows) != 3 {
		t.Errorf("the others: %+v", next.rows)
	}
	if len(next.events) != 1 || next.events[0].EventType != EventRevoked || next.events[0].EntityID != goes.ID || len(present.events) > 0 {
		t.Errorf("events: %+v, and of the present journal %+v", next.events, present.events)
	}
	if d, _ := open(t, next); d != nil {
		if _, ok := d.Bearer(token); ok {
			t.Error("the token is good again")
		}
	}
}
