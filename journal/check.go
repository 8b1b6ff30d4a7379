package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// maxProblems is where a check stops collecting.
const maxProblems = 1000

// Problem is something in the journal that should not be.
type Problem struct {
	Kind   string // page, record, index, key, result, event, catalog or file
	ID     string // of the record concerned, or the row's key
	Detail string
}

func (p Problem) String() string { return p.Kind + " " + p.ID + ": " + p.Detail }

// Check looks for damage: pages (our own walk and bbolt's check; pages that
// cannot be followed end it there), records that cannot be
// decoded, index entries, idempotency keys and results without their record and
// the other way round, large results without their file, and ends without their
// one event. It gives up to 1,000 problems; none means that all is well.
//
// An event of a job that was pruned is expected: events are kept for longer. A
// Failed or Lost record whose event is gone is a problem, unless it was deleted,
// which leaves an empty row under the event's id.
//
// On a live journal the page check runs in the writer, so writes wait for it;
// the rest is one read transaction.
func (j *Journal) Check(ctx context.Context) ([]Problem, error) {
	c := &checker{j: j, ctx: ctx, jobs: map[string]checked{}}
	if j.readOnly {
		if err := c.pages(); err != nil {
			return nil, fmt.Errorf("check the journal: %w", c.why(err))
		}
	} else if err := j.do(ctx, &write{outside: c.pages}, false); err != nil {
		return nil, fmt.Errorf("check the journal: %w", c.why(err))
	}
	if c.unsound {
		return c.problems, nil // what stands on such pages cannot be read
	}
	unseen, err := c.look()
	if err == nil && len(unseen) > 0 {
		err = pause(ctx, "check the journal")
	}
	if err != nil {
		return nil, fmt.Errorf("check the journal: %w", err)
	}
	return c.problems, nil
}

// partPages is the part of a journal that a look in passing leaves out while the
// journal is in use.
const partPages = "pages"

// LookAt is Check as far as it comes until ctx ends, for a journal that is too
// large to be read whole in passing. unseen names the parts of it that were not
// looked at, or not to their end; a problem in them is not known. No write waits
// for it: the pages of a live journal are left out.
func (j *Journal) LookAt(ctx context.Context) (problems []Problem, unseen []string, err error) {
	c := &checker{j: j, ctx: ctx, jobs: map[string]checked{}, passing: true}
	if !j.readOnly {
		unseen = append(unseen, partPages)
	} else if err := c.pages(); errors.Is(err, errCut) {
		return c.problems, c.parts(), nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("look at the journal: %w", err)
	}
	if c.unsound {
		return c.problems, c.parts()[1:], nil
	}
	left, err := c.look()
	if err != nil {
		return nil, nil, fmt.Errorf("look at the journal: %w", err)
	}
	return c.problems, append(unseen, left...), nil
}

// part is a part of a journal; each needs those before it.
type part struct {
	name string
	look func(*checker, *bbolt.Tx)
}

var parts = []part{{"jobs", (*checker).records}, {"indexes", (*checker).indexes}, {"idempotency keys", (*checker).keys}, {"results", (*checker).results},
	{"events", (*checker).events}, {"catalogs", (*checker).catalogs}, {"other records", (*checker).checkRecords}}

const partFiles = "files of results"

// parts names all, in the order in which they are looked at.
func (c *checker) parts() []string {
	names := []string{partPages}
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, partFiles)
}

// look goes through everything but the pages and gives the parts that it did not
// come to the end of.
func (c *checker) look() (unseen []string, err error) {
	seen := 1 // the pages
	err = c.j.view(func(tx *bbolt.Tx) error {
		for _, p := range parts {
			if c.ctx.Err() == nil {
				p.look(c, tx)
			}
			if c.ctx.Err() != nil {
				return nil
			}
			seen++
		}
		return nil
	})
	if err != nil || c.ctx.Err() != nil {
		return c.parts()[seen:], err
	}
	return nil, c.files()
}

// errCut ends a walk whose time is over.
var errCut = errors.New("there was no time for the rest")

// each visits the rows of a bucket until the time is over.
func (c *checker) each(b *bbolt.Bucket, visit func(k, v []byte) error) {
	rows := 0
	_ = b.ForEach(func(k, v []byte) error {
		if rows++; rows%256 == 0 && c.ctx.Err() != nil {
			return errCut
		}
		return visit(k, v)
	})
}

// why gives the cause of the end in place of the end.
func (c *checker) why(err error) error {
	if errors.Is(err, errCut) {
		return context.Cause(c.ctx)
	}
	return err
}

// over reports whether the time is over, so that what was visited is not all.
func (c *checker) over() bool { return c.ctx.Err() != nil }

// timed are reads that end with the time.
type timed struct {
	ctx context.Context
	io.ReaderAt
}

func (t timed) ReadAt(p []byte, at int64) (int, error) {
	if t.ctx.Err() != nil {
		return 0, errCut
	}
	return t.ReaderAt.ReadAt(p, at)
}

// checked is what the later steps need of a record.
type checked struct {
	readable    bool
	final       bool
	resultFile  bool
	resultBytes int64
	endEvent    string
	ended       bool // Failed or Lost
	events      int  // end events that speak of it
}

type checker struct {
	j        *Journal
	ctx      context.Context
	passing  bool // bbolt's own look, which cannot be ended, is left out
	jobs     map[string]checked
	problems []Problem
	unsound  bool // the pages cannot be followed
}

func (c *checker) add(kind, id, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{kind, id, fmt.Sprintf(format, args...)})
	}
}

// pages looks at the pages with reads of our own, and only when they are sound
// has bbolt look, which follows them wherever they lead.
func (c *checker) pages() error {
	raw := c.j.file.Load().raw
	info, err := raw.Stat()
	if errors.Is(err, os.ErrClosed) {
		return ErrClosed
	}
	if err != nil {
		return err
	}
	walk, alone, err := inspect(timed{c.ctx, raw}, info.Size(), maxProblems)
	var found []string
	switch {
	case c.over():
		return errCut // a read that it cut may look like damage
	case errors.Is(err, ErrDamaged):
		found = []string{err.Error()}
	case err != nil:
		return err
	default:
		found = walk.found
	}
	for _, what := range found {
		c.add("page", "", "%s", what)
	}
	if c.unsound = len(found) > 0; c.unsound {
		return nil
	}
	if alone {
		c.add("page", "", "one of the file's two heads is not whole, as after a crash while it was written; the other counts")
	}
	if c.passing {
		return nil
	}
	return c.j.view(c.boltPages)
}

func (c *checker) boltPages(tx *bbolt.Tx) error {
	for err := range tx.Check() {
		c.add("page", "", "%v", err)
	}
	return nil
}

func (c *checker) records(tx *bbolt.Tx) {
	age, unfinished, ended := tx.Bucket(bucketByAge), tx.Bucket(bucketUnfinished), tx.Bucket(bucketEnded)
	keys, results := tx.Bucket(bucketKeys), tx.Bucket(bucketResults)
	c.each(tx.Bucket(bucketJobs), func(k, v []byte) error {
		id := string(k)
		r, err := decode(id, v)
		if err != nil {
			c.add("record", id, "%v", err)
			c.jobs[id] = checked{}
			return nil
		}
		final := r.Status.Final()
		c.jobs[id] = checked{readable: true, final: final, resultFile: r.ResultFile, resultBytes: r.ResultBytes,
			endEvent: r.EndEvent, ended: r.Status == broker.JobFailed || r.Status == broker.JobLost}
		submitted := timeKey(r.SubmittedAt, id)
		if !has(age, submitted) {
			c.add("index", id, "the record is not in the index by age")
		}
		if has(unfinished, submitted) == final {
			c.add("index", id, "the record is %s and its entry in the index of unfinished jobs disagrees", r.Status)
		}
		if final && !has(ended, timeKey(*r.CompletedAt, id)) {
			c.add("index", id, "the record is final and not in the index by completion")
		}
		if r.IdempotencyKey != "" && string(keys.Get(scopedKey(r.Scope(), r.IdempotencyKey))) != id {
			c.add("key", id, "the record's idempotency key does not lead to it")
		}
		inline := results.Get(k)
		if want := r.ResultBytes; !r.ResultFile && int64(len(inline)) != want {
			c.add("result", id, "the record speaks of a result of %d bytes and %d are there", want, len(inline))
		}
		return nil
	})
}

func has(b *bbolt.Bucket, key []byte) bool {
	k, _ := b.Cursor().Seek(key)
	return string(k) == string(key)
}

func (c *checker) indexes(tx *bbolt.Tx) {
	for _, name := range [][]byte{bucketByAge, bucketUnfinished, bucketEnded} {
		seen := map[string]bool{}
		c.each(tx.Bucket(name), func(k, _ []byte) error {
			id, ok := idOfTimeKey(k)
			rec, found := c.jobs[id]
			switch {
			case !ok || !found:
				c.add("index", id, "an entry of %s has no record", name)
			case seen[id]:
				c.add("index", id, "%s has two entries", name)
			case rec.readable && string(name) == string(bucketUnfinished) && rec.final,
				rec.readable && string(name) == string(bucketEnded) && !rec.final:
				c.add("index", id, "an entry of %s disagrees with the record's status", name)
			}
			seen[id] = true
			return nil
		})
	}
}

func (c *checker) keys(tx *bbolt.Tx) {
	jobs := tx.Bucket(bucketJobs)
	c.each(tx.Bucket(bucketKeys), func(k, v []byte) error {
		id := string(v)
		rec, found := c.jobs[id]
		if !found {
			c.add("key", id, "an idempotency key leads to no record")
			return nil
		}
		if !rec.readable {
			return nil
		}
		r, err := decode(id, jobs.Get(v))
		if err == nil && string(scopedKey(r.Scope(), r.IdempotencyKey)) != string(k) {
			c.add("key", id, "an idempotency key leads to a record with another key")
		}
		return nil
	})
}

func (c *checker) results(tx *bbolt.Tx) {
	c.each(tx.Bucket(bucketResults), func(k, v []byte) error {
		id := string(k)
		rec, found := c.jobs[id]
		switch {
		case !found:
			c.add("result", id, "a result has no record")
		case rec.readable && rec.resultFile:
			c.add("result", id, "the record's result is both in the journal and in a file")
		}
		return nil
	})
}

// events counts the end events of each record. An end event names its job in
// front of its message (contracts/native.md section 2).
func (c *checker) events(tx *bbolt.Tx) {
	b := tx.Bucket(bucketEvents)
	c.each(b, func(k, v []byte) error {
		if len(v) == 0 {
			return nil
		}
		e := decodeEvent(string(k), v)
		if e.EventType == EventUnreadable {
			c.add("event", e.ID, "the event cannot be decoded")
		}
		if e.EventType != broker.EventJobFailed && e.EventType != broker.EventJobLost {
			return nil
		}
		id, _, _ := strings.Cut(e.Message, ": ")
		if rec, found := c.jobs[id]; found {
			rec.events++
			c.jobs[id] = rec
		}
		return nil
	})
	if c.over() {
		return
	}
	for id, rec := range c.jobs {
		if !rec.readable {
			continue
		}
		deleted := rec.endEvent != "" && has(b, []byte(rec.endEvent)) && len(b.Get([]byte(rec.endEvent))) == 0
		switch {
		case rec.ended && rec.endEvent == "":
			c.add("event", id, "the record ended badly and names no event")
		case rec.ended && !deleted && rec.events != 1, rec.ended && deleted && rec.events != 0:
			c.add("event", id, "%d events tell of the record's end instead of one", rec.events)
		case !rec.ended && (rec.events != 0 || rec.endEvent != ""):
			c.add("event", id, "an event tells of an end that the record does not have")
		}
	}
}

func (c *checker) catalogs(tx *bbolt.Tx) {
	c.each(tx.Bucket(bucketCatalogs), func(k, v []byte) error {
		if _, err := decodeCatalog(string(k), v); err != nil {
			c.add("catalog", string(k), "%v", err)
		}
		return nil
	})
}

// files compares the results directory with the records. A live journal may
// have moved on since the records were read, so what looks wrong is looked at
// again.
func (c *checker) files() error {
	for id, rec := range c.jobs {
		if !rec.resultFile {
			continue
		}
		info, err := os.Stat(c.j.resultPath(id))
		if err == nil && info.Size() == rec.resultBytes {
			continue
		}
		if owns, ownsErr := c.j.ownsFile(id); ownsErr != nil || !owns {
			if ownsErr != nil {
				return ownsErr
			}
			continue // pruned meanwhile
		}
		if err != nil {
			c.add("file", id, "the record's result file is missing or cannot be looked at")
		} else {
			c.add("file", id, "the record speaks of a result of %d bytes and the file has %d", rec.resultBytes, info.Size())
		}
	}
	orphans, err := c.j.orphanFiles()
	if err != nil {
		return err
	}
	for _, name := range orphans {
		if _, err := os.Stat(c.j.results + string(os.PathSeparator) + name); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if !c.j.readOnly && c.inFlight(name) {
			continue
		}
		c.add("file", name, "a file belongs to no record; the next start removes it")
	}
	return nil
}

// inFlight reports whether an orphan may be the result of an outcome that is
// being written just now: only a closed journal knows that it is not.
func (c *checker) inFlight(name string) bool {
	if strings.HasSuffix(name, stageSuffix) {
		return true
	}
	id := strings.TrimSuffix(name, resultSuffix)
	rec, found := c.jobs[id]
	return found && !rec.final
}
