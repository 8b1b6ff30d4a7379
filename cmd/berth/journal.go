package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"berth/journal"
)

func newJournalCommand(a *app) *cobra.Command {
	return newGroup(a, "journal", "Look at the journal, with or without a running broker",
		newJournalStatsCommand, newJournalCheckCommand, newJournalDumpCommand)
}

// journalCheckReport is the answer of GET /api/v1/journal/check.
type journalCheckReport struct {
	Success  bool
	Clean    bool
	Problems []journal.Problem
	Unseen   []string // parts that were not looked at; empty: everything was
}

// journalFacts gives a journal's facts in the shapes of the operator API, to
// the API and to the commands that read the file themselves.
type journalFacts struct {
	journal interface {
		Stats() (journal.Stats, error)
		Check(ctx context.Context) ([]journal.Problem, error)
		LookAt(ctx context.Context) (problems []journal.Problem, unseen []string, err error)
	}
}

// Stats gives a journal.Stats.
func (f journalFacts) Stats(context.Context) (any, error) {
	stats, err := f.journal.Stats()
	return stats, err
}

// Check gives a journalCheckReport.
func (f journalFacts) Check(ctx context.Context) (any, error) {
	problems, err := f.journal.Check(ctx)
	return reportOf(problems, nil), err
}

// LookAt gives a journalCheckReport, too.
func (f journalFacts) LookAt(ctx context.Context) (any, error) {
	problems, unseen, err := f.journal.LookAt(ctx)
	return reportOf(problems, unseen), err
}

// reportOf is a report; it is clean when nothing was found where it looked.
func reportOf(problems []journal.Problem, unseen []string) journalCheckReport {
	return journalCheckReport{Success: true, Clean: len(problems) == 0, Problems: append([]journal.Problem{}, problems...), Unseen: append([]string{}, unseen...)}
}

// journalAnswer asks the running broker, or, when none runs, the file itself.
func (a *app) journalAnswer(ctx context.Context, path string, read func(journalFacts) (any, error)) (json.RawMessage, error) {
	answer, err := a.get(ctx, path, nil)
	var f *failure
	if err == nil || !errors.As(err, &f) || f.exit != exitNoBroker {
		return answer, err
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	j, err := journal.OpenReadOnly(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, &failure{exit: exitJournal, code: codeJournal, message: "No broker runs, and the journal cannot be opened: " + sentence(err), more: journalAdvice(err)}
	}
	v, err := read(journalFacts{j})
	if err := errors.Join(err, j.Close()); err != nil {
		return nil, &failure{exit: exitJournal, code: codeJournal, message: "The journal cannot be read: " + sentence(err)}
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the journal's facts: %w", err)
	}
	return encoded, nil
}

// journalAdvice says what to do about a journal that is damaged.
func journalAdvice(err error) []string {
	if !errors.Is(err, journal.ErrDamaged) {
		return nil
	}
	return []string{"Nothing was changed in the file. Put a copy of it back, or move it away: a broker then starts with an empty journal and knows none of the jobs."}
}
