package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
)

// lab is where the measuring happens: a temporary directory, the binaries and
// the processes that run.
type lab struct {
	opts  options
	dir   string
	self  string
	built map[string]string // by build tags
	procs []*process
}

func openLab(ctx context.Context, o options) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{opts: o, dir: dir, self: self, built: map[string]string{}}
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *lab) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// close ends what runs and removes the directory.
func (l *lab) close() error { return errors.Join(l.stopAll(), os.RemoveAll(l.dir)) }

// build gives a berth binary, built once for each set of tags.
func (l *lab) build(ctx context.Context, tags string) (string, error) {
	if l.opts.berth != "" {
		return filepath.Abs(l.opts.berth)
	}
	if bin, ok := l.built[tags]; ok {
		return bin, nil
	}
	l.say("building berth (tags %q)", tags)
	bin := filepath.Join(l.dir, "berth"+tags)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", tags, "-o", bin, "berth/cmd/berth")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build berth: %w\n%s", err, out)
	}
	l.built[tags] = bin
	return bin, nil
}

// process is one that the bench started. Its first line of output says where
// it listens.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	line  string
	pid   int
	ended chan error // capacity 1
}

// start runs a program and waits for its first line.
func (l *lab) start(ctx context.Context, bin string, args ...string) (*process, error) {
	return l.startIn(ctx, nil, bin, args...)
}

func (l *lab) startIn(ctx context.Context, env []string, bin string, args ...string) (*process, error) {
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: filepath.Base(bin) + " " + strings.Join(args, " "), cmd: cmd, stdin: stdin, pid: cmd.Process.Pid, ended: make(chan error, 1)}
	l.procs = append(l.procs, p)
	first := make(chan string, 1)
	go func() {
		out := bufio.NewReader(stdout)
		line, _ := out.ReadString('\n') // an empty line says that it ended
		first <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, out) // so that the pipe never fills
		p.ended <- cmd.Wait()
	}()
	select {
	case p.line = <-first:
	case <-time.After(startLimit):
		return nil, fmt.Errorf("%s did not say where it listens", p.name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.line == "" {
		return nil, fmt.Errorf("%s ended before it listened", p.name)
	}
	return p, nil
}

// stop asks for the end in both ways that the programs know, and insists.
func (p *process) stop() error {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() < 0 {
			return nil // of the signal
		}
		return err
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s did not stop", p.name)
	}
}

// stopAll ends every process, last first.
func (l *lab) stopAll() error {
	var errs []error
	for i := len(l.procs) - 1; i >= 0; i-- {
		if err := l.procs[i].stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", l.procs[i].name, err))
		}
	}
	l.procs = nil
	return errors.Join(errs...)
}

func (l *lab) echo(ctx context.Context) (*process, error) {
	return l.start(ctx, l.self, "-role", "echo-http")
}

// config is what a broker under measurement is given.
type config struct {
	httpBackend  string // address of an echo
	stdioBackend string // the bench's own binary
	long         bool   // every call becomes a job
	tags         string
}

// json is the configuration file. The limits are wide enough that none of them
// is what is measured.
func (c config) json() ([]byte, error) {
	own := map[string]any{"max_in_flight": maxClients(), "max_queued": 1000, "max_queued_jobs": 100_000, "start": "eager"}
	if c.long {
		own["long"] = []string{"*"}
	}
	echo := map[string]any{"berth": own}
	if c.stdioBackend != "" {
		echo["command"], echo["args"] = c.stdioBackend, []string{"-role", "echo-stdio"}
	} else {
		echo["url"] = "http://" + c.httpBackend + "/"
	}
	return json.Marshal(map[string]any{
		"mcpServers": map[string]any{"echo": echo},
		"berth":      map[string]any{"log_level": "warn", "max_sessions": 1_000_000},
	})
}

// broker is a berth serve under measurement.
type broker struct {
	*process
	addr, token string
	profile     string // prefix of the files it writes
}

// berth starts the build under measurement.
func (l *lab) berth(ctx context.Context, name string, c config) (*broker, error) {
	if l.opts.profile != "" {
		c.tags = "profile"
	}
	bin, err := l.build(ctx, c.tags)
	if err != nil {
		return nil, err
	}
	return l.serve(ctx, bin, name, c)
}

// otherBerth starts the one that it is compared with.
func (l *lab) otherBerth(ctx context.Context, name string, c config) (*broker, error) {
	bin, err := filepath.Abs(l.opts.against)
	if err != nil {
		return nil, err
	}
	return l.serve(ctx, bin, name, c)
}

func (l *lab) serve(ctx context.Context, bin, name string, c config) (*broker, error) {
	text, err := c.json()
	if err != nil {
		return nil, err
	}
	b, err := l.serveText(ctx, bin, name, c.tags, text)
	if err != nil {
		return nil, err
	}
	return b, b.await(ctx, `berth_backend_state{backend="echo",state="ready"}`, 1)
}

// serveText starts a broker with this configuration and waits until it listens.
func (l *lab) serveText(ctx context.Context, bin, name, tags string, text []byte) (_ *broker, err error) {
	file, state := filepath.Join(l.dir, name+".json"), filepath.Join(l.dir, name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	b := &broker{}
	var env []string
	if tags == "profile" {
		b.profile = filepath.Join(l.dir, name+"-profile")
		if l.opts.profile != "" {
			b.profile = filepath.Join(l.opts.profile, name)
		}
		env = append(env, "BERTH_PROFILE="+b.profile)
	}
	if b.process, err = l.startIn(ctx, env, bin, "serve", "--config", file, "--state-dir", state, "--listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(b.line, "http://")
	if b.addr, _, _ = strings.Cut(rest, " "); !found {
		return nil, fmt.Errorf("berth said %q instead of its address", b.line)
	}
	token, err := os.ReadFile(filepath.Join(state, "api-token"))
	if err != nil {
		return nil, err
	}
	b.token = strings.TrimSpace(string(token))
	return b, nil
}

func (b *broker) target(name, path, tool string) target {
	return target{name: name, addr: b.addr, path: path, token: b.token, tool: tool, pids: []int{b.pid}}
}
