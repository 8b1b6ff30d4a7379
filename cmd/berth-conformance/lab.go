//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/cmd/internal/brokerproc"
)

// everything is the server that this project did not write; test/conformance pins it.
const (
	everything = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
	sdk        = "github.com/modelcontextprotocol/go-sdk"
)

// lab is where it happens: a directory, the binaries and what runs. Each round
// has a Berth and servers that were just started, and the direct column servers
// of its own: what a scenario does to a server (a tool more, calls that nobody
// comes back for) is then no other column's.
type lab struct {
	opts       options
	dir        string // removed at the end
	results    string
	sdkVersion string

	// Of this round.
	servers map[string]*server // behind Berth
	alone   map[string]*server // of the direct column
	broker  *brokerproc.Process
	relay   *relay
	direct  map[string]map[string]outcome // by revision and server
	kept    string                        // where results go
}

func openLab(ctx context.Context, o options) (*lab, error) {
	dir, err := os.MkdirTemp("", "berth-conformance-")
	if err != nil {
		return nil, err
	}
	l := &lab{opts: o, dir: dir, results: filepath.Join(dir, "results")}
	if o.keep != "" {
		if l.results, err = filepath.Abs(o.keep); err != nil {
			return nil, errors.Join(err, l.close())
		}
		if err := os.MkdirAll(l.results, 0o755); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	if err := l.build(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// build makes the servers and, where none was named, Berth.
func (l *lab) build(ctx context.Context) error {
	commands := []string{"berth-fixture"}
	if l.opts.berth == "" {
		commands = append(commands, "berth")
	}
	if err := brokerproc.Build(ctx, l.dir, brokerproc.BuildOptions{}, commands...); err != nil {
		return err
	}
	root, err := goOutput(ctx, "", "env", "GOMOD")
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	nested := filepath.Join(filepath.Dir(root), "test", "conformance", "everything")
	if l.sdkVersion, err = goOutput(ctx, nested, "list", "-m", "-f", "{{.Version}}", sdk); err != nil {
		return fmt.Errorf("find the version of the SDK: %w", err)
	}
	if _, err := goOutput(ctx, nested, "build", "-buildvcs=false", "-o", l.binary("everything-server"), everything); err != nil {
		return fmt.Errorf("build the everything-server: %w", err)
	}
	return nil
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (l *lab) binary(name string) string { return filepath.Join(l.dir, name) }

// runRound runs all legs once, and gives what Berth's log says of itself that it
// never should.
func (l *lab) runRound(ctx context.Context, s *suite, tallies []*tally, round int) (complaint string, err error) {
	l.kept = filepath.Join(l.results, fmt.Sprintf("round-%d", round+1))
	if err := os.MkdirAll(l.kept, 0o755); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.halt()) }()
	if err := l.start(ctx, tallies); err != nil {
		return "", err
	}
	for _, t := range tallies {
		if err := l.runLeg(ctx, s, t); err != nil {
			return "", fmt.Errorf("%s: %w", t.leg.name(), err)
		}
	}
	return l.complaints(), nil
}

// start starts the servers that the legs need, Berth and the relay.
func (l *lab) start(ctx context.Context, tallies []*tally) error {
	l.servers, l.alone, l.direct = map[string]*server{}, map[string]*server{}, map[string]map[string]outcome{}
	for _, name := range []string{stateful, stateless} {
		for into, needs := range map[*map[string]*server]func(t *tally) bool{
			&l.servers: func(t *tally) bool { return t.leg.server == name },
			&l.alone:   func(t *tally) bool { return t.leg.direct == name },
		} {
			if !slices.ContainsFunc(tallies, needs) {
				continue
			}
			s, err := startServer(ctx, l.binary("everything-server"), name == stateless)
			if err != nil {
				return fmt.Errorf("%s server: %w", name, err)
			}
			(*into)[name] = s
		}
	}
	text, err := l.config()
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp(l.dir, "state-")
	if err != nil {
		return err
	}
	file := filepath.Join(state, "berth.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	binary := l.binary("berth")
	if l.opts.berth != "" {
		if binary, err = filepath.Abs(l.opts.berth); err != nil {
			return err
		}
	}
	if l.broker, err = brokerproc.Serve(ctx, brokerproc.Options{Binary: binary, StateDir: state, Config: file}); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(state, "api-token"))
	if err != nil {
		return err
	}
	traceTo := ""
	if l.opts.keep != "" {
		traceTo = filepath.Join(l.kept, "wire.log")
	}
	l.relay, err = startRelay(l.broker.Addr(), strings.TrimSpace(string(token)), traceTo)
	return err
}

// taskVerbs are the settings with which the fixture's tools do what the task
// scenarios expect: these become tasks at once, one of them for nobody else
// than clients of tasks, and another once it has asked its question.
var taskVerbs = map[string]any{
	"long": []string{"slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"},
	"verbs": map[string]any{
		"failing_job":         map[string]any{"require_task": true},
		"test_tool_with_task": map[string]any{"promote_after": "1s"},
	},
}

func (l *lab) config() ([]byte, error) {
	backends := map[string]any{
		stdio:          map[string]any{"command": l.binary("everything-server")},
		stdioHandshake: map[string]any{"command": l.binary("everything-server"), "berth": map[string]any{"handshake": true}},
		tasks:          map[string]any{"command": l.binary("berth-fixture"), "args": []string{"stdio"}, "berth": taskVerbs},
	}
	for name, s := range l.servers {
		backends[name] = map[string]any{"url": "http://" + s.addr + "/"}
	}
	return json.Marshal(map[string]any{"mcpServers": backends, "berth": map[string]any{"log_level": "info"}})
}

// runLeg runs one leg once, directly and through Berth.
func (l *lab) runLeg(ctx context.Context, s *suite, t *tally) error {
	if name := t.leg.direct; name != "" {
		// Legs that share a direct column share its run, if it was whole.
		key := t.leg.revision + "/" + name
		found, ok := l.direct[key]
		if !ok || !t.all {
			var err error
			found, err = s.run(ctx, t.plan, "http://"+l.alone[name].addr+"/", filepath.Join(l.kept, "direct-"+t.leg.revision+"-"+t.leg.server))
			if err != nil {
				return fmt.Errorf("directly: %w", err)
			}
			if t.all {
				l.direct[key] = found
			}
		}
		t.direct.add(found)
	}
	url := "http://" + l.relay.addr + "/mcp/" + t.leg.server
	found, err := s.run(ctx, t.plan, url, filepath.Join(l.kept, "through-"+t.leg.revision+"-"+t.leg.server))
	if err != nil {
		return fmt.Errorf("through Berth: %w", err)
	}
	t.through.add(found)
	select {
	case <-l.broker.Ended():
		return fmt.Errorf("berth has ended:\n%s", l.broker.Log())
	default:
		return nil
	}
}

// complaints are what Berth's log says of itself that it never should.
func (l *lab) complaints() string {
	for line := range strings.Lines(l.broker.Log()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) {
			return "berth's log says: " + strings.TrimSpace(line)
		}
	}
	return ""
}

// halt ends what runs, in the order opposite to that of start.
func (l *lab) halt() error {
	var errs []error
	if l.relay != nil {
		errs = append(errs, l.relay.close())
	}
	if l.broker != nil {
		errs = append(errs, l.broker.Stop())
		if l.opts.keep != "" {
			errs = append(errs, os.WriteFile(filepath.Join(l.kept, "berth.log"), []byte(l.broker.Log()), 0o600))
		}
	}
	for _, servers := range []map[string]*server{l.servers, l.alone} {
		for _, s := range servers {
			s.stop()
		}
	}
	l.relay, l.broker, l.servers, l.alone = nil, nil, nil, nil
	return errors.Join(errs...)
}

func (l *lab) close() error { return os.RemoveAll(l.dir) }

// server is an everything-server on a port of its own.
type server struct {
	addr  string
	cmd   *exec.Cmd
	ended chan struct{}
}

const (
	startLimit = 30 * time.Second
	startTries = 3
)

// startServer starts one. It is told its port, so somebody may have taken that
// in the meantime: then it ends at once, and another one is tried.
func startServer(ctx context.Context, binary string, stateless bool) (*server, error) {
	var errs []error
	for range startTries {
		s, err := tryServer(ctx, binary, stateless)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func tryServer(ctx context.Context, binary string, stateless bool) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String(), ended: make(chan struct{})}
	if err := l.Close(); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(binary, "-http", s.addr, fmt.Sprintf("-stateless=%t", stateless))
	s.cmd.Stdout, s.cmd.Stderr = io.Discard, io.Discard
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // its state is read from ProcessState
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-s.ended:
			return nil, fmt.Errorf("it ended before it listened: %s", s.cmd.ProcessState)
		case <-ctx.Done():
			s.stop()
			return nil, context.Cause(ctx)
		case <-limit.C:
			s.stop()
			return nil, fmt.Errorf("it does not listen after %s", startLimit)
		case <-again.C:
			if c, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
				return s, c.Close()
			}
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // fails only when it has ended
	<-s.ended
}
