package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"berth/broker/drain"
)

// backendChange is one of the changes of a backend.
type backendChange struct {
	name, short, long string
	wait              time.Duration
	waitFor           string // what --wait waits for; empty: there is no such flag
}

var (
	drainChange = backendChange{"drain", "Have a backend refuse new calls",
		"Have a backend refuse new calls (backend_draining) until it is resumed, also over a restart of the broker.\n" +
			"What waits or runs goes on, and so do polls of work that is followed there.", 0, "wait until nothing runs or waits there; at most 50s"}
	resumeChange = backendChange{"resume", "Let a drained backend take calls again",
		"Let a drained backend take calls again.", 0, ""}
	restartChange = backendChange{"restart", "End a backend's present life and begin another",
		"End a backend's present life and begin another: a child process is ended with its descendants, a connection is\n" +
			"closed. New calls are refused meanwhile. What still runs after --wait is ended and answered as such: a call\n" +
			"that may write as outcome_unknown. Berth itself is not restarted.", 10 * time.Second, "how long calls may run on; at most 50s"}
)

func newBackendsChangeCommand(a *app, c backendChange) *cobra.Command {
	reason, wait := "", c.wait
	cmd := &cobra.Command{
		Use: c.name + " NAME", Short: c.short, Long: c.long, Args: exactly("NAME"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			return a.runBackendsChange(cmd, c, args[0], reason, wait)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the event and shown to whoever is refused")
	if c.waitFor != "" {
		cmd.Flags().DurationVar(&wait, "wait", c.wait, c.waitFor)
	}
	return cmd
}

func (a *app) runBackendsChange(cmd *cobra.Command, c backendChange, name, reason string, wait time.Duration) error {
	if wait < 0 || wait > maxBackendWait {
		return usage("--wait must be 0s to 50s.")
	}
	path := "/api/v1/backends/" + url.PathEscape(name) + "/" + c.name
	if c.waitFor != "" {
		path += "?waitSeconds=" + count(int(wait.Round(time.Second)/time.Second))
	}
	working := a.waitingFor("Waiting for " + name)
	answer, err := a.post(cmd.Context(), path, struct{ Reason string }{reason})
	working.end()
	if err != nil {
		return err
	}
	return show(a, answer, func(d drain.Drained) error {
		rows := [][2]string{{"Backend", d.Name}, {"Status", d.Status}, {"Running or waiting", count(d.Left)}, {"Unfinished jobs", count(len(d.UnfinishedJobs))}}
		if d.Ended != nil {
			rows = append(rows, [2]string{"Ended while running", count(*d.Ended)})
		}
		if d.Draining != nil && d.Status == "restarted" {
			rows = append(rows, [2]string{"Note", "it is still drained; see berth backends resume"})
		}
		return a.facts(rows)
	})
}

// maxBackendWait is the longest wait of one request.
const maxBackendWait = 50 * time.Second
