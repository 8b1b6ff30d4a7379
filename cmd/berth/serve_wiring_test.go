package main

import (
	"encoding/json"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/config"
)

func TestABackendsPromoteAfterHoldsForItsVerbsUnlessARuleSaysOtherwise(t *testing.T) {
	s := config.DefaultSettings()
	s.PromoteAfter = 20 * time.Second
	s.Verbs = []config.VerbRule{{Glob: "re*", PromoteAfter: time.Minute}, {Glob: "never", PromoteAfter: config.Never}}
	tool := func(name string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)}
	}
	snapshot, quarantined := catalog.Build(1, []catalog.Source{{Backend: "b", Listed: true, Rules: rules(s),
		Tools: []broker.Tool{tool("read"), tool("write"), tool("never")}}})
	if len(quarantined) > 0 {
		t.Fatal(quarantined)
	}
	profile, _ := snapshot.Profile("b")
	for verb, want := range map[string]time.Duration{"read": time.Minute, "write": 20 * time.Second, "never": config.Never} {
		v, ok := profile.Resolve(verb)
		if !ok || v.PromoteAfter == nil || *v.PromoteAfter != want {
			t.Errorf("%s: %+v, want %s", verb, v, want)
		}
	}
}

func TestConditionsOfTheConfigurationJudgeACallByItsArguments(t *testing.T) {
	s := config.DefaultSettings()
	s.Effects = []config.EffectRule{
		{Verb: "edit", Is: broker.Read, When: []config.ConditionRule{{At: "args:/dry", Op: "eq", Value: json.RawMessage("true")}}},
		{Verb: "edit", Is: broker.Write}}
	snapshot, quarantined := catalog.Build(1, []catalog.Source{{Backend: "b", Listed: true, Rules: rules(s),
		Tools: []broker.Tool{{Name: "edit", Raw: json.RawMessage(`{"name":"edit","inputSchema":{"type":"object","properties":{"dry":{}}}}`)}}}})
	if len(quarantined) > 0 {
		t.Fatal(quarantined)
	}
	v := snapshot.Verbs()[0]
	if v.EffectsFor(json.RawMessage(`{"dry":true}`)) != broker.Read || v.EffectsFor(nil) != broker.Write {
		t.Errorf("%+v", v)
	}
}
