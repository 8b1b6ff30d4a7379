//go:build unix

package dock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/actors/missions"
	"berth/broker/dispatch"
)

// fault gives the reason of a Fault; empty: err is none.
func fault(err error) dispatch.FailureReason {
	var f *dispatch.Fault
	if errors.As(err, &f) {
		return f.Reason
	}
	return ""
}

func TestTwoMissionsInARowCommitToOneBranchInOrder(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	v := y.vessel()
	first := y.work("msn_a", v)
	y.prepare(&first)
	end, got := y.run(&first, lines("@write a.txt first", "@commit add a", "@say did a"))
	if end.Code == nil || *end.Code != 0 || got.Produced == nil || !*got.Produced {
		t.Fatalf("ended %+v with %+v\n%s", end, got, y.log("msn_a"))
	}
	y.reclaim(first, false)

	second := y.work("msn_b", v)
	second.Before, second.Dock.Branch = &first.Mission, first.Dock.Branch
	second.Mission.Branch = &second.Dock.Branch
	if from := y.prepare(&second); from.StartCommit != *first.Mission.Commit || len(from.Warnings) > 0 {
		t.Errorf("begins at %+v, want %s", from, *first.Mission.Commit)
	}
	y.run(&second, lines("@write b.txt second", "@commit add b", "@say did b"))
	y.reclaim(second, false)
	if got := y.sh(y.clone(), "log", "--reverse", "--format=%s by %an", "refs/remotes/origin/main..refs/heads/berth/msn_a"); got != "add a by Berth\nadd b by Berth" {
		t.Errorf("the branch has %q", got)
	}
	for id, want := range map[string]string{"msn_a": "did a", "msn_b": "did b"} {
		if log := y.log(id); !strings.Contains(log, want) {
			t.Errorf("the log of %s: %s", id, log)
		}
		if text, ok, err := y.papers.Output(id); err != nil || !ok || text != want {
			t.Errorf("the output of %s: %q, %v, %v", id, text, ok, err)
		}
		if diff, ok, err := y.papers.Diff(id); err != nil || !ok || strings.Count(diff, "\n+++ ") != 1 {
			t.Errorf("the diff of %s: %q, %v, %v", id, diff, ok, err)
		}
	}
}

func TestEachOfSeveralDependantsBeginsAtTheCommitBefore(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	root := y.work("msn_root", y.vessel())
	y.prepare(&root)
	y.run(&root, lines("@write r r", "@commit root"))
	y.reclaim(root, false)
	for _, id := range []string{"msn_x", "msn_y"} {
		w := y.work(id, root.Vessel)
		w.Before = &root.Mission
		if from := y.prepare(&w); from.StartCommit != *root.Mission.Commit || y.sh(w.Dock.Path, "branch", "--show-current") != "berth/"+id {
			t.Errorf("%s begins at %+v", id, from)
		}
	}
	gone := strings.Repeat("0", 40)
	lost := y.work("msn_z", root.Vessel)
	before := root.Mission
	before.Commit = &gone
	lost.Before = &before
	if _, err := y.docks.Prepare(t.Context(), lost); err == nil || fault(err) != "" {
		t.Errorf("a commit that is gone: %v", err)
	}
}

func TestAnUnresolvableRefMakesNoWorktree(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.sh(y.origin, "tag", "v1")
	side := y.commit("side", "s\n")
	for _, ref := range []string{"nowhere", "--upload-pack=touch " + y.file("ran"), "a\nb", strings.Repeat("x", 300), "refs/../x", "\xff"} {
		w := y.work("msn_a", y.vessel())
		w.Mission.StartFromRef = &ref
		_, err := y.docks.Prepare(t.Context(), w)
		if fault(err) != dispatch.StartFromRefMissing {
			t.Errorf("%q: %v", ref, err)
		}
		if _, err := os.Lstat(w.Dock.Path); !os.IsNotExist(err) {
			t.Errorf("%q: a worktree was made", ref)
		}
		if _, err := y.docks.Resolve(t.Context(), w.Vessel, ref); fault(err) != dispatch.StartFromRefMissing {
			t.Errorf("resolve %q: %v", ref, err)
		}
	}
	if out, err := y.try(y.clone(), "rev-parse", "--verify", "refs/heads/berth/msn_a"); err == nil {
		t.Errorf("a branch was made: %s", out)
	}
	for ref, want := range map[string]string{"": side, "main": side, "v1": y.sh(y.origin, "rev-parse", "v1"), side[:10]: side} {
		if got, err := y.docks.Resolve(t.Context(), y.vessel(), ref); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", ref, got, err, want)
		}
	}
	none := y.vessel(func(v *dispatch.Vessel) { v.DefaultBranch = "trunk" })
	if _, err := y.docks.Prepare(t.Context(), y.work("msn_b", none)); fault(err) != dispatch.StartFromRefMissing {
		t.Errorf("a default branch that is not there: %v", err)
	}
}

func TestAMissionBeginsWhereItsRefWasWhenItWasMade(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	ref, was := "main", y.sh(y.origin, "rev-parse", "main")
	y.commit("later", "l\n")
	w := y.work("msn_a", y.vessel())
	w.Mission.StartFromRef, w.Mission.StartCommit = &ref, &was
	if got, err := y.docks.Prepare(t.Context(), w); err != nil || got.StartCommit != was || y.sh(w.Dock.Path, "rev-parse", "HEAD") != was {
		t.Errorf("begins at %+v, %v; want %s", got, err, was)
	}
	gone := strings.Repeat("0", 39) + "1"
	w = y.work("msn_b", y.vessel())
	w.Mission.StartFromRef, w.Mission.StartCommit = &ref, &gone
	if _, err := y.docks.Prepare(t.Context(), w); fault(err) != dispatch.StartFromRefMissing {
		t.Errorf("from a commit that is gone: %v", err)
	}
}

func TestWhatAnEarlierTryLeftIsKeptBeside(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	w := y.work("msn_a", y.vessel())
	from := y.prepare(&w)
	_, got := y.run(&w, lines("@write a a", "@commit try one", "@write b uncommitted"))
	again := y.prepare(&w) // over the worktree that stands there
	if again.StartCommit != from.StartCommit || len(again.Warnings) != 1 {
		t.Fatalf("begins at %+v", again)
	}
	kept := "berth/msn_a-" + (*got.Commit)[:12]
	if !strings.Contains(again.Warnings[0], kept) || y.sh(y.clone(), "rev-parse", kept) != *got.Commit {
		t.Errorf("kept as %v", again.Warnings)
	}
	if _, err := os.Stat(filepath.Join(w.Dock.Path, "a")); !os.IsNotExist(err) {
		t.Error("the worktree has what the earlier try made")
	}
	if third := y.prepare(&w); len(third.Warnings) > 0 {
		t.Errorf("a try that left nothing: %v", third.Warnings)
	}
}

func TestPrestagedFilesArePlacedWhereTheyBelong(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.write(y.file("plain"), "content")
	y.write(y.file("run.sh"), "#!/bin/sh\n")
	y.write(y.state("token"), "brokersownkey")
	if err := errors.Join(os.Chmod(y.file("run.sh"), 0o755), os.Symlink(y.state("token"), y.file("link")), os.Symlink(y.state(""), y.file("away")),
		syscall.Mkfifo(y.file("fifo"), 0o600), os.Symlink(".git", filepath.Join(y.origin, "hidden")), os.Symlink("/tmp", filepath.Join(y.origin, "out"))); err != nil {
		t.Fatal(err)
	}
	y.commit("dir/file", "old")
	big, err := os.Create(y.file("big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(maxPrestaged-5), big.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		source, dest string
		want         string // in the fault; empty: it is placed
	}{
		{"a file", "plain", "deep/er/plain", ""},
		{"over one that is there", "plain", "dir/file", ""},
		{"a program", "run.sh", "run.sh", ""},
		{"a link", "link", "x", "is a link"},
		{"by a link to the broker's own", "away/token", "x", "broker's own"},
		{"a directory", "", "x", "is no file"},
		{"a fifo", "fifo", "x", "is no file"},
		{"one that is not there", "nothing", "x", "no such file"},
		{"onto a link to git's own", "plain", "hidden", "a link is in the way"},
		{"through a link", "plain", "out/x", "a link is in the way"},
		{"into git's own", "plain", ".GIT/config", "git's own"},
		{"into a repository inside", "plain", "sub/.git/hooks/post-checkout", "git's own"},
		{"out of the worktree", "plain", "../x", "leads out"},
		{"onto a directory", "plain", "dir", "no file is in the way"},
		{"below a file", "plain", "README/x", "a file is in the way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y.t = t
			w := y.work("msn_a", y.vessel())
			w.Mission.Prestaged = []dispatch.PrestagedFile{{Source: filepath.Join(y.dir, "files", tt.source), Dest: tt.dest}}
			_, err := y.docks.Prepare(t.Context(), w)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				was, _ := os.ReadFile(y.file(tt.source))
				got, err := os.ReadFile(filepath.Join(w.Dock.Path, tt.dest))
				info, _ := os.Stat(filepath.Join(w.Dock.Path, tt.dest))
				if err != nil || string(got) != string(was) || info.Mode()&0o077 != 0 || (info.Mode()&0o100 != 0) != (tt.source == "run.sh") {
					t.Errorf("%q, %v, %v", got, info.Mode(), err)
				}
				return
			}
			if fault(err) != dispatch.ProvisionFailed || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Lstat(w.Dock.Path); !os.IsNotExist(err) {
				t.Error("the worktree was left")
			}
		})
	}
	y.t = t
	w := y.work("msn_a", y.vessel())
	w.Mission.Prestaged = []dispatch.PrestagedFile{{Source: y.file("big"), Dest: "big"}, {Source: y.file("plain"), Dest: "plain"}}
	if _, err := y.docks.Prepare(t.Context(), w); fault(err) != dispatch.ProvisionFailed || !strings.Contains(err.Error(), "more than") {
		t.Errorf("more than the limit: %v", err)
	}
}

func TestWhatGoesWithAWorktreeThatNobodyCollectedIsSaid(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for id, collected := range map[string]bool{"msn_a": false, "msn_b": true} {
		w := y.work(id, y.vessel())
		y.prepare(&w)
		y.write(filepath.Join(w.Dock.Path, "lost"), "x")
		if collected {
			if _, err := y.docks.Collect(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		y.reclaim(w, false)
		if log := y.log(id); strings.Count(log, "goes with it: ?? lost.") != 1 {
			t.Errorf("%s: the log: %s", id, log)
		}
	}
}

func TestADocksOwnBranchIsCheckedOutAgain(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	w := y.work("msn_a", y.vessel())
	y.prepare(&w)
	y.run(&w, lines("@write a a", "@commit a"))
	y.sh(y.origin, "branch", "berth/msn_a") // somebody's of the same name, which is not meant
	if err := os.RemoveAll(w.Dock.Path); err != nil {
		t.Fatal(err)
	}
	again := y.work("msn_a", w.Vessel)
	again.Mission.StartFromRef = &w.Dock.Branch
	if got := y.prepare(&again); got.StartCommit != *w.Mission.Commit || len(got.Warnings) > 0 {
		t.Errorf("begins at %+v", got)
	}
	y.reclaim(again, true)
	if _, err := y.docks.Prepare(t.Context(), again); fault(err) != dispatch.StartFromRefMissing {
		t.Errorf("a branch that is gone: %v", err)
	}
}

func TestNothingOutsideTheDocksIsTouched(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, path := range []string{y.origin, y.state("docks"), y.state("docks") + "/../../origin", "docks/a", "", "/", y.state("docks/../x")} {
		w := y.work("msn_a", y.vessel())
		w.Dock.Path = path
		if _, err := y.docks.Prepare(t.Context(), w); err == nil {
			t.Errorf("prepared %q", path)
		}
		if err := y.docks.Reclaim(t.Context(), w.Vessel, w.Dock, false); err == nil {
			t.Errorf("reclaimed %q", path)
		}
	}
	if _, err := os.Stat(filepath.Join(y.origin, "README")); err != nil {
		t.Error(err)
	}
}

func TestTwentyMissionsAtOnceDoNotHarmARepository(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	v := y.vessel(func(v *dispatch.Vessel) { v.Concurrent, v.LandingMode = true, dispatch.LandLocalMerge })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			w := y.work(fmt.Sprintf("msn_%02d", i), v)
			got, err := y.docks.Prepare(t.Context(), w)
			if err != nil {
				t.Error(err)
				return
			}
			w.Mission.StartCommit = &got.StartCommit
			a, err := y.agents.Start(t.Context(), w, lines(fmt.Sprintf("@write f%d text", i), "@commit work", fmt.Sprintf("@write g%d text", i), "@commit more"), "", func(missions.Beat) {})
			if err != nil {
				t.Error(err)
				return
			}
			<-a.Done()
			found, err := y.docks.Collect(t.Context(), w)
			if err != nil || found.Produced == nil || !*found.Produced {
				t.Errorf("%s: %+v, %v\n%s", w.Mission.ID, found, err, y.log(w.Mission.ID))
				return
			}
			w.Mission.Commit = found.Commit
			if _, err := y.docks.Land(t.Context(), w); err != nil {
				t.Error(err)
			}
			if err := y.docks.Reclaim(t.Context(), v, w.Dock, i%2 == 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if out, err := y.try(y.clone(), "fsck", "--full", "--strict"); err != nil || strings.Contains(out, "missing") {
		t.Errorf("%s, %v", out, err)
	}
	if n := y.sh(y.clone(), "rev-list", "--count", "--no-merges", "refs/heads/main"); n != "41" {
		t.Errorf("%s commits landed", n)
	}
	if n := y.sh(y.clone(), "for-each-ref", "--format=x", "refs/heads/berth"); strings.Count(n, "x") != 10 {
		t.Errorf("branches: %q", n)
	}
}

func TestARepositoryThatVanishesIsSaidAndLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("its origin, before it was cloned", func(t *testing.T) {
		y := newYard(t)
		w := y.work("msn_a", y.vessel(func(v *dispatch.Vessel) { v.RepoURL = y.file("nowhere") }))
		if _, err := y.docks.Prepare(t.Context(), w); err == nil || fault(err) != "" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("its origin, afterwards", func(t *testing.T) {
		y := newYard(t)
		w := y.work("msn_a", y.vessel())
		y.prepare(&w)
		if err := os.RemoveAll(y.origin); err != nil {
			t.Fatal(err)
		}
		next := y.work("msn_b", y.vessel())
		if got := y.prepare(&next); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "could not be fetched") {
			t.Errorf("warned of %v", got.Warnings)
		}
		ref := "later"
		if _, err := y.docks.Resolve(t.Context(), w.Vessel, ref); fault(err) != dispatch.StartFromRefMissing || !strings.Contains(err.Error(), "could not be fetched") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the clone, while an agent works", func(t *testing.T) {
		y := newYard(t)
		w := y.work("msn_a", y.vessel())
		y.prepare(&w)
		if err := os.RemoveAll(y.clone()); err != nil {
			t.Fatal(err)
		}
		end, got := y.run(&w, "@say hello")
		if end.Code == nil || *end.Code != 0 || got.Commit != nil || got.Produced != nil {
			t.Errorf("ended %+v, found %+v", end, got)
		}
		w.Mission.Commit = w.Mission.StartCommit
		if _, err := y.docks.Land(t.Context(), w); err == nil || fault(err) != "" {
			t.Errorf("landed: %v", err)
		}
		y.reclaim(w, false)
	})
}

func TestAnOriginThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	y := newYard(t, func(y *yard) { y.limits.Network = 300 * time.Millisecond })
	v := y.vessel(func(v *dispatch.Vessel) {
		v.RepoURL = "http://user:hunter2hunter2@" + silent.Addr().String() + "/x.git"
	})
	_, err = y.docks.Prepare(t.Context(), y.work("msn_a", v))
	if err == nil || fault(err) != "" || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "not ended in time") {
		t.Errorf("got %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := y.docks.Prepare(gone, y.work("msn_a", v)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNotOnTheBranchIsSaid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, brief string
		produced    string // true, false or unknown
		log         []string
		diff        string
	}{
		{"a commit", "@write a a\n@commit a", "true", nil, "+++ b/a"},
		{"no commit", "@say nothing", "false", nil, ""},
		{"what is not committed", "@write README changed\n@write new x", "false", []string{"not committed", "README", "new"}, "+changed"},
		{"a commit on another branch", "@git switch --quiet -c mine\n@write a a\n@commit a", "false", []string{`branch "mine"`, "do not count"}, ""},
		{"a commit on no branch", "@git checkout --quiet --detach\n@write a a\n@commit a", "false", []string{`branch ""`, "do not count"}, ""},
		{"a commit on the default branch", "@git switch --quiet -c main refs/remotes/origin/main\n@write a a\n@commit a", "false", []string{`branch "main"`, "do not count.", "kept as the branch berth/aside-"}, ""},
		{"no worktree", "@write a a\n@commit a\n@rmworktree", "true", []string{"worktree is gone"}, "+++ b/a"},
		{"no branch", "@git checkout --quiet --detach\n@git branch -D berth/msn_a", "unknown", []string{"branch berth/msn_a is gone"}, ""},
		{"a branch that went back", "@git commit --quiet --amend --allow-empty -m other", "true", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			w := y.work("msn_a", y.vessel())
			y.prepare(&w)
			end, got := y.run(&w, tt.brief)
			produced := "unknown"
			if got.Produced != nil {
				produced = fmt.Sprint(*got.Produced)
			}
			log := y.log("msn_a")
			if end.Code == nil || *end.Code != 0 || produced != tt.produced || (got.Commit == nil) != (tt.name == "no branch") {
				t.Errorf("ended %+v, produced %s\n%s", end, produced, log)
			}
			for _, want := range tt.log {
				if !strings.Contains(log, want) {
					t.Errorf("the log lacks %q: %s", want, log)
				}
			}
			if diff, _, err := y.papers.Diff("msn_a"); err != nil || !strings.Contains(diff, tt.diff) || tt.diff == "" && diff != "" {
				t.Errorf("the diff: %q, %v", diff, err)
			}
			y.reclaim(w, false)
			if out, err := y.try(y.clone(), "fsck", "--full"); err != nil {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}

func TestWhatAnAgentSetsInTheCloneIsTakenAway(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.commit(".gitattributes", "*.x filter=evil\n")
	y.commit("a.x", "one\n")
	ran := y.file("ran")
	program := y.file("evil")
	y.write(program, "#!/bin/sh\ntouch "+ran+"\ncat\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	local := func(v *dispatch.Vessel) { v.LandingMode = dispatch.LandLocalMerge }
	a := y.work("msn_a", y.vessel(local))
	y.prepare(&a)
	y.run(&a, lines("@write b b", "@commit b", "@write c c", "@git config filter.evil.smudge "+program, "@git config filter.evil.clean "+program, "@git config commit.gpgsign true",
		"@git config url./nowhere.insteadOf /"))
	hook := filepath.Join(y.clone(), "hooks", "pre-commit")
	y.write(hook, "#!/bin/sh\ntouch "+ran+"\n")
	y.write(filepath.Join(y.clone(), "info", "attributes"), "* filter=evil\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	if log := y.log("msn_a"); !strings.Contains(log, "not committed") || !strings.Contains(log, "taken away: ") || !strings.Contains(log, "filter.evil.smudge") {
		t.Errorf("the log: %s", log)
	}
	y.sh(y.clone(), "config", "commit.gpgsign", "true")
	if _, err := y.docks.Land(t.Context(), a); err != nil {
		t.Error(err)
	}
	y.reclaim(a, true)
	b := y.work("msn_b", y.vessel(local))
	got := y.prepare(&b)
	if said := strings.Join(got.Warnings, "\n"); !strings.Contains(said, "taken away: hooks, info/attributes, commit.gpgsign.") {
		t.Errorf("warned of %q", said)
	}
	if end, got := y.run(&b, lines("@write d d", "@commit d")); end.Code == nil || *end.Code != 0 || got.Produced == nil || !*got.Produced {
		t.Errorf("ended %+v with %+v: %s", end, got, y.log("msn_b"))
	}
	c := y.work("msn_c", y.vessel(local))
	if got := y.prepare(&c); len(got.Warnings) > 0 {
		t.Errorf("warned of %q", got.Warnings)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a program of the agent's ran")
	}
}
