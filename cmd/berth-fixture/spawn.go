//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sleeper is the hidden subcommand that spawn leaves behind: "fork" is the
// process in the middle, which ends as soon as the other one runs, and "stay"
// the one that stays.
const sleeper = "sleeper"

type spawnArgs struct {
	Pipes bool `json:"pipes,omitempty" jsonschema:"keep the server's standard streams open too"`
}

// spawn double-forks: when it answers, the process it left has no living parent
// but init or a subreaper, leads a session of its own, ignores what asks it to
// end and holds the witness open.
func spawn(witness string) mcp.ToolHandlerFor[spawnArgs, any] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, args spawnArgs) (*mcp.CallToolResult, any, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		pipes := ""
		if args.Pipes {
			pipes = "pipes"
		}
		middle := exec.CommandContext(ctx, self, sleeper, "fork", witness, pipes)
		middle.Stdin, middle.Stderr = os.Stdin, os.Stderr
		out, err := middle.Output()
		if err != nil {
			return nil, nil, fmt.Errorf("the process in the middle: %w", err)
		}
		return text("left process %s behind", strings.TrimSpace(string(out))), nil, nil
	}
}

func sleepForEver(args []string) int {
	if len(args) != 3 {
		return 2
	}
	step, witness, pipes := args[0], args[1], args[2]
	if step == "fork" {
		return forkSleeper(witness, pipes)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	if witness != "" {
		held, err := os.OpenFile(witness, os.O_WRONLY, 0)
		if err != nil {
			return 1
		}
		defer held.Close()
	}
	if _, err := os.NewFile(3, "ready").Write([]byte{1}); err != nil {
		return 1
	}
	for range asked { // and deaf
	}
	return 0
}

// forkSleeper starts the sleeper in a session of its own and ends when it is
// ready.
func forkSleeper(witness, pipes string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return 1
	}
	none, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 1
	}
	files := []*os.File{none, none, none, tell}
	if pipes != "" {
		files[0], files[2] = os.Stdin, os.Stderr // its standard output is what the server reads this process's pid from
	}
	p, err := os.StartProcess(self, []string{"berth-fixture", sleeper, "stay", witness, pipes},
		&os.ProcAttr{Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil || tell.Close() != nil {
		return 1
	}
	if n, err := ready.Read(make([]byte, 1)); n != 1 || err != nil {
		return 1
	}
	fmt.Println(p.Pid)
	return 0
}
