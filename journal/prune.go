package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// EventRetention is how long an event is kept (contracts/native.md section 8).
const EventRetention = 90 * 24 * time.Hour

// Prune removes final records past broker.Retention, oldest completion first,
// with their results, files, idempotency keys and index entries: limit of them
// at most (zero or less: all), a few hundred in a commit. Then, when no such
// record is left, it removes events past EventRetention, and records beside the
// jobs that have expired. It gives the number of
// records. Records that cannot be decoded are never pruned.
func (j *Journal) Prune(ctx context.Context, now time.Time, limit int) (int, error) {
	if j.readOnly {
		return 0, ErrReadOnly
	}
	if !storable(now.Add(-EventRetention)) {
		return 0, errors.New("prune the journal: no usable time")
	}
	pruned := 0
	upTo := timeKey(now.Add(-broker.Retention).Add(1), "") // every key at or before the cutoff sorts before it
	var after []byte
	for limit <= 0 || pruned < limit {
		n := chunk
		if limit > 0 {
			n = min(n, limit-pruned)
		}
		ids, last, err := j.scan(bucketEnded, after, upTo, n)
		if err != nil {
			return pruned, fmt.Errorf("prune the journal: %w", err)
		}
		if len(ids) == 0 {
			if err := j.pruneEvents(ctx, now); err != nil {
				return pruned, err
			}
			return pruned, j.pruneRecords(ctx, now)
		}
		removed, err := j.remove(ctx, ids, now)
		pruned += removed
		if err != nil {
			return pruned, fmt.Errorf("prune the journal: %w", err)
		}
		after = last
	}
	return pruned, nil
}

// remove deletes the expired ones of ids in one group, then their files. A
// crash between leaves files that Recover removes.
func (j *Journal) remove(ctx context.Context, ids []string, now time.Time) (int, error) {
	var files, gone []string
	err := j.do(ctx, &write{point: "prune", size: len(ids) * 64, apply: func(t *txn) error {
		files, gone = nil, nil
		for _, id := range ids {
			r, err := t.record(id)
			switch {
			case errors.Is(err, ErrUnreadable) || errors.Is(err, broker.ErrJobNotFound):
				continue
			case err != nil:
				return err
			case !r.Expired(now):
				continue
			}
			if err := t.erase(r); err != nil {
				return err
			}
			gone = append(gone, id)
			if r.ResultFile {
				files = append(files, j.resultPath(id))
			}
		}
		return nil
	}}, false)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return len(gone), fmt.Errorf("remove a result file: %w", err)
		}
	}
	return len(gone), nil
}

// erase deletes a final record and all that belongs to it, its events aside.
func (t *txn) erase(r record) error {
	t.grown--
	id := []byte(r.ID)
	rows := []struct{ bucket, key []byte }{
		{bucketJobs, id},
		{bucketByAge, timeKey(r.SubmittedAt, r.ID)},
		{bucketEnded, timeKey(*r.CompletedAt, r.ID)},
		{bucketResults, id},
	}
	if r.IdempotencyKey != "" {
		key := scopedKey(r.Scope(), r.IdempotencyKey)
		if string(t.bucket(bucketKeys).Get(key)) == r.ID {
			rows = append(rows, struct{ bucket, key []byte }{bucketKeys, key})
		}
	}
	for _, row := range rows {
		if err := t.delete(row.bucket, row.key); err != nil {
			return err
		}
	}
	t.jobs = append(t.jobs, r.ID)
	return nil
}

// pruneEvents removes events from the oldest on until one is young enough.
func (j *Journal) pruneEvents(ctx context.Context, now time.Time) error {
	for {
		var old [][]byte
		err := j.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket(bucketEvents).Cursor()
			for k, v := c.First(); k != nil && len(old) < chunk; k, v = c.Next() {
				if made, ok := broker.EventIDTime(string(k)); len(v) == 0 && ok { // reserved for one that was deleted
					if now.Sub(made) < EventRetention {
						break
					}
					old = append(old, append([]byte(nil), k...))
					continue
				}
				e := decodeEvent(string(k), v)
				if e.EventType != EventUnreadable && now.Sub(e.CreatedAt) < EventRetention {
					break
				}
				if e.EventType != EventUnreadable {
					old = append(old, append([]byte(nil), k...))
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("prune events: %w", err)
		}
		if len(old) == 0 {
			return nil
		}
		err = j.do(ctx, &write{point: "prune", size: len(old) * 64, apply: func(t *txn) error {
			for _, k := range old {
				if err := t.delete(bucketEvents, k); err != nil {
					return err
				}
			}
			return nil
		}}, false)
		if err != nil {
			return fmt.Errorf("prune events: %w", err)
		}
	}
}
