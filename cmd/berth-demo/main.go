//go:build unix

// Command berth-demo plays Berth once, from build to clean stop, and prints
// what it did and what it saw. It is a proof and no show: every line marked ok
// was checked, and the first that is not so ends it with exit code 1. With
// -dispatch it plays agents that work on a repository instead of sessions that
// share tools.
//
// It needs Go, and with -dispatch git. It owns a temporary directory with binaries, state and files,
// and every process that it starts; all of it is gone when it returns, after a
// failure and after an interrupt too. The steps run one after the other; only
// the flood has goroutines of its own, which it waits for.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"berth/cmd/internal/brokerproc"
)

// limit is how long all of it may take, building aside.
const limit = 110 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	play := sharing
	flag.BoolFunc("dispatch", "play missions on a repository", func(string) error { play = dispatching; return nil })
	flag.Parse()
	code := run(ctx, os.Stdout, brokerproc.BuildOptions{}, play)
	stop()
	os.Exit(code)
}

// scenario is one thing that is played.
type scenario struct {
	title string
	steps func(*demo) []func()
}

var (
	sharing = scenario{"Berth: one broker, three sessions, two MCP servers, one kill -9", func(d *demo) []func() {
		return []func(){d.start, d.connect, d.answers, d.flood, d.promote, d.keyed, d.operator, d.beforeTheKill, d.kill, d.restart, d.goOn, d.stop}
	}}
	dispatching = scenario{"Berth: one repository, one agent, two missions in a row, one kill -9", func(d *demo) []func() {
		return []func(){d.repository, d.startDispatch, d.vessel, d.index, d.dispatch, d.delivered, d.searchAgain, d.agentAtWork, d.killDispatch, d.restartDispatch, d.stopDispatch}
	}}
)

func run(ctx context.Context, out io.Writer, how brokerproc.BuildOptions, play scenario) (code int) {
	t := newTranscript(out)
	d := &demo{transcript: t, ctx: ctx, how: how}
	defer func() {
		p := recover()
		failed, wasCheck := p.(failure)
		if p != nil && !wasCheck {
			fmt.Fprintf(out, "\nThe demo itself failed: %v\n", p)
		}
		if wasCheck {
			t.failed(failed, d.logs())
		}
		if err := d.cleanUp(); err != nil {
			fmt.Fprintf(out, "Not everything could be cleaned up: %v\n", err)
			code = 1
		}
		switch {
		case p != nil && !wasCheck:
			panic(p)
		case p != nil:
			code = 1
		case code == 0:
			t.summary()
		}
	}()
	t.title(play.title)
	d.build()
	var done context.CancelFunc
	d.ctx, done = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer done()
	for _, step := range play.steps(d) {
		step()
	}
	return 0
}
