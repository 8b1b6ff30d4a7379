package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/drain"
	"berth/journal"
	"berth/journal/archive"
)

// uploadsDir is where an archive stands that came over the network, in the
// state directory.
const uploadsDir = ".uploads"

// renewal prepares what was read from the journal for another one. What it
// gives takes effect when the journal does, and must not fail.
type renewal func(next *journal.Journal, r journal.Recovery) (apply func(), err error)

// keeper is the broker as the verbs backup, restore and stop_server, and their
// routes, have it.
type keeper struct {
	*inspector
	running *running
	step    func(point string) error // of a restore; for tests
}

func newKeeper(b *running, i *inspector) *keeper {
	hook := failpoint()
	return &keeper{inspector: i, running: b, step: func(point string) error {
		if hook != nil {
			hook("restore:" + point)
		}
		return nil
	}}
}

// BackUp writes an archive where its caller wants it.
func (k *keeper) BackUp(ctx context.Context, who broker.Principal, path string) (any, error) {
	path, err := k.place(path, archive.Name(time.Now()))
	if err != nil {
		return nil, err
	}
	if err := amongOwnFiles(k.state, path); err != nil {
		return nil, err
	}
	if !k.one.TryLock() {
		return nil, inProgress()
	}
	defer k.one.Unlock()
	if filepath.Dir(path) == filepath.Join(k.state, archive.BackupsDir) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("make the backup folder: %w", err)
		}
	}
	staging := filepath.Join(k.state, backupStaging)
	if err := os.RemoveAll(staging); err != nil {
		return nil, fmt.Errorf("clear away an earlier backup: %w", err)
	}
	m, err := archive.Create(ctx, k.journal, staging, path, k.options())
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("look at the backup: %w", err)
	}
	size, err := k.created(ctx, file, m, who)
	return backedUp{"created", path, size, m}, errors.Join(err, file.Close())
}

func inProgress() *broker.Refusal {
	return broker.Refuse(broker.CodeBackupInProgress, "Another backup or restore is under way; nothing was done.",
		map[string]any{"Reason": broker.CodeBackupInProgress})
}

// place makes a path of what a caller gave: an absolute one, or a name in the
// backup folder.
func (k *keeper) place(given, otherwise string) (string, error) {
	if given == "" {
		given = otherwise
	}
	switch {
	case filepath.IsAbs(given):
		return filepath.Clean(given), nil
	case filepath.IsLocal(given):
		return filepath.Join(k.state, archive.BackupsDir, given), nil
	}
	return "", broker.Refuse(broker.CodeBackupPath, "The path leads out of the backup folder; nothing was done.",
		map[string]any{"Reason": broker.CodeBackupPath, "Action": "Give an absolute path, or a name in the backup folder."})
}

// Restore puts the journal of an archive in the place of the one in use.
func (k *keeper) Restore(ctx context.Context, who broker.Principal, path string) (any, error) {
	path, err := k.place(path, "")
	if err != nil {
		return nil, err
	}
	if !k.one.TryLock() {
		return nil, inProgress()
	}
	defer k.one.Unlock()
	b, why := k.running, archive.Suspended()
	// From the first refused write on, so that nothing new begins that could not
	// be written; an archive that is not good has been refused by then.
	step := func(point string) error {
		if point == "archive-verified" {
			b.system.Pause(why)
		}
		return k.step(point)
	}
	defer b.system.Pause(nil)
	var found actors.Found
	renew := func(next *journal.Journal, r journal.Recovery) (func(), error) {
		catalogs, err := next.Catalogs()
		if err != nil {
			b.log.Warn("a stored catalog could not be read", slog.String("cause", err.Error()))
		}
		found = actors.Found{Tracked: r.Tracked, Catalogs: catalogs}
		return b.renew(next, r)
	}
	o := k.options()
	o.Carry = stayRevoked(who, b.log)
	done, err := archive.RestoreRunning(ctx, k.state, path, o, archive.Running{
		Journal: k.journal, Suspended: why, Renew: renew,
		Action: "Let this work end or cancel it; hold new work meanwhile (dispatch_hold), and restore again.",
	}, step)
	if done.Status == "" {
		return nil, err
	}
	b.system.Replaced(found) // it writes, so not before writes are let in
	for _, m := range b.vessels.ended {
		b.board.MissionEnded(m)
	}
	b.log.Warn("the journal was replaced by that of a backup", slog.String("principal", who.Key()))
	if err != nil { // the new journal stands; what was left over is taken away at the next start
		b.log.Warn("a restore did not clear everything away", slog.String("cause", err.Error()))
	}
	return done, nil
}

// renew prepares every view of the journal.
func (b *running) renew(next *journal.Journal, r journal.Recovery) (func(), error) {
	renewals := []renewal{b.renewHold, b.renewDrains, b.renewCredentials, b.renewMissions}
	var applies []func()
	for _, prepare := range renewals {
		apply, err := prepare(next, r)
		if err != nil {
			return nil, err
		}
		applies = append(applies, apply)
	}
	return func() {
		for _, apply := range applies {
			apply()
		}
	}, nil
}

func (b *running) renewHold(next *journal.Journal, _ journal.Recovery) (func(), error) {
	return b.hold.Renew(next)
}

func (b *running) renewDrains(next *journal.Journal, _ journal.Recovery) (func(), error) {
	now, err := drain.Read(next)
	if err != nil {
		return nil, err
	}
	before, err := drain.Read(b.journal)
	if err != nil {
		return nil, err
	}
	return func() {
		for name := range before {
			if now[name] == nil {
				b.system.SetDraining(context.Background(), name, nil)
			}
		}
		for name, notice := range now {
			b.system.SetDraining(context.Background(), name, notice)
		}
	}, nil
}

// renewCredentials: whoever the restored journal does not know is out at once.
func (b *running) renewCredentials(next *journal.Journal, _ journal.Recovery) (func(), error) {
	return b.access.desk.Renew(credentialStore{next, b.log})
}

// Stop has serve go down. The front lets the answers that are on their way out
// first, as at a signal.
func (k *keeper) Stop(who broker.Principal) {
	k.running.log.Info("the broker was told to stop", slog.String("principal", who.Key()))
	select {
	case k.running.stopAsked <- struct{}{}:
	default: // it was told before
	}
}

// odd are the characters that a client's name of a file does not keep.
var odd = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// maxUploadName bounds such a name, in characters.
const maxUploadName = 100

// Keep writes an archive that a client sent, under the name that it gave as far
// as that is harmless.
func (k *keeper) Keep(body io.Reader, name string) (path string, remove func() error, err error) {
	if err := os.MkdirAll(filepath.Join(k.state, uploadsDir), 0o700); err != nil {
		return "", nil, fmt.Errorf("make room for an archive: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Join(k.state, uploadsDir), "*")
	if err != nil {
		return "", nil, fmt.Errorf("make room for an archive: %w", err)
	}
	remove = sync.OnceValue(func() error { return os.RemoveAll(dir) })
	name = odd.ReplaceAllString(filepath.Base(name), "_")
	path = filepath.Join(dir, "archive-"+name[:min(len(name), maxUploadName)])
	if err := archive.WriteFile(path, func(f *os.File) error { _, err := io.Copy(f, body); return err }); err != nil {
		return "", nil, errors.Join(fmt.Errorf("keep an archive: %w", err), remove())
	}
	return path, remove, nil
}
