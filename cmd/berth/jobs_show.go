package main

import (
	"github.com/spf13/cobra"
)

func newJobsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show JOB",
		Short: "Show one job with its result",
		Long:  "Show one job with its result. Showing a job that failed is a success; see wait for its outcome as exit code.",
		Args:  exactly("JOB"),
		RunE:  a.runE(func(cmd *cobra.Command, args []string) error { return a.runJobsShow(cmd, args[0]) }),
	}
}

func (a *app) runJobsShow(cmd *cobra.Command, id string) error {
	answer, err := a.job(cmd.Context(), id, 0)
	if err != nil {
		return err
	}
	return a.printJob(answer)
}
