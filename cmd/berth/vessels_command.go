package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"berth/broker/dispatch"
	"berth/transport/rest"
)

func newVesselsCommand(a *app) *cobra.Command {
	return newGroup(a, "vessels", "List, add and show the repositories that missions work on",
		newVesselsListCommand, newVesselsAddCommand, newVesselsShowCommand)
}

func newVesselsListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List vessels, newest first",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.list(cmd, "/api/v1/vessels", o)
			if err != nil {
				return err
			}
			return show(a, answer, func(list rest.Page[dispatch.Vessel]) error {
				rows := make([][]string, 0, len(list.Objects))
				for _, v := range list.Objects {
					rows = append(rows, []string{v.ID, v.Name, v.DefaultBranch, string(v.LandingMode), v.RepoURL})
				}
				err := a.table([]string{"VESSEL", "NAME", "BRANCH", "LANDING", "REPOSITORY"}, rows)
				a.more(list.TotalRecords, len(rows), "vessels")
				return err
			})
		}),
	}
	listFlags(cmd, &o)
	return cmd
}

func (a *app) showVessel(v dispatch.Vessel) error {
	landing, concurrent := string(v.LandingMode), "one mission at a time"
	if v.Concurrent {
		concurrent = "missions at the same time"
	}
	created := v.CreatedUTC.UTC().Format(time.RFC3339)
	return a.facts(given([][2]string{{"Vessel", v.ID}, {"Name", v.Name}, {"Repository", v.RepoURL}, {"Branch", v.DefaultBranch}}, []fact{
		{"Working directory", v.WorkingDirectory}, {"Clone", v.LocalPath}, {"Landing", &landing}, {"Carries", &concurrent}, {"Created", &created}}))
}

func newVesselsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show VESSEL",
		Short: "Show one vessel",
		Args:  exactly("VESSEL"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.get(cmd.Context(), "/api/v1/vessels/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return err
			}
			return show(a, answer, a.showVessel)
		}),
	}
}

// vesselDraft is the body of POST /api/v1/vessels.
type vesselDraft struct {
	Name                    string
	RepoURL                 string `json:"RepoUrl"`
	DefaultBranch           string `json:",omitempty"`
	WorkingDirectory        string `json:",omitempty"`
	LandingMode             string `json:",omitempty"`
	AllowConcurrentMissions bool   `json:",omitempty"`
}

func newVesselsAddCommand(a *app) *cobra.Command {
	var d vesselDraft
	cmd := &cobra.Command{
		Use:     "add NAME REPOSITORY",
		Short:   "Register a repository as a vessel",
		Long:    "Register a repository as a vessel: an address that git clones from, or a directory on this machine.",
		Example: "  berth vessels add app ~/src/app --landing LocalMerge",
		Args:    exactly("NAME", "REPOSITORY"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) (err error) {
			d.Name, d.RepoURL = args[0], args[1]
			// The broker's working directory is another one.
			for _, path := range []*string{&d.RepoURL, &d.WorkingDirectory} {
				if info, wrong := os.Stat(*path); *path != "" && wrong == nil && info.IsDir() {
					if *path, err = filepath.Abs(*path); err != nil {
						return fmt.Errorf("the path of the repository: %w", err)
					}
				}
			}
			answer, err := a.post(cmd.Context(), "/api/v1/vessels", d)
			if err != nil {
				return err
			}
			return show(a, answer, a.showVessel)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&d.DefaultBranch, "branch", "", "the default branch (main when it is not given)")
	f.StringVar(&d.WorkingDirectory, "working-directory", "", "the clone into which finished work is merged")
	f.StringVar(&d.LandingMode, "landing", "", "what becomes of a finished branch: None (kept, when it is not given) or LocalMerge")
	f.BoolVar(&d.AllowConcurrentMissions, "concurrent", false, "let missions work on it at the same time")
	return cmd
}
