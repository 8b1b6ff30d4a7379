//go:build unix

// Command berth-fixture is a real MCP server on the official Go SDK, small and
// ill-behaved on request: what the tests, the demo and the benchmark put behind
// Berth, so that the backends are not made of Berth's own protocol code.
//
//	berth-fixture stdio
//	berth-fixture http [--listen 127.0.0.1:0] [--port-file FILE]
//	berth-fixture tasks [--listen 127.0.0.1:0] [--port-file FILE]
//	berth-fixture agent [--as NAME] [ARGS...]
//
// tasks has one tool, which it runs as a task of its own. agent is an agent
// program that does what its prompt says (berth/test/agent): the one that NAME
// says, or, when this program is called by such a name, that one.
//
// With --witness FIFO, or BERTH_FIXTURE_WITNESS, it and every process that the
// tool spawn leaves hold the FIFO open for writing as long as they live: a reader
// sees the end of the file when all of them are gone. BERTH_FIXTURE_NOISE writes
// a banner and a broken line to standard output before the protocol begins;
// BERTH_FIXTURE_SEEN adds the tool seen.
//
// It owns nothing but the files that its tools are told to write, refuses
// arguments that its schemas do not allow, and bounds what it makes: 64 MiB of
// output, an hour of sleep. Each call runs in a goroutine of the SDK; appends to
// a file are one write each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"berth/test/agent"
)

const usage = "usage: berth-fixture stdio | http | tasks [--listen ADDR] [--port-file FILE], each with [--witness FIFO] | agent [--as NAME] [ARGS...]"

func main() {
	if agent.Plays(os.Args[0]) {
		os.Exit(agent.Main(os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags of both subcommands.
type options struct {
	listen, portFile, witness string
}

func run(args []string, out, errOut io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	if args[0] == sleeper {
		return sleepForEver(args[1:])
	}
	if args[0] == "agent" {
		return runAgent(args[1:], out, errOut)
	}
	o := options{witness: os.Getenv("BERTH_FIXTURE_WITNESS")}
	flags := flag.NewFlagSet("berth-fixture "+args[0], flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&o.witness, "witness", o.witness, "FIFO to hold open for writing")
	if args[0] == "http" || args[0] == "tasks" {
		flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen on; port 0 picks one")
		flags.StringVar(&o.portFile, "port-file", "", "file that is given the address once it listens")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	serve := map[string]func(context.Context, options, io.Writer) error{"stdio": serveStdio, "http": serveHTTP, "tasks": serveTasks}[args[0]]
	if serve == nil {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	if o.witness != "" {
		held, err := os.OpenFile(o.witness, os.O_WRONLY, 0)
		if err != nil {
			fmt.Fprintln(errOut, "berth-fixture:", err)
			return 1
		}
		defer held.Close()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, o, out); err != nil && ctx.Err() == nil {
		fmt.Fprintln(errOut, "berth-fixture:", err)
		return 1
	}
	return 0
}

// runAgent plays an agent program; plain when none is named.
func runAgent(args []string, out, errOut io.Writer) int {
	name := "plain"
	if len(args) > 1 && args[0] == "--as" {
		name, args = args[1], args[2:]
	}
	return agent.Main(name, args, os.Stdin, out, errOut)
}

func serveStdio(ctx context.Context, o options, out io.Writer) error {
	if os.Getenv("BERTH_FIXTURE_NOISE") != "" {
		fmt.Fprintf(out, "berth-fixture is starting\n{\"jsonrpc\": broken\n")
	}
	err := newServer(o.witness).Run(ctx, &mcp.StdioTransport{})
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve on standard input and output: %w", err)
	}
	return nil
}

func serveHTTP(ctx context.Context, o options, out io.Writer) error {
	server := newServer(o.witness)
	return serve(ctx, o, out, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Logger: slog.New(slog.DiscardHandler)}))
}

// serve answers at /mcp until ctx ends, and says where once it listens.
func serve(ctx context.Context, o options, out io.Writer, handler http.Handler) error {
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	if o.portFile != "" {
		if err := announce(o.portFile, l.Addr().String()); err != nil {
			return errors.Join(err, hs.Close(), <-served)
		}
	}
	fmt.Fprintf(out, "berth-fixture listens on http://%s/mcp\n", l.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		_ = hs.Close() // calls that still run are cut: it is a fixture
		<-served
		return nil
	}
}

// announce writes the address so that a reader finds all of it or nothing.
func announce(path, addr string) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(addr+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the address: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("write the address: %w", err)
	}
	return nil
}
