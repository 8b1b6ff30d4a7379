package mcpserver

import (
	"bytes"
	"testing"
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
