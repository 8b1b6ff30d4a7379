package catalog

import (
	"testing"

	"berth/broker/catalog/catalogtest"
	"berth/broker/catalog/search"
)

// made is a snapshot of n made verbs.
func made(b *testing.B, n int) *Snapshot {
	sources := []Source{native()}
	for _, l := range catalogtest.Generate(n) {
		sources = append(sources, upstream(l.Backend, l.Tools...))
	}
	s, _ := Build(1, sources)
	if len(s.Verbs()) != n+1 {
		b.Fatalf("%d verbs", len(s.Verbs()))
	}
	return s
}

// sizes show how the cost grows: contracts/catalog.md section 13 bounds it at 2,000.
var sizes = []struct {
	name string
	n    int
}{{"200", 200}, {"2000", 2000}}

func BenchmarkIndex(b *testing.B) {
	for _, size := range sizes {
		docs := documents(made(b, size.n))
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				search.New(docs, search.Options{})
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, size := range sizes {
		x := search.New(documents(made(b, size.n)), search.Options{})
		for _, query := range []struct{ name, text string }{{"sentence", "get the history of the invoices of a customer"}, {"name", "svc01__get_invoice"}, {"slip", "delte_invoce_histry"}, {"word", "get"}, {"nothing", "qwertyuiop"}} {
			b.Run(size.name+"/"+query.name, func(b *testing.B) {
				for b.Loop() {
					x.Find(search.Query{Text: query.text, Limit: 8})
				}
			})
		}
	}
}

func BenchmarkSuggest(b *testing.B) {
	for _, size := range sizes {
		x := search.New(documents(made(b, size.n)), search.Options{})
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				x.Suggest("delte_invoce_histry", 3, nil)
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, size := range sizes {
		s := made(b, size.n)
		p, _ := s.Profile("")
		name := "mcp__berth__" + s.Verbs()[size.n/2].Name
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				if _, ok := p.Resolve(name); !ok {
					b.Fatal(name)
				}
			}
		})
	}
}
