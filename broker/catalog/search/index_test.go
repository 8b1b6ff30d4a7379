package search

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// shelf makes documents of names, as backend__verb.
func shelf(names ...string) []Doc {
	var docs []Doc
	for _, n := range names {
		backend, bare, _ := strings.Cut(n, "__")
		docs = append(docs, Doc{Name: n, Bare: bare, Backend: backend, Family: backend})
	}
	return docs
}

func found(x *Index, q Query) []string {
	hits, _ := x.Find(q)
	var out []string
	for _, h := range hits {
		out = append(out, x.Doc(h.Doc).Name)
	}
	return out
}

func suggested(x *Index, name string) []string {
	var out []string
	for _, s := range x.Suggest(name, 3, nil) {
		out = append(out, x.Doc(s.Doc).Name)
	}
	return out
}

func everyday() []Doc {
	docs := shelf("fs__read_file", "fs__write_file", "fs__remove_file", "git__readFile", "notes__ingest", "notes__search_notes", "gh__issue_list", "gh__issue_update", "gh__label_issue", "web__openTab")
	docs[4].Description, docs[4].Keywords, docs[4].Aliases = "Takes a document in. It is indexed at once.", []string{"swallow"}, []string{"armada_ingest"}
	docs[5].Description, docs[5].Parameters = "Looks through the corpus.", []string{"needle"}
	docs[9].Family = "wayfinding"
	return docs
}

func TestClassesComeInTheirOrder(t *testing.T) {
	x := New(everyday(), Options{})
	tests := []struct {
		name, query string
		class       Class
		want        []string // the first ones
	}{
		{"a name as listed", "gh__issue_list", Exact, []string{"gh__issue_list"}},
		{"case and separators do not matter", "GH issue-list", Exact, []string{"gh__issue_list"}},
		{"a bare name in its own form first", "readFile", Exact, []string{"git__readFile", "fs__read_file"}},
		{"an alias", "armadaIngest", Exact, []string{"notes__ingest"}},
		{"every word, in any order", "the file: read it", AllWords, []string{"fs__read_file", "git__readFile"}},
		{"a plural is its singular", "issues", AllWords, []string{"gh__issue_list", "gh__issue_update"}},
		{"half of the words", "issue fireworks", Overlap, []string{"gh__issue_list"}},
		{"a synonym counts half", "delete_file", Overlap, []string{"fs__remove_file"}},
		{"a synonym alone", "grep", Overlap, []string{"notes__search_notes"}},
		{"the beginning of a name", "webo", Prefix, []string{"web__openTab"}},
		{"the beginning of a word is better than a slip", "ing", Prefix, []string{"notes__ingest"}},
		{"a letter left out", "ingst", Spelling, []string{"notes__ingest"}},
		{"two letters swapped", "fs__raed_fiel", Spelling, []string{"fs__read_file"}},
		{"what is said about it", "index a document", Text, []string{"notes__ingest"}},
		{"a parameter", "needle", Text, []string{"notes__search_notes"}},
		{"a keyword", "swallowed", Text, []string{"notes__ingest"}},
		{"a family", "wayfinding", Text, []string{"web__openTab"}},
		{"a synonym of what is said", "article paper corpus", Text, []string{"notes__search_notes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hits, total := x.Find(Query{Text: tt.query})
			got := found(x, Query{Text: tt.query})
			if total != len(hits) || len(got) < len(tt.want) || !slices.Equal(got[:len(tt.want)], tt.want) || hits[0].Class != tt.class {
				t.Errorf("got %q, %+v; want %q first, class %v", got, hits, tt.want, tt.class)
			}
		})
	}
}

func TestNothingFoundIsNothing(t *testing.T) {
	x := New(everyday(), Options{})
	for _, query := range []string{"foo", "zz", "qwertyuiop asdf", "é", "日本語"} {
		if got := found(x, Query{Text: query}); len(got) > 0 {
			t.Errorf("%q finds %q", query, got)
		}
	}
	if hits, total := New(nil, Options{}).Find(Query{Text: "read"}); len(hits) > 0 || total != 0 {
		t.Error("an empty index finds something")
	}
}

func TestAnEmptyQueryPagesThroughTheList(t *testing.T) {
	docs := everyday()
	x := New(docs, Options{})
	var want, got []string
	for _, d := range docs {
		want = append(want, d.Name)
	}
	slices.Sort(want)
	for offset := 0; ; offset += 3 {
		page := found(x, Query{Text: " ", Offset: offset, Limit: 3})
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if hits, total := x.Find(Query{Offset: 99, Limit: 3}); len(hits) != 0 || total != len(docs) {
		t.Errorf("past the end: %v, %d", hits, total)
	}
}

func TestStandingDecidesBetweenEquals(t *testing.T) {
	x := New(shelf("a__read", "b__read", "c__read"), Options{})
	got := found(x, Query{Text: "read", Standing: func(doc int) int { return -doc }})
	if !slices.Equal(got, []string{"c__read", "b__read", "a__read"}) {
		t.Errorf("got %q", got)
	}
}

func TestSynonymsCanBeAdded(t *testing.T) {
	docs := shelf("shop__checkout")
	if got := found(New(docs, Options{}), Query{Text: "pay"}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := found(New(docs, Options{Synonyms: [][]string{{"pay", "checkout"}}}), Query{Text: "pay"}); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestSuggest(t *testing.T) {
	x := New(everyday(), Options{})
	tests := []struct {
		name, query string
		want        []string
	}{
		{"another case", "NOTES__INGEST", []string{"notes__ingest"}},
		{"the bare name", "read_file", []string{"fs__read_file", "git__readFile"}},
		{"by synonym", "delete_file", []string{"fs__remove_file"}},
		{"by spelling", "ingst", []string{"notes__ingest"}},
		{"of those with as many words, the one near in spelling", "raed_file", []string{"fs__read_file", "git__readFile"}},
		{"by what is said, if all of it", "index_document", []string{"notes__ingest"}},
		{"not by a word of many", "index_spaceship", nil},
		{"nothing", "foo", nil},
		{"too long", strings.Repeat("read_file", 100), nil},
		{"no word", "__", nil},
		{"empty", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := suggested(x, tt.query)
			if len(got) < len(tt.want) || !slices.Equal(got[:len(tt.want)], tt.want) || (tt.want == nil && got != nil) {
				t.Errorf("got %q, want %q first", got, tt.want)
			}
		})
	}
}

func TestSpelledNeedsNoWordOfTheName(t *testing.T) {
	x := New([]Doc{{Name: "fix__add"}, {Name: "fix__echo"}, {Name: "fixa__other"}}, Options{})
	names := func(query string, keep func(int) bool) (out []string) {
		for _, s := range x.Spelled(query, 3, keep) {
			out = append(out, x.Doc(s.Doc).Name)
		}
		return out
	}
	for query, want := range map[string][]string{"fix__ad": {"fix__add"}, "fix__ehco": {"fix__echo"}, "fix__zzzz": nil, "f": nil, strings.Repeat("fix", 100): nil} {
		if got := names(query, nil); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	if got := names("fix__ad", func(doc int) bool { return doc != 0 }); got != nil {
		t.Errorf("what is not kept: %q", got)
	}
}

func TestAFamilyIsSuggestedForItsName(t *testing.T) {
	x := New(everyday(), Options{})
	for query, want := range map[string]string{"wayfinding": "web__openTab", "notes": "notes__search_notes", "armada_ingest": "notes__ingest"} {
		if got := suggested(x, query); len(got) == 0 || got[0] != want {
			t.Errorf("%q suggests %q", query, got)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"waitSeconds", "jobId", "job_ids", ""}
	for wrong, want := range map[string]string{"job_id": "jobId", "wait_second": "waitSeconds", "jobIdd": "jobId", "id": "", "ID": "", "": "", "colour": "", strings.Repeat("jobId", 40): ""} {
		if got, ok := Nearest(wrong, names); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", wrong, got, ok)
		}
	}
	if got, ok := Nearest("B", []string{"a", "b"}); got != "b" || !ok {
		t.Errorf("a short name in another case: %q, %v", got, ok)
	}
	if got, _ := Nearest("abd", []string{"abc", "aba"}); got != "aba" {
		t.Errorf("of two that are equally near: %q", got)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		text        string
		name, prose []string
	}{
		{"read_text-file.v2", []string{"read", "text", "file", "v", "2"}, []string{"read", "text", "file", "v", "2"}},
		{"readHTTPFile", []string{"read", "http", "file"}, []string{"read", "http", "file"}},
		{"GitHub's API", []string{"git", "hub", "api"}, []string{"github", "api"}},
		{"don't 'quote' me", []string{"don", "quote", "me"}, []string{"don", "quote", "me"}},
		{"Größe", []string{"größe"}, []string{"größe"}},
		{"", nil, nil},
	} {
		if got := nameWords(tt.text); !slices.Equal(got, tt.name) {
			t.Errorf("the name %q is %q", tt.text, got)
		}
		if got := proseWords(tt.text); !slices.Equal(got, tt.prose) {
			t.Errorf("the sentence %q is %q", tt.text, got)
		}
	}
}

func TestSummary(t *testing.T) {
	for text, want := range map[string]string{"One. Two.": "One", "v1.2 of it. More": "v1.2 of it", "First line\nsecond. Third": "First line", " \n": "", "": ""} {
		if got := Summary(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// reference is the distance without limit or shortcuts, by its definition.
func reference(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			cost := 0
			if a[i-1] != b[j-1] {
				cost = 1
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

func TestDistanceIsTheReferenceWithinItsLimit(t *testing.T) {
	word := rapid.StringMatching(`[a-d1é]{0,12}`)
	rapid.Check(t, func(r *rapid.T) {
		a, b, limit := word.Draw(r, "a"), word.Draw(r, "b"), rapid.IntRange(0, 6).Draw(r, "limit")
		want := reference(a, b)
		if got := Distance(a, b, limit); got != min(want, limit+1) {
			r.Fatalf("%q, %q: got %d, want %d at most %d", a, b, got, want, limit+1)
		}
		if bound := lettersOf(a).apart(lettersOf(b)); bound > want {
			r.Fatalf("%q, %q: the letters say %d, the distance is %d", a, b, bound, want)
		}
	})
	long := strings.Repeat("a", 300)
	if got := Distance(long, long[:299]+"b", 3); got != 1 {
		t.Errorf("long names: %d", got)
	}
}

func drawDocs(r *rapid.T) []Doc {
	word := rapid.SampledFrom([]string{"read", "get", "file", "files", "issue", "delete", "list", "x"})
	name := rapid.Custom(func(r *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 1, 3).Draw(r, "name"), rapid.SampledFrom([]string{"_", "__", ""}).Draw(r, "sep"))
	})
	docs := shelf(rapid.SliceOfNDistinct(name, 0, 12, rapid.ID).Draw(r, "names")...)
	for i := range docs {
		docs[i].Description = strings.Join(rapid.SliceOfN(word, 0, 8).Draw(r, "text"), " ")
	}
	return docs
}

var drawQuery = rapid.OneOf(rapid.SampledFrom([]string{"read file", "get_issue", "lst", "fil", "the", "delete the files", "READ"}), rapid.String())

func TestOrderOfVerbsChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		docs := drawDocs(r)
		query := drawQuery.Draw(r, "query")
		first, again := New(docs, Options{}), New(rapid.Permutation(docs).Draw(r, "order"), Options{})
		if a, b := found(first, Query{Text: query}), found(again, Query{Text: query}); !slices.Equal(a, b) {
			r.Fatalf("%q: %q, then %q", query, a, b)
		}
	})
}

func TestPagesJoinToTheWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := New(drawDocs(r), Options{})
		query, limit := drawQuery.Draw(r, "query"), rapid.IntRange(1, 5).Draw(r, "limit")
		keep := func(doc int) bool { return doc%2 == 0 }
		whole := found(x, Query{Text: query, Keep: keep})
		var joined []string
		for offset := 0; offset < len(whole); offset += limit {
			page, total := x.Find(Query{Text: query, Keep: keep, Offset: offset, Limit: limit})
			if total != len(whole) || len(page) > limit {
				r.Fatalf("total %d of %d, page %d of %d", total, len(whole), len(page), limit)
			}
			joined = append(joined, found(x, Query{Text: query, Keep: keep, Offset: offset, Limit: limit})...)
		}
		if !slices.Equal(joined, whole) {
			r.Fatalf("%q is not %q", joined, whole)
		}
	})
}

func FuzzFind(f *testing.F) {
	docs := everyday()
	x := New(docs, Options{})
	for _, seed := range []string{"", "read file", "ingst", "\xff\xfe", "É", strings.Repeat("a ", 2000), "__", "don't"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		hits, total := x.Find(Query{Text: query})
		if total != len(hits) || total > len(docs) {
			t.Errorf("%d of %d", len(hits), total)
		}
		seen := map[int]bool{}
		for i, h := range hits {
			if seen[h.Doc] || (i > 0 && h.Class < hits[i-1].Class) {
				t.Errorf("%q: %+v", query, hits)
			}
			seen[h.Doc] = true
		}
		for _, s := range x.Suggest(query, 3, nil) {
			if s.Doc < 0 || s.Doc >= len(docs) {
				t.Errorf("%q suggests %d", query, s.Doc)
			}
		}
	})
}

// FuzzText holds that no description of a backend breaks an index.
func FuzzText(f *testing.F) {
	f.Add("name", "A description. With a second.", "query")
	f.Add("é\xff", "\xff\xfe", "\xff")
	f.Fuzz(func(t *testing.T, name, text, query string) {
		x := New([]Doc{{Name: name, Description: text, Parameters: []string{query}}}, Options{})
		if hits, _ := x.Find(Query{Text: query}); len(hits) > 1 {
			t.Errorf("%v", hits)
		}
		if folded := Fold(name); folded != "" && len(name) <= MaxQuery && strings.TrimSpace(name) == name {
			if hits, _ := x.Find(Query{Text: name}); len(hits) != 1 || hits[0].Class != Exact {
				t.Errorf("%q does not find itself: %v", name, hits)
			}
		}
	})
}
