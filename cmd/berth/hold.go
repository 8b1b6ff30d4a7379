package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"berth/broker/native/hold"
)

// holdChange is the body of POST /api/v1/hold.
type holdChange struct {
	Action string
	Reason string `json:",omitempty"`
	SetBy  string `json:",omitempty"`
}

func newHoldCommand(a *app) *cobra.Command {
	cmd := newGroup(a, "hold", "Hold new work, for instance before an upgrade", newHoldStatusCommand, newHoldEngageCommand, newHoldClearCommand)
	cmd.Long = "Hold new work, for instance before an upgrade. Without a subcommand it shows the status.\n\n" +
		"The hold survives a restart; only `berth hold clear` ends it. Work that is under way goes on:\n" +
		"`berth hold` lists what is unfinished, jobs and missions that agents work on; when there is none, a restart loses nothing."
	cmd.Args = exactly()
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error { return a.runHoldStatus(cmd) })
	return cmd
}

func newHoldStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether work is held, and what is unfinished",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runHoldStatus(cmd) }),
	}
}

func newHoldEngageCommand(a *app) *cobra.Command {
	change := holdChange{Action: hold.Engage}
	cmd := &cobra.Command{
		Use:   "engage --reason TEXT",
		Short: "Refuse new work until the hold is cleared",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.changeHold(cmd.Context(), change)
			if err != nil {
				return err
			}
			return show(a, answer, a.showHold)
		}),
	}
	cmd.Flags().StringVar(&change.Reason, "reason", "", "why; shown to whoever is refused (required)")
	cmd.Flags().StringVar(&change.SetBy, "by", "", "who holds it (default: your login name)")
	return cmd
}

// changeHold has the broker change the hold, by the login name when nobody is
// named.
func (a *app) changeHold(ctx context.Context, change holdChange) (json.RawMessage, error) {
	if change.SetBy == "" {
		change.SetBy = loginName()
	}
	return a.post(ctx, "/api/v1/hold", change)
}

func newHoldClearCommand(a *app) *cobra.Command {
	change := holdChange{Action: hold.Clear}
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Let new work start again, whoever held it",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.changeHold(cmd.Context(), change)
			if err != nil {
				return err
			}
			return show(a, answer, func(c hold.Cleared) error {
				line := "No hold was active."
				if c.WasActive {
					line = "The hold is cleared."
				}
				_, err := fmt.Fprintln(a.out, line)
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&change.SetBy, "by", "", "who clears it (default: your login name)")
	return cmd
}

// loginName is who runs the command, as far as the system knows.
func loginName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (a *app) runHoldStatus(cmd *cobra.Command) error {
	answer, err := a.get(cmd.Context(), "/api/v1/hold", nil)
	if err != nil {
		return err
	}
	return show(a, answer, a.showHold)
}

func (a *app) showHold(s hold.Standing) error {
	state := [][2]string{{"Hold", "none"}}
	if h := s.Hold; h != nil {
		state = [][2]string{{"Hold", "active"}, {"Since", h.SetByUTC}, {"Set by", h.SetBy}, {"Reason", h.Reason}}
	}
	state = append(state, [2]string{"Unfinished jobs", count(len(s.UnfinishedJobs))}, [2]string{"Working missions", count(len(s.WorkingMissions))})
	if err := a.facts(state); err != nil {
		return err
	}
	return a.unfinished(s.UnfinishedJobs, s.WorkingMissions)
}

// unfinished lists what a restart would end, a table each for what there is.
func (a *app) unfinished(jobs []json.RawMessage, missions []string) error {
	if len(jobs) > 0 {
		if err := a.unfinishedJobs(jobs); err != nil {
			return err
		}
	}
	if len(missions) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(missions))
	for _, id := range missions {
		rows = append(rows, []string{id})
	}
	return a.table([]string{"MISSION"}, rows)
}

// unfinishedJobs lists jobs that are not final, as they came.
func (a *app) unfinishedJobs(jobs []json.RawMessage) error {
	rows := make([][]string, 0, len(jobs))
	for _, raw := range jobs {
		var j struct{ JobID, Operation, Status, SubmittedAtUTC string }
		if err := json.Unmarshal(raw, &j); err != nil {
			return fmt.Errorf("read a job: %w", err)
		}
		rows = append(rows, []string{j.JobID, j.Operation, j.Status, j.SubmittedAtUTC})
	}
	return a.table([]string{"JOB", "OPERATION", "STATUS", "SUBMITTED"}, rows)
}
