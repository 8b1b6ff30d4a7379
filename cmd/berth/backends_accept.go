package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
)

func newBackendsAcceptCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "accept NAME",
		Short: "Take what a pinned backend lists now",
		Long: "Take what a pinned backend lists now as what it may list. Its verbs that were\n" +
			"refused as verb_changed can be called again.",
		Args: exactly("NAME"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.post(cmd.Context(), "/api/v1/backends/"+url.PathEscape(args[0])+"/accept", struct{}{})
			if err != nil {
				return err
			}
			return show(a, answer, func(struct{}) error {
				_, err := fmt.Fprintf(a.out, "What %s lists now is accepted.\n", plain(args[0]))
				return err
			})
		}),
	}
}
