package catalogtest

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestEveryListHasEachVerbOnce(t *testing.T) {
	lists, err := Real()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, l := range append(lists, Generate(2000)...) {
		seen := map[string]bool{}
		for _, tool := range l.Tools {
			if tool.Name == "" || seen[tool.Name] || !json.Valid(tool.Raw) {
				t.Errorf("%s: %q", l.Backend, tool.Name)
			}
			seen[tool.Name] = true
		}
		sizes[l.Backend] += len(l.Tools)
	}
	for _, backend := range []string{"everything", "fs", "memory", "resmon"} {
		if sizes[backend] == 0 {
			t.Errorf("%s lists nothing", backend)
		}
	}
}

func TestTheMadeCatalogIsTheSameEachTime(t *testing.T) {
	for _, n := range []int{0, 1, 39, 40, 41, 2000} {
		first := Generate(n)
		total := 0
		for _, l := range first {
			total += len(l.Tools)
		}
		if total != n || !reflect.DeepEqual(first, Generate(n)) {
			t.Errorf("%d: made %d, or not the same twice", n, total)
		}
	}
}
