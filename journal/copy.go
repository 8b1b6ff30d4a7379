package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// copyTries is how often Copy begins again when a result was pruned under it.
const copyTries = 3

// Copy writes a copy of the journal into dir, which must exist and be empty:
// `journal.db` as it stood at one moment, and `results` with the files that its
// records name. A large result is written once, before its record, so files
// that are read after that moment are those of that moment; when one was pruned
// meanwhile the copy begins again. Nothing is verified here.
//
// It holds one read transaction while journal.db is streamed. Writes go on;
// pages that they free are reused only afterwards.
func (j *Journal) Copy(ctx context.Context, dir string) error {
	for try := 1; ; try++ {
		err := j.copyOnce(ctx, dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == copyTries {
			return err
		}
		for _, name := range []string{filepath.Base(j.path), resultsDir} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("copy the journal: %w", err)
			}
		}
	}
}

func (j *Journal) copyOnce(ctx context.Context, dir string) error {
	path, results := filepath.Join(dir, filepath.Base(j.path)), filepath.Join(dir, resultsDir)
	if err := os.Mkdir(results, 0o700); err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	err := writeFile(path, func(w io.Writer) error {
		return j.view(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(heeding{ctx, w})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	c, err := OpenReadOnly(path)
	if err != nil {
		return fmt.Errorf("open the copy of the journal: %w", err)
	}
	_, err = c.walk(broker.JobFilter{}, func(r record) error {
		if !r.ResultFile {
			return nil
		}
		return copyFile(ctx, j.resultPath(r.ID), c.resultPath(r.ID))
	})
	if err := errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("copy the journal's results: %w", err)
	}
	return nil
}

func copyFile(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeFile(to, func(w io.Writer) error {
		_, err := io.Copy(heeding{ctx, w}, f)
		return err
	})
}

// writeFile makes a file, 0600 from its first byte, and syncs it.
func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// heeding is a writer that stops when its context has ended.
type heeding struct {
	ctx context.Context
	w   io.Writer
}

func (h heeding) Write(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, context.Cause(h.ctx)
	}
	return h.w.Write(p)
}

// Counts gives the rows of every table, and the result files that records name
// as `resultFiles`.
func (j *Journal) Counts() (map[string]int, error) {
	out := map[string]int{}
	err := j.view(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if b := tx.Bucket(name); b != nil && string(name) != string(bucketMeta) {
				out[string(name)] = b.Stats().KeyN
			}
		}
		return nil
	})
	files := 0
	if err == nil {
		_, err = j.walk(broker.JobFilter{}, func(r record) error {
			if r.ResultFile {
				files++
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("count the journal: %w", err)
	}
	out["resultFiles"] = files
	return out, nil
}

// Walk visits records without results, newest submission first, in short read
// transactions; memory does not grow with the journal. It gives the number of
// records that could not be decoded.
func (j *Journal) Walk(filter broker.JobFilter, visit func(broker.Job) error) (unreadable int, err error) {
	return j.walk(filter, func(r record) error { return visit(r.Job) })
}

func (j *Journal) walk(filter broker.JobFilter, visit func(record) error) (unreadable int, err error) {
	l := lister{filter: filter, index: bucketByAge}
	for !l.over {
		l.records = l.records[:0]
		if err := j.view(l.step); err != nil {
			return 0, fmt.Errorf("walk the jobs: %w", err)
		}
		for _, r := range l.records {
			if err := visit(r); err != nil {
				return 0, err
			}
		}
	}
	return l.page.Unreadable, nil
}

// EndEvent gives the event of a job's bad end, which was written with it; nil
// when the record names none or the event was deleted.
func (j *Journal) EndEvent(id string) (*broker.Event, error) {
	var out *broker.Event
	err := j.view(func(tx *bbolt.Tx) error {
		r, err := getRecord(tx, id)
		if err != nil || r.EndEvent == "" {
			return err
		}
		if raw := tx.Bucket(bucketEvents).Get([]byte(r.EndEvent)); len(raw) > 0 {
			e := decodeEvent(r.EndEvent, raw)
			out = &e
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the event of %s: %w", id, err)
	}
	return out, nil
}
