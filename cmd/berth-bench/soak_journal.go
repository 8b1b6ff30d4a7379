package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	core "berth/broker"
	"berth/journal"
)

// fillers is how many writes share commits while a journal is filled.
const fillers = 1024

// fillJournal writes n jobs that have ended, with small results, as a broker
// would have in two weeks.
func fillJournal(ctx context.Context, path string, n int) (err error) {
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	began := time.Now().Add(-7 * 24 * time.Hour)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := fillOne(ctx, j, i, began.Add(time.Duration(i)*time.Millisecond)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func fillOne(ctx context.Context, j *journal.Journal, i int64, at time.Time) error {
	id := fmt.Sprintf("job_%08x_%011d", at.UnixMilli()&0xffffffff, i)
	job := core.Job{ID: id, Operation: "backend__long_running_verb", Status: core.JobRunning, SubmittedAt: at, StartedAt: &at,
		Tenant: "default", User: "operator", Session: "0123456789abcdef0123456789abcdef", CallID: "call_0123456789", Backend: "backend", Promoted: true}
	if _, _, err := j.CreateJob(ctx, job); err != nil {
		return fmt.Errorf("fill the journal: %w", err)
	}
	change := core.JobChange{To: core.JobSucceeded, At: at.Add(time.Second), Result: json.RawMessage(`{"content":[{"type":"text","text":"it is done"}]}`)}
	if i%50 == 0 { // some fail, with their events
		change = core.JobChange{To: core.JobFailed, At: at.Add(time.Second), Reason: core.CodeOperationFailed, Message: "it broke"}
	}
	_, err := j.ChangeJob(ctx, id, change)
	return err
}
