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

func TestRealCatalogsPass(t *testing.T) {
	snapshot, quarantined, faults := Build(1, sources(t, 0), settings())
	if len(faults) > 0 || len(quarantined) > 0 {
		t.Fatal(faults, quarantined)
	}
	if faults := Check(Input{Snapshot: snapshot, Sources: sources(t, 0), Settings: settings(), Thorough: true}); len(faults) > 0 {
		t.Fatal(faults)
	}
}

// TestWhatIsPlantedIsFound breaks one thing at a time.
func TestWhatIsPlantedIsFound(t *testing.T) {
	raw := func(name, rest string) broker.Tool {
		return broker.Tool{Name: name, Raw: []byte(`{"name":"` + name + `","inputSchema":{"type":"object"}` + rest + `}`)}
	}
	for _, tt := range []struct {
		name, check string
		plant       func(s *catalog.Source, set *catalog.Settings)
	}{
		{"nothing", "", func(*catalog.Source, *catalog.Settings) {}},
		{"profiles that only read", "", func(s *catalog.Source, set *catalog.Settings) {
			set.Profiles[0].ReadOnly = true
			s.Tools = append(s.Tools, raw("writes", ""))
			s.Effects["writes"], s.Handlers = broker.Write, append(s.Handlers, "writes")
			s.Facts["writes"] = catalog.Facts{Essential: true}
		}},
		{"full that only reads", "", func(s *catalog.Source, set *catalog.Settings) {
			set.Profiles = append(set.Profiles, catalog.ProfileSpec{Name: catalog.Full, ReadOnly: true})
			s.Tools = append(s.Tools, raw("writes", ""))
			s.Effects["writes"], s.Handlers = broker.Write, append(s.Handlers, "writes")
			s.Facts["writes"] = catalog.Facts{Essential: true}
		}},
		{"essential that only reads", "", func(s *catalog.Source, set *catalog.Settings) {
			set.Profiles = append(set.Profiles, catalog.ProfileSpec{Name: catalog.Essential, ReadOnly: true})
			s.Tools = append(s.Tools, raw("writes", ""))
			s.Effects["writes"], s.Handlers = broker.Write, append(s.Handlers, "writes")
			s.Facts["writes"] = catalog.Facts{Essential: true}
		}},
		{"a handler without a record", "P3", func(s *catalog.Source, _ *catalog.Settings) { s.Handlers = append(s.Handlers, "ghost") }},
		{"a record without a handler", "P3", func(s *catalog.Source, _ *catalog.Settings) {
			s.Tools = append(s.Tools, raw("ghost", ""))
			s.Effects["ghost"] = broker.Read
		}},
		{"a follow-up that does not exist", "P4", func(s *catalog.Source, _ *catalog.Settings) {
			s.Facts["job_status"] = catalog.Facts{Next: []catalog.Next{{Name: "job_statos", Why: "so"}}}
		}},
		{"a catalog family that lacks what the texts name", "P4", func(s *catalog.Source, _ *catalog.Settings) {
			s.Facts["job_status"] = catalog.Facts{Family: catalog.FamilyCatalog}
		}},
		{"a schema that nothing fits", "P5", func(s *catalog.Source, _ *catalog.Settings) {
			s.Tools = append(s.Tools, broker.Tool{Name: "never", Raw: []byte(`{"name":"never","inputSchema":{"type":"object","required":["a"],"properties":{"a":false}}}`)})
			s.Effects["never"], s.Handlers = broker.Read, append(s.Handlers, "never")
		}},
		{"a count in a description", "P7", func(s *catalog.Source, _ *catalog.Settings) {
			s.Tools = append(s.Tools, raw("brag", `,"description":"One of our 117 tools."`))
			s.Effects["brag"], s.Handlers = broker.Read, append(s.Handlers, "brag")
		}},
		{"instructions over their cap", "P10", func(s *catalog.Source, set *catalog.Settings) {
			set.Profiles = append(set.Profiles, catalog.ProfileSpec{Name: catalog.Full, InstructionsTokens: 20})
		}},
		{"a wrong name in an operator's line", "P10", func(s *catalog.Source, _ *catalog.Settings) { s.Rules.Line = "Use `nothing_here`." }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, set := sources(t, 0), settings()
			all[0].Facts = map[string]catalog.Facts{"job_status": {Essential: true}}
			tt.plant(&all[0], &set)
			_, _, faults := Build(1, all, set)
			if tt.check == "" {
				if len(faults) > 0 {
					t.Fatal(faults)
				}
				return
			}
			if len(faults) == 0 {
				t.Fatal("nothing was found")
			}
			for _, f := range faults {
				if f.Check != tt.check || !f.Native {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestAnUpstreamVerbAtFaultIsLeftOutAndItsSiblingsAreServed(t *testing.T) {
	all := sources(t, 0)
	snapshot, quarantined := catalog.Settings{Without: []catalog.Without{{Backend: "fs", Verb: "read_file", Reason: "It is at fault."}}}.Build(1, all)
	full, _ := snapshot.Profile(catalog.Full)
	if _, ok := full.Resolve("fs__read_file"); ok {
		t.Error("it is served")
	}
	if _, ok := full.Resolve("fs__write_file"); !ok {
		t.Error("its sibling is not")
	}
	if len(quarantined) != 1 || quarantined[0].Code != catalog.CodeParity || quarantined[0].Fatal {
		t.Errorf("%+v", quarantined)
	}
}
