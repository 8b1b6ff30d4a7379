//go:build linux

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary is the guard, the broker in the middle and every hostile child
// too; the first argument tells which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			os.Exit(Main(os.Args[2:]))
		case "hostile":
			os.Exit(hostile(os.Args[2], os.Args[3:]))
		case "broker":
			os.Exit(brokerInTheMiddle(os.Args[2], os.Args[3]))
		}
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; no test asserts speed.
const patience = 60 * time.Second

var deafSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}

// hostile is what a child does. Most modes get the witness, a FIFO that they
// open for as long as they live: when nobody writes to it any more, they are
// all gone.
func hostile(mode string, args []string) int {
	switch mode {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	case "flood":
		n, _ := strconv.ParseInt(args[0], 10, 64)
		_, _ = io.CopyN(os.Stdout, zeros{}, n)
		return 0
	case "complain":
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			fmt.Fprintf(os.Stderr, "complaint %d\n", i+1)
		}
		return 3
	case "facts":
		_ = json.NewEncoder(os.Stdout).Encode(gatherFacts())
		return 0
	case "turn-mute": // lives on without its output
		_ = errors.Join(os.Stdout.Close(), os.Stderr.Close())
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "suicide":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return 0
	}
	defer attend(args[0], mode).Close()
	switch mode {
	case "deaf": // to signals and to the end of stdin
		signal.Ignore(deafSignals...)
		sleepForEver()
	case "polite": // goes when asked, having seen the end of stdin before
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		<-term
		fmt.Println("bye")
		return 7
	case "family": // a deaf child, and a deaf daemon that double-forked
		signal.Ignore(deafSignals...)
		breed(nil, nil, "deaf", args[0])
		breed(nil, nil, "fork", args[0])
		sleepForEver()
	case "clingy": // as family, but all of them keep the pipes
		stdio := []*os.File{os.Stdin, os.Stdout, os.Stderr}
		breed(nil, stdio, "deaf", args[0])
		breed(nil, stdio, "fork", args[0])
		sleepForEver()
	case "parent": // leaves a daemon and ends by itself
		breed(nil, nil, "fork", args[0])
		_, _ = io.ReadFull(os.Stdin, make([]byte, 1))
		return 5
	case "fork": // the first half of a double fork
		breed(&syscall.SysProcAttr{Setsid: true}, []*os.File{os.Stdin, os.Stdout, os.Stderr}, "daemon", args[0])
		return 0
	case "daemon":
		signal.Ignore(deafSignals...)
		sleepForEver()
	}
	return 99
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func sleepForEver() {
	for {
		_ = unix.Pause()
	}
}

// attend opens the witness and reports in.
func attend(witness, mode string) *os.File {
	f, err := os.OpenFile(witness, os.O_WRONLY, 0)
	if err != nil {
		os.Exit(98)
	}
	if _, err := fmt.Fprintf(f, "%s %d\n", mode, os.Getpid()); err != nil {
		os.Exit(97)
	}
	return f
}

// breed starts another hostile process and does not wait for it.
func breed(sys *syscall.SysProcAttr, files []*os.File, mode, witness string) {
	_, err := os.StartProcess("/proc/self/exe", []string{"hostile", "hostile", mode, witness},
		&os.ProcAttr{Sys: sys, Files: files})
	if err != nil {
		os.Exit(96)
	}
}

type facts struct {
	Env   []string
	Args  []string
	Pipes []string // open pipes besides stdin, stdout and stderr
	Flags [3]int   // of those three
	Group bool     // leads its process group
	Dir   string
}

func gatherFacts() facts {
	f := facts{Env: os.Environ(), Args: os.Args, Group: syscall.Getpgrp() == os.Getpid()}
	f.Dir, _ = os.Getwd()
	names, _ := os.ReadDir("/proc/self/fd")
	for _, name := range names {
		link, _ := os.Readlink("/proc/self/fd/" + name.Name())
		if fd, _ := strconv.Atoi(name.Name()); fd > 2 && strings.HasPrefix(link, "pipe:") {
			f.Pipes = append(f.Pipes, name.Name()+" "+link)
		}
	}
	for fd := range f.Flags {
		f.Flags[fd], _ = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	}
	return f
}

// brokerInTheMiddle starts a family under a guard, tells the pids, and waits to
// be killed.
func brokerInTheMiddle(ledgerDir, mode string) int {
	witness := os.Args[4]
	ledger, err := OpenLedger(ledgerDir)
	if err != nil {
		return 95
	}
	p, err := Start(context.Background(), Spec{
		Name: "backend", Command: "/proc/self/exe", Args: []string{"hostile", mode, witness}, Ledger: ledger,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 94
	}
	fmt.Printf("%d %d\n", p.GuardPID, p.PID)
	sleepForEver()
	return 93
}

// A witness is the reading end of a FIFO that a family of processes has open.
type witness struct {
	t     *testing.T
	path  string
	file  *os.File
	own   *os.File // keeps the end of file away until the family has gathered
	lines *bufio.Reader
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{t: t, path: filepath.Join(t.TempDir(), "witness")}
	must(t, unix.Mkfifo(w.path, 0o600))
	var err error
	w.file, err = os.OpenFile(w.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	w.own, err = os.OpenFile(w.path, os.O_WRONLY, 0)
	must(t, err)
	w.lines = bufio.NewReader(w.file)
	t.Cleanup(func() { _ = w.file.Close(); _ = w.own.Close() })
	return w
}

// gather waits until one process of each mode has reported in and gives their
// pids by mode.
func (w *witness) gather(modes ...string) map[string]int {
	w.t.Helper()
	must(w.t, w.file.SetReadDeadline(soon()))
	pids := make(map[string]int)
	for len(modes) > 0 {
		line, err := w.lines.ReadString('\n')
		must(w.t, err)
		mode, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := slices.Index(modes, mode)
		if i < 0 {
			w.t.Fatalf("%q reported in, want one of %q", line, modes)
		}
		modes = slices.Delete(modes, i, i+1)
		pids[mode], err = strconv.Atoi(pid)
		must(w.t, err)
	}
	must(w.t, w.own.Close())
	return pids
}

// awaitNobody waits until every process that attended is gone.
func (w *witness) awaitNobody() {
	w.t.Helper()
	must(w.t, w.file.SetReadDeadline(soon()))
	rest, err := io.ReadAll(w.lines)
	if err != nil {
		w.t.Fatalf("a descendant is left: %v", err)
	}
	if len(rest) > 0 {
		w.t.Fatalf("somebody came late: %q", rest)
	}
}

// somebody fails the test when everybody is gone.
func (w *witness) somebody() {
	w.t.Helper()
	must(w.t, w.file.SetReadDeadline(time.Unix(1, 0)))
	if _, err := w.lines.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("read of the witness: %v, want to find somebody there", err)
	}
}

// A pinned process is held by a pidfd, so that its end can be waited for.
type pinned struct {
	t  *testing.T
	fd int
}

func pin(t *testing.T, pid int) pinned {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return pinned{t, fd}
}

func (p pinned) awaitEnd() {
	p.t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		must(p.t, err)
		if n == 0 {
			p.t.Fatal("the process does not end")
		}
		return
	}
}

func (p pinned) signal(sig syscall.Signal) {
	p.t.Helper()
	must(p.t, unix.PidfdSendSignal(p.fd, sig, nil, 0))
}

func soon() time.Time { return time.Now().Add(patience) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ownPath(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

// prompt is an environment in which a binary with the race detector does not
// take a second to exit.
var prompt = []string{"GORACE=atexit_sleep_ms=0"}

// run starts a hostile child and sees to its end.
func run(t *testing.T, spec Spec, args ...string) *Process {
	t.Helper()
	if spec.Command == "" {
		spec.Command, spec.Args = ownPath(t), append([]string{"hostile"}, args...)
	}
	if spec.Env == nil {
		spec.Env = prompt
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := Start(ctx, spec)
	must(t, err)
	t.Cleanup(func() {
		kill(t, p)
		_ = p.Stdout.Close()
	})
	return p
}

// kill stops p without patience.
func kill(t *testing.T, p *Process) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s: waited in vain", what)
	}
}
