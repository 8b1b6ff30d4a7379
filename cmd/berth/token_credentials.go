package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

// credentialBody is the body of POST /api/v1/credentials.
type credentialBody struct {
	Tenant, User, Role, Label string
	Profiles                  []string
	ReadOnly                  bool
	Shares                    map[string]rest.Share
}

func newTokenCreateCommand(a *app) *cobra.Command {
	var body credentialBody
	var shares []string
	cmd := &cobra.Command{
		Use:   "create --tenant T --user U --role ROLE",
		Short: "Make a credential for somebody; its token is printed once",
		Long: "Make a credential for somebody and print its token, which cannot be asked for again: the\n" +
			"broker keeps a hash of it. Roles: global-admin (every tool of the broker, and these\n" +
			"commands), tenant-admin, user. A share holds at one backend, or with * at each that has\n" +
			"none: weight (against 1 of others who wait), in_flight (calls that wait and run),\n" +
			"rate (calls a second, on average) and burst (at once).",
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			var err error
			if body.Shares, err = readShares(shares); err != nil {
				return err
			}
			return a.runTokenCreate(cmd.Context(), body)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&body.Tenant, "tenant", "", "whose records it sees (required)")
	f.StringVar(&body.User, "user", "", "who it stands for (required)")
	f.StringVar(&body.Role, "role", "", "global-admin, tenant-admin or user (required)")
	f.StringVar(&body.Label, "label", "", "one line to know it by")
	f.StringArrayVar(&body.Profiles, "profile", nil, "a profile that it accepts, the first one serves by default; repeat it (default: any)")
	f.BoolVar(&body.ReadOnly, "read-only", false, "let it do nothing but read")
	f.StringArrayVar(&shares, "share", nil, "what it may take of a backend, BACKEND=weight:4,in_flight:8,rate:20,burst:40; repeat it (default: no limit)")
	return cmd
}

// readShares reads the values of --share.
func readShares(flags []string) (map[string]rest.Share, error) {
	out := map[string]rest.Share{}
	for _, flag := range flags {
		backend, list, ok := strings.Cut(flag, "=")
		if _, again := out[backend]; !ok || backend == "" || list == "" || again {
			return nil, usage("--share: say BACKEND=weight:4,in_flight:8,rate:20, once for each backend.")
		}
		var s rest.Share
		given := map[string]bool{}
		for _, part := range strings.Split(list, ",") {
			key, value, _ := strings.Cut(part, ":")
			if given[key] {
				return nil, usage("--share: " + key + " stands twice for " + backend + ".")
			}
			given[key] = true
			n, err := strconv.ParseFloat(value, 64)
			whole := err == nil && n == float64(int(n)) && n >= 1
			switch {
			case key == "weight" && whole:
				s.Weight = int(n)
			case key == "in_flight" && whole:
				s.InFlight = int(n)
			case key == "burst" && whole:
				s.Burst = int(n)
			case key == "rate" && err == nil && n > 0:
				s.PerSecond = n
			default:
				return nil, usage("--share: " + part + " is none of weight:N, in_flight:N, rate:N and burst:N.")
			}
		}
		out[backend] = s
	}
	return out, nil
}

func (a *app) runTokenCreate(ctx context.Context, body credentialBody) error {
	for flag, value := range map[string]string{"--tenant": body.Tenant, "--user": body.User, "--role": body.Role} {
		if value == "" {
			return usage("Give " + flag + ".")
		}
	}
	answer, err := a.post(ctx, "/api/v1/credentials", body)
	if err != nil {
		return err
	}
	return show(a, answer, func(c rest.Credential) error {
		fmt.Fprintf(a.err, "Credential %s of %s/%s (%s). Its token follows and is not shown again.\n", c.CredentialID, plain(c.Tenant), plain(c.User), c.Role)
		_, err := fmt.Fprintln(a.out, c.Token)
		return err
	})
}

func newTokenListCommand(a *app) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the credentials; tokens are never shown",
		Args:  exactly(),
		RunE:  a.runE(func(cmd *cobra.Command, _ []string) error { return a.runTokenList(cmd.Context(), all) }),
	}
	cmd.Flags().BoolVar(&all, "all", false, "revoked ones, too")
	return cmd
}

func (a *app) runTokenList(ctx context.Context, all bool) error {
	answer, err := a.get(ctx, "/api/v1/credentials", nil)
	if err != nil {
		return err
	}
	return show(a, answer, func(page rest.Page[rest.Credential]) error {
		rows := [][]string{}
		for _, c := range page.Objects {
			if c.Revoked && !all {
				continue
			}
			state := "good"
			if c.Revoked {
				state = "revoked"
			}
			rows = append(rows, []string{c.CredentialID, c.Tenant, c.User, string(c.Role), state, narrowed(c), dayOf(c.LastUsedUTC), orDash(c.Label)})
		}
		return a.table([]string{"ID", "TENANT", "USER", "ROLE", "STATE", "NARROWED TO", "LAST USED", "LABEL"}, rows)
	})
}

// narrowed is what a credential does not let its holder do, in a few words.
func narrowed(c rest.Credential) string {
	var out []string
	if c.ReadOnly {
		out = append(out, "read-only")
	}
	if len(c.Profiles) > 0 {
		out = append(out, "profiles "+strings.Join(c.Profiles, ","))
	}
	for _, backend := range slices.Sorted(maps.Keys(c.Shares)) {
		out = append(out, "share of "+backend)
	}
	return strings.Join(out, "; ")
}

func dayOf(text *string) string {
	if text == nil {
		return "never"
	}
	t, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return *text
	}
	return t.Format(time.DateOnly)
}

func newTokenRevokeCommand(a *app) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a credential at once: its next request is refused and its open streams end",
		Args:  exactly("ID"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			return a.runTokenRevoke(cmd.Context(), args[0], reason)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept with the event")
	return cmd
}

func (a *app) runTokenRevoke(ctx context.Context, id, reason string) error {
	answer, err := a.post(ctx, "/api/v1/credentials/"+url.PathEscape(id)+"/revoke", struct{ Reason string }{reason})
	if err != nil {
		return err
	}
	return show(a, answer, func(c rest.Credential) error {
		_, err := fmt.Fprintf(a.out, "Credential %s of %s/%s is revoked.\n", c.CredentialID, plain(c.Tenant), plain(c.User))
		return err
	})
}
