package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// Recovery is what a start found and did.
type Recovery struct {
	Lost        int          // records that became Lost
	Tracked     []broker.Job // unfinished records that were left alone, newest first
	Unreadable  int          // unfinished records that could not be decoded; left as they are
	OrphanFiles int          // result files without a record that were removed
}

// Recover makes every unfinished record Lost, with one job.lost event each,
// except tracked ones, which it leaves and gives back; then it removes result
// files without a record. It is called after Open and before any other write.
// It works in groups: when it is cut short the next call goes on, and a second
// call changes nothing.
func (j *Journal) Recover(ctx context.Context, now time.Time) (Recovery, error) {
	var out Recovery
	if j.readOnly {
		return out, ErrReadOnly
	}
	change, err := checkChange("", broker.LostOnRestart(now))
	if err != nil {
		return out, fmt.Errorf("recover the journal: %w", err)
	}
	var after []byte
	for {
		ids, last, err := j.scan(bucketUnfinished, after, nil, chunk)
		if err != nil {
			return out, fmt.Errorf("recover the journal: %w", err)
		}
		if len(ids) == 0 {
			break
		}
		after = last
		if err := j.lose(ctx, ids, change, &out); err != nil {
			return out, fmt.Errorf("recover the journal: %w", err)
		}
	}
	for i, k := 0, len(out.Tracked)-1; i < k; i, k = i+1, k-1 {
		out.Tracked[i], out.Tracked[k] = out.Tracked[k], out.Tracked[i]
	}
	orphans, err := j.orphanFiles()
	if err != nil {
		return out, fmt.Errorf("recover the journal: %w", err)
	}
	for _, name := range orphans {
		if err := os.Remove(filepath.Join(j.results, name)); err != nil {
			return out, fmt.Errorf("recover the journal: %w", err)
		}
		out.OrphanFiles++
	}
	return out, nil
}

// lose ends the untracked ones of ids in one group.
func (j *Journal) lose(ctx context.Context, ids []string, change broker.JobChange, out *Recovery) error {
	var lost, unreadable int
	var tracked []broker.Job
	err := j.do(ctx, &write{point: "recover", size: len(ids) * 1024, apply: func(t *txn) error {
		lost, unreadable, tracked = 0, 0, nil
		for _, id := range ids {
			r, err := t.record(id)
			switch {
			case errors.Is(err, ErrUnreadable) || errors.Is(err, broker.ErrJobNotFound):
				unreadable++
				t.j.opts.Logger.Warn("an unfinished job cannot be read and is left as it is", "job", id, "error", err)
				continue
			case err != nil:
				return err
			case r.Status.Final():
				continue
			case r.Tracking != nil:
				tracked = append(tracked, r.Job)
				continue
			}
			if _, err := t.step(r, change, nil); err != nil {
				return err
			}
			lost++
		}
		return nil
	}}, false)
	if err != nil {
		return err
	}
	out.Lost += lost
	out.Unreadable += unreadable
	out.Tracked = append(out.Tracked, tracked...)
	return nil
}

// scan gives up to n ids of an index by time, oldest first, after the key
// `after` and, when upTo is set, not beyond that key; and the last key.
func (j *Journal) scan(index, after, upTo []byte, n int) (ids []string, last []byte, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(index).Cursor()
		k, _ := c.Seek(after)
		if k != nil && string(k) == string(after) {
			k, _ = c.Next()
		}
		for ; k != nil && len(ids) < n; k, _ = c.Next() {
			if upTo != nil && string(k) > string(upTo) {
				break
			}
			last = append(last[:0], k...)
			if id, ok := idOfTimeKey(k); ok {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, last, err
}
