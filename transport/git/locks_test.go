//go:build unix

package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// left makes what a git that was killed leaves in a repository.
func (y *yard) left(r *Repo, names ...string) {
	y.t.Helper()
	for _, name := range names {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			y.t.Fatal(err)
		}
	}
}

var lockNames = []string{"config.lock", "packed-refs.lock", "HEAD.lock", "refs/heads/berth/a.lock"}

func TestLocksThatAKilledGitLeftHinderNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		own  bool
		do   func(t *testing.T, y *yard, r, w *Repo)
		free bool
	}{
		{"the first look of a process frees them", true, func(_ *testing.T, y *yard, _, _ *Repo) {
			y.git = New(y.git.opts)
		}, true},
		{"nobody else's repository is touched", false, func(_ *testing.T, y *yard, _, _ *Repo) {
			y.git = New(y.git.opts)
		}, false},
		{"the last worktree takes them along", true, func(t *testing.T, _ *yard, r, w *Repo) {
			if err := r.RemoveWorktree(t.Context(), w.dir); err != nil {
				t.Error(err)
			}
		}, true},
		{"they may be somebody's while there are others", true, func(t *testing.T, y *yard, r, w *Repo) {
			if err := r.RemoveWorktree(t.Context(), w.dir); err != nil {
				t.Error(err)
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			if tt.own {
				y.git.opts.Own = filepath.Join(y.dir, "repos")
			}
			r := y.clone()
			if !tt.free && tt.own {
				y.worktree(r, "berth/other")
			}
			w := y.worktree(r, "berth/a")
			y.left(r, lockNames...)
			y.left(r, filepath.Join("worktrees", filepath.Base(w.dir), "index.lock"), filepath.Join("worktrees", filepath.Base(w.dir), "locked"))
			tt.do(t, y, r, w)
			stale, err := y.git.Repo(r.dir).Follow(t.Context(), y.origin.dir, 0)
			if free := err == nil && stale == nil; free != (tt.free || tt.own) { // in its own, Berth writes no settings that a lock hinders
				t.Errorf("fetched: %v, %v", stale, err)
			}
			for _, name := range lockNames {
				if _, err := os.Lstat(filepath.Join(r.dir, name)); errors.Is(err, fs.ErrNotExist) != tt.free {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func TestALandingThatWasKilledIsBegunAnew(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	w := y.worktree(r, "berth/a")
	commit := y.commit(w, "new", "a\n")
	scratch := filepath.Join(y.dir, "docks", ".landing", "a")
	y.do(r, "worktree", "add", "--quiet", "--detach", "--lock", scratch, "refs/remotes/origin/main")
	merged, _, err := r.MergeBare(t.Context(), scratch, "main", commit, "land")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := r.At(t.Context(), "refs/heads/main"); err != nil || at != merged {
		t.Errorf("main is at %s, %v", at, err)
	}
	if _, err := os.Lstat(scratch); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the worktree of the landing stands", err)
	}
}

func TestWhatBrokeIsKeptBesideTheCloneThatReplacesIt(t *testing.T) {
	y := newYard(t)
	y.git.opts.Own = filepath.Join(y.dir, "repos")
	r := y.clone()
	for i, part := range []string{"HEAD", "objects", "refs"} {
		kept := fmt.Sprintf(".broken-%d", i+1)
		if err := os.RemoveAll(filepath.Join(r.dir, part)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Follow(t.Context(), y.origin.dir, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(r.dir+kept, "config")); err != nil {
			t.Error(err)
		}
		if _, err := r.Resolve(t.Context(), "main"); err != nil {
			t.Error(err)
		}
	}
}

func TestNobodyElsesDirectoryGivesWayToAClone(t *testing.T) {
	y := newYard(t)
	y.git.opts.Own = filepath.Join(y.dir, "repos")
	for _, dir := range []string{y.origin.dir, y.git.opts.Own} {
		y.left(y.git.Repo(dir), "mine")
		if _, err := y.git.Repo(dir).Follow(t.Context(), y.origin.dir, 0); err == nil {
			t.Errorf("%s was taken for a clone", dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, "mine")); err != nil {
			t.Error(err)
		}
	}
}

func TestAMergeThatIsCutOffLeavesTheWorkingDirectoryAsItWas(t *testing.T) {
	y := newYard(t)
	begun := filepath.Join(y.dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	y.commit(y.origin, ".gitattributes", "*.slow filter=slow\n")
	y.do(y.origin, "config", "filter.slow.smudge", "echo > "+begun+"; sleep 1000")
	r := y.clone()
	commit := y.commit(y.worktree(r, "berth/a"), "a.slow", "a\n")
	before, err := y.origin.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_, _ = os.ReadFile(begun)
	}()
	if _, err := r.MergeInto(ctx, y.origin, "main", commit, "land"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if dirty, err := y.origin.Dirty(t.Context()); dirty || err != nil {
		t.Errorf("it is dirty: %v, %v", dirty, err)
	}
	if after, err := y.origin.Head(t.Context()); after != before || err != nil {
		t.Errorf("it is at %s, %v", after, err)
	}
	if _, err := os.Lstat(filepath.Join(y.origin.dir, ".git", "index.lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is locked: %v", err)
	}
}
