package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"berth/transport/rest"
)

// showTokens prints what lists cost: every profile's, or each entry of one.
func (a *app) showTokens(ctx context.Context, profile string) error {
	wait := a.waitingFor("Counting tokens")
	defer wait.end()
	if profile != "" {
		view, raw, err := a.profileView(ctx, profile)
		if err != nil {
			return err
		}
		wait.end()
		return show(a, raw, func(rest.ProfileView) error { return a.entryTokens(view) })
	}
	answer, err := a.get(ctx, "/api/v1/catalog", nil)
	if err != nil {
		return err
	}
	var registry rest.CatalogPage
	if err := json.Unmarshal(answer, &registry); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	backends := map[string]bool{}
	for _, r := range registry.Objects {
		backends[r.Backend] = true
	}
	names := registry.Profiles
	for name := range backends {
		names = append(names, name)
	}
	slices.Sort(names)
	var views []rest.ProfileView
	for _, name := range names {
		view, _, err := a.profileView(ctx, name)
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	wait.end()
	if a.json {
		return a.printJSON(views)
	}
	rows := make([][]string, 0, len(views))
	for _, v := range views {
		kind := ""
		if v.Exact {
			kind = "exact"
		}
		if v.Profile == registry.Tier {
			kind = "default"
		}
		rows = append(rows, []string{v.Profile, kind, count(v.Tools), countOrUnknown(v.Tokens), limit(v.MaxTools), limit(v.MaxTokens), count(len(v.Skipped)), limit(v.InstructionsTokens)})
	}
	if err := a.table([]string{"PROFILE", "KIND", "TOOLS", "TOKENS", "MAX TOOLS", "MAX TOKENS", "SKIPPED", "INSTRUCTIONS"}, rows); err != nil {
		return err
	}
	if len(registry.Pending) > 0 {
		fmt.Fprintf(a.err, "Not all: nothing is known yet of %v.\n", registry.Pending)
	}
	return nil
}

func (a *app) entryTokens(view rest.ProfileView) error {
	rows := make([][]string, 0, len(view.Listed)+len(view.Skipped))
	for _, l := range view.Listed {
		rows = append(rows, []string{l.Name, countOrUnknown(l.Tokens), ""})
	}
	for _, s := range view.Skipped {
		rows = append(rows, []string{s.Name, strconv.Itoa(s.Tokens), s.Reason})
	}
	if err := a.table([]string{"NAME", "TOKENS", "NOT LISTED"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%d tools, %s tokens (o200k).\n", view.Tools, countOrUnknown(view.Tokens))
	return nil
}

func (a *app) profileView(ctx context.Context, name string) (view rest.ProfileView, raw json.RawMessage, err error) {
	if raw, err = a.get(ctx, "/api/v1/profiles/"+url.PathEscape(name), nil); err != nil {
		return view, nil, err
	}
	if err := json.Unmarshal(raw, &view); err != nil {
		return view, nil, fmt.Errorf("read the broker's answer: %w", err)
	}
	return view, raw, nil
}

func limit(n *int) string {
	if n == nil {
		return "-"
	}
	return count(*n)
}
