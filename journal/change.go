package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"berth/broker"
)

// ChangeJob applies one step to the record of id, in one transaction with its
// index entries, its result and its events, and gives the job after it. It
// waits for its turn as long as ctx lasts and is never refused as overload.
//
// A change that meets a final record is dropped and counted in the journal; the
// error is then broker.ErrJobFinal and the job the stored one. That is also
// what the repeat of a change finds whose first try ended in ErrInDoubt and had
// taken effect. A step that is not in the table is broker.ErrJobStep.
func (j *Journal) ChangeJob(ctx context.Context, id string, change broker.JobChange) (broker.Job, error) {
	change, err := checkChange(id, change)
	if err != nil {
		return broker.Job{}, err
	}
	big, err := j.stage(ctx, id, change)
	if err != nil {
		return broker.Job{}, err
	}
	defer big.discard()
	var stored record
	var late error
	w := &write{point: pointOf(change.To), size: headerBytes + 1024 + len(change.Result)}
	if big != nil {
		w.size = headerBytes + 1024
	}
	if change.Cause != nil {
		w.size += eventSize(*change.Cause)
	}
	w.apply = func(t *txn) error {
		stored, late = record{}, nil
		r, err := t.record(id)
		if err != nil {
			return err
		}
		stored = r
		next, err := t.step(r, change, big)
		if errors.Is(err, broker.ErrJobFinal) {
			stored.Result = inlineResult(t.tx, stored)
			late = err
			return t.bump(metaDropped)
		}
		if err == nil {
			stored = next
		}
		return err
	}
	if err := j.do(ctx, w, false); err != nil {
		return broker.Job{}, err
	}
	if late != nil && stored.ResultFile {
		full, err := j.Job(id)
		if err != nil {
			return stored.Job, errors.Join(late, err)
		}
		return full, late
	}
	return stored.Job, late
}

func pointOf(to broker.JobStatus) string {
	if to.Final() {
		return "outcome"
	}
	return "running"
}

// checkChange refuses a change that could not be stored, and gives it as it
// will be stored.
func checkChange(id string, c broker.JobChange) (broker.JobChange, error) {
	if _, ok := statusBytes[c.To]; !ok {
		return c, fmt.Errorf("change the job %s: %w: unknown status %q", id, broker.ErrJobStep, c.To)
	}
	if !storable(c.At) {
		return c, fmt.Errorf("change the job %s: the change has no usable time", id)
	}
	for name, raw := range map[string]json.RawMessage{"result": c.Result, "refusal": c.Refusal} {
		if len(raw) > 0 && !json.Valid(raw) {
			return c, fmt.Errorf("change the job %s: its %s is not JSON", id, name)
		}
	}
	c.At = utc(c.At)
	c.Message = strings.ToValidUTF8(c.Message, "\uFFFD")
	return c, nil
}

// step applies one change to r and writes all that follows from it.
func (t *txn) step(r record, change broker.JobChange, big *bigResult) (record, error) {
	job, events, err := r.Apply(change)
	if err != nil {
		return record{}, err
	}
	next := record{Job: normal(job), ResultFile: big != nil && job.Status.Final(), EndEvent: r.EndEvent}
	for _, e := range events {
		id, err := t.append(e)
		if err != nil {
			return record{}, err
		}
		next.EndEvent = id
	}
	raw, err := next.encode()
	if err != nil {
		return record{}, err
	}
	id := []byte(r.ID)
	if err := t.put(bucketJobs, id, raw); err != nil {
		return record{}, err
	}
	t.jobs = append(t.jobs, r.ID)
	if !next.Status.Final() {
		return next, nil
	}
	if err := t.delete(bucketUnfinished, timeKey(r.SubmittedAt, r.ID)); err != nil {
		return record{}, err
	}
	if err := t.put(bucketEnded, timeKey(*next.CompletedAt, r.ID), nil); err != nil {
		return record{}, err
	}
	switch {
	case next.ResultFile:
		return next, big.publish(t.j)
	case len(next.Result) > 0:
		return next, t.put(bucketResults, id, next.Result)
	}
	return next, nil
}
