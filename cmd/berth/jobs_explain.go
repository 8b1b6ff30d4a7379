package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/journal"
)

func newJobsExplainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain JOB",
		Short: "Tell in sentences what happened to a job",
		Long: "Tell when a job was accepted, how long it waited, on which incarnation it ran, why it ended and\n" +
			"what to do next, from its record and the event of its end. What they do not say is called unknown.\n" +
			"Without a running broker the journal's file is read.",
		Args: exactly("JOB"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error { return a.runJobsExplain(cmd.Context(), args[0]) }),
	}
}

func (a *app) runJobsExplain(ctx context.Context, id string) error {
	answer, err := a.get(ctx, "/api/v1/jobs/"+url.PathEscape(id)+"/explain", nil)
	var f *failure
	if errors.As(err, &f) && f.exit == exitNoBroker {
		err = a.withJournal(func(j *journal.Journal) error {
			told, err := explainJob(j, id, false)
			if errors.Is(err, broker.ErrJobNotFound) {
				return broker.Refuse(broker.CodeJobNotFound, "Job not found", map[string]any{"JobId": id})
			}
			if err != nil {
				return err
			}
			answer, err = json.Marshal(told)
			return err
		})
	}
	if err != nil {
		return err
	}
	return show(a, answer, func(e explanation) error {
		for _, line := range append(e.Explanation, "Next: "+e.Next) {
			if _, err := fmt.Fprintln(a.out, plain(line)); err != nil {
				return fmt.Errorf("print the answer: %w", err)
			}
		}
		return nil
	})
}
