package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/policy/proof"
	"berth/transport/httpguard"
)

// maxWait is the longest waitSeconds (contracts/native.md section 2).
const maxWait = 50

// maxReason is the longest reason of a cancel, in characters.
const maxReason = 500

// maxPageSize bounds a page; a list without paging is whole.
const maxPageSize = 1000

var jobStatuses = []broker.JobStatus{broker.JobAccepted, broker.JobRunning, broker.JobSucceeded, broker.JobFailed, broker.JobLost}

func (a *api) jobs(r *http.Request) (any, error) {
	filter, err := jobFilter(r)
	if err != nil {
		return nil, err
	}
	filter.KeptAt = a.Now()
	found, err := a.Jobs.Jobs(filter)
	if err != nil {
		return nil, a.unread(err)
	}
	out := JobPage{Page: page([]json.RawMessage{}), UnreadableJournalRecords: found.Unreadable}
	out.TotalRecords = found.Total
	for _, job := range found.Jobs {
		job.Result = nil
		out.Objects = append(out.Objects, job.Handle(false))
	}
	return out, nil
}

func jobFilter(r *http.Request) (broker.JobFilter, error) {
	query := r.URL.Query()
	filter := broker.JobFilter{Operation: query.Get("operation")}
	if word := query.Get("status"); word != "" {
		for _, s := range jobStatuses {
			if strings.EqualFold(word, string(s)) {
				filter.Status = s
			}
		}
		if filter.Status == "" {
			return filter, badRequest(broker.CodeInvalidStatus, "There is no such job status.",
				map[string]any{"Statuses": jobStatuses})
		}
	}
	if !query.Has("pageNumber") && !query.Has("pageSize") {
		return filter, nil
	}
	size, err := number(r, "pageSize", 100, 1, maxPageSize)
	if err != nil {
		return filter, err
	}
	at, err := number(r, "pageNumber", 1, 1, 1<<30)
	if err != nil {
		return filter, err
	}
	filter.Limit, filter.Offset = size, (at-1)*size
	return filter, nil
}

func (a *api) job(r *http.Request) (any, error) {
	seconds, err := number(r, "waitSeconds", 0, 0, maxWait)
	if err != nil {
		return nil, err
	}
	job, err := a.awaitJob(r, r.PathValue("id"), time.Duration(seconds)*time.Second)
	if over := a.Guard.Over(r.Context()); over != nil {
		return nil, over
	}
	if err != nil {
		return nil, a.unread(err)
	}
	caller, _ := httpguard.Principal(r.Context())
	return a.released(caller, job, false), nil
}

// released is a job's record for a caller, whom its result may show something.
func (a *api) released(caller broker.Principal, job broker.Job, replayed bool) json.RawMessage {
	if a.Proofs != nil && job.Status.Final() && len(job.Result) > 0 {
		a.Proofs.Released(proof.Caller{Principal: caller}, job.ID).Grant() // nothing is cut here
	}
	return job.Handle(replayed)
}

// unread refuses what a journal did not give, unless the answer was one.
func (a *api) unread(err error) error {
	var refusal *broker.Refusal
	if errors.Is(err, broker.ErrJobNotFound) || errors.Is(err, broker.ErrJournalBusy) || errors.As(err, &refusal) {
		return err
	}
	return native.Unreadable(a.Log, err)
}

// maxWakes bounds the reads of one wait: a watch that signals without a change
// of status, over and over, must not become a loop.
const maxWakes = 1000

// awaitJob answers at once when the job is final, at the first change of its
// status, else with its present state when the time is over.
func (a *api) awaitJob(r *http.Request, id string, wait time.Duration) (broker.Job, error) {
	first, err := a.Jobs.Job(id)
	if err != nil || first.Status.Final() || wait <= 0 {
		return first, err
	}
	free, refusal := a.wait()
	if refusal != nil {
		return broker.Job{}, refusal
	}
	defer free()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for range maxWakes {
		// The watch begins before the read, so no change falls between them.
		changed, stop := a.Jobs.Watch(id)
		job, err := a.Jobs.Job(id)
		if err != nil || job.Status != first.Status {
			stop()
			return job, err
		}
		select {
		case <-changed:
			stop()
		case <-timer.C:
			stop()
			return a.Jobs.Job(id)
		case <-r.Context().Done(): // the caller left, or his credential ended
			stop()
			return job, nil
		}
	}
	return a.Jobs.Job(id)
}

func (a *api) cancelJob(r *http.Request) (any, error) {
	var body struct{ Reason string }
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if strings.TrimSpace(body.Reason) == "" {
		return nil, badRequest(broker.CodeMissingReason, "Say in Reason why the job is cancelled; it is kept with the job.",
			map[string]any{"JobId": id})
	}
	caller, _ := httpguard.Principal(r.Context())
	if utf8.RuneCountInString(body.Reason) > maxReason {
		return nil, badRequest(broker.CodeInvalidArguments, fmt.Sprintf("A Reason has at most %d characters; nothing was cancelled.", maxReason),
			map[string]any{"Name": "Reason", "LimitCharacters": maxReason})
	}
	job, err := a.Jobs.CancelJob(r.Context(), id, body.Reason, caller)
	if err != nil {
		return nil, err
	}
	return job.Handle(false), nil
}
