package mcpclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"berth/broker"
	"berth/transport/jsonrpc"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a small MCP server on its standard streams.
const childEnv = "MCPCLIENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// runChild answers like fake.serve, from another process.
func runChild() {
	fmt.Println("a banner")
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := decodeMessage(text)
		if err != nil || !m.hasID() {
			continue
		}
		switch {
		case strings.Contains(string(m.params), `"die"`):
			fmt.Fprintln(os.Stderr, "dying as asked")
			os.Exit(3)
		case m.method == "initialize":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.id, plainIntroduction)
		case m.method == "tools/list":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo"}]}}`+"\n", m.id)
		default:
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.id, m.params)
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

// process is a plain child, kept by os/exec.
type process struct {
	cmd    *exec.Cmd
	stderr strings.Builder // read after done
	done   chan struct{}
}

func startProcess(context.Context) (Child, error) {
	exe, err := os.Executable()
	if err != nil {
		return Child{}, err
	}
	p := &process{cmd: exec.Command(exe), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return Child{}, err
	}
	// Not StdoutPipe: Wait would close it before it is read to its end.
	out, w, err := os.Pipe()
	if err != nil {
		return Child{}, err
	}
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		return Child{}, err
	}
	w.Close()
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return Child{Stdin: in, Stdout: out, PID: p.cmd.Process.Pid, Life: p}, nil
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) ExitReason() string {
	select {
	case <-p.done:
		return "the child exited: " + p.cmd.ProcessState.String()
	default:
		return ""
	}
}

func (p *process) StderrTail() string {
	select {
	case <-p.done:
		return p.stderr.String()
	default:
		return ""
	}
}

func (p *process) Stop(ctx context.Context) error {
	p.cmd.Process.Kill()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const plainIntroduction = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1","extra":12345678901234567890}}`

// fake is a child in this process. Its script sees every line that is not
// part of the handshake.
type fake struct {
	in     *io.PipeReader
	out    *io.PipeWriter
	done   chan struct{}
	reason string
	stderr string

	introduction string
	initialize   func(params string)        // sees those of initialize
	refuse       func(f *fake, m message)   // answers initialize, if it is set
	discover     func(f *fake, m message)   // answers server/discover; nil: it is unknown
	pages        func(params string) string // result of tools/list
	script       func(f *fake, m message)
	deafAfter    int // lines after which stdin is not read any more
	seen         chan message
}

func newFake(script func(f *fake, m message)) *fake {
	return &fake{
		done: make(chan struct{}), reason: "the child exited with status 7", stderr: "last words",
		introduction: plainIntroduction, script: script, seen: make(chan message, 100),
		pages: func(string) string { return `{"tools":[{"name":"echo","x-unknown":12345678901234567890}]}` },
	}
}

func (f *fake) start(context.Context) (Child, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	f.in, f.out = inR, outW
	go f.serve()
	return Child{Stdin: inW, Stdout: outR, PID: 4711, Life: f}, nil
}

func (f *fake) serve() {
	lines := newLineReader(f.in, 1<<20)
	for n := 1; ; n++ {
		if n == f.deafAfter {
			<-f.done
			return
		}
		l, err := lines.next()
		if err != nil {
			f.exit()
			return
		}
		m, err := decodeMessage(l.text)
		if err != nil {
			panic(fmt.Sprintf("not JSON-RPC: %q", l.text))
		}
		switch m.method {
		case "server/discover":
			f.discovered(m)
		case "initialize":
			if f.refuse != nil {
				f.refuse(f, m)
				continue
			}
			if f.initialize != nil {
				f.initialize(string(m.params))
			}
			f.answer(m, f.introduction)
		case "notifications/initialized":
		case "tools/list":
			f.answer(m, f.pages(string(m.params)))
		default:
			if f.script != nil {
				f.script(f, m)
			}
			select {
			case f.seen <- m:
			default:
			}
		}
	}
}

func (f *fake) discovered(m message) {
	if f.discover != nil {
		f.discover(f, m)
		return
	}
	f.send(unknownMethod(m))
}

func unknownMethod(m message) string {
	return `{"jsonrpc":"2.0","id":` + string(m.id) + `,"error":{"code":-32601,"message":"unknown method"}}`
}

func (f *fake) send(text string) { io.WriteString(f.out, text+"\n") }

func (f *fake) answer(m message, result string) {
	f.send(`{"jsonrpc":"2.0","id":` + string(m.id) + `,"result":` + result + `}`)
}

// exit is the end of the child: its pipes close with it.
func (f *fake) exit() {
	select {
	case <-f.done:
	default:
		close(f.done)
		f.out.Close()
		f.in.Close()
	}
}

func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) ExitReason() string {
	select {
	case <-f.done:
		return f.reason
	default:
		return ""
	}
}
func (f *fake) StderrTail() string { return f.stderr }
func (f *fake) Stop(context.Context) error {
	f.in.CloseWithError(errors.New("stopped")) // serve exits, unless it is deaf
	if f.deafAfter > 0 {
		f.exit()
	}
	<-f.done
	return nil
}

func (f *fake) open(t *testing.T, opts Options) (*Stdio, broker.Conn) {
	t.Helper()
	s := NewStdio(StdioConfig{Start: f.start}, opts)
	c, err := s.Open(t.Context(), nil)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return s, c
}

// call is a write, so that nothing depends on its effects.
func call(params string) *broker.Call {
	return &broker.Call{ID: "c", Method: "tools/call", Params: []byte(params), Seats: 1}
}

func failure(t *testing.T, err error) *broker.Failure {
	t.Helper()
	var f *broker.Failure
	if !errors.As(err, &f) {
		t.Fatalf("the error is %v, not a failure", err)
	}
	return f
}

// member goes down into an object by names; nil: there is none.
func member(raw json.RawMessage, names ...string) json.RawMessage {
	for _, name := range names {
		o, err := jsonrpc.ParseObject(raw)
		if err != nil {
			return nil
		}
		raw, _ = o.Get(name)
	}
	return raw
}
