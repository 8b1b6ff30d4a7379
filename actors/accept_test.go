package actors

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"berth/broker"
	"berth/broker/catalog"
)

// TestAPinnedBackendIsHeldToWhatWasAccepted: a verb that comes back as another
// keeps its accepted entry, over a restart too, until an operator takes it.
func TestAPinnedBackendIsHeldToWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := broker.Tool{Name: "echo", Raw: json.RawMessage(`{"name":"echo","description":"As it was.","inputSchema":{"type":"object"}}`)}
		w := start(t, &upstream{}, func(o *Options) {
			o.Sources = []catalog.Source{{Backend: "b", Listed: true, Stale: true, Tools: []broker.Tool{was}, Accepted: []broker.Tool{was}, Rules: catalog.Rules{Pin: true}}}
			o.Backends[0].Eager = true
		})
		synctest.Wait()
		verb := func() *catalog.Verb {
			full, _ := w.Catalog().Profile(catalog.Full)
			v, ok := full.Resolve("b__echo")
			if !ok {
				t.Fatal("it is not there")
			}
			return v
		}
		if v := verb(); v.Changed == "" || v.Summary != "As it was." {
			t.Fatalf("it lists %q, changed %q", v.Summary, v.Changed)
		}
		stored, err := w.journal.Catalogs()
		if err != nil || len(stored) != 1 || string(stored[0].Tools[0].Raw) != string(was.Raw) {
			t.Errorf("stored %v, %v", stored, err)
		}
		if r := w.AcceptCatalog(context.Background(), "nobody"); r == nil || r.Code != broker.CodeNotFound {
			t.Errorf("a backend that is none: %v", r)
		}
		if r := w.AcceptCatalog(context.Background(), "b"); r != nil {
			t.Fatal(r)
		}
		synctest.Wait()
		if v := verb(); v.Changed != "" || v.Summary == "As it was." {
			t.Errorf("accepted: %q, changed %q", v.Summary, v.Changed)
		}
		if stored, err = w.journal.Catalogs(); err != nil || string(stored[0].Tools[0].Raw) == string(was.Raw) {
			t.Errorf("stored %v, %v", stored, err)
		}
	})
}

// TestABackendThatComesAndGoesChangesNoList: the list is the registry's, not the
// moment's.
func TestABackendThatComesAndGoesChangesNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{}
		w := start(t, up, func(o *Options) { o.Backends[0].Eager = true })
		synctest.Wait()
		digest := func() string {
			full, _ := w.Catalog().Profile(catalog.Full)
			return full.Digest()
		}
		before := digest()
		up.last().die()
		synctest.Wait()
		if digest() != before {
			t.Error("the list changed when the backend went down")
		}
		w.AwaitCatalog(context.Background(), "b")
		synctest.Wait()
		if digest() != before {
			t.Error("the list changed when the backend came back")
		}
	})
}
