package help

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog/search"

	"pgregory.net/rapid"
)

// shop is a catalog of a few verbs, as one principal sees it.
type shop struct {
	docs  []search.Doc
	verbs map[string]Verb
}

func newShop(names ...string) shop {
	s := shop{verbs: map[string]Verb{}}
	for _, name := range names {
		backend, bare, cut := strings.Cut(name, "__")
		if !cut {
			backend, bare = "berth", name
		}
		s.docs = append(s.docs, search.Doc{Name: name, Bare: bare, Backend: backend, Family: backend, Description: "Does what " + bare + " says."})
		card, _ := json.Marshal(map[string]string{"name": name})
		s.verbs[name] = Verb{Name: name, Via: "direct", Card: card, Callable: true, Minimal: json.RawMessage(`{"path":"<path>"}`), Inputs: []Input{{Verb: name, Name: "path", Type: "string"}}}
	}
	return s
}

func (s shop) Resolve(name string) (int, bool) {
	i := slices.IndexFunc(s.docs, func(d search.Doc) bool { return d.Name == name })
	return i, i >= 0
}

func (s shop) Verb(doc int) Verb { return s.verbs[s.docs[doc].Name] }

func (s shop) Backend(name string) (string, bool) {
	found := slices.ContainsFunc(s.docs, func(d search.Doc) bool { return d.Backend == name })
	return "ready", found
}

func (s shop) desk(routes ...OwnRoute) Desk {
	return Desk{View: s, Index: search.New(s.docs, search.Options{}), Routes: routes, Catalog: "k3f9ab"}
}

func answer(t *testing.T, d Desk, q Question) Reply {
	t.Helper()
	r, refusal := d.Answer(q)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return r
}

var meta = []string{"find", "describe", "call_read", "call_write", "help", "more", "job_status", "session_handshake", "health"}

func everyday() shop {
	return newShop(append(slices.Clone(meta), "fs__read_file", "fs__write_file", "fs__remove_file", "notes__ingest", "notes__search_notes")...)
}

func TestOverviewNamesOnlyWhatIsThere(t *testing.T) {
	full := answer(t, everyday().desk(), Question{})
	if full.Mode != Overview || !full.Found || len(full.Text) != len(overview) {
		t.Errorf("%+v", full)
	}
	few := answer(t, newShop("find", "describe").desk(), Question{})
	for _, s := range few.Text {
		for _, name := range Named(s) {
			if name != "find" && name != "describe" {
				t.Errorf("%q is told where it is not", s)
			}
		}
	}
	if len(few.Text) != 3 {
		t.Errorf("%q", few.Text)
	}
}

func TestSentencesNameVerbsOfTheCatalogFamily(t *testing.T) {
	all := Sentences()
	if len(all) < len(kinds) {
		t.Fatal("kinds have no advice")
	}
	for _, s := range all {
		for _, name := range Named(s) {
			if !slices.Contains(meta, name) {
				t.Errorf("%q names %q", s, name)
			}
		}
		if strings.Count(s, "`")%2 != 0 || !strings.HasSuffix(s, ".") {
			t.Errorf("%q is no sentence", s)
		}
	}
	for c := search.Exact; c <= search.Listed; c++ {
		if Reason(c) == "" {
			t.Errorf("%v has no reason", c)
		}
	}
}

func TestVerbMode(t *testing.T) {
	d := everyday().desk()
	r := answer(t, d, Question{Name: "fs__read_file"})
	if !r.Found || string(r.Card) != `{"name":"fs__read_file"}` || len(r.Guidance.RequiredInputs) != 1 || string(r.Guidance.MinimalCalls[0].Arguments) != `{"path":"<path>"}` {
		t.Errorf("%+v", r)
	}
	tests := []struct{ name, want string }{
		{"FS__READ_FILE", "fs__read_file"}, {"read_file", "fs__read_file"}, {"ingst", "notes__ingest"},
		{"delete_file", "fs__remove_file"},
	}
	for _, tt := range tests {
		r := answer(t, d, Question{Name: tt.name})
		if r.Found || r.Card != nil || len(r.Suggestions) == 0 || r.Suggestions[0].Name != tt.want || r.Suggestions[0].Reason == "" {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	// The catalog's own find is a search verb as well.
	if r := answer(t, d, Question{Name: "grep"}); !slices.ContainsFunc(r.Suggestions, func(s Recommended) bool { return s.Name == "notes__search_notes" }) {
		t.Errorf("grep: %+v", r)
	}
	if r := answer(t, d, Question{Name: "foo"}); r.Found || len(r.Suggestions) != 0 || len(r.Text) == 0 {
		t.Errorf("foo: %+v", r)
	}
	if r := answer(t, d, Question{Name: "notes"}); !r.Found || r.Backend == nil || r.Backend.State != "ready" || len(r.Suggestions) != 2 {
		t.Errorf("a backend: %+v", r)
	}
}

func TestRouteMode(t *testing.T) {
	s := everyday()
	rm := s.verbs["fs__remove_file"]
	rm.Callable, rm.Reason = false, "read_only"
	s.verbs["fs__remove_file"] = rm
	write := s.verbs["fs__write_file"]
	write.Via, write.Next = "call_write", []Next{{"fs__read_file", "See it."}, {"gone", "Not there."}}
	s.verbs["fs__write_file"] = write
	d := s.desk(OwnRoute{"publish article", "notes__ingest", "This is how we publish."}, OwnRoute{"publish", "gone", "Not there."})

	r := answer(t, d, Question{Intent: "please publish the new article"})
	if !r.Found || r.Guidance.Recommended[0] != (Recommended{"notes__ingest", "This is how we publish."}) {
		t.Errorf("%+v", r.Guidance)
	}
	r = answer(t, d, Question{Intent: "write a file", MaxSuggestions: 1})
	want := `{"name":"fs__write_file","arguments":{"path":"<path>"}}`
	if len(r.Guidance.Recommended) != 1 || r.Guidance.MinimalCalls[0].Name != "call_write" || string(r.Guidance.MinimalCalls[0].Arguments) != want || len(r.Guidance.Next) != 1 {
		t.Errorf("%+v", r.Guidance)
	}
	r = answer(t, d, Question{Intent: "delete the file"})
	if !slices.Contains(r.Guidance.Rejected, Recommended{"fs__remove_file", "read_only"}) {
		t.Errorf("%+v", r.Guidance)
	}
	if r = answer(t, d, Question{Intent: "bake bread"}); r.Found || len(r.Guidance.Recommended) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRecoveryMode(t *testing.T) {
	d := everyday().desk()
	tests := []struct {
		name, verb, text string
		advice           string
		card, suggested  string
	}{
		{"an unknown tool", "", "MCP error -32602: Tool not found: readFile. Did you mean: x?", "No verb has this name", "", "fs__read_file"},
		{"an unknown tool in quotes", "", `Unknown tool "ingst"`, "No verb has this name", "", "notes__ingest"},
		{"arguments", "fs__read_file", "Invalid params: missing required property path", "minimal call", "fs__read_file", ""},
		{"a verb that is named in the text", "", "Input validation error: fs__write_file: content is required", "minimal call", "fs__write_file", ""},
		{"a code", "", `{"code":"effects_exceed_read","detail":{"verb":"fs__write_file"}}`, "changes something", "fs__write_file", ""},
		{"a timeout", "", "fs__write_file: call_timeout", "longer than it may", "fs__write_file", ""},
		{"a wrong name beside the text", "reed_file", "boom", "", "", "fs__read_file"},
		{"a missing file", "", "ENOENT: no such file or directory", "does not exist", "", ""},
		{"nothing known", "", "kaboom", "Nothing here", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := answer(t, d, Question{Name: tt.verb, ErrorText: tt.text})
			if r.Mode != Recovery || !strings.Contains(strings.Join(r.Text, " "), tt.advice) {
				t.Errorf("%+v", r)
			}
			if (tt.card == "") != (r.Card == nil) || !strings.Contains(string(r.Card), tt.card) {
				t.Errorf("card %s", r.Card)
			}
			if tt.suggested != "" && (len(r.Suggestions) == 0 || r.Suggestions[0].Name != tt.suggested) {
				t.Errorf("suggests %v", r.Suggestions)
			}
		})
	}
}

func TestRefusedQuestions(t *testing.T) {
	for _, q := range []Question{{Mode: "all"}, {Mode: OneVerb}, {Mode: Route}, {Mode: Route, Intent: " "}, {Mode: Recovery}, {MaxSuggestions: -1}, {MaxSuggestions: 11}} {
		if _, refusal := everyday().desk().Answer(q); refusal == nil || refusal.Code != broker.CodeInvalidArguments || refusal.Detail["errors"] == nil {
			t.Errorf("%+v: %v", q, refusal)
		}
	}
}

// TestNothingOfTheQuestionComesBack holds for texts that carry a secret beside
// words of the catalog.
func TestNothingOfTheQuestionComesBack(t *testing.T) {
	d := everyday().desk()
	rapid.Check(t, func(r *rapid.T) {
		secret := rapid.StringMatching(`zq[0-9a-f]{12}`).Draw(r, "secret")
		around := rapid.SampledFrom([]string{"%s", "Tool not found: %s", "`%s` read_file", `call_timeout "%s"`, "path=/home/%s fs__read_file"}).Draw(r, "around")
		text := strings.ReplaceAll(around, "%s", secret)
		for _, q := range []Question{{ErrorText: text}, {Intent: text}, {Name: text}, {Name: secret, ErrorText: text}} {
			reply, refusal := d.Answer(q)
			if refusal != nil {
				r.Fatal(refusal)
			}
			raw, err := json.Marshal(reply)
			if err != nil || strings.Contains(string(raw), secret) {
				r.Fatalf("%s, %v", raw, err)
			}
		}
	})
}

// FuzzAnswer holds that an answer is bounded and names only what resolves.
func FuzzAnswer(f *testing.F) {
	s := everyday()
	d := s.desk(OwnRoute{"publish article", "notes__ingest", "So."})
	f.Add("", "", "", "")
	f.Add("read_file", "publish an article", "Tool not found: readFile", "")
	f.Add("", "", "`", "recovery")
	f.Fuzz(func(t *testing.T, name, intent, text, mode string) {
		r, refusal := d.Answer(Question{Name: name, Intent: intent, ErrorText: text, Mode: Mode(mode)})
		if refusal != nil {
			return
		}
		for _, list := range [][]Recommended{r.Suggestions, r.Guidance.Recommended, r.Guidance.Rejected} {
			if len(list) > DefaultSuggestions {
				t.Errorf("%d are named", len(list))
			}
			for _, one := range list {
				if _, ok := s.Resolve(one.Name); !ok || one.Reason == "" {
					t.Errorf("%+v", one)
				}
			}
		}
	})
}
