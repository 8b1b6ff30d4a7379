package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
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
