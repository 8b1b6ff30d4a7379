package journal

import (
	"context"
	"errors"
	"fmt"
)

// This file is how the file under a journal is replaced while it is in use: new
// writes are refused for a while, another journal is prepared beside it, and
// the writer puts its file in the place of the present one between two commits.
// Readers need no lock: each read transaction has the one file or the other.

// Writes says which writes are meant.
type Writes int

// Creations are new jobs; AllWrites is everything.
const (
	Creations Writes = iota
	AllWrites
)

// Suspend refuses new writes with why until Resume, and waits for those that
// were let in before; reads go on. When ctx ends first, what was suspended
// before is again. It may be called again to suspend more; by one caller at a
// time.
func (j *Journal) Suspend(ctx context.Context, which Writes, why error) error {
	q := &j.queue
	q.mu.Lock()
	before := q.refuse
	q.refuse = map[bool]error{true: why}
	if which == AllWrites {
		q.refuse[false] = why
	}
	quiet := make(chan struct{})
	q.quiet = quiet
	q.answered(nil)
	q.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refuse, q.quiet = before, nil
	return fmt.Errorf("wait for the journal's writes: %w", context.Cause(ctx))
}

// Resume lets writes in again. It is idempotent.
func (j *Journal) Resume() {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	j.queue.refuse, j.queue.quiet = nil, nil
}

// answered counts a write that is over, when w is one, and tells who waits for
// quiet. The queue is locked.
func (q *queue) answered(w *write) {
	if w != nil {
		q.pending[w.creation]--
	}
	if q.quiet == nil {
		return
	}
	for creation := range q.refuse {
		if q.pending[creation] > 0 {
			return
		}
	}
	close(q.quiet)
	q.quiet = nil
}

// Adopt puts the file of next, an open journal that nobody else uses, in the
// place of this one's. All writes must be suspended, and the journals be in one
// file system. place gives the file its name, this journal's; when it fails
// nothing has changed, and next is closed. From then on whoever reads or writes
// here has the file of next, and every watch is signalled. The function that it
// gives closes the file of before, once its last reader has left; next must not
// be used any more.
func (j *Journal) Adopt(ctx context.Context, next *Journal, place func() error) (retire func() error, err error) {
	if next.readOnly || j.readOnly {
		return nil, ErrReadOnly
	}
	if err := next.halt(); err != nil {
		return nil, errors.Join(err, next.Close())
	}
	before, adopted := j.file.Load(), next.file.Load()
	// In the writer, so that no commit is under way and lastEvent is its own.
	err = j.do(ctx, &write{privileged: true, outside: func() error {
		if err := place(); err != nil {
			return err
		}
		j.lastEvent = max(j.lastEvent, next.lastEvent) // a reader of events goes on from its last
		j.records.Store(next.records.Load())
		j.doubtful.Store(next.doubtful.Load())
		j.file.Store(adopted)
		return nil
	}}, false)
	if j.file.Load() != adopted {
		return nil, errors.Join(err, next.Close())
	}
	j.watchers.notifyAll()
	return before.db.Close, nil
}
