package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newBackendsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "Show every backend: state, runtime id, queue and counters",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runBackends(cmd) }),
	}
	cmd.AddCommand(newBackendsAcceptCommand(a), newBackendsChangeCommand(a, drainChange), newBackendsChangeCommand(a, resumeChange), newBackendsChangeCommand(a, restartChange))
	return cmd
}

func (a *app) runBackends(cmd *cobra.Command) error {
	answer, err := a.get(cmd.Context(), "/api/v1/backends", nil)
	if err != nil {
		return err
	}
	return show(a, answer, func(list rest.Page[rest.Backend]) error {
		rows := make([][]string, 0, len(list.Objects))
		for _, b := range list.Objects {
			pid := ""
			if b.PID != nil {
				pid = count(*b.PID)
			}
			rows = append(rows, []string{b.Name, b.Kind, backendState(b, time.Now()), orDash(b.RuntimeID), pid,
				countOrUnknown(b.Tools), count(b.InFlight) + "/" + count(b.Seats), count(b.QueuedCalls + b.QueuedJobs),
				count(b.Answered), count(b.Failed), count(b.Shed), backendNote(b)})
		}
		return a.table([]string{"NAME", "KIND", "STATE", "RUNTIME ID", "PID", "TOOLS", "RUNNING", "QUEUED", "ANSWERED", "FAILED", "SHED", "NOTE"}, rows)
	})
}

func backendState(b rest.Backend, now time.Time) string {
	state := string(b.State)
	if b.Draining != nil {
		state += ", drained"
	}
	if b.BackoffUntilUTC != nil {
		if until, err := time.Parse(time.RFC3339, *b.BackoffUntilUTC); err == nil && until.After(now) {
			return state + " for " + age(until.Sub(now))
		}
	}
	return state
}

// backendNote is what an operator should read about a backend: its last error
// while it is not ready, and its flags.
func backendNote(b rest.Backend) string {
	var notes []string
	if d := b.Draining; d != nil {
		note := "draining since " + d.SinceUTC + " (" + d.By + ")"
		if d.Reason != nil {
			note += ": " + *d.Reason
		}
		notes = append(notes, note)
	}
	if b.LastError != nil && b.State != "ready" {
		notes = append(notes, *b.LastError)
	}
	return short(strings.Join(append(notes, b.Flags...), "; "), 100)
}
