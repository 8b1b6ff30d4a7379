package catalog

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog/catalogtest"
	"berth/broker/shape"
	"berth/broker/shape/o200k"

	"pgregory.net/rapid"
)

// letters counts each byte as a token: enough to hold a budget to.
type letters struct{}

func (letters) Count(text string) shape.Count { return shape.Count{Tokens: len(text), Exact: true} }

func counted(specs ...ProfileSpec) Settings {
	return Settings{Costs: shape.NewCosts(letters{}, nil), Profiles: specs}
}

func listNames(p *Profile) []string {
	var names []string
	for _, e := range p.Entries() {
		names = append(names, e.Name)
	}
	return names
}

// whole reads every page of a list.
func whole(t testing.TB, p *Profile) []json.RawMessage {
	t.Helper()
	var out []json.RawMessage
	for cursor, more := "", true; more; {
		raw, refusal := p.Page(cursor)
		if refusal != nil {
			t.Fatal(refusal)
		}
		var page struct {
			Tools      []json.RawMessage
			NextCursor *string
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Tools...)
		if more = page.NextCursor != nil; more {
			cursor = *page.NextCursor
		}
	}
	return out
}

// realSources are the real catalogs, with job_status beside them.
func realSources(t testing.TB) []Source {
	t.Helper()
	lists, err := catalogtest.Real()
	if err != nil {
		t.Fatal(err)
	}
	n := native()
	n.Facts = map[string]Facts{"job_status": {Essential: true}}
	out := []Source{n}
	for _, l := range lists {
		s := upstream(l.Backend, l.Tools...)
		s.Rules.TrustAnnotations = true
		out = append(out, s)
	}
	return out
}

func TestTheEssentialTierIsWhatTheRecordsSay(t *testing.T) {
	n, files := native(), upstream("files", tool("read"), tool("write"), tool("list"))
	n.Facts = map[string]Facts{"job_status": {Essential: true}}
	files.Rules.Essential = []string{"re*"}
	s := build(t, n, files)
	essential, full := profile(t, s, Essential), profile(t, s, Full)
	if got, want := listNames(essential), []string{"files__read", "job_status"}; !slices.Equal(got, want) {
		t.Errorf("essential lists %v, want %v", got, want)
	}
	if full.Len() != len(s.Verbs()) || full.Len() != 4 {
		t.Errorf("full lists %v", listNames(full))
	}
	for _, v := range s.Verbs() {
		for _, name := range append([]string{v.Name}, v.Aliases...) {
			if got, visibility := essential.Visibility(name); got != v || (visibility == Advertised) != v.Essential || (visibility == Discoverable) == v.Essential {
				t.Errorf("%s is %s", name, visibility)
			}
		}
	}
	if near := suggested(essential, "files__writ"); !slices.Equal(near, []string{"files__write"}) {
		t.Errorf("what the tier hides is suggested all the same: %v", near)
	}
}

func TestSelectorsChooseInTheirOrder(t *testing.T) {
	files := upstream("files", tool("read", `"inputSchema":{}`), tool("write"), tool("list"), tool("stat"))
	files.Rules.Effects = []EffectRule{{Verb: "[rls]*", Is: broker.Read}}
	files.Rules.Ranks = map[string]int{"stat": -1}
	web := upstream("web", tool("get"), tool("a_verb_of_a_name_that_is_much_longer_than_what_cursor_takes_of_one"))
	tests := []struct {
		name    string
		spec    ProfileSpec
		want    []string
		skipped []Skipped
	}{
		{"a glob over canonical names", ProfileSpec{Select: []Selector{{Verb: "*__[rw]*"}}}, []string{"files__read", "files__write"}, nil},
		{"beside a backend over its own", ProfileSpec{Select: []Selector{{Backend: "files", Verb: "[rw]*"}}}, []string{"files__read", "files__write"}, nil},
		{"effects", ProfileSpec{Select: []Selector{{Backend: "files", ReadsOnly: true}}}, []string{"files__list", "files__read", "files__stat"}, nil},
		{"a family", ProfileSpec{Select: []Selector{{Family: "jobs"}}}, []string{"job_status"}, nil},
		{"required comes first, by rank, then by name", ProfileSpec{MaxTools: 3, Required: []string{"armada_job_status"}, Select: []Selector{{Backend: "files"}}},
			[]string{"files__list", "files__stat", "job_status"}, []Skipped{{"files__read", OverTools, 0}, {"files__write", OverTools, 0}}},
		{"excluded", ProfileSpec{Select: []Selector{{Backend: "files"}}, Exclude: []Selector{{Verb: "files__l*"}, {ReadsOnly: true, Verb: "files__s*"}}}, []string{"files__read", "files__write"}, nil},
		{"required in spite of it", ProfileSpec{Required: []string{"files__list"}, Select: []Selector{{Verb: "web__get"}}, Exclude: []Selector{{Backend: "files"}}}, []string{"files__list", "web__get"}, nil},
		{"too long for a client", ProfileSpec{Preset: "cursor", Select: []Selector{{Backend: "web"}}}, []string{"web__get"}, []Skipped{{"web__a_verb_of_a_name_that_is_much_longer_than_what_curso_36ebc3", NameTooLong, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Name, tt.spec.MaxTokens = "p", 100_000
			s, faults := counted(tt.spec).Build(1, []Source{native(), files, web})
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			p := profile(t, s, "p")
			skipped := p.Skipped()
			for i := range skipped {
				skipped[i].Tokens = 0
			}
			if tt.name == "too long for a client" && len(skipped) == 1 && strings.HasPrefix(skipped[0].Name, "web__a_verb") {
				skipped[0].Name = tt.skipped[0].Name // the end of a cut name is a digest
			}
			if got := listNames(p); !slices.Equal(got, tt.want) || !slices.Equal(skipped, tt.skipped) {
				t.Errorf("lists %v, skips %v", got, skipped)
			}
		})
	}
}

func TestAReadOnlyProfileHoldsAndCostsOnlyWhatReads(t *testing.T) {
	files := upstream("files", tool("read", `"inputSchema":{}`), tool("write", `"inputSchema":{}`))
	files.Rules.Effects = []EffectRule{{Verb: "read", Is: broker.Read}}
	all := []Selector{{Backend: "files"}}
	s, faults := counted(ProfileSpec{Name: "p", MaxTokens: 100_000, ReadOnly: true, Select: all}, ProfileSpec{Name: "q", MaxTokens: 100_000, Select: all},
		ProfileSpec{Name: "files", ReadOnly: true}, ProfileSpec{Name: Full, ReadOnly: true}).Build(1, []Source{native(), files})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, want := range map[string][]string{"p": {"files__read"}, "q": {"files__read", "files__write"}, "files": {"job_status", "read"}, Full: {"files__read", "job_status"}} {
		p := profile(t, s, name)
		costs, _ := p.EntryCosts()
		if got := listNames(p); !slices.Equal(got, want) || len(costs) != len(want) || p.OnlyReads() != (name != "q") {
			t.Errorf("%s lists %v at %v, only reads %v", name, got, costs, p.OnlyReads())
		}
		if p != p.Limited(Limit{All: p.OnlyReads()}) {
			t.Errorf("%s is another one to a caller who only reads", name)
		}
	}
	if v, visibility := profile(t, s, "p").Visibility("files__write"); v == nil || visibility != ReadOnlyDenied {
		t.Errorf("what writes is %s", visibility)
	}
}

func TestAVerbThatDoesNotFitIsSkippedAndTheNextIsTried(t *testing.T) {
	big := tool("big", `"description":"`+strings.Repeat("x", 900)+`"`, `"inputSchema":{}`)
	spec := ProfileSpec{Name: "p", MaxTokens: 800, Select: []Selector{{Backend: "files"}}}
	s, _ := counted(spec).Build(1, []Source{upstream("files", big, tool("small", `"inputSchema":{}`), tool("tiny", `"inputSchema":{}`))})
	p := profile(t, s, "p")
	if got := listNames(p); !slices.Equal(got, []string{"files__small", "files__tiny"}) || len(p.Skipped()) != 1 || p.Skipped()[0].Reason != OverTokens {
		t.Errorf("%v, %v", got, p.Skipped())
	}
	if v, visibility := p.Visibility("files__big"); v == nil || visibility != Discoverable {
		t.Errorf("what is skipped is %s", visibility)
	}
}

func TestAProfileThatCannotBeIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		spec       ProfileSpec
		fatal      bool
	}{
		{"a built-in name", CodeProfileNameTaken, ProfileSpec{Name: Full, Select: []Selector{{Verb: "*"}}}, true},
		{"a backend's name", CodeProfileNameTaken, ProfileSpec{Name: "files", MaxTools: 3}, true},
		{"required over the budget", CodeProfileTooSmall, ProfileSpec{Name: "p", MaxTokens: 100, Required: []string{"job_status"}}, true},
		{"required of a backend over the budget", CodeProfileTooSmall, ProfileSpec{Name: "p", MaxTools: 1, MaxTokens: 9000, Required: []string{"job_status", "files__read"}}, false},
		{"required and never there", CodeSelectsNothing, ProfileSpec{Name: "p", Required: []string{"nobody__has"}}, true},
		{"required and not there now", CodeSelectsNothing, ProfileSpec{Name: "p", Required: []string{"files__has"}}, false},
		{"selects nothing", CodeSelectsNothing, ProfileSpec{Name: "p", Select: []Selector{{Verb: "no_*"}}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := native()
			_, faults := counted(tt.spec).Build(1, []Source{n, upstream("files", tool("read"))})
			if len(faults) != 1 || faults[0].Code != tt.code {
				t.Fatalf("%+v", faults)
			}
			if faults[0].Fatal != tt.fatal && tt.name != "required of a backend over the budget" {
				t.Errorf("fatal %v", faults[0].Fatal)
			}
		})
	}
}

func TestTheRefusalOfASmallProfileSaysWhatWouldDo(t *testing.T) {
	faultsOf := func(tokens int) []Quarantined {
		spec := ProfileSpec{Name: "p", MaxTokens: tokens, Required: []string{"job_status", "files__read"}}
		_, faults := counted(spec).Build(1, []Source{native(), upstream("files", tool("read"), tool("more"))})
		return faults
	}
	faults := faultsOf(100)
	if len(faults) == 0 {
		t.Fatal("it fits")
	}
	_, needs, _ := strings.Cut(faults[0].Reason, "all of it needs ")
	var tools, tokens int
	if _, err := fmt.Sscanf(needs, "%d tools and %d tokens", &tools, &tokens); err != nil || tools != 2 {
		t.Fatalf("%v: %s", err, faults[0].Reason)
	}
	if faults := faultsOf(tokens); len(faults) != 0 {
		t.Errorf("%d tokens do not do: %v", tokens, faults)
	}
	if faults := faultsOf(tokens - 1); len(faults) == 0 {
		t.Errorf("fewer than %d tokens do, too", tokens)
	}
}

// TestProfilesKeepTheirBudgets draws registries and profiles and counts the
// rendered lists again.
func TestProfilesKeepTheirBudgets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sources := drawSources(r)
		spec := ProfileSpec{Name: "drawn", MaxTools: rapid.IntRange(0, 6).Draw(r, "tools"), MaxTokens: rapid.IntRange(100, 3000).Draw(r, "tokens"),
			Preset: rapid.SampledFrom([]string{"", "cursor", "vscode"}).Draw(r, "preset"),
			Select: []Selector{{Verb: rapid.SampledFrom([]string{"*", "*a*", "*__*", "x"}).Draw(r, "glob")}, {ReadsOnly: true}}}
		set := counted(spec)
		s, _ := set.Build(1, sources)
		p, ok := s.Profile("drawn")
		if !ok {
			r.Skip()
		}
		tokens := 0
		for _, raw := range whole(t, p) {
			tokens += len(raw)
		}
		maxTools, maxTokens, _ := p.Budget()
		if tokens > maxTokens || (maxTools > 0 && p.Len() > maxTools) {
			r.Fatalf("%d tools of %d, %d tokens of %d", p.Len(), maxTools, tokens, maxTokens)
		}
		if cost, ok := p.Cost(); !ok || cost != tokens {
			r.Fatalf("the cost is %d, counted again %d", cost, tokens)
		}
		shuffled := rapid.Permutation(sources).Draw(r, "order")
		again, _ := counted(spec).Build(7, shuffled) // another process, too: nothing is remembered
		q := profile(t, again, "drawn")
		if !reflect.DeepEqual(whole(t, p), whole(t, q)) || p.Fingerprint() != q.Fingerprint() {
			r.Fatal("the list depends on the order of registration")
		}
	})
}

// TestEveryVerbIsAdvertisedDiscoverableOrDenied is the equation: callable =
// advertised(full) + discoverable, for random registries, roles and limits.
func TestEveryVerbIsAdvertisedDiscoverableOrDenied(t *testing.T) {
	roles := []broker.Role{broker.GlobalAdministrator, broker.TenantAdministrator, broker.User, "nobody"}
	rapid.Check(t, func(r *rapid.T) {
		n := native()
		n.Facts = map[string]Facts{"job_status": {Essential: rapid.Bool().Draw(r, "essential"), Scope: rapid.SliceOfDistinct(rapid.SampledFrom(roles[:3]), func(x broker.Role) broker.Role { return x }).Draw(r, "scope"),
			Transports: rapid.SliceOfDistinct(rapid.SampledFrom(Transports), func(x Transport) Transport { return x }).Draw(r, "transports")}}
		s, _ := counted(ProfileSpec{Name: "drawn", Select: []Selector{{Verb: "*e*"}}}).Build(1, append(drawSources(r)[1:], n))
		for _, name := range s.Selections() {
			c := Class{Role: rapid.SampledFrom(roles).Draw(r, "role"), Transport: rapid.SampledFrom(Transports).Draw(r, "transport"), Limit: Limit{All: rapid.Bool().Draw(r, "reads")}}
			p, full := profile(t, s, name).As(c), profile(t, s, Full).As(c)
			var reach []string
			for _, e := range p.Reach() {
				reach = append(reach, e.Name)
			}
			if !slices.Equal(reach, listNames(full)) {
				r.Fatalf("%s reaches %v and full lists %v", name, reach, listNames(full))
			}
			for _, v := range s.Verbs() {
				_, visibility := p.Visibility(v.Name)
				callable := visibility == Advertised || visibility == Discoverable
				if callable != slices.Contains(reach, v.Name) || (visibility == Advertised) != slices.Contains(listNames(p), v.Name) {
					r.Fatalf("%s is %s in %s", v.Name, visibility, name)
				}
				always, when := v.Permits()
				want := c.sees(p, v) && (always || len(when) > 0 || !c.All && !v.ReadOnly)
				if callable != want {
					r.Fatalf("%s: callable %v, want %v", v.Name, callable, want)
				}
				if !c.sees(p, v) && visibility != Hidden {
					r.Fatalf("%s is %s to who may not know of it", v.Name, visibility)
				}
			}
		}
	})
}

func TestAVerbDeniedByRoleIsAsIfItDidNotExist(t *testing.T) {
	with, without := native(), native()
	with.Tools = append(with.Tools, tool("job_stats", `"inputSchema":{"type":"object"}`))
	with.Effects = map[string]broker.Effects{"job_status": 0, "job_stats": 0}
	with.Facts = map[string]Facts{"job_stats": {Scope: []broker.Role{broker.GlobalAdministrator}}}
	a, b := profile(t, build(t, with), Full), profile(t, build(t, without), Full)
	a = a.As(Class{Role: broker.User})
	b = b.As(Class{Role: broker.User})
	if !reflect.DeepEqual(whole(t, a), whole(t, b)) || a.Fingerprint() != b.Fingerprint() || a.Instructions() != b.Instructions() {
		t.Error("a list tells of it")
	}
	for _, name := range []string{"job_stats", "berth__job_stats", "job_stat", "jobstats"} {
		if _, ok := a.Resolve(name); ok || !slices.Equal(suggested(a, name), suggested(b, name)) {
			t.Errorf("%s: %v, %v", name, suggested(a, name), suggested(b, name))
		}
	}
	if _, ok := profile(t, build(t, with), Full).As(Class{Role: broker.GlobalAdministrator}).Resolve("job_stats"); !ok {
		t.Error("who may see it does not")
	}
}

func TestTheCanaryStandsAtBothEndsAndNowhereElse(t *testing.T) {
	s := build(t, realSources(t)...)
	seen := map[string]string{}
	for _, name := range s.Selections() {
		p := profile(t, s, name)
		head, tail := p.Canary()
		all := whole(t, p)
		for i, raw := range all {
			h, l := strings.Count(string(raw), " [list head "+head+"]"), strings.Count(string(raw), " [list tail "+tail+"]")
			if h != btoi(i == 0) || l != btoi(i == len(all)-1) || strings.Count(string(raw), "[list ") != h+l {
				t.Errorf("%s, %d: %s", name, i, raw)
			}
		}
		for _, code := range []string{head, tail, p.Fingerprint()} {
			if len(code) != 6 || strings.Trim(code, alphabet) != "" || seen[code] != "" {
				t.Errorf("%s: code %q (%s)", name, code, seen[code])
			}
			seen[code] = name
		}
		if strings.Contains(p.Instructions(), head) {
			t.Error("the instructions give the code away")
		}
	}
	for _, name := range s.Profiles() {
		if raw, _ := profile(t, s, name).Page(""); strings.Contains(string(raw), "[list head") {
			t.Errorf("the exact profile %s has a canary", name)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestReorderingAnEntryChangesNoList(t *testing.T) {
	old := []broker.Tool{tool("a", `"description":"A."`, `"inputSchema":{"type":"object","properties":{"x":{},"y":{}}}`)}
	now := []broker.Tool{{Name: "a", Raw: json.RawMessage(`{"inputSchema":{"properties":{"y":{},"x":{}},"type":"object"},"description":"A.","name":"a"}`)}}
	kept := KeepOrder(old, now)
	one, two := build(t, upstream("f", old...)), build(t, upstream("f", kept...))
	if !reflect.DeepEqual(whole(t, profile(t, one, Full)), whole(t, profile(t, two, Full))) {
		t.Error("the list changed")
	}
	if a, b := one.Verbs()[0].Digest(), build(t, upstream("f", now...)).Verbs()[0].Digest(); a != b {
		t.Error("the digest depends on the order of members")
	}
	now[0].Raw = json.RawMessage(`{"inputSchema":{},"description":"A.","name":"a"}`)
	if kept := KeepOrder(old, now); string(kept[0].Raw) != string(now[0].Raw) {
		t.Error("another entry was not taken")
	}
}

func TestAPinnedVerbThatChangedKeepsItsEntry(t *testing.T) {
	accepted := []broker.Tool{tool("a", `"description":"A."`, `"inputSchema":{}`)}
	src := upstream("f", tool("a", `"description":"Another."`, `"inputSchema":{}`), tool("new", `"inputSchema":{}`))
	src.Rules.Pin, src.Accepted = true, Accept(accepted, src.Tools)
	s, faults := Build(1, []Source{src})
	if len(faults) != 1 || faults[0].Code != CodeVerbChanged || faults[0].Fatal {
		t.Fatalf("%+v", faults)
	}
	v, _ := profile(t, s, Full).Resolve("f__a")
	if v.Changed == "" || !strings.Contains(string(v.Listed), `"A."`) || v.Availability(Ready) != Changed {
		t.Errorf("%+v", v)
	}
	if fresh, _ := profile(t, s, Full).Resolve("f__new"); fresh.Changed != "" {
		t.Error("a verb that is new was not accepted")
	}
	src.Accepted = src.Tools
	if s = build(t, src); s.Verbs()[0].Changed != "" || !strings.Contains(string(s.Verbs()[0].Listed), "Another.") {
		t.Error("what was accepted is not served")
	}
}

func TestInstructionsNameOnlyWhatIsThere(t *testing.T) {
	n := native()
	n.Tools = append(n.Tools, tool("find", `"inputSchema":{"type":"object","properties":{"query":{}}}`), tool("describe", `"inputSchema":{"type":"object","properties":{"names":{}}}`),
		tool("call_write", `"inputSchema":{"type":"object","properties":{"name":{},"arguments":{}}}`))
	n.Effects = map[string]broker.Effects{"job_status": 0, "find": 0, "describe": 0, "call_write": broker.Write}
	n.Facts = map[string]Facts{"find": {Family: FamilyCatalog}}
	files := upstream("files", tool("read"))
	files.Rules.Line = "files holds the project."
	p := profile(t, build(t, n, files), Essential)
	text := p.Instructions()
	for _, want := range []string{"`find {query}`", "`call_write {name, arguments}`", "`job_status {jobId, waitSeconds}`", "files: files holds the project."} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	for _, not := range []string{"call_read", "`more", "session_handshake", "only reads:"} {
		if strings.Contains(text, not) {
			t.Errorf("%s stands in\n%s", not, text)
		}
	}
	reads := p.Limited(Limit{All: true}).Instructions()
	if strings.Contains(reads, "call_write") || !strings.Contains(reads, onlyReads) {
		t.Errorf("of a session that reads:\n%s", reads)
	}
	if faults := p.LintText(text); len(faults) > 0 {
		t.Error(faults)
	}
	if n := (o200k.Counter{}).Count(strings.Join(Sentences(), "\n")).Tokens; n > DefaultInstructionsTokens {
		t.Errorf("all sentences cost %d tokens", n)
	}
}

func TestTheLintFindsWhatIsPlanted(t *testing.T) {
	p := profile(t, build(t, native()), Full)
	for text, want := range map[string]string{
		"Use `job_status {jobId}`.":      "",
		"Use `job_statos {jobId}`.":      "names job_statos",
		"Use `job_status {job}`.":        "names the argument job ",
		"There are 117 verbs.":           "a number of verbs: 117 verbs",
		"It has about forty-one tools.":  "",
		"One of seven meta verbs.":       "seven meta verbs",
		"Use `job status`.":              "no name",
		"Ask `berth__job_status` for it": "",
	} {
		got := strings.Join(p.LintText(text), " ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

var rewrite = flag.Lookup("update")

// TestListsOfRealCatalogs holds what each kind of profile lists of real catalogs:
// the names and what they cost, in o200k tokens.
func TestListsOfRealCatalogs(t *testing.T) {
	set := Settings{Costs: shape.NewCosts(o200k.Counter{}, nil), Profiles: []ProfileSpec{
		{Name: "editor", Preset: "cursor", MaxTokens: 8000, Required: []string{"job_status"}, Select: []Selector{{Backend: "fs", Verb: "read*"}, {Backend: "memory"}, {ReadsOnly: true}, {Verb: "*"}}, Exclude: []Selector{{Verb: "fs__move_file"}}},
		{Name: "reader", Preset: "vscode", Select: []Selector{{ReadsOnly: true}}},
		{Name: "tiny", MaxTools: 5, MaxTokens: 1000, Select: []Selector{{Verb: "*__*search*"}, {Verb: "*"}}},
	}}
	s, faults := set.Build(1, realSources(t))
	for _, f := range faults {
		t.Errorf("%+v", f)
	}
	var out strings.Builder
	for _, name := range s.Selections() {
		p := profile(t, s, name)
		each, total := p.EntryCosts()
		fmt.Fprintf(&out, "== %s: %d tools, %d tokens, %d skipped\n", name, p.Len(), total, len(p.Skipped()))
		for i, e := range p.Entries() {
			fmt.Fprintf(&out, "%s %d\n", e.Name, each[i])
		}
		reasons := map[string]int{}
		for _, sk := range p.Skipped() {
			reasons[sk.Reason]++
		}
		for _, reason := range slices.Sorted(maps.Keys(reasons)) {
			fmt.Fprintf(&out, "-- %s: %d\n", reason, reasons[reason])
		}
	}
	file := filepath.Join("testdata", "profiles.txt")
	if rewrite != nil && rewrite.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the lists are not those of %s; read the difference and run with -update:\n%s", file, out.String())
	}
}
