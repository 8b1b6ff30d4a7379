package resmon

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"berth/broker"
	"berth/broker/catalog/catalogtest"
	"berth/broker/catalog/schema"
)

// What the catalog's tests search in is this list.
func TestTheListOfTheCatalogsTestsIsThisOne(t *testing.T) {
	lists, err := catalogtest.Real()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(lists, func(l catalogtest.List) bool { return l.Backend == Name })
	if at < 0 {
		t.Fatal("there is none")
	}
	want := Surface().List(false)
	if *update {
		var entries [][]byte
		for _, tool := range want {
			entries = append(entries, tool.Raw)
		}
		golden(t, "../../../broker/catalog/catalogtest/lists/resmon.json", "[\n"+string(bytes.Join(entries, []byte(",\n")))+"\n]\n")
		return
	}
	got := lists[at].Tools
	if len(got) != len(want) {
		t.Errorf("%d tools, want %d (-update writes them)", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if a, b := pretty(t, string(got[i].Raw)), pretty(t, string(want[i].Raw)); a != b {
			t.Errorf("it has\n%s, the surface\n%s(-update writes it)", a, b)
		}
	}
}

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
