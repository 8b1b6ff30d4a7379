//go:build unix

package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// own reports whether nobody works in the repository but this Git and who is
// given a worktree of it.
func (r *Repo) own() bool {
	inside, err := filepath.Rel(r.git.opts.Own, r.dir)
	return r.git.opts.Own != "" && err == nil && filepath.IsLocal(inside) && inside != "."
}

// first frees what was locked before this process. It comes before the first
// worktree is given away, so nobody works in the repository; the caller holds it.
func (r *Repo) first() {
	r.git.mu.Lock()
	freed := r.git.freed[r.dir]
	r.git.freed[r.dir] = true
	r.git.mu.Unlock()
	if !freed && r.own() {
		r.free()
	}
}

// last frees what is locked when the repository has no worktree any more. The
// caller holds it.
func (r *Repo) last() {
	if !r.own() {
		return
	}
	if left, err := os.ReadDir(filepath.Join(r.dir, "worktrees")); err == nil && len(left) > 0 {
		return
	}
	r.free()
}

// free removes the locks of a git that was killed: nobody would, and every
// command that wants one fails. A file that cannot be removed is named by the
// command that it hinders.
func (r *Repo) free() {
	_ = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read is named by the command that reads it
		case d.IsDir() && path == filepath.Join(r.dir, "objects"):
			return fs.SkipDir // nothing of these is locked but by a repack, which does without
		case d.IsDir():
		case strings.HasSuffix(d.Name(), ".lock") || d.Name() == "locked" && filepath.Dir(filepath.Dir(path)) == filepath.Join(r.dir, "worktrees"):
			_ = os.Remove(path)
		}
		return nil
	})
}
