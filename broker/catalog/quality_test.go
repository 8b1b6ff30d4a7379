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
			var got []string
			for _, h := range hits {
				got = append(got, fmt.Sprintf("%s(%v %.2f)", x.Doc(h.Doc).Name, h.Class, h.Score))
			}
			t.Logf("%q wants %v at %d: %v", q.text, q.want, at, got)
		}
	}
	return r
}

func TestQuality(t *testing.T) {
	x := realIndex(t)
	r := measure(t, x, requests(t, "requests.tsv"))
	t.Logf("open %.3f %.3f", r.at1(), r.at5())
	r = measure(t, x, requests(t, "requests_held.tsv"))
	t.Logf("%d verbs, %d requests: %.3f %.3f", x.Len(), r.of, r.at1(), r.at5())
}
