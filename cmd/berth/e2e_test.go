package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"berth/cmd/internal/brokerproc"
	"berth/transport/statedir"
)

// TestEndToEnd runs testdata/e2e with the real binary: whole brokers, each
// script on a state directory of its own. `berth` is the binary as a user has
// it, $FIXTURE the MCP server of cmd/berth-fixture.
func TestEndToEnd(t *testing.T) {
	bin := binariesOf(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "e2e"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("PATH", filepath.Dir(bin.berth)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("FIXTURE", bin.fixture)
			env.Setenv("HOME", home)
			env.Setenv("BERTH_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "listens": listens, "get": get, "mode": mode, "has": has,
		},
	})
}

// listens waits until a broker listens on the state directory: listens [DIR]
func listens(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.Getenv("BERTH_STATE_DIR")
	if len(args) == 1 {
		dir = ts.MkAbs(args[0])
	}
	if neg || len(args) > 1 {
		ts.Fatalf("usage: listens [DIR]")
	}
	limit := time.After(brokerproc.Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _, err := statedir.Discover(dir)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("no broker listens: %v", err)
		}
	}
}

// get asks the running broker over HTTP and wants a status; the body is
// printed: get STATUS PATH [TOKEN-FILE]
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: get STATUS PATH [TOKEN-FILE]")
	}
	addr, _, err := statedir.Discover(ts.Getenv("BERTH_STATE_DIR"))
	ts.Check(err)
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+args[1], nil)
	ts.Check(err)
	if len(args) == 3 {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: brokerproc.Patience}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", body)
	if want, err := strconv.Atoi(args[0]); err != nil || resp.StatusCode != want {
		ts.Fatalf("%s, want %s: %s", resp.Status, args[0], body)
	}
}

// mode checks permissions: mode 600 FILE
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// has checks how often a line stands in a file: has 1 LINE FILE
func has(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: has COUNT LINE FILE")
	}
	if got := countLines(ts.MkAbs(args[2]), args[1]); strconv.Itoa(got) != args[0] {
		ts.Fatalf("%q stands %d times in %s, want %s", args[1], got, args[2], args[0])
	}
}
