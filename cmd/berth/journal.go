package main

import (
	"github.com/spf13/cobra"
)

func newJournalCommand(a *app) *cobra.Command {
	return newGroup(a, "journal", "Look at the journal, with or without a running broker",
		newJournalStatsCommand, newJournalCheckCommand)
}
