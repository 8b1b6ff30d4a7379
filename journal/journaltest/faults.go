package journaltest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/journal"
)

var errDisk = errors.New("the disk said no")

// commits is a fault that can be changed while a journal is open.
type commits struct {
	now atomic.Pointer[func(commit func() error) error]
}

func (c *commits) set(f func(commit func() error) error) { c.now.Store(&f) }

func (c *commits) around(commit func() error) error {
	if f := c.now.Load(); f != nil && *f != nil {
		return (*f)(commit)
	}
	return commit()
}

func failBefore(func() error) error { return errDisk }

func failAfter(commit func() error) error { return errors.Join(commit(), errDisk) }

// stall holds every commit until the channel is closed.
func stall(until <-chan struct{}) func(func() error) error {
	return func(commit func() error) error {
		<-until
		return commit()
	}
}

// outcome is what a call in a goroutine came to.
type outcome struct {
	job     broker.Job
	created bool
	err     error
}

func (r *rig) goCreate(ctx context.Context, j broker.Job) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		var o outcome
		o.job, o.created, o.err = r.CreateJob(ctx, j)
		ch <- o
	}()
	return ch
}

func (r *rig) goChange(ctx context.Context, id string, c broker.JobChange) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		var o outcome
		o.job, o.err = r.ChangeJob(ctx, id, c)
		ch <- o
	}()
	return ch
}

func pending(ch <-chan outcome) bool { return len(ch) == 0 }

func testFaults(t *testing.T, e Engine) {
	t.Run("a commit that fails leaves nothing and the journal goes on", func(t *testing.T) { testFailBefore(t, e) })
	t.Run("a commit that fails after it took effect is found by the repeat", func(t *testing.T) { testFailAfter(t, e) })
	t.Run("a large outcome survives failed commits", func(t *testing.T) { testFailLarge(t, e) })
	for name, run := range map[string]func(*testing.T, Engine){
		"creations are refused when too many wait, outcomes never": testOverload,
		"a write that fails does not fail its neighbours":          testNeighbours,
		"a failed group fails all of it":                           testFailedGroup,
		"who stops waiting in the queue has written nothing":       testGiveUpInQueue,
		"who stops waiting in a commit is told what became of it":  testGiveUpInCommit,
		"a commit that does not end is in doubt after the grace":   testGiveUpAtGrace,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, e) })
		})
	}
}

func testFailBefore(t *testing.T, e Engine) {
	var c commits
	r := open(t, e, Faults{Commit: c.around})
	r.create(newJob(1))
	r.change("job_0001", running(epoch))
	c.set(failBefore)
	watch, stop := r.Watch("job_0001")
	defer stop()
	_, created, err := r.CreateJob(context.Background(), newJob(2))
	wantError(t, err, errDisk)
	wantError(t, err, journal.ErrInDoubt)
	_, err = r.ChangeJob(context.Background(), "job_0001", failed(epoch, "x"))
	wantError(t, err, errDisk)
	if created || len(watch) != 0 || r.read("job_0001").Status != broker.JobRunning {
		t.Error("a write that failed was shown")
	}
	c.set(nil)
	r.change("job_0001", failed(epoch, "x"))
	r.create(newJob(2))
	r.wantIDs(broker.JobFilter{}, 2, "job_0002", "job_0001")
	if n := len(r.events(broker.EventJobFailed)); n != 1 {
		t.Errorf("%d events", n)
	}
}

func testFailAfter(t *testing.T, e Engine) {
	var c commits
	r := open(t, e, Faults{Commit: c.around})
	keyed := newJob(1)
	keyed.IdempotencyKey, keyed.Digest = "k", "d"
	c.set(failAfter)
	_, _, err := r.CreateJob(context.Background(), keyed)
	wantError(t, err, journal.ErrInDoubt)
	c.set(nil)
	again := keyed
	again.ID = "job_0009"
	if got, created, err := r.CreateJob(context.Background(), again); err != nil || created || got.ID != keyed.ID {
		t.Errorf("the repeat gave %s, created %v, error %v", got.ID, created, err)
	}
	r.change(keyed.ID, running(epoch))
	c.set(failAfter)
	_, err = r.ChangeJob(context.Background(), keyed.ID, failed(epoch, "x"))
	wantError(t, err, journal.ErrInDoubt)
	c.set(nil)
	got, err := r.ChangeJob(context.Background(), keyed.ID, failed(epoch, "x"))
	wantError(t, err, broker.ErrJobFinal)
	if got.Status != broker.JobFailed || len(r.events(broker.EventJobFailed)) != 1 {
		t.Errorf("the repeat gave %+v, and %d events", got, len(r.events(broker.EventJobFailed)))
	}
}

func testFailLarge(t *testing.T, e Engine) {
	var c commits
	r := open(t, e, Faults{Commit: c.around})
	r.create(newJob(1))
	r.change("job_0001", running(epoch))
	big := `"` + strings.Repeat("z", 2<<20) + `"`
	for range 2 {
		c.set(failBefore)
		_, err := r.ChangeJob(context.Background(), "job_0001", succeeded(epoch, big))
		wantError(t, err, errDisk)
	}
	c.set(nil)
	r.change("job_0001", succeeded(epoch, big))
	if got := r.read("job_0001"); string(got.Result) != big {
		t.Errorf("the result has %d bytes", len(got.Result))
	}
}

// stalled gives a journal whose writer is held in the commit of job_0000.
func stalled(t *testing.T, e Engine, f Faults) (r *rig, c *commits, first <-chan outcome, release func()) {
	c = &commits{}
	f.Commit = c.around
	r = open(t, e, f)
	r.create(newJob(100)) // something to change
	gate := make(chan struct{})
	c.set(stall(gate))
	first = r.goCreate(context.Background(), newJob(0))
	synctest.Wait()
	return r, c, first, func() { close(gate) }
}

func testOverload(t *testing.T, e Engine) {
	r, _, first, release := stalled(t, e, Faults{QueueLimit: 3})
	var waiting []<-chan outcome
	for n := 1; n <= 3; n++ {
		waiting = append(waiting, r.goCreate(context.Background(), newJob(n)))
	}
	synctest.Wait()
	_, _, err := r.CreateJob(context.Background(), newJob(4))
	wantError(t, err, broker.ErrJournalBusy)
	// More outcomes than the queue has places.
	for range 20 {
		waiting = append(waiting, r.goChange(context.Background(), "job_0100", running(epoch)))
	}
	synctest.Wait()
	if !pending(first) {
		t.Error("a write was acknowledged before its commit")
	}
	for i, ch := range waiting {
		if !pending(ch) {
			t.Errorf("write %d did not wait: %v", i, (<-ch).err)
		}
	}
	release()
	if o := <-first; o.err != nil {
		t.Error(o.err)
	}
	for i, ch := range waiting {
		// Running to Running is an annotation, so all of these fit.
		if o := <-ch; o.err != nil {
			t.Errorf("write %d: %v", i, o.err)
		}
	}
	r.wantIDs(broker.JobFilter{}, 5, "job_0100", "job_0003", "job_0002", "job_0001", "job_0000")
}

func testNeighbours(t *testing.T, e Engine) {
	r, _, first, release := stalled(t, e, Faults{})
	bg := context.Background()
	keyed := func(n int, digest string) broker.Job {
		j := newJob(n)
		j.IdempotencyKey, j.Digest = "k", digest
		return j
	}
	good := []<-chan outcome{r.goCreate(bg, newJob(1)), r.goCreate(bg, keyed(2, "d")), r.goChange(bg, "job_0100", running(epoch))}
	synctest.Wait()
	replay := r.goCreate(bg, keyed(3, "d"))
	conflict := r.goCreate(bg, keyed(4, "other"))
	taken := r.goCreate(bg, newJob(1))
	missing := r.goChange(bg, "job_none", running(epoch))
	synctest.Wait()
	good = append(good, r.goCreate(bg, newJob(5)))
	illegal := r.goChange(bg, "job_0100", broker.JobChange{To: broker.JobAccepted, At: epoch})
	synctest.Wait()
	release()
	for i, ch := range append(good, first) {
		if o := <-ch; o.err != nil {
			t.Errorf("good write %d failed: %v", i, o.err)
		}
	}
	if o := <-replay; o.err != nil || o.created || o.job.ID != "job_0002" {
		t.Errorf("replay in the group of its first: %+v", o)
	}
	var refusal *broker.Refusal
	if o := <-conflict; !errors.As(o.err, &refusal) {
		t.Errorf("conflict: %v", o.err)
	}
	if o := <-taken; o.err == nil {
		t.Error("an id was given twice")
	}
	wantError(t, (<-missing).err, broker.ErrJobNotFound)
	wantError(t, (<-illegal).err, broker.ErrJobStep)
	r.wantIDs(broker.JobFilter{}, 5, "job_0100", "job_0005", "job_0002", "job_0001", "job_0000")
}

func testFailedGroup(t *testing.T, e Engine) {
	r, c, first, release := stalled(t, e, Faults{})
	bg := context.Background()
	key := newJob(1)
	key.IdempotencyKey, key.Digest = "k", "d"
	twin := key
	twin.ID = "job_0002"
	group := []<-chan outcome{r.goCreate(bg, key)}
	synctest.Wait()
	group = append(group, r.goCreate(bg, twin), r.goChange(bg, "job_0100", failed(epoch, "x")))
	synctest.Wait()
	c.set(failBefore)
	release()
	if o := <-first; o.err != nil {
		t.Error(o.err)
	}
	for _, ch := range group {
		wantError(t, (<-ch).err, errDisk) // the replay too: what it saw was undone
	}
	c.set(nil)
	r.wantIDs(broker.JobFilter{}, 2, "job_0100", "job_0000")
	if len(r.events(broker.EventJobFailed)) != 0 {
		t.Error("an event was left of a failed group")
	}
}

func testGiveUpInQueue(t *testing.T, e Engine) {
	r, _, first, release := stalled(t, e, Faults{QueueLimit: 1})
	ctx, cancel := context.WithCancelCause(context.Background())
	var waiting []<-chan outcome
	waiting = append(waiting, r.goCreate(ctx, newJob(1)))
	for range 3 { // in the queue, and outside it for want of a place
		waiting = append(waiting, r.goChange(ctx, "job_0100", failed(epoch, "x")))
	}
	synctest.Wait()
	gone := errors.New("the caller left")
	cancel(gone)
	for _, ch := range waiting {
		err := (<-ch).err
		wantError(t, err, gone)
		if errors.Is(err, journal.ErrInDoubt) {
			t.Errorf("in doubt about what was never taken: %v", err)
		}
	}
	release()
	<-first
	r.create(newJob(2)) // behind what was given up
	r.wantIDs(broker.JobFilter{}, 3, "job_0100", "job_0002", "job_0000")
	if got := r.read("job_0100"); got.Status != broker.JobAccepted {
		t.Errorf("a change that was given up took effect: %+v", got)
	}
}

func testGiveUpInCommit(t *testing.T, e Engine) {
	r, c, first, release := stalled(t, e, Faults{})
	release()
	<-first
	gate := make(chan struct{})
	c.set(stall(gate))
	ctx, cancel := context.WithCancel(context.Background())
	ch := r.goCreate(ctx, newJob(1))
	synctest.Wait()
	cancel()
	synctest.Wait()
	if !pending(ch) {
		t.Fatalf("it did not wait for its commit: %+v", <-ch)
	}
	close(gate)
	if o := <-ch; o.err != nil || !o.created {
		t.Errorf("created %v, error %v", o.created, o.err)
	}
}

func testGiveUpAtGrace(t *testing.T, e Engine) {
	var c commits
	r := open(t, e, Faults{Commit: c.around, Grace: time.Minute})
	gate := make(chan struct{})
	c.set(stall(gate))
	ctx, cancel := context.WithCancel(context.Background())
	ch := r.goCreate(ctx, newJob(1))
	synctest.Wait()
	cancel()
	start := time.Now()
	err := (<-ch).err
	wantError(t, err, journal.ErrInDoubt)
	wantError(t, err, context.Canceled)
	if waited := time.Since(start); waited != time.Minute {
		t.Errorf("it waited %s", waited)
	}
	if err := r.Close(); err == nil {
		t.Error("Close said that all is well while a commit had not ended")
	}
	close(gate)
	if err := r.Close(); err != nil {
		t.Errorf("Close after the commit had ended: %v", err)
	}
	r.start(Faults{})
	r.wantIDs(broker.JobFilter{}, 1, "job_0001")
}
