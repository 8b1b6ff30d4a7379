package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

type doctorOptions struct {
	config string
	jobAge time.Duration
}

func newDoctorCommand(a *app) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong, and the command that mends it",
		Long: `Look at the state directory, the running broker, its backends and jobs, the
journal, the disk, the clock, the configuration and the registrations of
clients, and say what is wrong with the command that mends it. Nothing is
changed. A check that could not be made is unknown, never ok. The exit code is 1
when something is wrong.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd.Context(), o) }),
	}
	cmd.Flags().StringVar(&o.config, "config", "", "the configuration to be checked (default: the running broker's)")
	cmd.Flags().DurationVar(&o.jobAge, "job-age", 24*time.Hour, "how old an unfinished job may be")
	return cmd
}

// The severities of a finding.
const (
	severeError   = "error"   // it does not work, or is not safe
	severeWarning = "warning" // it works, and will not for long or not for everybody
	severeUnknown = "unknown" // it could not be looked at
)

// finding is one thing that is wrong, or that could not be looked at.
type finding struct {
	Check    string
	Severity string
	Sentence string
	Command  string // that mends it, or that says more
}

// checkResult is what became of one check: ok, problem, unknown, or none where
// there was nothing to look at.
type checkResult struct{ Check, Result string }

type doctorReport struct {
	Success  bool // nothing is wrong
	Checks   []checkResult
	Findings []finding
}

// checkLimit bounds each check.
const checkLimit = 15 * time.Second

// doctorCheck is one row of the table. run gives what is wrong; applies false is
// that there is nothing to look at.
type doctorCheck struct {
	name string
	run  func(ctx context.Context, p *patient) (found []finding, applies bool)
}

// doctorChecks are the checks in the order in which one depends on another.
var doctorChecks = []doctorCheck{
	{"state_directory", checkStateDirectory},
	{"secret_files", checkSecretFiles},
	{"broker", checkBroker},
	{"version", checkVersion},
	{"configuration", checkConfiguration},
	{"address", checkFreeAddress},
	{"backends", checkBackends},
	{"jobs", checkJobs},
	{"journal", checkJournal},
	{"disk", checkDisk},
	{"clock", checkClock},
	{"clients", checkClients},
}

func (a *app) runDoctor(ctx context.Context, o doctorOptions) error {
	p, err := a.newPatient(o)
	if err != nil {
		return err
	}
	report := doctorReport{Success: true, Checks: []checkResult{}, Findings: []finding{}}
	for _, c := range doctorChecks {
		limited, cancel := context.WithTimeout(ctx, checkLimit)
		found, applies := c.run(limited, p)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		result := "ok"
		if !applies {
			result = "none"
		}
		for _, f := range found {
			f.Check = c.name
			report.Findings = append(report.Findings, f)
			if f.Severity != severeUnknown {
				result, report.Success = "problem", false
			} else if result != "problem" {
				result = severeUnknown
			}
		}
		report.Checks = append(report.Checks, checkResult{c.name, result})
	}
	if err := a.showDoctor(report); err != nil || report.Success {
		return err
	}
	wrong := 0
	for _, f := range report.Findings {
		if f.Severity != severeUnknown {
			wrong++
		}
	}
	return &failure{exit: exitOutcome, code: codeUnhealthy, message: fmt.Sprintf("Problems found: %d.", wrong), shown: true}
}

func (a *app) showDoctor(r doctorReport) error {
	if a.json {
		return a.printJSON(r)
	}
	rows := make([][]string, 0, len(r.Checks))
	for _, c := range r.Checks {
		rows = append(rows, []string{c.Check, c.Result})
	}
	if err := a.table([]string{"CHECK", "RESULT"}, rows); err != nil {
		return err
	}
	for _, f := range r.Findings {
		text := fmt.Sprintf("\n%s (%s): %s\n", f.Severity, f.Check, plain(f.Sentence))
		if f.Command != "" {
			text += "  " + plain(f.Command) + "\n"
		}
		if _, err := fmt.Fprint(a.out, text); err != nil {
			return fmt.Errorf("print the findings: %w", err)
		}
	}
	return nil
}

// one is a single finding of a check that applies.
func one(severity, sentence, command string) ([]finding, bool) {
	return []finding{{Severity: severity, Sentence: sentence, Command: command}}, true
}

// unknownBecause is a check that could not be made.
func unknownBecause(err error, command string) ([]finding, bool) {
	text := sentence(err)
	var f *failure
	if errors.As(err, &f) {
		text = f.message
	}
	return one(severeUnknown, "This could not be looked at: "+text, command)
}
