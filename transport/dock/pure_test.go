//go:build unix

package dock

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"berth/broker/dispatch"
)

func TestProtectedPathsHoldWhatIsBelowThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"a", "a", true}, {"a", "a/b", true}, {"a", "ab", false}, {"a/", "a/b/c", true}, {"/a/b", "a/b", true}, {"a/b", "a", false}, {"./a", "a", true},
		{"*.go", "x.go", true}, {"*.go", "d/x.go", false}, {"**/*.go", "d/e/x.go", true}, {"**/*.go", "x.go", true}, {"a/**", "a/x/y", true}, {"a/**/z", "a/z", true}, {"a/**/z", "a/b/c/z/d", true},
		{".github/workflows/*.yml", ".github/workflows/ci.yml", true}, {"[", "[", true}, {"[", "x", false}, {"", "a", false}, {"/", "a", false}, {"..", "a", false}, {"**", "a", true}, {"?", "a", true},
	} {
		if got := guards([]string{"nothing", tt.pattern}, tt.path); got != tt.want {
			t.Errorf("%q holds %q: %v", tt.pattern, tt.path, got)
		}
	}
}

func TestTextDoesNothingToATerminal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"plain": "plain", "\x1b[1;31mred\x1b[0m": "red", "a\tb\r\x07\x1b]0;title\x07": "a\tb]0;title", "\xff\u009b": "\uFFFD", "é": "é"} {
		if got := plain(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// cut feeds a splitter in chunks and gives its lines again.
func cut(text []byte, events bool, known string, chunk int) (lines []line) {
	s := splitter{events: events, redactor: redacting(known), each: func(l line) { lines = append(lines, l) }}
	for len(text) > 0 {
		n := min(chunk, len(text))
		_, _ = s.Write(text[:n])
		text = text[n:]
	}
	s.end()
	return lines
}

// TestCuttingLosesNothingAndSplitsNoCredential puts lines together again.
func TestCuttingLosesNothingAndSplitsNoCredential(t *testing.T) {
	t.Parallel()
	const known = "s3cr\u00e9t-value"
	rapid.Check(t, func(rt *rapid.T) {
		var text bytes.Buffer
		for range rapid.IntRange(1, 6).Draw(rt, "parts") {
			text.WriteString(strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\U0001F600", "\xff"}).Draw(rt, "fill"), rapid.SampledFrom([]int{0, 1, 7, maxPiece/2 - 3, maxPiece - 5, maxPiece, 2*maxPiece + 1}).Draw(rt, "size")))
			text.WriteString(rapid.SampledFrom([]string{"", known, "\n", "\r\n", known + known, "\n\n"}).Draw(rt, "then"))
		}
		var got strings.Builder
		for i, l := range cut(text.Bytes(), false, known, rapid.SampledFrom([]int{1 << 20, 32 << 10, 777}).Draw(rt, "chunk")) {
			if len(l.text) > maxPiece || l.long || l.passed {
				rt.Fatalf("a line of %d bytes, %+v", len(l.text), l.long)
			}
			if i > 0 && !l.on {
				got.WriteByte('\n')
			}
			got.WriteString(l.text)
			if utf8.Valid(text.Bytes()) && !utf8.ValidString(l.text) {
				rt.Fatal("a character was cut")
			}
			for n := 1; n < len(known); n++ {
				if strings.HasSuffix(l.text, known[:n]) && strings.HasPrefix(text.String()[min(text.Len(), got.Len()):], known[n:]) {
					rt.Fatal("a credential was cut")
				}
			}
		}
		want := strings.TrimSuffix(strings.ReplaceAll(text.String(), "\r\n", "\n"), "\n")
		if strings.HasSuffix(want, "\r") || got.String() == want {
			return
		}
		rt.Fatalf("%d bytes became %d", len(want), got.Len())
	})
}

func TestEventsAreKeptWholeUpToALimit(t *testing.T) {
	t.Parallel()
	event := `{"text":"` + strings.Repeat("x", 200<<10) + `"}`
	huge := " {" + strings.Repeat("y", maxEvent)
	lines := cut([]byte(event+"\n"+strings.Repeat("z", maxPiece+1)+"\n"+huge+"more\nafter\n"), true, "", 32<<10)
	var got []string
	for _, l := range lines {
		switch {
		case l.long:
			got = append(got, "long")
		case l.passed && got[len(got)-1] == "passed":
		case l.passed:
			got = append(got, "passed")
		default:
			got = append(got, fmt.Sprint(len(l.text), l.on))
		}
	}
	if want := fmt.Sprint(len(event), false) + " 65536 false 1 true long passed 5 false"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\n\r\n x"), "x", 3)
	f.Fuzz(func(t *testing.T, text []byte, known string, chunk int) {
		total := 0
		for _, l := range cut(text, true, known, max(1, chunk)) {
			total += len(l.text)
		}
		if total > len(text) {
			t.Errorf("%d bytes became %d", len(text), total)
		}
	})
}

func papersFor(t *testing.T, now func() time.Time) *Papers {
	t.Helper()
	return NewPapers(PapersOptions{Root: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: now, MaxLog: 4096})
}

func TestALogIsReadInParts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 9, 10, 2, 5e6, time.FixedZone("x", 3600))
	p := papersFor(t, func() time.Time { return at })
	for i := range 5 {
		p.Note("msn_a", fmt.Sprintf("line\n%d", i))
	}
	line := func(i int) string { return fmt.Sprintf("2026-05-04T08:10:02.005Z [berth] line %d", i) }
	for _, tt := range []struct {
		id            string
		offset, lines int
		want          string
		got, total    int
	}{
		{"msn_a", 0, 2, line(0) + "\n" + line(1), 2, 5}, {"msn_a", 3, 100, line(3) + "\n" + line(4), 2, 5}, {"msn_a", 5, 10, "", 0, 5}, {"msn_a", 0, 0, "", 0, 5},
		{"msn_b", 0, 10, "", 0, 0}, {"../msn_a", 0, 10, "", 0, 0}, {"", 0, 10, "", 0, 0},
	} {
		if text, got, total, err := p.Log(tt.id, tt.offset, tt.lines); err != nil || text != tt.want || got != tt.got || total != tt.total {
			t.Errorf("%s from %d, %d lines: %q, %d of %d, %v", tt.id, tt.offset, tt.lines, text, got, total, err)
		}
	}
	info, err := os.Stat(p.opts.Root + "/msn_a/log")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for range 2 {
		if err := p.Remove("msn_a"); err != nil {
			t.Error(err)
		}
	}
	if _, _, total, err := p.Log("msn_a", 0, 1); total != 0 || err != nil {
		t.Errorf("%d lines are left, %v", total, err)
	}
}

func TestALongAnswerFromALogEndsEarly(t *testing.T) {
	t.Parallel()
	p := papersFor(t, time.Now)
	dir, err := p.room("msn_a")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat(strings.Repeat("x", 1<<20-1)+"\n", 6) + "cut off"
	if err := os.WriteFile(dir+"/log", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, n, total, err := p.Log("msn_a", 0, 100)
	if err != nil || n != 4 || total != 7 || len(got) != 4<<20-1 {
		t.Errorf("%d bytes in %d of %d lines, %v", len(got), n, total, err)
	}
	if rest, n, _, err := p.Log("msn_a", 6, 100); err != nil || n != 1 || rest != "cut off" {
		t.Errorf("%q in %d lines, %v", rest, n, err)
	}
}

func TestNotesGoOnWhenALogIsFull(t *testing.T) {
	t.Parallel()
	p := papersFor(t, time.Now)
	l, err := p.openLog("msn_a", redactor{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.write("", strings.Repeat("x", 100))
	}
	for i := range 40 {
		_ = l.note(fmt.Sprint("note ", i, strings.Repeat("y", 10<<10)))
	}
	l.close()
	text, _, total, err := p.Log("msn_a", 0, 1000)
	if err != nil || strings.Count(text, "reached its limit") != 1 || strings.Count(text, "xxx...") != 0 || !strings.Contains(text, "note 3y") || strings.Contains(text, "note 39y") || len(text) > 4096+notesRoom+200 {
		t.Errorf("%d lines, %d bytes, %v", total, len(text), err)
	}
}

func TestWhereAVesselsCommitsComeFrom(t *testing.T) {
	t.Parallel()
	dir := "/srv/work"
	for _, tt := range []struct {
		v    dispatch.Vessel
		want string
	}{{dispatch.Vessel{RepoURL: "https://h/x", WorkingDirectory: &dir}, "https://h/x"}, {dispatch.Vessel{WorkingDirectory: &dir}, dir}} {
		if got := origin(tt.v); got != tt.want {
			t.Errorf("got %q", got)
		}
	}
}
