package real

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs in a process group of its own, of which
// nothing is left after the test.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	out   *lines
}

func startProcess(t *testing.T, name string, env, line []string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(line[0], line[1:]...), ended: make(chan struct{}), out: newLines()}
	p.cmd.Env = env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	// A grandchild that keeps the pipe open must not hold up the end.
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ends is looked at where it matters
		p.out.close()
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.out.tail())
		}
	})
	return p
}

// stop asks for the end, then insists.
func (p *process) stop(t *testing.T) {
	t.Helper()
	group := -p.cmd.Process.Pid
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(group, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("end %s: %v", p.name, err)
		}
	}
	signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Errorf("%s did not end when asked", p.name)
	}
	signal(syscall.SIGKILL)
	<-p.ended
}

// kill ends it as a crash would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.ended
}

// saw waits for a line and gives its first group.
func (p *process) saw(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	over := time.After(limit)
	for at := 0; ; {
		var line string
		var more bool
		var changed <-chan struct{}
		for {
			if line, more, changed = p.out.line(at); !more {
				break
			}
			at++
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		}
		if changed == nil {
			t.Fatalf("%s ended without saying %q", p.name, pattern)
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("%s did not say %q within %s", p.name, pattern, limit)
		}
	}
}

// lines keeps what a program wrote, up to a bound, and tells of each line.
type lines struct {
	mu      sync.Mutex
	whole   []string
	part    []byte
	over    bool
	changed chan struct{}
}

const maxLines = 10_000

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 {
			break
		}
		if len(l.whole) < maxLines {
			l.whole = append(l.whole, string(l.part[:i]))
		}
		l.part = l.part[i+1:]
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	close(l.changed)
}

// line gives line at, or a channel that tells when there may be more; nil when
// there will be none.
func (l *lines) line(at int) (string, bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < len(l.whole) {
		return l.whole[at], true, nil
	}
	if l.over {
		return "", false, nil
	}
	return "", false, l.changed
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out bytes.Buffer
	for _, line := range l.whole[max(0, len(l.whole)-60):] {
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// run runs a program to its end and gives its standard output.
func run(t *testing.T, dir string, env, line []string) (string, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", line[0], err)
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may be gone
	late := time.AfterFunc(2*limit, end)
	err := cmd.Wait()
	late.Stop()
	end()
	if err != nil {
		sc := bufio.NewScanner(io.LimitReader(&stderr, 8<<10))
		for sc.Scan() {
			t.Logf("%s: %s", line[0], sc.Text())
		}
	}
	return stdout.String(), err
}

// interrupt sends SIGINT to the program itself, not to what it started.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatalf("interrupt %s: %v", p.name, err)
	}
}
