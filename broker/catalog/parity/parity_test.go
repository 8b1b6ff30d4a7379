package parity

import (
	"testing"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/catalogtest"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

func sources(t testing.TB, n int) []catalog.Source {
	t.Helper()
	lists, err := catalogtest.Real()
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		lists = catalogtest.Generate(n)
	}
	out := []catalog.Source{native()}
	for _, l := range lists {
		out = append(out, catalog.Source{Backend: l.Backend, Listed: true, Tools: l.Tools})
	}
	return out
}

func native() catalog.Source {
	raw := `{"name":"job_status","description":"Status of a job.","inputSchema":{"type":"object","properties":{"jobId":{"type":"string"},"waitSeconds":{"type":"integer"}},"required":["jobId"]}}`
	return catalog.Source{Backend: catalog.NativeName, Native: true, Family: "jobs", Listed: true, Tools: []broker.Tool{{Name: "job_status", Raw: []byte(raw)}},
		Effects: map[string]broker.Effects{"job_status": broker.Read}, Handlers: []string{"job_status"}, Beside: []string{"job_status"},
		Facts: map[string]catalog.Facts{"job_status": {Essential: true}}}
}

func settings() catalog.Settings {
	return catalog.Settings{Costs: shape.NewCosts(o200k.Counter{}, nil),
		Profiles: []catalog.ProfileSpec{{Name: "editor", Preset: "cursor", Required: []string{"job_status"}, Select: []catalog.Selector{{Verb: "*"}}}}}
}

func BenchmarkRebuild(b *testing.B) {
	src, set := sources(b, 2000), settings()
	Build(1, src, set)
	for b.Loop() {
		if _, _, faults := Build(2, src, set); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}

func BenchmarkBuildAlone(b *testing.B) {
	src, set := sources(b, 2000), settings()
	set.Build(1, src)
	for b.Loop() {
		set.Build(2, src)
	}
}
