package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"berth/broker/native/upkeep"
	"berth/transport/statedir"
)

// maxStopWait is how long --wait waits for the broker to be gone.
const maxStopWait = 2 * time.Minute

func newStopCommand(a *app) *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the broker",
		Long: "Have the broker go down: calls that run have drain_timeout (10 s) to end, and jobs that are unfinished then\n" +
			"become Lost at the next start; agents are ended. What is unfinished now is listed.",
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runStop(cmd.Context(), wait) }),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the broker is gone, after 2 minutes at most")
	return cmd
}

func (a *app) runStop(ctx context.Context, wait bool) error {
	answer, err := a.post(ctx, "/api/v1/server/stop", struct{}{})
	if err != nil {
		return err
	}
	if wait {
		if err := a.awaitStopped(ctx); err != nil {
			return err
		}
	}
	return show(a, answer, func(s upkeep.Stopping) error {
		line := "The broker is stopping."
		if wait {
			line = "The broker has stopped."
		}
		switch jobs, missions := len(s.UnfinishedJobs), len(s.WorkingMissions); {
		case s.UnfinishedJobs == nil || s.WorkingMissions == nil:
			line += " Not all that was unfinished when it was told to could be read."
		case jobs > 0 || missions > 0:
			line += fmt.Sprintf(" When it was told to, unfinished jobs: %d, missions at work: %d.", jobs, missions)
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
		return a.unfinished(s.UnfinishedJobs, s.WorkingMissions)
	})
}

// awaitStopped waits until nobody holds the state directory.
func (a *app) awaitStopped(ctx context.Context) error {
	root, err := a.stateDir()
	if err != nil {
		return err
	}
	dir, err := statedir.Open(root)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxStopWait)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		lock, err := dir.Lock()
		if err == nil {
			return lock.Release()
		}
		if !errors.As(err, new(*statedir.RunningError)) {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return &failure{exit: exitNotYet, code: codeNotYet, message: "The broker was told to stop and still runs."}
		}
	}
}
