//go:build unix

package git

import (
	"errors"
	"path/filepath"
	"testing"
)

// land merges a new file of a branch of its own.
func (y *yard) land(r *Repo, name string) (merged, kept string) {
	y.t.Helper()
	w := y.worktree(r, "berth/"+name)
	merged, kept, err := r.MergeBare(y.t.Context(), filepath.Join(y.dir, "scratch"), "main", y.commit(w, name, name), "land "+name)
	if err != nil {
		y.t.Fatal(err)
	}
	return merged, kept
}

func (y *yard) contains(r *Repo, ref, commit string) bool {
	y.t.Helper()
	in, err := r.Contains(y.t.Context(), ref, commit)
	if err != nil {
		y.t.Fatal(err)
	}
	return in
}

// intruder is a commit on origin's main that nobody landed.
func (y *yard) intruder(r *Repo) string {
	y.t.Helper()
	w := y.worktree(r, "intruder")
	return y.commit(w, "sneaked", "in\n")
}

const zeros = "0000000000000000000000000000000000000000"

func TestALandingGoesByWhereBerthLanded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first bool                                           // something landed before
		do    func(y *yard, r *Repo, landed, another string) // to the branch
		kept  bool
	}{
		{name: "its first, over somebody's branch", do: func(y *yard, r *Repo, _, another string) { y.do(r, "update-ref", "refs/heads/main", another) }, kept: true},
		{name: "over somebody's branch", first: true, do: func(y *yard, r *Repo, _, another string) { y.do(r, "update-ref", "refs/heads/main", another) }, kept: true},
		{name: "what is kept already", first: true, do: func(y *yard, r *Repo, _, another string) {
			y.do(r, "update-ref", "refs/heads/main", another)
			y.do(r, "update-ref", "refs/heads/berth/aside-"+another[:12], another)
		}, kept: true},
		{name: "a branch that went back", first: true, do: func(y *yard, r *Repo, _, _ string) {
			y.do(r, "update-ref", "refs/heads/main", "refs/remotes/origin/main")
		}},
		{name: "a branch that is gone", first: true, do: func(y *yard, r *Repo, _, _ string) { y.do(r, "update-ref", "-d", "refs/heads/main") }},
		{name: "a branch that is another's name", first: true, do: func(y *yard, r *Repo, _, _ string) {
			y.do(r, "symbolic-ref", "refs/heads/main", "refs/heads/intruder")
		}, kept: true},
		{name: "a branch that leads nowhere", first: true, do: func(y *yard, r *Repo, _, _ string) {
			y.do(r, "symbolic-ref", "refs/heads/main", "refs/heads/nowhere")
		}},
		{name: "one that was killed between its refs", first: true, do: func(y *yard, r *Repo, landed, _ string) {
			y.do(r, "update-ref", "refs/heads/main", landed+"^1")
		}},
		{name: "in packed refs", first: true, do: func(y *yard, r *Repo, _, _ string) { y.do(r, "pack-refs", "--all", "--prune") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			r := y.clone()
			landed := ""
			if tt.first {
				landed, _ = y.land(r, "first")
			}
			another := y.intruder(r)
			tt.do(y, r, landed, another)
			merged, kept := y.land(r, "next")
			if at := y.do(r, "rev-parse", "refs/heads/main"); at != merged || y.contains(r, merged, another) || tt.first && !y.contains(r, merged, landed) {
				t.Errorf("main is at %s, landed %s", at, merged)
			}
			if at, err := r.Landed(t.Context(), "main"); err != nil || at != merged {
				t.Errorf("landed at %s, %v", at, err)
			}
			if at := y.do(r, "rev-parse", "refs/heads/intruder"); at != another {
				t.Errorf("another branch is at %s", at)
			}
			if want := "berth/aside-" + another[:12]; (kept == want) != tt.kept || (kept == "") == tt.kept || tt.kept && y.do(r, "rev-parse", kept) != another {
				t.Errorf("kept as %q", kept)
			}
		})
	}
}

func TestALandingThatIsMadeAgainIsFound(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	merged, _ := y.land(r, "a")
	y.do(r, "update-ref", "-d", "refs/heads/main") // it was killed between its refs
	again, kept, err := r.MergeBare(t.Context(), filepath.Join(y.dir, "scratch"), "main", y.do(r, "rev-parse", "refs/heads/berth/a"), "land a")
	if err != nil || again != merged || kept != "" || y.do(r, "rev-parse", "refs/heads/main") != merged {
		t.Errorf("landed as %s, was %s, kept %q, %v", again, merged, kept, err)
	}
}

// TestALandingAfterOriginsHistoryWasWrittenAnew: what landed before has nothing in
// common with what origin is now.
func TestALandingAfterOriginsHistoryWasWrittenAnew(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	old, _ := y.land(r, "a")
	y.do(y.origin, "checkout", "--quiet", "--orphan", "anew")
	anew := y.commit(y.origin, "README", "anew\n")
	y.do(y.origin, "branch", "--force", "--move", "anew", "main")
	if stale, err := r.Follow(t.Context(), y.origin.dir, 0); stale != nil || err != nil {
		t.Fatal(stale, err)
	}
	path := filepath.Join(y.dir, "docks", "b")
	if err := r.AddWorktree(t.Context(), path, "berth/b", anew); err != nil {
		t.Fatal(err)
	}
	commit := y.commit(y.git.Repo(path), "b", "b")
	merged, kept, err := r.MergeBare(t.Context(), filepath.Join(y.dir, "scratch"), "main", commit, "land b")
	if err != nil || kept != "berth/aside-"+old[:12] || y.do(r, "rev-parse", kept) != old {
		t.Fatalf("landed as %s, kept %q, %v", merged, kept, err)
	}
	if !y.contains(r, merged, anew) || !y.contains(r, merged, commit) || y.contains(r, merged, old) || y.do(r, "rev-parse", "refs/heads/main") != merged {
		t.Errorf("%s is not of the new history alone", merged)
	}
	if at, err := r.Landed(t.Context(), "main"); err != nil || at != merged {
		t.Errorf("landed at %s, %v", at, err)
	}
	// One of the old history has nothing to stand on any more.
	if _, _, err := r.MergeBare(t.Context(), filepath.Join(y.dir, "scratch"), "main", y.do(r, "rev-parse", "refs/heads/berth/a"), "land a"); err == nil {
		t.Error("the old history was landed into the new one")
	}
}

func TestRefsChangeTogetherOrNotAtAll(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	merged, _ := y.land(r, "a")
	next := y.intruder(r)
	err := r.change(t.Context(), "test", "update "+landedRefs+"main "+next+" "+merged, "update refs/heads/main "+next+" "+next)
	var failed *Error
	if !errors.As(err, &failed) || failed.Op != "update-ref" {
		t.Errorf("got %v", err)
	}
	if at, err := r.Landed(t.Context(), "main"); err != nil || at != merged {
		t.Errorf("landed at %s, %v", at, err)
	}
}

func TestACloneFromBeforeBeginsWithItsBranch(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	before := y.intruder(r)
	forget := func() { // what a clone had that kept no landings
		y.do(r, "update-ref", "-d", landings)
		y.do(r, "update-ref", "refs/heads/main", before)
	}
	forget()
	for range 2 {
		if err := r.Adopt(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		if at, err := r.Landed(t.Context(), "main"); err != nil || at != before {
			t.Errorf("landed at %s, %v", at, err)
		}
		y.do(r, "pack-refs", "--all", "--prune")
	}
	if merged, kept := y.land(r, "next"); kept != "" || !y.contains(r, merged, before) {
		t.Errorf("kept as %q", kept)
	}
	// A new one begins with nothing, whatever its branches say.
	fresh := y.git.Repo(filepath.Join(y.dir, "repos", "b.git"))
	if err := fresh.Clone(t.Context(), y.origin.dir); err != nil {
		t.Fatal(err)
	}
	y.do(fresh, "branch", "main", "refs/remotes/origin/main")
	if err := fresh.Adopt(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	if at, err := fresh.Landed(t.Context(), "main"); !errors.Is(err, ErrNoRef) {
		t.Errorf("landed at %s, %v", at, err)
	}
	if err := fresh.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestABranchIsStraightenedInBerthsOwnRepositories(t *testing.T) {
	for _, tt := range []struct {
		name          string
		own, first    bool
		branch        string // in the place of main: intruder, origin, none
		set, keep     bool
		withoutOrigin bool
	}{
		{name: "after a landing", own: true, first: true, branch: "intruder", set: true, keep: true},
		{name: "before the first", own: true, branch: "intruder", set: true, keep: true},
		{name: "one that went back", own: true, first: true, branch: "origin", set: true},
		{name: "one that is gone", own: true, first: true, branch: "none", set: true},
		{name: "one that holds nothing new", own: true, branch: "origin"},
		{name: "none", own: true, branch: "none"},
		{name: "not in a person's", first: true, branch: "intruder"},
		{name: "not without a place to set it to", own: true, branch: "intruder", withoutOrigin: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			if tt.own {
				y.git.opts.Own = filepath.Join(y.dir, "repos")
			}
			r := y.clone()
			want := y.do(r, "rev-parse", "refs/remotes/origin/main")
			from := map[string]string{"origin": want, "intruder": y.intruder(r), "none": zeros}[tt.branch]
			if tt.first {
				want, _ = y.land(r, "first")
			}
			if tt.withoutOrigin {
				y.do(r, "update-ref", "-d", "refs/remotes/origin/main")
			}
			if y.do(r, "update-ref", "-d", "refs/heads/main"); from != zeros {
				y.do(r, "update-ref", "refs/heads/main", from)
			}
			kept, err := r.Straighten(t.Context(), "main")
			if err != nil || (kept != "") != tt.keep {
				t.Errorf("kept %q, %v", kept, err)
			}
			if !tt.set {
				want = from
			}
			at, err := r.At(t.Context(), "refs/heads/main")
			if errors.Is(err, ErrNoRef) {
				at = zeros
			}
			if at != want {
				t.Errorf("main is at %s, want %s", at, want)
			}
		})
	}
}

func TestARepositoryThatIsItsOwnOriginSaysWhereItIs(t *testing.T) {
	y := newYard(t)
	dir := filepath.Join(y.dir, "bare.git")
	y.do(y.git.Repo(y.dir), "clone", "--quiet", "--bare", y.origin.dir, dir)
	r := y.git.Repo(dir).AsOrigin()
	if stale, err := r.Follow(t.Context(), dir, 0); stale != nil || err != nil {
		t.Fatal(stale, err)
	}
	pushed := y.intruder(r)
	y.do(r, "update-ref", "refs/heads/main", pushed)
	y.land(r, "a")
	if !y.contains(r, "refs/heads/main", pushed) {
		t.Error("what was pushed is gone")
	}
}
