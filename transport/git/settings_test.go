//go:build unix

package git

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// ownYard is a yard with a clone of Berth's own whose origin is known.
func ownYard(t *testing.T) (*yard, *Repo) {
	t.Helper()
	y := newYard(t)
	y.git.opts.Own = filepath.Join(y.dir, "repos")
	return y, y.follow()
}

func (y *yard) follow() *Repo {
	y.t.Helper()
	r := y.git.Repo(filepath.Join(y.dir, "repos", "a.git")).WithToken(y.origin.dir, "")
	if stale, err := r.Follow(y.t.Context(), y.origin.dir, 0); stale != nil || err != nil {
		y.t.Fatal(stale, err)
	}
	return r
}

func (y *yard) write(path, content string) {
	y.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
		y.t.Fatal(err)
	}
}

func TestTheSettingsOfBerthsOwnClonesAreBerths(t *testing.T) {
	set := func(args ...string) func(*yard, *Repo) {
		return func(y *yard, r *Repo) { y.do(r, append([]string{"config", "--local"}, args...)...) }
	}
	file := func(name string) func(*yard, *Repo) {
		return func(y *yard, r *Repo) { y.write(filepath.Join(r.dir, name), "x\n") }
	}
	instead := func(make func(path string) error) func(*yard, *Repo) {
		return func(y *yard, r *Repo) {
			path := filepath.Join(r.dir, "config")
			if err := errors.Join(os.Remove(path), make(path)); err != nil {
				y.t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*yard, *Repo)
		want []string // that was taken away
	}{
		{"nothing", func(*yard, *Repo) {}, nil},
		{"a filter", set("filter.x.smudge", "secret"), []string{"filter.x.smudge"}},
		{"another origin", set("remote.origin.url", "/elsewhere"), []string{"remote.origin.url"}},
		{"what spoils the next mission", set("url./nowhere.insteadOf", "/"), []string{"url./nowhere.insteadof"}},
		{"a setting of its own", set("--unset", "core.bare"), nil},
		{"a file of settings", set("include.path", "/x"), []string{"include.path"}},
		{"hooks", file("hooks/pre-commit"), []string{"hooks"}},
		{"attributes", file("info/attributes"), []string{"info/attributes"}},
		{"settings of worktrees", file("config.worktree"), []string{"config.worktree"}},
		{"another repository in its place", file("commondir"), []string{"commondir"}},
		{"no settings at all", instead(func(string) error { return nil }), nil},
		{"nonsense", func(y *yard, r *Repo) { y.write(filepath.Join(r.dir, "config"), "[core\n") }, []string{"config"}},
		{"a directory", instead(func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }), []string{"config"}},
		{"a pipe", instead(func(path string) error { return syscall.Mkfifo(path, 0o600) }), []string{"config"}},
		{"a link", instead(func(path string) error { return os.Symlink(os.DevNull, path) }), []string{"config"}},
		{"more than is looked at", func(y *yard, r *Repo) { y.write(filepath.Join(r.dir, "config"), strings.Repeat("#", maxConfig+1)) }, []string{"config"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y, r := ownYard(t)
			if err := r.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(r.dir, "config"))
			if err != nil {
				t.Fatal(err)
			}
			tt.do(y, r)
			if err := r.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			if taken := r.Taken(); !slices.Equal(taken, tt.want) || len(r.Taken()) > 0 {
				t.Errorf("taken are %q, want %q", taken, tt.want)
			}
			if after, err := os.ReadFile(filepath.Join(r.dir, "config")); err != nil || string(after) != string(before) {
				t.Errorf("%q, %v", after, err)
			}
			for _, name := range strangers {
				if _, err := os.Lstat(filepath.Join(r.dir, name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if url := y.do(r, "config", "remote.origin.url"); url != y.origin.dir || y.do(r, "rev-parse", "--is-bare-repository") != "true" {
				t.Errorf("its origin is %s", url)
			}
			y.commit(y.worktree(r, "berth/after"), "a", "a\n")
		})
	}
}

func TestNobodyElsesSettingsAreTouched(t *testing.T) {
	y := newYard(t)
	y.git.opts.Own = filepath.Join(y.dir, "other")
	r := y.follow()
	y.do(r, "config", "filter.x.smudge", "cat")
	y.write(filepath.Join(r.dir, "hooks", "pre-commit"), "x")
	if stale, err := r.Follow(t.Context(), y.origin.dir, 0); stale != nil || err != nil {
		t.Fatal(stale, err)
	}
	if err := r.Restore(t.Context()); err != nil || len(r.Taken()) > 0 {
		t.Error(err)
	}
	if y.do(r, "config", "filter.x.smudge") != "cat" {
		t.Error("a setting is gone")
	}
	if _, err := os.Stat(filepath.Join(r.dir, "hooks", "pre-commit")); err != nil {
		t.Error(err)
	}
}

func TestAnAddressIsASettingAsItIs(t *testing.T) {
	y, r := ownYard(t)
	for _, address := range []string{`/a b#c;"d"\e`, "https://h/x?y=z", "git@h:x"} {
		if err := r.WithToken(address, "").Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := y.do(r, "config", "remote.origin.url"); got != address {
			t.Errorf("%q is %q", address, got)
		}
		if taken := r.Taken(); len(taken) > 0 {
			t.Errorf("taken are %q", taken)
		}
	}
}

func TestBerthsGitRunsNothingForWhoLeftIt(t *testing.T) {
	y, _ := ownYard(t)
	y.commit(y.origin, ".gitattributes", "*.x filter=evil merge=evil diff=evil\n")
	y.commit(y.origin, "a.x", "one\n")
	r := y.follow()
	w := y.worktree(r, "berth/a")
	commit := y.commit(w, "a.x", "two\n")
	y.land(r, "other") // so that a merge has something to do
	ran := filepath.Join(y.dir, "ran")
	run := "touch " + ran + "; cat"
	leave := func() {
		for _, s := range [][2]string{{"filter.evil.clean", run}, {"filter.evil.smudge", run}, {"filter.evil.required", "true"}, {"merge.evil.driver", run}, {"diff.evil.textconv", run},
			{"diff.evil.command", run}, {"diff.external", run}, {"core.fsmonitor", run}, {"core.sshCommand", run}, {"gpg.program", run}, {"commit.gpgSign", "true"}, {"credential.helper", "!" + run},
			{"remote.origin.uploadpack", run}, {"core.hooksPath", filepath.Join(y.dir, "hooks")}} {
			y.do(r, "config", s[0], s[1])
		}
		y.write(filepath.Join(r.dir, "info", "attributes"), "* filter=evil\n")
		y.write(filepath.Join(y.dir, "hooks", "post-checkout"), "#!/bin/sh\n"+run)
	}
	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"a fetch", func() error { stale, err := r.Follow(t.Context(), y.origin.dir, 0); return errors.Join(stale, err) }},
		{"a worktree", func() error {
			return r.AddWorktree(t.Context(), filepath.Join(y.dir, "docks", "next"), "berth/next", commit)
		}},
		{"a look at a worktree", func() error {
			y.write(filepath.Join(w.dir, "a.x"), "three\n")
			if err := r.Restore(t.Context()); err != nil {
				return err
			}
			tree, err := r.Worktree(w.dir)
			if err != nil {
				return err
			}
			_, err = tree.Status(t.Context(), 1000)
			_, diffErr := tree.Diff(t.Context(), &strings.Builder{}, 1000, "HEAD", "")
			return errors.Join(err, diffErr)
		}},
		{"a look at one of which nothing is known", func() error {
			tree, err := y.git.Worktree(t.Context(), w.dir)
			if err != nil {
				return err
			}
			_, err = tree.Status(t.Context(), 1000)
			return err
		}},
		{"a landing", func() error {
			_, _, err := r.MergeBare(t.Context(), filepath.Join(y.dir, "scratch"), "main", commit, "land")
			return err
		}},
		{"a removal", func() error { return r.RemoveWorktree(t.Context(), w.dir) }},
	} {
		leave()
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := os.Remove(ran); err == nil {
			t.Errorf("%s ran a program", tt.name)
		}
	}
}

func TestAWorktreeThatNamesAnotherRepositoryIsNotFollowedThere(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(y *yard, w *Repo)
		fail bool
	}{
		{"by a link of git's", func(y *yard, w *Repo) {
			y.write(filepath.Join(w.dir, ".git"), "gitdir: "+filepath.Join(y.dir, "evil", "worktrees", filepath.Base(w.dir))+"\n")
		}, false},
		{"by the repository that it goes with", func(y *yard, w *Repo) {
			raw := y.do(w, "rev-parse", "--git-dir")
			y.write(filepath.Join(raw, "commondir"), filepath.Join(y.dir, "evil")+"\n")
		}, false},
		{"one of its own", func(y *yard, w *Repo) {
			if err := os.Remove(filepath.Join(w.dir, ".git")); err != nil {
				y.t.Fatal(err)
			}
			y.do(w, "init", "--quiet")
		}, true},
		{"none", func(y *yard, w *Repo) {
			if err := os.Remove(filepath.Join(w.dir, ".git")); err != nil {
				y.t.Fatal(err)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y, r := ownYard(t)
			w := y.worktree(r, "berth/a")
			y.write(filepath.Join(y.dir, "evil", "config"), "[core\n")
			tt.do(y, w)
			tree, err := r.Worktree(w.dir)
			if tt.fail != errors.Is(err, ErrNoWorktree) {
				t.Fatalf("got %v", err)
			}
			if tt.fail {
				return
			}
			y.write(filepath.Join(w.dir, "new"), "x")
			if text, err := tree.Status(t.Context(), 1000); err != nil || text != "?? new\n" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func TestNoGitRunsInASubmoduleOfAWorktree(t *testing.T) {
	y, r := ownYard(t)
	w := y.worktree(r, "berth/a")
	inside := y.git.Repo(filepath.Join(w.dir, "sub"))
	y.write(filepath.Join(inside.dir, "f"), "x\n")
	y.do(inside, "init", "--quiet")
	y.commit(inside, "f", "x\n")
	y.do(w, "add", "sub")
	y.do(w, "commit", "--quiet", "-m", "sub")
	ran := filepath.Join(y.dir, "ran")
	y.write(filepath.Join(y.dir, "monitor"), "#!/bin/sh\ntouch "+ran+"\n")
	y.do(inside, "config", "core.fsmonitor", filepath.Join(y.dir, "monitor"))
	y.write(filepath.Join(inside.dir, "f"), "y\n")
	tree, err := r.Worktree(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Status(t.Context(), 1000)
	_, diffErr := tree.Diff(t.Context(), &strings.Builder{}, 1000, "HEAD", "")
	if err := errors.Join(err, diffErr); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a program of the submodule ran")
	}
}

func TestACommitIsWhatItsIDSays(t *testing.T) {
	y, r := ownYard(t)
	w := y.worktree(r, "berth/a")
	from := y.do(w, "rev-parse", "HEAD")
	commit := y.commit(w, "protected", "x\n")
	y.do(r, "update-ref", "refs/replace/"+commit, from)
	if paths, err := r.Between(t.Context(), from, commit); err != nil || !slices.Equal(paths, []string{"protected"}) {
		t.Errorf("%q, %v", paths, err)
	}
}
