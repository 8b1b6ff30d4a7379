//go:build unix

package git

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker/dispatch"
	"berth/transport/guard"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(guard.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// yard is a place with a repository to clone.
type yard struct {
	t      *testing.T
	git    *Git
	dir    string
	origin *Repo
}

func newYard(t *testing.T) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, dir: dir}
	y.git = New(Options{Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"),
		"GORACE=atexit_sleep_ms=0", // the guard is this binary, which the race detector keeps for a second at its end
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@localhost"}})
	y.origin = y.git.Repo(filepath.Join(dir, "origin"))
	if err := os.MkdirAll(y.origin.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	y.do(y.origin, "init", "--quiet")
	y.commit(y.origin, "README", "one\n")
	return y
}

func (y *yard) do(r *Repo, args ...string) string {
	y.t.Helper()
	out, err := r.run(y.t.Context(), args...)
	if err != nil {
		y.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// commit writes a file and commits it.
func (y *yard) commit(r *Repo, name, content string) string {
	y.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		y.t.Fatal(err)
	}
	y.do(r, "add", "--", name)
	y.do(r, "commit", "--quiet", "-m", "write "+name)
	head, err := r.Head(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return head
}

func (y *yard) clone() *Repo {
	y.t.Helper()
	r := y.git.Repo(filepath.Join(y.dir, "repos", "a.git"))
	if err := r.Clone(y.t.Context(), y.origin.dir); err != nil {
		y.t.Fatal(err)
	}
	return r
}

// worktree gives a worktree on a branch that begins at main.
func (y *yard) worktree(r *Repo, branch string) *Repo {
	y.t.Helper()
	from, err := r.Resolve(y.t.Context(), "main")
	if err != nil {
		y.t.Fatal(err)
	}
	path := filepath.Join(y.dir, "docks", strings.ReplaceAll(branch, "/", "-"))
	if err := r.AddWorktree(y.t.Context(), path, branch, from); err != nil {
		y.t.Fatal(err)
	}
	return y.git.Repo(path)
}

func TestOnlyABareRepositoryIsRemoved(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"with files checked out": y.origin.Dir(), "a directory": plain, "a part of one": filepath.Join(r.Dir(), "refs")} {
		if err := y.git.Repo(dir).Remove(t.Context()); err == nil {
			t.Errorf("%s was removed", name)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if err := r.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
	}
}

func TestACloneIsMadeOnceAndFollowsItsOrigin(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	if err := r.Clone(t.Context(), "/nowhere"); err != nil {
		t.Errorf("a clone that is there was made again: %v", err)
	}
	first, err := r.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	second := y.commit(y.origin, "README", "two\n")
	y.do(y.origin, "tag", "v1", first)
	y.do(y.origin, "branch", "side/x")
	if err := r.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"main": second, "v1": first, "side/x": second, first: first, first[:12]: first} {
		if got, err := r.Resolve(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %s, want %s, %v", name, got, want, err)
		}
	}
	for _, name := range []string{"nowhere", "deadbeef", strings.Repeat("0", 40), "refs", "HEAD"} {
		if got, err := r.Resolve(t.Context(), name); !errors.Is(err, ErrNoRef) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestNamesThatAreOptionsOrExpressionsAreRefused(t *testing.T) {
	for _, name := range []string{"", "-", "--upload-pack=id", "-x", "a b", "a..b", "..", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "@{-1}", "@", "a@{1}",
		"/a", "a/", "a//b", "a.", ".a", "a/.b", "a.lock", "a.lock/b", "a\nb", "a\x00b", "a\x7f", "\xff", strings.Repeat("a", 251)} {
		if err := CheckRef(name); !errors.Is(err, dispatch.ErrBranch) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"main", "berth/msn_1", "feature/é", "v1.2.3", "a-b", "a@b", "0123abc"} {
		if err := CheckRef(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	y := newYard(t)
	r := y.clone()
	for name, err := range map[string]error{
		"resolve": func() error { _, err := r.Resolve(t.Context(), "--all"); return err }(),
		"add":     r.AddWorktree(t.Context(), filepath.Join(y.dir, "w"), "-b", "main"),
		"delete":  r.DeleteBranch(t.Context(), "--all"),
	} {
		if !errors.Is(err, dispatch.ErrBranch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWorktreeIsMadeUsedAndRemoved(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	w := y.worktree(r, "berth/one")
	from, _ := r.Resolve(t.Context(), "main")
	if branch, err := w.Branch(t.Context()); err != nil || branch != "berth/one" {
		t.Errorf("on %q, %v", branch, err)
	}
	commit := y.commit(w, "new file", "x\n")
	if err := os.WriteFile(filepath.Join(w.dir, "README"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var diff strings.Builder
	cut, err := w.Diff(t.Context(), &diff, 1<<20, from, "")
	if err != nil || cut || !strings.Contains(diff.String(), "+changed") || !strings.Contains(diff.String(), "new file") {
		t.Errorf("diff %q, %v", diff.String(), err)
	}
	diff.Reset()
	if cut, err := w.Diff(t.Context(), &diff, 1<<20, from, commit); err != nil || cut || strings.Contains(diff.String(), "+changed") {
		t.Errorf("diff of what was committed %q, %v", diff.String(), err)
	}
	diff.Reset()
	if cut, err := w.Diff(t.Context(), &diff, 10, from, ""); err != nil || !cut || diff.Len() != 10 {
		t.Errorf("diff of ten bytes %q, cut: %v, %v", diff.String(), cut, err)
	}
	if dirty, err := w.Dirty(t.Context()); err != nil || !dirty {
		t.Errorf("dirty %v, %v", dirty, err)
	}
	if err := r.AddWorktree(t.Context(), w.dir, "berth/two", from); err == nil {
		t.Error("a worktree was made over another")
	}
	if err := r.AddWorktree(t.Context(), filepath.Join(y.dir, "again"), "berth/one", from); err == nil {
		t.Error("one branch has two worktrees")
	}
	for range 2 { // the second finds nothing to do
		if err := r.RemoveWorktree(t.Context(), w.dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
	again := y.worktree(r, "berth/one") // goes on where the branch was left
	if head, err := again.Head(t.Context()); err != nil || head != commit {
		t.Errorf("at %s, want %s, %v", head, commit, err)
	}
	if in, err := r.Contains(t.Context(), "refs/heads/berth/one", from); err != nil || !in {
		t.Errorf("contains %v, %v", in, err)
	}
	if in, err := r.Contains(t.Context(), "refs/remotes/origin/main", commit); err != nil || in {
		t.Errorf("contains %v, %v", in, err)
	}
	if err := os.RemoveAll(again.dir); err != nil { // an agent that deletes its worktree
		t.Fatal(err)
	}
	if err := r.RemoveWorktree(t.Context(), again.dir); err != nil {
		t.Error(err)
	}
	if err := r.DeleteBranch(t.Context(), "berth/one"); err != nil {
		t.Error(err)
	}
	if err := r.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAWorktreeThatIsClosedToItsOwnerIsRemoved(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	w := y.worktree(r, "berth/closed")
	closed := filepath.Join(w.dir, "deep", "closed")
	if err := os.MkdirAll(filepath.Join(closed, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o100); err != nil {
		t.Fatal(err)
	}
	y.do(r, "worktree", "lock", w.dir)
	if err := r.RemoveWorktree(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	if list := y.do(r, "worktree", "list", "--porcelain"); strings.Contains(list, "closed") {
		t.Errorf("git still knows it: %s", list)
	}
}

func TestNoHookOfARepositoryRuns(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	ran := filepath.Join(y.dir, "ran")
	for _, hooks := range []string{filepath.Join(r.dir, "hooks"), filepath.Join(y.origin.dir, ".git", "hooks")} {
		if err := os.MkdirAll(hooks, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"post-checkout", "pre-commit", "post-merge", "reference-transaction", "post-commit"} {
			if err := os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := y.worktree(r, "berth/hooks")
	commit := y.commit(w, "a", "a\n")
	if _, err := r.MergeInto(t.Context(), y.origin, "main", commit, "land"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ran); !os.IsNotExist(err) {
		t.Error("a hook of the repository ran")
	}
}

func TestMergesLandOrLeaveEverythingAsItWas(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	w := y.worktree(r, "berth/land")
	commit := y.commit(w, "a", "a\n")
	scratch := filepath.Join(y.dir, "scratch", "m")

	t.Run("into a working directory", func(t *testing.T) {
		merged, err := r.MergeInto(t.Context(), y.origin, "main", commit, "land a")
		if err != nil {
			t.Fatal(err)
		}
		if head, _ := y.origin.Head(t.Context()); head != merged || y.do(y.origin, "log", "-1", "--format=%s %P") == "" {
			t.Errorf("head %s, merged %s", head, merged)
		}
		if content, err := os.ReadFile(filepath.Join(y.origin.dir, "a")); err != nil || string(content) != "a\n" {
			t.Errorf("%q, %v", content, err)
		}
	})
	t.Run("into the bare clone, twice", func(t *testing.T) {
		for i, name := range []string{"b", "c"} {
			next := y.commit(w, name, name)
			merged, _, err := r.MergeBare(t.Context(), scratch, "main", next, "land "+name)
			if err != nil {
				t.Fatal(err)
			}
			if in, err := r.Contains(t.Context(), "refs/heads/main", next); err != nil || !in || y.do(r, "rev-parse", "refs/heads/main") != merged {
				t.Errorf("%d: contains %v, %v", i, in, err)
			}
		}
		if _, err := os.Stat(scratch); !os.IsNotExist(err) {
			t.Errorf("the worktree of the merge is there: %v", err)
		}
	})
	t.Run("a conflict", func(t *testing.T) {
		other := y.worktree(r, "berth/conflict")
		theirs := y.commit(other, "a", "another a\n")
		before := [2]string{y.do(y.origin, "rev-parse", "HEAD"), y.do(r, "rev-parse", "refs/heads/main")}
		if _, err := r.MergeInto(t.Context(), y.origin, "main", theirs, "land"); !errors.Is(err, ErrConflict) {
			t.Errorf("into the working directory: %v", err)
		}
		if _, _, err := r.MergeBare(t.Context(), scratch, "main", theirs, "land"); !errors.Is(err, ErrConflict) {
			t.Errorf("into the bare clone: %v", err)
		}
		if after := [2]string{y.do(y.origin, "rev-parse", "HEAD"), y.do(r, "rev-parse", "refs/heads/main")}; after != before {
			t.Errorf("from %v to %v", before, after)
		}
		if dirty, err := y.origin.Dirty(t.Context()); err != nil || dirty {
			t.Errorf("the working directory is dirty: %v, %v", dirty, err)
		}
	})
	t.Run("in the middle of a person's merge, of which no file tells", func(t *testing.T) {
		y.do(y.origin, "branch", "theirs", "HEAD~1")
		theirs := y.do(y.origin, "commit-tree", "-p", "theirs", "-m", "theirs", "theirs^{tree}")
		y.do(y.origin, "merge", "--quiet", "--no-commit", "-s", "ours", theirs)
		next := y.commit(w, "d", "d")
		if _, err := r.MergeInto(t.Context(), y.origin, "main", next, "land"); !errors.Is(err, ErrMerging) {
			t.Errorf("got %v", err)
		}
		if got := y.do(y.origin, "rev-parse", "MERGE_HEAD"); got != theirs {
			t.Errorf("their merge is of %s, not of %s", got, theirs)
		}
		y.do(y.origin, "merge", "--abort")
	})
	t.Run("after a try that could not be taken back", func(t *testing.T) {
		next, lock := y.commit(w, "e", "e"), filepath.Join(y.origin.dir, ".git", "index.lock")
		if err := os.WriteFile(lock, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := r.MergeInto(t.Context(), y.origin, "main", next, "land"); err == nil || strings.Contains(err.Error(), "hint") || !strings.HasPrefix(err.Error(), "git merge ") {
			t.Fatalf("got %v", err)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if _, err := r.MergeInto(t.Context(), y.origin, "main", next, "land"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a dirty working directory, and another branch", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(y.origin.dir, "untracked"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := r.MergeInto(t.Context(), y.origin, "main", commit, "land"); !errors.Is(err, ErrDirty) {
			t.Errorf("dirty: %v", err)
		}
		if _, err := r.MergeInto(t.Context(), y.origin, "release", commit, "land"); !errors.Is(err, ErrOtherBranch) {
			t.Errorf("another branch: %v", err)
		}
	})
}

func TestManyWorktreesOfOneRepositoryDoNotHarmIt(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	from, err := r.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			path := filepath.Join(y.dir, "docks", fmt.Sprint(i))
			if err := r.AddWorktree(t.Context(), path, fmt.Sprintf("berth/m%d", i), from); err != nil {
				t.Error(err)
				return
			}
			w := y.git.Repo(path)
			if err := os.WriteFile(filepath.Join(path, "work"), []byte(fmt.Sprint(i)), 0o644); err != nil {
				t.Error(err)
			}
			for _, args := range [][]string{{"add", "work"}, {"commit", "--quiet", "-m", "work"}} {
				if _, err := w.run(t.Context(), args...); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				if err := r.RemoveWorktree(t.Context(), path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := r.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(y.do(r, "for-each-ref", "--format=%(refname)", "refs/heads/berth"), "\n") + 1; n != 20 {
		t.Errorf("%d branches", n)
	}
}

func TestAnOriginThatDoesNotAnswerIsGivenUp(t *testing.T) {
	y := newYard(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	y.git.opts.Network = 300 * time.Millisecond
	r := y.git.Repo(filepath.Join(y.dir, "repos", "hangs.git"))
	err = r.Clone(t.Context(), "http://user:hunter2hunter2@"+silent.Addr().String()+"/x.git")
	var failed *Error
	if !errors.As(err, &failed) || failed.Op != "fetch" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(r.dir + ".new"); !os.IsNotExist(err) {
		t.Errorf("what was fetched is left: %v", err)
	}
	y.git.opts.Network = time.Minute
	if err := os.MkdirAll(r.dir+".new", 0o700); err != nil { // of one that was killed
		t.Fatal(err)
	}
	if err := r.Clone(t.Context(), y.origin.dir); err != nil { // begun anew
		t.Error(err)
	}
}

func TestAnAddressThatNamesAProgramRunsNothing(t *testing.T) {
	y := newYard(t)
	ran := filepath.Join(y.dir, "ran")
	for _, url := range []string{"ext::touch " + ran, "--upload-pack=touch " + ran, "unknown://x/y", "fd::17"} {
		r := y.git.Repo(filepath.Join(y.dir, "repos", "bad.git"))
		if err := r.Clone(t.Context(), url); err == nil {
			t.Errorf("%s was cloned", url)
		}
		if _, err := os.Stat(ran); !os.IsNotExist(err) {
			t.Fatalf("%s ran a program", url)
		}
	}
}

func TestAWaitForTheLockEndsWithItsCaller(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	release, err := r.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := r.Fetch(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestARepositoryThatVanishedIsSaidInWords(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resolve(t.Context(), "main")
	var failed *Error
	if !errors.As(err, &failed) || failed.Detail == "" {
		t.Errorf("got %v", err)
	}
}
