package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/transport/guard"
)

// options is what the command line says.
type options struct {
	quick   bool
	rounds  int
	turn    time.Duration
	only    string
	clients int
	berth   string
	against string
	profile string
	write   string
	role    string
	backend string
	soak    time.Duration
	service time.Duration
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "guard" { // the git of the code index runs under one
		os.Exit(guard.Main(os.Args[2:]))
	}
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "berth-bench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("berth-bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "a rough look in about half a minute")
	flags.IntVar(&o.rounds, "rounds", 0, "turns of each path (default 9, 3 with -quick)")
	flags.DurationVar(&o.turn, "turn", 0, "length of one turn (default 600ms, 150ms with -quick)")
	flags.StringVar(&o.only, "only", "", "what to measure (default: "+strings.Join(parts, ",")+")")
	flags.IntVar(&o.clients, "clients", 0, "this number of clients only: 1, 16 or 64")
	flags.StringVar(&o.berth, "berth", "", "a berth binary to measure (default: built from this tree)")
	flags.StringVar(&o.against, "against", "", "another berth binary, measured in the same turns")
	flags.StringVar(&o.profile, "profile", "", "directory for CPU and allocation profiles of Berth")
	flags.StringVar(&o.write, "write", "", "file whose marked block is replaced by the result")
	flags.StringVar(&o.role, "role", "", "for the processes that the bench starts itself")
	flags.DurationVar(&o.soak, "soak", 0, "run the soak instead, with loads of this length; -only names its parts: load,memory,start")
	flags.DurationVar(&o.service, "service", 0, "how long a call takes, for -role echo-http")
	flags.StringVar(&o.backend, "backend", "", "address of the backend, for -role proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch o.role {
	case "":
		return bench(o, out)
	case "echo-http":
		return serveEcho(os.Stdin, out, o.service)
	case "echo-stdio":
		return echoLines(os.Stdin, out)
	case "proxy":
		return serveProxy(o.backend, os.Stdin, out)
	}
	return fmt.Errorf("unknown role %q", o.role)
}

// parts is what can be measured, in the order in which it is.
var parts = []string{"http", "stdio", "accepts", "jobs", "idle", "catalog", "board", "codeindex"}

func (o *options) complete(all []string) error {
	if o.only == "" {
		o.only = strings.Join(all, ",")
	}
	for _, p := range strings.Split(o.only, ",") {
		if !slices.Contains(all, p) {
			return fmt.Errorf("-only: %q is none of %s", p, strings.Join(all, ", "))
		}
	}
	if o.clients != 0 && !slices.Contains(clientCounts, o.clients) {
		return fmt.Errorf("-clients: %d is none of %v", o.clients, clientCounts)
	}
	rounds, turn := 9, 600*time.Millisecond
	if o.quick {
		rounds, turn = 3, 150*time.Millisecond
	}
	if o.rounds <= 0 {
		o.rounds = rounds
	}
	if o.turn <= 0 {
		o.turn = turn
	}
	return nil
}

// loads are the numbers of clients to measure.
func (o *options) loads() []int {
	if o.clients > 0 {
		return []int{o.clients}
	}
	return clientCounts
}

func (o *options) wants(part string) bool { return slices.Contains(strings.Split(o.only, ","), part) }

// bench measures all that was asked for and prints it.
func bench(o options, out io.Writer) (err error) {
	all := parts
	if o.soak > 0 {
		all = soakParts
	}
	if err := o.complete(all); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The load must not stop for its own garbage while it takes times.
	debug.SetGCPercent(400)
	l, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()

	if o.soak > 0 {
		text, missed := soak(ctx, o, l)
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		if o.write != "" && text != "" {
			missed = errors.Join(missed, replaceBlock(o.write, "soak", text))
		}
		return missed
	}
	began := time.Now()
	r := &report{machine: readMachine(), rounds: o.rounds, turn: o.turn}
	steps := []struct {
		part string
		run  func(context.Context, *lab, *report) error
	}{{"http", measureHTTP}, {"stdio", measureStdio}, {"accepts", measureAccepts}, {"jobs", measureJobs}, {"idle", measureIdle}, {"catalog", measureCatalog}, {"board", measureBoard}, {"codeindex", measureCodeIndex}}
	for _, s := range steps {
		if !o.wants(s.part) {
			continue
		}
		l.say("measuring: %s", s.part)
		if err := s.run(ctx, l, r); err != nil {
			return fmt.Errorf("%s: %w", s.part, err)
		}
	}
	r.took = time.Since(began)
	text := r.markdown()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if o.write != "" {
		return replaceBlock(o.write, "bench", text)
	}
	return nil
}
