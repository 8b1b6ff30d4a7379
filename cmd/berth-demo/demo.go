//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"berth/cmd/internal/brokerproc"
)

// demo is the house of the demo: its directory, its processes, its clients.
type demo struct {
	*transcript
	ctx context.Context
	how brokerproc.BuildOptions

	dir     string // removed at the end
	berth   string // binary
	state   string // state directory
	config  string
	notes   string // the file that keyed calls append to
	web     *brokerproc.Process
	broker  *brokerproc.Process
	witness *brokerproc.Witness

	ann, bob, cleo *client
	sessionIDs     map[string]string

	promoted, keyedJob, running, webJob string // ids of jobs

	// of the missions
	repo, vesselID, captainID, voyageID, endless string
	missionIDs                                   []string
}

// build makes the binaries in a temporary directory.
func (d *demo) build() {
	d.step("Build berth and its two small MCP servers with %s", runtime.Version())
	var err error
	d.dir, err = os.MkdirTemp("", "berth-demo-")
	d.must(err, "make a temporary directory")
	d.must(brokerproc.Build(d.ctx, d.dir, d.how, "berth", "berth-fixture"), "build")
	d.berth, d.state, d.notes = filepath.Join(d.dir, "berth"), filepath.Join(d.dir, "state"), filepath.Join(d.dir, "notes.txt")
	d.config = filepath.Join(d.dir, "mcp.json")
	d.say("Everything lives in one temporary directory, which is removed at the end.")
}

// writeConfig writes a configuration in the convention that MCP clients share.
func (d *demo) writeConfig() error {
	fixture := filepath.Join(d.dir, "berth-fixture")
	config := map[string]any{
		"mcpServers": map[string]any{
			"files": map[string]any{
				"command": fixture, "args": []string{"stdio"},
				"env":   map[string]string{"BERTH_FIXTURE_WITNESS": d.witness.Path()},
				"berth": map[string]any{"max_in_flight": 4, "max_queued": 400},
			},
			"web": map[string]any{
				"type": "http", "url": "http://" + d.web.Addr() + "/mcp",
				"berth": map[string]any{"promote_after": "1s"},
			},
		},
		"berth": map[string]any{"max_calls_per_session": 120},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.config, text, 0o600)
}

// serve starts the broker on listen.
func (d *demo) serve(listen string) error {
	if d.broker != nil {
		d.broker.Kill() // it has ended; this only makes it certain
	}
	p, err := brokerproc.Serve(d.ctx, brokerproc.Options{Binary: d.berth, StateDir: d.state, Listen: listen,
		Config: d.config, Witness: d.witness})
	if p != nil {
		d.broker = p
	}
	return err
}

// berthSays runs a subcommand and gives what it printed and its exit code.
func (d *demo) berthSays(args ...string) (out string, code int) {
	cmd := exec.CommandContext(d.ctx, d.berth, args...)
	cmd.Env = append(os.Environ(), "BERTH_STATE_DIR="+d.state)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.must(err, "run berth "+strings.Join(args, " "))
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// command shows a subcommand and checks its exit code.
func (d *demo) command(wantCode int, args ...string) string {
	out, code := d.berthSays(args...)
	d.show("berth "+strings.Join(args, " "), out)
	if code != wantCode {
		panic(failure(fmt.Sprintf("berth %s ends with exit code %d, which must be %d", strings.Join(args, " "), code, wantCode)))
	}
	return out
}

// newWitness replaces the witness: each broker's family has its own.
func (d *demo) newWitness(name string) error {
	if d.witness != nil {
		if err := d.witness.Close(); err != nil {
			return err
		}
	}
	var err error
	d.witness, err = brokerproc.NewWitness(filepath.Join(d.dir, name))
	return err
}

// lines counts how often a line stands in the notes.
func (d *demo) lines(line string) int {
	text, err := os.ReadFile(d.notes)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	d.must(err, "read the notes")
	n := 0
	for _, l := range strings.Split(string(text), "\n") {
		if l == line {
			n++
		}
	}
	return n
}

// logs is the end of the broker's log, for a failure.
func (d *demo) logs() string {
	if d.broker == nil {
		return ""
	}
	log := d.broker.Log()
	return log[max(0, len(log)-4000):]
}

// cleanUp ends what runs and removes what was made. It is called once, at the
// end, however far the demo came.
func (d *demo) cleanUp() error {
	var problems []error
	for _, p := range []*brokerproc.Process{d.broker, d.web} {
		if p != nil {
			p.Kill()
		}
	}
	for _, c := range []*client{d.ann, d.bob, d.cleo} {
		if c != nil && c.session != nil {
			_ = c.session.Close() // its peer is gone already
		}
	}
	if d.witness != nil {
		problems = append(problems, d.witness.Close())
	}
	if d.dir != "" {
		problems = append(problems, os.RemoveAll(d.dir))
	}
	return errors.Join(problems...)
}
