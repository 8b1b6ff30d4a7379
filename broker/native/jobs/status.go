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
	"berth/broker/shape"
)

// maxUnfinished is how many of the caller's own unfinished jobs a
// job_not_found names.
const maxUnfinished = 20

// maxWakes bounds how often one wait looks at the job again, should a store
// announce changes that are none.
const maxWakes = 1000

// status is the verb: arguments, then the job as it is or as it becomes.
func (c *conn) status(ctx context.Context, who broker.Principal, raw json.RawMessage) (broker.Answer, error) {
	s, err := inputSchema()
	if err != nil {
		return refused(broker.AsRefusal(err)), nil
	}
	raw = s.Normalise(raw)
	if refusal := s.NativeRefusal(raw); refusal != nil {
		return refused(refusal), nil
	}
	var args struct {
		JobID       string      `json:"jobId"`
		WaitSeconds json.Number `json:"waitSeconds"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return refused(broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.", nil)), nil
	}
	id := strings.TrimSpace(args.JobID)
	job, refusal := c.family.find(who, id)
	if refusal == nil {
		job, refusal, err = c.wait(ctx, who, job, clamp(args.WaitSeconds))
	}
	switch {
	case err != nil:
		return broker.Answer{}, err
	case refusal != nil:
		return refused(refusal), nil
	}
	// Whether an outcome waits to be written matters only while the record says
	// that the job goes on.
	delayed := !job.Status.Final() && c.family.store.Delayed(job.ID)
	answer := broker.Answer{Result: shape.Structured(job.StatusView(delayed), false)}
	if job.Status.Final() && len(job.Result) > 0 {
		answer.Releases = job.ID
	}
	return answer, nil
}

func refused(r *broker.Refusal) broker.Answer {
	return broker.Answer{Result: shape.Structured(r.NativeJSON(), true)}
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
func (c *conn) wait(ctx context.Context, who broker.Principal, job broker.Job, d time.Duration) (broker.Job, *broker.Refusal, error) {
	if d <= 0 || job.Status.Final() || c.family.opts.After == nil {
		return job, nil, nil
	}
	over, giveUp := c.family.opts.After(d)
	defer giveUp()
	first := job.Status
	for range maxWakes {
		// Watch before looking: a change between the two is not missed.
		changed, stop := c.family.store.Watch(job.ID)
		now, refusal := c.family.find(who, job.ID)
		if refusal != nil || now.Status.Final() || now.Status != first {
			stop()
			return now, refusal, nil
		}
		job = now
		select {
		case <-changed:
			stop()
		case <-over:
			stop()
			job, refusal = c.family.find(who, job.ID)
			return job, refusal, nil
		case <-ctx.Done():
			stop()
			return broker.Job{}, nil, &broker.Failure{Dispatched: true, Cause: "the wait for the job ended with its call"}
		case <-c.done:
			stop()
			return broker.Job{}, nil, &broker.Failure{Dispatched: true, Gone: true, Cause: "the native verbs were stopped"}
		}
	}
	return job, nil, nil
}

// find reads a job that the principal may see.
func (f *Family) find(who broker.Principal, id string) (broker.Job, *broker.Refusal) {
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
