package actors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
	"berth/journal"
)

// replaceJournal puts another journal, made by prepare, in the place of the one
// in use, as a restore does.
func (w *world) replaceJournal(prepare func(next *journal.Journal)) {
	w.t.Helper()
	ctx, path := context.Background(), filepath.Join(w.dir, "next.db")
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	next, err := journal.Open(path, journal.Options{})
	must(err)
	prepare(next)
	must(w.journal.Suspend(ctx, journal.AllWrites, errDown))
	recovery, err := next.Recover(ctx, time.Now())
	must(err)
	catalogs, err := next.Catalogs()
	must(err)
	retire, err := w.journal.Adopt(ctx, next, func() error { return os.Rename(path, filepath.Join(w.dir, "journal.db")) })
	must(err)
	w.journal.Resume()
	w.Replaced(Found{Tracked: recovery.Tracked, Catalogs: catalogs})
	must(retire())
	synctest.Wait()
}

func (w *world) storedOf(backend string) (found broker.StoredCatalog) {
	w.t.Helper()
	stored, err := w.journal.Catalogs()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range stored {
		if c.Backend == backend {
			found = c
		}
	}
	return found
}

// What stands is told in the restored journal unless it was told there; what was
// accepted is what was accepted there.
func TestARestoredJournalHearsWhatItWasNotTold(t *testing.T) {
	for name, tt := range map[string]struct {
		known, told, pin bool
		want             []string
		served           string
	}{
		"it does not know the backend":      {want: []string{"verb_quarantined b__odd"}, served: "One."},
		"it knows another list":             {known: true, want: []string{"verb_quarantined b__odd", "verb_changed b__echo"}, served: "One."},
		"it was told of the verb at fault":  {known: true, told: true, want: []string{"verb_changed b__echo"}, served: "One."},
		"another list was accepted there":   {known: true, told: true, pin: true, want: []string{"verb_changed b__echo"}, served: "Zero."},
		"pinned, and it does not know this": {pin: true, want: []string{"verb_quarantined b__odd"}, served: "One."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up, _ := listing(described("echo", "One."), shapeless("odd"))
				w := start(t, up, func(o *Options) {
					o.Backends[0].Eager, o.Sources = true, []catalog.Source{{Backend: "b", Rules: catalog.Rules{Pin: tt.pin}}}
				})
				synctest.Wait()
				w.expectTold("before", "verb_quarantined b__odd")
				told := w.storedOf("b").Told
				w.replaceJournal(func(next *journal.Journal) {
					if !tt.known {
						return
					}
					c := broker.StoredCatalog{Backend: "b", Tools: []broker.Tool{described("echo", "Zero."), shapeless("odd")}, At: time.Now()}
					if tt.told {
						c.Told = told
					}
					if err := next.SaveCatalog(context.Background(), c); err != nil {
						t.Fatal(err)
					}
				})
				got := map[string]int{}
				for _, e := range w.toldOf() {
					got[e]++
				}
				want := map[string]int{}
				for _, e := range tt.want {
					want[e]++
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the events are %v, wanted %v", got, want)
				}
				p, _ := w.Catalog().Profile(catalog.Full)
				v, ok := p.Resolve("b__echo")
				if !ok || !strings.Contains(v.Description(), tt.served) {
					t.Errorf("served: %+v, wanted %s", v, tt.served)
				}
				stored := w.storedOf("b")
				if len(stored.Tools) != 2 || !strings.Contains(string(stored.Tools[0].Raw), tt.served) || len(stored.Told) == 0 {
					t.Errorf("stored: %+v", stored)
				}
			})
		})
	}
}

func TestARestoredJournalKeepsTheCostsThatWereCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costs := shape.NewCosts(bytesCounter{}, nil)
		w := start(t, &upstream{}, func(o *Options) {
			o.Backends[0].Eager = true
			o.Catalog = catalog.Settings{Costs: costs}
		})
		synctest.Wait()
		p, _ := w.Catalog().Profile(catalog.Full)
		if v, ok := p.Resolve("b__echo"); ok {
			v.Tokens(costs)
		}
		elapse(reapEvery)
		synctest.Wait()
		before := w.storedOf(catalog.NativeName).Costs
		if len(before) == 0 {
			t.Fatal("no costs are kept")
		}
		w.replaceJournal(func(*journal.Journal) {})
		if got := w.storedOf(catalog.NativeName).Costs; fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("kept %v, wanted %v", got, before)
		}
	})
}

// What a session that is here asks for goes on and outlives the next restart,
// too; one that is not here comes back with what it asked for according to the
// restored journal.
func TestARestoredJournalRemembersWhatSessionsAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startTold(t, &told{})
		w.session("quiet")
		w.subscribe("s", "x://1")
		w.replaceJournal(func(next *journal.Journal) {
			for session, uri := range map[string]string{"s": "x://0", "quiet": "x://0", "away": "x://2"} {
				_, err := next.Put(context.Background(), broker.RecordChange{Kind: askedKind, ID: session,
					Value: []byte(`{"b":{"resources":["` + uri + `"]}}`), Expires: time.Now().Add(askedFor)})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		expect := func(when string) {
			t.Helper()
			for _, session := range []string{"quiet", "away"} {
				w.session(session)
			}
			if !w.Subscribed("b", "x://1", "s") || w.Subscribed("b", "x://0", "s") || w.Subscribed("b", "x://0", "quiet") || !w.Subscribed("b", "x://2", "away") {
				t.Errorf("%s the subscriptions are others", when)
			}
		}
		expect("after the restore")
		w.restart()
		expect("after a restart")
	})
}

// How many records there are, and whether that is known, is the word of the
// restored journal.
func TestARestoredJournalCountsItsOwnJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{})
		w.job(w.do(long).Job.ID)
		w.replaceJournal(func(next *journal.Journal) {
			for i := range 3 {
				job := broker.Job{ID: fmt.Sprintf("job_%d", i), Operation: "b__echo", Status: broker.JobAccepted, SubmittedAt: time.Now(), Tenant: "t", User: "u", Backend: "b"}
				if _, _, err := next.CreateJob(context.Background(), job); err != nil {
					t.Fatal(err)
				}
			}
		})
		if n, known := w.journal.JobCount(); n != 3 || !known {
			t.Errorf("%d jobs, known %t", n, known)
		}
		w.job(w.do(long).Job.ID)
		if n, known := w.journal.JobCount(); n != 4 || !known {
			t.Errorf("%d jobs after another one, known %t", n, known)
		}
	})
}
