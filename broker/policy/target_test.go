package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/policy/proof"
)

// passing is a catalog with the two verbs that pass calls on, one verb of each
// effect, and one that reads under one argument only.
func passing(t testing.TB) *catalog.Snapshot {
	t.Helper()
	entry := func(name, schema string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":` + schema + `}`)}
	}
	dry, err := condition.Parse("args:/dryRun", condition.Eq, json.RawMessage("true"))
	if err != nil {
		t.Fatal(err)
	}
	pass := `{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"},"options":{"type":"object"}},"required":["name"]}`
	open := `{"type":"object","properties":{"path":{"type":"string"},"dryRun":{"type":"boolean"}}}`
	fs := catalog.Source{Backend: "fs", Listed: true, Rules: catalog.Rules{Effects: []catalog.EffectRule{
		{Verb: "edit", When: []condition.Condition{dry}, Is: broker.Read}, {Verb: "edit", Is: broker.Write | broker.Destroy}}}}
	for _, name := range []string{"read", "session", "write", "destroy", "exec", "interrupt"} {
		is, _, _ := broker.ParseEffects([]string{name})
		fs.Rules.Effects = append(fs.Rules.Effects, catalog.EffectRule{Verb: name, Is: is})
		fs.Tools = append(fs.Tools, entry(name, open))
	}
	fs.Tools = append(fs.Tools, entry("edit", open), entry("launch_plan", open)) // the last has no rule
	s, faults := catalog.Build(1, []catalog.Source{
		{Backend: "berth", Native: true, Family: "catalog", Listed: true, Tools: []broker.Tool{entry("call_read", pass), entry("call_write", pass)},
			Effects: map[string]broker.Effects{"call_read": broker.Session, "call_write": broker.Write | broker.Destroy},
			Passes:  map[string]catalog.Pass{"call_read": catalog.PassReads, "call_write": catalog.PassAll}},
		fs,
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

func checkIn(t testing.TB, s *catalog.Snapshot, limit catalog.Limit, name, arguments, meta string) (Plan, *broker.Refusal) {
	t.Helper()
	p, _ := s.Profile(catalog.Full)
	return Check(Input{Profile: p.Limited(limit), Principal: broker.LocalOperator, Name: name, Arguments: json.RawMessage(arguments), Meta: json.RawMessage(meta)})
}

func codeOf(r *broker.Refusal) broker.Code {
	if r == nil {
		return ""
	}
	return r.Code
}

// TestAMetaCallIsItsTargets: what is planned through call_write is, its way
// aside, what the same call by its name is.
func TestAMetaCallIsItsTargets(t *testing.T) {
	s := passing(t)
	for _, verb := range []string{"read", "session", "write", "destroy", "exec", "interrupt", "edit", "launch_plan", "none"} {
		for _, arguments := range []string{``, `{"path":"a"}`, `{"path":7}`, `{"dryRun":true}`} {
			name := "fs__" + verb
			direct, no := checkIn(t, s, catalog.Limit{}, name, arguments, `{"berth/idempotencyKey":"k"}`)
			passed := fmt.Sprintf(`{"name":%q,"options":{"idempotencyKey":"k"}%s}`, name, map[bool]string{true: "", false: `,"arguments":` + arguments}[arguments == ""])
			through, also := checkIn(t, s, catalog.Limit{}, "call_write", passed, ``)
			if codeOf(no) != codeOf(also) || (no != nil && string(no.JSON()) != string(also.JSON())) {
				t.Errorf("%s %s: %v and %v", name, arguments, no, also)
			}
			if no == nil && (through.Verb != direct.Verb || through.Effects != direct.Effects || string(through.Arguments) != cmp.Or(string(direct.Arguments), "{}") ||
				through.Digest != direct.Digest || through.Lane != direct.Lane || through.Via != "call_write" || direct.Via != catalog.ViaDirect) {
				t.Errorf("%s %s: %+v and %+v", name, arguments, direct, through)
			}
			_, read := checkIn(t, s, catalog.Limit{}, "call_read", passed, ``)
			want := codeOf(no)
			if no == nil && !direct.Effects.ReadOnly() {
				want = broker.CodeEffectsExceedRead
			}
			if codeOf(read) != want {
				t.Errorf("call_read of %s %s: %v, want %s", name, arguments, read, want)
			}
		}
	}
}

// TestAReadOnlyCallerChangesNothing holds for each effect, whatever the
// arguments are worth and whichever way the call comes.
func TestAReadOnlyCallerChangesNothing(t *testing.T) {
	s := passing(t)
	for _, arguments := range []string{``, `{"path":"a"}`, `{"path":7}`} {
		for _, verb := range []string{"write", "destroy", "exec", "interrupt", "launch_plan"} {
			for name, passed := range map[string]string{"fs__" + verb: arguments, "call_read": `{"name":"fs__` + verb + `"}`, "call_write": `{"name":"fs__read"}`} {
				if _, no := checkIn(t, s, catalog.Limit{All: true}, name, passed, ``); codeOf(no) != broker.CodeReadOnly {
					t.Errorf("%s of %s: %v", name, verb, no)
				}
			}
		}
	}
	for _, name := range []string{"fs__read", "fs__session"} {
		if _, no := checkIn(t, s, catalog.Limit{All: true}, name, ``, ``); no != nil {
			t.Errorf("%s: %v", name, no)
		}
	}
	for arguments, want := range map[string]broker.Code{`{"dryRun":true}`: "", `{"dryRun":"true"}`: broker.CodeInvalidArgument, `{"dryRun":false}`: broker.CodeReadOnly, ``: broker.CodeReadOnly} {
		through := `{"name":"fs__edit"}`
		if arguments != "" {
			through = `{"name":"fs__edit","arguments":` + arguments + `}`
		}
		_, direct := checkIn(t, s, catalog.Limit{All: true}, "fs__edit", arguments, ``)
		_, passed := checkIn(t, s, catalog.Limit{All: true}, "call_read", through, ``)
		if codeOf(direct) != want || codeOf(passed) != want {
			t.Errorf("edit %s: %v, %v, want %q", arguments, direct, passed, want)
		}
		if want == broker.CodeReadOnly && !strings.Contains(string(direct.JSON()), "args:/dryRun") {
			t.Errorf("the condition is not named: %s", direct.JSON())
		}
	}
}

func TestWhatAMetaCallIsRefusedFor(t *testing.T) {
	s := passing(t)
	for name, tt := range map[string]struct {
		arguments, meta string
		want            broker.Code
	}{
		"no name":                      {`{}`, ``, broker.CodeInvalidArguments},
		"a blank name":                 {`{"name":" "}`, ``, broker.CodeInvalidArguments},
		"a name twice":                 {`{"name":"fs__read","name":"fs__write"}`, ``, broker.CodeInvalidArguments},
		"arguments as a text":          {`{"name":"fs__read","arguments":"{}"}`, ``, broker.CodeInvalidArgument},
		"arguments as an empty text":   {`{"name":"fs__read","arguments":""}`, ``, broker.CodeInvalidArgument},
		"options as a list":            {`{"name":"fs__read","options":[]}`, ``, broker.CodeInvalidArgument},
		"a passing verb":               {`{"name":"berth__call_read","arguments":{"name":"fs__read"}}`, ``, broker.CodeMetaRecursion},
		"an unknown one":               {`{"name":"fs__raed"}`, ``, broker.CodeVerbUnknown},
		"an option against _meta":      {`{"name":"fs__read","options":{"idempotencyKey":"a"}}`, `{"berth/idempotencyKey":"b"}`, broker.CodeInvalidArgument},
		"the same option in _meta":     {`{"name":"fs__read","options":{"idempotencyKey":"a"}}`, `{"berth/idempotencyKey":"a"}`, ""},
		"a budget that is none":        {`{"name":"fs__read","options":{"resultTokens":"many"}}`, ``, broker.CodeInvalidArgument},
		"an option of nobody's":        {`{"name":"fs__read","options":{"resultTokns":1}}`, ``, broker.CodeInvalidArgument},
		"what belongs into arguments":  {`{"name":"fs__read","path":"a"}`, ``, broker.CodeInvalidArgument},
		"arguments twice":              {`{"name":"fs__read","arguments":{},"arguments":{}}`, ``, broker.CodeInvalidArgument},
		"a misfit of nobody's":         {`{"name":"fs__raed","arguments":"{}"}`, ``, broker.CodeVerbUnknown},
		"absent arguments and options": {`{"name":"mcp__berth__fs__read","arguments":null,"options":null}`, ``, ""},
	} {
		if _, no := checkIn(t, s, catalog.Limit{}, "call_read", tt.arguments, tt.meta); codeOf(no) != tt.want {
			t.Errorf("%s: %v, want %q", name, no, tt.want)
		}
	}
}

// TestAWrongOptionIsNamedWhereItStands: a caller who cannot set `_meta` is not
// told of a place there.
func TestAWrongOptionIsNamedWhereItStands(t *testing.T) {
	s := passing(t)
	for _, tt := range []struct{ name, arguments, meta, pointer, rule string }{
		{"call_read", `{"name":"fs__read","options":{"resultTokens":"many"}}`, ``, "/options/resultTokens", "type"},
		{"call_read", `{"name":"fs__read"}`, `{"berth/resultTokens":"many"}`, "/_meta/berth~1resultTokens", "type"},
		{"fs__read", ``, `{"berth/resultTokens":0}`, "/_meta/berth~1resultTokens", "type"},
		{"call_read", `{"name":"fs__read","options":{"expectedRuntimeId":""}}`, ``, "/options/expectedRuntimeId", "type"},
		{"call_read", `{"name":"fs__read","options":{"resultTokns":600}}`, ``, "/options/resultTokns", "additionalProperties"},
		{"call_read", `{"name":"fs__read","arguments":"{}"}`, ``, "/arguments", "type"},
		{"call_read", `{"name":"fs__read","path":"a"}`, ``, "/path", "additionalProperties"},
		{"call_write", `{"name":"fs__write","a/b~c":1,"arguments":{}}`, ``, "/a~1b~0c", "additionalProperties"},
		{"call_read", `{"name":"fs__read","arguments":{},"arguments":{}}`, ``, "/arguments", "unique"},
	} {
		_, no := checkIn(t, s, catalog.Limit{}, tt.name, tt.arguments, tt.meta)
		if codeOf(no) != broker.CodeInvalidArgument || !strings.Contains(string(no.JSON()), `"errors":[{"pointer":"`+tt.pointer+`","rule":"`+tt.rule+`"`) {
			t.Errorf("%s %s: %v", tt.arguments, tt.meta, no)
		}
	}
	// What is meant for nobody is refused as the broker's own verb refuses.
	if _, no := checkIn(t, s, catalog.Limit{}, "call_read", `{"arguments":"{}"}`, ``); codeOf(no) != broker.CodeInvalidArguments ||
		!strings.Contains(string(no.NativeJSON()), `"Violations":[{"Path":"/name","Problem":"required: wanted a value"}]`) {
		t.Errorf("%v", no)
	}
}

// TestARefusalNamesTheVerbAsItsCallerHasIt: the canonical name is unknown in a
// backend's own profile.
func TestARefusalNamesTheVerbAsItsCallerHasIt(t *testing.T) {
	own, _ := passing(t).Profile("fs")
	pinned, _ := catalog.Build(1, []catalog.Source{{Backend: "fs", Listed: true, Rules: catalog.Rules{Pin: true},
		Tools:    []broker.Tool{{Name: "write", Raw: json.RawMessage(`{"name":"write","inputSchema":{"type":"object"}}`)}},
		Accepted: []broker.Tool{{Name: "write", Raw: json.RawMessage(`{"name":"write","description":"Was.","inputSchema":{"type":"object"}}`)}}}})
	changed, _ := pinned.Profile("fs")
	for _, tt := range []struct {
		name, called string
		profile      *catalog.Profile
		gate         Gate
		code         broker.Code
	}{
		{"no call is permitted", "write", own.Limited(catalog.Limit{All: true}), nil, broker.CodeReadOnly},
		{"this call is not", "edit", own.Limited(catalog.Limit{All: true}), nil, broker.CodeReadOnly},
		{"another entry than was accepted", "write", changed, nil, broker.CodeVerbChanged},
		{"a target that was not read", "write", own, unread(passing(t)), broker.CodeTargetsNotReady},
	} {
		_, no := Check(Input{Profile: tt.profile, Principal: broker.LocalOperator, Name: tt.called, Arguments: json.RawMessage(`{"path":"/a"}`), Gate: tt.gate})
		if codeOf(no) != tt.code || no.Detail["verb"] != tt.called || strings.Contains(no.Message, "fs__") {
			t.Errorf("%s: %v", tt.name, no)
		}
	}
}

// gate is one that nobody has passed.
type gate struct {
	rules *proof.Rules
	marks *proof.Marks
}

func (g gate) Rules() *proof.Rules { return g.rules }

func (g gate) Look(_ string, who proof.Caller, d proof.Demand) []proof.Unproven {
	return g.marks.Look(time.Time{}, who, d)
}

func unread(s *catalog.Snapshot) Gate {
	rules, _ := proof.Compile(proof.Config{Kinds: map[string]proof.Kind{"file": {Canonical: "exact"}},
		Needs: []proof.Need{{Verb: "fs__write", Kind: "file", Targets: []string{"args:/path"}}}}, s.Verbs())
	return gate{rules, proof.NewMarks(rules.Kinds())}
}
