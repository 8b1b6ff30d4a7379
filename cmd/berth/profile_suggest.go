package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"berth/broker"
	"berth/broker/catalog"
	"berth/journal"
	"berth/transport/rest"
)

func newProfileCommand(a *app) *cobra.Command {
	return newGroup(a, "profile", "Work on profiles: which tools a client is shown", newProfileSuggestCommand)
}

type suggestOptions struct {
	name        string
	fromJournal bool
	maxTools    int
	maxTokens   int
}

func newProfileSuggestCommand(a *app) *cobra.Command {
	o := suggestOptions{}
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Propose a profile from real use",
		Long: `Propose a profile from real use: the verbs that were called most, as many as fit.
It is printed as it stands in a configuration, with one selector for each verb.

The journal holds jobs, for 14 days: calls that were long, that took long, or that
carried an idempotency key. A call that was answered at once leaves no record, so
what is only ever called that way is not counted and not proposed.`,
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runSuggest(cmd.Context(), o) }),
	}
	cmd.Flags().BoolVar(&o.fromJournal, "from-journal", false, "count the jobs of the journal; required")
	cmd.Flags().StringVar(&o.name, "name", "suggested", "name of the profile")
	cmd.Flags().IntVar(&o.maxTools, "max-tools", 40, "tools in the list")
	cmd.Flags().IntVar(&o.maxTokens, "max-tokens", catalog.DefaultMaxTokens, "what the list may cost, in o200k tokens")
	return cmd
}

// used is how often a verb was.
type used struct {
	Verb  string
	Count int
	// Tokens is what it costs in a list; null when no broker runs that knows it.
	Tokens *int
}

// suggestion is what the command prints as JSON.
type suggestion struct {
	Berth struct {
		Profiles map[string]suggestedProfile `json:"profiles"`
	} `json:"berth"`
}

type suggestedProfile struct {
	MaxTools  int                 `json:"max_tools"`
	MaxTokens int                 `json:"max_tokens"`
	Select    []map[string]string `json:"select"`
}

func (a *app) runSuggest(ctx context.Context, o suggestOptions) error {
	switch {
	case !o.fromJournal:
		return usage("Say where to count: --from-journal.")
	case o.maxTools < 1, o.maxTokens < 1:
		return usage("--max-tools and --max-tokens are at least 1.")
	}
	counts, jobs, err := a.countJobs(ctx)
	if err != nil {
		return err
	}
	uses := a.priced(ctx, counts)
	if len(uses) == 0 {
		fmt.Fprintln(a.err, "The journal holds no job, so nothing can be proposed.")
		return &failure{exit: exitOutcome, code: codeOutcome, message: "Nothing was recorded that a profile could be made of."}
	}
	profile := suggestedProfile{MaxTools: o.maxTools, MaxTokens: o.maxTokens, Select: []map[string]string{}}
	tokens := 0
	for _, u := range uses {
		cost := 0
		if u.Tokens != nil {
			cost = *u.Tokens
		}
		if len(profile.Select) == o.maxTools || tokens+cost > o.maxTokens {
			continue
		}
		tokens += cost
		profile.Select = append(profile.Select, map[string]string{"verb": u.Verb})
		fmt.Fprintf(a.err, "%6d  %s\n", u.Count, plain(u.Verb))
	}
	var out suggestion
	out.Berth.Profiles = map[string]suggestedProfile{o.name: profile}
	fmt.Fprintf(a.err, "Counted: %d jobs of the last 14 days. Not recorded, so not counted: calls that were answered at once.\n", jobs)
	return a.printJSON(out)
}

// countJobs counts the jobs of each verb, in the running broker or in the file.
func (a *app) countJobs(ctx context.Context) (counts map[string]int, total int, err error) {
	counts = map[string]int{}
	for page := 1; ; page++ {
		answer, err := a.get(ctx, "/api/v1/jobs", url.Values{"pageNumber": {strconv.Itoa(page)}, "pageSize": {"1000"}})
		var f *failure
		if errors.As(err, &f) && f.exit == exitNoBroker && page == 1 {
			return a.countFile()
		}
		if err != nil {
			return nil, 0, err
		}
		var list rest.JobPage
		if err := json.Unmarshal(answer, &list); err != nil {
			return nil, 0, fmt.Errorf("read the broker's answer: %w", err)
		}
		for _, object := range list.Objects {
			var j rest.Job
			if err := json.Unmarshal(object, &j); err != nil {
				return nil, 0, fmt.Errorf("read a job: %w", err)
			}
			counts[j.Operation]++
			total++
		}
		if len(list.Objects) == 0 || page*1000 >= list.TotalRecords {
			return counts, total, nil
		}
	}
}

func (a *app) countFile() (counts map[string]int, total int, err error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, 0, err
	}
	j, err := journal.OpenReadOnly(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, 0, &failure{exit: exitJournal, code: codeJournal, message: "No broker runs, and the journal cannot be opened: " + sentence(err), more: journalAdvice(err)}
	}
	counts = map[string]int{}
	page, err := j.Jobs(broker.JobFilter{})
	for _, job := range page.Jobs {
		counts[job.Operation]++
		total++
	}
	if err := errors.Join(err, j.Close()); err != nil {
		return nil, 0, &failure{exit: exitJournal, code: codeJournal, message: "The journal cannot be read: " + sentence(err)}
	}
	return counts, total, nil
}

// priced orders verbs by how often they were used and leaves out those that the
// running broker does not have any more.
func (a *app) priced(ctx context.Context, counts map[string]int) []used {
	costs := map[string]*int{}
	known := false
	if answer, err := a.get(ctx, "/api/v1/catalog", url.Values{"tokens": {"true"}}); err == nil {
		var registry rest.CatalogPage
		if json.Unmarshal(answer, &registry) == nil {
			known = len(registry.Pending) == 0
			for _, r := range registry.Objects {
				costs[r.Name] = r.Tokens
			}
		}
	}
	var out []used
	for verb, n := range counts {
		cost, there := costs[verb]
		if known && !there {
			fmt.Fprintf(a.err, "Left out, because no backend has it now: %s\n", plain(verb))
			continue
		}
		out = append(out, used{verb, n, cost})
	}
	slices.SortFunc(out, func(x, y used) int { return cmp.Or(y.Count-x.Count, cmp.Compare(x.Verb, y.Verb)) })
	return out
}
