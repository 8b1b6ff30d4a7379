package main

import (
	"github.com/spf13/cobra"

	"berth/transport/mcpserver"
	"berth/transport/statedir"
)

func newStdioCommand(a *app) *cobra.Command {
	profile := ""
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Bridge an MCP client on standard input and output to the running broker",
		Long: `Bridge an MCP client on standard input and output to the running broker. The
bridge keeps nothing: sessions, jobs and catalogs are the broker's. It finds
address and token in the state directory. With no broker running each request
is refused with broker_not_running, until one is.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runStdio(cmd, profile) }),
	}
	cmd.Flags().StringVar(&profile, "profile", "", "one profile: a backend's name, or berth for the broker's own tools")
	return cmd
}

func (a *app) runStdio(cmd *cobra.Command, profile string) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	bridge := mcpserver.Bridge{Profile: profile, Discover: func() (string, string, error) {
		addr, token, err := statedir.Discover(dir)
		if err != nil {
			return "", "", err
		}
		return "http://" + reachable(addr), token, nil
	}}
	return bridge.Run(cmd.Context(), a.in, a.out, a.err)
}
