package main

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func newJobsCancelCommand(a *app) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "cancel JOB --reason TEXT",
		Short: "End an unfinished job",
		Args:  exactly("JOB"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage("Say why with --reason; it is kept with the job.")
			}
			return a.runJobsCancel(cmd, args[0], reason)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept with the job (required)")
	return cmd
}

func (a *app) runJobsCancel(cmd *cobra.Command, id, reason string) error {
	wait := a.waitingFor("Cancelling job " + id)
	answer, err := a.post(cmd.Context(), "/api/v1/jobs/"+url.PathEscape(id)+"/cancel", struct{ Reason string }{reason})
	wait.end()
	if err != nil {
		return err
	}
	return a.printJob(answer)
}
