//go:build unix

package dock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/actors/missions"
	"berth/broker/dispatch"
)

func TestLandingMergesOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	work := func(y *yard, id, path, content string, v dispatch.Vessel) missions.Work {
		w := y.work(id, v)
		y.prepare(&w)
		y.run(&w, lines("@write "+path+" "+content, "@commit change "+path))
		y.reclaim(w, false)
		return w
	}
	local := func(v *dispatch.Vessel) { v.LandingMode = dispatch.LandLocalMerge }
	t.Run("into a clean working directory", func(t *testing.T) {
		y := newYard(t)
		v := y.vessel(local, func(v *dispatch.Vessel) { v.WorkingDirectory = &y.origin })
		w := work(y, "msn_a", "a", "a", v)
		w.Mission.Title = "  Two\nlines \x1b[31m"
		commit, err := y.docks.Land(t.Context(), w)
		if err != nil || y.sh(y.origin, "rev-parse", "main") != commit || y.sh(y.origin, "log", "-1", "--format=%s") != "Land Two lines (msn_a)" {
			t.Errorf("landed as %s, %v: %s", commit, err, y.sh(y.origin, "log", "-1"))
		}
		if parents := strings.Fields(y.sh(y.origin, "log", "-1", "--format=%P")); len(parents) != 2 || parents[1] != *w.Mission.Commit {
			t.Errorf("its parents are %v", parents)
		}
		if again, err := y.docks.Land(t.Context(), w); err != nil || again != commit {
			t.Errorf("landed again as %s, %v", again, err)
		}
	})
	t.Run("not over what is not committed, nor onto another branch", func(t *testing.T) {
		y := newYard(t)
		w := work(y, "msn_a", "a", "a", y.vessel(local, func(v *dispatch.Vessel) { v.WorkingDirectory = &y.origin }))
		y.write(filepath.Join(y.origin, "mine"), "x")
		_, err := y.docks.Land(t.Context(), w)
		if fault(err) != dispatch.WorkingDirectoryBusy || !strings.Contains(err.Error(), "not committed") {
			t.Errorf("dirty: %v", err)
		}
		y.sh(y.origin, "switch", "--quiet", "-c", "other")
		_, err = y.docks.Land(t.Context(), w)
		if fault(err) != dispatch.WorkingDirectoryBusy || !strings.Contains(err.Error(), "is not on main") {
			t.Errorf("elsewhere: %v", err)
		}
	})
	t.Run("not over a conflict", func(t *testing.T) {
		y := newYard(t)
		w := work(y, "msn_a", "README", "theirs", y.vessel(local, func(v *dispatch.Vessel) { v.WorkingDirectory = &y.origin }))
		before := y.commit("README", "ours\n")
		if _, err := y.docks.Land(t.Context(), w); fault(err) != dispatch.MergeConflict {
			t.Errorf("got %v", err)
		}
		if now := y.sh(y.origin, "rev-parse", "main"); now != before || y.sh(y.origin, "status", "--porcelain") != "" {
			t.Errorf("at %s, was %s", now, before)
		}
	})
	t.Run("into the bare clone, where the next one begins", func(t *testing.T) {
		y := newYard(t)
		v := y.vessel(local)
		a := work(y, "msn_a", "a", "a", v)
		landed, err := y.docks.Land(t.Context(), a)
		if err != nil || y.sh(y.clone(), "rev-parse", "refs/heads/main") != landed {
			t.Fatalf("landed as %s, %v", landed, err)
		}
		if left, err := os.ReadDir(y.state("docks/.landing")); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		b := y.work("msn_b", v)
		if from := y.prepare(&b); from.StartCommit != landed || len(from.Warnings) > 0 {
			t.Errorf("begins at %+v, want %s", from, landed)
		}
		// What origin got meanwhile comes first, and the landing brings both together.
		there := y.commit("theirs", "t\n")
		c := y.work("msn_c", v)
		if from := y.prepare(&c); from.StartCommit != there || len(from.Warnings) != 1 {
			t.Errorf("begins at %+v, want %s", from, there)
		}
		_, got := y.run(&c, lines("@write c c", "@commit c"))
		c.Mission.Commit = got.Commit
		both, err := y.docks.Land(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		d := y.work("msn_d", v)
		if from := y.prepare(&d); from.StartCommit != both || len(from.Warnings) > 0 {
			t.Errorf("begins at %+v, want %s", from, both)
		}
	})
	t.Run("a bare repository is no working directory", func(t *testing.T) {
		y := newYard(t)
		bare := filepath.Join(y.dir, "bare.git")
		y.sh(y.dir, "clone", "--quiet", "--bare", y.origin, bare)
		v := y.vessel(local, func(v *dispatch.Vessel) { v.RepoURL, v.WorkingDirectory = bare, &bare })
		a := work(y, "msn_a", "a", "a", v)
		landed, err := y.docks.Land(t.Context(), a)
		if err != nil || y.sh(y.clone(), "rev-parse", "refs/heads/main") != landed {
			t.Fatalf("landed as %s, %v", landed, err)
		}
		b := y.work("msn_b", v)
		if from := y.prepare(&b); from.StartCommit != landed || len(from.Warnings) > 0 {
			t.Errorf("begins at %+v, want %s", from, landed)
		}
	})
	t.Run("a working directory beside another origin", func(t *testing.T) {
		y := newYard(t)
		dir := filepath.Join(y.dir, "work")
		y.sh(y.dir, "clone", "--quiet", y.origin, dir)
		v := y.vessel(local, func(v *dispatch.Vessel) { v.WorkingDirectory = &dir })
		a := work(y, "msn_a", "a", "a", v)
		landed, err := y.docks.Land(t.Context(), a)
		if err != nil || y.sh(dir, "rev-parse", "main") != landed {
			t.Fatalf("landed as %s, %v", landed, err)
		}
		b := y.work("msn_b", v)
		if from := y.prepare(&b); from.StartCommit != landed {
			t.Errorf("begins at %+v, want %s", from, landed)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		c := y.work("msn_c", v)
		if from := y.prepare(&c); from.StartCommit != y.sh(y.origin, "rev-parse", "main") || len(from.Warnings) != 1 {
			t.Errorf("begins at %+v", from)
		}
	})
	t.Run("not over protected paths, of the whole chain", func(t *testing.T) {
		y := newYard(t)
		v := y.vessel(local, func(v *dispatch.Vessel) { v.ProtectedPaths = []string{"ci/**"} })
		a := work(y, "msn_a", "ci/deep/x", "a", v)
		if !strings.Contains(y.log("msn_a"), "protected were changed: ci/deep/x") {
			t.Errorf("the log: %s", y.log("msn_a"))
		}
		b := y.work("msn_b", v)
		b.Before, b.Dock.Branch = &a.Mission, a.Dock.Branch
		y.prepare(&b)
		y.run(&b, lines("@write b b", "@commit b"))
		_, err := y.docks.Land(t.Context(), b)
		if fault(err) != dispatch.ProtectedPathChanged || !strings.Contains(err.Error(), "ci/deep/x") {
			t.Errorf("got %v", err)
		}
		b.Vessel.ProtectedPaths = []string{"docs"}
		if _, err := y.docks.Land(t.Context(), b); err != nil {
			t.Errorf("paths that did not change: %v", err)
		}
	})
}

func TestWhatAnAgentCommitsOnTheDefaultBranchIsNoLanding(t *testing.T) {
	t.Parallel()
	for name, brief := range map[string][]string{
		"and stays there":     {"@git switch --quiet -c main refs/remotes/origin/main", "@write ci/x evil", "@commit sneak"},
		"and goes back again": {"@write a a", "@commit a", "@git switch --quiet -c main refs/remotes/origin/main", "@write ci/x evil", "@commit sneak", "@git switch --quiet berth/msn_a"},
		"over a landing":      {"@git switch --quiet main", "@write ci/x evil", "@commit sneak"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			v := y.vessel(func(v *dispatch.Vessel) { v.LandingMode, v.ProtectedPaths = dispatch.LandLocalMerge, []string{"ci"} })
			begin := y.sh(y.origin, "rev-parse", "main")
			if name == "over a landing" {
				w := y.work("msn_0", v)
				y.prepare(&w)
				y.run(&w, lines("@write first f", "@commit first"))
				y.reclaim(w, false)
				landed, err := y.docks.Land(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				begin = landed
			}
			a := y.work("msn_a", v)
			y.prepare(&a)
			y.run(&a, lines(brief...))
			if log := y.log("msn_a"); !strings.Contains(log, "The clone's main held commits that were not landed.") || !strings.Contains(log, "kept as the branch berth/aside-") {
				t.Errorf("the log: %s", log)
			}
			y.reclaim(a, false)
			kept := y.sh(y.clone(), "for-each-ref", "--format=%(refname:short)", "refs/heads/berth/aside-*")
			if y.sh(y.clone(), "show", kept+":ci/x") != "evil" {
				t.Errorf("kept are %q", kept)
			}
			b := y.work("msn_b", v)
			if from := y.prepare(&b); from.StartCommit != begin {
				t.Errorf("the next begins at %+v, want %s", from, begin)
			}
			// Another comes in just before the landing.
			_, got := y.run(&b, lines("@write b b", "@commit b"))
			b.Mission.Commit = got.Commit
			y.sh(y.clone(), "update-ref", "refs/heads/main", kept)
			landed, err := y.docks.Land(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if files := y.sh(y.clone(), "ls-tree", "-r", "--name-only", landed); strings.Contains(files, "ci/") || !strings.Contains(files, "b") {
				t.Errorf("landed are %q", files)
			}
			if y.sh(y.clone(), "rev-parse", "refs/heads/main") != landed || !strings.Contains(y.log("msn_b"), kept) {
				t.Errorf("main is elsewhere than %s; the log: %s", landed, y.log("msn_b"))
			}
		})
	}
}

func TestWhetherACommitLandedIsLookedForWhereItCould(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	dir := filepath.Join(y.dir, "work")
	y.sh(y.dir, "clone", "--quiet", y.origin, dir)
	v := y.vessel()
	w := y.work("msn_a", v)
	y.prepare(&w)
	y.run(&w, lines("@write a a", "@commit a"))
	commit := *w.Mission.Commit
	landed := func(v dispatch.Vessel, want string) {
		t.Helper()
		got, err := y.docks.Landed(t.Context(), v, commit)
		if fmt.Sprint(got) != want && (err == nil || want != "unknown") {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	at := func(path string) func(*dispatch.Vessel) {
		return func(v *dispatch.Vessel) { v.WorkingDirectory = &path }
	}
	landed(v, "false")
	landed(y.vessel(at(dir)), "false")
	landed(y.vessel(at(y.file("nowhere"))), "unknown")
	landed(y.vessel(func(v *dispatch.Vessel) { v.DefaultBranch = "trunk" }), "unknown")
	y.sh(dir, "fetch", "--quiet", y.clone(), commit)
	y.sh(dir, "merge", "--quiet", "FETCH_HEAD")
	landed(y.vessel(at(dir)), "true")
	landed(v, "false")
	y.sh(y.clone(), "update-ref", "refs/heads/main", commit) // somebody's, and no landing
	landed(v, "false")
	y.sh(y.clone(), "update-ref", "refs/berth/landed/main", commit)
	landed(v, "true")
	commit = strings.Repeat("0", 40)
	landed(v, "unknown")
}

func TestABranchGoesOnceItLanded(t *testing.T) {
	t.Parallel()
	for policy, gone := range map[string]bool{"LocalOnly": true, "LocalAndRemote": true, "None": false} {
		y := newYard(t)
		w := y.work("msn_a", y.vessel(func(v *dispatch.Vessel) { v.BranchCleanup = policy }))
		y.prepare(&w)
		y.reclaim(w, true)
		y.reclaim(w, true) // nothing is left to do
		if _, err := y.try(y.clone(), "rev-parse", "--verify", "berth/msn_a"); (err != nil) != gone {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
