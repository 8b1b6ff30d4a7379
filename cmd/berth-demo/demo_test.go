//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/cmd/internal/brokerproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheDemosHoldAndLeaveNothing(t *testing.T) {
	for name, play := range map[string]scenario{"sharing": sharing, "dispatching": dispatching} {
		t.Run(name, func(t *testing.T) { holds(t, play) })
	}
}

func holds(t *testing.T, play scenario) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // it builds the binaries
	defer cancel()
	var out bytes.Buffer
	if code := run(ctx, &out, brokerproc.BuildOptions{Race: raceDetector}, play); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out.String())
	}
	if !strings.Contains(out.String(), "Nothing was left behind.") {
		t.Errorf("no summary:\n%s", out.String())
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "berth-demo-*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestTheDemoFailsAndCleansUpWhenSomethingDoesNotHold(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be built
	var out bytes.Buffer
	if code := run(ctx, &out, brokerproc.BuildOptions{}, sharing); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(out.String(), "  NOT build: ") || strings.Contains(out.String(), "as they must be") {
		t.Error(out.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}
