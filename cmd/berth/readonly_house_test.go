package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"berth/transport/rest"
)

// TestAReadOnlyRefusalDoesNothing: whatever the verb that does more than read,
// and whatever its arguments are worth, no child is started, no byte goes to a
// backend, nothing is written to the journal, and no queue or counter of calls
// moves.
func TestAReadOnlyRefusalDoesNothing(t *testing.T) {
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"fx": h.fixtureEntry(nil)}, "berth": map[string]any{"drain_timeout": "0s"}})
	must(t, h.start())
	if code, _, errOut := h.berth("tools", "--profile", "full"); code != 0 { // it lists once
		t.Fatal(errOut)
	}
	must(t, h.broker.Stop()) // which keeps the list, as a kill may not
	h.awaitNobody()
	h.env = []string{"BERTH_READ_ONLY=1"}
	must(t, h.start())
	w := newWire(h, "reader")

	var page rest.Page[struct {
		Name    string
		Backend string
		Effects []string
	}]
	must(t, h.api("/api/v1/catalog", nil, &page))
	state := func() (sum [32]byte, fx rest.Backend) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(h.state, "journal.db"))
		must(t, err)
		var list rest.Page[rest.Backend]
		must(t, h.api("/api/v1/backends", nil, &list))
		for _, b := range list.Objects {
			if b.Name == "fx" {
				fx = b
			}
		}
		return sha256.Sum256(raw), fx
	}
	journal, before := state()
	asked := 0
	for _, v := range page.Objects {
		if v.Backend != "fx" && v.Name != "call_write" {
			continue // the broker's own read
		}
		for _, arguments := range []any{nil, map[string]any{}, map[string]any{"a": "wrong", "jobId": 7}, map[string]any{"a": 1, "b": 2, "message": "m", "file": "f", "line": "l"}} {
			for _, key := range []string{"", "key"} {
				r, err := w.call(t.Context(), v.Name, arguments, key)
				must(t, err)
				if !r.IsError || (r.Code != "read_only_session" && r.Code != "read_only") {
					t.Errorf("%s %v: %+v", v.Name, arguments, r)
				}
				asked++
			}
			r, err := w.call(t.Context(), "call_read", map[string]any{"name": v.Name, "arguments": arguments}, "")
			must(t, err)
			if v.Name != "call_write" && r.Code != "read_only_session" {
				t.Errorf("call_read of %s %v: %+v", v.Name, arguments, r)
			}
		}
	}
	after, now := state()
	if asked < 20 {
		t.Fatalf("only %d calls were made", asked)
	}
	if after != journal {
		t.Error("the journal was written to")
	}
	if now.Incarnations != 0 || now.PID != nil || now.Answered != 0 || now.Failed != 0 || now.Shed != 0 || now.InFlight != 0 || now.QueuedCalls+now.QueuedJobs != 0 || now.State != before.State {
		t.Errorf("the backend moved: %+v, before %+v", now, before)
	}
}
