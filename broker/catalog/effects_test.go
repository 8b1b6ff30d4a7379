package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/condition"

	"pgregory.net/rapid"
)

const editSchema = `{"type":"object","properties":{"path":{"type":"string"},"dryRun":{"type":"boolean"},"mode":{"type":"string"}}}`

func when(t testing.TB, at, op, value string) condition.Condition {
	t.Helper()
	var v json.RawMessage
	if value != "" {
		v = json.RawMessage(value)
	}
	c, err := condition.Parse(at, op, v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func editing(rules ...EffectRule) ([]*Verb, []Quarantined) {
	s, faults := Build(1, []Source{{Backend: "fs", Listed: true, Rules: Rules{Effects: rules},
		Tools: []broker.Tool{{Name: "edit_file", Raw: json.RawMessage(`{"name":"edit_file","inputSchema":` + editSchema + `}`)}, {Name: "other", Raw: json.RawMessage(`{"name":"other","inputSchema":{}}`)}}}})
	return s.Verbs(), faults
}

func TestACallIsJudgedByItsArguments(t *testing.T) {
	dry := when(t, "args:/dryRun", condition.Eq, `true`)
	verbs, faults := editing(
		EffectRule{Verb: "edit_*", When: []condition.Condition{dry, when(t, "args:/mode", condition.Absent, "")}, Is: broker.Read},
		EffectRule{Verb: "edit_file", When: []condition.Condition{when(t, "args:/mode", condition.In, `["append","prepend"]`)}, Is: broker.Write},
		EffectRule{Verb: "edit_file", Is: broker.Write | broker.Destroy},
		EffectRule{Verb: "*", Is: broker.Exec})
	if len(faults) > 0 || len(verbs) != 2 {
		t.Fatal(verbs, faults)
	}
	edit, other := verbs[0], verbs[1]
	if other.Effects != broker.Exec || len(other.Conditional) != 0 || other.EffectsFor(nil) != broker.Exec {
		t.Errorf("other: %v", other.Effects)
	}
	if edit.Effects != broker.Write|broker.Destroy || edit.EffectsSource != FromOperator {
		t.Errorf("upper bound %v from %s", edit.Effects, edit.EffectsSource)
	}
	for args, want := range map[string]broker.Effects{
		``: broker.Write | broker.Destroy, `{"dryRun":true}`: broker.Read, `{"dryRun":false}`: broker.Write | broker.Destroy, `{"dryRun":"true"}`: broker.Write | broker.Destroy,
		`{"dryRun":true,"mode":"append"}`: broker.Write, `{"mode":"append"}`: broker.Write, `{"mode":"replace"}`: broker.Write | broker.Destroy,
		// A backend could read either value, so neither counts.
		`{"dryRun":false,"dryRun":true}`: broker.Write | broker.Destroy, `{"dryRun":true`: broker.Write | broker.Destroy,
	} {
		if got := edit.EffectsFor(json.RawMessage(args)); got != want {
			t.Errorf("%s: %v, want %v", args, got.Names(), want.Names())
		}
	}
	always, rules := edit.Permits()
	if always || len(rules) != 1 || rules[0].When[0].String() != "args:/dryRun eq true" {
		t.Errorf("permits %v, %v", always, rules)
	}
	if listed := string(edit.Listed); !strings.Contains(listed, `"readOnlyHint":false,"destructiveHint":true`) {
		t.Errorf("a list is judged by the union: %s", listed)
	}
}

func TestConditionalRulesOnlyNarrow(t *testing.T) {
	dry := []condition.Condition{when(t, "args:/dryRun", condition.Eq, `true`)}
	for _, tt := range []struct {
		name, code string
		rules      []EffectRule
	}{
		{"wider", CodeEffectsWidens, []EffectRule{{Verb: "edit_file", When: dry, Is: broker.Exec}, {Verb: "edit_file", Is: broker.Write}}},
		{"wider than a rule for fewer verbs that comes between", CodeEffectsWidens, []EffectRule{{Verb: "e*", When: dry, Is: broker.Write}, {Verb: "edit_file", Is: broker.Read}, {Verb: "e*", Is: broker.Write}}},
		{"nothing without conditions", CodeEffectsWidens, []EffectRule{{Verb: "edit_file", When: dry, Is: broker.Read}}},
		{"no such argument", CodePointer, []EffectRule{{Verb: "edit_file", When: []condition.Condition{when(t, "args:/dry_run", condition.Present, "")}, Is: broker.Read}, {Verb: "*", Is: broker.Write}}},
		{"a result", CodePointer, []EffectRule{{Verb: "edit_file", When: []condition.Condition{when(t, "result:/content", condition.Present, "")}, Is: broker.Read}, {Verb: "*", Is: broker.Write}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verbs, faults := editing(tt.rules...)
			if len(faults) != 1 || faults[0].Code != tt.code || faults[0].Extent != OutOfAll || faults[0].Verb != "edit_file" || faults[0].Fatal {
				t.Errorf("faults %+v", faults)
			}
			if len(verbs) != 1 || verbs[0].Upstream != "other" {
				t.Errorf("served: %v", verbs)
			}
		})
	}
}

func TestRulesAreJudgedWithoutACatalog(t *testing.T) {
	dry := []condition.Condition{when(t, "args:/dryRun", condition.Eq, `true`)}
	late := []condition.Condition{when(t, "result:/x", condition.Present, "")}
	for _, tt := range []struct {
		name  string
		rules []EffectRule
		bad   int // -1: none
	}{
		{"none", nil, -1},
		{"no conditions", []EffectRule{{Verb: "a", Is: broker.Exec}}, -1},
		{"the same glob", []EffectRule{{Verb: "a*", When: dry, Is: broker.Read}, {Verb: "a*", Is: broker.Write}}, -1},
		{"everything", []EffectRule{{Verb: "a*", When: dry, Is: broker.Write}, {Verb: "*", Is: broker.Write}}, -1},
		{"a glob that selects the name", []EffectRule{{Verb: "b", Is: broker.Read}, {Verb: "ab", When: dry, Is: broker.Read}, {Verb: "a*", Is: broker.Write}}, -1},
		{"none after it", []EffectRule{{Verb: "*", Is: broker.Write}, {Verb: "a", When: dry, Is: broker.Read}}, 1},
		{"wider", []EffectRule{{Verb: "a", When: dry, Is: broker.Exec}, {Verb: "a", Is: broker.Write}}, 0},
		{"a result", []EffectRule{{Verb: "a", When: late, Is: broker.Read}, {Verb: "a", Is: broker.Write}}, 0},
	} {
		at, why, ok := CheckEffectRules(tt.rules)
		if ok != (tt.bad < 0) || (!ok && (at != tt.bad || why == "")) {
			t.Errorf("%s: %d, %q, %v", tt.name, at, why, ok)
		}
	}
}

func TestNativeAndSurfaceEffectsAreTheirOwn(t *testing.T) {
	source := Source{Backend: "app", Surface: &Surface{Name: "app"}, Listed: true, Effects: map[string]broker.Effects{"edit": broker.Write},
		Conditional: map[string][]EffectRule{"edit": {{When: []condition.Condition{when(t, "args:/dryRun", condition.Eq, "true")}, Is: broker.Read}}},
		Rules:       Rules{Effects: []EffectRule{{Verb: "*", Is: broker.Exec}}},
		Tools:       []broker.Tool{{Name: "edit", Raw: json.RawMessage(`{"name":"edit","inputSchema":` + editSchema + `}`)}}}
	s, faults := Build(1, []Source{source})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	v := s.Verbs()[0]
	if v.EffectsSource != FromSurface || v.Effects != broker.Write || v.EffectsFor(json.RawMessage(`{"dryRun":true}`)) != broker.Read {
		t.Errorf("%s %v", v.EffectsSource, v.Effects)
	}
	source.Surface, source.Native = nil, true
	source.Conditional["edit"][0].Is = broker.Interrupt
	_, faults = Build(1, []Source{source})
	if len(faults) != 1 || faults[0].Code != CodeEffectsWidens || !faults[0].Fatal {
		t.Errorf("faults %+v", faults)
	}
}

func TestRulesFromAnnotationsAreWhatTrustWouldGive(t *testing.T) {
	tool := func(name, annotations string) broker.Tool {
		quoted, _ := json.Marshal(name)
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":` + string(quoted) + `,"inputSchema":{}` + annotations + `}`)}
	}
	tools := []broker.Tool{tool("read", `,"annotations":{"readOnlyHint":true}`), tool("none", ``), tool("add", `,"annotations":{"destructiveHint":false}`), tool("a*[b]?\\", `,"annotations":{}`)}
	rules := RulesFromAnnotations(tools)
	s, _ := Build(1, []Source{{Backend: "x", Listed: true, Tools: tools, Rules: Rules{TrustAnnotations: true}}})
	r, _ := Build(1, []Source{{Backend: "x", Listed: true, Tools: tools, Rules: Rules{Effects: rules}}})
	if len(rules) != 3 || len(s.Verbs()) != 4 {
		t.Fatalf("rules %v", rules)
	}
	for i, v := range s.Verbs() {
		if w := r.Verbs()[i]; v.Effects != w.Effects || v.Name != w.Name {
			t.Errorf("%s: trusted %v, by rule %v", v.Name, v.Effects.Names(), w.Effects.Names())
		}
	}
}

// TestARuleNeverWidens draws rules and calls: whatever the arguments, a verb
// that is served does no more than its upper bound, and what EffectsFor says is
// what the first rule whose conditions hold says.
func TestARuleNeverWidens(t *testing.T) {
	conditions := []condition.Condition{when(t, "args:/dryRun", condition.Eq, `true`), when(t, "args:/mode", condition.Present, ""), when(t, "args:/path", condition.Prefix, `"/a"`)}
	every := []string{`{}`, `{"dryRun":true}`, `{"mode":""}`, `{"path":"/ab"}`, `{"dryRun":true,"mode":"x"}`, `{"dryRun":true,"path":"/a"}`, `{"mode":"x","path":"/a"}`, `{"dryRun":true,"mode":"x","path":"/a"}`}
	rapid.Check(t, func(t *rapid.T) {
		var rules []EffectRule
		for range rapid.IntRange(1, 4).Draw(t, "rules") {
			r := EffectRule{Verb: rapid.SampledFrom([]string{"edit_file", "*", "no"}).Draw(t, "glob"), Is: broker.Effects(rapid.IntRange(0, 31).Draw(t, "is"))}
			for _, c := range conditions {
				if rapid.IntRange(0, 2).Draw(t, "with") == 0 {
					r.When = append(r.When, c)
				}
			}
			rules = append(rules, r)
		}
		verbs, _ := editing(rules...)
		for _, v := range verbs {
			if v.Upstream != "edit_file" {
				continue
			}
			for _, args := range every {
				got := v.EffectsFor(json.RawMessage(args))
				if got&^v.Effects != 0 {
					t.Fatalf("%s does %v, more than %v", args, got.Names(), v.Effects.Names())
				}
				want := broker.UnknownEffects
				for _, r := range rules {
					if r.Verb != "no" && condition.All(r.When, condition.Call{Arguments: json.RawMessage(args)}) {
						want = r.Is
						break
					}
				}
				if got != want {
					t.Fatalf("%s does %v, want %v", args, got.Names(), want.Names())
				}
			}
		}
	})
}
