//go:build unix

package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Identified reports whether commits made here have an author that somebody
// configured.
func (r *Repo) Identified(ctx context.Context) bool {
	email, err := r.run(ctx, "config", "user.email")
	return err == nil && strings.TrimSpace(email) != ""
}

// ownSubmodules has git look at the commit of a submodule alone: to look into its
// files it would run another git there, with the settings of that repository.
const ownSubmodules = "--ignore-submodules=dirty"

// Dirty reports whether a worktree holds what is not committed, untracked files
// included.
func (r *Repo) Dirty(ctx context.Context) (bool, error) {
	text, err := r.Status(ctx, 1)
	return text != "", err
}

// Status lists what is not committed in a worktree, a line each, max bytes at
// most.
func (r *Repo) Status(ctx context.Context, max int64) (string, error) {
	var text strings.Builder
	_, err := r.write(ctx, &text, max, "status", "--porcelain", "--untracked-files=normal", ownSubmodules)
	return text.String(), err
}

// Diff writes to w what changed since a commit, as a patch, max bytes at most:
// in a worktree, committed or not, when until is empty, else up to that commit.
// Untracked files are not in it. cut says that there is more.
func (r *Repo) Diff(ctx context.Context, w io.Writer, max int64, since, until string) (cut bool, err error) {
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", ownSubmodules, "--end-of-options", since}
	if until != "" {
		args = append(args, until)
	}
	return r.write(ctx, w, max, args...)
}

// errEnough ends a command of which more is not wanted.
var errEnough = errors.New("that is enough")

// write gives w what git prints, max bytes at most. An error of w ends it.
func (r *Repo) write(ctx context.Context, w io.Writer, max int64, args ...string) (cut bool, err error) {
	err = r.pipe(ctx, r.git.opts.Limit, nil, func(out *bufio.Reader) error {
		_, err := io.CopyN(w, out, max)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := out.ReadByte(); err == nil {
			return errEnough
		}
		return nil
	}, args...)
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return false, err
}

// Between lists the paths that differ between where two commits parted and the
// second: what merging it would bring.
func (r *Repo) Between(ctx context.Context, from, to string) ([]string, error) {
	base, err := r.run(ctx, "merge-base", "--end-of-options", from, to)
	if err != nil {
		return nil, err
	}
	var paths []string
	err = r.Changed(ctx, strings.TrimSpace(base), to, func(e Entry) error {
		paths = append(paths, e.Path)
		return nil
	})
	return paths, err
}

// MoveBranch gives a branch that no worktree has another name.
func (r *Repo) MoveBranch(ctx context.Context, branch, name string) error {
	if err := errors.Join(CheckRef(branch), CheckRef(name)); err != nil {
		return err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = r.run(ctx, "branch", "--move", "--end-of-options", branch, name)
	return err
}

// Conceal keeps what stands at a path of one of the repository's worktrees out
// of its commits: a file that is tracked counts as unchanged there, any other is
// passed over. git has no list of the latter for one worktree, so it is the
// repository's own, which the clone of a person does not have in common with it.
func (r *Repo) Conceal(ctx context.Context, worktree, path string) error {
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	w, err := r.Worktree(worktree)
	if err != nil {
		return err
	}
	tracked, err := w.run(ctx, "ls-files", "--", ":(literal)"+path)
	if err != nil {
		return err
	}
	if tracked != "" {
		_, err := w.run(ctx, "update-index", "--skip-worktree", "--", path)
		return err
	}
	line := "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(filepath.ToSlash(path))
	list := filepath.Join(r.dir, "info", "exclude")
	had, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep a file out of commits: %w", err)
	}
	if slices.Contains(strings.Split(string(had), "\n"), line) {
		return nil
	}
	if len(had) > 0 && !strings.HasSuffix(string(had), "\n") {
		line = "\n" + line
	}
	err = os.MkdirAll(filepath.Dir(list), 0o700)
	if err == nil {
		err = os.WriteFile(list, append(had, line+"\n"...), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a file out of commits: %w", err)
	}
	return nil
}
