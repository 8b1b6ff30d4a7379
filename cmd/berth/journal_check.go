package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newJournalCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read the whole journal and report what is wrong with it",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runJournalCheck(cmd) }),
	}
}

func (a *app) runJournalCheck(cmd *cobra.Command) error {
	ctx := cmd.Context()
	wait := a.waitingFor("Checking the journal")
	answer, err := a.journalAnswer(ctx, "/api/v1/journal/check", func(f journalFacts) (any, error) { return f.Check(ctx) })
	wait.end()
	if err != nil {
		return err
	}
	var report journalCheckReport
	if err := json.Unmarshal(answer, &report); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	err = show(a, answer, func(journalCheckReport) error {
		if report.Clean {
			_, err := fmt.Fprintln(a.out, "The journal is clean.")
			return err
		}
		rows := make([][]string, 0, len(report.Problems))
		for _, p := range report.Problems {
			rows = append(rows, []string{p.Kind, p.ID, p.Detail})
		}
		return a.table([]string{"KIND", "ID", "PROBLEM"}, rows)
	})
	if err != nil || report.Clean {
		return err
	}
	return &failure{exit: exitJournal, code: codeJournal, shown: true,
		message: fmt.Sprintf("Problems in the journal: %d.", len(report.Problems))}
}
