package main

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	"berth/broker/catalog"
	"berth/broker/config"
	"berth/broker/shape"
)

// bytesCounted counts bytes, and how often it was asked.
type bytesCounted struct{ asked atomic.Int64 }

func (c *bytesCounted) Count(text string) shape.Count {
	c.asked.Add(1)
	return shape.Count{Tokens: len(text), Exact: true}
}

// onState runs a broker's parts below its fronts on a state directory, and says
// how often something was counted.
func onState(t *testing.T, state string, cfg *config.Config, use func(*running)) int64 {
	t.Helper()
	counter := &bytesCounted{}
	b := newRunning(cfg, func(string) (string, bool) { return "", false }, slog.New(slog.DiscardHandler))
	b.counter = counter
	defer b.close()
	must(t, b.openState(t.Context(), state))
	must(t, b.openJournal(t.Context()))
	must(t, b.openAccess())
	must(t, b.startActors())
	use(b)
	return counter.asked.Load()
}

// TestARestartCountsNothingAnew: costs are kept with the stored catalog, also
// those that somebody asked for later, and a broker of whose lists no budget
// asks counts nothing.
func TestARestartCountsNothingAnew(t *testing.T) {
	bin := binariesOf(t)
	state := t.TempDir()
	bounded, err := config.Parse("mcp.json", []byte(`{"mcpServers":{"fix":{"command":`+strconv.Quote(bin.fixture)+`,"args":["stdio"]}},
		"berth":{"profiles":{"small":{"max_tokens":1000000,"select":[{"backend":"fix"}]}}}}`), func(string) (string, bool) { return "", false })
	must(t, err)
	all := func(b *running) {
		for _, v := range b.system.AwaitCatalog(t.Context(), "fix").Verbs() {
			if n, ok := v.Tokens(b.costs); !ok || n == 0 {
				t.Errorf("%s costs %d, %v", v.Name, n, ok)
			}
		}
	}
	if n := onState(t, state, bounded, all); n == 0 {
		t.Fatal("the first broker counted nothing")
	}
	if n := onState(t, state, bounded, all); n != 0 {
		t.Errorf("the second broker counted %d texts anew", n)
	}
	if n := onState(t, t.TempDir(), config.Default(), func(b *running) {
		full, _ := b.system.Catalog().Profile(catalog.Full)
		full.Page("")
	}); n != 0 {
		t.Errorf("a broker without budgets counted %d texts", n)
	}
}
