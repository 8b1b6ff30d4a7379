package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newReloadCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the running broker put its changed configuration in force",
		Long: `Have the running broker read its configuration again and put it in force, as
SIGHUP does. Backends that did not change are not touched; changed ones end what
runs (no longer than drain_timeout) and start anew; what waits for them waits
on. A file with a problem changes nothing. Settings that cannot change while
the broker runs are named.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.post(cmd.Context(), "/api/v1/reload", struct{}{})
			if err != nil {
				return withProblems(err)
			}
			return show(a, answer, a.showReload)
		}),
	}
}

// withProblems shows each problem of a refused configuration on a line.
func withProblems(err error) error {
	f := asFailure(err)
	f.more = append(f.more, problemsIn(f.data)...)
	return f
}

func problemsIn(data json.RawMessage) []string {
	var detail struct{ Problems []string }
	_ = json.Unmarshal(data, &detail) // a refusal of another kind has none
	return detail.Problems
}

func (a *app) showReload(done rest.Reloaded) error {
	var lines []string
	for _, c := range done.Applied {
		line := c.Setting + ": " + c.How
		if len(c.Keys) > 0 {
			line += " (" + strings.Join(c.Keys, ", ") + ")"
		}
		lines = append(lines, line)
	}
	for _, key := range done.NeedsRestart {
		lines = append(lines, key+": needs a restart, and is as before until then")
	}
	switch {
	case done.File == nil:
		lines = append(lines, "The broker runs without a configuration file; there is nothing to apply.")
	case len(done.Applied)+len(done.NeedsRestart) == 0:
		lines = append(lines, "Nothing has changed in "+*done.File+".")
	}
	if n := len(done.Unchanged); n > 0 {
		lines = append(lines, fmt.Sprintf("Not touched: %s.", strings.Join(done.Unchanged, ", ")))
	}
	for _, line := range append(lines, done.Problems...) {
		if _, err := fmt.Fprintln(a.out, plain(line)); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
	}
	return nil
}
