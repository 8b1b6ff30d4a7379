package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/journal"
)

// TestCheckConfigMakesNothing: not even the key by which the lists of a journal
// that was brought along could be known again.
func TestCheckConfigMakesNothing(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(filepath.Join(dir, journalFile), journal.Options{})
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "berth.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {"files": {"command": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := execute(t.Context(), &app{getenv: os.LookupEnv}, "check-config", "--config", path, "--state-dir", dir)
	if code != exitOK || !strings.Contains(out, "can be used") || !strings.Contains(errOut, "no session key") {
		t.Errorf("%d %s %s", code, out, errOut)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("there is now %v, %v", after, err)
	}
}
