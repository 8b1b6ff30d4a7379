package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// This file is where a surface (catalog.Surface) has its answers its own way:
// every refusal of a call, the broker's included, is a result in its form, and
// no call is answered with the handle of a job.

// metaJob is the key of `_meta` with the job that stands beside an answer.
const metaJob = "berth/job"

// jobFacts is `_meta["berth/job"]`.
type jobFacts struct {
	ID        string `json:"id"`
	RuntimeID string `json:"runtime_id"`
}

// verbNamed is the verb that a call names, or nil.
func verbNamed(profile *catalog.Profile, tc toolCall) *catalog.Verb {
	verb, _ := profile.Resolve(tc.name)
	return verb
}

// malformed refuses a call whose params cannot be read, as its surface does. A
// read-only one says so first: it looks at no arguments.
func (s *Server) malformed(rq *request, profile *catalog.Profile, tc toolCall, problem string) []byte {
	c, refusal := s.check(rq, profile, toolCall{name: tc.name})
	if refusal == nil || (refusal.Code != broker.CodeReadOnly && refusal.Code != broker.CodeVerbUnknown) {
		refusal = broker.Refuse(broker.CodeInvalidArguments, "The call is malformed: "+problem+"; nothing was sent.", nil)
	}
	return s.refusedCall(rq, c, refusal)
}

// answerWait is how long the answer of a call with an idempotency key is waited
// for. It is longer than a surface lets its calls run.
const answerWait = 2 * time.Minute

// awaitAnswer gives the answer of a call that was accepted as a job because of
// its idempotency key: a surface knows no handles. The record has the answer,
// so that a repeat of the call, in another life of the broker too, gets the
// same one.
func (s *Server) awaitAnswer(ctx context.Context, call *broker.Call, accepted actors.Reply) actors.Reply {
	id := accepted.Job.ID
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	changed, unwatch := s.opts.Broker.Watch(id)
	defer unwatch()
	for {
		job, err := s.opts.Broker.Job(id)
		switch {
		case errors.Is(err, broker.ErrJobNotFound):
			return actors.Reply{Refusal: broker.Refuse(broker.CodeJobNotFound, "The job of this idempotency key is gone.", nil)}
		case err != nil:
			s.opts.Logger.Error("the answer of a job could not be read", slog.String("job", id), slog.String("verb", call.Verb), slog.Any("error", err))
			return actors.Reply{Refusal: broker.Refuse(broker.CodeJobJournal, "The journal could not be read; ask again with the same key.", nil).Retry(time.Second)}
		}
		if reply, ok := answerOf(job); ok {
			return reply
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return actors.Reply{Refusal: broker.Refuse(broker.CodeOutcomeUnknown, "The call goes on, and its answer did not come in time. Ask again with the same idempotency key.",
				map[string]any{"job_id": id})}
		}
	}
}

// answerOf gives what the caller of a job's call was, or would have been,
// answered; ok is false while that is not known.
func answerOf(job broker.Job) (reply actors.Reply, ok bool) {
	answer := func(result json.RawMessage) *broker.Answer {
		return &broker.Answer{Result: result, RuntimeID: job.RuntimeID}
	}
	switch {
	case job.Tracking != nil && len(job.Tracking.Answer) > 0:
		return actors.Reply{Answer: answer(job.Tracking.Answer), Tracked: &job}, true
	case !job.Status.Final():
		return actors.Reply{}, false
	case len(job.Result) > 0:
		return actors.Reply{Answer: answer(job.Result)}, true
	}
	refusal := broker.Refuse(job.Reason, job.FailureMessage, map[string]any{"job_id": job.ID})
	var written struct {
		Message string         `json:"message"`
		Detail  map[string]any `json:"detail"`
	}
	if json.Unmarshal(job.Refusal, &written) == nil && written.Message != "" {
		refusal.Message = written.Message
		for name, value := range written.Detail {
			refusal.Detail[name] = value
		}
	}
	if job.Status == broker.JobLost {
		refusal.Detail["outcome_unknown"] = true
	}
	return actors.Reply{Refusal: refusal}, true
}
