//go:build unix

// Command berth-demo plays Berth once, from build to clean stop, and prints
// what it did and what it saw. It is a proof and no show: every line marked ok
// was checked, and the first that is not so ends it with exit code 1.
//
// It needs Go. It owns a temporary directory with binaries, state and files,
// and every process that it starts; all of it is gone when it returns, after a
// failure and after an interrupt too. The steps run one after the other; only
// the flood has goroutines of its own, which it waits for.
package main

import (
	"context"
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
	code := run(ctx, os.Stdout, brokerproc.BuildOptions{})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, out io.Writer, how brokerproc.BuildOptions) (code int) {
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
	t.title("Berth: one broker, three sessions, two MCP servers, one kill -9")
	d.build()
	var done context.CancelFunc
	d.ctx, done = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer done()
	for _, step := range []func(){
		d.start, d.connect, d.answers, d.flood, d.promote, d.keyed, d.operator,
		d.beforeTheKill, d.kill, d.restart, d.goOn, d.stop,
	} {
		step()
	}
	return 0
}
