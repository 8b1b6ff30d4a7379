package catalog

import (
	"strings"
	"testing"
)

func TestTemplateSaysWhoMayHaveMadeAURI(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		want          bool
	}{
		{"test://static", "test://static", true},
		{"test://static", "test://static/x", false},
		{"test://template/{id}/data", "test://template/123/data", true},
		{"test://template/{id}/data", "test://template//data", false},
		{"test://template/{id}/data", "test://template/1/other", false},
		{"test://{a}/{b}", "test://x/y/z", true},
		{"test://{a}/{b}", "test://x", false},
		{"file:///{+path}", "file:///a/b", true},
		{"file:///{+path}", "file:///", false},
		{"x://s{?q}", "x://s", true},
		{"x://s{?q}", "x://s?q=1", true},
		{"x://{a}{b}", "x://1", false},
		{"x://{a", "x://a", false},
		{"{a}", "anything", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := MatchesTemplate(c.template, c.uri); got != c.want {
			t.Errorf("%q %q: %v", c.template, c.uri, got)
		}
	}
}

func TestPromptNamesAreVerbNames(t *testing.T) {
	if got := PromptName("fs", "a b"); got != "fs__a_b" {
		t.Error(got)
	}
	if got := PromptName("fs", strings.Repeat("x", 100)); len(got) != maxName {
		t.Error(got)
	}
}
