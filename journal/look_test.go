package journal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
	"berth/journal"
)

// lasting is a context that ends when it was asked a number of times.
type lasting struct {
	context.Context
	left int
}

func (l *lasting) Err() error {
	if l.left--; l.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func TestALookSaysWhatItDidNotLookAt(t *testing.T) {
	path := populated(t)
	open, err := journal.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := false
	for n := 0; !whole; n++ {
		problems, unseen, err := open.LookAt(&lasting{context.Background(), n})
		if err != nil || len(problems) > 0 {
			t.Fatalf("cut after %d: %v, %v", n, problems, err)
		}
		whole = len(unseen) == 0
		if n == 0 && (len(unseen) < 3 || unseen[0] != "pages") {
			t.Errorf("without any time it has not looked at %v", unseen)
		}
		if n > 10_000 {
			t.Fatalf("it never comes to its end: %v", unseen)
		}
		if !whole && unseen[len(unseen)-1] != "files of results" {
			t.Errorf("cut after %d it left out %v and went on", n, unseen)
		}
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALookFindsWhatACheckFinds(t *testing.T) {
	path := populated(t)
	edit(t, path, func(tx *bbolt.Tx) error { return flip(tx, "job_2") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, tt := range map[string]struct {
		open   func() *journal.Journal
		unseen []string
	}{
		"closed": {func() *journal.Journal {
			j, err := journal.OpenReadOnly(path)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}, nil},
		"in use": {func() *journal.Journal { return openAt(t, path) }, []string{"pages"}},
	} {
		j := tt.open()
		problems, unseen, err := j.LookAt(ctx)
		if err != nil || !slices.Equal(unseen, tt.unseen) || !slices.ContainsFunc(problems, func(p journal.Problem) bool { return p.Kind == "record" && p.ID == "job_2" }) {
			t.Errorf("%s: %v, not looked at %v, %v", name, problems, unseen, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALookHoldsNoWriteUp: while it reads, the journal takes writes.
func TestALookHoldsNoWriteUp(t *testing.T) {
	j := openAt(t, populated(t))
	looking, written := &atOnce{Context: t.Context(), do: make(chan struct{})}, make(chan error, 1)
	go func() {
		<-looking.do
		written <- j.AppendEvent(context.Background(), broker.Event{EventType: "note.made"})
	}()
	looking.wait = written
	if _, _, err := j.LookAt(looking); err != nil || !looking.done {
		t.Errorf("%v, written while it looked: %v", err, looking.done)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// atOnce has something done, to its end, when it is first asked.
type atOnce struct {
	context.Context
	do   chan struct{}
	wait <-chan error
	done bool
}

func (a *atOnce) Err() error {
	if !a.done {
		close(a.do)
		a.done = <-a.wait == nil
	}
	return nil
}
