package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/transport/mcpserver"
	"berth/transport/statedir"
)

func newStdioCommand(a *app) *cobra.Command {
	var o stdioOptions
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Bridge an MCP client on standard input and output to the running broker",
		Long: `Bridge an MCP client on standard input and output to the running broker. The
bridge keeps nothing: sessions, jobs and catalogs are the broker's. It finds
address and token in the state directory. With no broker running each request
is refused with broker_not_running, until one is.

A session whose environment names an instance of a local app (RESMON_PORT,
RESMON_PORT_FILE, RESMON_DB_PATH, RESMON_STATE_DIR) gets a backend of its own
for that instance, in the profile of all backends and in that of the app.
RESMON_MCP_READ_ONLY=1 limits it to that app's tools that read.

With --embedded there is no other process: a whole broker runs in this one, for
the one app that --profile names, or for its own tools with --profile armada,
where a result that is an error is a JSON-RPC error -32603. Nothing is shared
with a broker that runs, and nothing is kept when it ends.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			if o.embedded && o.credential != "" {
				return usage("--embedded asks no broker: it has no use for --credential-file.")
			}
			if o.embedded {
				return a.runEmbedded(cmd.Context(), o)
			}
			return a.runStdio(cmd.Context(), o)
		}),
	}
	cmd.Flags().StringVar(&o.profile, "profile", "", "one profile: essential, full, one of the configuration, a backend's name, or berth for the broker's own tools (default: the tier's)")
	cmd.Flags().StringVar(&o.credential, "credential-file", "", "file (mode 600) with one header line to use instead of the state directory's token, such as Authorization: Bearer TOKEN")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "list and run only tools that read")
	cmd.Flags().StringVar(&o.participant, "participant", "", "key under which the session takes part in the coordination board (also: BERTH_PARTICIPANT)")
	cmd.Flags().BoolVar(&o.embedded, "embedded", false, "run a whole broker in this process, for the app that --profile names, or armada")
	return cmd
}

type stdioOptions struct {
	profile     string
	credential  string // file with a header line; empty: the state directory's token
	readOnly    bool
	embedded    bool
	participant string
}

// participantVariable names the session's key on the board.
const participantVariable = "BERTH_PARTICIPANT"

// participant is the key that a session gives: the flag's, else the variable's.
// A wrong one on the command line is refused; one in the environment, which may
// be meant for something else, is passed over with a line.
func (a *app) participant(flag string) (string, error) {
	if flag != "" {
		if !broker.ParticipantKey(flag) {
			return "", usage("--participant is 1 to 128 of A-Z a-z 0-9 . _ : -.")
		}
		return flag, nil
	}
	key, _ := a.getenv(participantVariable)
	if key != "" && !broker.ParticipantKey(key) {
		fmt.Fprintf(a.err, "berth stdio: %s is passed over: it is no key of a participant\n", participantVariable)
		return "", nil
	}
	return key, nil
}

func (a *app) runStdio(ctx context.Context, o stdioOptions) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	bridge := mcpserver.Bridge{Profile: o.profile, ReadOnly: readOnlyScope(a.getenv), Discover: func() (string, string, error) {
		addr, token, err := statedir.Discover(dir)
		if err != nil {
			return "", "", err
		}
		if o.credential != "" {
			if token, err = readCredentialFile(o.credential); err != nil {
				return "", "", err
			}
		}
		return "http://" + reachable(addr), token, nil
	}}
	if err := a.checkProfile(ctx, o.profile); err != nil {
		return err
	}
	if bridge.Participant, err = a.participant(o.participant); err != nil {
		return err
	}
	if o.readOnly || switchedOn(a.getenv, readOnlyVariable) {
		bridge.ReadOnly = "1"
	}
	if surface := surfaces[o.profile]; surface != nil {
		bridge.Surface = appContract(surface())
	}
	var unused []string
	if bridge.Instance, unused = broughtInstance(o.profile, a.getenv); len(unused) > 0 {
		fmt.Fprintf(a.err, "berth stdio: %s are passed over: the profile %s has its own\n", strings.Join(unused, ", "), o.profile)
	}
	return bridge.Run(ctx, a.in, a.out, a.err)
}

// checkProfile refuses a profile that the running broker does not have, as a
// wrong command line. With no broker there is nobody to ask, and an app's
// profile may exist for this session alone.
func (a *app) checkProfile(ctx context.Context, profile string) error {
	if profile == "" || surfaces[profile] != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, profileWait)
	defer cancel()
	_, err := a.get(ctx, "/api/v1/profiles/"+url.PathEscape(profile), nil)
	if err != nil && asFailure(err).code == string(broker.CodeProfileUnknown) {
		return usage("There is no profile " + profile + ".")
	}
	return nil
}

// profileWait is how long the broker may take to say whether it has a profile.
const profileWait = 2 * time.Second
