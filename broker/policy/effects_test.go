package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
)

// editing has a verb that reads under one argument and writes under any other.
func editing(t *testing.T) *catalog.Profile {
	t.Helper()
	dry, err := condition.Parse("args:/dryRun", condition.Eq, json.RawMessage(`true`))
	if err != nil {
		t.Fatal(err)
	}
	tool := func(name string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object","properties":{"dryRun":{"type":"boolean"}}}}`)}
	}
	s, faults := catalog.Build(1, []catalog.Source{{Backend: "fs", Listed: true, Tools: []broker.Tool{tool("edit"), tool("preview"), tool("new")}, Rules: catalog.Rules{Effects: []catalog.EffectRule{
		{Verb: "edit", When: []condition.Condition{dry}, Is: broker.Read}, {Verb: "edit", Is: broker.Write | broker.Destroy}, {Verb: "preview", Is: broker.Read}}}}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	p, _ := s.Profile("")
	return p
}

func TestACallIsJudgedByItsArguments(t *testing.T) {
	all := editing(t)
	limited := all.Limited(catalog.Limit{All: true})
	for _, tt := range []struct {
		verb, arguments string
		effects         broker.Effects
		readOnly        string // part of the refusal in a read-only session; empty: it passes
	}{
		{"fs__edit", `{"dryRun":true}`, broker.Read, ""},
		{"fs__edit", `{"dryRun":false}`, broker.Write | broker.Destroy, `"reads_when":[[{"at":"args:/dryRun","op":"eq","value":true}]]`},
		{"fs__edit", ``, broker.Write | broker.Destroy, `"effects":["write","destroy"]`},
		{"fs__edit", `{"dryRun":false,"dryRun":true}`, broker.Write | broker.Destroy, `"code":"read_only_session"`},
		{"fs__preview", `{}`, broker.Read, ""},
		{"fs__new", `{}`, broker.Write, `"effects":["write"]`}, // nobody said what it does
	} {
		in := Input{Profile: all, Principal: broker.LocalOperator, Name: tt.verb, Arguments: json.RawMessage(tt.arguments)}
		plan, refusal := Check(in)
		if refusal != nil || plan.Effects != tt.effects {
			t.Errorf("%s %s: %v, %v", tt.verb, tt.arguments, plan.Effects.Names(), refusal)
		}
		in.Profile = limited
		plan, refusal = Check(in)
		if (refusal == nil) != (tt.readOnly == "") || (refusal != nil && !strings.Contains(string(refusal.JSON()), tt.readOnly)) {
			t.Errorf("read-only, %s %s: %+v, %v", tt.verb, tt.arguments, plan, refusal)
		}
	}
}

// TestAReadOnlyListHasEveryVerbWithAPermittedCall: exactly those.
func TestAReadOnlyListHasEveryVerbWithAPermittedCall(t *testing.T) {
	page, refusal := editing(t).Limited(catalog.Limit{All: true}).Page("")
	if refusal != nil {
		t.Fatal(refusal)
	}
	for name, want := range map[string]bool{"fs__edit": true, "fs__preview": true, "fs__new": false} {
		if strings.Contains(string(page), `"`+name+`"`) != want {
			t.Errorf("%s is listed: %v", name, !want)
		}
	}
}

func TestTheSchemaIsCheckedBeforeTheEffectsOfTheArguments(t *testing.T) {
	_, refusal := Check(Input{Profile: editing(t).Limited(catalog.Limit{All: true}), Principal: broker.LocalOperator, Name: "fs__edit", Arguments: json.RawMessage(`{"dryRun":7}`)})
	if refusal == nil || refusal.Code != broker.CodeInvalidArgument {
		t.Error(refusal)
	}
}
