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

	retryAfter = 5 * time.Second // of what is refused while a journal is replaced
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
	defer os.RemoveAll(filepath.Join(state, StagingDir)) // what stays is taken away by the next restore
	m, err := stage(ctx, state, path, step)
	if err != nil {
		return Restored{}, err
	}
	safety, err := keepPresent(ctx, state, o)
	if err != nil {
		return Restored{}, err
	}
	step("safety-made")
	staged := filepath.Join(state, StagingDir, journalName)
	j, err := journal.Open(staged, journal.Options{})
	if err != nil {
		return Restored{}, fmt.Errorf("open the journal of the archive: %w", err)
	}
	err = note(ctx, j, m, safety)
	if err == nil && safety != nil {
		err = carry(ctx, state, j, o)
	}
	if err := errors.Join(err, j.Close()); err != nil {
		return Restored{}, err
	}
	results, err := moveResults(state, step)
	if err != nil {
		return Restored{}, err
	}
	if err := place(state); err != nil {
		return Restored{}, errors.Join(err, results.undo())
	}
	step("journal-switched")
	if err := errors.Join(journal.SyncDir(state), removeOthers(results.dir, results.wanted)); err != nil {
		return Restored{}, err
	}
	return restored(m, safety), nil
}

func restored(m Manifest, safety *string) Restored {
	return Restored{Status: "restored", SafetyBackupPath: safety, SchemaVersion: m.SchemaVersion, RecordCounts: m.RecordCounts,
		Message: "The journal is that of " + m.CreatedUTC + ". Settings and tokens of this host were left as they are."}
}

// stage reads an archive into the staging directory and looks at all of it.
func stage(ctx context.Context, state, path string, step func(string)) (Manifest, error) {
	staging := filepath.Join(state, StagingDir)
	if err := os.RemoveAll(staging); err != nil {
		return Manifest{}, fmt.Errorf("clear away an earlier restore: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(staging, resultsDir), 0o700); err != nil {
		return Manifest{}, fmt.Errorf("make room for the restore: %w", err)
	}
	step("staging-made")
	m, err := read(ctx, path, staging)
	if err != nil {
		return m, err
	}
	counts, _, err := inspect(ctx, filepath.Join(staging, journalName))
	if err != nil {
		return m, unreadable(err)
	}
	if !maps.Equal(counts, m.RecordCounts) {
		return m, unreadable(fmt.Errorf("its journal has the counts %v and its manifest %v", counts, m.RecordCounts))
	}
	step("archive-verified")
	return m, nil
}

// noSafety refuses because there is no safety copy.
func noSafety(err error) error {
	r := refuse(broker.CodeSafetyBackup, "The present journal cannot be copied and verified; nothing was changed.", err)
	r.Detail["Action"] = "Move journal.db and results out of the state directory, where they stay as they are, and restore again."
	return r
}

// keepPresent makes the safety copy, of a journal without unfinished work.
func keepPresent(ctx context.Context, state string, o Options) (*string, error) {
	present := filepath.Join(state, journalName)
	if info, err := os.Stat(present); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	j, err := journal.OpenReadOnly(present)
	if err != nil {
		return nil, noSafety(err)
	}
	if err := idle(j, o, "Start the broker, let this work end or cancel it, stop the broker, and restore again."); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	path, err := safetyCopy(ctx, state, j, o)
	if err := errors.Join(err, j.Close()); err != nil {
		return nil, err
	}
	return &path, nil
}

// carry has what a restore does not undo written into the journal that is to come.
func carry(ctx context.Context, state string, next *journal.Journal, o Options) error {
	if o.Carry == nil {
		return nil
	}
	present, err := journal.OpenReadOnly(filepath.Join(state, journalName))
	if err != nil {
		return err
	}
	return errors.Join(o.Carry(ctx, present, next), present.Close())
}

// idle refuses while the journal has unfinished jobs, or missions that an agent
// works on.
func idle(j *journal.Journal, o Options, action string) error {
	open, err := j.Jobs(broker.JobFilter{Unfinished: true, Limit: maxListed})
	if err != nil {
		return noSafety(err)
	}
	missions := []string{}
	if o.Working != nil {
		if missions, err = o.Working(j); err != nil {
			return noSafety(err)
		}
	}
	if open.Total+len(missions) == 0 {
		return nil
	}
	ids := []string{}
	for _, job := range open.Jobs {
		ids = append(ids, job.ID)
	}
	return broker.Refuse(broker.CodeRestoreBlocked, fmt.Sprintf("The present journal has %d unfinished jobs and %d missions that agents work on. Nothing was changed.", open.Total, len(missions)),
		map[string]any{"Reason": broker.CodeRestoreBlocked, "Jobs": ids, "Total": open.Total, "Missions": missions, "Action": action})
}

// safetyCopy makes a verified archive of the present journal.
func safetyCopy(ctx context.Context, state string, j Source, o Options) (string, error) {
	backups := filepath.Join(state, BackupsDir)
	if err := errors.Join(os.MkdirAll(backups, 0o700), removePartials(backups)); err != nil {
		return "", noSafety(err)
	}
	path := filepath.Join(backups, safetyPrefix+o.Now().UTC().Format("20060102T150405.000Z")+".zip")
	if _, err := Create(ctx, j, filepath.Join(state, StagingDir, "safety"), path, o); err != nil {
		return "", noSafety(err)
	}
	return path, nil
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
func note(ctx context.Context, j *journal.Journal, m Manifest, safety *string) error {
	payload, err := json.Marshal(map[string]any{"CreatedUtc": m.CreatedUTC, "Sha256": m.Sha256, "SafetyBackupPath": safety})
	if err != nil {
		return err
	}
	err = j.AppendEvent(ctx, broker.Event{EventType: EventRestored, EntityType: "journal", TenantID: broker.LocalOperator.Tenant,
		Message: "The journal was restored from a backup of " + m.CreatedUTC + ".", Payload: payload})
	if err != nil {
		return fmt.Errorf("note the restore in the journal: %w", err)
	}
	return nil
}

// moved are the large results of a restore that stand in their place.
type moved struct {
	dir    string
	wanted map[string]bool
	fresh  []string // of which there was none before
}

// undo takes away what nobody names if the journal is not switched.
func (m *moved) undo() error {
	var err error
	for _, name := range m.fresh {
		err = errors.Join(err, os.Remove(filepath.Join(m.dir, name)))
	}
	m.fresh = nil
	return err
}

// moveResults moves the large results, which have names of their own, from the
// staging directory beside those that are there. Until journal.db is placed
// they are files of nobody. Of an error nothing is left.
func moveResults(state string, step func(string)) (*moved, error) {
	m := &moved{dir: filepath.Join(state, resultsDir), wanted: map[string]bool{}}
	staged := filepath.Join(state, StagingDir, resultsDir)
	entries, err := os.ReadDir(staged)
	if err != nil {
		return m, fmt.Errorf("restore the results: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		m.wanted[name] = true
		same, err := sameOrAbsent(filepath.Join(staged, name), filepath.Join(m.dir, name))
		if err != nil {
			return m, fmt.Errorf("compare the results: %w", err)
		}
		if !same {
			return m, broker.Refuse(broker.CodeRestoreDiffers, "The result of a job here differs from the one of the same job in the archive. Nothing was changed.",
				map[string]any{"Reason": broker.CodeRestoreDiffers, "File": filepath.Join(m.dir, name),
					"Action": "Move journal.db and results out of the state directory, where they stay as they are, and restore again."})
		}
		_, err = os.Lstat(filepath.Join(m.dir, name))
		there[name] = err == nil
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("restore the results: %w", err)
	}
	for name := range m.wanted {
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(m.dir, name)); err != nil {
			return m, errors.Join(fmt.Errorf("restore the results: %w", err), m.undo())
		}
		if !there[name] {
			m.fresh = append(m.fresh, name)
		}
		step("result-moved")
	}
	if err := journal.SyncDir(m.dir); err != nil {
		return m, errors.Join(err, m.undo())
	}
	step("results-moved")
	return m, nil
}

// place moves the staged journal over the present one.
func place(state string) error {
	if err := os.Rename(filepath.Join(state, StagingDir, journalName), filepath.Join(state, journalName)); err != nil {
		return fmt.Errorf("put the restored journal in its place: %w", err)
	}
	return nil
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
