//go:build linux

package guard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOutputOfACommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mode   []string
		size   int
		reason string // of an OutputError
		stderr string
	}{
		{name: "that reads its input to the end", mode: []string{"echo"}},
		{name: "as much as it may", mode: []string{"flood", "1000"}, size: 1000},
		{name: "a byte too much", mode: []string{"flood", "1001"}, reason: "wrote more than 1000 bytes and was killed"},
		{name: "far too much", mode: []string{"flood", "100000000"}, reason: "wrote more than 1000 bytes and was killed"},
		{name: "that fails", mode: []string{"complain", "2"}, reason: "exited with code 3", stderr: "complaint 1\ncomplaint 2\n"},
		{name: "that is killed", mode: []string{"suicide"}, reason: "killed by signal 9 (killed)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			out, err := Output(ctx, Spec{Command: ownPath(t), Args: append([]string{"hostile"}, tt.mode...), Env: prompt}, 1000)
			var failed *OutputError
			switch {
			case tt.reason == "":
				if err != nil || len(out) != tt.size {
					t.Errorf("%d bytes, error %v", len(out), err)
				}
			case !errors.As(err, &failed):
				t.Errorf("%d bytes, error %v", len(out), err)
			case failed.Reason != tt.reason || failed.Stderr != tt.stderr || out != nil:
				t.Errorf("%q and %q, want %q and %q", failed.Reason, failed.Stderr, tt.reason, tt.stderr)
			}
		})
	}
}

// late is a context that ends as by its deadline, when it is cancelled.
type late struct{ context.Context }

func (l late) Err() error {
	if l.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// Whatever a command started is gone when Output returns, also when nothing of
// it listens to signals and all of it holds the pipes.
func TestOutputThatDoesNotEndIsCutWithAllThatTheCommandStarted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode    string
		attend  []string
		in      func(context.Context) context.Context
		wantErr func(error) bool
	}{
		{"deaf", []string{"deaf"}, func(c context.Context) context.Context { return c }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"clingy", []string{"clingy", "deaf", "fork", "daemon"}, func(c context.Context) context.Context { return late{c} }, func(err error) bool {
			var failed *OutputError
			return errors.As(err, &failed) && failed.Reason == "has not ended in time and was killed"
		}},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := Output(tt.in(ctx), Spec{Command: ownPath(t), Args: []string{"hostile", tt.mode, w.path}, Env: prompt}, 1000)
				ended <- err
			}()
			w.gather(tt.attend...)
			cancel()
			if err := <-ended; !tt.wantErr(err) {
				t.Error(err)
			}
			w.awaitNobody()
		})
	}
}

// What a command has begun it may take back when its context ends, if it is given
// the time.
func TestACommandWithAGraceIsAskedToEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		grace time.Duration
		said  string
	}{{"asked", time.Minute, "bye\n"}, {"without a grace it is killed", 0, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var said string
			err := Pipe(ctx, Spec{Command: ownPath(t), Args: []string{"hostile", "polite", w.path}, Env: prompt, StopGrace: tt.grace}, nil, func(out io.Reader) error {
				w.gather("polite")
				lines := bufio.NewReader(out)
				if _, err := lines.ReadString('\n'); err != nil {
					return err
				}
				cancel()
				rest, _ := io.ReadAll(lines) // killed, its end may be the deadline
				said = string(rest)
				return nil
			})
			if !errors.Is(err, context.Canceled) || said != tt.said {
				t.Errorf("said %q, %v", said, err)
			}
			w.awaitNobody()
		})
	}
}

func TestOutputOfACommandThatCannotRunSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := Output(context.Background(), Spec{Command: "no-such-program", Env: prompt}, 1000)
	if err == nil || !strings.Contains(err.Error(), `"no-such-program" was not found`) {
		t.Error(err)
	}
}

// What is fed arrives whole, or is not read at all; either is the command's own
// affair.
func TestACommandIsFed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.Repeat("\"quoted\" $(date) \n", 20_000)
	for _, tt := range []struct{ name, script, want, reason string }{
		{"reads all", `cat >"$0"; echo "what it says is not kept"`, text, ""},
		{"reads nothing", `: >"$0"`, "", ""},
		{"reads a little and fails", `head -c 3 >"$0"; exit 3`, text[:3], "exited with code 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			file := filepath.Join(dir, tt.reason+"x")
			err := Feed(ctx, Spec{Command: "/bin/sh", Args: []string{"-c", tt.script, file}, Env: prompt}, text)
			var failed *OutputError
			if (tt.reason == "") != (err == nil) || (err != nil && (!errors.As(err, &failed) || failed.Reason != tt.reason)) {
				t.Errorf("%v", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != tt.want {
				t.Errorf("%d bytes arrived, want %d (%v)", len(got), len(tt.want), err)
			}
		})
	}
}

// The end of the time kills what was fed with all that it started, listening to
// signals or not.
func TestAFedCommandIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- Feed(late{ctx}, Spec{Command: ownPath(t), Args: []string{"hostile", "clingy", w.path}, Env: prompt, StopGrace: -1}, strings.Repeat("x", 1<<20))
	}()
	w.gather("clingy", "deaf", "fork", "daemon")
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	w.awaitNobody()
}
