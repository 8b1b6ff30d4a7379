package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/journal"
)

func newJournalDumpCommand(a *app) *cobra.Command {
	results := false
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print every record and event of the journal as lines of JSON",
		Long: "Print the jobs, newest first, and then the events, oldest first, as one line of JSON each;\n" +
			"the last line has Kind \"end\" and the counts: without it the dump is not whole. Idempotency keys,\n" +
			"sessions and what a backend gave for following its work are left out; so are results, unless asked for.",
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runJournalDump(cmd.Context(), results) }),
	}
	cmd.Flags().BoolVar(&results, "results", false, "with the results of the jobs")
	return cmd
}

func (a *app) runJournalDump(ctx context.Context, results bool) error {
	query := url.Values{}
	if results {
		query.Set("results", "true")
	}
	ran, err := a.download(ctx, "/api/v1/journal/dump", query, a.out)
	if ran || err != nil {
		return err
	}
	return a.withJournal(func(j *journal.Journal) error { return dumpJournal(ctx, j, a.out, results) })
}

// jobLine is a record in a dump: named fields, so that one that is added to the
// record is not shown before somebody decided it.
type jobLine struct {
	Kind           string
	JobID          string `json:"JobId"`
	Operation      string
	Status         broker.JobStatus
	Tenant, User   string
	Backend        string
	RuntimeID      *string `json:"RuntimeId"`
	Promoted       bool
	SubmittedUTC   string  `json:"SubmittedAtUtc"`
	StartedUTC     *string `json:"StartedAtUtc"`
	CompletedUTC   *string `json:"CompletedAtUtc"`
	Reason         *string
	FailureMessage *string
	Refusal        json.RawMessage
	ObjectiveID    *string `json:"ObjectiveId"`
	VesselID       *string `json:"VesselId"`
	TrackedAs      *string
	ResultBytes    int64
	ResultIsError  bool
	Result         json.RawMessage `json:",omitempty"`
}

type eventLine struct {
	Kind string
	broker.Event
}

// dumpEnd is the last line of a dump.
type dumpEnd struct {
	Kind           string
	SchemaVersion  int
	Jobs           int
	UnreadableJobs int
	Events         int
}

func dumpJournal(ctx context.Context, j *journal.Journal, out io.Writer, results bool) error {
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	end := dumpEnd{Kind: "end", SchemaVersion: j.Schema()}
	var err error
	end.UnreadableJobs, err = j.Walk(broker.JobFilter{}, func(job broker.Job) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if results {
			whole, err := j.Job(job.ID)
			if err != nil {
				return err
			}
			job = whole
		}
		end.Jobs++
		return enc.Encode(lineOf(job))
	})
	if err != nil {
		return fmt.Errorf("dump the journal: %w", err)
	}
	for after := ""; ; {
		events, err := j.Events(after, 0)
		if err != nil {
			return fmt.Errorf("dump the journal: %w", err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if err := enc.Encode(eventLine{"event", e}); err != nil {
				return fmt.Errorf("dump the journal: %w", err)
			}
			end.Events++
			after = e.ID
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := enc.Encode(end); err != nil {
		return fmt.Errorf("dump the journal: %w", err)
	}
	return w.Flush()
}

func lineOf(j broker.Job) jobLine {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	line := jobLine{Kind: "job", JobID: j.ID, Operation: j.Operation, Status: j.Status, Tenant: j.Tenant, User: j.User,
		Backend: j.Backend, RuntimeID: text(j.RuntimeID), Promoted: j.Promoted, SubmittedUTC: broker.FormatTime(j.SubmittedAt),
		Reason: text(string(j.Reason)), FailureMessage: text(j.FailureMessage), Refusal: j.Refusal,
		ObjectiveID: text(j.ObjectiveID), VesselID: text(j.VesselID),
		ResultBytes: j.ResultBytes, ResultIsError: j.ResultIsError, Result: j.Result}
	if j.StartedAt != nil {
		line.StartedUTC = text(broker.FormatTime(*j.StartedAt))
	}
	if j.CompletedAt != nil {
		line.CompletedUTC = text(broker.FormatTime(*j.CompletedAt))
	}
	if j.Tracking != nil {
		line.TrackedAs = text(j.Tracking.Handle)
	}
	return line
}
