package journal_test

import (
	"path/filepath"
	"testing"

	"berth/journal"
	"berth/journal/journaltest"
)

func TestJournalPassesTheSuite(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{Open: func(dir string, f journaltest.Faults) (journaltest.Journal, error) {
		j, err := journal.Open(filepath.Join(dir, "journal.db"), journal.Options{
			QueueLimit: f.QueueLimit, Commit: f.Commit, Now: f.Now, Grace: f.Grace})
		if err != nil {
			return nil, err
		}
		return j, nil
	}})
}
