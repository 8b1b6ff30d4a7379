package meta

import (
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// The verbs.
const (
	Find      = "find"
	Describe  = "describe"
	CallRead  = string(catalog.PassReads)
	CallWrite = string(catalog.PassAll)
	Help      = "help"
	Handshake = "session_handshake"
	More      = "more"
	Health    = "health"
)

// everything is what a verb may do that passes any call on.
const everything = broker.Session | broker.Write | broker.Destroy | broker.Exec | broker.Interrupt

// record is one verb of the family: its entry without the annotations, which the
// catalog computes, and what the catalog has to know of it.
type record struct {
	name    string
	entry   string
	effects broker.Effects
	pass    catalog.Pass
	facts   catalog.Facts
	answer  func(*Family, ask) (any, *broker.Refusal)
}

// passed are the arguments of both verbs that pass a call on.
const passed = `"inputSchema":{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","description":"The arguments of that tool, as an object."},` +
	`"options":{"type":"object","properties":{"resultTokens":{"type":"integer"},"expectedRuntimeId":{"type":"string"},"idempotencyKey":{"type":"string"}}}},"required":["name"]}`

// records are the verbs in the order of the contract. Their entries are written
// to be short: every session pays for them.
var records = []record{
	{Find, `"description":"Search every tool you may call, listed or not, in your own words. An empty query pages through all names.","inputSchema":{"type":"object","properties":{` +
		`"query":{"type":"string","minLength":0},"k":{"type":"integer","minimum":1,"maximum":50,"default":8},"detail":{"enum":["name","brief","schema"],"default":"brief"},` +
		`"backend":{"type":"string"},"family":{"type":"string"},"effects":{"enum":["read","any"],"default":"any"},"cursor":{"type":"string","description":"next_cursor of the page before"}},"required":["query"]}`,
		broker.Read, catalog.NoPass, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true, Keywords: []string{"search", "discover", "list tools", "index"}}, (*Family).find},
	{Describe, `"description":"Schemas, effects, proofs that are needed, cost and a minimal valid call of tools by name.","inputSchema":{"type":"object","properties":{` +
		`"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":10}},"required":["names"]}`,
		broker.Read, catalog.NoPass, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true, Keywords: []string{"schema", "signature", "arguments"}}, (*Family).describe},
	{CallRead, `"description":"Call a tool that changes nothing outside this session, listed or not. Any other is refused before it runs.",` + passed,
		broker.Session, catalog.PassReads, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true}, nil},
	{CallWrite, `"description":"Call any tool, listed or not.",` + passed,
		everything, catalog.PassAll, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true}, nil},
	{Help, `"description":"A tool with a call that fits, the tool for an intent, or what to do about an error.","inputSchema":{"type":"object","properties":{` +
		`"name":{"type":"string","description":"a tool or a backend"},"mode":{"enum":["overview","verb","route","recovery"]},"intent":{"type":"string"},"error_text":{"type":"string"},` +
		`"max_suggestions":{"type":"integer","minimum":1,"maximum":10,"default":3}}}`,
		broker.Read, catalog.NoPass, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true}, (*Family).help},
	{Handshake, `"description":"Prove that you see the whole list: give the codes that end the first and the last description, or the names you see.","inputSchema":{"type":"object","properties":{` +
		`"canary":{"type":"object","properties":{"head":{"type":"string"},"tail":{"type":"string"}}},"catalog":{"type":"string"},"available_tools":{"type":"array","items":{"type":"string"}},` +
		`"missing_tools":{"type":"array","items":{"type":"string"}},"observed_tool_count":{"type":"integer"},"agent_id":{"type":"string"},"scope":{"type":"string"}}}`,
		broker.Session, catalog.NoPass, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true}, (*Family).handshake},
	{More, `"description":"The next part of an answer that was cut.","inputSchema":{"type":"object","properties":{` +
		`"handle":{"type":"string"},"offset":{"type":"integer","minimum":0},"result_tokens":{"type":"integer"}},"required":["handle"]}`,
		broker.Read, catalog.NoPass, catalog.Facts{Family: catalog.FamilyCatalog, Essential: true, ResultTokens: shape.Whole}, (*Family).more},
	{Health, `"description":"State of the broker, of its backends and of the list that you were given.","inputSchema":{"type":"object"}`,
		broker.Read, catalog.NoPass, catalog.Facts{Family: catalog.FamilyHealth, Essential: true, Required: true}, (*Family).health},
}

// entryJSON is the verb's entry of tools/list.
func (r record) entryJSON() string {
	return `{"name":"` + r.name + `",` + r.entry + `,"annotations":{"openWorldHint":` + openWorld(r) + `}}`
}

// openWorld says whether a verb may reach beyond the broker.
func openWorld(r record) string {
	if r.pass != catalog.NoPass {
		return "true"
	}
	return "false"
}
