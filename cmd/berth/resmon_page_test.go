package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/app/resmontest"
)

// The page names every refusal of the surface and every tool.
func TestThePageOfResmonNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "resmon.md"))
	must(t, err)
	f := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	h := newHall(t, map[string]any{"resmon": appEntry(f, nil)}, nil)
	var list struct{ Tools []struct{ Name string } }
	must(t, json.Unmarshal(h.caller("resmon", handshake).want("tools/list", nil), &list))
	for _, tool := range list.Tools {
		if !strings.Contains(string(page), "`"+tool.Name+"`") {
			t.Errorf("the page does not name %s", tool.Name)
		}
	}
	for _, code := range []string{"backend_unavailable", "not_found", "invalid_argument", "conflict", "upstream_error", "internal_error", "instance_mismatch", "identity_unavailable",
		"no_port_named", "no_token", "token_refused", "not_resmon", "malformed", "outcome_unknown", "read_only", "route_missing", "withheld_keys", "refused_keys", "routine_already_running"} {
		if !strings.Contains(string(page), code) {
			t.Errorf("the page does not name %s", code)
		}
	}
}
