package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/rest"
	"berth/transport/statedir"
)

// keeperHouse is a broker with one job that succeeded, and a backup of it.
func keeperHouse(t *testing.T) (h *house, w *wire, job, file string) {
	t.Helper()
	h, w = stopHouse(t, "10s")
	done, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "the-key")
	must(t, err)
	w.want(done.JobID, "Succeeded", "")
	made, err := w.call(t.Context(), "backup", map[string]any{"outputPath": "first.zip"}, "")
	must(t, err)
	file = filepath.Join(h.state, "backups", "first.zip")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || made.Status != "created" || !strings.Contains(made.Text, `"SizeBytes":`) {
		t.Fatalf("%v, %s", err, made.Text)
	}
	return h, w, done.JobID, file
}

// upload sends an archive to POST /api/v1/restore.
func (h *house) upload(kind, name string, body []byte) (status int, answer string) {
	h.t.Helper()
	addr, token, err := statedir.Discover(h.state)
	must(h.t, err)
	req, err := http.NewRequestWithContext(h.t.Context(), "POST", "http://"+addr+"/api/v1/restore", bytes.NewReader(body))
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("X-Original-Filename", name)
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	must(h.t, err)
	return resp.StatusCode, text.String()
}

func TestABackupIsRestoredUnderARunningBroker(t *testing.T) {
	t.Parallel()
	h, w, first, file := keeperHouse(t)
	raw, err := os.ReadFile(file)
	must(t, err)
	ways := map[string]func() (ok bool, told string){
		"the tool": func() (bool, string) {
			r, err := w.call(t.Context(), "restore", map[string]any{"filePath": "first.zip"}, "")
			must(t, err)
			return r.Status == "restored" && !r.IsError, r.Text
		},
		"an upload": func() (bool, string) {
			status, body := h.upload("application/zip", "../../etc/first of all.zip", raw)
			return status == 200 && strings.Contains(body, `"Status":"restored"`) && strings.Contains(body, `"RestartRequired":false`), body
		},
		"the command": func() (bool, string) {
			code, out, errOut := h.berth("restore", file)
			return code == 0 && strings.Contains(out, "before-restore-"), out + errOut
		},
	}
	for name, restore := range ways {
		// What comes after the backup is gone with the restore: a job, a hold and a drain.
		later, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "")
		must(t, err)
		w.want(later.JobID, "Succeeded", "")
		for _, change := range [][]string{{"hold", "engage", "--reason", "x", "--by", "y"}, {"backends", "drain", "st"}} {
			if code, _, errOut := h.berth(change...); code != 0 {
				t.Fatal(errOut)
			}
		}
		if ok, told := restore(); !ok {
			t.Errorf("%s: %s", name, told)
		}
		if r, err := w.status(t.Context(), later.JobID, 0); err != nil || r.Code != "job_not_found" {
			t.Errorf("%s: the later job: %v %+v", name, err, r)
		}
		if r, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "the-key"); err != nil || r.JobID != first {
			t.Errorf("%s: the first key: %v %+v", name, err, r)
		}
		var s rest.Status
		must(t, h.api("/api/v1/status", url.Values{}, &s))
		if s.DispatchHold != nil || h.backend("st").Draining != nil {
			t.Errorf("%s: held %+v, drained %+v", name, s.DispatchHold, h.backend("st").Draining)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(h.state, ".uploads")); err != nil || len(entries) > 0 {
		t.Errorf("left of the uploads: %v %v", entries, err)
	}
	if code, out, _ := h.berth("journal", "check"); code != 0 {
		t.Errorf("the journal: %s", out)
	}
	must(t, h.start())
	if r, err := newWire(h, "again").status(t.Context(), first, 0); err != nil || r.Status != "Succeeded" {
		t.Errorf("after a restart: %v %+v", err, r)
	}
}

func TestARestoreBringsBackWhatAnOperatorHeld(t *testing.T) {
	t.Parallel()
	h, w := stopHouse(t, "10s")
	for _, change := range [][]string{{"hold", "engage", "--reason", "kept", "--by", "y"}, {"backends", "drain", "st", "--reason", "kept"}, {"backup", h.dir + "/b.zip"},
		{"hold", "clear"}, {"backends", "resume", "st"}, {"restore", h.dir + "/b.zip"}} {
		if code, _, errOut := h.berth(change...); code != 0 {
			t.Fatalf("%v: %s", change, errOut)
		}
	}
	if code, _ := w.refusedCall("st__echo", map[string]any{"x": 1}, ""); code != "backend_draining" {
		t.Errorf("got %s", code)
	}
	var s rest.Status
	must(t, h.api("/api/v1/status", url.Values{}, &s))
	if s.DispatchHold == nil || s.DispatchHold.Reason != "kept" {
		t.Errorf("held %+v", s.DispatchHold)
	}
}

func TestARestoreIsRefusedByNameAndChangesNothing(t *testing.T) {
	t.Parallel()
	h, w, first, file := keeperHouse(t)
	work, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 600}, "")
	must(t, err)
	h.queued("st", 1, 0)
	must(t, os.WriteFile(h.dir+"/hello.zip", []byte("hello"), 0o600))
	for _, tt := range []struct{ verb, path, arguments, code string }{
		{"restore", "/api/v1/restore", `{"filePath":"` + file + `"}`, "restore_blocked_by_work"},
		{"restore", "/api/v1/restore", `{}`, "missing_file_path"},
		{"restore", "/api/v1/restore", `{"filePath":" "}`, "missing_file_path"},
		{"restore", "/api/v1/restore", `{"filePath":"none.zip"}`, "backup_file_not_found"},
		{"restore", "/api/v1/restore", `{"filePath":"../journal.db"}`, "backup_path_not_writable"},
		{"restore", "/api/v1/restore", `{"filePath":"` + h.dir + `/hello.zip"}`, "backup_unreadable"},
	} {
		var arguments map[string]any
		must(t, json.Unmarshal([]byte(tt.arguments), &arguments))
		tool, err := w.call(t.Context(), tt.verb, arguments, "")
		must(t, err)
		upper := map[string]any{}
		for name, value := range arguments {
			upper[strings.ToUpper(name[:1])+name[1:]] = value
		}
		body, code := h.post(tt.path, upper)
		if tool.Code != tt.code || code != tt.code || comparable(body) != comparable(tool.Text) {
			t.Errorf("%s: the tool says %s\nREST says %s %s", tt.arguments, tool.Text, code, body)
		}
	}
	if status, body := h.upload("text/plain", "x", []byte("hello")); status != 415 {
		t.Errorf("a text: %d %s", status, body)
	}
	if status, body := h.upload("application/zip", "x", []byte("hello")); status != 400 || !strings.Contains(body, "backup_unreadable") {
		t.Errorf("no archive: %d %s", status, body)
	}
	for _, path := range []string{h.state + "/journal.db", "../x.zip", h.dir + "/nowhere/x.zip"} {
		if r, err := w.call(t.Context(), "backup", map[string]any{"outputPath": path}, ""); err != nil || r.Code != "backup_path_not_writable" {
			t.Errorf("a backup to %s: %v %s", path, err, r.Text)
		}
	}
	// New work is admitted again, and what ran goes on.
	if r, err := w.status(t.Context(), work.JobID, 0); err != nil || r.Status != "Running" {
		t.Errorf("the work: %v %+v", err, r)
	}
	if r, err := w.status(t.Context(), first, 0); err != nil || r.Status != "Succeeded" {
		t.Errorf("the first job: %v %+v", err, r)
	}
}

// TestAKilledRestoreLeavesOneJournal kills the broker at each step.
func TestAKilledRestoreLeavesOneJournal(t *testing.T) {
	t.Parallel()
	for point, isNew := range map[string]bool{"archive-verified": false, "writes-suspended": false, "safety-made": false, "recovered": false,
		"results-moved": false, "journal-switched": true, "journal-adopted": true} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h, w, first, file := keeperHouse(t)
			later, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 0}, "")
			must(t, err)
			w.want(later.JobID, "Succeeded", "")
			must(t, h.start("BERTH_FAILPOINT=restore:"+point))
			if code, _, _ := h.berth("restore", file); code == 0 {
				t.Error("the broker was not killed")
			}
			h.awaitEnd()
			must(t, h.start())
			w = newWire(h, "again")
			want := "Succeeded"
			if isNew {
				want = ""
			}
			if r, err := w.status(t.Context(), later.JobID, 0); err != nil || r.Status != want {
				t.Errorf("the later job: %v %+v", err, r)
			}
			if r, err := w.status(t.Context(), first, 0); err != nil || r.Status != "Succeeded" {
				t.Errorf("the first job: %v %+v", err, r)
			}
			if code, out, _ := h.berth("journal", "check"); code != 0 {
				t.Errorf("the journal: %s", out)
			}
		})
	}
}

func TestAStopAnswersFirst(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(h *house, w *wire) (string, error){
		"the tool": func(h *house, w *wire) (string, error) {
			r, err := w.call(h.t.Context(), "stop_server", map[string]any{}, "")
			return r.Text, err
		},
		"REST": func(h *house, _ *wire) (string, error) {
			body, code := h.post("/api/v1/server/stop", map[string]any{})
			return body + code, nil
		},
		"the command": func(h *house, _ *wire) (string, error) {
			_, out, errOut := h.berth("stop", "--wait", "--json")
			return strings.ReplaceAll(out, `": `, `":`) + errOut, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, w := stopHouse(t, "1s")
			work, err := w.call(t.Context(), "st__work", map[string]any{"seconds": 600}, "")
			must(t, err)
			h.queued("st", 1, 0)
			told, err := stop(h, w)
			if err != nil || !strings.Contains(told, `"Status":"shutting_down"`) || !strings.Contains(told, work.JobID) {
				t.Errorf("%v: %s", err, told)
			}
			h.awaitEnd()
			h.awaitNobody()
			must(t, h.start())
			newWire(h, "again").want(work.JobID, "Lost", "job_lost_on_restart")
		})
	}
}

// TestARestoreWaitsForNobodyWhoDoesNotAnswer: a broker that is coming up has
// the state directory and no address yet.
func TestARestoreWaitsForNobodyWhoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h, _, _, file := keeperHouse(t)
	h.broker.Kill()
	dir, err := statedir.Open(h.state)
	must(t, err)
	lock, err := dir.Lock()
	must(t, err)
	must(t, dir.RemovePort())
	if code, _, errOut := h.berth("restore", file); code != exitRefused || !strings.Contains(errOut, "(broker_running)") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	must(t, lock.Release())
	if code, _, errOut := h.berth("restore", file); code != 0 {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

func TestTheNameOfAnUploadIsMadeHarmless(t *testing.T) {
	k := &keeper{inspector: &inspector{state: t.TempDir()}}
	for _, name := range []string{"", ".", "..", "../../x", "a\x00b", "a b\r\nX: y", strings.Repeat("x", 1000), "/etc/passwd", `..\..\x`, "ümläut.zip"} {
		path, remove, err := k.Keep(strings.NewReader("PK"), name)
		must(t, err)
		rel, err := filepath.Rel(filepath.Join(k.state, uploadsDir), path)
		if err != nil || strings.Count(rel, string(filepath.Separator)) != 1 || strings.ContainsAny(filepath.Base(path), "\x00\r\n \\") || len(filepath.Base(path)) > 120 {
			t.Errorf("%q became %q", name, path)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v", name, err)
		}
		must(t, remove())
	}
}

// good reports whether a token is let in.
func (h *house) good(token string) bool {
	h.t.Helper()
	addr, _, err := statedir.Discover(h.state)
	must(h.t, err)
	c := rest.NewClient("http://"+addr, token)
	defer c.Close()
	_, err = c.Post(h.t.Context(), "/api/v1/authenticate", map[string]string{"Token": token})
	return err == nil
}

func TestARestoreEndsCredentialsThatCameLater(t *testing.T) {
	t.Parallel()
	h, _, _, file := keeperHouse(t)
	code, token, errOut := h.berth("token", "create", "--tenant", "t", "--user", "u", "--role", "user")
	if code != 0 {
		t.Fatal(errOut)
	}
	if token = strings.TrimSpace(token); !h.good(token) {
		t.Fatal("the new credential is refused")
	}
	if code, _, errOut := h.berth("restore", file); code != 0 {
		t.Fatal(errOut)
	}
	if h.good(token) {
		t.Error("a credential that the restored journal does not know is good")
	}
}

// A backup is older than a revocation: whoever was put out stays out, whether
// the broker runs meanwhile or not.
func TestARestoreLetsNobodyInAgain(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"running": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			must(t, h.start())
			run := func(args ...string) (out string) {
				t.Helper()
				code, out, errOut := h.berth(args...)
				if code != exitOK {
					t.Fatalf("%v: exit %d: %s", args, code, errOut)
				}
				return out
			}
			var tokens, ids [2]string
			for i, user := range []string{"stays", "goes"} {
				var made rest.Credential
				must(t, json.Unmarshal([]byte(run("token", "create", "--json", "--tenant", "t", "--user", user, "--role", "user")), &made))
				tokens[i], ids[i] = made.Token, made.CredentialID
			}
			file := filepath.Join(h.dir, "b.zip")
			run("backup", file)
			run("token", "revoke", ids[1], "--reason", "laptop lost")
			if stopped {
				run("stop", "--wait")
				h.awaitEnd()
			}
			run("restore", file)
			if stopped {
				must(t, h.start())
			}
			if !h.good(tokens[0]) || h.good(tokens[1]) {
				t.Errorf("who stays is let in: %v, who was put out: %v", h.good(tokens[0]), h.good(tokens[1]))
			}
			if told := h.get("/api/v1/events?eventType=credential.revoked&entityId=" + ids[1]); strings.Count(told, "stays revoked") != 1 {
				t.Errorf("its events: %s", told)
			}
		})
	}
}
