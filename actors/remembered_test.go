package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/broker"
)

func TestARestartForgetsNothingThatASessionAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b)
		w.subscribe("s", "x://1")
		w.subscribe("s", "x://2")
		w.subscribe("s", "x://gone")
		w.unsubscribe("s", "x://gone")
		w.setLevel("s", "warning")
		w.restart()
		b.take()
		if !w.Subscribed("b", "x://1", "s") || w.Subscribed("b", "x://gone", "s") {
			t.Error("the subscriptions are not those of before")
		}
		if wanted, said := w.Level("b", "info", "s"); wanted || !said {
			t.Error("the level is not that of before")
		}
		w.do() // the backend comes up
		synctest.Wait()
		// The call itself may come between them.
		if got := strings.ReplaceAll(b.take(), "tools/call {\"name\":\"echo\"}\n", ""); !strings.Contains(got, "logging/setLevel {\"level\":\"warning\"}\nresources/subscribe {\"uri\":\"x://1\"}\nresources/subscribe {\"uri\":\"x://2\"}") {
			t.Errorf("the backend was told %s", got)
		}
	})
}

func TestASessionThatWasIdleComesBackWithWhatItAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &told{}
		w := startTold(t, b, func(o *Options) { o.MaxSessions = 1 })
		w.subscribe("s", "x://1")
		w.session("other") // "s" makes room
		synctest.Wait()
		if w.Subscribed("b", "x://1", "s") {
			t.Error("an idle session is told of resources")
		}
		w.session("s")
		if !w.Subscribed("b", "x://1", "s") {
			t.Error("it came back without its subscription")
		}
	})
}

func TestTheEndOfASessionForgetsWhatItAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startTold(t, &told{})
		w.subscribe("s", "x://1")
		w.End("s")
		w.End("never asked for anything")
		synctest.Wait()
		if _, err := w.journal.Record(askedKind, "s"); !errors.Is(err, broker.ErrRecordNotFound) {
			t.Errorf("the record: %v", err)
		}
		w.session("s")
		if w.Subscribed("b", "x://1", "s") {
			t.Error("the session still hears of it")
		}
	})
}

func TestNoCredentialOfASubscriptionIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startTold(t, &told{})
		const secret = "hunter2hunter2"
		w.subscribe("s", "postgres://ana:"+secret+"@db/x")
		w.subscribe("s", "x://1")
		if !w.Subscribed("b", "postgres://ana:"+secret+"@db/x", "s") {
			t.Error("the subscription does not stand")
		}
		raw, err := os.ReadFile(filepath.Join(w.dir, "journal.db"))
		if err != nil || strings.Contains(string(raw), secret) || !strings.Contains(w.askedText(t), "x://1") || strings.Contains(w.askedText(t), secret) {
			t.Errorf("the journal holds it (%v): %s", err, w.askedText(t))
		}
	})
}

func (w *world) askedText(t *testing.T) string {
	t.Helper()
	r, err := w.journal.Record(askedKind, "s")
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Value)
}

func TestEverySubscriptionOfManyAtOnceIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startTold(t, &told{}, func(o *Options) { o.Backends[0].Admission.Seats = 64 })
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { w.subscribe("s", fmt.Sprintf("x://%02d", i)) })
		}
		wg.Wait()
		w.restart()
		for i := range 40 {
			if !w.Subscribed("b", fmt.Sprintf("x://%02d", i), "s") {
				t.Errorf("x://%02d is forgotten", i)
			}
		}
	})
}

func TestASubscriptionThatCannotBeWrittenDownStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startTold(t, &told{})
		w.faults.down.Store(true)
		if r := w.subscribe("s", "x://1"); r.Answer == nil || !w.Subscribed("b", "x://1", "s") {
			t.Errorf("got %+v", r)
		}
		if !strings.Contains(w.log.String(), "not kept over a restart") {
			t.Error("nothing was logged")
		}
	})
}
