package native_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
	"berth/broker/policy"
)

// The rows of contracts/native.md section 1.4, word for word.
const (
	rowC = "get_persona get_pipeline get_prompt_template list_prompt_templates create_memory get_memory search_memory update_memory delete_memory " +
		"typed_decision score_items check_premise check_prior_art memory_triage change_quality corpus_prelabel run_custom_decision fetch_context mission_code_search"
	rowTA      = "create_persona update_persona delete_persona create_pipeline update_pipeline delete_pipeline"
	rowCatalog = "find describe call_read call_write help session_handshake more health"
	rowTeam    = "coordination_post coordination_read coordination_heartbeat coordination_claim mark_signal_read agentwake_status"
	// Of everything else a few, which are for global administrators.
	rowGA = "job_status dispatch enumerate status inbox backup restore stop_server dispatch_hold send_signal delete_event"
)

// house is a catalog of every verb of the rows, and one upstream backend.
func house(t *testing.T, access native.Access) *catalog.Snapshot {
	t.Helper()
	named := func(family string, names ...string) native.Family {
		verbs := []native.Verb{}
		for _, name := range names {
			verbs = append(verbs, native.Verb{Name: name, MergedOnly: family == "catalog", Entry: `{"name":"` + name + `","description":"Does it.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`,
				Effects: broker.Read, Answer: func(context.Context, native.Ask) (any, error) { return nil, nil }})
		}
		return native.NewFamily(family, native.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, verbs...)
	}
	words := slices.Compact(slices.Sorted(slices.Values(strings.Fields(rowC + " " + rowTA + " " + rowTeam + " " + rowGA))))
	catalogue := named("catalog", strings.Fields(rowCatalog)...)
	joined := native.Join(named("rows", words...), catalogue).For(access)
	upstream := catalog.Source{Backend: "up", Listed: true, Tools: []broker.Tool{{Name: "go", Raw: json.RawMessage(`{"name":"go","inputSchema":{"type":"object"}}`)}}}
	source := joined.Source()
	source.Beside = []string{"job_status"}
	s, faults := catalog.Build(1, []catalog.Source{source, upstream})
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	return s
}

// TestWhoSeesWhatIsTheTable: the listed names are the callable names, and both
// are the rows of contracts/native.md section 1.4, for each role in each kind of
// profile.
func TestWhoSeesWhatIsTheTable(t *testing.T) {
	fields := func(rows ...string) []string {
		return slices.Compact(slices.Sorted(slices.Values(strings.Fields(strings.Join(rows, " ")))))
	}
	all := fields(rowC, rowTA, rowTeam, rowGA)
	for _, tt := range []struct {
		access  native.Access
		role    broker.Role
		profile string
		want    []string
	}{
		{native.Seed, broker.GlobalAdministrator, "berth", all},
		{native.Seed, broker.TenantAdministrator, "berth", fields(rowC, rowTA)},
		{native.Seed, broker.User, "berth", fields(rowC)},
		{native.Seed, broker.GlobalAdministrator, "full", fields(strings.Join(all, " "), rowCatalog, "up__go")},
		{native.Seed, broker.TenantAdministrator, "full", fields(rowC, rowTA, rowCatalog, "job_status up__go")},
		{native.Seed, broker.User, "full", fields(rowC, rowCatalog, "job_status up__go")},
		{native.Seed, broker.User, "up", fields("go job_status")},
		{native.Team, broker.User, "berth", fields(rowC, rowTeam, "job_status")},
		{native.Team, broker.TenantAdministrator, "berth", fields(rowC, rowTA, rowTeam, "job_status")},
		{native.Team, broker.User, "full", fields(rowC, rowTeam, rowCatalog, "job_status up__go")},
		{native.Team, broker.GlobalAdministrator, "berth", all},
		{native.Seed, "", "full", nil}, // nobody is anonymous
		{native.Seed, "root", "full", nil},
	} {
		t.Run(string(tt.access)+" "+string(tt.role)+" "+tt.profile, func(t *testing.T) {
			snapshot := house(t, tt.access)
			profile, ok := snapshot.Profile(tt.profile)
			if !ok {
				t.Fatal("no such profile")
			}
			role := tt.role
			if role == "" {
				role = "nobody"
			}
			var listed, callable []string
			for _, e := range profile.As(catalog.Class{Role: role, Transport: catalog.OverMCP}).Entries() {
				listed = append(listed, e.Name)
			}
			unknown := ""
			for _, e := range profile.Reach() {
				_, refusal := policy.Check(policy.Input{Profile: profile, Principal: broker.Principal{Tenant: "t", User: "u", Role: tt.role}, Name: e.Name, Arguments: json.RawMessage(`[]`)})
				if refusal == nil || refusal.Code != broker.CodeVerbUnknown {
					callable = append(callable, e.Name) // refused for its arguments only
					continue
				}
				// The words of a name that never existed, before arguments are read.
				if unknown = refusal.Message; !strings.HasPrefix(unknown, "Tool not found: "+e.Name) {
					t.Errorf("%s: %s", e.Name, unknown)
				}
			}
			if !slices.Equal(listed, tt.want) {
				t.Errorf("listed %v\nwant   %v", listed, tt.want)
			}
			if !slices.Equal(callable, tt.want) {
				t.Errorf("callable %v\nwant     %v", callable, tt.want)
			}
		})
	}
}
