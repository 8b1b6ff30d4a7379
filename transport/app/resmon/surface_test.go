package resmon

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"berth/broker"
	"berth/broker/catalog/schema"
)

func TestTheListIsTheContracts(t *testing.T) {
	reads := []string{"explain_match", "export_references", "find_similar", "get_analytics", "get_execution", "get_execution_results", "get_paper_lifecycle", "get_profile_matches", "get_routine",
		"get_search_record", "get_watch_profile", "get_watchdog_findings", "health", "list_executions", "list_routines", "list_sources", "list_watch_profiles", "search_corpus"}
	writes := []string{"activate_routine", "create_routine", "create_watch_profile", "deactivate_routine", "run_routine", "run_sweep", "update_settings"}
	held := []string{"run_routine", "run_sweep"}
	control := []string{"get_execution", "health"}
	var names, readOnly []string
	for _, tool := range Surface().List(false) {
		names = append(names, tool.Name)
		var entry map[string]json.RawMessage
		if err := json.Unmarshal(tool.Raw, &entry); err != nil {
			t.Fatal(err)
		}
		confirm := "false"
		if slices.Contains(writes, tool.Name) {
			confirm = "true"
		}
		if len(entry) != 4 || string(entry["requires_confirmation"]) != confirm || entry["description"] == nil {
			t.Errorf("%s", tool.Raw)
		}
		if bytes.Contains(tool.Raw, []byte(`"additionalProperties":false`)) {
			t.Errorf("%s forbids further names", tool.Name)
		}
		if _, err := schema.Compile(entry["inputSchema"]); err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
	for _, tool := range Surface().List(true) {
		readOnly = append(readOnly, tool.Name)
	}
	if want := slices.Sorted(slices.Values(slices.Concat(reads, writes))); !slices.Equal(names, want) {
		t.Errorf("listed %q", names)
	}
	if !slices.Equal(readOnly, reads) {
		t.Errorf("listed when read-only: %q", readOnly)
	}
	for _, tool := range Surface().Tools {
		if tool.Internal {
			continue
		}
		want := broker.Read
		switch {
		case slices.Contains(held, tool.Name):
			want = broker.Exec
		case tool.Confirm:
			want = broker.Write
		}
		if tool.Effects != want || tool.Held != slices.Contains(held, tool.Name) || tool.Control != slices.Contains(control, tool.Name) || (tool.Tracks != nil) != tool.Held || tool.Confirm != (tool.Tells != "") {
			t.Errorf("%+v", tool.Name)
		}
	}
	if info := string(Surface().Server().Info); info != `{"name":"resmon","version":"1.0"}` {
		t.Errorf("%s", info)
	}
}
