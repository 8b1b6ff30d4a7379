package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/rest"
)

// membersOf reads an archive as any program would.
func membersOf(t *testing.T, path string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(path)
	must(t, err)
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		out[f.Name], err = io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
	}
	must(t, z.Close())
	return out
}

// submit makes a job with a key and gives its handle, or with --wait its end.
func (h *house) submit(key, tool, arguments string, more ...string) rest.Job {
	h.t.Helper()
	code, out, errOut := h.berth(append([]string{"call", tool, arguments, "--json", "--idempotency-key", key}, more...)...)
	var j rest.Job
	if err := json.Unmarshal([]byte(out), &j); code != exitOK || err != nil || j.JobID == "" {
		h.t.Fatalf("exit code %d, %v, %s", code, err, errOut)
	}
	return j
}

// A backup of a broker at work goes to another host, where its jobs are read;
// the one that ran is lost there, once. On the host itself the restore is
// refused while a job is unfinished.
func TestABackupOfABrokerAtWorkIsRestoredElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	entry := h.fixtureEntry(nil)
	entry["env"].(map[string]string)["FIXTURE_KEY"] = "s3cret-of-the-fixture"
	config := map[string]any{"mcpServers": map[string]any{"st": entry}}
	h.configure(config)
	must(t, h.start())
	big := h.submit("key-of-big", "st__big", `{"bytes":1500000}`, "--wait")
	open := h.submit("key-of-open", "st__hang", `{"seconds":3000}`)
	eventually(t, "the job runs", func() bool {
		var j rest.Job
		must(t, h.api("/api/v1/jobs/"+open.JobID, nil, &j))
		return j.Status == "Running"
	})
	path := filepath.Join(h.dir, "b.zip")
	if code, out, errOut := h.berth("backup", path); code != exitOK || !strings.Contains(out, "Result files           1") {
		t.Fatalf("exit code %d, %s, %s", code, out, errOut)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(t, err)
	members := membersOf(t, path)
	for name, text := range members {
		for _, secret := range []string{"s3cret-of-the-fixture", strings.TrimSpace(string(token))} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has a secret", name)
			}
		}
	}
	if len(members) != 4 || !bytes.Contains(members["settings.json"], []byte(`"FIXTURE_KEY": "[REDACTED]"`)) || len(members["results/"+big.JobID+".json"]) < 1500000 {
		t.Errorf("%d members, settings %s", len(members), members["settings.json"])
	}
	if code, out, _ := h.berth("jobs", "explain", open.JobID); code != exitOK || !strings.Contains(out, "It began to run at") || !strings.Contains(out, "incarnation ") || !strings.Contains(out, "Wait for it") {
		t.Errorf("exit code %d, %s", code, out)
	}
	_, out, _ := h.berth("journal", "dump")
	if strings.Contains(out, "key-of-big") || strings.Contains(out, "s3cret") || !strings.Contains(out, `"JobId":"`+big.JobID+`"`) || len(out) > 100_000 || !strings.Contains(out, `"Kind":"end"`) {
		t.Errorf("dump: %.2000s", out)
	}
	h.broker.Kill()
	h.awaitNobody()
	if code, out, _ := h.berth("jobs", "explain", open.JobID); code != exitOK || !strings.Contains(out, "no broker runs: whether it took effect is unknown") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if _, out, _ := h.berth("journal", "dump", "--results"); len(out) < 1500000 {
		t.Errorf("with results the dump has %d bytes", len(out))
	}
	if code, _, errOut := h.berth("restore", path); code != exitRefused || !strings.Contains(errOut, "(restore_blocked_by_work)") {
		t.Errorf("exit code %d, %s", code, errOut)
	}

	h.state = filepath.Join(h.dir, "elsewhere")
	if code, _, errOut := h.berth("restore", path); code != exitOK {
		t.Fatalf("exit code %d, %s", code, errOut)
	}
	for _, left := range []string{".backup/copy", ".restore/results"} { // of processes that were killed
		must(t, os.MkdirAll(filepath.Join(h.state, left), 0o700))
	}
	must(t, h.start())
	if left, err := filepath.Glob(filepath.Join(h.state, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left of killed processes: %v, %v", left, err)
	}
	var j rest.Job
	must(t, h.api("/api/v1/jobs/"+big.JobID, nil, &j))
	if j.Status != "Succeeded" || len(j.Result) < 1500000 {
		t.Errorf("%s with %d bytes", j.Status, len(j.Result))
	}
	if code, out, _ := h.berth("jobs", "explain", open.JobID); code != exitOK || !strings.Contains(out, "ended Lost") || !strings.Contains(out, "The event evt_") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out, errOut := h.berth("journal", "check"); code != exitOK {
		t.Errorf("exit code %d, %s, %s", code, out, errOut)
	}
}

func TestOneBackupIsMadeAtATime(t *testing.T) {
	dir := t.TempDir()
	state, stop, err := startFakeBroker(dir)
	must(t, err)
	defer stop()
	a := &app{stateDirFlag: state, out: io.Discard, err: io.Discard}
	held := &inspector{}
	held.one.Lock()
	if _, err := held.Backup(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "backup_in_progress: ") {
		t.Errorf("while another is held: %v", err)
	}
	for range 2 { // the first gave its place back when it was sent
		must(t, a.runBackup(t.Context(), filepath.Join(t.TempDir(), "b.zip")))
	}
}

// Who has received all of a backup may go on, so the place is given back before
// the last of it leaves.
func TestABackupThatWasReceivedIsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.zip")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 100_000), 0o600))
	file, err := os.Open(path)
	must(t, err)
	released := false
	archive := &heldArchive{file, 100_000, func() { released = true }}
	received := 0
	_, err = io.Copy(taker(func(p []byte) {
		if received += len(p); released != (received == 100_000) {
			t.Errorf("given back: %v, when %d bytes leave", released, received)
		}
	}), archive)
	must(t, errors.Join(err, archive.Close()))
}

// taker is a writer that is told what leaves.
type taker func(p []byte)

func (f taker) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
