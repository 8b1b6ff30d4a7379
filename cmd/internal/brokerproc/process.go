//go:build unix

package brokerproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Patience is how long anything here may take before it counts as hanging.
const Patience = 60 * time.Second

// witnessFD is where the broker inherits the witness. Its guards use 3 and 4
// for themselves and hand on what is above.
const witnessFD = 9

// Options say what to start.
type Options struct {
	Binary   string
	StateDir string
	Listen   string   // default 127.0.0.1:0
	Config   string   // file; may be empty
	Env      []string // added to the environment of this process
	// Witness is held open by the broker and by its guards; it may be nil.
	Witness *Witness
}

// Process is a broker, or another program of ours that says where it listens.
type Process struct {
	cmd   *exec.Cmd
	first chan string // its first line; closed without one when there is none
	ended chan struct{}
	log   lockedBuffer

	addr string // set by Start
}

// ErrEnded is a process that ended before it listened.
var ErrEnded = errors.New("the process ended before it listened")

// Serve starts `berth serve` and returns when it listens. A process that ends
// first is ErrEnded, with what it wrote to standard error.
func Serve(ctx context.Context, o Options) (*Process, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	args := []string{"serve", "--state-dir", o.StateDir, "--listen", o.Listen}
	if o.Config != "" {
		args = append(args, "--config", o.Config)
	}
	cmd := exec.Command(o.Binary, args...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), o.Env...)
	if o.Witness != nil {
		cmd.ExtraFiles = make([]*os.File, witnessFD-3+1) // nil: closed
		cmd.ExtraFiles[witnessFD-3] = o.Witness.own
	}
	return Start(ctx, cmd)
}

// Start starts a program whose first line of output names the URL on which it
// listens, and returns when it has said so.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, first: make(chan string, 1), ended: make(chan struct{})}
	out := &firstLine{line: p.first}
	cmd.Stdout, cmd.Stderr = out, &p.log
	// A child that kept our pipes would keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its state is read from ProcessState
		out.end()
	}()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case line, ok := <-p.first:
		if !ok {
			<-p.ended
			return p, fmt.Errorf("%w (%s):\n%s", ErrEnded, p.cmd.ProcessState, p.Log())
		}
		_, rest, _ := strings.Cut(line, "http://")
		p.addr, _, _ = strings.Cut(rest, " ")
		p.addr, _, _ = strings.Cut(p.addr, "/")
		return p, nil
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, context.Cause(ctx))
	case <-limit.C:
		p.Kill()
		return nil, fmt.Errorf("start %s: it does not listen after %s:\n%s", cmd.Path, Patience, p.Log())
	}
}

// Addr is where it listens, host:port.
func (p *Process) Addr() string { return p.addr }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Killed reports whether a SIGKILL ended it. Call it after Ended.
func (p *Process) Killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Log is what it has written to standard error, the last 256 KiB.
func (p *Process) Log() string { return p.log.String() }

// Kill ends it as nothing else could be less graceful, and waits. It is
// idempotent.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Terminate asks it to stop (SIGTERM) and does not wait.
func (p *Process) Terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// Stop asks it to stop, waits, and fails when it took too long, in which case
// it is killed, or when it ended otherwise than with code 0.
func (p *Process) Stop() error {
	if err := p.Terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop: %w", err)
	}
	return p.AwaitExit()
}

// AwaitExit waits for the end of a process that was told to stop.
func (p *Process) AwaitExit() error {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		p.Kill()
		return fmt.Errorf("stop: it still ran after %s:\n%s", Patience, p.Log())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("stop: %s:\n%s", p.cmd.ProcessState, p.Log())
	}
	return nil
}

// firstLine hands on the first line that is written and drops the rest. It is
// used by one goroutine of exec.Cmd, and by end after that.
type firstLine struct {
	line chan string
	text []byte
	said bool
}

func (f *firstLine) Write(data []byte) (int, error) {
	if !f.said {
		f.text = append(f.text, data...)
		if line, _, whole := bytes.Cut(f.text, []byte("\n")); whole {
			f.said = true
			f.line <- string(line)
		}
	}
	return len(data), nil
}

func (f *firstLine) end() {
	if !f.said {
		close(f.line)
	}
}

// maxLog bounds what is kept of a process's standard error, in bytes.
const maxLog = 256 << 10

// lockedBuffer keeps the end of what is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf []byte
}

var _ io.Writer = (*lockedBuffer)(nil)

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, data...)
	if extra := len(b.buf) - maxLog; extra > 0 {
		b.buf = append(b.buf[:0], b.buf[extra:]...)
	}
	return len(data), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
