package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newTokenCommand(a *app) *cobra.Command {
	return newGroup(a, "token", "Make, list and revoke credentials, and replace the broker's own token",
		newTokenCreateCommand, newTokenListCommand, newTokenRevokeCommand, newTokenRotateCommand)
}

func newTokenRotateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Replace the token at once; clients that hold the old one are refused from then on",
		Long:  "Replace the token at once. The new one is written to api-token in the state directory and is shown nowhere;\nclients that hold the old one are refused from their next request on.",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runTokenRotate(cmd) }),
	}
}

func (a *app) runTokenRotate(cmd *cobra.Command) error {
	answer, err := a.post(cmd.Context(), "/api/v1/token/rotate", nil)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answer)
	}
	fmt.Fprintln(a.out, "The token is replaced. The new one is in the state directory's api-token; clients must read it anew.")
	return nil
}
