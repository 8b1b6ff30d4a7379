//go:build unix

package dock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/transport/git"
)

// Secrets gives credentials by name; an empty one: there is none.
type Secrets interface {
	Secret(name string) (string, error)
}

// Options is what docks need. All are required.
type Options struct {
	Root  string // of the worktrees; nothing outside it is removed
	Repos string // the bare clones, <vessel>.git; those of the code index
	// Closed is a directory from which no file is placed in a worktree: the
	// broker's own, with its credentials.
	Closed  string
	Git     *git.Git // the one of the code index, since they share locks
	Secrets Secrets
	Papers  *Papers
	Log     *slog.Logger
}

// Docks makes worktrees, and does with what was made in them as missions want;
// it satisfies missions.Docks.
type Docks struct{ opts Options }

var _ missions.Docks = (*Docks)(nil)

// NewDocks makes docks.
func NewDocks(o Options) *Docks { return &Docks{o} }

// repo is the bare clone of a vessel, which may not be there yet.
func (d *Docks) repo(v dispatch.Vessel) (*git.Repo, error) {
	if !missionName.MatchString(v.ID) {
		return nil, errors.New("this names no vessel")
	}
	dir := filepath.Join(d.opts.Repos, v.ID+".git")
	if v.LocalPath != nil {
		dir = *v.LocalPath
	}
	token, err := d.opts.Secrets.Secret("vessel-" + v.ID)
	if err != nil {
		return nil, err
	}
	repo := d.opts.Git.Repo(dir).WithToken(origin(v), token)
	if git.LocalPath(origin(v)) == repo.Dir() {
		repo = repo.AsOrigin()
	}
	return repo, nil
}

// origin is where a vessel's commits come from.
func origin(v dispatch.Vessel) string {
	if v.RepoURL == "" && v.WorkingDirectory != nil {
		return *v.WorkingDirectory
	}
	return v.RepoURL
}

// recent is how old a fetch may be for a look at refs. A dispatch looks at many.
const recent = 5 * time.Second

// follow brings a vessel's bare clone up to date; age is as in git.Repo.Follow.
func (d *Docks) follow(ctx context.Context, v dispatch.Vessel, age time.Duration) (repo *git.Repo, warnings []string, err error) {
	if repo, err = d.repo(v); err != nil {
		return nil, nil, err
	}
	stale, err := repo.Follow(ctx, origin(v), age)
	if err != nil {
		return nil, nil, fmt.Errorf("clone the repository: %w", err)
	}
	if err := repo.Adopt(ctx, v.DefaultBranch); err != nil {
		return nil, nil, fmt.Errorf("find where missions landed: %w", err)
	}
	if stale != nil {
		warnings = append(warnings, "The repository could not be fetched; this is what was fetched before: "+stale.Error())
	}
	return repo, warnings, nil
}

// Resolve gives the commit that a branch, tag or commit of a vessel's repository
// is at; an empty name is the default branch. One that is not there is the Fault
// start_from_ref_missing.
func (d *Docks) Resolve(ctx context.Context, v dispatch.Vessel, ref string) (string, error) {
	var fault *dispatch.Fault
	for age := recent; ; age = 0 {
		repo, warnings, err := d.follow(ctx, v, age)
		if err != nil {
			return "", err
		}
		commit, _, err := d.resolve(ctx, repo, v, ref)
		switch {
		case !errors.As(err, &fault):
			return commit, err
		case age == 0 && len(warnings) > 0:
			return "", &dispatch.Fault{Reason: fault.Reason, Message: fault.Message + " " + warnings[0]}
		case age == 0:
			return "", err
		}
	}
}

func (d *Docks) resolve(ctx context.Context, repo *git.Repo, v dispatch.Vessel, ref string) (commit string, warnings []string, err error) {
	name := ref
	if name == "" {
		name = v.DefaultBranch
	}
	if name == v.DefaultBranch {
		commit, warnings, err = d.base(ctx, repo, v)
	} else {
		commit, err = repo.Resolve(ctx, name)
	}
	if errors.Is(err, git.ErrNoRef) || errors.Is(err, dispatch.ErrBranch) {
		return "", nil, &dispatch.Fault{Reason: dispatch.StartFromRefMissing, Message: fmt.Sprintf("The repository has no branch, tag or commit %q.", name)}
	}
	return commit, warnings, err
}

// Landed reports whether a commit is in the history of the default branch: at
// origin, where missions landed in the clone, or in the working directory. The error says that it could
// not be found out.
func (d *Docks) Landed(ctx context.Context, v dispatch.Vessel, commit string) (bool, error) {
	repo, _, err := d.follow(ctx, v, recent)
	if err != nil {
		return false, err
	}
	if err := repo.Has(ctx, commit); err != nil {
		return false, err
	}
	looked := false
	for _, tip := range []func() (string, error){
		func() (string, error) { return repo.At(ctx, "refs/remotes/origin/"+v.DefaultBranch) },
		func() (string, error) { return repo.Landed(ctx, v.DefaultBranch) },
		func() (string, error) {
			if v.WorkingDirectory == nil {
				return "", git.ErrNoRef
			}
			return repo.FetchFrom(ctx, d.opts.Git.Repo(*v.WorkingDirectory), v.DefaultBranch)
		},
	} {
		at, tipErr := tip()
		if errors.Is(tipErr, git.ErrNoRef) {
			continue
		}
		if tipErr == nil {
			var in bool
			if in, tipErr = repo.Contains(ctx, at, commit); in && tipErr == nil {
				return true, nil
			}
		}
		looked, err = true, errors.Join(err, tipErr)
	}
	if !looked {
		return false, fmt.Errorf("%w: %s", git.ErrNoRef, v.DefaultBranch)
	}
	return false, err
}

// working is the working directory in which a vessel's missions land; nil: they
// land in the clone. A bare repository is none: nobody works in it. One that
// cannot be looked at is.
func (d *Docks) working(ctx context.Context, v dispatch.Vessel) (*git.Repo, error) {
	if v.WorkingDirectory == nil {
		return nil, nil
	}
	work := d.opts.Git.Repo(*v.WorkingDirectory)
	if bare, err := work.Bare(ctx); err == nil && bare || ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return work, nil
}

// base is where the default branch is: at origin, or, where missions land
// locally, where they landed, when that holds all that origin has. What else
// stands on that branch of the clone is somebody's who had a worktree of it.
func (d *Docks) base(ctx context.Context, repo *git.Repo, v dispatch.Vessel) (commit string, warnings []string, err error) {
	commit, err = repo.At(ctx, "refs/remotes/origin/"+v.DefaultBranch)
	if err != nil && !errors.Is(err, git.ErrNoRef) || err == nil && v.LandingMode != dispatch.LandLocalMerge {
		return commit, nil, err
	}
	// That it has no such branch is said below, when nothing landed there either.
	var work *git.Repo
	if v.LandingMode == dispatch.LandLocalMerge {
		if work, err = d.working(ctx, v); err != nil {
			return "", nil, err
		}
	}
	var landed string
	switch {
	case work == nil:
		if landed, err = repo.Landed(ctx, v.DefaultBranch); errors.Is(err, git.ErrNoRef) {
			landed, err = "", nil // nothing landed yet
		}
	case git.LocalPath(origin(v)) == work.Dir():
	default:
		var failed error
		if landed, failed = repo.FetchFrom(ctx, work, v.DefaultBranch); failed != nil {
			landed, warnings = "", append(warnings, "The working directory could not be read; what landed there and was not pushed is not in this: "+failed.Error())
		}
	}
	switch {
	case err != nil:
		return "", nil, err
	case landed == "" || landed == commit:
		if commit == "" {
			err = git.ErrNoRef
		}
		return commit, warnings, err
	case commit == "":
		return landed, warnings, nil
	}
	if all, err := repo.Contains(ctx, landed, commit); err != nil || all {
		return landed, warnings, err
	}
	if behind, err := repo.Contains(ctx, commit, landed); err != nil || behind {
		return commit, warnings, err
	}
	return commit, append(warnings, "The default branch went on at its origin without what landed here; this begins at the origin's."), nil
}

// Prepare makes a mission's worktree; see missions.Docks. A branch that is there
// already and is not where the mission begins has what an earlier try left: it is
// kept under another name.
func (d *Docks) Prepare(ctx context.Context, w missions.Work) (missions.Prepared, error) {
	var out missions.Prepared
	if err := d.within(w.Dock.Path); err != nil {
		return out, err
	}
	repo, warnings, err := d.follow(ctx, w.Vessel, 0)
	if err != nil {
		return out, err
	}
	from, more, err := d.start(ctx, repo, w)
	if err != nil {
		return out, err
	}
	out.StartCommit, out.Warnings = from, append(warnings, more...)
	if _, err := os.Lstat(w.Dock.Path); !errors.Is(err, fs.ErrNotExist) {
		if err := repo.RemoveWorktree(ctx, w.Dock.Path); err != nil {
			return out, err
		}
	}
	kept, err := d.setAside(ctx, repo, w.Dock.Branch, from)
	if err != nil {
		return out, err
	}
	if kept != "" {
		out.Warnings = append(out.Warnings, "The branch held commits of an earlier try; they are kept as "+kept+".")
	}
	if err := repo.AddWorktree(ctx, w.Dock.Path, w.Dock.Branch, from); err != nil {
		return out, err
	}
	if taken := repo.Taken(); len(taken) > 0 {
		out.Warnings = append(out.Warnings, takenAway(taken))
	}
	if err := d.prestage(w.Dock.Path, w.Mission.Prestaged); err != nil {
		// Without the caller's limit: what was made has to go.
		if removal := repo.RemoveWorktree(context.WithoutCancel(ctx), w.Dock.Path); removal != nil {
			err = errors.Join(err, removal)
		}
		return out, err
	}
	return out, nil
}

// start is the commit at which a mission begins.
func (d *Docks) start(ctx context.Context, repo *git.Repo, w missions.Work) (commit string, warnings []string, err error) {
	before := w.Before
	if before == nil || before.VesselID != w.Vessel.ID {
		ref := ""
		if w.Mission.StartFromRef != nil {
			ref = *w.Mission.StartFromRef
		}
		if ref == w.Dock.Branch { // what the dock held is wanted again
			commit, err := repo.At(ctx, "refs/heads/"+ref)
			if errors.Is(err, git.ErrNoRef) {
				err = &dispatch.Fault{Reason: dispatch.StartFromRefMissing, Message: "The branch " + ref + " is gone."}
			}
			return commit, nil, err
		}
		if pinned := w.Mission.StartCommit; ref != "" && pinned != nil { // where the ref was when the mission was made
			if err := repo.Has(ctx, *pinned); err != nil {
				return "", nil, &dispatch.Fault{Reason: dispatch.StartFromRefMissing, Message: fmt.Sprintf("The commit %s, at which %q was, is gone.", *pinned, ref)}
			}
			return *pinned, nil, nil
		}
		return d.resolve(ctx, repo, w.Vessel, ref)
	}
	switch {
	case before.Commit != nil:
		if err := repo.Has(ctx, *before.Commit); err != nil {
			return "", nil, fmt.Errorf("the commit of the mission before: %w", err)
		}
		return *before.Commit, nil, nil
	case before.Branch != nil:
		commit, err = repo.At(ctx, "refs/heads/"+*before.Branch)
		if err != nil {
			err = fmt.Errorf("the branch of the mission before: %w", err)
		}
		return commit, nil, err
	}
	return "", nil, errors.New("the mission before left no branch")
}

// setAside gives a branch that is not at the commit another name, which it
// returns; empty: there was nothing to do.
func (d *Docks) setAside(ctx context.Context, repo *git.Repo, branch, commit string) (string, error) {
	at, err := repo.At(ctx, "refs/heads/"+branch)
	switch {
	case errors.Is(err, git.ErrNoRef) || err == nil && at == commit:
		return "", nil
	case err != nil:
		return "", err
	}
	name := branch + "-" + at[:12]
	if was, err := repo.At(ctx, "refs/heads/"+name); err == nil && was == at {
		return name, repo.DeleteBranch(ctx, branch) // it is kept already
	}
	return name, repo.MoveBranch(ctx, branch, name)
}

// within refuses a path that is not below the root of the worktrees.
func (d *Docks) within(path string) error {
	inside, err := filepath.Rel(d.opts.Root, path)
	if err != nil || !filepath.IsAbs(path) || filepath.Clean(path) != path || inside == "." || inside == ".." || strings.HasPrefix(inside, "../") {
		return errors.New("the worktree is not where docks are")
	}
	return nil
}

// Reclaim removes a worktree; see missions.Docks. What a mission's branch held is
// in the default branch once it has landed, and it goes then, unless the
// vessel keeps its branches. Nothing was pushed, so nothing goes at origin.
func (d *Docks) Reclaim(ctx context.Context, v dispatch.Vessel, dock dispatch.Dock, landed bool) error {
	if err := d.within(dock.Path); err != nil {
		return err
	}
	repo, err := d.repo(v)
	if err != nil {
		return err
	}
	d.farewell(ctx, repo, dock)
	if err := repo.RemoveWorktree(ctx, dock.Path); err != nil {
		return err
	}
	if !landed || v.BranchCleanup == "None" {
		return nil
	}
	if _, err := repo.At(ctx, "refs/heads/"+dock.Branch); err != nil {
		return nil // it is gone, or the repository is
	}
	return repo.DeleteBranch(ctx, dock.Branch)
}

// tree is the worktree of a dock, once its repository has no settings of anybody's
// that git would run something for.
func (d *Docks) tree(ctx context.Context, repo *git.Repo, dock dispatch.Dock) (*git.Repo, error) {
	if err := repo.Restore(ctx); err != nil {
		return nil, err
	}
	return repo.Worktree(dock.Path)
}

// farewell says what goes with a worktree that nobody collected, because the
// broker stopped.
func (d *Docks) farewell(ctx context.Context, repo *git.Repo, dock dispatch.Dock) {
	if dock.MissionID == nil {
		return
	}
	if _, saved, err := d.opts.Papers.Diff(*dock.MissionID); saved || err != nil {
		return
	}
	if _, err := os.Lstat(filepath.Join(dock.Path, ".git")); err != nil {
		return
	}
	if tree, err := d.tree(ctx, repo, dock); err == nil {
		if status, err := statusOf(ctx, tree); err == nil && status != "" {
			d.opts.Papers.Note(*dock.MissionID, leaves(status))
		}
	}
}
