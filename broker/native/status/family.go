package status

import (
	"context"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
)

const statusEntry = `{"name":"status","title":"How the broker stands",` +
	`"description":"How the broker stands: captains, voyages and missions, the dispatch hold, unfinished jobs. A null is a number that nobody measured.",` +
	`"inputSchema":{"type":"object","properties":{}},"annotations":{"idempotentHint":true,"openWorldHint":false}}`

const inboxEntry = `{"name":"inbox","title":"What waits for an operator",` +
	`"description":"What waits for an operator, the gravest first, then the newest. An empty list: nothing waits. Lost jobs are shown for 24 hours.",` +
	`"inputSchema":{"type":"object","properties":{}},"annotations":{"idempotentHint":true,"openWorldHint":false}}`

const enumerateEntry = `{"name":"enumerate","title":"List records",` +
	`"description":"A page of records of one type, with filters. A filter that the type does not have is ignored. Payloads come as a length unless includePayload is set.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"entityType":{"type":"string","description":"What to list: captains, docks, events, jobs, missions, signals, vessels or voyages, singular too; another type is refused with the list of those that this broker keeps."},` +
	`"pageNumber":{"type":"integer","default":1,"description":"Which page, from 1."},` +
	`"pageSize":{"type":"integer","default":10,"description":"Records on a page, 1 to 1000; a number outside is taken as the nearest one inside."},` +
	`"order":{"type":"string","enum":["CreatedDescending","CreatedAscending"],"default":"CreatedDescending"},` +
	`"createdAfter":{"type":"string","description":"Only records created at or after this time, such as 2026-05-04T09:12:00Z."},` +
	`"createdBefore":{"type":"string","description":"Only records created before this time."},` +
	`"status":{"type":"string","description":"Only this status, such as Running."},` +
	`"fleetId":{"type":"string"},"vesselId":{"type":"string"},"captainId":{"type":"string"},"voyageId":{"type":"string"},"missionId":{"type":"string"},` +
	`"jobId":{"type":"string","description":"Only this job, or what happened to it."},` +
	`"eventType":{"type":"string","description":"Only events of this type, such as job.failed."},` +
	`"signalType":{"type":"string","description":"Only signals of this type, such as Wake."},"toCaptainId":{"type":"string"},"unreadOnly":{"type":"boolean"},` +
	`"includeDescription":{"type":"boolean"},"includeContext":{"type":"boolean"},"includePayload":{"type":"boolean"},` +
	`"includeMessage":{"type":"boolean"},"includeTestOutput":{"type":"boolean"}` +
	`},"required":["entityType"]},"annotations":{"idempotentHint":true,"openWorldHint":false}}`

// NewFamily makes the verbs of a service.
func NewFamily(s *Service, o native.Options) *native.Verbs {
	facts := func(keywords ...string) catalog.Facts {
		return catalog.Facts{Scope: []broker.Role{broker.GlobalAdministrator}, Keywords: keywords}
	}
	return native.NewFamily("status", o,
		native.Verb{Name: "status", Entry: statusEntry, Aliases: []string{"armada_status"}, Effects: broker.Read, Facts: facts("overview", "hold", "captains"),
			Answer: func(context.Context, native.Ask) (any, error) { return s.Report(), nil }},
		native.Verb{Name: "enumerate", Entry: enumerateEntry, Aliases: []string{"armada_enumerate"}, Effects: broker.Read, Facts: facts("list", "events", "jobs", "signals", "records"),
			Answer: func(_ context.Context, ask native.Ask) (any, error) { return s.Enumerate(ask.Arguments) }},
		native.Verb{Name: "inbox", Entry: inboxEntry, Effects: broker.Read, Facts: facts("attention", "lost", "triage"),
			Answer: func(context.Context, native.Ask) (any, error) { return s.Inbox() }})
}
