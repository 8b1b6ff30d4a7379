package hold

import (
	"context"
	"encoding/json"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/native"
)

// Verb and Alias are the names of the one verb.
const (
	Verb  = "dispatch_hold"
	Alias = "armada_dispatch_hold"
)

// The actions.
const (
	Status = "status"
	Engage = "engage"
	Clear  = "clear"
)

const entry = `{"name":"dispatch_hold","title":"Hold on new work",` +
	`"description":"The operator's stop on new work, for instance before an upgrade. status (the default) tells whether a hold is active and lists all unfinished jobs, oldest first: an empty list means that a restart of the broker loses nothing. engage stops new work until somebody clears the hold, also over a restart; it needs reason and setBy, and engaging again replaces both. clear ends the hold, whoever set it. Work that is under way goes on.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"action":{"type":"string","default":"status","description":"status, engage or clear."},` +
	`"reason":{"type":"string","minLength":1,"maxLength":500,"description":"Why work is held; required to engage."},` +
	`"setBy":{"type":"string","minLength":1,"maxLength":128,"description":"Who holds it; required to engage. On clear, who clears it."}` +
	`}},"annotations":{"idempotentHint":true,"openWorldHint":false}}`

// NewFamily is the family of the one verb.
func (h *Hold) NewFamily(o native.Options) *native.Verbs {
	return native.NewFamily("hold", o, native.Verb{
		Name: Verb, Entry: entry, Aliases: []string{Alias}, Effects: broker.Write, Control: true, Answer: h.answer,
		Rules: []catalog.EffectRule{reads(condition.Absent, nil), reads(condition.Eq, json.RawMessage(`"status"`))},
	})
}

// reads says that a call reads when its action is as op says.
func reads(op string, value json.RawMessage) catalog.EffectRule {
	c, err := condition.Parse("args:/action", op, value)
	if err != nil {
		panic("the condition of a verb: " + err.Error()) // constants
	}
	return catalog.EffectRule{Verb: Verb, When: []condition.Condition{c}, Is: broker.Read}
}

// answer is the verb.
func (h *Hold) answer(ctx context.Context, ask native.Ask) (any, error) {
	var args struct{ Action, Reason, SetBy string }
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	args.Reason, args.SetBy = strings.TrimSpace(args.Reason), strings.TrimSpace(args.SetBy)
	switch args.Action {
	case "", Status:
		return h.status()
	case Engage:
		switch {
		case args.Reason == "":
			return nil, missing(broker.CodeMissingReason, "reason", "Say in reason why work is held.")
		case args.SetBy == "":
			return nil, missing(broker.CodeMissingSetBy, "setBy", "Say in setBy who holds it.")
		}
		return h.engage(ctx, ask.Call.Principal, args.Reason, args.SetBy)
	case Clear:
		return h.clear(ctx, ask.Call.Principal, args.SetBy)
	}
	return nil, broker.Refuse(broker.CodeInvalidAction, "There is no such action.", map[string]any{"Actions": []string{Status, Engage, Clear}})
}

func missing(code broker.Code, argument, message string) *broker.Refusal {
	return broker.Refuse(code, message, map[string]any{"Argument": argument})
}
