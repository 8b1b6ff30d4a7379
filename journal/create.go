package journal

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"berth/broker"
)

// CreateJob writes a new record, Accepted or, for a promoted call, Running.
//
// When its idempotency key names a job of the same scope already, nothing is
// written: with an equal digest that job is given as it now stands, with its
// result and created false, with another one the error is the refusal
// idempotency_conflict. Errors that wrap broker.ErrJournalBusy, a context's
// error alone, or a validation leave nothing behind; after one that wraps
// ErrInDoubt the record may be there, and a repeat with its key finds it.
func (j *Journal) CreateJob(ctx context.Context, job broker.Job) (stored broker.Job, created bool, err error) {
	if err := checkNew(job); err != nil {
		return broker.Job{}, false, err
	}
	fresh := record{Job: normal(job)}
	raw, err := fresh.encode()
	if err != nil {
		return broker.Job{}, false, err
	}
	var first record
	w := &write{point: "accept", size: len(raw)}
	if job.Status == broker.JobRunning {
		w.point = "promote"
	}
	w.apply = func(t *txn) error {
		first, created = record{}, false
		if job.IdempotencyKey != "" {
			found, err := t.replay(fresh.Job, &first)
			if found || err != nil {
				return err
			}
		}
		created = true
		return t.insert(fresh, raw)
	}
	if err := j.do(ctx, w, true); err != nil {
		return broker.Job{}, false, err
	}
	if created {
		return fresh.Job, true, nil
	}
	// A first job that is pruned between the commit and this read is not found;
	// its key is free then, and a repeat creates.
	if first.ResultFile {
		full, err := j.Job(first.ID)
		return full, false, err
	}
	return first.Job, false, nil
}

// FirstJob gives the job that the idempotency key of job names, as CreateJob
// would, without writing anything; found is false when there is none, and
// without a key.
func (j *Journal) FirstJob(job broker.Job) (first broker.Job, found bool, err error) {
	if job.IdempotencyKey == "" {
		return first, false, nil
	}
	id := ""
	err = j.view(func(tx *bbolt.Tx) error {
		id = string(tx.Bucket(bucketKeys).Get(scopedKey(job.Scope(), job.IdempotencyKey)))
		return nil
	})
	if err != nil || id == "" {
		return first, false, err
	}
	first, err = j.Job(id)
	switch {
	case errors.Is(err, broker.ErrJobNotFound): // pruned meanwhile, and its key with it
		return broker.Job{}, false, nil
	case err != nil:
		return broker.Job{}, false, fmt.Errorf("the first job of this idempotency key: %w", err)
	case first.Digest != job.Digest:
		return broker.Job{}, true, keyConflict(id)
	}
	return first, true, nil
}

func keyConflict(id string) *broker.Refusal {
	return broker.Refuse(broker.CodeIdempotencyConflict,
		"This idempotency key was used for another call; the job of that call is named in JobId.", map[string]any{"JobId": id})
}

// replay looks for the job that the key of j names and gives it, as first, when
// the digests are equal.
func (t *txn) replay(j broker.Job, first *record) (found bool, err error) {
	id := string(t.bucket(bucketKeys).Get(scopedKey(j.Scope(), j.IdempotencyKey)))
	if id == "" {
		return false, nil
	}
	r, err := t.record(id)
	if err != nil {
		return true, fmt.Errorf("the first job of this idempotency key: %w", err)
	}
	if r.Digest != j.Digest {
		return true, keyConflict(id)
	}
	r.Result = inlineResult(t.tx, r)
	*first = r
	return true, nil
}

// insert writes a new record with its index entries.
func (t *txn) insert(r record, raw []byte) error {
	id := []byte(r.ID)
	if t.bucket(bucketJobs).Get(id) != nil {
		return fmt.Errorf("create the job %s: a job with this id is there already", r.ID)
	}
	t.grown++
	if err := t.put(bucketJobs, id, raw); err != nil {
		return err
	}
	age := timeKey(r.SubmittedAt, r.ID)
	if err := t.put(bucketByAge, age, nil); err != nil {
		return err
	}
	if err := t.put(bucketUnfinished, age, nil); err != nil {
		return err
	}
	if r.IdempotencyKey != "" {
		if err := t.put(bucketKeys, scopedKey(r.Scope(), r.IdempotencyKey), id); err != nil {
			return err
		}
	}
	t.jobs = append(t.jobs, r.ID)
	return nil
}
