package actors

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
)

func TestAPauseAdmitsOnlyControlCallsThatRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := start(t, &upstream{call: gated(gate)})
		running := w.async(context.Background())
		synctest.Wait()
		w.Pause(broker.Refuse(broker.CodeRestoreInProgress, "Wait.", nil).Retry(time.Second))
		for name, change := range map[string][]func(*Request){"a call": nil, "a read": {reading}, "a job": {long}, "a control call that writes": {control}} {
			if code := w.code(w.do(change...)); code != broker.CodeRestoreInProgress {
				t.Errorf("%s: %s", name, code)
			}
		}
		looking := w.async(context.Background(), control, reading)
		close(gate)
		if r := <-looking; r.Answer == nil {
			t.Errorf("a control call that reads: %+v", r)
		}
		if r := <-running; r.Answer == nil {
			t.Errorf("what ran: %+v", r)
		}
		w.Pause(nil)
		if r := w.do(); r.Answer == nil {
			t.Errorf("after it: %+v", r)
		}
	})
}

func TestAnotherJournalsCatalogsAndWorkAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, &upstream{}, func(o *Options) {
			o.Backends[0].Origin = "here"
		})
		entry := broker.Tool{Name: "stored", Raw: json.RawMessage(`{"name":"stored","inputSchema":{"type":"object"}}`)}
		lists := func() (names []string) {
			p, _ := w.Catalog().Profile(catalog.Full)
			for _, v := range w.Catalog().Verbs() {
				if _, ok := p.Resolve(v.Name); ok {
					names = append(names, v.Name)
				}
			}
			return names
		}
		// One that has not come up is served as it is stored, if it is the same one.
		w.Replaced(Found{Catalogs: []broker.StoredCatalog{{Backend: "b", Origin: "elsewhere", Tools: []broker.Tool{entry}}}})
		if got := lists(); len(got) != 0 {
			t.Errorf("another's list is served: %q", got)
		}
		w.Replaced(Found{Catalogs: []broker.StoredCatalog{{Backend: "b", Origin: "here", Tools: []broker.Tool{entry}}}})
		if got := lists(); len(got) != 1 || got[0] != "b__stored" {
			t.Errorf("served %q", got)
		}
		// One that has listed stays, and its list is kept in the journal.
		w.do()
		synctest.Wait()
		w.Replaced(Found{Catalogs: []broker.StoredCatalog{{Backend: "b", Origin: "here", Tools: []broker.Tool{entry}}}})
		synctest.Wait()
		stored, err := w.journal.Catalogs()
		if got := lists(); err != nil || len(got) != 1 || got[0] != "b__echo" || len(stored) != 1 || stored[0].Tools[0].Name != "echo" {
			t.Errorf("served %q, stored %+v, %v", got, stored, err)
		}
		// Work that was followed where the configuration has nothing is Lost.
		job := broker.Job{ID: "job_t", Operation: "gone__x", Status: broker.JobAccepted, SubmittedAt: time.Now(), Tenant: "t", User: "u", Backend: "gone"}
		if _, _, err := w.journal.CreateJob(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		w.Replaced(Found{Tracked: []broker.Job{job}})
		if j := w.job("job_t"); j.Status != broker.JobLost {
			t.Errorf("the work is %s", j.Status)
		}
	})
}
