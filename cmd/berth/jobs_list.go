package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

type jobsListOptions struct {
	status, operation string
	page, pageSize    int
}

func newJobsListCommand(a *app) *cobra.Command {
	var o jobsListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runJobsList(cmd, o) }),
	}
	cmd.Flags().StringVar(&o.status, "status", "", "only Accepted, Running, Succeeded, Failed or Lost")
	cmd.Flags().StringVar(&o.operation, "operation", "", "only this verb's, by canonical name")
	cmd.Flags().IntVar(&o.page, "page", 1, "which page, from 1")
	cmd.Flags().IntVar(&o.pageSize, "page-size", 50, "jobs on a page, at most 1000")
	return cmd
}

func (a *app) runJobsList(cmd *cobra.Command, o jobsListOptions) error {
	query := url.Values{"pageNumber": {strconv.Itoa(o.page)}, "pageSize": {strconv.Itoa(o.pageSize)}}
	if o.status != "" {
		query.Set("status", o.status)
	}
	if o.operation != "" {
		query.Set("operation", o.operation)
	}
	answer, err := a.get(cmd.Context(), "/api/v1/jobs", query)
	if err != nil {
		return err
	}
	return show(a, answer, func(list rest.JobPage) error {
		now := time.Now()
		rows := make([][]string, 0, len(list.Objects))
		for _, object := range list.Objects {
			var j rest.Job
			if err := json.Unmarshal(object, &j); err != nil {
				return fmt.Errorf("read a job: %w", err)
			}
			reason := ""
			if j.Reason != nil {
				reason = *j.Reason
			}
			rows = append(rows, []string{j.JobID, j.Operation, string(j.Status), since(&j.SubmittedAtUTC, now), reason})
		}
		if err := a.table([]string{"JOB", "OPERATION", "STATUS", "AGE", "REASON"}, rows); err != nil {
			return err
		}
		if list.TotalRecords > len(rows) {
			fmt.Fprintf(a.err, "%d of %d jobs; see --page.\n", len(rows), list.TotalRecords)
		}
		if list.UnreadableJournalRecords > 0 {
			fmt.Fprintf(a.err, "%d records of the journal could not be read; see: berth journal check\n", list.UnreadableJournalRecords)
		}
		return nil
	})
}
