package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// chunk is how many records one read transaction visits.
const chunk = 512

// Job reads one record with its result. An id that the journal never held, or
// that was pruned, is broker.ErrJobNotFound.
func (j *Journal) Job(id string) (broker.Job, error) {
	for try := 0; ; try++ {
		var r record
		err := j.view(func(tx *bbolt.Tx) (err error) {
			if r, err = getRecord(tx, id); err == nil {
				r.Result = inlineResult(tx, r)
			}
			return err
		})
		if err != nil {
			return broker.Job{}, err
		}
		if r.ResultFile {
			r.Result, err = j.fileResult(r)
			if errors.Is(err, fs.ErrNotExist) && try == 0 {
				continue // pruned meanwhile, or really gone: the record says which
			}
			if err != nil {
				return broker.Job{}, err
			}
		}
		if int64(len(r.Result)) != r.ResultBytes {
			return broker.Job{}, fmt.Errorf("job %s: %w: its result has %d bytes instead of %d", id, ErrUnreadable, len(r.Result), r.ResultBytes)
		}
		return r.Job, nil
	}
}

// JobWithoutResult reads one record and leaves its result where it is.
func (j *Journal) JobWithoutResult(id string) (broker.Job, error) {
	var r record
	err := j.view(func(tx *bbolt.Tx) (err error) {
		r, err = getRecord(tx, id)
		return err
	})
	return r.Job, err
}

// Jobs lists records without results, newest submission first, then by id
// descending. A list of unfinished jobs visits only those. Unreadable counts
// the records among the visited ones that could not be decoded; they match no
// filter.
//
// A long list is read in several short transactions: it shows each record once,
// as it stood when it was visited.
func (j *Journal) Jobs(filter broker.JobFilter) (broker.JobPage, error) {
	l := lister{filter: filter, index: bucketByAge}
	if filter.Unfinished || (filter.Status != "" && !filter.Status.Final()) {
		l.index = bucketUnfinished
	}
	if !filter.KeptAt.IsZero() {
		if err := j.view(l.expired); err != nil {
			return broker.JobPage{}, fmt.Errorf("list jobs: %w", err)
		}
	}
	for !l.over {
		if err := j.view(l.step); err != nil {
			return broker.JobPage{}, fmt.Errorf("list jobs: %w", err)
		}
	}
	for _, r := range l.records {
		l.page.Jobs = append(l.page.Jobs, r.Job)
	}
	return l.page, nil
}

// lister walks an index by submission time from its end, a chunk at a time.
type lister struct {
	filter  broker.JobFilter
	index   []byte
	last    []byte // the key that was visited last
	over    bool
	visited int
	page    broker.JobPage // without its jobs, which stand in records
	records []record
	hidden  map[string]bool // past their retention
}

// expired notes the jobs past their retention: usually few, or none, as they
// are pruned. So the others are told apart without being decoded.
func (l *lister) expired(tx *bbolt.Tx) error {
	upTo := timeKey(l.filter.KeptAt.Add(-broker.Retention).Add(1), "")
	c := tx.Bucket(bucketEnded).Cursor()
	l.hidden = map[string]bool{}
	for k, _ := c.First(); k != nil && bytes.Compare(k, upTo) < 0; k, _ = c.Next() {
		if id, ok := idOfTimeKey(k); ok {
			l.hidden[id] = true
		}
	}
	return nil
}

func (l *lister) step(tx *bbolt.Tx) error {
	jobs := tx.Bucket(bucketJobs)
	c := tx.Bucket(l.index).Cursor()
	var k []byte
	if l.last == nil {
		k, _ = c.Last()
	} else if k, _ = c.Seek(l.last); k == nil {
		k, _ = c.Last() // everything from there on was pruned
	} else {
		k, _ = c.Prev()
	}
	n := 0
	for ; k != nil && n < chunk && !l.full(); k, _ = c.Prev() {
		if f := l.filter; f.Visit > 0 && l.visited >= f.Visit {
			l.page.Capped, l.over = true, true
			return nil
		}
		n++
		l.visited++
		l.last = append(l.last[:0], k...)
		id, ok := idOfTimeKey(k)
		if !ok {
			l.page.Unreadable++
			continue
		}
		l.visit(id, jobs.Get([]byte(id)))
	}
	l.over = k == nil || l.full()
	return nil
}

// full reports whether a brief list has its page and one more.
func (l *lister) full() bool {
	f := l.filter
	return f.Brief && f.Limit > 0 && l.page.Total > f.Offset+f.Limit
}

// visit decodes a record only when the filter or the page needs it.
func (l *lister) visit(id string, raw []byte) {
	status, err := peek(raw)
	if err != nil {
		l.page.Unreadable++
		return
	}
	f := l.filter
	if l.hidden[id] {
		return
	}
	if (f.Status != "" && f.Status != status) || (f.Unfinished && status.Final()) {
		return
	}
	plain := f.Tenant == "" && f.User == "" && f.Operation == "" && f.Backend == "" && f.VesselID == "" && f.CompletedBy.IsZero() &&
		f.CompletedAfter.IsZero() && f.SubmittedAfter.IsZero() && f.SubmittedBefore.IsZero() && f.Text == ""
	inPage := l.page.Total >= f.Offset && (f.Limit <= 0 || len(l.records) < f.Limit)
	if plain && !inPage {
		l.page.Total++
		return
	}
	r, err := decode(id, raw)
	if err != nil {
		l.page.Unreadable++
		return
	}
	if !f.Match(r.Job) {
		return
	}
	l.page.Total++
	if inPage {
		l.records = append(l.records, r)
	}
}
