package catalog

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tool makes an entry: a bare name gets a minimal one.
func tool(name string, fields ...string) broker.Tool {
	quoted, _ := json.Marshal(name)
	if len(fields) == 0 {
		fields = []string{`"inputSchema":{"type":"object"}`}
	}
	return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":` + string(quoted) + `,` + strings.Join(fields, ",") + `}`)}
}

func native() Source {
	return Source{Backend: NativeName, Native: true, Family: "jobs", Listed: true,
		Tools: []broker.Tool{tool("job_status", `"description":"Status of a job."`, `"inputSchema":{"type":"object","properties":{"jobId":{"type":"string"},"waitSeconds":{"type":"integer"}},"required":["jobId"]}`,
			`"annotations":{"openWorldHint":false}`)},
		Aliases: map[string]string{"armada_job_status": "job_status"},
		Effects: map[string]broker.Effects{"job_status": broker.Read}, Control: []string{"job_status"}, Beside: []string{"job_status"}}
}

func upstream(backend string, tools ...broker.Tool) Source {
	return Source{Backend: backend, Listed: true, Tools: tools}
}

func build(t testing.TB, sources ...Source) *Snapshot {
	t.Helper()
	s, faults := Build(1, sources)
	for _, f := range faults {
		if f.Fatal {
			t.Fatalf("fatal: %+v", f)
		}
	}
	return s
}

func profile(t testing.TB, s *Snapshot, name string) *Profile {
	t.Helper()
	p, ok := s.Profile(name)
	if !ok {
		t.Fatalf("no profile %q", name)
	}
	return p
}

func names(t testing.TB, p *Profile) []string {
	t.Helper()
	var out []string
	for cursor := ""; ; {
		page, refusal := p.Page(cursor)
		if refusal != nil {
			t.Fatal(refusal)
		}
		var list struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}
		if err := json.Unmarshal(page, &list); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		for _, e := range list.Tools {
			out = append(out, e.Name)
		}
		if list.NextCursor == nil {
			return out
		}
		cursor = *list.NextCursor
	}
}

// richEntry has all that a list must carry unchanged.
const richEntry = `{ "description" : "Edit \u00e9 & <more>", "name":"edit.file","title":"Edit",
 "inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"oneOf":[{"type":"string"},{"type":"null"}]}},"x-order":["z","a"],"required":[]},
 "outputSchema":{"type":"object"}, "annotations":{"title":"Edit it","destructiveHint":false,"x-own":1.0,"idempotentHint":true,"readOnlyHint":false},
 "_meta":{"vendor/key":[1, 2.50]},"requires_confirmation":true}`

func TestGoldenLists(t *testing.T) {
	files := upstream("files", broker.Tool{Name: "edit.file", Raw: json.RawMessage(richEntry)}, tool("read"), tool("job_status"))
	trusted := files
	trusted.Backend, trusted.Rules.TrustAnnotations = "trusted", true
	ruled := files
	ruled.Backend, ruled.Rules.Effects = "ruled", []EffectRule{{Verb: "re*", Is: broker.Read}, {Verb: "*", Is: broker.Write | broker.Destroy}}
	s := build(t, files, native(), ruled, trusted, upstream("plain", tool("read")))
	for _, name := range []string{"", "files", "plain"} {
		t.Run("profile "+name, func(t *testing.T) {
			got, refusal := profile(t, s, name).Page("")
			if refusal != nil {
				t.Fatal(refusal)
			}
			file := filepath.Join("testdata", "list-"+name+".json")
			// One entry a line, so that a difference can be read.
			text := strings.ReplaceAll(string(got), `},{"`, "},\n{\"") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("got\n%s\nwant\n%s", text, want)
			}
		})
	}
}

func TestAnExactProfileKeepsTheBackendsEntries(t *testing.T) {
	s := build(t, native(), upstream("files", broker.Tool{Name: "edit.file", Raw: json.RawMessage(richEntry)}))
	v, ok := profile(t, s, "files").Resolve("edit.file")
	if !ok || string(v.Own) != richEntry || !v.HasOutputSchema {
		t.Fatalf("got %+v, %v", v, ok)
	}
	page, _ := profile(t, s, "files").Page("")
	for _, part := range []string{`"description":"Edit \u00e9 & <more>"`, `"maximum":9007199254740993`, `"outputSchema":{"type":"object"}`, `"vendor/key":[1,2.50]`, `"x-own":1.0`} {
		if !strings.Contains(string(page), part) {
			t.Errorf("%s is not in %s", part, page)
		}
	}
}

func TestResolve(t *testing.T) {
	long := strings.Repeat("n", 80)
	s := build(t, native(), upstream("files", tool("read"), tool("edit.file"), tool(long), tool("Read")), upstream("mcp", tool("berth__job_status")), upstream("own", tool("job_status")))
	cut := "files__" + long[:50] + "_" // 57 characters and an underscore
	tests := []struct{ profile, name, want string }{
		{"", "job_status", "berth/job_status"},
		{"", "armada_job_status", "berth/job_status"},
		{"", "berth__job_status", "berth/job_status"},
		{"", "berth.job_status", "berth/job_status"},
		{"", "mcp__berth__armada_job_status", "berth/job_status"},
		{"", "mcp__berth__job_status", "mcp/berth__job_status"}, // listed under that very name
		{"", "mcp__berth__mcp__berth__job_status", "mcp/berth__job_status"},
		{"", "files__read", "files/read"},
		{"", "files__Read", "files/Read"},
		{"", "berth.files__read", "files/read"},
		{"", "files__edit_file", "files/edit.file"},
		{"", "files__edit.file", "files/edit.file"},
		{"", "files__" + long, "files/" + long},
		{"", "own__job_status", "own/job_status"},
		{"", "read", ""},
		{"", "FILES__READ", ""},
		{"", "berth.berth.files__read", ""},
		{"", " files__read", ""},
		{"", "", ""},
		{"files", "read", "files/read"},
		{"files", "edit.file", "files/edit.file"},
		{"files", "job_status", "berth/job_status"},
		{"files", "edit_file", ""},
		{"files", "files__read", ""},
		{"files", "armada_job_status", ""},
		{"files", "berth__job_status", ""},
		{"files", "berth.read", ""},
		{"own", "job_status", "own/job_status"},
		{"own", "berth__job_status", "berth/job_status"},
	}
	for _, tt := range tests {
		t.Run(tt.profile+"/"+tt.name, func(t *testing.T) {
			got := ""
			if v, ok := profile(t, s, tt.profile).Resolve(tt.name); ok {
				got = v.Backend + "/" + v.Upstream
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	v, _ := profile(t, s, "").Resolve("files__" + long)
	if len(v.Name) != 64 || !strings.HasPrefix(v.Name, cut) {
		t.Errorf("long name listed as %q", v.Name)
	}
}

func TestQuarantine(t *testing.T) {
	tests := []struct {
		name    string
		sources []Source
		want    []string // backend/verb code extent fatal
		merged  []string
	}{
		{"two names become one", []Source{upstream("x", tool("a.b"), tool("a_b"), tool("c"))},
			[]string{"x/a.b verb_duplicate merged false"}, []string{"x__a_b", "x__c"}},
		{"over two backends", []Source{upstream("a_", tool("b")), upstream("a", tool("_b"))},
			[]string{"a_/b verb_duplicate merged false"}, []string{"a___b"}},
		{"listed twice", []Source{upstream("x", tool("a", `"description":"2"`, `"inputSchema":{}`), tool("a", `"description":"1"`, `"inputSchema":{}`))},
			[]string{"x/a verb_duplicate all false"}, []string{"x__a"}},
		{"no name", []Source{upstream("x", tool(""))}, []string{"x/ verb_name_invalid all false"}, nil},
		{"an entry that is no JSON", []Source{upstream("x", broker.Tool{Name: "a", Raw: json.RawMessage(`{"name":"a"`)}, tool("b"))},
			[]string{"x/a verb_schema_invalid all false"}, []string{"x__b"}},
		{"an entry with another name", []Source{upstream("x", broker.Tool{Name: "a", Raw: json.RawMessage(`{"name":"b"}`)})},
			[]string{"x/a verb_schema_invalid all false"}, nil},
		{"no schema", []Source{upstream("x", tool("a", `"inputSchema":[]`), tool("b", `"description":""`), tool("c"), tool("d", `"inputSchema":true`), tool("e", `"inputSchema":null`))},
			[]string{"x/a verb_schema_invalid merged false", "x/b verb_schema_invalid merged false", "x/d verb_schema_invalid merged false", "x/e verb_schema_invalid merged false"}, []string{"x__c"}},
		{"a schema of no object", []Source{upstream("x", tool("a", `"inputSchema":{"type":"string"}`), tool("b", `"inputSchema":{"type":["object","null"]}`), tool("c", `"inputSchema":{"Type":"string"}`))},
			[]string{"x/a verb_schema_invalid merged false", "x/b verb_schema_invalid merged false"}, []string{"x__c"}},
		{"a schema that does not compile", []Source{upstream("x", tool("a", `"inputSchema":{"type":"object","properties":{"p":{"type":"nonsense"}}}`), tool("b", `"inputSchema":{"type":"object","properties":{"p":{"$ref":"#/nowhere"}}}`),
			tool("c", `"inputSchema":{"type":"object","properties":{"p":{"pattern":"^(?!x)"}}}`), tool("d", `"inputSchema":{"$schema":"https://example.com/dialect","type":"object"}`))},
			[]string{"x/a verb_schema_invalid merged false", "x/b verb_schema_invalid merged false"}, []string{"x__c", "x__d"}},
		{"a broken glob", []Source{{Backend: "x", Listed: true, Tools: []broker.Tool{tool("a")}, Rules: Rules{Long: []string{"[", "a"}}}},
			[]string{"x/[ glob_invalid noted false"}, []string{"x__a"}},
		{"a glob that selects nothing", []Source{{Backend: "x", Listed: true, Tools: []broker.Tool{tool("a")}, Rules: Rules{Essential: []string{"b*", "a", "*"}}}, {Backend: "y", Rules: Rules{Essential: []string{"not up"}}}},
			[]string{"x/b* selects_nothing noted false"}, []string{"x__a"}},
		{"reserved and unusable backend names", []Source{upstream("berth", tool("a")), upstream("a__b", tool("a")), upstream("", tool("a")), upstream("x", tool("a")), upstream("x", tool("b"))},
			[]string{"/ backend_name_invalid all true", "a__b/ backend_name_invalid all true", "berth/ backend_name_invalid all true", "x/ backend_name_invalid all true"}, []string{"x__a"}},
		{"native verbs must be right", []Source{{Backend: "berth", Native: true, Family: "f", Tools: []broker.Tool{tool("no effects"), tool("none"), tool("bad", `"inputSchema":{"type":7}`), tool("good")},
			Effects: map[string]broker.Effects{"bad": 0, "good": 0, "no effects": 0}, Aliases: map[string]string{"x": "gone", "good": "good", "fine": "good"}}},
			[]string{"berth/bad verb_schema_invalid all true", "berth/no effects verb_name_invalid all true", "berth/none verb_without_effects all true", "berth/x alias_of_nothing all true"}, []string{"good"}},
		{"a native alias hides nothing", []Source{{Backend: "berth", Native: true, Family: "f", Tools: []broker.Tool{tool("a"), tool("b")}, Effects: map[string]broker.Effects{"a": 0, "b": 0}, Aliases: map[string]string{"a": "b"}}},
			[]string{"berth/a alias_shadows_verb noted true"}, []string{"a", "b"}},
		{"both native names are taken", []Source{native(), upstream("x", tool("job_status"), tool("berth__job_status"))},
			[]string{"x/berth__job_status verb_duplicate noted false"}, []string{"job_status", "x__berth__job_status", "x__job_status"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, faults := Build(7, tt.sources)
			var got []string
			for _, f := range faults {
				got = append(got, fmt.Sprintf("%s/%s %s %s %v", f.Backend, f.Verb+f.Pattern, f.Code, f.Extent, f.Fatal))
				if f.Reason == "" {
					t.Errorf("%+v has no reason", f)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if list := names(t, profile(t, s, "")); !slices.Equal(list, tt.merged) {
				t.Errorf("listed %q, want %q", list, tt.merged)
			}
			if s.Generation() != 7 {
				t.Errorf("generation %d", s.Generation())
			}
		})
	}
}

func TestAQuarantineOfTheMergedListLeavesTheExactProfileWhole(t *testing.T) {
	s, _ := Build(1, []Source{native(), upstream("x", tool("a.b"), tool("a_b"))})
	if got, want := names(t, profile(t, s, "x")), []string{"a.b", "a_b", "job_status"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Strict clients (the TypeScript SDK is one) refuse a whole list for one entry
// whose members are not of the protocol's types.
func TestAnEntryOfAMergedListHasTheFormsOfTheProtocolWhateverTheBackendSent(t *testing.T) {
	s, _ := Build(1, []Source{upstream("x", tool("a", `"title":5`, `"description":null`, `"icons":"x"`, `"_meta":[]`, `"execution":"x"`, `"inputSchema":{}`, `"more":1`),
		tool("b", `"title":"T"`, `"description":"D"`, `"inputSchema":{"properties":{"p":{}}}`))})
	list, err := profile(t, s, "").Page("")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"name":"x__a","inputSchema":{"type":"object"},"more":1,"annotations":`, `{"name":"x__b","title":"T","description":"D [list tail`, `"inputSchema":{"type":"object","properties":{"p":{}}}`} {
		if !strings.Contains(string(list), want) && !strings.Contains(strings.ReplaceAll(string(list), `"description":" [list`, `"`), want) {
			t.Errorf("%s is not in %s", want, list)
		}
	}
	own, err := profile(t, s, "x").Page("")
	if err != nil || !strings.Contains(string(own), `"title":5,"description":null,"icons":"x","_meta":[],"execution":"x","inputSchema":{}`) {
		t.Errorf("its own profile has the backend's entry: %s, %v", own, err)
	}
}

func TestEffectsComeFromTheFirstSourceThatAnswers(t *testing.T) {
	annotated := func(hints string) broker.Tool {
		return tool("v", `"inputSchema":{}`, `"annotations":`+hints)
	}
	all := []EffectRule{{Verb: "w*", Is: broker.Exec}, {Verb: "v", Is: broker.Read}, {Verb: "*", Is: broker.Destroy}}
	tests := []struct {
		name   string
		tool   broker.Tool
		rules  Rules
		want   broker.Effects
		source string
		listed string
	}{
		{"nobody said", tool("v"), Rules{}, broker.Write, FromUnknown, `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
		{"not trusted", annotated(`{"title":"T","readOnlyHint":true,"openWorldHint":false}`), Rules{}, broker.Write, FromUnknown, `{"title":"T","readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
		{"trusted read", annotated(`{"readOnlyHint":true,"destructiveHint":true}`), Rules{TrustAnnotations: true}, broker.Read, FromAnnotation, `{"readOnlyHint":true,"destructiveHint":true}`},
		{"trusted write", annotated(`{"destructiveHint":false,"x":1.0}`), Rules{TrustAnnotations: true}, broker.Write, FromAnnotation, `{"destructiveHint":false,"x":1.0}`},
		{"trusted anything else", annotated(`{"readOnlyHint":"true"}`), Rules{TrustAnnotations: true}, broker.Write | broker.Destroy, FromAnnotation, `{"readOnlyHint":"true"}`},
		{"trusted and silent", tool("v"), Rules{TrustAnnotations: true}, broker.Write, FromUnknown, `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":true}`},
		{"operator, first match", annotated(`{"readOnlyHint":false,"openWorldHint":false}`), Rules{Effects: all}, broker.Read, FromOperator, `{"readOnlyHint":true,"destructiveHint":false}`},
		{"operator over a trusted backend", annotated(`{"readOnlyHint":true,"openWorldHint":false,"idempotentHint":true}`), Rules{TrustAnnotations: true, Effects: all[2:]}, broker.Destroy, FromOperator,
			`{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := upstream("x", tt.tool)
			src.Rules = tt.rules
			v, ok := profile(t, build(t, src), "").Resolve("x__v")
			if !ok || v.Effects != tt.want || v.EffectsSource != tt.source {
				t.Fatalf("got %v from %s, want %v from %s", v.Effects.Names(), v.EffectsSource, tt.want.Names(), tt.source)
			}
			var listed struct{ Annotations json.RawMessage }
			if err := json.Unmarshal(v.Listed, &listed); err != nil || string(listed.Annotations) != tt.listed {
				t.Errorf("listed %s, want %s", listed.Annotations, tt.listed)
			}
		})
	}
}

func TestTheMostSpecificGlobCounts(t *testing.T) {
	src := upstream("x", tool("run_slow"), tool("run"), tool("stop"))
	src.Rules = Rules{Long: []string{"run*"}, Seats: map[string]int{"*": 2, "stop": 0},
		PromoteAfter: map[string]time.Duration{"run*": time.Second, "run_*": 2 * time.Second, "*": -1, "run": 0},
		CallTimeout:  map[string]time.Duration{"r*": time.Minute}}
	p := profile(t, build(t, src), "")
	for _, tt := range []struct {
		name    string
		long    bool
		seats   int
		promote time.Duration
		timeout bool
	}{{"run_slow", true, 2, 2 * time.Second, true}, {"run", true, 2, 0, true}, {"stop", false, 1, -1, false}} {
		v, _ := p.Resolve("x__" + tt.name)
		if v.Long != tt.long || v.Seats != tt.seats || v.PromoteAfter == nil || *v.PromoteAfter != tt.promote || (v.CallTimeout != nil) != tt.timeout {
			t.Errorf("%s: %+v", tt.name, v)
		}
	}
	whole := upstream("x", tool("a/b"), tool("run"))
	whole.Rules = Rules{PromoteAfter: map[string]time.Duration{"": 3 * time.Second, "run": time.Second}}
	for name, want := range map[string]time.Duration{"a/b": 3 * time.Second, "run": time.Second} {
		v, ok := profile(t, build(t, whole), "x").Resolve(name)
		if !ok || v.PromoteAfter == nil || *v.PromoteAfter != want {
			t.Errorf("the backend's own value for %s: %+v", name, v)
		}
	}
	if v, _ := profile(t, build(t, upstream("x", tool("a"))), "").Resolve("x__a"); v.PromoteAfter != nil || v.CallTimeout != nil || v.Seats != 1 {
		t.Errorf("without rules: %+v", v)
	}
}

func suggested(p *Profile, name string) (names []string) {
	for _, s := range p.Suggestions(name, 3) {
		names = append(names, s.Name)
	}
	return names
}

func TestSuggest(t *testing.T) {
	s := build(t, native(), upstream("files", tool("read_file"), tool("write_file"), tool("list"), tool("ingest")), upstream("git", tool("read_file")))
	tests := []struct {
		profile, name string
		want          []string
	}{
		{"", "read_file", []string{"files__read_file", "git__read_file", "files__write_file"}},
		{"", "readFile", []string{"files__read_file", "git__read_file", "files__write_file"}},
		{"", "FILES__INGEST", []string{"files__ingest", "files__read_file", "files__write_file"}},
		{"", "files.ingest", []string{"files__ingest", "files__read_file", "files__write_file"}},
		{"", "ingst", []string{"files__ingest"}},
		{"", "mcp__berth__job_statsu", []string{"job_status"}},
		{"", "Armada-Job-Status", []string{"job_status"}},
		{"", "foo", nil},
		{"", "li", nil},
		{"", "files__li", []string{"files__list"}},
		{"", "", nil},
		{"", "__", nil},
		{"", strings.Repeat("read_file", 100), nil},
		{"files", "files__read_file", []string{"read_file"}},
		{"files", "raed_file", []string{"read_file"}},
		{"files", "jobstatus", []string{"job_status"}},
		{"git", "write_file", nil},
		{"git", "ingest", nil},
	}
	for _, tt := range tests {
		t.Run(tt.profile+"/"+tt.name, func(t *testing.T) {
			if got := suggested(profile(t, s, tt.profile), tt.name); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	var many []broker.Tool
	for i := range 9 {
		many = append(many, tool(fmt.Sprintf("read_%d", i)))
	}
	if got := suggested(profile(t, build(t, upstream("x", many...)), ""), "read_x"); len(got) != 3 {
		t.Errorf("got %q, want three", got)
	}
}

func TestPages(t *testing.T) {
	var tools []broker.Tool
	for i := range 1001 {
		tools = append(tools, tool(fmt.Sprintf("v%04d", i)))
	}
	p := profile(t, build(t, upstream("x", tools...)), "")
	if got := names(t, p); len(got) != 1001 || !slices.IsSorted(got) {
		t.Errorf("%d names, sorted %v", len(got), slices.IsSorted(got))
	}
	for _, tt := range []struct {
		cursor string
		tools  int
		next   string
	}{{"", 500, `"nextCursor":"500"`}, {"0", 500, `"nextCursor":"500"`}, {"500", 500, `"nextCursor":"1000"`}, {"1000", 1, ""}, {"1001", 0, ""}, {"7", 500, `"nextCursor":"507"`}} {
		page, refusal := p.Page(tt.cursor)
		if refusal != nil || strings.Count(string(page), `"name":`) != tt.tools || !strings.Contains(string(page), tt.next) || (tt.next == "") == strings.Contains(string(page), "nextCursor") {
			t.Errorf("cursor %q: %d bytes, %v", tt.cursor, len(page), refusal)
		}
	}
	for _, cursor := range []string{"1002", "-1", "+1", "1.0", "abc", " 1", "0x1", "99999999999999999999", "٣"} {
		if page, refusal := p.Page(cursor); refusal == nil || refusal.Code != broker.CodeInvalidArguments || page != nil {
			t.Errorf("cursor %q was taken", cursor)
		}
	}
}

func TestUnknownIsNotEmpty(t *testing.T) {
	info := broker.ServerInfo{Instructions: "hi"}
	s := build(t, native(), Source{Backend: "slow", Tools: []broker.Tool{tool("a")}}, Source{Backend: "up", Listed: true, Server: info})
	if got := profile(t, s, "").Pending(); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("merged: pending %q", got)
	}
	if got := profile(t, s, "slow").Pending(); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("slow: pending %q", got)
	}
	if got := profile(t, s, "up").Pending(); len(got) != 0 {
		t.Errorf("up: pending %q", got)
	}
	if got, ok := profile(t, s, "up").Server(); !ok || got.Instructions != "hi" {
		t.Errorf("up: %+v, %v", got, ok)
	}
	for _, name := range []string{"", "slow"} {
		if _, ok := profile(t, s, name).Server(); ok {
			t.Errorf("%q claims to know its server", name)
		}
	}
	for _, name := range []string{"none", "UP"} {
		if _, ok := s.Profile(name); ok {
			t.Errorf("there is a profile %q", name)
		}
	}
	if got := s.Profiles(); !slices.Equal(got, []string{NativeName, "slow", "up"}) {
		t.Errorf("profiles %q", got)
	}
}

func TestCheckArguments(t *testing.T) {
	s := build(t, native(), upstream("x",
		tool("n", `"inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"required":["n"]}`),
		tool("odd", `"inputSchema":{"$schema":"https://example.com/dialect","type":"object"}`)))
	p := profile(t, s, "")
	n, _ := p.Resolve("x__n")
	odd, _ := p.Resolve("x__odd")
	job, _ := p.Resolve("job_status")
	if r := n.CheckArguments(json.RawMessage(`{"n":9007199254740993}`)); r != nil {
		t.Error(r)
	}
	r := n.CheckArguments(json.RawMessage(`{"n":"hunter2"}`))
	if r == nil || r.Code != broker.CodeInvalidArgument || !r.Retryable {
		t.Fatalf("got %v", r)
	}
	if body := string(r.JSON()); !strings.Contains(body, `"errors":[{"pointer":"/n","rule":"type","wanted":"integer"}]`) || strings.Contains(body, "hunter2") {
		t.Error(body)
	}
	if r := n.CheckArguments(nil); r == nil {
		t.Error("absent arguments have no n")
	}
	if r := n.CheckArguments(json.RawMessage(`{"n":"` + strings.Repeat("x", MaxCheckedArguments) + `"}`)); r != nil {
		t.Error("arguments over the limit are checked")
	}
	if r := odd.CheckArguments(json.RawMessage(`{"n":"x"}`)); r != nil {
		t.Error("a schema that cannot be used refuses")
	}
	if r := job.CheckArguments(json.RawMessage(`{"jobId":"a","waitSeconds":"5"}`)); r != nil {
		t.Error(r)
	}
	if r := job.CheckArguments(nil); r == nil || r.Code != broker.CodeMissingJobID {
		t.Errorf("got %v", r)
	}
	if got := string(job.NormaliseArguments(json.RawMessage(`{"waitSeconds":"5"}`))); got != `{"waitSeconds":5}` {
		t.Error(got)
	}
	if got := string(n.NormaliseArguments(json.RawMessage(`{"n":"5"}`))); got != `{"n":"5"}` {
		t.Error("an upstream's arguments are not ours to change:", got)
	}
	notes := s.Notes()
	if len(notes) != 1 || notes[0].Verb != "odd" || notes[0].Extent != Noted || n.Unchecked() != "" {
		t.Errorf("notes %+v", notes)
	}
}

func TestASchemaThatRefersElsewhereKeepsItsVerbOutOfMergedListsAndServesItsSiblings(t *testing.T) {
	s, quarantined := Build(1, []Source{upstream("x",
		tool("whole", `"inputSchema":{"type":"object"}`),
		tool("remote", `"inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/schema.json"}}}`))})
	if len(quarantined) != 1 || quarantined[0].Verb != "remote" || quarantined[0].Code != CodeSchemaInvalid || quarantined[0].Extent != OutOfMerged || quarantined[0].Fatal {
		t.Fatalf("%+v", quarantined)
	}
	merged, exact := profile(t, s, Full), profile(t, s, "x")
	if merged.Len() != 1 || len(merged.Reach()) != 1 {
		t.Errorf("the merged profile lists %d", merged.Len())
	}
	for _, verb := range []string{"remote", "x__remote"} {
		if _, ok := merged.Resolve(verb); ok {
			t.Errorf("%s can be called in the merged profile", verb)
		}
	}
	// An exact profile cuts nothing: it has what the backend lists, unchecked.
	if v, ok := exact.Resolve("remote"); !ok || exact.Len() != 2 || v.Unchecked() == "" {
		t.Errorf("the backend's own profile lists %d", exact.Len())
	}
}

func TestANameMayBelongToTheBackendsItNames(t *testing.T) {
	s := build(t, Source{Backend: "st"}, Source{Backend: "a.b"}, Source{Backend: "known", Listed: true})
	for name, want := range map[string][]string{"st__x": {"st"}, "a.b__x": {"a.b"}, "a_b__x": {"a.b"}, "known__x": nil, "x": nil, "nobody__x": nil} {
		if got := profile(t, s, "").MayHold(name); !slices.Equal(got, want) {
			t.Errorf("%s may belong to %q, want %q", name, got, want)
		}
	}
	if got := profile(t, s, "st").MayHold("x"); !slices.Equal(got, []string{"st"}) {
		t.Errorf("in its own profile a name may belong to %q", got)
	}
	if got := profile(t, s, "known").MayHold("x"); len(got) != 0 {
		t.Errorf("of a known backend a name may belong to %q", got)
	}
}
