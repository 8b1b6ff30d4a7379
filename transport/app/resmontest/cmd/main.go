// Command cmd runs a fake resmon as a process, for demos and for harnesses that
// are no Go test.
//
//	go run ./transport/app/resmontest/cmd -dir DIR [-data small|standard|large] [-stamp TEXT] [-first-id N] [-finish-after N] [-fault NAME[,NAME]]
//
// It prints the environment that names the instance, one NAME=value a line, and
// a line that begins with "resmon" once it listens; it stops on SIGINT or
// SIGTERM and removes its two files. It owns DIR alone, which it makes. It
// prints no token. One goroutine waits for the signal; the rest is the fake's.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/transport/app/resmontest"
)

const usage = "usage: cmd -dir DIR [-data small|standard|large] [-stamp TEXT] [-first-id N] [-finish-after N] [-fault NAME[,NAME]]"

var data = map[string]resmontest.Size{"small": resmontest.Small, "standard": resmontest.Standard, "large": resmontest.Large}

// faults are those that are worth seeing from outside.
var faults = map[string]resmontest.Fault{
	"slow":             resmontest.Slow(5 * time.Second),
	"drop_before":      resmontest.DropBefore(),
	"drop_after_write": resmontest.DropAfterWrite(),
	"cut_body":         resmontest.CutBody(),
	"status_500":       resmontest.Status(500),
	"missing_identity": resmontest.MissingIdentity(),
	"not_json":         resmontest.NotJSON(),
	"decline_semantic": resmontest.DeclineSemantic("No embedding model is configured."),
	"queue_full":       resmontest.QueueFull(),
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o := resmontest.Options{}
	var size, names string
	flags := flag.NewFlagSet("resmontest", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&o.Dir, "dir", "", "directory for the port file and the token file; it is made if it is missing")
	flags.StringVar(&size, "data", "standard", "data set: "+strings.Join(slices.Sorted(maps.Keys(data)), ", "))
	flags.StringVar(&o.Stamp, "stamp", "", "text that marks what this instance answers")
	flags.Int64Var(&o.FirstID, "first-id", 0, "number that is added to every id")
	flags.IntVar(&o.FinishAfter, "finish-after", 3, "how often a run is looked at until it is completed; 0 never completes it")
	flags.StringVar(&names, "fault", "", "faults that every request meets, joined by commas: "+strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	if err := flags.Parse(args); err != nil {
		return 2
	}
	known := false
	if o.Data, known = data[size]; !known || o.Dir == "" || flags.NArg() > 0 {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	var on []resmontest.Fault
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) {
		fault, known := faults[name]
		if !known {
			fmt.Fprintf(errOut, "resmontest: no fault %q\n%s\n", name, usage)
			return 2
		}
		on = append(on, fault)
	}
	if err := serve(ctx, o, on, out); err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, o resmontest.Options, on []resmontest.Fault, out io.Writer) error {
	fake, err := resmontest.Start(o)
	if err != nil {
		return err
	}
	for _, fault := range on {
		fake.Inject(fault, resmontest.Scope{})
	}
	env := fake.Env()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(out, "%s=%s\n", name, env[name])
	}
	fmt.Fprintf(out, "resmon %s listens on %s\n", fake.RuntimeID(), fake.Base())
	<-ctx.Done()
	return fake.Stop()
}
