//go:build unix

package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The ways in which a branch cannot be merged; the target is as it was.
var (
	ErrConflict    = errors.New("the branches change the same lines")
	ErrDirty       = errors.New("the working directory holds what is not committed")
	ErrMerging     = errors.New("a merge is under way in the working directory")
	ErrOtherBranch = errors.New("the working directory is on another branch")
)

// identity is the author of merge commits where the user configured none.
var identity = []string{"-c", "user.name=Berth", "-c", "user.email=berth@localhost"}

// MergeInto merges a commit of the repository into a branch of the working
// directory that a person uses. It must be on that branch and clean, and is
// left as it was when the merge fails.
func (r *Repo) MergeInto(ctx context.Context, work *Repo, branch, commit, message string) (string, error) {
	if err := r.Restore(ctx); err != nil { // what serves the fetch reads them
		return "", err
	}
	release, err := work.hold(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	on, err := work.Branch(ctx)
	if err != nil {
		return "", err
	}
	if on != branch {
		return "", fmt.Errorf("%w: %q, not %q", ErrOtherBranch, on, branch)
	}
	dirty, err := work.Dirty(ctx)
	if err != nil {
		return "", err
	}
	if dirty {
		return "", ErrDirty
	}
	if err := work.unmerged(ctx, commit); err != nil {
		return "", err
	}
	if _, err := work.run(ctx, "fetch", "--quiet", "--no-tags", "--no-auto-gc", "--end-of-options", r.dir, commit); err != nil {
		return "", err
	}
	return work.merge(ctx, commit, message)
}

// unmerged refuses a working directory in the middle of a merge, which need not
// show in its files and would be taken back with ours when that fails. One of
// commit itself is what an earlier try could not take back: it is now.
func (r *Repo) unmerged(ctx context.Context, commit string) error {
	of, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "MERGE_HEAD")
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.Detail == "": // there is none
		return nil
	case err != nil:
		return err
	case strings.TrimSpace(of) != commit:
		return ErrMerging
	}
	_, err = r.run(ctx, "merge", "--abort")
	return err
}

// MergeBare merges a commit into a branch of the bare repository, through a
// worktree that is made for it at scratch and removed again. It merges into what
// Berth landed there before, or into origin's when it is the first time or origin's
// history was written anew; what else stands on the branch is kept as the branch
// kept, and not merged.
func (r *Repo) MergeBare(ctx context.Context, scratch, branch, commit, message string) (merged, kept string, err error) {
	if err := errors.Join(CheckRef(branch), r.Adopt(ctx, branch)); err != nil {
		return "", "", err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return "", "", err
	}
	defer release()
	from, err := r.Landed(ctx, branch)
	was := from
	switch {
	case err == nil:
		from, err = r.onto(ctx, branch, from, commit)
	case errors.Is(err, ErrNoRef):
		from, err = r.At(ctx, "refs/remotes/origin/"+branch)
		was = strings.Repeat("0", len(from)) // it must not be there
	}
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(filepath.Dir(scratch), 0o700); err != nil {
		return "", "", fmt.Errorf("merge: %w", err)
	}
	if _, err := os.Lstat(scratch); !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		if err := r.removeWorktree(ctx, scratch); err != nil {
			return "", "", fmt.Errorf("merge: %w", err)
		}
	}
	if _, err := r.git.run(ctx, r.git.opts.Network, r, "worktree", "add", "--quiet", "--detach", "--end-of-options", scratch, from); err != nil {
		return "", "", err
	}
	defer func() {
		// Without the caller's limit: what was made has to go.
		_, _ = r.run(context.WithoutCancel(ctx), "worktree", "remove", "--force", scratch)
		_ = removeAll(scratch)
	}()
	if merged, err = r.git.Repo(scratch).merge(ctx, commit, message); err != nil {
		return "", "", err
	}
	var landing []string // first, so that one that is killed is found by the next
	if !r.origin {
		landing = append(landing, "update "+landedRefs+branch+" "+merged+" "+was)
	}
	kept, err = r.settle(ctx, branch, merged, "berth: "+message, landing...)
	return merged, kept, err
}

// onto is what a commit is merged into where Berth landed before: that, unless they
// have nothing in common because the commit stands on what origin's history has
// become; then origin's.
func (r *Repo) onto(ctx context.Context, branch, landed, commit string) (string, error) {
	_, err := r.run(ctx, "merge-base", "--end-of-options", landed, commit)
	var failed *Error
	if err == nil || !errors.As(err, &failed) || failed.Detail != "" {
		return landed, err
	}
	at, err := r.At(ctx, "refs/remotes/origin/"+branch)
	if err != nil {
		return landed, ignore(err, ErrNoRef)
	}
	if in, err := r.Contains(ctx, commit, at); err != nil || !in {
		return landed, err
	}
	return at, nil
}

// merge merges into what is checked out here, with a merge commit.
func (r *Repo) merge(ctx context.Context, commit, message string) (string, error) {
	args := append(append([]string(nil), identity...), "merge", "--quiet", "--no-ff", "--no-edit", "-m", message, "--end-of-options", commit)
	if r.Identified(ctx) {
		args = args[len(identity):]
	}
	_, err := r.git.run(ctx, r.git.opts.Network, r, args...)
	if err == nil {
		return r.Head(ctx)
	}
	unmerged, lsErr := r.run(ctx, "ls-files", "--unmerged")
	_, _ = r.run(context.WithoutCancel(ctx), "merge", "--abort") // nothing to abort when it did not begin
	if lsErr == nil && unmerged != "" {
		return "", ErrConflict
	}
	return "", err
}
