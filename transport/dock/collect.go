//go:build unix

package dock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"berth/actors/missions"
	"berth/broker/dispatch"
	"berth/transport/git"
)

// maxNamed is how many files a note names.
const maxNamed = 20

// Collect finds what a mission's branch stands on and saves what it changed; see
// missions.Docks. What is not on the branch is said in the mission's log, since
// the worktree goes. It gives no error: what cannot be known stays nil, and its
// cause is in the log.
func (d *Docks) Collect(ctx context.Context, w missions.Work) (missions.Collected, error) {
	var out missions.Collected
	note := func(format string, args ...any) { d.opts.Papers.Note(w.Mission.ID, fmt.Sprintf(format, args...)) }
	repo, err := d.repo(w.Vessel)
	if err != nil {
		note("What was made cannot be looked at: %v", err)
		return out, nil
	}
	head, err := repo.At(ctx, "refs/heads/"+w.Dock.Branch)
	switch {
	case errors.Is(err, git.ErrNoRef):
		note("The branch %s is gone.", w.Dock.Branch)
	case err != nil:
		note("The branch %s cannot be read: %v", w.Dock.Branch, err)
	default:
		out.Commit = &head
	}
	start := w.Mission.StartCommit
	if out.Commit != nil && start != nil {
		if all, err := repo.Contains(ctx, *start, head); err != nil {
			note("Whether there is a new commit cannot be found out: %v", err)
		} else {
			produced := !all
			out.Produced = &produced
		}
	}
	tree := d.remains(ctx, repo, w, head, note)
	if taken := repo.Taken(); len(taken) > 0 {
		note("%s", takenAway(taken))
	}
	if kept, err := repo.Straighten(ctx, w.Vessel.DefaultBranch); err != nil {
		note("Whether somebody committed on the clone's %s cannot be found out: %v", w.Vessel.DefaultBranch, err)
	} else if kept != "" {
		note("%s", aside(w.Vessel, kept))
	}
	if start == nil || tree == nil && out.Commit == nil {
		note("There is nothing to make a diff of.")
		return out, nil
	}
	from, until := repo, head
	if tree != nil {
		from, until = tree, ""
	}
	err = d.opts.Papers.save(w.Mission.ID, diffName, func(to io.Writer) error {
		return d.opts.Papers.writeDiff(ctx, to, from, *start, until)
	})
	if err != nil {
		note("The diff could not be saved: %v", err)
		d.opts.Log.Warn("a mission's diff could not be saved", slog.String("mission", w.Mission.ID), slog.String("cause", err.Error()))
	}
	if out.Commit != nil {
		if touched, err := d.protected(ctx, repo, w.Vessel, *start, head); err != nil {
			note("Whether protected paths changed cannot be found out: %v", err)
		} else if len(touched) > 0 {
			note("Paths that are protected were changed: %s.", named(touched))
		}
	}
	return out, nil
}

// remains tells of what is in the worktree and not on the branch. It gives the
// worktree when it stands on the branch; nil: it is gone, or elsewhere.
func (d *Docks) remains(ctx context.Context, repo *git.Repo, w missions.Work, head string, note func(string, ...any)) *git.Repo {
	if _, err := os.Lstat(filepath.Join(w.Dock.Path, ".git")); err != nil {
		note("The worktree is gone.")
		return nil
	}
	tree, err := d.tree(ctx, repo, w.Dock)
	if err != nil {
		note("The worktree cannot be looked at: %v", err)
		return nil
	}
	status, err := statusOf(ctx, tree)
	if err != nil {
		note("The worktree cannot be looked at: %v", err)
		return nil
	}
	if status != "" {
		note("%s", leaves(status))
	}
	at, err := tree.Head(ctx)
	if err != nil {
		note("The worktree stands on no commit: %v", err)
		return nil
	}
	if at != head {
		branch, _ := tree.Branch(ctx) // empty: none
		note("The worktree stands on %s (branch %q) and not on the mission's branch; commits there do not count.", at, branch)
		return nil
	}
	return tree
}

// takenAway says what is gone of a clone's settings.
func takenAway(names []string) string {
	return "Who worked in the clone had left settings or files of git's there; they were taken away: " + named(names) + "."
}

// aside says what became of commits on the default branch that nobody landed.
func aside(v dispatch.Vessel, kept string) string {
	return fmt.Sprintf("The clone's %s held commits that were not landed. They count for no mission; they are kept as the branch %s, and %s is without them.", v.DefaultBranch, kept, v.DefaultBranch)
}

// leaves says what is lost with a worktree.
func leaves(status string) string {
	return "The worktree holds what was not committed and goes with it: " + named(strings.Split(strings.TrimSuffix(status, "\n"), "\n")) + "."
}

// named lists some of what there is.
func named(list []string) string {
	more := ""
	if len(list) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(list)-maxNamed)
		list = list[:maxNamed]
	}
	return strings.ToValidUTF8(strings.Join(list, ", "), "\uFFFD") + more
}

// protected lists the vessel's protected paths that merging one commit into
// another would change.
func (d *Docks) protected(ctx context.Context, repo *git.Repo, v dispatch.Vessel, into, commit string) ([]string, error) {
	if len(v.ProtectedPaths) == 0 {
		return nil, nil
	}
	paths, err := repo.Between(ctx, into, commit)
	if err != nil {
		return nil, err
	}
	var touched []string
	for _, path := range paths {
		if guards(v.ProtectedPaths, path) {
			touched = append(touched, path)
		}
	}
	return touched, nil
}

// Land merges a mission's commit into the vessel's default branch; see
// missions.Docks. A branch that changes a protected path is not landed: the Fault
// protected_path_changed.
func (d *Docks) Land(ctx context.Context, w missions.Work) (string, error) {
	m, v := w.Mission, w.Vessel
	if m.Commit == nil {
		return "", errors.New("the mission has no commit to land")
	}
	repo, err := d.repo(v)
	if err != nil {
		return "", err
	}
	if len(v.ProtectedPaths) > 0 {
		base, _, err := d.base(ctx, repo, v)
		if err != nil {
			return "", fmt.Errorf("find the default branch: %w", err)
		}
		touched, err := d.protected(ctx, repo, v, base, *m.Commit)
		if err != nil {
			return "", fmt.Errorf("look for protected paths: %w", err)
		}
		if len(touched) > 0 {
			return "", &dispatch.Fault{Reason: dispatch.ProtectedPathChanged, Message: "The branch changes paths that the vessel protects: " + named(touched) + ". It was not merged."}
		}
	}
	message := fmt.Sprintf("Land %s (%s)", subject(m.Title), m.ID)
	work, err := d.working(ctx, v)
	if err != nil {
		return "", err
	}
	var commit, kept string
	if work != nil {
		commit, err = repo.MergeInto(ctx, work, v.DefaultBranch, *m.Commit, message)
	} else {
		commit, kept, err = repo.MergeBare(ctx, filepath.Join(d.opts.Root, ".landing", m.ID), v.DefaultBranch, *m.Commit, message)
	}
	if err == nil && kept != "" {
		d.opts.Papers.Note(m.ID, fmt.Sprintf("The clone's %s held commits that this landing is without; they are kept as the branch %s.", v.DefaultBranch, kept))
	}
	switch {
	case errors.Is(err, git.ErrConflict):
		return "", &dispatch.Fault{Reason: dispatch.MergeConflict, Message: "The branch and " + v.DefaultBranch + " change the same lines. Merge " + v.DefaultBranch + " into " + w.Dock.Branch + ", or land it by hand."}
	case errors.Is(err, git.ErrDirty):
		return "", &dispatch.Fault{Reason: dispatch.WorkingDirectoryBusy, Message: "The working directory holds what is not committed. Nothing was merged."}
	case errors.Is(err, git.ErrMerging):
		return "", &dispatch.Fault{Reason: dispatch.WorkingDirectoryBusy, Message: "A merge is under way in the working directory. Nothing was merged."}
	case errors.Is(err, git.ErrOtherBranch):
		return "", &dispatch.Fault{Reason: dispatch.WorkingDirectoryBusy, Message: "The working directory is not on " + v.DefaultBranch + ". Nothing was merged."}
	}
	return commit, err
}

// subject is a title as the first line of a commit's message has it.
func subject(title string) string {
	title = strings.TrimSpace(plain(strings.Join(strings.Fields(title), " ")))
	if runes := []rune(title); len(runes) > 100 {
		return string(runes[:100]) + "..."
	}
	return title
}
