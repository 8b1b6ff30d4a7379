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

// fault is one that can be seen from outside, and which requests meet it.
type fault struct {
	resmontest.Fault
	scope resmontest.Scope
}

// attached spares the health check: an instance that does not confirm itself is
// asked nothing else, and no fault would show.
var attached = resmontest.Scope{But: "/api/health"}

var faults = map[string]fault{
	"slow":             {resmontest.Slow(5 * time.Second), attached},
	"drop_before":      {resmontest.DropBefore(), attached},
	"drop_after_write": {resmontest.DropAfterWrite(), attached},
	"cut_body":         {resmontest.CutBody(), attached},
	"status_500":       {resmontest.Status(500), attached},
	"not_json":         {resmontest.NotJSON(), attached},
	"missing_identity": {resmontest.MissingIdentity(), resmontest.Scope{}},
	"decline_semantic": {resmontest.DeclineSemantic("No embedding model is configured."), resmontest.Scope{}},
	"queue_full":       {resmontest.QueueFull(), resmontest.Scope{}},
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
	flags.StringVar(&names, "fault", "", "faults that requests meet, the health check spared, joined by commas: "+strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	if err := flags.Parse(args); err != nil {
		return 2
	}
	known := false
	if o.Data, known = data[size]; !known || o.Dir == "" || flags.NArg() > 0 {
		fmt.Fprintln(errOut, usage)
		return 2
	}
	var on []fault
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) {
		f, known := faults[name]
		if !known {
			fmt.Fprintf(errOut, "resmontest: no fault %q\n%s\n", name, usage)
			return 2
		}
		on = append(on, f)
	}
	if err := serve(ctx, o, on, out); err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, o resmontest.Options, on []fault, out io.Writer) error {
	fake, err := resmontest.Start(o)
	if err != nil {
		return err
	}
	for _, fault := range on {
		fake.Inject(fault.Fault, fault.scope)
	}
	env := fake.Env()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(out, "%s=%s\n", name, env[name])
	}
	fmt.Fprintf(out, "resmon %s listens on %s\n", fake.RuntimeID(), fake.Base())
	<-ctx.Done()
	return fake.Stop()
}
