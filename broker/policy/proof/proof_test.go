package proof

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/shape"
)

const (
	pathSchema = `{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"},"tail":{"type":"number"}},"required":["path"],"additionalProperties":false}`
	moveSchema = `{"type":"object","properties":{"source":{"type":"string"},"destination":{"type":"string"}}}`
	editSchema = `{"type":"object","properties":{"path":{"type":"string"},"etag":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"}}}}}}`
)

func verbs(t testing.TB) []*catalog.Verb {
	t.Helper()
	tool := func(name, schema string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":` + schema + `,"outputSchema":{"type":"object","properties":{"etag":{},"files":{"type":"array","items":{"properties":{"path":{}}}}}}}`)}
	}
	s, faults := catalog.Build(1, []catalog.Source{
		{Backend: "fs", Listed: true, Tools: []broker.Tool{tool("read_text_file", pathSchema), tool("write_file", editSchema), tool("edit_file", editSchema), tool("move_file", moveSchema), tool("sync", `{"type":"object"}`), tool("list", pathSchema)}},
		{Backend: "db", Listed: true, Tools: []broker.Tool{tool("write_row", editSchema)}}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s.Verbs()
}

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

// filesystem is the configuration of the contract.
func filesystem(t testing.TB) Config {
	return Config{
		Kinds: map[string]Kind{"file-read": {Canonical: "path", Base: "/srv/project"}},
		Grants: []Grant{
			{Verb: "fs__read_text_file", Kind: "file-read", Targets: []string{"args:/path"}, When: []condition.Condition{when(t, "args:/head", condition.Absent, ""), when(t, "args:/tail", condition.Absent, "")}},
			{Verb: "fs__read_text_file", Kind: "file-read", Targets: []string{"args:/path"}, OnError: true, When: []condition.Condition{when(t, "result:/content/0/text", condition.Contains, `"ENOENT"`)}}},
		Needs: []Need{
			{Verb: "fs__write_file", Kind: "file-read", Targets: []string{"args:/path"}},
			{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/path"}},
			{Verb: "fs__move_file", Kind: "file-read", Targets: []string{"args:/source", "args:/destination"}}},
	}
}

func compile(t testing.TB, c Config) *Rules {
	t.Helper()
	r, faults := Compile(c, verbs(t))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return r
}

var (
	alice = Caller{Principal: broker.Principal{Tenant: "t", User: "alice"}, Session: "s1"}
	bob   = Caller{Principal: broker.Principal{Tenant: "t", User: "bob"}, Session: "s2"}
	noon  = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

func direct(v *catalog.Verb) (string, string, bool) { return v.Name, "direct", true }

func TestTheGateIsOffUnlessItIsTurnedOn(t *testing.T) {
	for setting, want := range map[string]bool{"": false, "0": false, "false": false, " FALSE ": false, "1": true, "true": true, "on": true, "off": true} {
		if On(false, setting) != want {
			t.Errorf("%q: %v", setting, !want)
		}
	}
	if !On(true, "0") {
		t.Error("the environment does not turn off what configuration turned on")
	}
	var off *Rules
	if !off.Demand("fs__write_file", broker.Write, nil).Empty() || off.Grants("fs__read_text_file", condition.Call{}, false) != nil {
		t.Error("the gate is on without rules")
	}
}

func TestReadBeforeWrite(t *testing.T) {
	r := compile(t, filesystem(t))
	m := NewMarks(r.Kinds())
	write := func(args string) Demand { return r.Demand("fs__write_file", broker.Write, json.RawMessage(args)) }
	unproven := m.Look(noon, alice, write(`{"path":"a.go"}`))
	refusal := r.Refuse(write(`{"path":"a.go"}`), unproven, direct)
	if refusal.Code != broker.CodeTargetsNotReady {
		t.Fatal(refusal)
	}
	// The repair, made as given, lets the unchanged write pass.
	repair := refusal.Detail["repair"].([]Call)
	if len(repair) != 1 || repair[0].Name != "fs__read_text_file" || string(repair[0].Arguments) != `{"path":"/srv/project/a.go"}` || repair[0].Via != "direct" {
		t.Fatalf("repair %+v", repair)
	}
	shown := r.Grants(repair[0].Name, condition.Call{Arguments: repair[0].Arguments, Result: json.RawMessage(`{"content":[]}`)}, false)
	m.Grant(noon, noon, alice, "", shown)
	if left := m.Look(noon, alice, write(`{"path":"./x/../a.go"}`)); left != nil {
		t.Errorf("unproven %+v", left)
	}
	// A new file, once its caller was told that it is absent.
	absent := json.RawMessage(`{"content":[{"type":"text","text":"Error: ENOENT: no such file"}],"isError":true}`)
	for name, got := range map[string]int{
		"absent":        len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{"path":"new.go"}`), Result: absent}, true)) - 1,
		"no error":      len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{"path":"new.go","head":1}`), Result: absent}, false)),
		"another error": len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{"path":"new.go"}`), Result: json.RawMessage(`{"content":[{"text":"EACCES"}]}`)}, true)),
		"a part":        len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{"path":"a.go","head":3}`), Result: json.RawMessage(`{}`)}, false)),
		"no target":     len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{}`), Result: json.RawMessage(`{}`)}, false)),
		"another verb":  len(r.Grants("fs__list", condition.Call{Arguments: json.RawMessage(`{"path":"a.go"}`)}, false)),
	} {
		if got != 0 {
			t.Errorf("%s: off by %d", name, got)
		}
	}
	// Only what exceeds the session is held back.
	for _, e := range []broker.Effects{broker.Read, broker.Session} {
		if !r.Demand("fs__edit_file", e, json.RawMessage(`{}`)).Empty() {
			t.Errorf("effects %v need a proof", e.Names())
		}
	}
}

// lengths counts a token a byte.
type lengths struct{}

func (lengths) Count(text string) shape.Count { return shape.Count{Tokens: len(text), Exact: true} }

// TestACutAnswerGrantsWhenItsLastPartWasDelivered goes the way of an answer:
// shaped, kept, asked for part by part.
func TestACutAnswerGrantsWhenItsLastPartWasDelivered(t *testing.T) {
	r := compile(t, filesystem(t))
	m := NewMarks(r.Kinds())
	store := shape.NewStore(shape.StoreOptions{})
	call := conditionCall(`{"path":"a.go"}`, `{"content":[{"type":"text","text":"`+strings.Repeat("a line\\n", 300)+`"}]}`)
	shaped, err := shape.Shape(call.Result, shape.Limits{Budget: 700, CanMore: true, Until: store.Until(noon)}, lengths{}, func() (string, error) { return "m_a", nil })
	if err != nil || len(shaped.Keep) != 1 {
		t.Fatal(err, len(shaped.Keep))
	}
	store.Put(noon, alice.Principal, shaped.Keep, r.Grants("fs__read_text_file", call, false))
	write := r.Demand("fs__write_file", broker.Write, call.Arguments)
	parts := 0
	for complete := false; !complete; parts++ {
		if got := reasons(m.Look(noon, alice, write)); got != "[no_mark]" {
			t.Fatalf("after %d parts: %s", parts, got)
		}
		kept, next, refusal := store.Find(noon, alice.Principal, "m_a")
		if refusal != nil {
			t.Fatal(refusal)
		}
		page, err := kept.Page(next, shape.Limits{}, lengths{}, store.Child(noon, alice.Principal, "m_a"), nil)
		if err != nil || parts > 100 {
			t.Fatal(err, parts)
		}
		var then any
		if then, complete = store.Delivered(noon, alice.Principal, "m_a", page); complete {
			m.Grant(noon, noon, alice, "", then.([]Target))
		}
	}
	if got := reasons(m.Look(noon, alice, write)); got != "[]" || parts < 2 {
		t.Errorf("after %d parts: %s", parts, got)
	}
}

func TestTheRefusalIsTheContracts(t *testing.T) {
	r := compile(t, filesystem(t))
	m := NewMarks(r.Kinds())
	d := r.Demand("fs__move_file", broker.Write|broker.Destroy, json.RawMessage(`{"source":"a.go","destination":"/srv/project/b.go"}`))
	m.Grant(noon, noon, alice, "", d.Targets[1:])
	got := string(r.Refuse(d, m.Look(noon, alice, d), direct).JSON())
	want := `{"code":"targets_not_ready","message":"1 of 2 targets of fs__move_file has not been read by you.","detail":{"kind":"file-read",` +
		`"repair":[{"name":"fs__read_text_file","arguments":{"path":"/srv/project/a.go"},"via":"direct"}],"targets":2,"then":"repeat the call unchanged",` +
		`"unproven":[{"target":"/srv/project/a.go","kind":"file-read","reason":"no_mark"}],"verb":"fs__move_file"},"retryable":true}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTheSentenceFitsTheReasons: who read a target and is refused all the same is
// not told that he has not.
func TestTheSentenceFitsTheReasons(t *testing.T) {
	r := compile(t, filesystem(t))
	d := r.Demand("fs__move_file", broker.Write|broker.Destroy, json.RawMessage(`{"source":"/a","destination":"/b"}`))
	one := r.Demand("fs__write_file", broker.Write, json.RawMessage(`{"path":"/a"}`))
	at := func(d Demand, reasons ...Reason) (out []Unproven) {
		for i, reason := range reasons {
			out = append(out, Unproven{Target: d.Targets[i], Reason: reason})
		}
		return out
	}
	said := map[string]bool{}
	for _, reason := range []Reason{NoMark, Expired, Used, VersionChanged, WrittenSince, OtherIncarnation} {
		for _, message := range []string{r.Refuse(one, at(one, reason), direct).Message, r.Refuse(d, at(d, reason), direct).Message, r.Refuse(d, at(d, reason, reason), direct).Message} {
			if said[message] || strings.Contains(message, "not been read") != (reason == NoMark) || strings.Contains(message, "cannot be taken") {
				t.Errorf("%s: %s", reason, message)
			}
			said[message] = true
		}
	}
	for want, unproven := range map[string][]Unproven{
		"1 of 2 targets of fs__move_file was read by you too long ago.":                   at(d, Expired),
		"2 of 2 targets of fs__move_file have not been read by you.":                      at(d, NoMark, NoMark),
		"2 of 2 targets of fs__move_file cannot be taken as read by you.":                 at(d, NoMark, Used),
		"1 of 2 targets of fs__move_file was written by somebody else since you read it.": at(d, WrittenSince),
	} {
		if got := r.Refuse(d, unproven, direct).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNoTargetIsNoProof(t *testing.T) {
	c := filesystem(t)
	c.Needs = append(c.Needs, Need{Verb: "fs__sync", Kind: "file-read"}, Need{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/edits/*/path"}})
	c.Needs[1].Verb = "none" // edit_file is needed by its edits only
	r, faults := Compile(c, verbs(t))
	if len(faults) != 1 || !faults[0].Noted || faults[0].Code != FaultNothing {
		t.Fatal(faults)
	}
	for _, tt := range []struct{ verb, args, want string }{
		{"fs__write_file", `{}`, "[unresolvable]"},
		{"fs__write_file", ``, "[unresolvable]"},
		{"fs__write_file", `{"path":""}`, "[no_target]"},
		{"fs__write_file", `{"path":7}`, "[unresolvable]"},
		{"fs__write_file", `{"path":null}`, "[unresolvable]"},
		{"fs__write_file", `{"path":["a"]}`, "[unresolvable]"},
		{"fs__write_file", `{"path":"a\u0000b"}`, "[unresolvable]"},
		{"fs__write_file", `{"path":"a","path":"b"}`, "[unresolvable]"},
		{"fs__write_file", `{"path":"` + strings.Repeat("x", 5000) + `"}`, "[unresolvable]"},
		{"fs__write_file", `{"path":`, "[unresolvable]"},
		{"fs__move_file", `{"source":"a"}`, "[unresolvable no_mark]"},
		{"fs__edit_file", `{"edits":[]}`, "[no_target]"},
		{"fs__edit_file", `{"edits":[{"path":"a"},{}]}`, "[unresolvable]"},
		{"fs__edit_file", `{"edits":[{"path":"a"},{"path":"./a"},{"path":"b"}]}`, "[no_mark no_mark]"},
		{"fs__sync", `{}`, "[no_target]"},
		{"fs__list", `{"path":"a"}`, "[]"},
	} {
		d := r.Demand(tt.verb, broker.Write, json.RawMessage(tt.args))
		unproven := NewMarks(r.Kinds()).Look(noon, alice, d)
		reasons := []Reason{}
		for _, u := range unproven {
			reasons = append(reasons, u.Reason)
		}
		if fmt.Sprint(reasons) != tt.want {
			t.Errorf("%s %.60s: %v, want %s", tt.verb, tt.args, reasons, tt.want)
		}
		if len(unproven) > 0 {
			refusal := r.Refuse(d, unproven, direct)
			if refusal.Code != broker.CodeTargetsNotReady || !json.Valid(refusal.JSON()) || len(refusal.JSON()) > 4<<10 || refusal.Detail["kind"] != "file-read" {
				t.Errorf("%s", refusal.JSON())
			}
		}
	}
}

// TestAClosedVerbIsSaidToBeGrantedByNothing: where no target is named, or none can
// be told, nothing that is read lets the call through.
func TestAClosedVerbIsSaidToBeGrantedByNothing(t *testing.T) {
	c := filesystem(t)
	c.Needs = append(c.Needs, Need{Verb: "fs__sync", Kind: "file-read"}, Need{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/none"}})
	r, _ := Compile(c, verbs(t))
	for verb, open := range map[string]bool{"fs__write_file": true, "fs__sync": false, "fs__edit_file": false} {
		if needs := r.Needs(verb); len(needs) != 1 || (len(needs[0].GrantedBy) > 0) != open {
			t.Errorf("%s: %+v", verb, needs)
		}
	}
}

func TestTargetsHaveOneSpelling(t *testing.T) {
	for _, tt := range []struct {
		canonical, base, value, want string // empty: none
	}{
		{"path", "/srv", `"a/./b/../c"`, "/srv/a/c"}, {"path", "/srv/", `"/etc//passwd"`, "/etc/passwd"}, {"path", "/srv", `"../x"`, "/x"}, {"path", "", `"a"`, ""}, {"path", "rel", `"a"`, ""},
		{"path", "/srv", `"A\\b"`, `/srv/A\b`}, {"path", "/srv", `"\u0061"`, "/srv/a"},
		{"path_fold", `C:\Work`, `"Sub\\A.go"`, "/c:/work/sub/a.go"}, {"path_fold", "", `"c:/WORK/a.go"`, "/c:/work/a.go"}, {"path_fold", "/Users/X", `"README.md"`, "/users/x/readme.md"},
		{"url", "", `"HTTPS://user:pw@Example.COM:443/a/../b?q=1#frag"`, "https://example.com/b?q=1"}, {"url", "", `"http://h"`, "http://h/"}, {"url", "", `"http://h:8080/"`, "http://h:8080/"},
		{"url", "https://h/base/", `"x"`, "https://h/base/x"}, {"url", "", `"x"`, ""}, {"url", "", `"mailto:a@b"`, ""}, {"url", "", `"http://%zz"`, ""},
		{"json", "", `{ "b":1.0,"a":"\u00e9" }`, `{"a":"é","b":1.0}`}, {"json", "", `7`, "7"}, {"json", "", `null`, ""}, {"json", "", `{}`, ""}, {"json", "", `""`, ""}, {"json", "", `{"a":1,"a":2}`, ""},
		{"exact", "", `" a "`, " a "}, {"exact", "", `7`, ""}, {"exact", "", `""`, ""}, {"path", "/", `true`, ""}, {"none", "", `"a"`, ""},
	} {
		got, ok := newTarget("k", Kind{Canonical: tt.canonical, Base: tt.base}, json.RawMessage(tt.value))
		if got.Text != tt.want || ok != (tt.want != "") {
			t.Errorf("%s %s: %q, %v; want %q", tt.canonical, tt.value, got.Text, ok, tt.want)
		}
	}
}

func TestFaultsOfAConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"none", func(*Config) {}, "[]"},
		{"an unknown spelling", func(c *Config) { c.Kinds["x"] = Kind{Canonical: "inode"} }, "[kinds.x proof_rule_invalid]"},
		{"a relative base", func(c *Config) { c.Kinds["x"] = Kind{Canonical: "path", Base: "here"} }, "[kinds.x proof_rule_invalid]"},
		{"a negative life", func(c *Config) { c.Kinds["x"] = Kind{Canonical: "exact", TTL: -1} }, "[kinds.x proof_rule_invalid]"},
		{"no such kind", func(c *Config) { c.Needs[0].Kind = "no" }, "[needs[0] proof_rule_invalid]"},
		{"a pointer that is none", func(c *Config) { c.Needs[0].Targets = []string{"path"} }, "[needs[0] proof_rule_invalid]"},
		{"a need that looks at a result", func(c *Config) { c.Needs[0].Targets = []string{"result:/content"} }, "[needs[0] proof_rule_invalid]"},
		{"no such argument", func(c *Config) { c.Needs[0].Targets = []string{"args:/file"} }, "[needs[0] fs__write_file pointer_unresolvable]"},
		{"no such version", func(c *Config) { c.Needs[0].Version = "args:/rev" }, "[needs[0] fs__write_file pointer_unresolvable]"},
		{"a grant on no argument", func(c *Config) { c.Grants[0].Targets = []string{"args:/file"} }, "[grants[0] fs__read_text_file pointer_unresolvable]"},
		{"a condition on no argument", func(c *Config) { c.Grants[0].When = []condition.Condition{when(t, "args:/no", condition.Absent, "")} }, "[grants[0] fs__read_text_file pointer_unresolvable]"},
		{"a result that the output schema does not have", func(c *Config) { c.Grants[0].Targets = []string{"result:/structuredContent/path"} }, "[grants[0] fs__read_text_file pointer_unresolvable]"},
		{"a grant of nothing", func(c *Config) { c.Grants[0].Targets = nil }, "[grants[0] proof_rule_invalid]"},
		{"a broken pattern", func(c *Config) { c.Needs[0].Verb = "fs__[" }, "[needs[0] proof_rule_invalid]"},
		{"nothing selected", func(c *Config) { c.Grants[1].Verb = "fs__none" }, "[grants[1] proof_selects_nothing]"},
		{"two homes", func(c *Config) {
			c.Needs = append(c.Needs, Need{Verb: "db__write_row", Kind: "file-read", Targets: []string{"args:/path"}})
		}, "[needs[3] db__write_row proof_kind_split]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := filesystem(t)
			tt.change(&c)
			r, faults := Compile(c, verbs(t))
			var got []string
			for _, f := range faults {
				got = append(got, strings.Join(strings.Fields(f.Where+" "+f.Verb+" "+f.Code), " "))
				if f.Reason == "" || f.Noted != (f.Code == FaultNothing) {
					t.Errorf("%+v", f)
				}
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
			if r.Home("file-read") != "fs" && tt.name != "no such kind" {
				t.Errorf("home %q", r.Home("file-read"))
			}
			// What is at fault is closed: a need refuses, a grant grants nothing.
			if len(faults) > 0 && !faults[0].Noted && strings.HasPrefix(faults[0].Where, "needs") && faults[0].Verb != "" {
				d := r.Demand(faults[0].Verb, broker.Write, json.RawMessage(`{"path":"a"}`))
				if len(d.Faults) == 0 {
					t.Error("it is open")
				}
			}
			if len(faults) > 0 && strings.HasPrefix(faults[0].Where, "grants[0]") && len(r.Grants("fs__read_text_file", condition.Call{Arguments: json.RawMessage(`{"path":"a"}`), Result: json.RawMessage(`{}`)}, false)) > 0 {
				t.Error("it grants")
			}
		})
	}
}

func TestRepairsAreCallsThatTheCallerMayMake(t *testing.T) {
	c := filesystem(t)
	c.Grants = append([]Grant{
		{Verb: "fs__move_file", Kind: "file-read", Targets: []string{"args:/source", "args:/destination"}},                                                // two targets cannot be filled with one
		{Verb: "fs__list", Kind: "file-read", Targets: []string{"result:/structuredContent/files/*/path"}},                                                // a result cannot be filled at all
		{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/edits/*/path"}},                                                               // not callable by this caller
		{Verb: "fs__list", Kind: "file-read", Targets: []string{"args:/head"}},                                                                            // a path fits no number
		{Verb: "fs__list", Kind: "file-read", Targets: []string{"args:/path"}, When: []condition.Condition{when(t, "args:/head", condition.Present, "")}}, // nothing says which
		{Verb: "fs__list", Kind: "file-read", Targets: []string{"args:/path"}, When: []condition.Condition{when(t, "args:/head", condition.Eq, "7")}},
	}, c.Grants...)
	r := compile(t, c)
	d := r.Demand("fs__write_file", broker.Write, json.RawMessage(`{"path":"a"}`))
	unproven := NewMarks(r.Kinds()).Look(noon, alice, d)
	refusal := r.Refuse(d, unproven, func(v *catalog.Verb) (string, string, bool) { return v.Name, "call_read", v.Name != "fs__edit_file" })
	repair := refusal.Detail["repair"].([]Call)
	if len(repair) != 1 || repair[0].Name != "fs__list" || string(repair[0].Arguments) != `{"head":7,"path":"/srv/project/a"}` || repair[0].Via != "call_read" {
		t.Errorf("repair %+v", repair)
	}
	refusal = r.Refuse(d, unproven, func(v *catalog.Verb) (string, string, bool) { return v.Name, "direct", v.Name == "fs__edit_file" })
	if repair := refusal.Detail["repair"].([]Call); len(repair) != 1 || string(repair[0].Arguments) != `{"edits":[{"path":"/srv/project/a"}]}` {
		t.Errorf("repair %+v", repair)
	}
	refusal = r.Refuse(d, unproven, func(*catalog.Verb) (string, string, bool) { return "", "", false })
	if repair := refusal.Detail["repair"].([]Call); len(repair) != 0 || !strings.Contains(refusal.Message, "No call that you may make") {
		t.Errorf("%s, repair %+v", refusal.Message, repair)
	}
	c.Grants = nil
	r = compile(t, c)
	if refusal = r.Refuse(d, unproven, direct); !strings.Contains(refusal.Message, "No verb grants this kind") || string(refusal.JSON()) == "" {
		t.Error(refusal.Message)
	}
}

func TestARefusalIsShortHoweverManyTargets(t *testing.T) {
	c := filesystem(t)
	c.Needs = []Need{{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/edits/*/path"}}}
	r := compile(t, c)
	var edits []string
	for i := range 900 {
		edits = append(edits, fmt.Sprintf(`{"path":"%d/%s"}`, i, strings.Repeat("d/", 400)))
	}
	d := r.Demand("fs__edit_file", broker.Write, json.RawMessage(`{"edits":[`+strings.Join(edits, ",")+`]}`))
	refusal := r.Refuse(d, NewMarks(r.Kinds()).Look(noon, alice, d), direct)
	if n := len(refusal.Detail["repair"].([]Call)); n != MaxRepair || refusal.Detail["targets"] != 900 || len(refusal.JSON()) > 24<<10 {
		t.Errorf("%d repairs, %v targets, %d bytes", n, refusal.Detail["targets"], len(refusal.JSON()))
	}
	if d := r.Demand("fs__edit_file", broker.Write, json.RawMessage(`{"edits":[`+strings.Join(edits, ",")+`,`+strings.ReplaceAll(strings.Join(edits, ","), "/d/", "/e/")+`]}`)); len(d.Faults) == 0 || len(d.Targets) > maxTargets {
		t.Errorf("%d targets, %d faults", len(d.Targets), len(d.Faults))
	}
}

func FuzzDemand(f *testing.F) {
	for _, seed := range []string{`{"path":"a"}`, `{"path":"a","path":"b"}`, `{"edits":[{"path":"x"}]}`, `{"path":"\ud800"}`, `[]`, `{"source":"/","destination":"."}`} {
		f.Add(seed)
	}
	c := filesystem(f)
	c.Needs = append(c.Needs, Need{Verb: "fs__edit_file", Kind: "file-read", Targets: []string{"args:/edits/*/path"}})
	r, _ := Compile(c, verbs(f))
	f.Fuzz(func(t *testing.T, args string) {
		for _, verb := range []string{"fs__write_file", "fs__edit_file", "fs__move_file"} {
			d := r.Demand(verb, broker.Write, json.RawMessage(args))
			if d.Empty() {
				t.Fatalf("%s %q needs nothing", verb, args)
			}
			m := NewMarks(r.Kinds())
			unproven := m.Look(noon, alice, d)
			if len(unproven) == 0 {
				t.Fatalf("%s %q is proven by nothing", verb, args)
			}
			if refusal := r.Refuse(d, unproven, direct); !json.Valid(refusal.JSON()) {
				t.Fatalf("%s", refusal.JSON())
			}
			m.Grant(noon, noon, alice, "", d.Targets)
			if left := m.Look(noon, alice, d); len(left) != len(d.Faults) {
				t.Fatalf("%s %q: %v is left", verb, args, left)
			}
		}
	})
}

func conditionCall(arguments, result string) condition.Call {
	return condition.Call{Arguments: json.RawMessage(arguments), Result: json.RawMessage(result)}
}
