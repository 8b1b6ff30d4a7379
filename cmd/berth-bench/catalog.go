package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	values "berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/catalogtest"
	"berth/broker/catalog/parity"
	"berth/broker/catalog/schema"
	"berth/broker/catalog/search"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// catalogSize is the number of verbs of the registry that is measured.
const catalogSize = 2000

// catalogRuns is how often each operation is measured; the median counts.
const catalogRuns = 21

// catalogResult is one operation on a registry of catalogSize verbs.
type catalogResult struct {
	what   string
	median time.Duration
	bound  time.Duration // contracts/catalog.md section 13; 0: none
}

// share is the part of its bound that an operation takes.
func (c catalogResult) share() float64 { return float64(c.median) / float64(c.bound) }

// measureCatalog takes the times of what the registry does, in this process.
func measureCatalog(_ context.Context, _ *lab, r *report) error {
	sources := []catalog.Source{{Backend: catalog.NativeName, Native: true, Family: "jobs", Listed: true, Handlers: []string{"job_status"},
		Tools:   []values.Tool{{Name: "job_status", Raw: []byte(`{"name":"job_status","description":"Status of a job.","inputSchema":{"type":"object","properties":{"jobId":{"type":"string"}}}}`)}},
		Effects: map[string]values.Effects{"job_status": values.Read}, Facts: map[string]catalog.Facts{"job_status": {Essential: true}}}}
	for _, l := range catalogtest.Generate(catalogSize) {
		sources = append(sources, catalog.Source{Backend: l.Backend, Listed: true, Tools: l.Tools, Rules: catalog.Rules{TrustAnnotations: true}})
	}
	settings := catalog.Settings{Costs: shape.NewCosts(o200k.Counter{}, nil), Schemas: &schema.Cache{},
		Profiles: []catalog.ProfileSpec{{Name: "editor", MaxTools: 40, Select: []catalog.Selector{{ReadsOnly: true}, {Verb: "*"}}}}}
	snapshot, _, faults := parity.Build(1, sources, settings)
	if len(faults) > 0 {
		return fmt.Errorf("the measured catalog does not pass its self-check: %v", faults[0])
	}
	full, _ := snapshot.Profile(catalog.Full)
	editor, _ := snapshot.Profile("editor")
	var docs []search.Doc
	for _, e := range full.Reach() {
		docs = append(docs, e.Verb.Document(e.Name))
	}
	index := search.New(docs, search.Options{})
	class := catalog.Class{Role: values.User, Transport: catalog.OverMCP}
	args := []byte(`{"id":"x"}`)
	fresh := settings // nothing of a profile is kept from one run to the next
	for _, op := range []struct {
		what  string
		bound time.Duration
		times int // in one run
		run   func()
	}{
		{"find and help's routing, the index built", 2 * time.Millisecond, 1, func() { index.Find(search.Query{Text: "close a ticket of a customer"}) }},
		{"did-you-mean", 2 * time.Millisecond, 1, func() { full.Suggestions("svc03__get_invoicee", 3) }},
		{"profile selection and fingerprint, costs known", 2 * time.Millisecond, 1, func() { editor.Again().Fingerprint() }},
		{"tools/list from the cache", 0, 1000, func() { _, _ = full.Page("") }},
		{"name resolution, visibility and effects of a call", 20 * time.Microsecond, 1000, func() {
			p := full.As(class)
			if v, ok := p.Resolve("svc07__" + "nothing"); ok {
				v.EffectsFor(args)
			}
			if v, _ := p.Visibility(docs[77].Name); v != nil {
				v.EffectsFor(args)
			}
		}},
		{"snapshot rebuild with its self-check, costs known", 200 * time.Millisecond, 1, func() { parity.Build(2, sources, fresh) }},
	} {
		op.run()
		var took []time.Duration
		for range catalogRuns {
			began := time.Now()
			for range op.times {
				op.run()
			}
			took = append(took, time.Since(began)/time.Duration(op.times))
		}
		slices.Sort(took)
		r.catalog = append(r.catalog, catalogResult{op.what, took[len(took)/2], op.bound})
	}
	return nil
}

func (r *report) catalogTable(b *strings.Builder) {
	if len(r.catalog) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### The catalog\n\nA registry of %d verbs, medians of %d runs. The share is of the bound that the contract sets.\n\n| operation | time | bound | share |\n|---|---|---|---|\n", catalogSize, catalogRuns)
	for _, c := range r.catalog {
		bound, share := "-", "-"
		if c.bound > 0 {
			bound, share = c.bound.String(), fmt.Sprintf("%.2f", c.share())
		}
		fmt.Fprintf(b, "| %s | %v | %s | %s |\n", c.what, c.median.Round(10*time.Nanosecond), bound, share)
	}
}
