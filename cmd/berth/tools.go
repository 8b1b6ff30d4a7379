package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newToolsCommand(a *app) *cobra.Command {
	profile, tokens := "", false
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools of all backends, or of one profile",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			if tokens {
				return a.showTokens(cmd.Context(), profile)
			}
			return a.runTools(cmd, profile)
		}),
	}
	cmd.Flags().StringVar(&profile, "profile", "", "one profile: essential, full, one of the configuration, a backend's name, or berth for the broker's own")
	cmd.Flags().BoolVar(&tokens, "tokens", false, "what the list of each profile costs in o200k tokens; with --profile, what each of its tools does")
	return cmd
}

func (a *app) runTools(cmd *cobra.Command, profile string) error {
	query := url.Values{}
	if profile != "" {
		query.Set("profile", profile)
	}
	wait := a.waitingFor("Waiting for the backends' lists")
	answer, err := a.get(cmd.Context(), "/api/v1/tools", query)
	wait.end()
	if err != nil {
		return err
	}
	return show(a, answer, func(list rest.ToolPage) error {
		rows := make([][]string, 0, len(list.Objects))
		for _, t := range list.Objects {
			long := ""
			if t.Long {
				long = "long"
			}
			var entry struct {
				Description string `json:"description"`
			}
			if err := json.Unmarshal(t.Listed, &entry); err != nil {
				return fmt.Errorf("the entry of %s: %w", t.Name, err)
			}
			first, _, _ := strings.Cut(entry.Description, "\n")
			rows = append(rows, []string{t.Name, t.Backend, strings.Join(t.Effects, ",") + " (" + t.EffectsSource + ")", long, short(first, 72)})
		}
		if err := a.table([]string{"NAME", "BACKEND", "EFFECTS", "LONG", "DESCRIPTION"}, rows); err != nil {
			return err
		}
		if len(list.Pending) > 0 {
			fmt.Fprintf(a.err, "Not all: nothing is known yet of %s.\n", plain(strings.Join(list.Pending, ", ")))
		}
		return nil
	})
}
