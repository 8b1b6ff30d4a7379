package catalog

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/broker"

	"pgregory.net/rapid"
)

func drawSources(r *rapid.T) []Source {
	verb := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "a_b", "a.b", "_b", "job_status", "berth__job_status", "berth__a", "é", "A", "x__y", "armada_job_status"}),
		rapid.StringMatching(`[a-z._é]{1,70}`),
		rapid.String(),
	)
	out := []Source{native()}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "a_", "mcp", "b.c", "b_c", "job"}), rapid.ID).Draw(r, "backends") {
		s := Source{Backend: name, Listed: rapid.IntRange(0, 4).Draw(r, "listed") > 0, Rules: Rules{TrustAnnotations: rapid.Bool().Draw(r, "trust")}}
		for _, v := range rapid.SliceOfN(verb, 0, 8).Draw(r, "verbs") {
			fields := rapid.SampledFrom([][]string{nil, {`"inputSchema":{}`, `"annotations":{"readOnlyHint":true}`}, {`"inputSchema":7`}, {`"outputSchema":{}`, `"inputSchema":{ }`}}).Draw(r, "fields")
			s.Tools = append(s.Tools, tool(v, fields...))
		}
		out = append(out, s)
	}
	return out
}

// lists gives the bytes of all lists of a snapshot.
func lists(t testing.TB, s *Snapshot) map[string]string {
	out := map[string]string{}
	for _, name := range append(s.Profiles(), "") {
		page, refusal := profile(t, s, name).Page("")
		if refusal != nil {
			t.Fatal(refusal)
		}
		out[name] = string(page)
	}
	return out
}

func TestBuildDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sources := drawSources(r)
		first, faults := Build(1, sources)
		shuffled := rapid.Permutation(sources).Draw(r, "order")
		for i := range shuffled {
			if len(shuffled[i].Tools) > 0 {
				shuffled[i].Tools = rapid.Permutation(shuffled[i].Tools).Draw(r, "tools")
			}
		}
		second, again := Build(1, shuffled)
		if !reflect.DeepEqual(faults, again) {
			r.Fatalf("faults %+v, then %+v", faults, again)
		}
		if a, b := lists(t, first), lists(t, second); !reflect.DeepEqual(a, b) {
			r.Fatalf("lists %v, then %v", a, b)
		}
		if a, b := lists(t, first), lists(t, first); !reflect.DeepEqual(a, b) {
			r.Fatal("a list changed between two looks")
		}
	})
}

func TestNamesAndVerbsAnswerToEachOther(t *testing.T) {
	listable := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	rapid.Check(t, func(r *rapid.T) {
		s, faults := Build(1, drawSources(r))
		for _, name := range append(s.Profiles(), "") {
			p := profile(t, s, name)
			seen := map[*Verb]bool{}
			listed := names(t, p)
			if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
				r.Fatalf("%q lists %q", name, listed)
			}
			for _, n := range listed {
				v, ok := p.Resolve(n)
				if !ok || seen[v] {
					r.Fatalf("%q: %q resolves to %+v, %v", name, n, v, ok)
				}
				seen[v] = true
				if name == "" && (n != v.Name || !listable.MatchString(n)) {
					r.Fatalf("%q is listed as %q", v.Name, n)
				}
			}
		}
		merged := profile(t, s, "")
		for _, v := range s.Verbs() {
			for _, n := range append(slices.Clone(v.Aliases), v.Name) {
				if got, ok := merged.Resolve(n); !ok || got != v {
					r.Fatalf("%q of %q does not resolve to it", n, v.Name)
				}
			}
			if !json.Valid(v.Listed) {
				r.Fatalf("%s", v.Listed)
			}
		}
		for _, f := range faults {
			if f.Fatal {
				r.Fatalf("%+v", f)
			}
		}
	})
}

func FuzzResolve(f *testing.F) {
	s := build(f, native(), upstream("files", tool("read"), tool("edit.file")), upstream("mcp", tool("berth__x")))
	for _, seed := range []string{"files__read", "berth.files__read", "mcp__berth__x", "mcp__berth__", "FILES__read", "\xff", "berth.", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, profileName := range []string{"", "files"} {
			p := profile(t, s, profileName)
			v, ok := p.Resolve(name)
			if ok {
				bare, _ := p.unprefixed(name)
				known := func(n string) bool {
					return n == v.Name || n == v.Upstream || slices.Contains(v.Aliases, n)
				}
				if !known(name) && !known(bare) {
					t.Errorf("%q was guessed to be %q", name, v.Name)
				}
			}
			for _, n := range suggested(p, name) {
				if _, ok := p.Resolve(n); !ok {
					t.Errorf("%q is suggested for %q and does not resolve", n, name)
				}
			}
		}
	})
}

// TestResolutionIsTheModel holds Resolve to the rule: the name as it stands, else
// without its longest harness prefix; nothing else, and one prefix only.
func TestResolutionIsTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sources := drawSources(r)
		built, _ := Build(1, sources)
		more := rapid.SliceOfN(rapid.SampledFrom([]string{"cursor:", "mcp__", "tools/", "x.", "berth__"}), 0, 3).Draw(r, "prefixes")
		s, _ := Settings{Prefixes: more}.Build(1, sources)
		if a, b := lists(t, built), lists(t, s); !reflect.DeepEqual(a, b) {
			r.Fatal("prefixes change a list")
		}
		byName := map[string]*Verb{}
		for _, v := range s.Verbs() {
			byName[v.Name] = v
			for _, a := range v.Aliases {
				byName[a] = v
			}
		}
		known := slices.Sorted(maps.Keys(byName))
		name := rapid.SampledFrom(append([]string{"berth.", "mcp__berth__"}, more...)).Draw(r, "first")
		if rapid.Bool().Draw(r, "bare") {
			name = ""
		}
		name += rapid.SampledFrom(append(known, "nothing", "berth.")).Draw(r, "name")
		if rapid.Bool().Draw(r, "another case") {
			name = strings.ToUpper(name)
		}
		want := byName[name]
		if want == nil {
			cut := ""
			for _, p := range append([]string{"berth.", "mcp__berth__"}, more...) {
				if strings.HasPrefix(name, p) && len(p) > len(cut) {
					cut = p
				}
			}
			if cut != "" {
				want = byName[name[len(cut):]]
			}
		}
		if got, ok := profile(t, s, "").Resolve(name); got != want || ok != (want != nil) {
			r.Fatalf("%q resolves to %+v, want %+v", name, got, want)
		}
	})
}

func TestPrefixesThatPartNothingAreRefused(t *testing.T) {
	for _, prefix := range []string{"", "mcp", "mcp_", "é", strings.Repeat("x", 64) + "."} {
		_, faults := Settings{Prefixes: []string{prefix}}.Build(1, []Source{native()})
		if len(faults) != 1 || !faults[0].Fatal {
			t.Errorf("%q is taken", prefix)
		}
	}
}

func FuzzOutwardName(f *testing.F) {
	for _, seed := range []string{"a__b", "a__é.b", "\xff\xfe", "a__" + string(make([]byte, 100))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, full string) {
		name := outward(full)
		if len(name) > maxName || fold(name) != name || outward(name) != name {
			t.Errorf("%q became %q", full, name)
		}
	})
}

// FuzzEntry holds that no entry of a backend breaks a list.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(richEntry))
	f.Add([]byte(`{"name":"edit.file","name":"edit.file","annotations":[],"annotations":{}}`))
	f.Add([]byte(`{"inputSchema":{},"\u006eame":"edit.file"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, _ := Build(1, []Source{native(), upstream("x", broker.Tool{Name: "edit.file", Raw: raw})})
		for name, list := range lists(t, s) {
			var v struct {
				Tools []struct{ Name string }
			}
			if err := json.Unmarshal([]byte(list), &v); err != nil {
				t.Fatalf("%q: %v in %s", name, err, list)
			}
			for _, e := range v.Tools {
				if _, ok := profile(t, s, name).Resolve(e.Name); !ok {
					t.Errorf("%q lists %q and does not resolve it", name, e.Name)
				}
			}
		}
	})
}
