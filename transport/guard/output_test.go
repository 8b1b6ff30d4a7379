//go:build linux

package guard

import (
	"context"
	"errors"
	"strings"
	"testing"
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

func TestOutputOfACommandThatCannotRunSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := Output(context.Background(), Spec{Command: "no-such-program", Env: prompt}, 1000)
	if err == nil || !strings.Contains(err.Error(), `"no-such-program" was not found`) {
		t.Error(err)
	}
}
