//go:build unix

package codeindex

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth/broker/native/codeindex"
	"berth/transport/git"
)

// errUpdating is an update that met another one of the vessel.
var errUpdating = errors.New("an update of this vessel runs already")

// Update clones or fetches the vessel's repository and brings its index to the
// commit that the branch is at then. A fetch that fails is a warning: the index
// becomes that of what was fetched last. Nothing of the finished index changes
// before the new one takes its place.
func (e *Engine) Update(ctx context.Context, from codeindex.Source, now func() time.Time, tell func(codeindex.Progress)) (codeindex.Built, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &updating{cancel, make(chan struct{})}
	e.mu.Lock()
	if e.updates[from.VesselID] != nil {
		e.mu.Unlock()
		return codeindex.Built{}, nil, errUpdating
	}
	e.updates[from.VesselID] = u
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.updates, from.VesselID)
		e.mu.Unlock()
		close(u.done)
	}()

	tell(codeindex.Progress{Stage: "Fetching"})
	repo := e.opts.Git.Repo(e.clone(from.VesselID))
	if e.opts.Token != nil {
		repo = repo.WithToken(from.URL, e.opts.Token(from.VesselID))
	}
	stale, err := repo.Follow(ctx, from.URL, 0)
	if err != nil {
		return codeindex.Built{}, nil, err
	}
	var warnings []string
	if stale != nil {
		warnings = []string{"The repository could not be fetched; the index is of what was fetched before: " + stale.Error()}
	}
	commit, err := repo.At(ctx, "refs/remotes/origin/"+from.Branch)
	if err != nil {
		return codeindex.Built{}, warnings, fmt.Errorf("find the branch %s: %w", from.Branch, err)
	}
	m, err := e.build(ctx, repo, from, commit, false, now, tell)
	if err != nil {
		return codeindex.Built{}, warnings, err
	}
	return m.built(), warnings, nil
}

// build makes the database of a commit and puts it in its place; anew: with nothing
// of the former one.
func (e *Engine) build(ctx context.Context, repo *git.Repo, from codeindex.Source, commit string, anew bool, now func() time.Time, tell func(codeindex.Progress)) (m meta, err error) {
	dir := e.dir(from.VesselID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	var before *meta
	if r, release, err := e.acquire(from.VesselID); err == nil {
		kept := r.meta
		before = &kept
		release()
	}
	if before != nil && (anew || before.Branch != from.Branch || before.URL != digest(from.URL)) {
		before = nil
	}
	if before != nil && before.Commit == commit {
		return *before, nil
	}
	next := filepath.Join(dir, unready)
	clear := func() {
		for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
			_ = os.Remove(next + suffix) // after the rename there is nothing
		}
	}
	clear()
	defer clear()
	var changed []git.Entry
	if before != nil {
		if changed, err = e.changes(ctx, repo, before.Commit, commit); err != nil {
			if ctx.Err() != nil {
				return m, err
			}
			before = nil // the former commit is gone from the repository
		} else if len(changed) > before.Files/2 {
			before = nil
		}
	}
	if before == nil {
		if changed, err = e.tree(ctx, repo, commit); err != nil {
			return m, err
		}
	} else if err := copyFile(filepath.Join(dir, finished), next); err != nil {
		return m, err
	}
	m = meta{Format: format, Commit: commit, Branch: from.Branch, URL: digest(from.URL)}
	w := writer{limits: e.opts, tell: tell, fresh: before == nil}
	if err := w.write(ctx, next, repo, changed, &m, now); err != nil {
		if before != nil && damaged(err) && ctx.Err() == nil { // what was copied is
			return e.build(ctx, repo, from, commit, true, now, tell)
		}
		return m, fmt.Errorf("write the index: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return m, err
	}
	if err := publish(dir); err != nil {
		return m, err
	}
	e.retire(from.VesselID)
	return m, nil
}

// publish puts the new index in the place of the former one.
func publish(dir string) error {
	if err := syncPath(filepath.Join(dir, unready)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, unready), filepath.Join(dir, finished)); err != nil {
		return err
	}
	return syncPath(dir)
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// tree lists the files of a commit. What is far beyond the limit of files is an
// error, since it could not be held.
func (e *Engine) tree(ctx context.Context, repo *git.Repo, commit string) ([]git.Entry, error) {
	var out []git.Entry
	err := repo.Tree(ctx, commit, func(entry git.Entry) error {
		out = append(out, entry)
		if len(out) > 4*e.opts.MaxFiles {
			return fmt.Errorf("the commit has more than %d files", 4*e.opts.MaxFiles)
		}
		return nil
	})
	return out, err
}

func (e *Engine) changes(ctx context.Context, repo *git.Repo, from, to string) ([]git.Entry, error) {
	var out []git.Entry
	err := repo.Changed(ctx, from, to, func(entry git.Entry) error {
		out = append(out, entry)
		if len(out) > 4*e.opts.MaxFiles {
			return fmt.Errorf("more than %d files changed", 4*e.opts.MaxFiles)
		}
		return nil
	})
	return out, err
}

// setMeta counts what stands in the database and writes what it says of itself.
func setMeta(ctx context.Context, tx *sql.Tx, m *meta) error {
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM files WHERE skipped = ''").Scan(&m.Files); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM chunks").Scan(&m.Chunks); err != nil {
		return err
	}
	m.Skipped = map[string]int{}
	rows, err := tx.QueryContext(ctx, "SELECT skipped, count(*) FROM files WHERE skipped <> '' GROUP BY skipped")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err below says what went wrong
	for rows.Next() {
		var reason string
		var n int
		if err := rows.Scan(&reason, &n); err != nil {
			return err
		}
		m.Skipped[reason] = n
	}
	if err := rows.Err(); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta(key, value) VALUES('meta', ?)", string(raw))
	return err
}
