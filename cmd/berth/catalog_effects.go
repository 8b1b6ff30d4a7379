package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/rest"
)

func newCatalogCommand(a *app) *cobra.Command {
	return newGroup(a, "catalog", "Look at what backends say of their tools", newCatalogEffectsCommand)
}

func newCatalogEffectsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "effects BACKEND",
		Short: "Print the rules for effects that believing a backend would give",
		Long: "Print the rules for effects that believing a backend's annotations would give, as\n" +
			"they stand in a configuration, for review: what a backend says of itself is a claim.\n" +
			"A tool without annotations has no rule, and counts as one that writes.",
		Args: exactly("BACKEND"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error { return a.showEffects(cmd.Context(), args[0]) }),
	}
}

// claimedEffect is a rule as a configuration has it.
type claimedEffect struct {
	Verb string   `json:"verb"`
	Is   []string `json:"is"`
}

func (a *app) showEffects(ctx context.Context, backend string) error {
	wait := a.waitingFor("Waiting for the backend's list")
	answer, err := a.get(ctx, "/api/v1/tools", url.Values{"profile": {backend}})
	wait.end()
	if err != nil {
		return err
	}
	var page rest.ToolPage
	if err := json.Unmarshal(answer, &page); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	var tools []broker.Tool
	for _, t := range page.Objects {
		if t.Backend == backend { // and not what the broker puts beside it
			tools = append(tools, broker.Tool{Name: t.Name, Raw: t.Listed})
		}
	}
	rules := []claimedEffect{}
	for _, r := range catalog.RulesFromAnnotations(tools) {
		rules = append(rules, claimedEffect{r.Verb, r.Is.Names()})
	}
	out, err := json.MarshalIndent(map[string]any{"effects": rules}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s\n", out)
	return err
}
