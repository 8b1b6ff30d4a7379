package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/transport/install"
	"berth/transport/statedir"
)

// defaultAddress is where `berth serve` listens when nobody says otherwise.
const defaultAddress = "127.0.0.1:7420"

type installOptions struct {
	client, via, scope, profile, url, tokenEnv string
	write, force                               bool
}

// installed is what --json prints.
type installed struct {
	Client, Via, Scope     string
	Command, File, Snippet string
	Notes                  []string
	Written                bool // --write was given and the file says so now
	Changed, Created       bool
}

func newInstallCommand(a *app) *cobra.Command {
	var o installOptions
	clients := strings.Join(install.Clients(), "|")
	cmd := &cobra.Command{
		Use:   "install " + clients,
		Short: "Print, or with --write make, the registration of Berth in a client",
		Long: `Print the registration of Berth in a client, or make it with --write. Nothing
else in the client's file is changed, and no token is written: over stdio the
client starts berth stdio, which finds it; over HTTP the client reads it from an
environment variable. An entry named berth that Berth did not make is replaced
with --force only.`,
		Args: exactly(clients),
		RunE: a.runE(func(_ *cobra.Command, args []string) error {
			o.client = args[0]
			if o.force && !o.write {
				return usage("--force says what --write may replace; give both.")
			}
			if !slices.Contains(install.Clients(), o.client) {
				return usage("The client " + o.client + " is not known; the clients are " + strings.Join(install.Clients(), ", ") + ".")
			}
			return a.runInstall(o)
		}),
	}
	cmd.Flags().BoolVar(&o.write, "write", false, "change the client's file instead of printing")
	cmd.Flags().BoolVar(&o.force, "force", false, "with --write: replace an entry named berth that Berth did not make")
	cmd.Flags().StringVar(&o.via, "via", install.ViaStdio, "how the client connects: stdio or http")
	cmd.Flags().StringVar(&o.scope, "scope", install.ScopeUser, "where it applies: user or project")
	cmd.Flags().StringVar(&o.profile, "profile", "", "what the client is served: full, essential, a profile of the configuration, or a backend")
	cmd.Flags().StringVar(&o.url, "url", "", "the broker's MCP endpoint for --via http (default: the running broker's)")
	cmd.Flags().StringVar(&o.tokenEnv, "token-env", install.DefaultTokenEnv, "the environment variable that holds the token for --via http")
	return cmd
}

func (a *app) runInstall(o installOptions) error {
	plan, err := a.planInstall(o)
	if err != nil {
		return err
	}
	shown := installed{Client: plan.Client, Via: plan.Via, Scope: plan.Scope, Command: plan.Command, File: plan.File,
		Snippet: plan.Snippet, Notes: append([]string{}, plan.Notes...)}
	if o.write {
		plan.Force = o.force
		change, err := plan.Apply()
		var foreign *install.ForeignError
		if errors.As(err, &foreign) {
			return &failure{exit: exitFailed, code: codeFailed, message: sentence(foreign) + " Give --force to replace it.",
				more: []string{"  - " + foreign.Has, "  + " + foreign.Wanted}}
		}
		if err != nil {
			return err
		}
		shown.File, shown.Written, shown.Changed, shown.Created = change.File, true, change.Changed, change.Created
	}
	if a.json {
		return a.printJSON(shown)
	}
	switch {
	case !o.write:
		_, err = fmt.Fprint(a.out, plan.Text())
	case shown.Changed:
		_, err = fmt.Fprintf(a.out, "Registered in %s.\n", shown.File)
	default:
		_, err = fmt.Fprintf(a.out, "%s has the registration already; nothing was changed.\n", shown.File)
	}
	if err != nil {
		return fmt.Errorf("print the registration: %w", err)
	}
	if o.write {
		for _, note := range plan.Notes {
			fmt.Fprintln(a.err, note)
		}
	}
	return nil
}

func (a *app) planInstall(o installOptions) (install.Registration, error) {
	options, err := a.installOptions(o)
	if err != nil {
		return install.Registration{}, err
	}
	if o.via == install.ViaHTTP && o.url == "" {
		if options.URL, err = a.endpoint(); err != nil {
			return install.Registration{}, err
		}
	}
	plan, err := install.Plan(o.client, options)
	if err != nil {
		return plan, usage(sentence(err))
	}
	return plan, nil
}

// installOptions are where the clients' files of this user and directory are.
func (a *app) installOptions(o installOptions) (install.Options, error) {
	home, err := os.UserHomeDir()
	if err != nil && o.scope == install.ScopeUser {
		return install.Options{}, fmt.Errorf("find the home directory: %w", err)
	}
	project, err := os.Getwd()
	if err != nil && o.scope == install.ScopeProject {
		return install.Options{}, fmt.Errorf("find the project directory: %w", err)
	}
	options := install.Options{Via: o.via, Scope: o.scope, Profile: o.profile, URL: o.url, TokenEnv: o.tokenEnv,
		BerthPath: ownPath(), Home: home, ProjectDir: project}
	options.ClaudeConfigDir, _ = a.getenv("CLAUDE_CONFIG_DIR")
	options.CodexHome, _ = a.getenv("CODEX_HOME")
	options.ConfigHome, _ = a.getenv("XDG_CONFIG_HOME")
	options.OpenCodeConfig, _ = a.getenv("OPENCODE_CONFIG")
	options.Exists = func(file string) bool { _, err := os.Stat(file); return err == nil }
	if chosen, _ := a.getenv(statedir.EnvDir); a.stateDirFlag != "" || chosen != "" {
		if options.StateDir, err = a.stateDir(); err != nil {
			return install.Options{}, err
		}
	}
	return options, nil
}

// endpoint is the running broker's MCP endpoint, else where one listens by
// default, which is then said.
func (a *app) endpoint() (string, error) {
	dir, err := a.stateDir()
	if err != nil {
		return "", err
	}
	addr, _, err := statedir.Discover(dir)
	if errors.Is(err, statedir.ErrNotRunning) {
		addr, err = defaultAddress, nil
		fmt.Fprintf(a.err, "No broker runs, so the default address %s is used; see --url.\n", addr)
	}
	if err != nil {
		return "", err
	}
	return "http://" + reachable(addr) + "/mcp", nil
}

// ownPath is how a client starts this program: by name when PATH finds it.
func ownPath() string {
	self, err := os.Executable()
	if err != nil {
		return "berth"
	}
	found, err := exec.LookPath("berth")
	if err != nil {
		return self
	}
	a, aErr := os.Stat(self)
	b, bErr := os.Stat(found)
	if aErr == nil && bErr == nil && os.SameFile(a, b) {
		return "berth"
	}
	return self
}
