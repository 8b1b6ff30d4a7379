package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/transport/guard"
)

// commands are the subcommands, in the order of the manual. Each is made anew
// for every run.
var commands = []func(*app) *cobra.Command{
	newServeCommand,
	newReloadCommand,
	newCheckConfigCommand,
	newDoctorCommand,
	newStdioCommand,
	newCallCommand,
	newToolsCommand,
	newProfileCommand,
	newCatalogCommand,
	newBackendsCommand,
	newHoldCommand,
	newSessionsCommand,
	newTopCommand,
	newJobsCommand,
	newVoyagesCommand,
	newMissionsCommand,
	newCaptainsCommand,
	newVesselsCommand,
	newEventsCommand,
	newJournalCommand,
	newBackupCommand,
	newRestoreCommand,
	newStopCommand,
	newTokenCommand,
	newInstallCommand,
	newServiceCommand,
	newVersionCommand,
}

// app is what the subcommands share: the standard streams, the environment and
// the persistent flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) (string, bool)
	// outTerminal and errTerminal are true where a person reads the stream.
	outTerminal, errTerminal bool
	// comeback is how long what follows a broker that has left waits for it.
	comeback time.Duration

	stateDirFlag string // as given; stateDir gives the one to use
	json         bool
}

// run executes one command line and gives its exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	if len(args) > 0 && args[0] == "guard" {
		// A child's guard must be up fast and owns its signals, so it does not
		// pass through here.
		return guard.Main(args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process as usual
	a := &app{in: in, out: out, err: errOut, getenv: os.LookupEnv, outTerminal: isTerminal(out), errTerminal: isTerminal(errOut), comeback: comeback}
	return a.execute(ctx, args)
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := newRootCommand(a, commands...)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		f = usage(sentence(err)) // what cobra itself finds wrong is the command line
	}
	if !a.json { // a command line that is wrong may not have been read to its --json
		flags, _, _ := strings.Cut(strings.Join(args, "\x00")+"\x00", "\x00--\x00")
		a.json = slices.Contains(strings.Split(flags, "\x00"), "--json")
	}
	a.report(f)
	return f.exit
}

// report says a failure: one sentence with its code on standard error, and
// with --json an object on standard output.
func (a *app) report(f *failure) {
	fmt.Fprintf(a.err, "berth: %s (%s)\n", plain(f.message), f.code)
	for _, line := range f.more {
		fmt.Fprintf(a.err, "  %s\n", plain(line))
	}
	if f.exit == exitUsage {
		fmt.Fprintln(a.err, "See: berth help")
	}
	if a.json && !f.shown {
		// A broken pipe on standard output leaves the exit code to tell it.
		_ = a.printJSON(errorObject{Error: f.message, Code: f.code, ExitCode: f.exit, Data: f.data})
	}
}

// newRootCommand builds the command tree.
func newRootCommand(a *app, subcommands ...func(*app) *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "berth",
		Short:         "A broker between agent sessions and the tools they share",
		Long:          "Berth admits every call through a queue, turns long calls into jobs that outlive a restart,\nand refuses rather than guesses. Start it with `berth serve`; the other commands speak to the one that runs.",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		}),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("There is no command " + args[0] + ".")
			}
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&a.stateDirFlag, "state-dir", "", "the broker's state directory (default: $BERTH_STATE_DIR, else $XDG_STATE_HOME/berth, else ~/.local/state/berth; on macOS ~/Library/Application Support/berth)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON for programs instead of a table")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(sentence(err)) })
	for _, build := range subcommands {
		root.AddCommand(build(a))
	}
	return root
}

// runE gives what a command's run returns an exit code.
func (a *app) runE(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return asFailure(err)
		}
		return nil
	}
}

// newGroup is a command that only holds others.
func newGroup(a *app, name, short string, subcommands ...func(*app) *cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs}
	var names []string
	for _, build := range subcommands {
		sub := build(a)
		names = append(names, sub.Name())
		group.AddCommand(sub)
	}
	group.RunE = func(*cobra.Command, []string) error {
		return usage("Say which: berth " + name + " " + strings.Join(names, "|") + ".")
	}
	return group
}

// exactly is the check of the number of arguments, with names for the message.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("The argument " + names[len(args)] + " is missing.")
		case len(args) > len(names):
			return usage("There is one argument too many: " + args[len(names)] + ".")
		}
		return nil
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printJSON prints one document, indented.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
