package events

import (
	"context"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
)

const deleteEntry = `{"name":"delete_event","title":"Delete an event",` +
	`"description":"Delete one event of the journal. The record that it tells of is not changed by that.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"eventId":{"type":"string","description":"The Id of the event, such as evt_mpkd6cu0_Uuql5kDlrM4."}` +
	`},"required":["eventId"]}}`

const deleteManyEntry = `{"name":"delete_events","title":"Delete events",` +
	`"description":"Delete several events of the journal. One that is not there is named in Skipped and stops none of the others.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"ids":{"type":"array","items":{"type":"string"},"maxItems":1000,"description":"The Ids of the events."}` +
	`},"required":["ids"]}}`

// NewFamily makes the verbs of a service.
func NewFamily(s *Service, o native.Options) *native.Verbs {
	facts := catalog.Facts{Scope: []broker.Role{broker.GlobalAdministrator}, Keywords: []string{"event", "journal", "history"}}
	return native.NewFamily("events", o,
		native.Verb{Name: "delete_event", Entry: deleteEntry, Aliases: []string{"armada_delete_event"}, Effects: broker.Destroy, Facts: facts,
			Answer: func(ctx context.Context, ask native.Ask) (any, error) {
				var args struct{ EventID string }
				if err := ask.Decode(&args); err != nil {
					return nil, err
				}
				return s.Delete(ctx, ask.Call.Principal, args.EventID)
			}},
		native.Verb{Name: "delete_events", Entry: deleteManyEntry, Aliases: []string{"armada_delete_events"}, Effects: broker.Destroy, Facts: facts,
			Answer: func(ctx context.Context, ask native.Ask) (any, error) {
				var args struct{ IDs []string }
				if err := ask.Decode(&args); err != nil {
					return nil, err
				}
				return s.DeleteMany(ctx, ask.Call.Principal, args.IDs)
			}})
}
