package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/journal"
	"berth/transport/rest"
)

// How often the overview looks, and how long one look may take. The journal is
// counted more seldom, as that visits every record.
const (
	topEvery  = time.Second
	topLimit  = 3 * time.Second
	topCounts = 15 * time.Second
)

func newTopCommand(a *app) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch backends, sessions and jobs in the terminal",
		Long: "An overview that looks at the running broker each second: backends with state, life, seats, queue and waits,\n" +
			"sessions, and jobs. Keys: tab or 1 2 3 for the list, arrows to choose, enter for all of one entry, / to filter,\n" +
			"? for help, q to leave. While no broker answers it says so, shows how old its numbers are, and tries again.\n\n" +
			"With --once it prints one look and ends, for scripts. NO_COLOR takes the colours away.",
		Args: exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error { return a.runTop(cmd.Context(), once) }),
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one look and end")
	return cmd
}

func (a *app) runTop(ctx context.Context, once bool) error {
	if a.json {
		return usage("berth top is for people; programs read berth backends --json, berth sessions --json and berth jobs list --json.")
	}
	if once {
		data := a.look(ctx, tabJobs, true)
		if data.err != nil {
			return data.err
		}
		m := topModel{now: data.at, width: a.terminalWidth(), data: data, counts: data}
		fmt.Fprint(a.out, m.once())
		return nil
	}
	if !a.outTerminal {
		return usage("berth top needs a terminal; berth top --once prints one look.")
	}
	noColor, _ := a.getenv("NO_COLOR")
	m := topModel{color: noColor == "", look: func(tab topTab, counts bool) tea.Cmd {
		return func() tea.Msg { return a.look(ctx, tab, counts) }
	}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(a.out)).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil // it was told to end
	}
	return err
}

// terminalWidth is how wide a look may be; without a terminal 120.
func (a *app) terminalWidth() int {
	if f, ok := a.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 120
}

// topData is one look at a broker, or why there is none.
type topData struct {
	at       time.Time
	err      error
	status   rest.Status
	backends []json.RawMessage
	sessions []json.RawMessage
	jobs     []json.RawMessage // unfinished, newest first; of the tab of jobs
	more     int               // unfinished jobs that are not among them
	counted  map[string]int    // jobs by status; nil: not looked at this time
}

// look asks the broker. It never panics and ends within its limit.
func (a *app) look(ctx context.Context, tab topTab, counts bool) *topData {
	ctx, cancel := context.WithTimeout(ctx, topLimit)
	defer cancel()
	d := &topData{at: time.Now()}
	read := func(path string, query url.Values, into any) {
		if d.err != nil {
			return
		}
		var answer json.RawMessage
		if answer, d.err = a.get(ctx, path, query); d.err == nil {
			d.err = json.Unmarshal(answer, into)
		}
	}
	var list struct {
		Objects      []json.RawMessage
		TotalRecords int
	}
	read("/api/v1/status", nil, &d.status)
	read("/api/v1/backends", nil, &list)
	d.backends, list.Objects = list.Objects, nil
	read("/api/v1/sessions", nil, &list)
	d.sessions, list.Objects = list.Objects, nil
	if tab == tabJobs {
		for _, status := range []string{"Running", "Accepted"} {
			read("/api/v1/jobs", url.Values{"status": {status}, "pageSize": {"200"}}, &list)
			d.jobs = append(d.jobs, list.Objects...)
			d.more += max(0, list.TotalRecords-len(list.Objects))
			list.Objects = nil
		}
	}
	if counts {
		var stats journal.Stats
		read("/api/v1/journal/stats", nil, &stats)
		d.counted = map[string]int{}
		for status, n := range stats.Jobs {
			d.counted[string(status)] = n
		}
	}
	return d
}
