//go:build unix

package guard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/transport/guard/procid"
)

// Defaults and bounds of a Spec.
const (
	DefaultStopGrace   = 2 * time.Second
	DefaultStderrLimit = 8 << 10

	// startTimeout is for a guard that says nothing; one that is Berth's own
	// binary answers as soon as the machine lets it run.
	startTimeout = 30 * time.Second
	// killWait is how long the end of everything may take once it was ordered.
	killWait = 5 * time.Second
	// settleWait is how long the end of a child waits for its descendants and
	// for the rest of its stderr before it is told anyway.
	settleWait = 2 * time.Second
)

// Spec says what to start. Command is required; the zero value of everything
// else is documented.
type Spec struct {
	// Executable is the binary whose subcommand "guard" is [Main]; empty: the
	// binary that runs.
	Executable string
	// Command is looked up in the PATH of Env, relative to Dir when it has a
	// slash. Args come after it and are visible to every user of the machine.
	Command string
	Args    []string
	// Env is the environment of the child, "NAME=value" each; of a name that
	// comes twice the last counts. Nil is an empty environment. MarkVariable is
	// added, whatever Env says of it.
	Env []string
	// Dir is the working directory; empty: the broker's.
	Dir string
	// StopGrace is how long Stop waits after it closed stdin, and again after
	// SIGTERM; 0: DefaultStopGrace, negative: not at all. Output and its like have
	// one only where it is positive.
	StopGrace time.Duration
	// StderrLimit is how many bytes of the end of stderr are kept; 0 or less:
	// DefaultStderrLimit.
	StderrLimit int
	// Stderr, when not nil, is given all of stderr as it comes. It is called by
	// one goroutine and must not fail; while it blocks, the child does.
	Stderr io.Writer
	// Ledger, when not nil, records the child until all of it is gone, under
	// Name (the backend's).
	Ledger *Ledger
	Name   string
}

// Start runs the command of spec under a guard and returns when it runs. ctx
// limits the start only. The error is one sentence that names the command.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %q: %w", spec.Command, err)
	}
	p, err := launch(spec)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", spec.Command, err)
	}
	if err := p.awaitStart(ctx, spec.Command); err != nil {
		p.abort()
		return nil, err
	}
	if err := p.record(spec); err != nil {
		p.abort()
		return nil, fmt.Errorf("start %q: %w", spec.Command, err)
	}
	go p.drain()
	go p.watch()
	return p, nil
}

func checkSpec(spec Spec) error {
	if spec.Command == "" {
		return errors.New("start: there is no command")
	}
	for _, s := range append([]string{spec.Command, spec.Dir}, spec.Args...) {
		if strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("start %q: command, arguments or directory contain a NUL byte", spec.Command)
		}
	}
	for i, s := range spec.Env {
		if strings.IndexByte(s, 0) >= 0 || strings.IndexByte(s, '=') <= 0 {
			return fmt.Errorf("start %q: entry %d of its environment is not NAME=value", spec.Command, i+1)
		}
	}
	if spec.Dir == "" {
		return nil
	}
	info, err := os.Stat(spec.Dir)
	if err != nil {
		return fmt.Errorf("start %q: working directory: %w", spec.Command, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("start %q: working directory: %s is no directory", spec.Command, spec.Dir)
	}
	return nil
}

// lastOfEach drops all but the last entry of each name and keeps the order.
func lastOfEach(env []string) []string {
	last := make(map[string]int, len(env))
	for i, s := range env {
		name, _, _ := strings.Cut(s, "=")
		last[name] = i
	}
	out := make([]string, 0, len(last)) // never nil: nil would mean our own environment
	for i, s := range env {
		name, _, _ := strings.Cut(s, "=")
		if last[name] == i {
			out = append(out, s)
		}
	}
	return out
}

// launch starts the guard process with its five pipes.
func launch(spec Spec) (*Process, error) {
	executable := spec.Executable
	if executable == "" {
		var err error
		if executable, err = ownBinary(); err != nil {
			return nil, fmt.Errorf("own binary: %w", err)
		}
	}
	var ends [5][2]*os.File // read, write
	closeAll := func() {
		for _, pair := range ends {
			for _, f := range pair {
				if f != nil {
					_ = f.Close()
				}
			}
		}
	}
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, err
		}
		ends[i] = [2]*os.File{r, w}
	}
	stdin, stdout, stderr, lifeline, status := ends[0], ends[1], ends[2], ends[3], ends[4]
	theirs := []*os.File{stdin[0], stdout[1], stderr[1], lifeline[0], status[1]}
	pipes, err := pipeEnds(theirs[:3])
	if err != nil {
		closeAll()
		return nil, err
	}
	mark := newMark()
	guard, err := os.StartProcess(executable,
		append([]string{"berth", "guard", "--", spec.Command}, spec.Args...),
		&os.ProcAttr{
			Dir:   spec.Dir,
			Env:   lastOfEach(append(slices.Clone(spec.Env), markEntry(mark))),
			Files: theirs,
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("guard process: %w", bare(err))
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	p := newProcess(spec, guard)
	p.Stdin = stdin[1]
	p.Stdout = &untilEOF{file: stdout[0]}
	p.stdout, p.stderr, p.lifeline, p.status = stdout[0], stderr[0], lifeline[1], status[0]
	p.statusLines = bufio.NewReaderSize(p.status, maxStatusLine)
	p.pipes, p.mark = pipes, mark
	return p, nil
}

// bare drops operation and path from an error that names them twice.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func pipeEnds(files []*os.File) ([]procid.PipeEnd, error) {
	ends := make([]procid.PipeEnd, len(files))
	for i, f := range files {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, errors.New("a pipe without an inode")
		}
		ends[i] = procid.PipeEnd{Inode: st.Ino, Write: i > 0}
	}
	return ends, nil
}

// awaitStart reads the guard's first line.
func (p *Process) awaitStart(ctx context.Context, command string) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(limited, func() { _ = p.status.SetReadDeadline(time.Unix(1, 0)) })
	e, err := p.nextEvent()
	if !stop() && err == nil {
		err = limited.Err() // the deadline is set or will be
	}
	switch {
	case limited.Err() != nil && err != nil:
		return fmt.Errorf("start %q: its guard has not answered: %w", command, limited.Err())
	case errors.Is(err, io.EOF):
		return fmt.Errorf("start %q: its guard process ended before it could start it", command)
	case err != nil:
		return fmt.Errorf("start %q: %w", command, err)
	case e.kind == eventFailed:
		return errors.New(e.reason) // names the command
	case e.kind != eventStarted:
		return fmt.Errorf("start %q: %w", command, errStatus)
	}
	p.PID, p.StartTime = e.pid, e.start
	return nil
}

// nextEvent reads one status line; io.EOF: the guard is gone.
func (p *Process) nextEvent() (event, error) {
	line, err := p.statusLines.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errStatus
		}
		return event{}, err
	}
	return parseEvent(string(line[:len(line)-1]))
}

// record writes the child into the ledger.
func (p *Process) record(spec Spec) error {
	guard, err := procid.Of(p.GuardPID)
	if errors.Is(err, procid.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its guard: %w", err)
	}
	p.rec = Record{
		Name:    spec.Name,
		Command: spec.Command,
		Guard:   guard,
		Child:   procid.ID{PID: p.PID, Start: p.StartTime, Boot: guard.Boot},
		Pipes:   p.pipes,
		Mark:    p.mark,
	}
	if spec.Ledger == nil {
		return nil
	}
	p.forget, err = spec.Ledger.add(p.rec)
	return err
}

// abort ends a process that was not handed out.
func (p *Process) abort() {
	_ = p.Stdin.Close()
	_ = p.lifeline.Close()
	// A guard closes its status pipe when it is through; whatever was run
	// instead of a guard may not.
	_ = p.status.SetReadDeadline(time.Now().Add(killWait))
	if _, err := io.Copy(io.Discard, p.status); err != nil {
		_ = p.guard.Kill()
	}
	_, _ = p.guard.Wait()
	_ = errors.Join(p.status.Close(), p.stdout.Close(), p.stderr.Close())
}
