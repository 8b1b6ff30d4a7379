package actors

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy/proof"
)

// TestWhatOneCallerHasReadProvesNothingOfAnother: neither an answer nor the
// result of a job, whoever asks for it.
func TestWhatOneCallerHasReadProvesNothingOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := func(name string) broker.Tool {
			return broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`)}
		}
		up, _ := listing(entry("read"), entry("write"))
		w := start(t, up, func(o *Options) {
			o.Backends[0].Eager = true
			o.Sources = []catalog.Source{{Backend: "b", Rules: catalog.Rules{Effects: []catalog.EffectRule{{Verb: "read", Is: broker.Read}}}}}
			o.Proofs = &proof.Config{Kinds: map[string]proof.Kind{"file": {Canonical: "exact"}},
				Grants: []proof.Grant{{Verb: "b__read", Kind: "file", Targets: []string{"args:/path"}}}, Needs: []proof.Need{{Verb: "b__write", Kind: "file", Targets: []string{"args:/path"}}}}
		})
		synctest.Wait()
		gate := w.Proofs()
		alice := broker.Principal{Tenant: "t", User: "alice", Role: broker.User}
		bob := broker.Principal{Tenant: "t", User: "bob", Role: broker.GlobalAdministrator}
		reading := func(path, key string) Request {
			return w.request(func(r *Request) {
				r.Call.Verb, r.Call.Effects, r.Call.Principal = "b__read", broker.Read, alice
				r.Call.Params = json.RawMessage(`{"name":"read","arguments":{"path":"` + path + `"}}`)
				r.IdempotencyKey = key
			})
		}
		lacks := func(who broker.Principal, path string) bool {
			demand := gate.Rules().Demand("b__write", broker.Write, json.RawMessage(`{"path":"`+path+`"}`))
			return len(gate.Look("b", proof.Caller{Principal: who}, demand)) > 0
		}
		request := reading("one", "")
		reply := w.Do(t.Context(), request)
		if !lacks(alice, "one") {
			t.Error("an answer that was not released proves something")
		}
		gate.Shows(request.Call, reply).Grant()
		if lacks(alice, "one") || !lacks(bob, "one") {
			t.Errorf("alice lacks %v, bob %v", lacks(alice, "one"), lacks(bob, "one"))
		}

		reply = w.Do(t.Context(), reading("two", "key"))
		if reply.Job == nil {
			t.Fatalf("%+v", reply)
		}
		id := w.job(reply.Job.ID).ID
		gate.Released(proof.Caller{Principal: bob}, id).Grant() // an administrator may read it
		if !lacks(alice, "two") || !lacks(bob, "two") {
			t.Errorf("after another had the result: alice lacks %v, bob %v", lacks(alice, "two"), lacks(bob, "two"))
		}
		gate.Released(proof.Caller{Principal: alice}, id).Grant()
		if lacks(alice, "two") || !lacks(bob, "two") {
			t.Errorf("after its owner had it: alice lacks %v, bob %v", lacks(alice, "two"), lacks(bob, "two"))
		}
		if gate.Released(proof.Caller{Principal: alice}, "job_none") != nil {
			t.Error("a job that never was shows something")
		}
	})
}
