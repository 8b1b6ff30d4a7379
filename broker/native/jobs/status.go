package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/native"
)

// maxUnfinished is how many of the caller's own unfinished jobs a
// job_not_found names.
const maxUnfinished = 20

// maxWakes bounds how often one wait looks at the job again, should a store
// announce changes that are none.
const maxWakes = 1000

// status is the verb: the job as it is or as it becomes.
func (f *Family) status(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		JobID       string      `json:"jobId"`
		WaitSeconds json.Number `json:"waitSeconds"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	job, err := f.wait(ctx, ask, strings.TrimSpace(args.JobID), clamp(args.WaitSeconds))
	if err != nil {
		return nil, err
	}
	// Whether an outcome waits to be written matters only while the record says
	// that the job goes on.
	return job.StatusView(!job.Status.Final() && f.store.Delayed(job.ID)), nil
}

// clamp reads waitSeconds, of which the schema has said that it is an integer.
func clamp(n json.Number) time.Duration {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && f == 0 {
		return 0
	}
	return time.Duration(min(max(f, 0), MaxWait)) * time.Second
}

// wait answers at once when the job is final, early when its status changes,
// else with the present state when d is over.
func (f *Family) wait(ctx context.Context, ask native.Ask, id string, d time.Duration) (broker.Job, error) {
	who := ask.Call.Principal
	job, err := f.find(who, id)
	if err != nil || d <= 0 || job.Status.Final() || f.opts.After == nil {
		return job, err
	}
	over, giveUp := f.opts.After(d)
	defer giveUp()
	first := job.Status
	for range maxWakes {
		// Watch before looking: a change between the two is not missed.
		changed, stop := f.store.Watch(job.ID)
		now, err := f.find(who, job.ID)
		if err != nil || now.Status.Final() || now.Status != first {
			stop()
			return now, err
		}
		job = now
		select {
		case <-changed:
			stop()
		case <-over:
			stop()
			return f.find(who, job.ID)
		case <-ctx.Done():
			stop()
			return broker.Job{}, ctx.Err()
		case <-ask.Done:
			stop()
			return broker.Job{}, native.ErrStopped
		}
	}
	return job, nil
}

// find reads a job that the principal may see.
func (f *Family) find(who broker.Principal, id string) (broker.Job, error) {
	job, err := f.store.Job(id)
	switch {
	case errors.Is(err, broker.ErrJobNotFound):
		return broker.Job{}, f.notFound(who, id)
	case err != nil:
		return broker.Job{}, broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", map[string]any{"JobId": cut(id)})
	case who.Role != broker.GlobalAdministrator && !who.Owns(job.Tenant, job.User):
		return broker.Job{}, f.notFound(who, id)
	}
	return job, nil
}

// unfinished is a line of job_not_found.
type unfinished struct {
	JobID          string           `json:"JobId"`
	Operation      string           `json:"Operation"`
	Status         broker.JobStatus `json:"Status"`
	SubmittedAtUTC string           `json:"SubmittedAtUtc"`
}

// notFound names the caller's own unfinished jobs, newest first: an agent that
// lost or mangled an id can find it again.
func (f *Family) notFound(who broker.Principal, id string) *broker.Refusal {
	lines, total := []unfinished{}, 0
	if who.Tenant != "" && who.User != "" { // an empty field would select everybody's
		page, err := f.store.Jobs(broker.JobFilter{Tenant: who.Tenant, User: who.User, Unfinished: true, Limit: maxUnfinished})
		if err != nil {
			return broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again.", map[string]any{"JobId": cut(id)})
		}
		total = page.Total
		for _, j := range page.Jobs[:min(len(page.Jobs), maxUnfinished)] {
			lines = append(lines, unfinished{j.ID, j.Operation, j.Status, broker.FormatTime(j.SubmittedAt)})
		}
	}
	return broker.Refuse(broker.CodeJobNotFound, "There is no job with this id: it never existed, or it ended more than 14 days ago.",
		map[string]any{"JobId": cut(id), "UnfinishedJobs": lines, "UnfinishedTotal": total})
}

// maxEcho is how much of an id that names nothing is repeated, in bytes.
const maxEcho = 64

func cut(id string) string {
	if len(id) <= maxEcho {
		return id
	}
	n := maxEcho
	for n > 0 && !utf8.RuneStart(id[n]) {
		n--
	}
	return id[:n] + "..."
}
