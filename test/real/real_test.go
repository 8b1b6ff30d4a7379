// Package real runs Berth against programs that this project did not write: MCP
// servers, client libraries and agent CLIs from npm, in the versions of
// package.json, and two client libraries for Go in those of go.mod.
//
// It is run by `make test-real`, which installs them and sets BERTH_REAL; in
// `make test` every test here is skipped, and without BERTH_REAL_LONG one that
// takes minutes. It uses bin/berth as a user would,
// binds loopback only, and keeps everything in temporary directories. Every
// wait has a limit; the programs of others give no signals, so some waits look
// again at short intervals.
package real

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds one wait for another program.
const limit = 60 * time.Second

// need skips a test outside `make test-real` and checks what it was to install.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_REAL") == "" {
		t.Skip("run by make test-real")
	}
	for _, path := range []string{berthPath(t), fixturePath(t), everythingPath(t)} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v (run make test-real)", err)
		}
	}
}

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func berthPath(t *testing.T) string { return filepath.Join(root(t), "bin", "berth") }

// fixturePath is the project's own test server, on the official Go SDK.
func fixturePath(t *testing.T) string { return filepath.Join(root(t), "bin", "berth-fixture") }

func modules(t *testing.T) string { return filepath.Join(root(t), ".real", "node_modules") }

func everythingPath(t *testing.T) string {
	return filepath.Join(modules(t), "@modelcontextprotocol", "server-everything", "dist", "index.js")
}

// everything is the command line of server-everything.
func everything(t *testing.T, transport string) []string {
	return []string{"node", "--require", filepath.Join(root(t), "test", "real", "loopback.cjs"), everythingPath(t), transport}
}

// pinned is a version in package.json.
func pinned(t *testing.T, pkg string) string {
	t.Helper()
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies, OptionalDependencies map[string]string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	version := cmp.Or(manifest.Dependencies[pkg], manifest.OptionalDependencies[pkg])
	if version == "" {
		t.Fatalf("package.json pins no %s", pkg)
	}
	return version
}

// eventually looks at something that gives no signal until it is as wanted.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// environment is a small environment, so that nothing of the machine's own
// configuration takes part.
func environment(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "BERTH_TOOL_TIER=full"}, more...)
}
