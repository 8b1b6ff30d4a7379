package codeindex

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTermsAreWordsInOneFormAndTheirParts(t *testing.T) {
	for text, want := range map[string]string{
		"fooBar":           "foobar foo bar",
		"foo_bar FOO_BAR":  "foobar foo bar foobar foo bar",
		"HTTPServer":       "httpserver http server",
		"newproc1 sha256":  "newproc1 sha256",
		"parseURL2x(a, b)": "parseurl2x parse url2x",
		"__init__":         "init init",
		"x y 1 12":         "12",
		"0123456789 12345": "12345",
		"größe Straße":     "größe straße",
		"":                 "",
		"_ __ .":           "",
	} {
		var got []string
		Terms(text, func(term string) { got = append(got, term) })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

// TestTheScoreIsTheContracts is contracts/native.md section 6, and what a
// definition adds.
func TestTheScoreIsTheContracts(t *testing.T) {
	for name, tc := range map[string]struct {
		query string
		c     Candidate
		want  int
	}{
		"nothing":                    {"alpha", Candidate{Path: "b", Content: "beta"}, 0},
		"no term":                    {"+", Candidate{Path: "+", Content: "+"}, 0},
		"whole and two hits":         {"alpha", Candidate{Path: "b", Content: "alpha alpha"}, 8 + 2},
		"hits are capped":            {"alpha", Candidate{Path: "b", Content: strings.Repeat("alpha ", 50)}, 8 + 5},
		"whole and term in the path": {"alpha", Candidate{Path: "x/alpha.go", Content: "beta"}, 12 + 4},
		"each distinct term":         {"alpha beta alpha", Candidate{Path: "b", Content: "alpha x beta"}, 2},
		"the name itself":            {"fooBar", Candidate{Path: "b", Content: "func fooBar()", Defines: []string{"fooBar"}}, 8 + 3 + 40 + 2},
		"the name in other words":    {"foo bar", Candidate{Path: "b", Content: "func fooBar()", Defines: []string{"fooBar"}}, 2 + 40},
		"half of the words":          {"foo bar", Candidate{Path: "b", Content: "func foo()", Defines: []string{"foo"}}, 1 + 20 + 2},
		"the other half in the path": {"foo bar", Candidate{Path: "bar", Content: "func foo()", Defines: []string{"foo"}}, 1 + 4 + 40 + 2},
		"half of the name":           {"foo", Candidate{Path: "b", Content: "func fooBar()", Defines: []string{"fooBar"}}, 8 + 1 + 20},
		"a definition in a test":     {"foo bar", Candidate{Path: "b", Content: "func fooBar()", Defines: []string{"fooBar"}, Test: true}, 2 + 20},
		"the best definition counts": {"foo", Candidate{Path: "b", Content: "foo fooBar", Defines: []string{"fooBar", "foo", "baz"}}, 8 + 2 + 42},
	} {
		q := ParseQuery(tc.query)
		if got := q.Score(tc.c); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestDefinitionsAreFoundByLanguage(t *testing.T) {
	for file, tc := range map[string]struct{ text, want string }{
		"a.go":   {"package p\nfunc Alpha() {\n\tx := 1\n}\nfunc (r *R) Beta(x int) {}\ntype Gamma[T any] struct{}\nconst (\n\tDelta = iota\n\tEpsilon\n)\nvar zeta = 1\n\tfunc not() {}\n", "Alpha Beta Gamma Delta Epsilon zeta"},
		"a.py":   {"class Alpha:\n    async def beta(self):\n        pass\nGAMMA = 1\n", "Alpha beta GAMMA"},
		"a.ts":   {"export default class Alpha {\n  private async beta(x: number) {\n  }\n  if (x) {\n}\nexport const gamma = 1\ninterface Delta {}\n", "Alpha beta gamma Delta"},
		"a.rs":   {"pub(crate) async fn alpha() {}\nimpl X {\n    pub fn beta() {}\n}\nmacro_rules! gamma {}\n", "alpha beta gamma"},
		"a.java": {"public final class Alpha {\n  private static int beta(String s) {\n", "Alpha beta"},
		"a.c":    {"#define ALPHA 1\nstatic int beta(int x)\n{\n\treturn gamma(x);\n}\nstruct delta {\n", "ALPHA beta delta"},
		"a.rb":   {"class Alpha\n  def self.beta\n", "Alpha beta"},
		"a.sh":   {"alpha() {\n", "alpha"},
		"a.sql":  {"CREATE TABLE IF NOT EXISTS alpha (\n", "alpha"},
		"a.txt":  {"func alpha() {}\n", ""},
	} {
		define := LanguageOf(file).definer()
		var got []string
		for line := range strings.SplitSeq(tc.text, "\n") {
			if name := define(line); name != "" {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %s", file, got, tc.want)
		}
	}
}

// TestADefinitionBeginsAChunkWithItsComment: what is said of it stands with it.
func TestADefinitionBeginsAChunkWithItsComment(t *testing.T) {
	text := "package p\n" + strings.Repeat("\n", 12) + "// alpha does.\n// Well.\nfunc alpha() {\n}\n"
	chunks := Split(text, golang)
	if len(chunks) != 2 || !strings.HasPrefix(chunks[1].Text, "// alpha") || chunks[1].Start != 14 || chunks[1].End != 17 || !slices.Equal(chunks[1].Defines, []string{"alpha"}) {
		t.Errorf("%+v", chunks)
	}
}

// TestChunksAreTheText: nothing is lost, doubled or too large, and the lines are
// those of the text.
func TestChunksAreTheText(t *testing.T) {
	line := rapid.OneOf(rapid.Just(""), rapid.Just("func alpha() {"), rapid.Just("// comment"), rapid.String(), rapid.Just(strings.Repeat("é", maxChunk)))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(line, 0, 300).Draw(t, "lines"), "\n")
		var b strings.Builder
		last := 1
		for _, c := range Split(text, golang) {
			if c.Text == "" || len(c.Text) > maxChunk+len(text) || c.Start < last || c.End < c.Start || !utf8.ValidString(c.Text) && utf8.ValidString(text) {
				t.Fatalf("%+v after line %d", c, last)
			}
			if want := 1 + strings.Count(b.String(), "\n"); c.Start != want {
				t.Fatalf("begins at line %d, want %d", c.Start, want)
			}
			b.WriteString(c.Text)
			if want := strings.Count(strings.TrimSuffix(b.String(), "\n"), "\n") + 1; c.End != want {
				t.Fatalf("ends at line %d, want %d", c.End, want)
			}
			last = c.End
		}
		if b.String() != text {
			t.Fatal("the chunks are not the text")
		}
	})
}

func FuzzAQueryIsReadWhateverItIs(f *testing.F) {
	f.Add("fooBar", "x.go", "func fooBar() {}")
	f.Add("İ ß \xff", "İ", "İ\xff")
	f.Fuzz(func(t *testing.T, query, path, content string) {
		q := ParseQuery(query)
		if len(q.Terms) > maxTerms {
			t.Fatal(q.Terms)
		}
		if q.Score(Candidate{Path: path, Content: content, Defines: strings.Fields(content)}) < 0 {
			t.Fatal("a score below zero")
		}
		if e := q.Excerpt(content); utf8.RuneCountInString(e) > excerptLength {
			t.Fatal(len(e))
		}
	})
}
