package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/install"
)

type serviceOptions struct {
	manager, config string
	print, force    bool
}

func newServiceCommand(a *app) *cobra.Command {
	return newGroup(a, "service", "Have the system's service manager run the broker",
		newServiceInstallCommand, newServiceUninstallCommand, newServiceStatusCommand)
}

func (o *serviceOptions) managerFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.manager, "manager", "", "systemd (a user unit) or launchd (a user agent) (default: launchd on macOS, else systemd)")
}

func newServiceInstallCommand(a *app) *cobra.Command {
	var o serviceOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write the service's file and have its manager take it",
		Long: `Write the service's file and have its manager take it: a systemd user unit, or a
launchd agent on macOS. The broker is then started at each login and after a
failure, and "systemctl --user reload berth" puts a changed configuration in
force. No credential is written. A file that was edited by hand is not replaced
without --force. Where the manager cannot be reached the file is written and the
commands are named that are left to do. Variables that the configuration uses
must be set for the service manager.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runServiceInstall(cmd.Context(), o) }),
	}
	o.managerFlag(cmd)
	cmd.Flags().StringVar(&o.config, "config", "", "the broker's configuration")
	cmd.Flags().BoolVar(&o.print, "print", false, "show the file and write nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a file that was edited by hand")
	return cmd
}

func newServiceUninstallCommand(a *app) *cobra.Command {
	var o serviceOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and remove its file",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runServiceUninstall(cmd.Context(), o) }),
	}
	o.managerFlag(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "remove a file that was edited by hand")
	return cmd
}

func newServiceStatusCommand(a *app) *cobra.Command {
	var o serviceOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the service is installed, enabled and running",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runServiceStatus(cmd.Context(), o) }),
	}
	o.managerFlag(cmd)
	return cmd
}

// serviceReport is what the commands print as JSON. What the manager could not
// be asked is null.
type serviceReport struct {
	Manager   string
	File      string
	Installed bool
	Edited    bool    // by hand, or the file is not Berth's
	Changed   bool    // by this command
	Enabled   *string // the manager's own word
	Active    *string // the manager's own word
	ToDo      []string
}

// planService works out the file. It is for one configuration and state
// directory, both by their full names: a manager has another environment.
func (a *app) planService(o serviceOptions) (install.Service, error) {
	if o.manager == "" {
		o.manager = install.Systemd
		if runtime.GOOS == "darwin" {
			o.manager = install.Launchd
		}
	}
	home, _ := a.getenv("HOME")
	options := install.ServiceOptions{Home: home}
	options.ConfigHome, _ = a.getenv("XDG_CONFIG_HOME")
	var err error
	if options.BerthPath, err = os.Executable(); err != nil {
		return install.Service{}, fmt.Errorf("find this program: %w", err)
	}
	if options.StateDir, err = a.stateDir(); err != nil {
		return install.Service{}, err
	}
	cfg, dir, err := a.loadConfig(o.config)
	if err != nil {
		return install.Service{}, err
	}
	options.Drain = cfg.Broker.DrainTimeout
	if o.config != "" {
		options.Config = filepath.Join(dir, filepath.Base(o.config))
	}
	plan, err := install.PlanService(o.manager, options)
	if err != nil {
		return plan, usage(sentence(err))
	}
	return plan, nil
}

func (a *app) runServiceInstall(ctx context.Context, o serviceOptions) error {
	plan, err := a.planService(o)
	if err != nil {
		return err
	}
	if o.print {
		if a.json {
			return a.printJSON(struct{ Manager, File, Text string }{plan.Manager, plan.File, plan.Text})
		}
		_, err := fmt.Fprint(a.out, plan.Text)
		return err
	}
	change, err := plan.Write(o.force)
	if errors.Is(err, install.ErrEdited) {
		return &failure{exit: exitFailed, code: codeFailed, message: sentence(err), more: []string{"--force replaces it; --print shows what would be written."}}
	}
	if err != nil {
		return err
	}
	report := serviceReport{Manager: plan.Manager, File: plan.File, Installed: true, Changed: change.Changed}
	report.ToDo = a.tellManager(ctx, plan.Enable)
	a.askManager(ctx, &report)
	return a.showService(report)
}

func (a *app) runServiceUninstall(ctx context.Context, o serviceOptions) error {
	plan, err := a.planService(o)
	if err != nil {
		return err
	}
	state, err := plan.Look()
	if err != nil {
		return err
	}
	if state.Edited && !o.force {
		return &failure{exit: exitFailed, code: codeFailed, message: sentence(fmt.Errorf("%s: %w, nothing was done", plan.File, install.ErrEdited)), more: []string{"--force removes it."}}
	}
	report := serviceReport{Manager: plan.Manager, File: plan.File}
	if state.Exists {
		report.ToDo = a.tellManager(ctx, plan.Disable)
	}
	if report.Changed, err = plan.Remove(o.force); err != nil {
		return err
	}
	a.askManager(ctx, &report)
	return a.showService(report)
}

func (a *app) runServiceStatus(ctx context.Context, o serviceOptions) error {
	plan, err := a.planService(o)
	if err != nil {
		return err
	}
	state, err := plan.Look()
	if err != nil {
		return err
	}
	report := serviceReport{Manager: plan.Manager, File: plan.File, Installed: state.Exists, Edited: state.Exists && state.Edited, ToDo: []string{}}
	a.askManager(ctx, &report)
	return a.showService(report)
}

// managerLimit is how long a service manager may take to answer.
const managerLimit = 2 * time.Minute

// tellManager runs the commands that make the manager take the file, and gives
// those that are left: from the first one that failed on.
func (a *app) tellManager(ctx context.Context, commands [][]string) (left []string) {
	left = []string{}
	for _, c := range commands {
		if len(left) == 0 {
			_, err := a.command(ctx, c...)
			if err == nil {
				continue
			}
			fmt.Fprintf(a.err, "%s did not work here: %s\n", strings.Join(c, " "), plain(sentence(err)))
		}
		left = append(left, strings.Join(c, " "))
	}
	return left
}

// askManager fills in what the manager itself says of the service.
func (a *app) askManager(ctx context.Context, report *serviceReport) {
	if report.Manager != install.Systemd {
		return // launchctl has no stable answer
	}
	for word, into := range map[string]**string{"UnitFileState": &report.Enabled, "ActiveState": &report.Active} {
		out, err := a.command(ctx, "systemctl", "--user", "show", "berth.service", "--property="+word, "--value")
		if said := strings.TrimSpace(out); err == nil {
			if said == "" {
				said = "not installed"
			}
			*into = &said
		}
	}
}

// command runs a program of the system; its error says what that said.
func (a *app) command(ctx context.Context, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, managerLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", errors.New(first)
	}
	return string(out), err
}

func (a *app) showService(r serviceReport) error {
	if a.json {
		return a.printJSON(r)
	}
	state := "not installed"
	switch {
	case r.Installed && r.Edited:
		state = "installed, and edited by hand"
	case r.Installed:
		state = "installed"
	}
	word := func(s *string) string {
		if s == nil {
			return "unknown: the service manager could not be asked"
		}
		return *s
	}
	if err := a.facts([][2]string{{"Manager", r.Manager}, {"File", r.File}, {"State", state}, {"Enabled", word(r.Enabled)}, {"Active", word(r.Active)}}); err != nil {
		return err
	}
	if len(r.ToDo) > 0 {
		fmt.Fprintln(a.out, "\nThe service manager did not take it. Run:")
		for _, line := range r.ToDo {
			fmt.Fprintln(a.out, "  "+line)
		}
	}
	return nil
}
