//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
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
// kills it. It returns when nothing of the command is left. A command that did
// not end well, or not in time, is an *OutputError.
func Output(ctx context.Context, spec Spec, max int) ([]byte, error) {
	const late = "has not ended in time and was killed"
	p, err := Start(ctx, spec)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &OutputError{Reason: late}
		}
		return nil, err
	}
	_ = p.Stdin.Close() // nothing was written to it
	kept := context.AfterFunc(ctx, func() {
		p.cut()
		_ = p.stdout.SetReadDeadline(time.Unix(1, 0)) // whoever may still hold its other end
	})
	defer kept()
	out, readErr := io.ReadAll(io.LimitReader(p.Stdout, int64(max)+1))
	if readErr == nil && len(out) <= max {
		select { // it may have closed its output and run on
		case <-p.Done():
		case <-ctx.Done():
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
