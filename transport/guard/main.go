//go:build unix

package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"berth/transport/guard/procid"
)

// The descriptors that a guard is started with, besides the child's own three.
const (
	lifelineFD = 3
	statusFD   = 4
)

// politely is the byte on the lifeline that asks for SIGTERM to the child.
const politely = 't'

// What Main returns when there is no child whose code it could mirror.
const (
	exitUsage   = 2
	exitNoStart = 127
)

// Main is the body of the hidden subcommand "guard -- command args...". It
// returns the exit code of the process: the child's own, or 128 plus the number
// of the signal that ended it. It returns when no descendant is left, and must
// be called from the main goroutine of a process that does nothing else.
func Main(args []string) int {
	// The parent-death signal of the child is tied to the thread that starts it.
	runtime.LockOSThread()
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "" {
		fmt.Fprintln(os.Stderr, "berth guard: no command; it is started by the broker, not by hand")
		return exitUsage
	}
	if !isPipe(lifelineFD) || !isPipe(statusFD) {
		fmt.Fprintln(os.Stderr, "berth guard: it is started by the broker, not by hand")
		return exitUsage
	}
	keepFromChild()

	// Handled, not ignored: an ignored signal would stay ignored in the child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)

	w := &ward{
		status: os.NewFile(statusFD, "status"),
		died:   died,
		asks:   make(chan struct{}, 1),
		gone:   make(chan struct{}),
	}
	if err := becomeReaper(); err != nil {
		w.say(event{kind: eventFailed, reason: fmt.Sprintf("the guard cannot adopt orphans: %v", err)})
		return exitNoStart
	}
	if err := w.start(args); err != nil {
		w.say(event{kind: eventFailed, reason: err.Error()})
		return exitNoStart
	}
	go w.listen(os.NewFile(lifelineFD, "lifeline"))
	w.watch()
	w.killAll()
	return w.code
}

// isPipe reports whether fd is a pipe.
func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// keepFromChild marks everything but stdin, stdout and stderr to be closed in
// the child: lifeline, status, and what the broker itself was given by accident.
func keepFromChild() {
	syscall.CloseOnExec(lifelineFD)
	syscall.CloseOnExec(statusFD)
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // nothing else is known to be open
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// ward is the child and what the guard knows of it. It belongs to the main
// goroutine, except for the channels.
type ward struct {
	status *os.File
	died   <-chan os.Signal
	asks   chan struct{} // the broker asks for a polite stop
	gone   chan struct{} // closed when the lifeline has ended

	child   int
	started bool // and said so
	reaped  bool // the child ended and its pid may be used by others
	code    int
}

// say writes one status line. A broker that is gone reads none; its lifeline
// tells.
func (w *ward) say(e event) { _, _ = w.status.WriteString(e.String() + "\n") }

func (w *ward) start(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return startError(args[0], err)
	}
	w.child, err = syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   childAttr(),
	})
	if err != nil {
		return startError(args[0], err)
	}
	if err := letGo(); err != nil {
		w.killAll()
		return fmt.Errorf("the guard cannot let go of the pipes of %q: %w", args[0], err)
	}
	id, err := procid.Of(w.child) // at worst a zombie: nobody else reaps it
	if err != nil && !errors.Is(err, procid.ErrUnsupported) {
		w.killAll()
		return fmt.Errorf("the guard cannot see %q: %w", args[0], err)
	}
	w.started = true
	w.say(event{kind: eventStarted, pid: w.child, start: id.Start})
	return nil
}

// startError says in plain words why command did not start.
func startError(command string, err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err // without the command, which is named below
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%q was not found in the PATH of its environment", command)
	case errors.Is(err, exec.ErrDot):
		return fmt.Errorf("%q was found in the working directory only; write ./%s to mean that", command, command)
	case errors.Is(err, fs.ErrNotExist):
		// Also said of a script whose interpreter is missing.
		return fmt.Errorf("%q does not exist, or its interpreter does not", command)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%q may not be executed: %w", command, err)
	default:
		return fmt.Errorf("%q could not be started: %w", command, err)
	}
}

// letGo replaces the guard's own copies of the child's three files, so that an
// end of file passes in both directions.
func letGo() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := dup2(int(null.Fd()), fd); err != nil {
			return err
		}
	}
	return nil
}

// listen passes on what the broker wants. It ends with the process.
func (w *ward) listen(lifeline io.Reader) {
	defer close(w.gone)
	buf := make([]byte, 16)
	for {
		n, err := lifeline.Read(buf)
		for _, b := range buf[:n] {
			if b == politely {
				select {
				case w.asks <- struct{}{}:
				default: // one is waiting already
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// watch returns when the child has ended or everything must.
func (w *ward) watch() {
	for {
		w.reap()
		if w.reaped {
			return
		}
		select {
		case <-w.died:
		case <-w.asks:
			// The child is not reaped: its pid and its group are still its own.
			_ = syscall.Kill(-w.child, syscall.SIGTERM)
			_ = syscall.Kill(-w.child, syscall.SIGCONT) // a stopped process acts on it too
		case <-w.gone:
			return
		}
	}
}

// reap collects what has ended and reports whether there is nothing left to
// wait for.
func (w *ward) reap() (childless bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true // ECHILD
		case pid == 0:
			return false
		case pid == w.child && !w.reaped:
			w.reaped = true
			if !adopts {
				// The last moment at which the group can be taken for the child's.
				_ = syscall.Kill(-w.child, syscall.SIGKILL)
			}
			w.ended(ws)
		}
	}
}

func (w *ward) ended(ws syscall.WaitStatus) {
	e := event{kind: eventExited, number: ws.ExitStatus()}
	w.code = ws.ExitStatus()
	if ws.Signaled() {
		e = event{kind: eventSignaled, number: int(ws.Signal())}
		w.code = 128 + e.number
	}
	if w.started {
		w.say(e)
	}
}

// killAll kills and reaps until the guard is childless. Orphans come to the
// guard (Linux), so each round kills its children of that moment; a descendant
// that cannot be signalled is waited for.
func (w *ward) killAll() {
	const first, last = time.Millisecond, 250 * time.Millisecond
	w.killGroup()
	for pause := first; !w.reap(); pause = min(2*pause, last) {
		w.killGroup()
		killChildren()
		timer := time.NewTimer(pause)
		select {
		case <-w.died:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// killGroup kills the child's group as long as that is certainly the child's.
func (w *ward) killGroup() {
	if w.child > 1 && !w.reaped {
		_ = syscall.Kill(-w.child, syscall.SIGKILL)
	}
}

// killChildren kills the guard's children and their groups. Only the guard reaps
// them, so no pid among them can have passed to another process; and a group of
// theirs holds only descendants, the guard's own group aside.
func killChildren() {
	table, err := procid.Table()
	if err != nil {
		return // the group was killed; what else is alive cannot be seen
	}
	self, own := os.Getpid(), syscall.Getpgrp()
	for _, e := range table {
		if e.Parent != self {
			continue
		}
		_ = syscall.Kill(e.PID, syscall.SIGKILL)
		if e.Group > 1 && e.Group != own {
			_ = syscall.Kill(-e.Group, syscall.SIGKILL)
		}
	}
}
