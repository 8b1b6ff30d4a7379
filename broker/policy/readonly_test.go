package policy

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
)

// limitedSnapshot has the broker's own verbs, a local app, a backend that may
// only read and one that may do anything.
func limitedSnapshot(t *testing.T) *catalog.Snapshot {
	t.Helper()
	tool := func(name string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object","required":["x"]}}`)}
	}
	surface := &catalog.Surface{Name: "app", Held: []string{"start"}, Refuse: func(string, *broker.Refusal) json.RawMessage { return nil }}
	s, faults := catalog.Build(1, []catalog.Source{
		{Backend: "berth", Native: true, Family: "jobs", Listed: true, Tools: []broker.Tool{tool("look"), tool("change")},
			Effects: map[string]broker.Effects{"look": broker.Session, "change": broker.Write}, Beside: []string{"look"}},
		{Backend: "a", Listed: true, Surface: surface, Tools: []broker.Tool{tool("get"), tool("start")},
			Effects: map[string]broker.Effects{"get": broker.Read, "start": broker.Exec}, Rules: catalog.Rules{Effects: []catalog.EffectRule{{Verb: "*", Is: broker.Read}}}},
		{Backend: "r", Listed: true, Tools: []broker.Tool{tool("get"), tool("set")}, Rules: catalog.Rules{ReadOnly: true, Effects: []catalog.EffectRule{{Verb: "get", Is: broker.Read}}}},
		{Backend: "x", Listed: true, Tools: []broker.Tool{tool("get"), tool("set")}, Rules: catalog.Rules{Effects: []catalog.EffectRule{{Verb: "get", Is: broker.Read}}}},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

func TestAReadOnlyListIsWhatMayBeCalled(t *testing.T) {
	tests := []struct {
		name, profile string
		limit         catalog.Limit
		listed        string
		denied        []string
	}{
		{"only the backend's own rule", "", catalog.Limit{}, "a__get a__start change look r__get x__get x__set", []string{"r__set"}},
		{"one surface", "", catalog.Limit{Surface: "app"}, "a__get change look r__get x__get x__set", []string{"r__set", "a__start"}},
		{"another surface", "", catalog.Limit{Surface: "other"}, "a__get a__start change look r__get x__get x__set", []string{"r__set"}},
		{"everything", "", catalog.Limit{All: true}, "a__get look r__get x__get", []string{"r__set", "a__start", "x__set", "change", "berth__change", "berth.a__start"}},
		{"a surface's own profile", "a", catalog.Limit{Surface: "app"}, "get", []string{"start"}},
		{"nothing is added to a surface's own profile", "a", catalog.Limit{}, "get start", nil},
		{"the profile of a backend that may only read", "r", catalog.Limit{}, "get look", []string{"set"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := limitedSnapshot(t).Profile(tt.profile)
			if !ok {
				t.Fatal("no such profile")
			}
			limited := p.Limited(tt.limit)
			if again := p.Limited(tt.limit); again != limited {
				t.Error("the same limit gives another profile")
			}
			page, refusal := limited.Page("")
			if refusal != nil {
				t.Fatal(refusal)
			}
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(page, &list); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
				if _, refusal := Check(Input{Profile: limited, Principal: broker.LocalOperator, Name: tool.Name, Arguments: json.RawMessage(`{"x":1}`)}); refusal != nil {
					t.Errorf("%s is listed and refused: %v", tool.Name, refusal)
				}
			}
			if got := strings.Join(names, " "); got != tt.listed {
				t.Errorf("listed %s, want %s", got, tt.listed)
			}
			for _, name := range tt.denied {
				for _, arguments := range []string{`{"x":1}`, `{}`, `[]`, ``} { // good and bad ones: they are not looked at
					_, refusal := Check(Input{Profile: limited, Principal: broker.LocalOperator, Name: name, Arguments: json.RawMessage(arguments)})
					if refusal == nil || refusal.Code != broker.CodeReadOnly {
						t.Errorf("%s %s: %v", name, arguments, refusal)
					}
				}
			}
			if _, refusal := Check(Input{Profile: limited, Principal: broker.LocalOperator, Name: "nothing"}); refusal == nil || refusal.Code != broker.CodeVerbUnknown {
				t.Errorf("an unknown name: %v", refusal)
			}
		})
	}
}

func TestASurfaceDeclaresItsVerbs(t *testing.T) {
	p, _ := limitedSnapshot(t).Profile("a")
	start, _ := p.Resolve("start")
	get, _ := p.Resolve("get")
	if start.Effects != broker.Exec || start.EffectsSource != catalog.FromSurface || !start.Held || get.Held || start.TakesTask() {
		t.Errorf("%+v", start)
	}
	if p.Surface() == nil || p.SurfaceOf(nil) != p.Surface() || p.SurfaceOf(get) != p.Surface() {
		t.Error("its own profile is not its surface's")
	}
	merged, _ := limitedSnapshot(t).Profile("")
	if x, _ := merged.Resolve("x__get"); merged.Surface() != nil || merged.SurfaceOf(x) != nil || merged.SurfaceOf(start) != start.Surface {
		t.Error("the merged profile is no surface's, but its verbs may be")
	}
	if _, refusal := Check(Input{Profile: p, Principal: broker.LocalOperator, Name: "get", Arguments: json.RawMessage(`{}`)}); refusal != nil {
		t.Errorf("the surface checks its own arguments: %v", refusal)
	}
}

// TestAReadOnlyListIsTheVerbsWithAPermittedRule holds for random rules, with and
// without conditions: what the configuration permits decides, and nothing else.
func TestAReadOnlyListIsTheVerbsWithAPermittedRule(t *testing.T) {
	dry, err := condition.Parse("args:/dry", condition.Eq, json.RawMessage("true"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := []broker.Effects{broker.Read, broker.Session, broker.Write, broker.Write | broker.Destroy, broker.Exec, broker.Interrupt}
	rapid.Check(t, func(r *rapid.T) {
		source, permitted := catalog.Source{Backend: "b", Listed: true}, []string{}
		for i := range rapid.IntRange(0, 12).Draw(r, "verbs") {
			name := "v" + strconv.Itoa(i)
			source.Tools = append(source.Tools, broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object","properties":{"dry":{"type":"boolean"}}}}`)})
			if rapid.Bool().Draw(r, "unknown") {
				continue // nobody says what it does
			}
			is := rapid.SampledFrom(kinds).Draw(r, "is")
			reads := is.ReadOnly()
			if !reads && rapid.Bool().Draw(r, "conditional") {
				source.Rules.Effects = append(source.Rules.Effects, catalog.EffectRule{Verb: name, When: []condition.Condition{dry}, Is: broker.Read})
				reads = true
			}
			source.Rules.Effects = append(source.Rules.Effects, catalog.EffectRule{Verb: name, Is: is})
			if reads {
				permitted = append(permitted, "b__"+name)
			}
		}
		s, faults := catalog.Build(1, []catalog.Source{source})
		if len(faults) > 0 {
			r.Fatal(faults)
		}
		full, _ := s.Profile(catalog.Full)
		p := full.Limited(catalog.Limit{All: true})
		var listed []string
		for _, e := range p.Entries() {
			listed = append(listed, e.Name)
		}
		slices.Sort(permitted)
		if !slices.Equal(listed, permitted) {
			r.Fatalf("listed %q, permitted %q", listed, permitted)
		}
		for _, v := range s.Verbs() {
			_, no := Check(Input{Profile: p, Principal: broker.LocalOperator, Name: v.Name, Arguments: json.RawMessage(`{"dry":"wrong"}`)})
			if denied := codeOf(no) == broker.CodeReadOnly; denied == slices.Contains(permitted, v.Name) {
				r.Fatalf("%s: %v", v.Name, no)
			}
		}
	})
}

// TestCallWriteIsInNoReadOnlyList and a verb that arrives tomorrow without
// effects is refused there, however harmless its name; one that is declared a
// read is not, however active.
func TestCallWriteIsInNoReadOnlyList(t *testing.T) {
	p, _ := passing(t).Profile(catalog.Full)
	p = p.Limited(catalog.Limit{All: true})
	for _, e := range p.Entries() {
		if e.Name == "call_write" {
			t.Error("call_write is listed")
		}
	}
	if _, no := Check(Input{Profile: p, Principal: broker.LocalOperator, Name: "call_write", Arguments: json.RawMessage(`{"name":"fs__read"}`)}); codeOf(no) != broker.CodeReadOnly {
		t.Errorf("call_write: %v", no)
	}
	entry := func(name string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)}
	}
	today := catalog.Source{Backend: "x", Listed: true, Tools: []broker.Tool{entry("delete_preview")}, Rules: catalog.Rules{Effects: []catalog.EffectRule{{Verb: "delete_preview", Is: broker.Read}}}}
	tomorrow := today
	tomorrow.Tools = append(slices.Clone(today.Tools), entry("get_status"))
	for _, source := range []catalog.Source{today, tomorrow} {
		s, _ := catalog.Build(1, []catalog.Source{source})
		full, _ := s.Profile(catalog.Full)
		reader := full.Limited(catalog.Limit{All: true})
		if _, no := Check(Input{Profile: reader, Principal: broker.LocalOperator, Name: "x__delete_preview"}); no != nil {
			t.Errorf("a read that sounds active: %v", no)
		}
		want := map[int]broker.Code{1: broker.CodeVerbUnknown, 2: broker.CodeReadOnly}[len(source.Tools)]
		if _, no := Check(Input{Profile: reader, Principal: broker.LocalOperator, Name: "x__get_status"}); codeOf(no) != want {
			t.Errorf("a newly arrived verb: %v, want %s", no, want)
		}
	}
}
