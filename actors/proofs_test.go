package actors

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/policy/proof"
	"berth/journal"
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

// TestRulesForProofsThatAreWrongDoNotStart: a gate that guards something else than
// its configuration says is refused while it can still be changed, and one that
// guards nothing says so.
func TestRulesForProofsThatAreWrongDoNotStart(t *testing.T) {
	source := func(name string, listed bool) catalog.Source {
		return catalog.Source{Backend: name, Listed: listed, Tools: []broker.Tool{{Name: "write", Raw: json.RawMessage(`{"name":"write","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`)}}}
	}
	need := func(verb, kind, target string) proof.Need {
		return proof.Need{Verb: verb, Kind: kind, Targets: []string{target}}
	}
	for _, tt := range []struct {
		name    string
		needs   []proof.Need
		refused string // empty: it starts
		noted   string // empty: nothing
	}{
		{"sound", []proof.Need{need("b__write", "file", "args:/path")}, "", ""},
		{"no such kind", []proof.Need{need("b__write", "none", "args:/path")}, "needs[0]: proof_rule_invalid", ""},
		{"one kind, two backends", []proof.Need{need("b__write", "file", "args:/path"), need("c__write", "file", "args:/path")}, "needs[1] (c__write): proof_kind_split", ""},
		{"one kind, two backends, by a pattern", []proof.Need{need("*__write", "file", "args:/path")}, "needs[0] (c__write): proof_kind_split", ""},
		{"a pointer that a backend's list may have made wrong", []proof.Need{need("b__write", "file", "args:/file")}, "", "pointer_unresolvable"},
		{"a verb that is not there", []proof.Need{need("b__wirte", "file", "args:/path")}, "", "proof_selects_nothing"},
		{"a verb of a backend of which nothing is known", []proof.Need{need("not_yet__write", "file", "args:/path")}, "", ""},
		{"a pattern for one of which nothing is known", []proof.Need{need("*_yet__write", "file", "args:/path")}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := proof.Config{Kinds: map[string]proof.Kind{"file": {Canonical: "exact"}}, Needs: tt.needs}
			sources := []catalog.Source{source("b", true), source("c", true), source("not.yet", false)}
			snapshot, err := CheckCatalog(sources, catalog.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			wrong, err := CheckProofs(rules, snapshot)
			if (err != nil) != (tt.refused != "") || (err != nil && (!errors.Is(err, ErrCatalog) || !strings.Contains(err.Error(), tt.refused))) {
				t.Errorf("refused as %v, want %q", err, tt.refused)
			}
			if (len(wrong) > 0) != (tt.noted != "") || (tt.noted != "" && !strings.Contains(wrong[0].String(), tt.noted)) {
				t.Errorf("noted %v, want %q", wrong, tt.noted)
			}
			log := &syncBuffer{}
			j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), journal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			s, started := Start(Options{Sources: sources, Proofs: &rules, Journal: &faults{Journal: j}, Logger: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now, Random: rand.Reader})
			if started == nil {
				s.Proofs().Rules()
				s.Stop(t.Context())
			}
			if (started != nil) != (tt.refused != "") {
				t.Errorf("the start: %v", started)
			}
			if got := strings.Count(log.String(), "a rule for proofs"); got > 1 || (got == 1) != (tt.noted != "") {
				t.Errorf("%d lines in the log: %s", got, log)
			}
		})
	}
}
