package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/broker/dispatch"
	"berth/transport/rest"
)

func newVoyagesCommand(a *app) *cobra.Command {
	return newGroup(a, "voyages", "Dispatch, list, show and cancel voyages",
		newVoyagesListCommand, newVoyagesShowCommand, newVoyagesDispatchCommand, newVoyagesCancelCommand)
}

// listOptions are the flags of the lists of dispatch.
type listOptions struct {
	filters        map[string]*string // of the API, by name
	page, pageSize int
}

// listFlags declares them; words are the API's name of a filter, its flag and
// what it says.
func listFlags(cmd *cobra.Command, o *listOptions, words ...[3]string) {
	o.filters = map[string]*string{}
	for _, w := range words {
		o.filters[w[0]] = cmd.Flags().String(w[1], "", w[2])
	}
	cmd.Flags().IntVar(&o.page, "page", 1, "which page, from 1")
	cmd.Flags().IntVar(&o.pageSize, "page-size", 50, "records on a page, at most 1000")
}

// list gets a page of records.
func (a *app) list(cmd *cobra.Command, path string, o listOptions) (json.RawMessage, error) {
	query := url.Values{"pageNumber": {strconv.Itoa(o.page)}, "pageSize": {strconv.Itoa(o.pageSize)}}
	for name, value := range o.filters {
		if *value != "" {
			query.Set(name, *value)
		}
	}
	return a.get(cmd.Context(), path, query)
}

// more says that there are other pages.
func (a *app) more(total, shown int, what string) {
	if total > shown {
		fmt.Fprintf(a.err, "%d of %d %s; see --page.\n", shown, total, what)
	}
}

func newVoyagesListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List voyages, newest first",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.list(cmd, "/api/v1/voyages", o)
			if err != nil {
				return err
			}
			return show(a, answer, func(list rest.Page[rest.Voyage]) error {
				now, rows := time.Now(), make([][]string, 0, len(list.Objects))
				for _, v := range list.Objects {
					rows = append(rows, []string{v.ID, string(v.Status), v.VesselID, since(v.CreatedUTC, now), short(v.Title, 80)})
				}
				err := a.table([]string{"VOYAGE", "STATUS", "VESSEL", "AGE", "TITLE"}, rows)
				a.more(list.TotalRecords, len(rows), "voyages")
				return err
			})
		}),
	}
	listFlags(cmd, &o, [3]string{"status", "status", "only Open, InProgress, Complete, Failed or Cancelled"},
		[3]string{"vesselId", "vessel", "only of this vessel, by id"}, [3]string{"jobId", "job", "only what this job dispatched"})
	return cmd
}

func newVoyagesShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show VOYAGE",
		Short: "Show a voyage and its missions",
		Args:  exactly("VOYAGE"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.get(cmd.Context(), "/api/v1/voyages/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return err
			}
			return show(a, answer, func(v rest.VoyageView) error {
				if err := a.facts(voyageFacts(v.Voyage)); err != nil {
					return err
				}
				fmt.Fprintln(a.out)
				return a.missionTable(v.Missions)
			})
		}),
	}
}

func voyageFacts(v rest.Voyage) [][2]string {
	return given([][2]string{{"Voyage", v.ID}, {"Title", v.Title}, {"Status", string(v.Status)}, {"Vessel", v.VesselID}}, []fact{
		{"Created", v.CreatedUTC}, {"Completed", v.CompletedUTC}, {"Reason", v.Reason}, {"Job", v.SourceJobID}})
}

// fact is a line of a record that it may lack.
type fact struct {
	name  string
	value *string
}

// given adds those that are there.
func given(rows [][2]string, facts []fact) [][2]string {
	for _, f := range facts {
		if f.value != nil && *f.value != "" {
			rows = append(rows, [2]string{f.name, *f.value})
		}
	}
	return rows
}

// missionTable shows the missions of a voyage.
func (a *app) missionTable(missions []rest.Mission) error {
	names := map[string]string{}
	for _, m := range missions {
		names[m.ID] = m.ID
		if m.Alias != nil {
			names[m.ID] = *m.Alias
		}
	}
	rows := make([][]string, 0, len(missions))
	for _, m := range missions {
		after := orDash(m.DependsOn)
		if name, here := names[after]; here {
			after = name
		}
		rows = append(rows, []string{m.ID, orDash(m.Alias), missionState(m), after, orDash(m.CaptainID), orDash(m.Branch), short(m.Title, 60)})
	}
	return a.table([]string{"MISSION", "ALIAS", "STATUS", "AFTER", "CAPTAIN", "BRANCH", "TITLE"}, rows)
}

// missionState is the status of a mission with what it waits for, or why it
// ended.
func missionState(m rest.Mission) string {
	switch {
	case m.FailureReason != nil:
		return string(m.Status) + " (" + *m.FailureReason + ")"
	case m.Status == dispatch.MissionPending && m.Assignment != "" && m.Assignment != dispatch.AssignmentPending:
		return string(m.Status) + " (" + string(m.Assignment) + ")"
	}
	return string(m.Status)
}

func newVoyagesCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel VOYAGE",
		Short: "Cancel a voyage: end its agents, keep its records",
		Args:  exactly("VOYAGE"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			wait := a.waitingFor("Cancelling voyage " + args[0])
			answer, err := a.delete(cmd.Context(), "/api/v1/voyages/"+url.PathEscape(args[0]))
			wait.end()
			if err != nil {
				return err
			}
			return show(a, answer, func(v struct{ Voyage rest.Voyage }) error { return a.facts(voyageFacts(v.Voyage)) })
		}),
	}
}

// maxDispatch limits the file of a dispatch, in bytes.
const maxDispatch = 512 << 10

func newVoyagesDispatchCommand(a *app) *cobra.Command {
	file, key := "", ""
	cmd := &cobra.Command{
		Use:   "dispatch -f FILE",
		Short: "Dispatch a voyage from a JSON file",
		Long: `Dispatch a voyage from a JSON file: {Title, VesselId, Missions: [{Title,
Description, Alias, DependsOnMissionAlias, ...}], ...}, the arguments of the tool
dispatch, in any letter case; - reads standard input. When the voyage is not
there within 30 s its job is printed instead.`,
		Example: `  berth voyages dispatch -f rate-limits.json --idempotency-key rate-limits-1`,
		Args:    exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usage("Say with --file what to dispatch.")
			}
			body, err := a.readObject(file)
			if err != nil {
				return err
			}
			if key != "" {
				for name := range body {
					if strings.EqualFold(name, "IdempotencyKey") {
						delete(body, name)
					}
				}
				body["IdempotencyKey"] = key
			}
			return a.runDispatch(cmd, body)
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the JSON file; - is standard input (required)")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "a repeat with the same key gives the first voyage")
	return cmd
}

// readObject reads one JSON object from a file, or from standard input.
func (a *app) readObject(file string) (map[string]any, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read what to dispatch: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxDispatch+1))
	if err != nil {
		return nil, fmt.Errorf("read what to dispatch: %w", err)
	}
	if len(text) > maxDispatch {
		return nil, usage(fmt.Sprintf("What is to be dispatched is over %d bytes.", maxDispatch))
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil || body == nil {
		return nil, usage("What is to be dispatched is not one JSON object.")
	}
	return body, nil
}

func (a *app) runDispatch(cmd *cobra.Command, body map[string]any) error {
	wait := a.waitingFor("Dispatching")
	answer, err := a.post(cmd.Context(), "/api/v1/voyages", body)
	wait.end()
	if err != nil {
		return err
	}
	var done rest.Dispatched
	if err := json.Unmarshal(answer, &done); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	if done.JobID != "" {
		return a.printHandle(answer)
	}
	return show(a, answer, func(v rest.Dispatched) error {
		if err := a.facts(voyageFacts(v.Voyage)); err != nil {
			return err
		}
		rows := make([][]string, 0, len(v.MissionStartRefs))
		for _, m := range v.MissionStartRefs {
			rows = append(rows, []string{m.MissionID, m.Alias, orDash(m.StartFromRef)})
		}
		fmt.Fprintln(a.out)
		return a.table([]string{"MISSION", "ALIAS", "FROM"}, rows)
	})
}
