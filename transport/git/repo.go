//go:build unix

package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoRef is a name that the repository does not have.
var ErrNoRef = errors.New("the repository has no such branch, tag or commit")

// Clone makes the repository a bare one whose origin is url, unless it is there
// already. What a try that broke off left is begun anew. Nothing of url's hooks
// or settings is taken over.
func (r *Repo) Clone(ctx context.Context, url string) (err error) {
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if r.there() {
		return nil
	}
	fresh := r.dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	defer func() {
		if err != nil { // what was fetched may be what fills the disk
			_ = os.RemoveAll(fresh)
		}
	}()
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	at := *r
	at.dir = fresh
	for _, step := range [][]string{
		{"init", "--quiet", "--bare", "--template="},
		{"config", "--local", "remote.origin.url", url},
		{"config", "--local", "remote.origin.fetch", tracked},
	} {
		if _, err := at.run(ctx, step...); err != nil {
			return err
		}
	}
	if err := at.fetch(ctx); err != nil {
		return err
	}
	if err := at.keepLandings(ctx); err != nil {
		return err
	}
	if err := r.clear(); err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	if err := os.Rename(fresh, r.dir); err != nil {
		return fmt.Errorf("put the clone in its place: %w", err)
	}
	return nil
}

// there reports whether a bare repository stands in the directory, by what git
// itself goes by.
func (r *Repo) there() bool {
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(r.dir, part)); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// maxRuins is how many repositories that broke are kept.
const maxRuins = 100

// clear moves what stands at the place of a repository of Berth's own and is
// none, since it may hold somebody's commits. Anybody else's directory stays; an
// empty one is in nobody's way.
func (r *Repo) clear() error {
	if !r.own() {
		return nil
	}
	if left, err := os.ReadDir(r.dir); errors.Is(err, fs.ErrNotExist) || err == nil && len(left) == 0 {
		return nil
	}
	for n := range maxRuins {
		ruin := fmt.Sprintf("%s.broken-%d", r.dir, n+1)
		if _, err := os.Lstat(ruin); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(r.dir, ruin)
		}
	}
	return fmt.Errorf("%s is no repository", r.dir)
}

// Fetch brings the branches and tags of origin.
func (r *Repo) Fetch(ctx context.Context) error {
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	return r.fetch(ctx)
}

func (r *Repo) fetch(ctx context.Context) error {
	args := []string{"fetch", "--quiet", "--prune", "--tags", "--force", "--no-auto-gc"}
	if r.own() {
		args = append(args, "--upload-pack=git-upload-pack") // whatever a setting of the clone names
	}
	_, err := r.git.run(ctx, r.git.opts.Network, r, append(args, "origin", tracked)...)
	return err
}

var commitID = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// Resolve gives the commit that a branch, a tag or an id names: a branch of
// origin before one of the repository's own, before a tag, before an id. A name
// that is not there is ErrNoRef.
func (r *Repo) Resolve(ctx context.Context, name string) (string, error) {
	if err := CheckRef(name); err != nil {
		return "", err
	}
	names := []string{"refs/remotes/origin/" + name, "refs/heads/" + name, "refs/tags/" + name}
	if commitID.MatchString(name) {
		names = append(names, name)
	}
	for _, ref := range names {
		out, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
		var failed *Error
		if errors.As(err, &failed) && failed.Detail == "" {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(out), nil
	}
	return "", fmt.Errorf("%w: %s", ErrNoRef, name)
}

// AddWorktree makes a worktree of the repository at path, on branch. A branch
// that is not there begins at the commit from. What stands at path already, or
// the branch when another worktree has it, is an error.
func (r *Repo) AddWorktree(ctx context.Context, path, branch, from string) error {
	if err := CheckRef(branch); err != nil {
		return err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("add a worktree: %w", cmpErr(err, fs.ErrExist))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("add a worktree: %w", err)
	}
	if _, err := r.run(ctx, "worktree", "prune"); err != nil {
		return err
	}
	args := []string{"worktree", "add", "--quiet", "--end-of-options", path, branch}
	if _, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
		args = []string{"worktree", "add", "--quiet", "-b", branch, "--no-track", "--end-of-options", path, from}
	}
	if _, err := r.git.run(ctx, r.git.opts.Network, r, args...); err != nil { // a large one takes its time
		return err
	}
	_, err = r.git.Repo(path).Head(ctx)
	return err
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// RemoveWorktree removes a worktree of the repository and its directory, also
// when git no longer knows of it, or the repository is gone. The branch stays.
func (r *Repo) RemoveWorktree(ctx context.Context, path string) error {
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if !r.there() {
		if err := removeAll(path); err != nil {
			return fmt.Errorf("remove a worktree: %w", err)
		}
		return nil
	}
	return r.removeWorktree(ctx, path)
}

// removeWorktree is RemoveWorktree of a repository that is there and held.
func (r *Repo) removeWorktree(ctx context.Context, path string) error {
	_, _ = r.run(ctx, "worktree", "unlock", path) // an agent may have locked it; else there is nothing to unlock
	_, _ = r.git.run(ctx, r.git.opts.Network, r, "worktree", "remove", "--force", "--force", path)
	if err := removeAll(path); err != nil {
		return fmt.Errorf("remove a worktree: %w", err)
	}
	_, _ = r.run(ctx, "worktree", "prune") // what git remembers of one that is gone is in nobody's way, and pruned by the next
	r.last()
	return nil
}

// removeAll removes a tree whose directories may be closed to their owner.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// Head gives the commit that a repository or worktree stands on.
func (r *Repo) Head(ctx context.Context) (string, error) {
	out, err := r.run(ctx, "rev-parse", "--verify", "--end-of-options", "HEAD^{commit}")
	return strings.TrimSpace(out), err
}

// Bare reports whether a repository has no files checked out.
func (r *Repo) Bare(ctx context.Context) (bool, error) {
	out, err := r.run(ctx, "rev-parse", "--is-bare-repository")
	return strings.TrimSpace(out) == "true", err
}

// errNotBare is what Remove says of a directory that holds anything else.
var errNotBare = errors.New("the directory is no bare repository")

// Remove removes a bare repository with all that it holds. Another directory is
// left as it is; one that is not there is removed already.
func (r *Repo) Remove(ctx context.Context) error {
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Lstat(r.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, name := range []string{"HEAD", "objects", "refs"} { // git looks above a directory too
		if _, err := os.Stat(filepath.Join(r.dir, name)); err != nil {
			return errNotBare
		}
	}
	if bare, err := r.Bare(ctx); err != nil || !bare {
		return errors.Join(errNotBare, err)
	}
	return os.RemoveAll(r.dir)
}

// Branch gives the branch that a worktree is on; empty: none.
func (r *Repo) Branch(ctx context.Context) (string, error) {
	out, err := r.run(ctx, "branch", "--show-current")
	return strings.TrimSpace(out), err
}

// Contains reports whether commit is in the history of ref.
func (r *Repo) Contains(ctx context.Context, ref, commit string) (bool, error) {
	out, err := r.run(ctx, "rev-list", "--count", "--end-of-options", commit, "^"+ref)
	return strings.TrimSpace(out) == "0", err
}

// DeleteBranch deletes a branch that no worktree has, merged or not.
func (r *Repo) DeleteBranch(ctx context.Context, branch string) error {
	if err := CheckRef(branch); err != nil {
		return err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = r.run(ctx, "branch", "--quiet", "-D", "--end-of-options", branch)
	return err
}

// Fsck checks every object of the repository.
func (r *Repo) Fsck(ctx context.Context) error {
	_, err := r.run(ctx, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
	return err
}

// Has gives ErrNoRef when the repository lacks a commit.
func (r *Repo) Has(ctx context.Context, commit string) error {
	if !commitID.MatchString(commit) {
		return fmt.Errorf("%w: %s", ErrNoRef, commit)
	}
	_, err := r.run(ctx, "cat-file", "-e", commit+"^{commit}")
	var failed *Error
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %s", ErrNoRef, commit)
	}
	return err
}
