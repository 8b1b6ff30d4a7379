package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/journal"
	"berth/journal/archive"
)

const (
	childState = "BERTH_ARCHIVE_STATE"
	childFile  = "BERTH_ARCHIVE_FILE"
	childPoint = "BERTH_ARCHIVE_POINT"
)

var epoch = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// TestMain runs this binary again as a child that kills itself in the middle of
// a restore.
func TestMain(m *testing.M) {
	if state := os.Getenv(childState); state != "" {
		_, err := archive.Restore(context.Background(), state, os.Getenv(childFile), options(), func(point string) {
			if point == os.Getenv(childPoint) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func options() archive.Options {
	return archive.Options{Version: "v1", Now: func() time.Time { return epoch }, Settings: json.RawMessage(`{"env":"[REDACTED]"}`), Redacted: 1}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, state string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(filepath.Join(state, "journal.db"), journal.Options{})
	must(t, err)
	return j
}

func bigResult(id string) json.RawMessage {
	return json.RawMessage(`"` + id + strings.Repeat("x", 1<<20) + `"`)
}

// add writes a job and ends it in the way that its name begins with.
func add(t *testing.T, j *journal.Journal, id string) {
	t.Helper()
	ctx := t.Context()
	_, _, err := j.CreateJob(ctx, broker.Job{ID: id, Operation: "demo__build", Status: broker.JobAccepted, SubmittedAt: epoch, Tenant: "default", User: "operator", Backend: "demo"})
	must(t, err)
	change := func(c broker.JobChange) {
		c.At = epoch.Add(time.Second)
		_, err := j.ChangeJob(ctx, id, c)
		must(t, err)
	}
	switch {
	case strings.HasPrefix(id, "job_big"):
		change(broker.JobChange{To: broker.JobRunning, RuntimeID: "life-1"})
		change(broker.JobChange{To: broker.JobSucceeded, Result: bigResult(id)})
	case strings.HasPrefix(id, "job_bad"):
		change(broker.JobChange{To: broker.JobFailed, Reason: broker.CodeOperationFailed, Message: "it broke"})
	}
}

// newState makes a state directory whose journal holds these jobs.
func newState(t *testing.T, ids ...string) string {
	t.Helper()
	state := t.TempDir()
	j := open(t, state)
	for _, id := range ids {
		add(t, j, id)
	}
	must(t, j.Close())
	return state
}

func backUp(t *testing.T, state string) (path string, m archive.Manifest) {
	t.Helper()
	j, err := journal.OpenReadOnly(filepath.Join(state, "journal.db"))
	must(t, err)
	dir := t.TempDir()
	path = filepath.Join(dir, "b.zip")
	m, err = archive.Create(t.Context(), j, filepath.Join(dir, "staging"), path, options())
	must(t, errors.Join(err, j.Close()))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("beside the archive: %v, %v", entries, err)
	}
	return path, m
}

// holds asks that the journal of a state directory is whole and has these jobs.
func holds(t *testing.T, state string, ids ...string) {
	t.Helper()
	j := open(t, state)
	_, err := j.Recover(t.Context(), epoch.Add(time.Hour))
	must(t, err)
	problems, err := j.Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
	page, err := j.Jobs(broker.JobFilter{})
	must(t, err)
	var have []string
	for _, job := range page.Jobs {
		have = append(have, job.ID)
		whole, err := j.Job(job.ID)
		must(t, err)
		if strings.HasPrefix(job.ID, "job_big") && !bytes.Equal(whole.Result, bigResult(job.ID)) {
			t.Errorf("the result of %s has %d bytes", job.ID, len(whole.Result))
		}
	}
	slices.Sort(have)
	slices.Sort(ids)
	if !slices.Equal(have, ids) {
		t.Errorf("jobs %v, want %v", have, ids)
	}
	must(t, j.Close())
}

func wantCode(t *testing.T, err error, want broker.Code) *broker.Refusal {
	t.Helper()
	var r *broker.Refusal
	if !errors.As(err, &r) || r.Code != want {
		t.Fatalf("error %v, want %s", err, want)
	}
	return r
}

func TestABackupOfALiveJournalRestoresWithEqualCounts(t *testing.T) {
	state := newState(t, "job_big1", "job_bad1")
	j := open(t, state)
	add(t, j, "job_open1")
	dir := t.TempDir()
	path := filepath.Join(dir, "b.zip")
	m, err := archive.Create(t.Context(), j, filepath.Join(dir, "staging"), path, options())
	must(t, err)
	add(t, j, "job_late")
	must(t, j.Close())
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || m.RecordCounts["jobs"] != 3 || m.RecordCounts["resultFiles"] != 1 || m.RecordCounts["events"] != 1 ||
		m.DatabaseType != "bbolt" || m.SchemaVersion != journal.SchemaVersion || !m.SettingsRedacted || m.RedactedSettingsNum != 1 {
		t.Errorf("mode %o, manifest %+v", info.Mode(), m)
	}
	again, err := archive.Verify(t.Context(), path)
	must(t, err)
	if !maps.Equal(again.RecordCounts, m.RecordCounts) || again.Sha256 != m.Sha256 {
		t.Errorf("read back: %+v", again)
	}
	empty := t.TempDir()
	done, err := archive.Restore(t.Context(), empty, path, options(), nil)
	must(t, err)
	if done.SafetyBackupPath != nil || done.Status != "restored" {
		t.Errorf("%+v", done)
	}
	j = open(t, empty)
	recovery, err := j.Recover(t.Context(), epoch.Add(time.Hour))
	must(t, err)
	second, err := j.Recover(t.Context(), epoch.Add(time.Hour))
	must(t, err)
	if recovery.Lost != 1 || second.Lost != 0 {
		t.Errorf("lost %d, then %d", recovery.Lost, second.Lost)
	}
	must(t, j.Close())
	holds(t, empty, "job_big1", "job_bad1", "job_open1")
}

func TestARestoreKeepsWhatItReplaces(t *testing.T) {
	path, _ := backUp(t, newState(t, "job_big_new", "job_bad1"))
	state := newState(t, "job_big_old")
	done, err := archive.Restore(t.Context(), state, path, options(), nil)
	must(t, err)
	holds(t, state, "job_big_new", "job_bad1")
	if _, err := os.Stat(filepath.Join(state, "results", "job_big_old.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old result: %v", err)
	}
	j := open(t, state)
	events, err := j.Events("", 0)
	must(t, errors.Join(err, j.Close()))
	if last := events[len(events)-1]; last.EventType != archive.EventRestored {
		t.Errorf("the last event is %+v", last)
	}
	if _, err := archive.Restore(t.Context(), state, *done.SafetyBackupPath, options(), nil); err != nil {
		t.Fatal(err)
	}
	holds(t, state, "job_big_old")
}

// A process that is killed at any point of a restore leaves the old journal, or
// after the switch the new one, and the next restore is not disturbed by it.
func TestARestoreThatIsKilledLeavesTheOldOrTheNewJournal(t *testing.T) {
	path, _ := backUp(t, newState(t, "job_big_new", "job_big_new2", "job_bad1"))
	for _, tt := range []struct {
		point    string
		switched bool
	}{
		{"staging-made", false}, {"archive-verified", false}, {"safety-made", false}, {"result-moved", false}, {"results-moved", false}, {"journal-switched", true},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			state := newState(t, "job_big_old", "job_bad_old")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childState+"="+state, childFile+"="+path, childPoint+"="+tt.point)
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child was not killed: %v", err)
			}
			if tt.switched {
				holds(t, state, "job_big_new", "job_big_new2", "job_bad1")
			} else {
				holds(t, state, "job_big_old", "job_bad_old")
			}
			part := filepath.Join(state, archive.BackupsDir, ".before-restore-part.zip.1")
			must(t, errors.Join(os.MkdirAll(filepath.Dir(part), 0o700), os.WriteFile(part, []byte("PK"), 0o600)))
			_, err := archive.Restore(t.Context(), state, path, options(), nil)
			must(t, err)
			holds(t, state, "job_big_new", "job_big_new2", "job_bad1")
			if left, err := filepath.Glob(filepath.Join(state, archive.BackupsDir, ".*")); err != nil || len(left) > 0 {
				t.Errorf("parts of safety copies: %v, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(state, archive.StagingDir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the staging directory: %v", err)
			}
		})
	}
}

// rewrite copies an archive with one member changed, left out (nil) or added.
func rewrite(t *testing.T, path string, change func(name string, text []byte) (string, []byte), more ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "changed.zip")
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	put := func(name string, text []byte) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		must(t, err)
		_, err = f.Write(text)
		must(t, err)
	}
	z, err := zip.OpenReader(path)
	must(t, err)
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		if name, text := change(f.Name, text); text != nil {
			put(name, text)
		}
	}
	for _, name := range more {
		put(name, []byte("x"))
	}
	must(t, errors.Join(z.Close(), w.Close(), os.WriteFile(out, b.Bytes(), 0o600)))
	return out
}

func same(name string, text []byte) (string, []byte) { return name, text }

func in(member, old, new string) func(string, []byte) (string, []byte) {
	return func(name string, text []byte) (string, []byte) {
		if name == member {
			text = bytes.ReplaceAll(text, []byte(old), []byte(new))
		}
		return name, text
	}
}

func without(member string) func(string, []byte) (string, []byte) {
	return func(name string, text []byte) (string, []byte) {
		if name == member {
			return name, nil
		}
		return name, text
	}
}

func TestAnArchiveThatIsNotWholeChangesNothing(t *testing.T) {
	path, m := backUp(t, newState(t, "job_big1", "job_bad1"))
	raw, err := os.ReadFile(path)
	must(t, err)
	cut := filepath.Join(t.TempDir(), "cut.zip")
	must(t, os.WriteFile(cut, raw[:len(raw)/2], 0o600))
	flipped := bytes.Clone(raw)
	flipped[bytes.Index(raw, []byte("xxxxxxxx"))+100] = 'y'
	flip := filepath.Join(t.TempDir(), "flip.zip")
	must(t, os.WriteFile(flip, flipped, 0o600))
	for _, tt := range []struct {
		name, path string
		want       broker.Code
	}{
		{"no file", filepath.Join(t.TempDir(), "none.zip"), broker.CodeBackupNotFound},
		{"a directory", t.TempDir(), broker.CodeBackupUnreadable},
		{"cut", cut, broker.CodeBackupUnreadable},
		{"a byte of a result flipped", flip, broker.CodeBackupUnreadable},
		{"no manifest", rewrite(t, path, without("manifest.json")), broker.CodeBackupUnreadable},
		{"no journal", rewrite(t, path, without("journal.db")), broker.CodeBackupUnreadable},
		{"no result", rewrite(t, path, without("results/job_big1.json")), broker.CodeBackupUnreadable},
		{"other settings", rewrite(t, path, in("settings.json", "env", "ENV")), broker.CodeBackupUnreadable},
		{"manifest that is no JSON", rewrite(t, path, in("manifest.json", "{", "[")), broker.CodeBackupUnreadable},
		{"other counts", rewrite(t, path, in("manifest.json", `"jobs": 2`, `"jobs": 3`)), broker.CodeBackupUnreadable},
		{"sum of another journal", rewrite(t, path, in("manifest.json", `"Sha256": "`+m.Sha256, `"Sha256": "`+strings.Repeat("0", 64))), broker.CodeBackupUnreadable},
		{"a path out of the archive", rewrite(t, path, same, "results/../../evil.json"), broker.CodeBackupUnreadable},
		{"a member nobody vouches for", rewrite(t, path, same, "results/job_x.json"), broker.CodeBackupUnreadable},
		{"a member twice", rewrite(t, path, same, "settings.json"), broker.CodeBackupUnreadable},
		{"another database", rewrite(t, path, in("manifest.json", `"bbolt"`, `"postgresql"`)), broker.CodeBackupProvider},
		{"another schema", rewrite(t, path, in("manifest.json", `"SchemaVersion": 2`, `"SchemaVersion": 99`)), broker.CodeBackupSchema},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := newState(t, "job_big_old")
			_, err := archive.Restore(t.Context(), state, tt.path, options(), nil)
			wantCode(t, err, tt.want)
			entries, err := os.ReadDir(state)
			must(t, err)
			if len(entries) != 2 { // journal.db and results
				t.Errorf("left in the state directory: %v", entries)
			}
			holds(t, state, "job_big_old")
		})
	}
}

func TestARestoreIsRefusedOverWhatItWouldLose(t *testing.T) {
	path, _ := backUp(t, newState(t, "job_big1"))
	t.Run("unfinished work", func(t *testing.T) {
		state := newState(t, "job_open1")
		_, err := archive.Restore(t.Context(), state, path, options(), nil)
		if r := wantCode(t, err, broker.CodeRestoreBlocked); !slices.Equal(r.Detail["Jobs"].([]string), []string{"job_open1"}) {
			t.Errorf("detail %v", r.Detail)
		}
		holds(t, state, "job_open1")
	})
	t.Run("a journal that cannot be read", func(t *testing.T) {
		state := newState(t, "job_bad1")
		spoiled := bytes.Repeat([]byte("x"), 1<<16)
		must(t, os.WriteFile(filepath.Join(state, "journal.db"), spoiled, 0o600))
		_, err := archive.Restore(t.Context(), state, path, options(), nil)
		wantCode(t, err, broker.CodeSafetyBackup)
		now, err := os.ReadFile(filepath.Join(state, "journal.db"))
		if err != nil || !bytes.Equal(now, spoiled) {
			t.Errorf("the journal was changed (%v)", err)
		}
	})
	t.Run("another result of the same job", func(t *testing.T) {
		state := newState(t, "job_bad1")
		file := filepath.Join(state, "results", "job_big1.json")
		must(t, os.WriteFile(file, []byte("other"), 0o600))
		_, err := archive.Restore(t.Context(), state, path, options(), nil)
		wantCode(t, err, broker.CodeRestoreDiffers)
		if text, err := os.ReadFile(file); err != nil || string(text) != "other" {
			t.Errorf("the result here: %q, %v", text, err)
		}
		holds(t, state, "job_bad1")
	})
}

// copied is a source whose copies are spoiled.
type copied struct {
	*journal.Journal
	spoil func(dir string) error
}

func (c copied) Copy(ctx context.Context, dir string) error {
	return errors.Join(c.Journal.Copy(ctx, dir), c.spoil(dir))
}

func TestABackupThatFailsLeavesNoArchive(t *testing.T) {
	state := newState(t, "job_big1")
	j := open(t, state)
	defer func() { must(t, j.Close()) }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fine := func(string) error { return nil }
	for _, tt := range []struct {
		name, file string
		ctx        context.Context
		spoil      func(string) error
		want       broker.Code
	}{
		{"a result lost", "b.zip", t.Context(), func(dir string) error { return os.Remove(filepath.Join(dir, "results", "job_big1.json")) }, broker.CodeBackupVerify},
		{"pages overwritten", "b.zip", t.Context(), func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal.db"), bytes.Repeat([]byte("x"), 1<<15), 0o600)
		}, broker.CodeBackupVerify},
		{"a full disk", "b.zip", t.Context(), func(string) error { return syscall.ENOSPC }, broker.CodeBackupFailed},
		{"a caller that left", "b.zip", ended, fine, broker.CodeBackupFailed},
		{"no directory", "none/b.zip", t.Context(), fine, broker.CodeBackupPath},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := archive.Create(tt.ctx, copied{j, tt.spoil}, filepath.Join(dir, "staging"), filepath.Join(dir, tt.file), options())
			wantCode(t, err, tt.want)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
	t.Run("an archive that stood there stays", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "b.zip")
		must(t, os.WriteFile(path, []byte("old"), 0o600))
		_, err := archive.Create(t.Context(), copied{j, func(string) error { return syscall.ENOSPC }}, filepath.Join(dir, "staging"), path, options())
		wantCode(t, err, broker.CodeBackupFailed)
		if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestABackupTakesThePlaceOfABackupOnly(t *testing.T) {
	state := newState(t)
	j := open(t, state)
	defer func() { must(t, j.Close()) }()
	archived, _ := backUp(t, newState(t))
	old, err := os.ReadFile(archived)
	must(t, err)
	var other bytes.Buffer
	z := zip.NewWriter(&other)
	_, err = z.Create("holiday.jpg")
	must(t, errors.Join(err, z.Close()))
	for _, tt := range []struct {
		name  string
		stood []byte
		want  broker.Code
	}{
		{"an older backup", old, ""},
		{"an empty file", nil, ""},
		{"a text", []byte("root:x:0:0::/root:/bin/sh\n"), broker.CodeBackupPath},
		{"another ZIP file", other.Bytes(), broker.CodeBackupPath},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, tt.stood, 0o600))
			_, err := archive.Create(t.Context(), j, filepath.Join(t.TempDir(), "staging"), path, options())
			if tt.want == "" {
				must(t, err)
				_, err = archive.Verify(t.Context(), path)
				must(t, err)
				return
			}
			wantCode(t, err, tt.want)
			if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, tt.stood) {
				t.Errorf("the file is %q, %v", text, err)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte("PK"))
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	m, err := w.Create("manifest.json")
	if err == nil {
		_, err = m.Write([]byte(`{"DatabaseType":"bbolt","SchemaVersion":1,"Sha256":"x"}`))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "a.zip")
		must(t, os.WriteFile(path, data, 0o600))
		_, err := archive.Verify(t.Context(), path)
		var r *broker.Refusal
		if err != nil && !errors.As(err, &r) {
			t.Fatalf("no refusal: %v", err)
		}
	})
}
