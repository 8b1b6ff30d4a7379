package shape

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHidingHidesLiteralsWhateverStandsAroundThem(t *testing.T) {
	const plain = "quiet fox" // nothing in it looks like a credential
	key := "line one of it\nline two of it\n"
	for _, tt := range []struct {
		name     string
		literals []string
		in, want string
	}{
		{"no literal", nil, "it is " + plain, "it is " + plain},
		{"an empty literal", []string{"", " "}, "it is " + plain, "it is " + plain},
		{"in a sentence", []string{plain}, "opened " + plain + " twice, quiet foxes", "opened *** twice, ***es"},
		{"inside a word", []string{plain}, "x" + plain + "x", "x***x"},
		{"the longer one of two", []string{"quiet", "quiet fox"}, "a quiet fox", "a ***"},
		{"two that overlap", []string{"abcdefgh", "efghijkl"}, "<abcdefghijkl>", "<***>"},
		{"one that repeats itself", []string{"ababab"}, "<abababab>", "<***>"},
		{"two side by side", []string{"abcdef", "ghijkl"}, "<abcdefghijkl>", "<***>"},
		{"escaped in JSON", []string{`say "hi" <now>`}, `{"a":"say \"hi\" <now>","b":"say \"hi\" \u003cnow\u003e"}`, `{"a":"***","b":"***"}`},
		{"quoted by Go", []string{`a\b c"d`}, strconv.Quote(`a\b c"d`), `"***"`},
		{"escaped in a query", []string{"a b/c&d"}, "?x=" + url.QueryEscape("a b/c&d") + "&y=1", "?x=***&y=1"},
		{"escaped in a path", []string{"a b/c"}, "/x/" + url.PathEscape("a b/c") + "/y", "/x/***/y"},
		{"in base64", []string{plain}, "basic " + base64.StdEncoding.EncodeToString([]byte(plain)), "basic ***"},
		{"a short one keeps words that are its base64", []string{"abc"}, "YWJj abc", "YWJj ***"},
		{"without the white space around it", []string{" " + plain + "\n"}, "<" + plain + ">", "<***>"},
		{"line by line", []string{key}, "1: line one of it\r\n2: line two of it", "1: ***\r\n2: ***"},
		{"cut off at its beginning", []string{plain}, "et fox is gone", "*** is gone"},
		{"cut off at its end", []string{plain}, "here is quiet ", "here is ***"},
		{"cut off to what says nothing", []string{plain}, "t fox is gone, quie", "t fox is gone, quie"},
		{"and what looks like a credential", []string{plain}, "password=xyz " + plain, "password=*** ***"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Hiding(tt.literals)(tt.in); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestHidingLeavesNoLiteral(t *testing.T) {
	word := rapid.StringMatching(`[ab"\\ é]{2,8}`)
	rapid.Check(t, func(t *rapid.T) {
		literals := rapid.SliceOfN(word, 1, 5).Draw(t, "literals")
		parts := rapid.SliceOf(rapid.OneOf(word, rapid.SampledFrom(literals))).Draw(t, "text")
		got := Hiding(literals)(strings.Join(parts, ""))
		for _, l := range literals {
			if strings.TrimSpace(l) != "" && strings.Contains(got, l) {
				t.Fatalf("%q is left in %q", l, got)
			}
		}
	})
}

func TestNamesOfCredentialsAreKnown(t *testing.T) {
	for name, want := range map[string]bool{"GITHUB_TOKEN": true, "api-key": true, "DbPassword": true, "PATH": false, "LOG_LEVEL": false, "": false} {
		if NamesCredential(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
