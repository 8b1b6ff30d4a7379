package broker_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/broker"
)

func TestNamesOfEffectsRoundTrip(t *testing.T) {
	every := broker.Session | broker.Write | broker.Destroy | broker.Exec | broker.Interrupt
	seen := map[string]broker.Effects{}
	for e := broker.Read; e <= every; e++ {
		names := e.Names()
		key := strings.Join(names, " ")
		if other, double := seen[key]; double {
			t.Errorf("%v and %v have the names %q", e, other, names)
		}
		seen[key] = e
		back, unknown, ok := broker.ParseEffects(names)
		if !ok || unknown != "" || back != e {
			t.Errorf("%q became %v (%q, %v), not %v", names, back, unknown, ok, e)
		}
	}
}

func TestWordsOfEffects(t *testing.T) {
	for _, tt := range []struct {
		names    []string
		want     broker.Effects
		unknown  string
		readOnly bool
	}{
		{nil, broker.Read, "", true},
		{[]string{"read"}, broker.Read, "", true},
		{[]string{"session"}, broker.Session, "", true},
		{[]string{"read", "write"}, broker.Write, "", false},
		{[]string{"interrupt", "write", "write"}, broker.Write | broker.Interrupt, "", false},
		{[]string{"destroy"}, broker.Destroy, "", false},
		{[]string{"exec", "session"}, broker.Exec | broker.Session, "", false},
		{[]string{"write", "Write", "nonsense"}, 0, "Write", true},
		{[]string{""}, 0, "", true},
	} {
		got, unknown, ok := broker.ParseEffects(tt.names)
		refused := tt.unknown != "" || slices.Contains(tt.names, "")
		if got != tt.want || unknown != tt.unknown || ok == refused || got.ReadOnly() != tt.readOnly {
			t.Errorf("%q: %v %q %v, read-only %v", tt.names, got, unknown, ok, got.ReadOnly())
		}
	}
	if broker.UnknownEffects.ReadOnly() {
		t.Error("a verb of which nobody said what it does passes as a read")
	}
}

func TestOrderOfWordsDoesNotMatter(t *testing.T) {
	words := []string{"read", "session", "write", "destroy", "exec", "interrupt"}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "names")
		e, _, ok := broker.ParseEffects(names)
		if !ok {
			t.Fatal(names)
		}
		shown := e.Names()
		for _, w := range words[1:] {
			if slices.Contains(shown, w) != slices.Contains(names, w) {
				t.Fatalf("%q became %q", names, shown)
			}
		}
		if slices.Contains(shown, "read") != (e == broker.Read) || e == broker.Read && len(shown) != 1 {
			t.Fatalf("%q became %q", names, shown)
		}
	})
}
