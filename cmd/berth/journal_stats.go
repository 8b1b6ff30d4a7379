package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"berth/journal"
)

func newJournalStatsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Show the journal's size and counts",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runJournalStats(cmd) }),
	}
}

func (a *app) runJournalStats(cmd *cobra.Command) error {
	ctx := cmd.Context()
	answer, err := a.journalAnswer(ctx, "/api/v1/journal/stats", func(f journalFacts) (any, error) { return f.Stats(ctx) })
	if err != nil {
		return err
	}
	return show(a, answer, func(s journal.Stats) error {
		rows := [][2]string{{"Schema version", count(s.SchemaVersion)}}
		for _, status := range slices.Sorted(maps.Keys(s.Jobs)) {
			rows = append(rows, [2]string{"Jobs " + string(status), count(s.Jobs[status])})
		}
		return a.facts(append(rows,
			[2]string{"Unreadable records", count(s.Unreadable)},
			[2]string{"Events", count(s.Events)},
			[2]string{"Result files", count(s.ResultFiles)},
			[2]string{"File bytes", count(s.FileBytes)},
			[2]string{"Free pages", countOrUnknown(s.FreePages)},
			[2]string{"Commits since open", count(s.Commits)},
			[2]string{"Writes since open", count(s.Writes)},
			[2]string{"Writes a commit", fmt.Sprintf("%.1f", s.MeanGroup)},
			[2]string{"Late outcomes dropped", count(s.DroppedLate)},
			[2]string{"Writes waiting", count(s.Waiting)}))
	})
}
