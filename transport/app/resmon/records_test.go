package resmon

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAnExportIsPartedIntoWholeReferences(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"bibtex":               {"@article{a,\n title={x @ y}\n}\n\n@book{b,\n}\n", 2},
		"ris":                  {"TY  - JOUR\nTI  - a\nER  -\n\nTY  - BOOK\nER  -\n", 2},
		"csv":                  {"id,title\n1,\"two\nlines\"\n2,b\n", 3},
		"csv without an end":   {"id\n1", 2},
		"nothing":              {"", 0},
		"a single one, broken": {"@article{", 1},
	} {
		got := records(tt.text)
		if strings.Join(got, "") != tt.text || (len(got) != tt.want && tt.text != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheRecordsOfATextAreTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(@|TY  -|x)?([a@"\n,]|TY  -){0,40}`).Draw(t, "text")
		if got := strings.Join(records(text), ""); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
