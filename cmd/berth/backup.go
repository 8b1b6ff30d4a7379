package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/journal"
	"berth/journal/archive"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// backedUp is what `berth backup --json` prints.
type backedUp struct {
	Status    string
	Path      string
	SizeBytes int64
	Manifest  archive.Manifest
}

func newBackupCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a verified copy of the journal into one file",
		Long: "Copy the journal and its large results into FILE (ZIP, mode 0600), from the running broker or,\n" +
			"when none runs, from the state directory. The copy is opened on its own, checked and counted, and FILE\n" +
			"gets its name, in place of an older backup, only when it is whole. No token is in it; the settings of\n" +
			"the running broker are, with every secret as [REDACTED]. The results of jobs are in it: keep FILE as\n" +
			"private as the state directory.",
		Args: exactly("FILE"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error { return advised(a.runBackup(cmd.Context(), args[0])) }),
	}
}

func (a *app) runBackup(ctx context.Context, name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return usage("FILE: " + sentence(err))
	}
	if err := a.outsideState(path); err != nil {
		return err
	}
	wait := a.waitingFor("Backing up the journal")
	m, err := a.makeBackup(ctx, path)
	wait.end()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(backedUp{"created", path, info.Size(), m})
	}
	return a.facts([][2]string{{"Archive", path}, {"Bytes", count(info.Size())}, {"Schema version", count(m.SchemaVersion)},
		{"Jobs", count(m.RecordCounts["jobs"])}, {"Events", count(m.RecordCounts["events"])},
		{"Result files", count(m.RecordCounts["resultFiles"])}, {"SHA-256 of journal.db", m.Sha256}})
}

// outsideState refuses a path at which an archive would stand in the way of the
// broker's own files, or take the place of one.
func (a *app) outsideState(path string) error {
	root, err := a.stateDir()
	if err != nil {
		return err
	}
	return amongOwnFiles(root, path)
}

// amongOwnFiles refuses a path among the files of a broker with the state
// directory root.
func amongOwnFiles(root, path string) error {
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil // the archive cannot be written there, which is said where it is tried
	}
	for _, dir := range []string{root, filepath.Join(root, "results"), filepath.Join(root, "children")} {
		if own, err := os.Stat(dir); err == nil && os.SameFile(own, parent) {
			return broker.Refuse(broker.CodeBackupPath, "An archive cannot stand among the broker's own files; nothing was written.",
				map[string]any{"Reason": broker.CodeBackupPath, "Action": "Name another directory, such as " + archive.BackupsDir + " in the state directory."})
		}
	}
	return nil
}

// advised shows a person what the detail of a refusal says beside its sentence.
func advised(err error) error {
	if err == nil {
		return nil
	}
	f := asFailure(err)
	var detail struct{ Cause, Action string }
	var refusal *broker.Refusal
	var api *rest.APIError
	switch {
	case errors.As(err, &refusal):
		detail.Cause, _ = refusal.Detail["Cause"].(string)
		detail.Action, _ = refusal.Detail["Action"].(string)
	case errors.As(err, &api):
		_ = json.Unmarshal(api.Data, &detail) // what is no such object has no advice
	}
	for _, line := range []string{detail.Cause, detail.Action} {
		if line != "" {
			f.more = append(f.more, line)
		}
	}
	return f
}

// errNoBroker ends a download that found nobody.
var errNoBroker = errors.New("no broker runs")

// makeBackup has the running broker make the archive and looks at what arrived
// before it gets its name; or makes it.
func (a *app) makeBackup(ctx context.Context, path string) (m archive.Manifest, err error) {
	none := false
	err = archive.WriteFile(path, func(f *os.File) error {
		ran, err := a.download(ctx, "/api/v1/backup", nil, f)
		if none = !ran && err == nil; none {
			return errNoBroker
		}
		if err != nil {
			return err
		}
		m, err = archive.Verify(ctx, f.Name())
		return err
	})
	if !none {
		return m, err
	}
	err = a.withJournal(func(j *journal.Journal) error {
		staging, err := os.MkdirTemp(filepath.Dir(path), ".berth-backup-*")
		if err != nil {
			return err
		}
		m, err = archive.Create(ctx, j, filepath.Join(staging, "copy"), path, archive.Options{Version: buildVersion(), Now: time.Now})
		return errors.Join(err, os.RemoveAll(staging))
	})
	return m, err
}

func newRestoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Put the journal of a backup in the place of the present one",
		Long: "Look at the whole archive first, then make a verified safety copy of the present journal in\n" +
			"backups/ of the state directory, then switch in one step. A broker that runs on the state directory does\n" +
			"it itself and goes on; it refuses while a job is unfinished. Interrupted before the switch, the old journal stands; after it, the new one. Jobs that the backup\n" +
			"has as unfinished become Lost at the next start, unless their work is followed in a backend.\n" +
			"Settings and tokens stay those of this host. FILE is not changed.",
		Args: exactly("FILE"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error { return advised(a.runRestore(cmd.Context(), args[0])) }),
	}
}

func (a *app) runRestore(ctx context.Context, path string) (err error) {
	// Before the state directory is made, where there is none yet.
	if _, err := archive.Verify(ctx, path); err != nil {
		return err
	}
	root, err := a.stateDir()
	if err != nil {
		return err
	}
	dir, err := statedir.Open(root)
	if err != nil {
		return err
	}
	lock, err := dir.Lock()
	var other *statedir.RunningError
	if errors.As(err, &other) {
		return a.restoreRunning(ctx, path, other)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	wait := a.waitingFor("Restoring the journal")
	done, err := archive.Restore(ctx, dir.Root(), path, archive.Options{Version: buildVersion(), Now: time.Now, Working: workingMissions,
		Carry: stayRevoked(broker.LocalOperator, slog.New(slog.NewTextHandler(a.err, nil)))}, nil)
	wait.end()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(done)
	}
	return a.showRestored(path, done)
}

// restoreRunning has the broker that runs on the state directory restore.
func (a *app) restoreRunning(ctx context.Context, path string, other *statedir.RunningError) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return usage("FILE: " + sentence(err))
	}
	wait := a.waitingFor("Restoring the journal")
	answer, err := a.ask(func(c *rest.Client) (json.RawMessage, error) {
		return c.PostPatiently(ctx, "/api/v1/restore", struct{ FilePath string }{full})
	})
	wait.end()
	var gone *failure
	if errors.As(err, &gone) && gone.exit == exitNoBroker {
		return broker.Refuse(broker.CodeBrokerRunning, "A broker holds this state directory and does not answer; nothing was changed.",
			map[string]any{"Reason": broker.CodeBrokerRunning, "Pid": other.PID, "Action": "Wait until it is up or gone, and restore again."})
	}
	if err != nil {
		return err
	}
	return show(a, answer, func(done archive.Restored) error { return a.showRestored(path, done) })
}

func (a *app) showRestored(path string, done archive.Restored) error {
	safety := "none: there was no journal"
	if done.SafetyBackupPath != nil {
		safety = *done.SafetyBackupPath
	}
	return a.facts([][2]string{{"Restored", path}, {"Safety copy", safety}, {"Schema version", count(done.SchemaVersion)},
		{"Jobs", count(done.RecordCounts["jobs"])}, {"Events", count(done.RecordCounts["events"])}, {"Note", done.Message}})
}
