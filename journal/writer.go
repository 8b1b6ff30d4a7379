package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
)

const (
	maxGroup      = 1024    // writes in one commit
	maxGroupBytes = 8 << 20 // of them together, unless one alone is larger
)

// write is one change in the queue.
type write struct {
	// Fixed when it is queued.
	point string // names its fail points; empty: it has none
	size  int    // of what it stores, about
	slot  bool   // it holds one of Journal.slots
	// apply makes the change in t. An error without a change made leaves its
	// neighbours alone; an error after one was made costs the group a new try.
	// It may be called again after a failed group, so it sets its results anew.
	apply func(t *txn) error
	// privileged is let in while others are refused.
	privileged bool
	creation   bool
	// outside, set instead of apply, runs in the writer with no transaction open.
	outside func() error

	done chan struct{}
	err  error // valid once done is closed
}

// queue holds the writes that wait for the writer.
type queue struct {
	mu        sync.Mutex
	creations []*write
	others    []*write
	closed    bool

	// pending are those that were added and not answered, by creation.
	pending map[bool]int
	refuse  map[bool]error // by creation: why a new one is refused
	quiet   chan struct{}  // closed when none is pending that would be refused
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// take gives the next group: what waits, outcomes first, up to the limits of a
// commit. over is true when the queue is closed and empty.
func (q *queue) take() (group []*write, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := 0
	for _, list := range []*[]*write{&q.others, &q.creations} {
		n := 0
		for _, w := range *list {
			if len(group) == maxGroup || (len(group) > 0 && bytes+w.size > maxGroupBytes) {
				break
			}
			n++
			group = append(group, w)
			bytes += w.size
		}
		*list = slices.Delete(*list, 0, n)
	}
	return group, q.closed && len(group) == 0
}

func (j *Journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// enqueue puts w in the queue. A creation that finds the queue full is refused;
// any other write waits for a slot.
func (j *Journal) enqueue(ctx context.Context, w *write, creation bool) error {
	if j.readOnly {
		return ErrReadOnly
	}
	if err := pause(ctx, "write to the journal"); err != nil {
		return err
	}
	w.done = make(chan struct{})
	if !creation {
		select {
		case j.slots <- struct{}{}:
			w.slot = true
		case <-ctx.Done():
			return pause(ctx, "wait for a turn in the journal")
		case <-j.stopping:
			return ErrClosed
		}
	}
	w.creation = creation
	if err := j.queue.add(w, creation, j.opts.QueueLimit); err != nil {
		j.release(w)
		return err
	}
	j.signal()
	return nil
}

func (q *queue) add(w *write, creation bool, limit int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.refuse[creation] != nil && !w.privileged:
		return q.refuse[creation]
	case !creation:
		q.others = append(q.others, w)
	case len(q.creations) >= limit:
		return fmt.Errorf("create a job: %d wait already: %w", limit, broker.ErrJournalBusy)
	default:
		q.creations = append(q.creations, w)
	}
	if q.pending == nil {
		q.pending = map[bool]int{}
	}
	q.pending[creation]++
	return nil
}

// remove takes out a write whose caller has gone; false when the writer has it.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range []*[]*write{&q.others, &q.creations} {
		if i := slices.Index(*list, w); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			q.answered(w)
			return true
		}
	}
	return false
}

func (j *Journal) release(w *write) {
	if w.slot {
		<-j.slots
	}
}

// do queues w and waits for its commit. When ctx ends while w waits, nothing
// was written. When it ends after the writer has taken w, do goes on waiting
// for the commit, for Options.Grace at most, and then says ErrInDoubt.
func (j *Journal) do(ctx context.Context, w *write, creation bool) error {
	if err := j.enqueue(ctx, w, creation); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if j.queue.remove(w) {
		j.release(w)
		return pause(ctx, "wait for a turn in the journal")
	}
	timer := time.NewTimer(j.opts.Grace)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		return fmt.Errorf("%w: its commit has not ended: %w", ErrInDoubt, context.Cause(ctx))
	}
}

// run is the writer.
func (j *Journal) run() {
	defer close(j.stopped)
	for {
		group, over := j.queue.take()
		if over {
			return
		}
		if len(group) == 0 {
			<-j.wake
			continue
		}
		taken := make([]*write, 0, len(group))
		for _, w := range group {
			if w.outside != nil {
				j.finish(w, guard(w.outside))
				continue
			}
			taken = append(taken, w)
		}
		j.commitGroup(taken)
	}
}

func (j *Journal) finish(w *write, err error) {
	w.err = err
	j.release(w)
	j.queue.mu.Lock()
	j.queue.answered(w)
	j.queue.mu.Unlock()
	close(w.done)
}

// commitGroup commits group as one and answers all of it. A write that fails
// half done is taken out, and the rest is tried again.
func (j *Journal) commitGroup(group []*write) {
	for len(group) > 0 {
		broken, err := j.tryGroup(group)
		if broken < 0 {
			return
		}
		j.finish(group[broken], err)
		group = slices.Delete(group, broken, broken+1)
	}
}

// tryGroup answers the whole group and gives -1, or undoes everything and gives
// the index of the write that has to be taken out, with its error.
func (j *Journal) tryGroup(group []*write) (broken int, err error) {
	finishAll := func(errs []error, all error) {
		for i, w := range group {
			err := all
			if err == nil {
				err = errs[i]
			}
			j.finish(w, err)
		}
	}
	tx, err := j.file.Load().db.Begin(true)
	if err != nil {
		finishAll(nil, fmt.Errorf("begin a journal transaction: %w", err))
		return -1, nil
	}
	t := newTxn(j, tx)
	errs := make([]error, len(group))
	var points []string
	for i, w := range group {
		t.touched = false
		errs[i] = guard(func() error { return w.apply(t) })
		if errs[i] != nil && t.touched {
			_ = guard(tx.Rollback) // its only error is that it was closed
			return i, errs[i]
		}
		if errs[i] == nil && w.point != "" && !slices.Contains(points, w.point) {
			points = append(points, w.point)
		}
	}
	if !t.changed {
		_ = guard(tx.Rollback)
		finishAll(errs, nil)
		return -1, nil
	}
	for _, p := range points {
		j.opts.Hook(p + ":before-commit")
	}
	err = guard(func() error { return j.opts.Commit(tx.Commit) })
	if err != nil {
		_ = guard(tx.Rollback) // for a Commit option that did not commit
		if t.grown != 0 {
			j.doubtful.Store(true)
		}
		finishAll(nil, fmt.Errorf("commit to the journal: %w: %w", ErrInDoubt, err))
		return -1, nil
	}
	j.commits.Add(1)
	j.records.Add(int64(t.grown))
	j.writes.Add(uint64(len(group)))
	for _, p := range points {
		j.opts.Hook(p + ":after-commit")
	}
	j.watchers.notify(t.jobs)
	finishAll(errs, nil)
	return -1, nil
}

// guard turns a panic, or a fault in the memory map of a damaged file, into an
// error: one bad page must not take the broker down.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the journal: %w: %v", ErrDamaged, r)
		}
	}()
	return fn()
}

// txn is the transaction of a group, as its writes see it. It is used by the
// writer only.
type txn struct {
	j       *Journal
	tx      *bbolt.Tx
	touched bool     // the present write has changed something
	changed bool     // some write has
	jobs    []string // whose watchers are told after the commit
	grown   int      // records made, less those erased
}

func newTxn(j *Journal, tx *bbolt.Tx) *txn { return &txn{j: j, tx: tx} }

func (t *txn) bucket(name []byte) *bbolt.Bucket { return t.tx.Bucket(name) }

// put writes a row. Buckets whose keys grow are packed fuller.
func (t *txn) put(name, key, value []byte) error {
	t.touched, t.changed = true, true
	b := t.tx.Bucket(name)
	b.FillPercent = fillPercent
	if err := b.Put(key, value); err != nil {
		return fmt.Errorf("write to the journal's bucket %s: %w", name, err)
	}
	return nil
}

func (t *txn) delete(name, key []byte) error {
	t.touched, t.changed = true, true
	if err := t.tx.Bucket(name).Delete(key); err != nil {
		return fmt.Errorf("delete from the journal's bucket %s: %w", name, err)
	}
	return nil
}

// record gives the record of id; broker.ErrJobNotFound when there is none.
func (t *txn) record(id string) (record, error) { return getRecord(t.tx, id) }

func getRecord(tx *bbolt.Tx, id string) (record, error) {
	raw := tx.Bucket(bucketJobs).Get([]byte(id))
	if raw == nil {
		return record{}, fmt.Errorf("%w: %s", broker.ErrJobNotFound, id)
	}
	r, err := decode(id, raw)
	if err != nil {
		return record{}, fmt.Errorf("job %s: %w", id, err)
	}
	return r, nil
}

// bump adds one to a counter in meta.
func (t *txn) bump(key []byte) error {
	n := counter(t.bucket(bucketMeta), key) + 1
	return t.put(bucketMeta, key, binary.BigEndian.AppendUint64(nil, n))
}
