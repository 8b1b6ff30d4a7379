package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"berth/broker"
	"berth/transport/rest"
)

// following runs `berth events --follow` and gives its lines and its end.
func following(ctx context.Context, t *testing.T, dir string, args ...string) (lines *bufio.Scanner, exit <-chan int) {
	t.Helper()
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		a := &app{in: strings.NewReader(""), out: w, err: io.Discard, getenv: func(string) (string, bool) { return "", false }}
		ended <- a.execute(ctx, append([]string{"events", "--follow", "--state-dir", dir}, args...))
		_ = w.Close()
	}()
	return bufio.NewScanner(r), ended
}

// backUp makes an event.
func backUp(t *testing.T, dir string) {
	t.Helper()
	a := &app{stateDirFlag: dir, getenv: func(string) (string, bool) { return "", false }}
	for {
		var archive bytes.Buffer
		ran, err := a.download(t.Context(), "/api/v1/backup", url.Values{}, &archive)
		var refused *rest.APIError
		if errors.As(err, &refused) && refused.Code == broker.CodeBackupInProgress {
			continue // the one before is read, and about to be closed
		}
		if err != nil || !ran {
			t.Fatal(ran, err)
		}
		return
	}
}

func TestEventsAreFollowedFromTheListOnUntilTheReaderStops(t *testing.T) {
	dir, stop, err := startFakeBroker(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	backUp(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, exit := following(ctx, t, dir, "--json")
	var seen []string
	next := func() {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the output ended: %v", lines.Err())
		}
		var e broker.EventView
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.EventType != "backup.created" || e.ID == nil {
			t.Fatalf("%s (%v)", lines.Bytes(), err)
		}
		seen = append(seen, *e.ID)
	}
	next() // what was there
	backUp(t, dir)
	next()
	backUp(t, dir)
	next()
	if seen[0] >= seen[1] || seen[1] >= seen[2] {
		t.Errorf("seen %v", seen)
	}
	cancel()
	if lines.Scan() {
		t.Errorf("one more line: %s", lines.Text())
	}
	if code := <-exit; code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

func TestFollowingEndsWithTheBroker(t *testing.T) {
	dir, stop, err := startFakeBroker(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	lines, exit := following(t.Context(), t, dir, "--type", "backup.created")
	backUp(t, dir)
	if !lines.Scan() || !strings.Contains(lines.Text(), "  backup.created  ") {
		t.Errorf("the line %q", lines.Text())
	}
	stop()
	if code := <-exit; code != exitNoBroker {
		t.Errorf("exit code %d", code)
	}
}
