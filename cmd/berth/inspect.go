package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/broker/config"
	"berth/journal"
	"berth/journal/archive"
	"berth/transport/rest"
	"berth/transport/statedir"
)

// backupStaging is where a running broker prepares an archive, in its state
// directory.
const backupStaging = ".backup"

// clearStaging takes away what a killed backup or restore left.
func clearStaging(state string) error {
	return errors.Join(os.RemoveAll(filepath.Join(state, backupStaging)), os.RemoveAll(filepath.Join(state, archive.StagingDir)),
		os.RemoveAll(filepath.Join(state, uploadsDir)))
}

// inspector copies and tells of the journal of a running broker.
type inspector struct {
	journal  *journal.Journal
	state    string
	settings atomic.Pointer[settingsCopy]
	one      sync.Mutex // held from the start of a backup until it was sent, and during a restore
}

// options are what goes into an archive beside the journal.
func (i *inspector) options() archive.Options {
	settings := &settingsCopy{}
	if known := i.settings.Load(); known != nil {
		settings = known
	}
	return archive.Options{Version: buildVersion(), Now: time.Now, Settings: settings.text, Redacted: settings.redacted, Working: workingMissions}
}

// settingsCopy are the settings in use as a backup has them.
type settingsCopy struct {
	text     json.RawMessage
	redacted int
}

// copySettings takes the settings that are in force from now on.
func (i *inspector) copySettings(cfg *config.Config) error {
	text, redacted, err := cfg.Redacted()
	if err == nil {
		i.settings.Store(&settingsCopy{text, redacted})
	}
	return err
}

func (b *running) inspector() (*inspector, error) {
	i := &inspector{journal: b.journal, state: b.dir.Root()}
	return i, i.copySettings(b.cfg)
}

// heldArchive is an archive that is sent; its file has no name any more. Whoever
// has read all of it may ask for the next backup or restore at once.
type heldArchive struct {
	file    *os.File
	left    int64 // bytes that were not read yet
	release func()
}

func (h *heldArchive) Read(p []byte) (int, error) {
	n, err := h.file.Read(p)
	if h.left -= int64(n); h.left <= 0 {
		h.release()
	}
	return n, err
}

func (h *heldArchive) Close() error {
	defer h.release()
	return h.file.Close()
}

// Backup makes an archive in the state directory and gives it, open.
func (i *inspector) Backup(ctx context.Context) (*rest.Archive, error) {
	if !i.one.TryLock() {
		return nil, inProgress()
	}
	file, size, err := i.prepare(ctx)
	if err != nil {
		i.one.Unlock()
		return nil, err
	}
	return &rest.Archive{ReadCloser: &heldArchive{file, size, sync.OnceFunc(i.one.Unlock)}, Name: archive.Name(time.Now()), Size: size}, nil
}

func (i *inspector) prepare(ctx context.Context) (_ *os.File, size int64, err error) {
	dir := filepath.Join(i.state, backupStaging)
	if err := os.RemoveAll(dir); err != nil { // of a broker that was killed
		return nil, 0, fmt.Errorf("clear away an earlier backup: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("make room for the backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "archive.zip")
	m, err := archive.Create(ctx, i.journal, filepath.Join(dir, "copy"), path, i.options())
	if err != nil {
		return nil, 0, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open the backup: %w", err)
	}
	size, err = i.created(ctx, file, m, broker.LocalOperator)
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, size, nil
}

// created writes the event of a backup.
func (i *inspector) created(ctx context.Context, file *os.File, m archive.Manifest, who broker.Principal) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at the backup: %w", err)
	}
	payload, err := json.Marshal(map[string]any{"Principal": who.Key(), "SizeBytes": info.Size(), "Sha256": m.Sha256, "RecordCounts": m.RecordCounts})
	if err != nil {
		return 0, fmt.Errorf("the event of the backup: %w", err)
	}
	err = i.journal.AppendEvent(ctx, broker.Event{EventType: archive.EventCreated, EntityType: "journal",
		TenantID: who.Tenant, Message: "A backup was made and verified.", Payload: payload})
	return info.Size(), err
}

func (i *inspector) Dump(ctx context.Context, w io.Writer, results bool) error {
	return dumpJournal(ctx, i.journal, w, results)
}

func (i *inspector) Explain(_ context.Context, id string) (any, error) {
	return explainJob(i.journal, id, true)
}

// explanation is the answer of GET /api/v1/jobs/{id}/explain.
type explanation struct {
	JobID       string `json:"JobId"`
	Status      broker.JobStatus
	Explanation []string
	Next        string
	Event       *broker.Event
}

func explainJob(j *journal.Journal, id string, runs bool) (any, error) {
	job, err := j.Job(id)
	if err != nil {
		return nil, err
	}
	end, err := j.EndEvent(id)
	if err != nil {
		return nil, err
	}
	told, next := job.Explain(end, time.Now(), runs)
	return explanation{job.ID, job.Status, told, next, end}, nil
}

// withJournal opens the journal's file for reading, when no broker runs.
func (a *app) withJournal(read func(*journal.Journal) error) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	j, err := journal.OpenReadOnly(filepath.Join(dir, journalFile))
	if err != nil {
		return &failure{exit: exitJournal, code: codeJournal, message: "No broker runs, and the journal cannot be opened: " + sentence(err), more: journalAdvice(err)}
	}
	return errors.Join(read(j), j.Close())
}

// download reads from the running broker; ran is false when none runs.
func (a *app) download(ctx context.Context, path string, query map[string][]string, w io.Writer) (ran bool, err error) {
	dir, err := a.stateDir()
	if err != nil {
		return false, err
	}
	addr, token, err := statedir.Discover(dir)
	if errors.Is(err, statedir.ErrNotRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	client := rest.NewClient("http://"+reachable(addr), token)
	defer client.Close()
	if err = client.Download(ctx, path, query, w); errors.Is(err, rest.ErrNotRunning) {
		return false, nil // it has just ended
	}
	return true, err
}
