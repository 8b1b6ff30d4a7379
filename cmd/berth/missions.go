package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newMissionsCommand(a *app) *cobra.Command {
	return newGroup(a, "missions", "List and show missions, follow their logs, cancel and restart them",
		newMissionsListCommand, newMissionsShowCommand, newMissionsLogsCommand, newMissionsDiffCommand, newMissionsOutputCommand,
		newMissionsCancelCommand, newMissionsRestartCommand, newMissionsLandCommand)
}

func missionPath(id, rest string) string { return "/api/v1/missions/" + url.PathEscape(id) + rest }

func newMissionsListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List missions, newest first",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.list(cmd, "/api/v1/missions", o)
			if err != nil {
				return err
			}
			return show(a, answer, func(list rest.Page[rest.Mission]) error {
				now, rows := time.Now(), make([][]string, 0, len(list.Objects))
				for _, m := range list.Objects {
					rows = append(rows, []string{m.ID, missionState(m), orDash(m.VoyageID), orDash(m.CaptainID), since(m.CreatedUTC, now), short(m.Title, 80)})
				}
				err := a.table([]string{"MISSION", "STATUS", "VOYAGE", "CAPTAIN", "AGE", "TITLE"}, rows)
				a.more(list.TotalRecords, len(rows), "missions")
				return err
			})
		}),
	}
	listFlags(cmd, &o, [3]string{"status", "status", "only this status, such as Pending, InProgress, Complete or Failed"}, [3]string{"voyageId", "voyage", "only of this voyage, by id"},
		[3]string{"vesselId", "vessel", "only of this vessel, by id"}, [3]string{"captainId", "captain", "only of this captain, by id"})
	return cmd
}

func newMissionsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show MISSION",
		Short: "Show one mission",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.get(cmd.Context(), missionPath(args[0], ""), nil)
			if err != nil {
				return err
			}
			return show(a, answer, a.showMission)
		}),
	}
}

func (a *app) showMission(m rest.Mission) error {
	mode, priority := string(m.Mode), countOrUnknown(m.Priority)
	return a.facts(given([][2]string{{"Mission", m.ID}, {"Title", m.Title}, {"Status", missionState(m)}, {"Vessel", m.VesselID}}, []fact{
		{"Mode", &mode}, {"Priority", &priority}, {"Voyage", m.VoyageID}, {"Alias", m.Alias}, {"After", m.DependsOn}, {"Captain", m.CaptainID}, {"Dock", m.DockID},
		{"Start", m.StartCommit}, {"Branch", m.Branch}, {"Commit", m.Commit}, {"Why", m.FailureMessage},
		{"Created", m.CreatedUTC}, {"Assigned", m.AssignedUTC}, {"Started", m.StartedUTC}, {"Completed", m.CompletedUTC}}))
}

func newMissionsDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "diff MISSION",
		Short: "Print what a mission changed",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.get(cmd.Context(), missionPath(args[0], "/diff"), nil)
			if err != nil {
				return err
			}
			return show(a, answer, func(d rest.Diff) error { return a.printText(d.Diff) })
		}),
	}
}

// printText prints a text of somebody else's, which must not drive a terminal.
func (a *app) printText(text string) error {
	if a.outTerminal {
		text = plainText(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := fmt.Fprint(a.out, text); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// maxOutputPage is how much of an output one request may ask for, in characters.
const maxOutputPage = 64000

func newMissionsOutputCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "output MISSION",
		Short: "Print the final message of a mission's agent",
		Long:  "Print the final message of a mission's agent, whole. With --json it is the first part of it, as the operator API gave it.",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			var whole strings.Builder
			for offset := 0; ; {
				answer, err := a.get(cmd.Context(), missionPath(args[0], "/output"), url.Values{"offset": {strconv.Itoa(offset)}, "length": {strconv.Itoa(maxOutputPage)}})
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(answer)
				}
				var part rest.Output
				if err := json.Unmarshal(answer, &part); err != nil {
					return fmt.Errorf("read the broker's answer: %w", err)
				}
				whole.WriteString(part.Content)
				if part.HasMore && part.NextOffset != nil && *part.NextOffset > offset {
					offset = *part.NextOffset
					continue
				}
				if !part.Finalized {
					fmt.Fprintln(a.err, "It is not final: the mission goes on.")
				}
				return a.printText(whole.String())
			}
		}),
	}
}

func newMissionsCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel MISSION",
		Short: "Cancel a mission: end its agent, keep its record",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			wait := a.waitingFor("Cancelling mission " + args[0])
			answer, err := a.delete(cmd.Context(), missionPath(args[0], ""))
			wait.end()
			if err != nil {
				return err
			}
			return show(a, answer, a.showMission)
		}),
	}
}

func newMissionsRestartCommand(a *app) *cobra.Command {
	var again struct {
		Title       string `json:",omitempty"`
		Description string `json:",omitempty"`
	}
	cmd := &cobra.Command{
		Use:   "restart MISSION",
		Short: "Have a mission that failed or was cancelled run again",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.post(cmd.Context(), missionPath(args[0], "/restart"), again)
			if err != nil {
				return err
			}
			return show(a, answer, a.showMission)
		}),
	}
	cmd.Flags().StringVar(&again.Title, "title", "", "another title")
	cmd.Flags().StringVar(&again.Description, "description", "", "another description")
	return cmd
}

func newMissionsLandCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "retry-landing MISSION",
		Short: "Land a mission whose landing failed",
		Args:  exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			wait := a.waitingFor("Landing mission " + args[0])
			answer, err := a.post(cmd.Context(), missionPath(args[0], "/retry-landing"), nil)
			wait.end()
			if err != nil {
				return err
			}
			return show(a, answer, func(l rest.Landed) error { return a.showMission(l.Mission) })
		}),
	}
}
