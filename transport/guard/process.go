//go:build unix

package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"berth/transport/guard/procid"
)

// Process is a child that runs under its guard.
type Process struct {
	// Stdin and Stdout are the child's. Stdin is an *os.File, so it has
	// deadlines; Stdout has SetReadDeadline. Stdin is closed by Stop, and when
	// the child is gone; Stdout closes itself when it was read to its end, and a
	// reader that gives up before that closes it.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	// PID and StartTime (see procid.ID) are the child's.
	PID       int
	StartTime uint64
	GuardPID  int

	// Fixed once started.
	guard *os.Process
	grace time.Duration
	rec   Record

	stderrToo io.Writer // nil: nobody else wants it
	pipes     []procid.PipeEnd
	mark      string
	forget    func() error // removes the ledger's record
	stdout    *os.File
	stderr    *os.File
	status    *os.File

	// Owned by Start, then by watch.
	statusLines *bufio.Reader

	// Shared.
	stderrTail *tail
	done       chan struct{} // the child has ended and what it left was seen to
	doneOnce   sync.Once
	gone       chan struct{} // the guard is gone too
	stderrEnd  chan struct{}

	mu       sync.Mutex
	lifeline *os.File // nil once closed
	reason   string
	code     int
	coded    bool
	endErr   error // of the clean-up

	stopOnce sync.Once
	killNow  chan struct{} // closed: no more patience
	killOnce sync.Once
}

func newProcess(spec Spec, guard *os.Process) *Process {
	p := &Process{
		GuardPID:  guard.Pid,
		guard:     guard,
		grace:     spec.StopGrace,
		done:      make(chan struct{}),
		gone:      make(chan struct{}),
		stderrEnd: make(chan struct{}),
		killNow:   make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = DefaultStopGrace
	}
	limit := spec.StderrLimit
	if limit <= 0 {
		limit = DefaultStderrLimit
	}
	p.stderrTail, p.stderrToo = newTail(limit), spec.Stderr
	return p
}

// Done is closed when the child has ended, its descendants are gone and its
// stderr was read to the end; at the latest two seconds after the child's end.
func (p *Process) Done() <-chan struct{} { return p.done }

// Drained is closed when no more of stderr comes, at the latest two seconds after
// the guard is gone.
func (p *Process) Drained() <-chan struct{} { return p.stderrEnd }

// ExitReason says how the child ended, in words; empty while it runs.
func (p *Process) ExitReason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// ExitCode gives the child's exit status; false: it runs, a signal ended it, or
// nobody knows.
func (p *Process) ExitCode() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code, p.coded
}

// StderrTail gives the end of what the child wrote to stderr so far. It is not
// redacted and may begin in the middle of a line.
func (p *Process) StderrTail() string { return p.stderrTail.String() }

// Stop ends the child: it closes stdin, waits for the grace, asks with SIGTERM
// (to the child's process group), waits again, and then has everything killed.
// The end of ctx cuts the patience short. Stop returns when the guard is gone,
// which means that no descendant is left; a descendant that does not die within
// five seconds of being killed is an error. It is idempotent, and safe to call
// at any time.
func (p *Process) Stop(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { p.killOnce.Do(func() { close(p.killNow) }) })()
	first := false
	p.stopOnce.Do(func() { first = true })
	if first {
		_ = p.Stdin.Close() // its writer may have closed it already
		p.patience()
		p.ask()
		p.patience()
	} else {
		select {
		case <-p.gone:
		case <-p.killNow:
		case <-time.After(2 * max(p.grace, 0)):
		}
	}
	p.cut()
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-p.gone:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.endErr
	case <-timer.C:
	}
	return p.force()
}

// patience waits for the grace, or until that is pointless.
func (p *Process) patience() {
	if p.grace < 0 {
		return
	}
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-p.killNow:
	case <-timer.C:
	}
}

// ask tells the guard to send SIGTERM. One byte always fits the pipe.
func (p *Process) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline != nil {
		_, _ = p.lifeline.Write([]byte{politely}) // a guard that is gone needs no asking
	}
}

// cut ends the lifeline: the guard kills everything.
func (p *Process) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline != nil {
		_ = p.lifeline.Close()
		p.lifeline = nil
	}
}

// force is for a guard that does not do its work, because it was stopped or
// because a descendant cannot be killed.
func (p *Process) force() error {
	_, left, err := hunt(p.rec, killWait)
	select {
	case <-p.gone:
		return nil
	default:
	}
	if err == nil && len(left) == 0 {
		select {
		case <-p.gone:
			return nil
		case <-time.After(killWait):
		}
	}
	return errors.Join(fmt.Errorf("%q (guard %d, child %d) has not ended although it was killed",
		p.rec.Command, p.GuardPID, p.PID), err)
}

// drain reads stderr so that the child never blocks on it.
func (p *Process) drain() {
	defer close(p.stderrEnd)
	to := io.Writer(p.stderrTail)
	if p.stderrToo != nil {
		to = io.MultiWriter(to, p.stderrToo)
	}
	_, _ = io.Copy(onlyWriter{to}, p.stderr) // any error is the end
	_ = p.stderr.Close()
}

// onlyWriter keeps io.Copy to a plain loop.
type onlyWriter struct{ io.Writer }

// watch follows the guard to its end.
func (p *Process) watch() {
	var settle *time.Timer
	for {
		e, err := p.nextEvent()
		if err != nil {
			break // the end of the guard, or of its sense
		}
		if e.kind == eventExited || e.kind == eventSignaled {
			p.setReason(e.words())
			if e.kind == eventExited {
				p.mu.Lock()
				p.code, p.coded = e.number, true
				p.mu.Unlock()
			}
			settle = time.AfterFunc(settleWait, p.tell)
		}
	}
	// However the loop ended, a guard without a lifeline ends.
	p.cut()
	killed, err := waitKeepingPID(p.GuardPID)
	if killed {
		// Its descendants went to somebody else. The guard is still a zombie, so
		// its session is certainly ours.
		_, left, huntErr := hunt(p.rec, settleWait)
		err = errors.Join(err, huntErr)
		if len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("%d descendants of %q are left", len(left), p.rec.Command))
		}
	}
	state, waitErr := p.guard.Wait()
	err = errors.Join(err, waitErr)
	if p.ExitReason() == "" {
		p.setReason("its guard process ended: " + stateWords(state))
	}
	if p.forget != nil && err == nil {
		err = p.forget()
	}
	p.finish(err, killed || !adopts)
	if settle != nil {
		settle.Stop()
	}
}

// finish tells that the guard is gone. When somebody may have escaped with an
// end of stdout, that is not waited for longer than a moment; and stderr never,
// since its end may have been passed to a stranger.
func (p *Process) finish(err error, escaped bool) {
	p.mu.Lock()
	p.endErr = err
	p.mu.Unlock()
	_ = errors.Join(p.status.Close(), p.Stdin.Close()) // nobody is at their other ends
	soon := time.Now().Add(settleWait)
	_ = p.stderr.SetReadDeadline(soon)
	if escaped {
		_ = p.stdout.SetReadDeadline(soon)
	}
	close(p.gone)
	<-p.stderrEnd
	p.tell()
}

func (p *Process) tell() { p.doneOnce.Do(func() { close(p.done) }) }

func (p *Process) setReason(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = reason
}

func (e event) words() string {
	if e.kind == eventSignaled {
		return fmt.Sprintf("killed by signal %d (%s)", e.number, syscall.Signal(e.number))
	}
	return fmt.Sprintf("exited with code %d", e.number)
}

func stateWords(state *os.ProcessState) string {
	if state == nil {
		return "nobody knows how"
	}
	return state.String()
}

// untilEOF is a file that closes itself when it ends, so that a reader which
// reads to the end leaves nothing open.
type untilEOF struct {
	file *os.File
	end  error // the reader's: how it ended
}

func (u *untilEOF) Read(b []byte) (int, error) {
	if u.end != nil {
		return 0, u.end
	}
	n, err := u.file.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		u.end = err
		_ = u.file.Close()
	}
	return n, err
}

func (u *untilEOF) Close() error {
	if err := u.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// SetReadDeadline is that of os.File.
func (u *untilEOF) SetReadDeadline(t time.Time) error { return u.file.SetReadDeadline(t) }
