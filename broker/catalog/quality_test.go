package catalog

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/broker/catalog/catalogtest"
	"berth/broker/catalog/search"
)

// request is a wish in words and the verbs of which one should come first.
type request struct {
	text string
	want []string
}

func requests(t testing.TB, file string) []request {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []request
	for line := bufio.NewScanner(bytes.NewReader(raw)); line.Scan(); {
		if strings.HasPrefix(line.Text(), "#") || line.Text() == "" {
			continue
		}
		verbs, text, ok := strings.Cut(line.Text(), "\t")
		if !ok {
			t.Fatalf("%s: no tab in %q", file, line.Text())
		}
		out = append(out, request{text, strings.Split(verbs, "|")})
	}
	return out
}

// realIndex is the index of a merged profile of all real catalogs, with more
// verbs beside them if wanted.
func realIndex(t testing.TB, more ...catalogtest.List) *search.Index {
	t.Helper()
	lists, err := catalogtest.Real()
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{native()}
	for _, l := range slices.Concat(lists, more) {
		sources = append(sources, upstream(l.Backend, l.Tools...))
	}
	s, faults := Build(1, sources)
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	return search.New(documents(s), search.Options{})
}

func documents(s *Snapshot) []search.Doc {
	var docs []search.Doc
	for _, v := range s.Verbs() {
		docs = append(docs, v.Document(v.Name))
	}
	return docs
}

// recall is how many requests found a wanted verb first, and among the first five.
type recall struct{ first, five, of int }

func (r recall) at1() float64 { return float64(r.first) / float64(r.of) }
func (r recall) at5() float64 { return float64(r.five) / float64(r.of) }

func measure(t testing.TB, x *search.Index, list []request) (r recall) {
	t.Helper()
	for _, q := range list {
		hits, _ := x.Find(search.Query{Text: q.text, Limit: 5})
		at := slices.IndexFunc(hits, func(h search.Hit) bool { return slices.Contains(q.want, x.Doc(h.Doc).Name) })
		r.of++
		if at == 0 {
			r.first++
		}
		if at >= 0 {
			r.five++
		}
		if at != 0 {
			t.Logf("%q: %q is at %d", q.text, q.want, at)
		}
	}
	return r
}

const (
	page  = "../../docs/catalog.md"
	begin = "<!-- Written by `go test ./broker/catalog -run TestFindQualityIsFresh -update`; measured, not typed. -->\n"
	end   = "<!-- End of what is written. -->\n"
)

// TestFindQualityIsFresh measures how well find ranks and holds docs/catalog.md to
// it: a change of the ranking shows as a change of that page.
func TestFindQualityIsFresh(t *testing.T) {
	settled, held := requests(t, "requests.tsv"), requests(t, "requests_held.tsv")
	if len(settled) < 60 || len(held) < 20 {
		t.Fatalf("%d and %d requests", len(settled), len(held))
	}
	var b strings.Builder
	b.WriteString("| catalogs | requests | number | wanted verb first | among the first five |\n|---|---|---|---|---|\n")
	for _, among := range []struct {
		name string
		x    *search.Index
	}{{"real", realIndex(t)}, {"real, a made one of 2,000 beside them", realIndex(t, catalogtest.Generate(2000)...)}} {
		names := map[string]bool{}
		for i := range among.x.Len() {
			names[among.x.Doc(i).Name] = true
		}
		for _, set := range []struct {
			name string
			list []request
		}{{"ranking settled with them", settled}, {"held out", held}} {
			for _, q := range set.list {
				for _, name := range q.want {
					if !names[name] {
						t.Fatalf("%q is no verb", name)
					}
				}
			}
			r := measure(t, among.x, set.list)
			fmt.Fprintf(&b, "| %s | %s | %d | %.2f | %.2f |\n", among.name, set.name, r.of, r.at1(), r.at5())
		}
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has lost the marks of its measured part", page)
	}
	fresh := before + begin + b.String() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if fresh != string(raw) {
		t.Errorf("%s is not what is measured; read the difference and write it with: go test ./broker/catalog -run TestFindQualityIsFresh -update\n%s", page, b.String())
	}
}
