package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

// pollWait is how long one request for a job waits at the broker.
const pollWait = 30 * time.Second

func newJobsWaitCommand(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait JOB",
		Short: "Follow a job to its end and show it",
		Args:  exactly("JOB"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return usage("--timeout must not be negative.")
			}
			return a.runJobsWait(cmd.Context(), args[0], timeout)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0 waits for the job's end, which the broker bounds")
	return cmd
}

func (a *app) runJobsWait(ctx context.Context, id string, timeout time.Duration) error {
	wait := a.waitingFor("Waiting for job " + id)
	defer wait.end()
	answer, err := a.job(ctx, id, 0)
	if err != nil {
		return err
	}
	return a.followJob(ctx, answer, wait, timeout, a.printJob)
}

// followJob waits until the job of record is final, then prints it.
func (a *app) followJob(ctx context.Context, record json.RawMessage, wait *progress, timeout time.Duration, print func(json.RawMessage) error) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for {
		var j rest.Job
		if err := json.Unmarshal(record, &j); err != nil {
			return fmt.Errorf("read the job: %w", err)
		}
		if j.Status.Final() {
			wait.end()
			if err := print(record); err != nil {
				return err
			}
			return jobOutcome(j)
		}
		wait.now("Job " + j.JobID + " " + string(j.Status))
		next, err := a.job(ctx, j.JobID, pollWait)
		if err == nil {
			record = next
			continue
		}
		switch ended := ctx.Err(); {
		case errors.Is(ended, context.DeadlineExceeded):
			wait.end()
			return &failure{exit: exitNotYet, code: codeNotYet,
				message: "Job " + j.JobID + " is still " + string(j.Status) + " and goes on.", data: record}
		case errors.Is(ended, context.Canceled):
			wait.end()
			return &failure{exit: exitInterrupted, code: codeStopped,
				message: "Interrupted; job " + j.JobID + " goes on.", data: record}
		}
		return err
	}
}
