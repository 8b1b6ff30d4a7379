package native

import (
	"maps"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
)

// Access is who but administrators may call which of the broker's own verbs.
type Access string

// The settings.
const (
	// Seed is the documented table.
	Seed Access = "seed"
	// Team adds the board inside the caller's tenant, and job_status everywhere.
	Team Access = "team"
)

// The rows of contracts/native.md section 1.4. A verb that stands in none is for
// global administrators.
var (
	callerRow = strings.Fields(`get_persona get_pipeline get_prompt_template list_prompt_templates create_memory get_memory
		search_memory update_memory delete_memory typed_decision score_items check_premise check_prior_art memory_triage change_quality
		corpus_prelabel run_custom_decision fetch_context mission_code_search`)
	tenantRow = strings.Fields("create_persona update_persona delete_persona create_pipeline update_pipeline delete_pipeline")
	// catalogRow is for everybody, in whatever profile has them.
	catalogRow = strings.Fields("find describe call_read call_write help session_handshake more health")
	// ownRow answers of the caller's own records, so that it is for everybody in
	// a profile that holds another backend: a promoted call must be pollable by
	// who made it.
	ownRow  = strings.Fields("job_status")
	teamRow = strings.Fields("coordination_post coordination_read coordination_heartbeat coordination_claim mark_signal_read agentwake_status job_status")
)

// scopeOf gives the roles that may list and call a verb; nil: every role.
func (a Access) scopeOf(verb string) []broker.Role {
	switch {
	case slices.Contains(catalogRow, verb), slices.Contains(callerRow, verb),
		a == Team && slices.Contains(teamRow, verb):
		return nil
	case slices.Contains(tenantRow, verb):
		return []broker.Role{broker.GlobalAdministrator, broker.TenantAdministrator}
	}
	return []broker.Role{broker.GlobalAdministrator}
}

// scoped gives a source whose verbs are seen by whom the table says, whatever
// their families say.
func (a Access) scoped(s catalog.Source) catalog.Source {
	facts := maps.Clone(s.Facts)
	if facts == nil {
		facts = map[string]catalog.Facts{}
	}
	for _, t := range s.Tools {
		f := facts[t.Name]
		f.Scope, f.OwnRecords = a.scopeOf(t.Name), slices.Contains(ownRow, t.Name)
		facts[t.Name] = f
	}
	s.Facts = facts
	return s
}
