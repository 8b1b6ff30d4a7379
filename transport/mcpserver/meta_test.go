package mcpserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker/catalog"
	"berth/broker/native"
	"berth/broker/native/meta"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// jobsOnly is the family of the fake broker's own verb.
type jobsOnly struct{ native.Family }

func (jobsOnly) Source() catalog.Source { return nativeSource() }

// newMetaBroker is the fake broker with the catalog family, and a front that cuts
// answers to size.
func newMetaBroker(t testing.TB) *fakeBroker {
	b := newFakeBroker(t)
	store, ledger := shape.NewStore(shape.StoreOptions{}), meta.NewLedger()
	family := meta.New(meta.Options{RuntimeID: "rt-berth", Version: "1.2.3", Started: time.Now(), Now: time.Now, Random: bytes.NewReader(make([]byte, 1<<12)),
		Store: store, Counter: o200k.Counter{}, Costs: shape.NewCosts(o200k.Counter{}, nil), Ledger: ledger, Tier: catalog.Full, TierSource: "environment"})
	conn, err := family.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.meta = conn
	b.options = func(o *Options) {
		o.Shaping, o.Surfaces = Shaping{Counter: o200k.Counter{}, Store: store}, ledger
	}
	b.set(t, native.Join(jobsOnly{}, family).Source(), fsSource())
	return b
}

// TestTheSwitchOfTheFactsRemovesNothingElse compares answers with and without
// `_meta["berth/call"]`.
func TestTheSwitchOfTheFactsRemovesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(off bool, params string) map[string]json.RawMessage {
			f := serve(t, newMetaBroker(t), func(o *Options) { o.Shaping.NoEnvelope = off })
			defer f.stop()
			_, body := ask(t, f, "/mcp", "127.0.0.1:1", false, nil, "tools/call", params)
			var m struct{ Result map[string]json.RawMessage }
			if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Result) == 0 {
				t.Fatal(err, body)
			}
			return m.Result
		}
		for _, params := range []string{`{"name":"find","arguments":{"query":"echo"}}`, `{"name":"fs__echo","arguments":{"a":1}}`, `{"name":"fs__shed"}`,
			`{"name":"fs__add","arguments":{"b":1}}`, `{"name":"call_read","arguments":{"name":"nothing"}}`} {
			with, without := answer(false, params), answer(true, params)
			if _, there := with["_meta"]; !there {
				t.Errorf("%s: no facts in %s", params, with)
			}
			if _, there := without["_meta"]; there {
				t.Errorf("%s: facts in %s", params, without["_meta"])
			}
			delete(with, "_meta")
			if !reflect.DeepEqual(with, without) {
				t.Errorf("%s:\n%s\n%s", params, with, without)
			}
		}
	})
}
