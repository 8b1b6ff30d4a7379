package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"berth/broker"
	"berth/journal"
)

// Running is a broker whose journal is replaced under it.
type Running struct {
	Journal *journal.Journal
	// Suspended is what a write hears meanwhile: a refusal that says to come back.
	Suspended error
	// Renew is given the journal that is to come, recovered, and prepares
	// everything that was read from the present one. What it gives takes effect
	// when the journal does; it must not fail.
	Renew  func(next *journal.Journal, r journal.Recovery) (apply func(), err error)
	Action string // what to do about unfinished work
}

// RestoreRunning is Restore under a running broker. Everything that can fail is
// done beside the present journal: the archive is read and checked, new jobs are
// refused and there must be none that is unfinished, then every write is
// refused, the safety copy is made, and the new journal is opened and recovered
// (its unfinished jobs become Lost). Renaming it and giving it to whoever uses
// the journal is one step of the journal's writer. An error before that leaves
// everything as it was; the end of ctx counts until then.
func RestoreRunning(ctx context.Context, state, path string, o Options, run Running, step func(point string) error) (done Restored, err error) {
	told, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A step that fails ends what follows, as a failure of its own would.
	at := func(point string) {
		if err := step(point); err != nil {
			cancel(fmt.Errorf("%s: %w", point, err))
		}
	}
	defer os.RemoveAll(filepath.Join(state, StagingDir))
	m, err := stage(told, state, path, at)
	if err != nil {
		return done, err
	}
	if err := run.Journal.Suspend(told, journal.Creations, run.Suspended); err != nil {
		return done, err
	}
	defer run.Journal.Resume()
	at("creations-suspended")
	if err := idle(run.Journal, o, run.Action); err != nil {
		return done, err
	}
	if err := run.Journal.Suspend(told, journal.AllWrites, run.Suspended); err != nil {
		return done, err
	}
	at("writes-suspended")
	safety, err := safetyCopy(told, state, run.Journal, o)
	if err != nil {
		return done, err
	}
	at("safety-made")
	retire, err := switchRunning(told, state, m, safety, o, run, at)
	if err != nil {
		return done, err
	}
	run.Journal.Resume()
	// The new journal stands, whatever comes of the rest.
	return restored(m, &safety), retire()
}

// switchRunning puts the staged journal in the place of the present one.
func switchRunning(ctx context.Context, state string, m Manifest, safety string, o Options, run Running, at func(string)) (retire func() error, err error) {
	next, err := journal.Open(filepath.Join(state, StagingDir, journalName), journal.Options{})
	if err != nil {
		return nil, fmt.Errorf("open the journal of the archive: %w", err)
	}
	apply, err := prepare(ctx, next, m, safety, o, run, at)
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	results, err := moveResults(state, at)
	if err == nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), results.undo())
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	var unsynced error
	close, err := run.Journal.Adopt(context.WithoutCancel(ctx), next, func() error {
		if err := place(state); err != nil {
			return err
		}
		at("journal-switched")
		unsynced = journal.SyncDir(state) // it stands under its name all the same
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, results.undo())
	}
	apply()
	return func() error {
		at("journal-adopted")
		return errors.Join(unsynced, close(), removeOthers(results.dir, results.wanted))
	}, nil
}

// prepare makes the staged journal what a start would find, and readies whoever
// has read the present one.
func prepare(ctx context.Context, next *journal.Journal, m Manifest, safety string, o Options, run Running, at func(string)) (apply func(), err error) {
	if err := note(ctx, next, m, &safety); err != nil {
		return nil, err
	}
	if o.Carry != nil {
		if err := o.Carry(ctx, run.Journal, next); err != nil {
			return nil, err
		}
	}
	recovery, err := next.Recover(ctx, o.Now())
	if err != nil {
		return nil, err
	}
	at("recovered")
	if apply, err = run.Renew(next, recovery); err != nil {
		return nil, fmt.Errorf("read what the restored journal holds: %w", err)
	}
	at("renewed")
	return apply, context.Cause(ctx)
}

// Suspended is the refusal that a write, or a new call, hears while a journal
// is replaced.
func Suspended() *broker.Refusal {
	return broker.Refuse(broker.CodeRestoreInProgress, "A backup is being restored; nothing was started or written.", nil).Retry(retryAfter)
}
