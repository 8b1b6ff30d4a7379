//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"
)

// options is what the command line says.
type options struct {
	suite  string
	only   string
	rounds int
	berth  string
	keep   string
	brief  bool
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "berth-conformance:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("berth-conformance", flag.ContinueOnError)
	flags.StringVar(&o.suite, "suite", ".conformance", "directory in which npm has installed the suite")
	flags.StringVar(&o.only, "only", "", "globs, separated by commas, over legs (2025-11-25/stateful), scenarios, or LEG/SCENARIO")
	flags.IntVar(&o.rounds, "rounds", 1, "how often everything is run")
	flags.StringVar(&o.berth, "berth", "", "a berth binary (default: built from this tree)")
	flags.StringVar(&o.keep, "keep", "", "directory that is given the suite's own results, Berth's log and all that passed between the two")
	flags.BoolVar(&o.brief, "brief", false, "only the scenarios that do not pass")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	for _, pattern := range o.patterns() {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--only: %q: %w", pattern, err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return prove(ctx, o, out)
}

func (o *options) patterns() []string {
	if o.only == "" {
		return nil
	}
	return strings.Split(o.only, ",")
}

// wants reports whether a scenario of a leg was asked for.
func (o *options) wants(l leg, scenario string) bool {
	patterns := o.patterns()
	for _, pattern := range patterns {
		for _, name := range []string{l.name(), scenario, l.name() + "/" + scenario} {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				return true
			}
		}
	}
	return len(patterns) == 0
}

// prove runs every leg that was asked for, and fails when Berth loses anything.
func prove(ctx context.Context, o options, out io.Writer) (err error) {
	began := time.Now()
	s, err := openSuite(ctx, o.suite)
	if err != nil {
		return err
	}
	chosen, err := choose(o, s)
	if err != nil {
		return err
	}
	l, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	fmt.Fprintf(out, "conformance suite %s, go-sdk's everything-server %s, %s\n", s.version, l.sdkVersion, rounds(o.rounds))

	tallies := make([]*tally, len(chosen))
	for i, c := range chosen {
		tallies[i] = newTally(c)
	}
	var faults []string
	for round := range o.rounds {
		complaint, err := l.runRound(ctx, s, tallies, round)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		if complaint != "" {
			faults = append(faults, complaint)
		}
	}
	for _, t := range tallies {
		t.print(out, o.brief)
		faults = append(faults, t.faults()...)
	}
	fmt.Fprintf(out, "\n%s in all\n", time.Since(began).Round(time.Second))
	if len(faults) > 0 {
		return fmt.Errorf("%d faults:\n  %s", len(faults), strings.Join(faults, "\n  "))
	}
	return nil
}

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}
