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
	"time"

	"berth/broker"
	"berth/transport/httpguard"
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

func TestWhatIsFollowedMayComeBack(t *testing.T) {
	gone, stopping, now := noBroker(errors.New("no broker runs")), &rest.APIError{ErrorBody: httpguard.ErrorBody{Code: broker.CodeShuttingDown}}, time.Now()
	type look struct {
		err   error
		after time.Duration // since the one before
		ends  bool
	}
	for _, tc := range []struct {
		name  string
		looks []look
	}{
		{"it was never there", []look{{gone, 0, true}}},
		{"it left off, and is there again in time", []look{{nil, time.Hour, false}, {stopping, time.Second, false}, {gone, 28 * time.Second, false}, {nil, time.Hour, false}, {gone, 29 * time.Second, false}}},
		{"it left off and stays away", []look{{nil, 0, false}, {gone, 29 * time.Second, false}, {gone, time.Second, true}}},
		{"a log was left off", []look{{rest.ErrNotEnded, 0, false}, {gone, time.Second, false}}},
		{"it refuses", []look{{nil, 0, false}, {&rest.APIError{ErrorBody: httpguard.ErrorBody{Code: broker.CodeUnauthorized}}, time.Second, true}}},
		{"something else is wrong", []look{{nil, 0, false}, {errors.New("a line cannot be read"), time.Second, true}}},
	} {
		s, at := absence{patience: comeback}, now
		for i, l := range tc.looks {
			at = at.Add(l.after)
			if ends := s.ends(l.err, at); ends != l.ends {
				t.Errorf("%s: look %d: ends %v", tc.name, i, ends)
			}
		}
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
