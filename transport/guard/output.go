//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// OutputError is a command that ran and gave nothing of use.
type OutputError struct {
	Reason string // how it ended, in words that go on after its name
	Stderr string // the end of its standard error, not redacted
}

func (e *OutputError) Error() string { return e.Reason }

// cleanEnd is the reason of a child that ended well.
var cleanEnd = event{kind: eventExited}.words()

// Output runs a command to its end, with nothing on its standard input, and
// gives what it wrote to its standard output, max bytes at most. The end of ctx
// kills it, after it was asked with SIGTERM and a StopGrace that is positive. It
// returns when nothing of the command is left. A command that did
// not end well, or not in time, is an *OutputError.
func Output(ctx context.Context, spec Spec, max int) ([]byte, error) {
	return runCommand(ctx, spec, nil, func(stdout io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(stdout, int64(max)+1)) }, max)
}

// Feed is Output for a command that reads input from its standard input and whose
// output nobody reads.
func Feed(ctx context.Context, spec Spec, input string) error {
	_, err := runCommand(ctx, spec, strings.NewReader(input), func(stdout io.Reader) ([]byte, error) {
		_, err := io.Copy(io.Discard, onlyReader{stdout})
		return nil, err
	}, 0)
	return err
}

// Pipe is Output for a command whose output is read as it comes; input may be
// nil. An error of read kills the command and is returned.
func Pipe(ctx context.Context, spec Spec, input io.Reader, read func(stdout io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	_, err := runCommand(ctx, spec, input, func(stdout io.Reader) ([]byte, error) {
		if failed = read(onlyReader{stdout}); failed != nil {
			cancel()
		}
		return nil, failed
	}, 0)
	if failed != nil && err != nil {
		return errors.Join(failed, err)
	}
	return err
}

// onlyReader keeps io.Copy to a plain loop.
type onlyReader struct{ io.Reader }

func runCommand(ctx context.Context, spec Spec, input io.Reader, read func(io.Reader) ([]byte, error), max int) ([]byte, error) {
	const late = "has not ended in time and was killed"
	p, err := Start(ctx, spec)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &OutputError{Reason: late}
		}
		return nil, err
	}
	fed := make(chan struct{})
	go func() { // the child may answer before it has read everything, or read nothing
		defer close(fed)
		if input != nil {
			_, _ = io.Copy(p.Stdin, input)
		}
		_ = p.Stdin.Close()
	}()
	defer func() { <-fed }() // Stop has closed the pipe
	cut := make(chan struct{})
	kept := context.AfterFunc(ctx, func() {
		defer close(cut)
		if spec.StopGrace > 0 {
			p.ask()
			p.patience()
		}
		p.cut()
		_ = p.stdout.SetReadDeadline(time.Unix(1, 0)) // whoever may still hold its other end
	})
	defer kept()
	out, readErr := read(p.Stdout)
	if readErr == nil && len(out) <= max {
		select { // it may have closed its output and run on
		case <-p.Done():
		case <-cut:
		}
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stopErr := p.Stop(now)
	_ = p.Stdout.Close()
	failed := &OutputError{Stderr: p.StderrTail()}
	switch reason := p.ExitReason(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failed.Reason = late
	case ctx.Err() != nil:
		return nil, fmt.Errorf("run %q: %w", spec.Command, ctx.Err())
	case len(out) > max:
		failed.Reason = fmt.Sprintf("wrote more than %d bytes and was killed", max)
	case reason != cleanEnd:
		failed.Reason = reason
	case readErr != nil:
		return nil, fmt.Errorf("read the output of %q: %w", spec.Command, readErr)
	default:
		return out, stopErr
	}
	return nil, errors.Join(failed, stopErr)
}
