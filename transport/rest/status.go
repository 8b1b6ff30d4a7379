package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native/status"
)

func (a *api) status(r *http.Request) (any, error) {
	now := a.Now()
	s := Status{Version: a.Version, RuntimeID: a.RuntimeID, StartedUTC: broker.FormatTime(a.Started),
		UptimeSeconds: int64(now.Sub(a.Started).Seconds()), ConfigurationFile: text(a.Configuration)}
	s.Counts.Sessions = a.sessionCount()
	s.Counts.Backends = map[actors.BackendState]int{}
	for _, b := range a.Views.Backends(r.Context()) {
		s.Counts.Backends[b.State]++
		s.Counts.InFlight += b.InFlight
		s.Counts.Queued += b.QueuedCalls + b.QueuedJobs
	}
	s.Counts.Pending = []string{}
	if p, ok := a.seen(r, a.Calls.Catalog(), ""); ok {
		s.Counts.Tools, s.Counts.Pending = p.Len(), list(p.Pending())
	}
	// A journal that cannot be read leaves its counts unknown; the status is
	// what an operator looks at then, so it is answered all the same.
	if n, ok := a.jobCount(); ok {
		s.Counts.Jobs = &n
	}
	if open, err := a.Jobs.Jobs(broker.JobFilter{Unfinished: true, Limit: 1}); err == nil {
		s.Counts.UnfinishedJobs = &open.Total
	}
	if a.Overview != nil {
		report := a.Overview.Report()
		s.Report = &report
	}
	return s, nil
}

// Overview is the service behind the verbs of status; *status.Service is one.
type Overview interface {
	Report() status.Report
	Inbox() (status.Inbox, error)
}

// inbox answers with the bare list (contracts/native.md section 21).
func (a *api) inbox(*http.Request) (any, error) {
	if a.Overview == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "Nothing waits in an inbox here.", nil)
	}
	box, err := a.Overview.Inbox()
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	return box.Items, nil
}

func (a *api) health(*http.Request) (any, error) {
	now := a.Now()
	return Health{Status: "healthy", Timestamp: broker.FormatTime(now), StartUTC: broker.FormatTime(a.Started),
		Uptime: now.Sub(a.Started).Truncate(time.Second).String(), Version: a.Version}, nil
}

// sessionCount counts the sessions without asking each of them, where that can
// be done.
func (a *api) sessionCount() int {
	if v, ok := a.Views.(interface{ SessionCount() int }); ok {
		return v.SessionCount()
	}
	return len(a.Views.Sessions())
}

func (a *api) jobCount() (int, bool) {
	if a.JobCount != nil {
		if n, known := a.JobCount(); known {
			return n, true
		}
	}
	all, err := a.Jobs.Jobs(broker.JobFilter{Limit: 1})
	return all.Total, err == nil
}

func (a *api) backends(r *http.Request) (any, error) {
	views := a.Views.Backends(r.Context())
	out := make([]Backend, 0, len(views))
	for _, v := range views {
		out = append(out, backendView(v))
	}
	return page(out), nil
}

func (a *api) sessions(*http.Request) (any, error) {
	views := a.Views.Sessions()
	out := make([]Session, 0, len(views))
	for _, v := range views {
		out = append(out, sessionView(v))
	}
	return page(out), nil
}

func (a *api) tools(r *http.Request) (any, error) {
	name := r.URL.Query().Get("profile")
	if _, ok := a.Calls.Catalog().Profile(name); !ok {
		return nil, profileUnknown(name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.CatalogWait)
	defer cancel()
	profile, ok := a.seen(r, a.Calls.AwaitCatalog(ctx, name), name)
	if !ok {
		return nil, profileUnknown(name)
	}
	tools, err := listed(profile)
	if err != nil {
		return nil, err
	}
	return ToolPage{Page: page(tools), Profile: name, Pending: list(profile.Pending())}, nil
}

func profileUnknown(name string) error {
	return broker.Refuse(broker.CodeProfileUnknown, "There is no profile of this name.", map[string]any{"Profile": name})
}

// listed gives every verb that p advertises, in list order, by walking the
// same pages that tools/list serves.
func listed(p *catalog.Profile) ([]Tool, error) {
	var out []Tool
	for cursor, seen := "", map[string]bool{}; ; {
		raw, refusal := p.Page(cursor)
		if refusal != nil {
			return nil, fmt.Errorf("page %q of the catalog: %w", cursor, refusal)
		}
		var rendered struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &rendered); err != nil {
			return nil, fmt.Errorf("page %q of the catalog: %w", cursor, err)
		}
		for _, entry := range rendered.Tools {
			tool, err := toolView(p, entry)
			if err != nil {
				return nil, err
			}
			out = append(out, tool)
		}
		seen[cursor] = true
		if cursor = rendered.NextCursor; cursor == "" || seen[cursor] {
			return slices.Clip(out), nil
		}
	}
}

func toolView(p *catalog.Profile, entry json.RawMessage) (Tool, error) {
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(entry, &named); err != nil {
		return Tool{}, fmt.Errorf("an entry of the catalog: %w", err)
	}
	verb, ok := p.Resolve(named.Name)
	if !ok {
		return Tool{}, fmt.Errorf("the catalog lists %q and does not resolve it", named.Name)
	}
	t := Tool{Name: named.Name, Upstream: verb.Upstream, Backend: verb.Backend, Native: verb.Native,
		Effects: verb.Effects.Names(), EffectsSource: string(verb.EffectsSource), Long: verb.Long,
		Seats: max(1, verb.Seats), Listed: entry}
	if verb.PromoteAfter != nil {
		seconds := verb.PromoteAfter.Seconds()
		t.PromoteAfterSeconds = &seconds
	}
	if verb.CallTimeout != nil {
		seconds := verb.CallTimeout.Seconds()
		t.CallTimeoutSeconds = &seconds
	}
	return t, nil
}
