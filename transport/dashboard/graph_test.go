package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/transport/rest"
)

// Whatever depends on what: every mission that is in no circle has a box of its
// own, right of what it goes on from, and no two boxes overlap.
func TestAGraphShowsEachMissionOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "missions")
		missions := make([]rest.Mission, n)
		for i := range missions {
			missions[i].ID = fmt.Sprint("m", i)
			if on := rapid.IntRange(-3, n).Draw(rt, "depends on"); on >= 0 { // m(n) is elsewhere
				id := fmt.Sprint("m", on)
				missions[i].DependsOn = &id
			}
		}
		g := graphOf(missions)
		at := map[string]box{}
		for _, b := range g.Boxes {
			if _, twice := at[b.ID]; twice {
				rt.Fatalf("%s twice", b.ID)
			}
			at[b.ID] = b
			if b.X < 0 || b.Y < 0 || b.X+b.Width > g.Width || b.Y+b.Height > g.Height {
				rt.Fatalf("%+v is outside of %d by %d", b, g.Width, g.Height)
			}
			for _, o := range g.Boxes {
				if o.ID != b.ID && o.X < b.X+b.Width && b.X < o.X+o.Width && o.Y < b.Y+b.Height && b.Y < o.Y+o.Height {
					rt.Fatalf("%s and %s overlap", b.ID, o.ID)
				}
			}
		}
		lines := 0
		for _, m := range missions {
			ring := inRing(missions, m)
			b, shown := at[m.ID]
			if shown == ring {
				rt.Fatalf("%s is shown %v, in a circle or behind one %v", m.ID, shown, ring)
			}
			if before, here := at[pointed(m.DependsOn)]; shown && m.DependsOn != nil && here && *m.DependsOn != m.ID {
				if lines++; before.X >= b.X {
					rt.Fatalf("%s does not stand right of %s", m.ID, before.ID)
				}
			}
		}
		if lines != len(g.Lines) {
			rt.Fatalf("%d lines, want %d", len(g.Lines), lines)
		}
	})
}

// inRing reports whether a walk from m along what it depends on never ends. One
// that depends on itself stands alone.
func inRing(missions []rest.Mission, m rest.Mission) bool {
	byID := map[string]rest.Mission{}
	for _, o := range missions {
		byID[o.ID] = o
	}
	for range len(missions) + 1 {
		next, here := byID[pointed(m.DependsOn)]
		if m.DependsOn == nil || !here || next.ID == m.ID {
			return false
		}
		m = next
	}
	return true
}

func TestADiffIsReadByFile(t *testing.T) {
	for _, tt := range []struct{ name, diff, want string }{
		{"nothing", "", ""},
		{"one file", "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n", "x +1 −1: meta meta meta meta hunk - del add"},
		{"lines that look like a header", "diff --git a/x b/x\n@@ -1 +1 @@\n--- a\n+++ b\n", "x +1 −1: meta hunk del add"},
		{"two files", "diff --git a/x b/x\n@@ -0,0 +1 @@\n+n\ndiff --git a/old name b/a name\nsimilarity index 100%\n", "x +1 −0: meta hunk add; a name +0 −0: meta meta"},
		{"no diff at all", "fatal: bad\n+x", " +1 −0: - add"},
		{"an end that is missing", "diff --git a/x b/x\n@@ -1 +1 @@\n+n", "x +1 −0: meta hunk add"},
	} {
		files, more := readDiff(tt.diff)
		var got []string
		for _, f := range files {
			var kinds []string
			for _, l := range f.Lines {
				if l.Kind == "" {
					l.Kind = "-"
				}
				kinds = append(kinds, l.Kind)
			}
			got = append(got, f.Name+" "+f.Changed()+": "+strings.Join(kinds, " "))
		}
		if strings.Join(got, "; ") != tt.want || more != 0 {
			t.Errorf("%s: %q, want %q", tt.name, strings.Join(got, "; "), tt.want)
		}
	}
}

// Nothing of a diff is lost but what is said to be, whatever it holds.
func FuzzReadDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n")
	f.Add("\n\n\xff" + strings.Repeat("+", 900) + "\n")
	f.Fuzz(func(t *testing.T, diff string) {
		files, more := readDiff(diff)
		lines := 0
		for _, file := range files {
			lines += len(file.Lines)
			if file.Added+file.Removed > len(file.Lines) {
				t.Fatalf("%+v", file)
			}
		}
		want := 0
		if diff != "" {
			want = strings.Count(strings.TrimSuffix(diff, "\n"), "\n") + 1
		}
		if lines+more != want || lines > shownDiff {
			t.Fatalf("%d lines and %d more of %d", lines, more, want)
		}
	})
}
