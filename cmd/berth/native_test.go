package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/actors"
	"berth/broker/catalog"
	"berth/broker/catalog/parity"
	"berth/broker/config"
)

// builtIn is the catalog of a broker without a configuration.
func builtIn(t *testing.T) (*catalog.Snapshot, parity.Input) {
	t.Helper()
	b := newRunning(config.Default(), func(string) (string, bool) { return "", false }, slog.New(slog.DiscardHandler))
	opts := actors.Options{Catalog: catalogSettings(b.cfg, b.countCosts())}
	must(t, b.addSources(&opts))
	in := parity.Input{Sources: opts.Sources, Settings: opts.Catalog, Thorough: true}
	var faults []catalog.Quarantined
	in.Snapshot, faults = opts.Catalog.Build(1, opts.Sources)
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	return in.Snapshot, in
}

// TestTheNativeVerbsAreTheReviewedOnes is P11: a verb of the broker's own that
// comes, goes, or is listed or judged otherwise, is seen in review.
func TestTheNativeVerbsAreTheReviewedOnes(t *testing.T) {
	snapshot, in := builtIn(t)
	if faults := parity.Check(in); len(faults) > 0 {
		t.Errorf("the self-check: %v", faults)
	}
	var have bytes.Buffer
	full, _ := snapshot.Profile(catalog.Full)
	listed := map[string]int{}
	for _, e := range full.Entries() {
		listed[e.Name]++
	}
	for _, v := range snapshot.Verbs() {
		fmt.Fprintf(&have, "%s %s %s %s essential=%v required=%v aliases=%s %s\n", v.Name, v.Backend, v.Family, strings.Join(v.Effects.Names(), "+"), v.Essential, v.Required, strings.Join(v.Aliases, ","), v.Digest())
		if listed[v.Name] != 1 {
			t.Errorf("full lists %s %d times", v.Name, listed[v.Name])
		}
	}
	if len(listed) != len(snapshot.Verbs()) {
		t.Errorf("full lists %d verbs of %d", len(listed), len(snapshot.Verbs()))
	}
	file := filepath.Join("testdata", "native.txt")
	if *update {
		if err := os.WriteFile(file, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have.Bytes(), want) {
		t.Errorf("the broker's own verbs are not those of %s; read the difference and run with -update:\n%s", file, have.String())
	}
}

func TestTheTierIsReadOnceAndNeverWidened(t *testing.T) {
	for value, want := range map[string]tier{
		"": {catalog.Essential, "default"}, " \t": {catalog.Essential, "default"}, "essential": {catalog.Essential, "environment"},
		"full": {catalog.Full, "environment"}, " FULL ": {catalog.Full, "environment"},
		"ful": {catalog.Essential, "unrecognized"}, "all": {catalog.Essential, "unrecognized"}, "full,essential": {catalog.Essential, "unrecognized"},
	} {
		if got := readTier(func(name string) (string, bool) { return value, name == tierVariable }); got != want {
			t.Errorf("%q: %+v, want %+v", value, got, want)
		}
	}
}
