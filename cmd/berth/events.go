package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/broker/native/events"
	"berth/transport/rest"
)

type eventsOptions struct {
	eventType      string
	since          string
	follow         bool
	page, pageSize int
}

func newEventsCommand(a *app) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List what happened, and follow what happens",
		Long: `List the events of the journal, newest first. With --follow the latest are
printed oldest first, then each new one as it is written, until you interrupt
it or the broker has been gone for 30 s; --json prints each on a line of its own
then. A broker that was restarted is followed on from the last event. A line
event.gap says that more happened meanwhile than the broker gives again.`,
		Example: `  berth events --type job.lost --since 24h
  berth events --follow --json`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runEvents(cmd.Context(), o) }),
	}
	cmd.Flags().StringVar(&o.eventType, "type", "", "only events of this type, such as job.failed")
	cmd.Flags().StringVar(&o.since, "since", "", "only events since then: a duration such as 90m, or a time such as 2026-05-04T09:12:00Z")
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on with each event as it is written")
	cmd.Flags().IntVar(&o.page, "page", 1, "which page, from 1")
	cmd.Flags().IntVar(&o.pageSize, "page-size", 50, "events on a page, at most 1000")
	return cmd
}

func (a *app) runEvents(ctx context.Context, o eventsOptions) error {
	query := url.Values{"pageNumber": {strconv.Itoa(o.page)}, "pageSize": {strconv.Itoa(o.pageSize)}}
	if o.eventType != "" {
		query.Set("eventType", o.eventType)
	}
	if o.since != "" {
		since, err := sinceWhen(o.since, time.Now())
		if err != nil {
			return err
		}
		query.Set("createdAfter", since.UTC().Format(time.RFC3339Nano))
	}
	if o.follow && o.page != 1 {
		return usage("--follow goes on from the first page; leave --page out.")
	}
	answer, err := a.get(ctx, "/api/v1/events", query)
	if err != nil {
		return err
	}
	if o.follow {
		return a.followEvents(ctx, answer, o)
	}
	return show(a, answer, func(list events.Page) error {
		now := time.Now()
		rows := make([][]string, 0, len(list.Objects))
		for _, e := range list.Objects {
			rows = append(rows, []string{orDash(e.ID), since(e.CreatedUTC, now), e.EventType, orDash(e.EntityID), short(orDash(e.Message), 100)})
		}
		if err := a.table([]string{"EVENT", "AGE", "TYPE", "ENTITY", "MESSAGE"}, rows); err != nil {
			return err
		}
		if list.TotalRecords > len(rows) {
			fmt.Fprintf(a.err, "%d of %d events; see --page.\n", len(rows), list.TotalRecords)
		}
		return nil
	})
}

// sinceWhen reads a time, or how long ago it was.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usage("--since must be a duration such as 90m, or a time such as 2026-05-04T09:12:00Z.")
}

// followEvents prints the list, oldest first, and then the stream from where
// the list ended, so that nothing falls between the two and nothing is twice.
func (a *app) followEvents(ctx context.Context, answer json.RawMessage, o eventsOptions) error {
	var list events.Page
	if err := json.Unmarshal(answer, &list); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	for _, e := range slices.Backward(list.Objects) {
		if err := a.printEvent(e); err != nil {
			return err
		}
	}
	cursor, gone := list.Cursor, absence{patience: a.comeback}
	for {
		_, err := a.ask(func(c *rest.Client) (json.RawMessage, error) {
			return nil, c.Events(ctx, cursor, func(e rest.StreamEvent) error {
				cursor = e.Cursor
				if o.eventType != "" && e.Event.EventType != o.eventType && e.Event.EventType != broker.EventGap {
					return nil
				}
				return a.printEvent(e.Event)
			})
		})
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return &failure{exit: exitInterrupted, code: codeStopped, message: "Interrupted.", shown: true} // the lines are the answer
		case gone.ends(err, time.Now()):
			return err
		}
		// The broker ended the stream, because it goes down or because this
		// reader was too slow, or it is not there again yet.
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// printEvent prints one event on a line.
func (a *app) printEvent(e broker.EventView) error {
	if a.json {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("print an event: %w", err)
		}
		_, err = fmt.Fprintf(a.out, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(a.out, "%-24s  %-22s  %-24s  %s\n", plain(orDash(e.CreatedUTC)), plain(e.EventType), plain(orDash(e.EntityID)), plain(orDash(e.Message)))
	return err
}
