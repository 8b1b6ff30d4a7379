package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newSessionsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "Show every live harness session",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runSessions(cmd) }),
	}
}

func (a *app) runSessions(cmd *cobra.Command) error {
	answer, err := a.get(cmd.Context(), "/api/v1/sessions", nil)
	if err != nil {
		return err
	}
	return show(a, answer, func(list rest.Page[rest.Session]) error {
		now := time.Now()
		rows := make([][]string, 0, len(list.Objects))
		for _, s := range list.Objects {
			client := ""
			if s.ClientName != nil {
				client = *s.ClientName
			}
			if s.ClientVersion != nil {
				client = strings.TrimSpace(client + " " + *s.ClientVersion)
			}
			rows = append(rows, []string{s.Key, client, orDash(s.Profile), orDash(s.ProtocolVersion),
				s.Tenant + "/" + s.User, count(s.InFlight), count(s.Calls), since(s.StartedUTC, now), since(s.LastSeenUTC, now)})
		}
		return a.table([]string{"SESSION", "CLIENT", "PROFILE", "PROTOCOL", "PRINCIPAL", "RUNNING", "CALLS", "AGE", "SEEN"}, rows)
	})
}
