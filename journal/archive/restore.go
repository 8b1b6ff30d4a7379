package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"berth/broker"
	"berth/journal"
)

const (
	// StagingDir is where Restore prepares, in the state directory. Whoever has
	// the directory's lock may remove it.
	StagingDir = ".restore"
	// BackupsDir is where Restore keeps what it replaced, in the state directory.
	BackupsDir = "backups"
	// EventRestored is the event that a restored journal begins with.
	EventRestored = "backup.restored"
	// EventCreated is the event of a backup of a running broker.
	EventCreated = "backup.created"

	safetyPrefix = "before-restore-"

	maxListed = 20 // jobs that a refusal names
)

// Restored says what Restore did.
type Restored struct {
	Status           string
	SafetyBackupPath *string // nil: there was no journal
	SchemaVersion    int
	RecordCounts     map[string]int
	Message          string
	RestartRequired  bool
}

// Restore puts the journal of an archive in the place of the one in the state
// directory. The one moment that counts is the renaming of journal.db: an end
// of the process before it leaves the old journal, with files beside it that
// the next start or restore removes; one after it leaves the new one. step, when
// set, is called between the steps, for crash tests.
func Restore(ctx context.Context, state, path string, o Options, step func(point string)) (Restored, error) {
	if step == nil {
		step = func(string) {}
	}
	staging := filepath.Join(state, StagingDir)
	if err := os.RemoveAll(staging); err != nil {
		return Restored{}, fmt.Errorf("clear away an earlier restore: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(staging, resultsDir), 0o700); err != nil {
		return Restored{}, fmt.Errorf("make room for the restore: %w", err)
	}
	defer os.RemoveAll(staging) // what stays is taken away by the next restore
	step("staging-made")
	m, err := read(ctx, path, staging)
	if err != nil {
		return Restored{}, err
	}
	counts, _, err := inspect(ctx, filepath.Join(staging, journalName))
	if err != nil {
		return Restored{}, unreadable(err)
	}
	if !maps.Equal(counts, m.RecordCounts) {
		return Restored{}, unreadable(fmt.Errorf("its journal has the counts %v and its manifest %v", counts, m.RecordCounts))
	}
	step("archive-verified")
	safety, err := keepPresent(ctx, state, o)
	if err != nil {
		return Restored{}, err
	}
	step("safety-made")
	if err := note(ctx, staging, m, safety); err != nil {
		return Restored{}, fmt.Errorf("note the restore in the journal: %w", err)
	}
	if err := switchTo(state, staging, step); err != nil {
		return Restored{}, err
	}
	return Restored{Status: "restored", SafetyBackupPath: safety, SchemaVersion: m.SchemaVersion, RecordCounts: m.RecordCounts,
		Message: "The journal is that of " + m.CreatedUTC + ". Settings and tokens of this host were left as they are."}, nil
}

// keepPresent makes the safety copy, of a journal without unfinished work.
func keepPresent(ctx context.Context, state string, o Options) (*string, error) {
	present := filepath.Join(state, journalName)
	if info, err := os.Stat(present); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	failed := func(err error) error {
		r := refuse(broker.CodeSafetyBackup, "The present journal cannot be copied and verified; nothing was changed.", err)
		r.Detail["Action"] = "Move journal.db and results out of the state directory, where they stay as they are, and restore again."
		return r
	}
	j, err := journal.OpenReadOnly(present)
	if err != nil {
		return nil, failed(err)
	}
	open, err := j.Jobs(broker.JobFilter{Unfinished: true, Limit: maxListed})
	if err != nil {
		return nil, failed(errors.Join(err, j.Close()))
	}
	if open.Total > 0 {
		ids := []string{}
		for _, job := range open.Jobs {
			ids = append(ids, job.ID)
		}
		r := broker.Refuse(broker.CodeRestoreBlocked, fmt.Sprintf("Unfinished jobs in the present journal: %d. Nothing was changed.", open.Total),
			map[string]any{"Reason": broker.CodeRestoreBlocked, "Jobs": ids, "Total": open.Total,
				"Action": "Start the broker, let these jobs end or cancel them, stop it, and restore again."})
		return nil, errors.Join(r, j.Close())
	}
	backups := filepath.Join(state, BackupsDir)
	if err := errors.Join(os.MkdirAll(backups, 0o700), removePartials(backups)); err != nil {
		return nil, failed(errors.Join(err, j.Close()))
	}
	path := filepath.Join(backups, safetyPrefix+o.Now().UTC().Format("20060102T150405.000Z")+".zip")
	_, err = Create(ctx, j, filepath.Join(state, StagingDir, "safety"), path, o)
	if err := errors.Join(err, j.Close()); err != nil {
		return nil, failed(err)
	}
	return &path, nil
}

// removePartials takes away safety copies of which a killed restore wrote a part.
func removePartials(dir string) error {
	parts, err := filepath.Glob(filepath.Join(dir, "."+safetyPrefix+"*"))
	for _, part := range parts {
		err = errors.Join(err, os.Remove(part))
	}
	return err
}

// note writes the event of the restore into the journal that is to come.
func note(ctx context.Context, staging string, m Manifest, safety *string) error {
	payload, err := json.Marshal(map[string]any{"CreatedUtc": m.CreatedUTC, "Sha256": m.Sha256, "SafetyBackupPath": safety})
	if err != nil {
		return err
	}
	j, err := journal.Open(filepath.Join(staging, journalName), journal.Options{})
	if err != nil {
		return err
	}
	err = j.AppendEvent(ctx, broker.Event{EventType: EventRestored, EntityType: "journal", TenantID: broker.LocalOperator.Tenant,
		Message: "The journal was restored from a backup of " + m.CreatedUTC + ".", Payload: payload})
	return errors.Join(err, j.Close())
}

// switchTo moves the large results, which have names of their own, beside those
// that are there, then the journal over the old one, then removes the results
// that the new journal does not name.
func switchTo(state, staging string, step func(string)) error {
	results, staged := filepath.Join(state, resultsDir), filepath.Join(staging, resultsDir)
	entries, err := os.ReadDir(staged)
	if err != nil {
		return fmt.Errorf("restore the results: %w", err)
	}
	wanted := map[string]bool{}
	for _, e := range entries {
		wanted[e.Name()] = true
		same, err := sameOrAbsent(filepath.Join(staged, e.Name()), filepath.Join(results, e.Name()))
		if err != nil {
			return fmt.Errorf("compare the results: %w", err)
		}
		if !same {
			return broker.Refuse(broker.CodeRestoreDiffers, "The result of a job here differs from the one of the same job in the archive. Nothing was changed.",
				map[string]any{"Reason": broker.CodeRestoreDiffers, "File": filepath.Join(results, e.Name()),
					"Action": "Move journal.db and results out of the state directory, where they stay as they are, and restore again."})
		}
	}
	if err := os.Mkdir(results, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("restore the results: %w", err)
	}
	for name := range wanted {
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(results, name)); err != nil {
			return fmt.Errorf("restore the results: %w", err)
		}
		step("result-moved")
	}
	if err := journal.SyncDir(results); err != nil {
		return err
	}
	step("results-moved")
	if err := os.Rename(filepath.Join(staging, journalName), filepath.Join(state, journalName)); err != nil {
		return fmt.Errorf("put the restored journal in its place: %w", err)
	}
	step("journal-switched")
	if err := journal.SyncDir(state); err != nil {
		return err
	}
	return removeOthers(results, wanted)
}

// removeOthers takes away what only the old journal named. It is in the safety
// copy; the next start would remove it as well.
func removeOthers(results string, wanted map[string]bool) error {
	entries, err := os.ReadDir(results)
	if err != nil {
		return fmt.Errorf("remove the old results: %w", err)
	}
	for _, e := range entries {
		if !wanted[e.Name()] && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(results, e.Name())); err != nil {
				return fmt.Errorf("remove the old results: %w", err)
			}
		}
	}
	return nil
}

func sameOrAbsent(a, b string) (bool, error) {
	there, err := sumOf(b)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	here, err := sumOf(a)
	return bytes.Equal(here, there), err
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), errors.Join(err, f.Close())
}

// Name is the usual name of an archive.
func Name(at time.Time) string { return "berth-" + at.UTC().Format("20060102T150405Z") + ".zip" }
