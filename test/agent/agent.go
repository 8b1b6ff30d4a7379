//go:build unix

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// What the program ends with by itself.
const (
	exitArguments = 2
	exitDirective = 70
)

// stay and leave are hidden first arguments: of a process that stays, and of the
// one between that leaves it without a parent.
const (
	stay  = "--stay"
	leave = "--leave"
)

const (
	waitLimit = 10 * time.Minute
	callLimit = time.Minute
)

// Main plays the program called name with args and gives its exit status.
func Main(name string, args []string, in io.Reader, out, errOut io.Writer) int {
	if len(args) == 2 && (args[0] == stay || args[0] == leave) {
		return remain(args[0], args[1])
	}
	name = filepath.Base(name)
	if name == "cursor" {
		name = "cursor-agent"
	}
	r, known := roles[name]
	if !known {
		fmt.Fprintf(errOut, "agent: %q is none of %s\n", name, strings.Join(Names(), ", "))
		return exitArguments
	}
	g, err := r.parse(args, in)
	if err != nil {
		fmt.Fprintf(errOut, "%s: %v\n", name, err)
		return exitArguments
	}
	p := &performance{role: r, given: g, out: out, errOut: errOut}
	p.event(r.begin, "")
	for line := range strings.SplitSeq(g.prompt, "\n") {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		do, known := directives[word]
		if !known {
			continue
		}
		if err := do(p, rest); err != nil {
			var ended exit
			if errors.As(err, &ended) {
				return int(ended)
			}
			fmt.Fprintf(errOut, "%s %v\n", word, err)
			return exitDirective
		}
	}
	return p.finish()
}

// performance is one run of the program.
type performance struct {
	role
	given
	out, errOut io.Writer
	said        string
}

// event prints an event of the role; %s in it becomes text.
func (p *performance) event(form, text string) {
	if form == "" {
		return
	}
	if strings.Contains(form, "%s") {
		raw, _ := json.Marshal(text) // text
		form = fmt.Sprintf(form, raw)
	}
	fmt.Fprintln(p.out, form)
}

// speak says something as the role does.
func (p *performance) speak(text string) {
	p.said = text
	if p.say == "" {
		fmt.Fprintln(p.out, text)
		return
	}
	p.event(p.say, text)
}

func (p *performance) finish() int {
	if file := p.first(p.last); p.last != "" {
		if err := os.WriteFile(file, []byte(p.said), 0o600); err != nil {
			fmt.Fprintln(p.errOut, err)
			return 1
		}
	}
	p.event(p.end, p.said)
	return 0
}

// exit is the status with which a directive ends the program.
type exit int

func (e exit) Error() string { return "exit " + strconv.Itoa(int(e)) }

var directives map[string]func(p *performance, rest string) error

func init() {
	directives = map[string]func(p *performance, rest string) error{
		"@write": write, "@commit": commit, "@git": func(_ *performance, rest string) error { return git(strings.Fields(rest)...) },
		"@say": func(p *performance, rest string) error { p.speak(rest); return nil },
		"@marker": func(p *performance, rest string) error {
			kind, value, _ := strings.Cut(rest, " ")
			p.speak("[BERTH:" + kind + "] " + value)
			return nil
		},
		"@mcp": call,
		"@prompt": func(p *performance, _ string) error {
			p.speak(fmt.Sprintf("prompt %d %x", len(p.prompt), sha256.Sum256([]byte(p.prompt))))
			return nil
		},
		"@sum": func(p *performance, rest string) error {
			p.speak(fmt.Sprintf("%x of %s", sha256.Sum256([]byte(os.Getenv(rest))), rest))
			return nil
		},
		"@environ": environ,
		"@stderr":  func(p *performance, rest string) error { _, err := fmt.Fprintln(p.errOut, rest); return err },
		"@print":   func(p *performance, rest string) error { return flood(p.out, rest, strings.Repeat("x", 99)+"\n") },
		"@noline":  func(p *performance, rest string) error { return flood(p.out, rest, strings.Repeat("y", 100)) },
		"@hold":    hold,
		"@fork":    func(_ *performance, rest string) error { return spawn(stay, rest) },
		"@detach":  func(_ *performance, rest string) error { return spawn(leave, rest) },
		"@deaf": func(*performance, string) error {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			return nil
		},
		"@rmworktree": func(*performance, string) error {
			dir, err := os.Getwd()
			return errors.Join(err, os.RemoveAll(dir))
		},
		"@kill": func(_ *performance, rest string) error {
			n, err := strconv.Atoi(rest)
			if err != nil {
				return err
			}
			if err := syscall.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
				return err
			}
			return hold(nil, "/nonexistent/"+rest)
		},
		"@exit": func(_ *performance, rest string) error {
			n, err := strconv.Atoi(rest)
			if err != nil {
				return err
			}
			return exit(n)
		},
	}
}

func write(_ *performance, rest string) error {
	path, text, _ := strings.Cut(rest, " ")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(text, `\n`, "\n")), 0o644)
}

func commit(_ *performance, message string) error {
	if err := git("add", "--all"); err != nil {
		return err
	}
	return git("commit", "--quiet", "--message", message)
}

func git(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git: %w: %s", err, out)
	}
	return nil
}

func environ(p *performance, _ string) error {
	var names []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	p.speak("environ " + strings.Join(names, " "))
	return nil
}

// flood prints size bytes of a text, over and over.
func flood(out io.Writer, size, text string) error {
	left, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	block := []byte(strings.Repeat(text, 1<<10))
	for left > 0 {
		n, err := out.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// hold waits until a file exists.
func hold(_ *performance, file string) error {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-limit.C:
			return fmt.Errorf("waited for %s in vain", file)
		}
	}
}

// spawn leaves a process behind and waits until it has said its id in file.
func spawn(how, file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := &exec.Cmd{Path: self, Args: []string{"plain", how, file}}
	if how == stay { // it holds this one's outputs open too
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
	}
	if err := child.Start(); err != nil {
		return err
	}
	if how == leave {
		if err := child.Wait(); err != nil {
			return err
		}
	}
	return hold(nil, file)
}

// remain stays for ever, or leaves one that does in a session of its own.
func remain(how, file string) int {
	if how == leave {
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		child := &exec.Cmd{Path: self, Args: []string{"plain", stay, file}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
		if child.Start() != nil {
			return 1
		}
		return 0
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 1
	}
	if err := os.Rename(file+".new", file); err != nil {
		return 1
	}
	<-time.After(waitLimit)
	return 0
}

// call calls a verb of the broker and says the answer.
func call(p *performance, rest string) error {
	url, authorization, err := p.mcp(p.given)
	if err != nil {
		return err
	}
	if url == "" {
		return errors.New("there is no MCP configuration")
	}
	if authorization != p.authorization {
		return fmt.Errorf("the configuration refers to its token as %q", authorization)
	}
	verb, arguments, _ := strings.Cut(rest, " ")
	request := mcp.CallToolRequest{}
	request.Params.Name = verb
	if arguments != "" {
		request.Params.Arguments = json.RawMessage(arguments)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	hop, err := transport.NewStreamableHTTP(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + os.Getenv("ARMADA_MCP_TOKEN")}))
	if err != nil {
		return err
	}
	client := mcpgo.NewClient(hop)
	defer func() { _ = client.Close() }() // the answer is what counts
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "berth-fixture-agent", Version: "1"}
	if err := client.Start(ctx); err != nil {
		return err
	}
	if _, err := client.Initialize(ctx, hello); err != nil {
		p.speak(verb + " failed: " + err.Error())
		return nil
	}
	result, err := client.CallTool(ctx, request)
	if err != nil {
		p.speak(verb + " failed: " + err.Error())
		return nil
	}
	word := " answered: "
	if result.IsError {
		word = " refused: "
	}
	text := ""
	for _, c := range result.Content {
		if t, ok := c.(mcp.TextContent); ok {
			text += t.Text
		}
	}
	p.speak(verb + word + text)
	return nil
}
