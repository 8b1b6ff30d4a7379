package meta

import (
	"slices"

	"berth/broker"
	"berth/broker/catalog"
)

type healthy struct {
	Status     string         `json:"status"`
	Version    string         `json:"version"`
	Uptime     int64          `json:"uptime_s"`
	Profile    string         `json:"profile"`
	Catalog    string         `json:"catalog"`
	Generation uint64         `json:"generation"`
	Backends   []backendState `json:"backends"`
	Surface    ToolSurface    `json:"tool_surface_contract"`
}

type backendState struct {
	Name         string  `json:"name"`
	Availability string  `json:"availability"`
	RuntimeID    *string `json:"runtime_id"` // null: it has none, or none runs
}

// reached lists, in byte order, the backends of which a caller may see a verb, now
// or when they have listed what they have.
func reached(p *catalog.Profile) []string {
	names := slices.Concat(p.Backends(), p.Unseen())
	slices.Sort(names)
	return slices.Compact(names)
}

// health tells how the broker is, and of each backend that its caller may reach a
// verb of, whether he may call it now or not.
func (f *Family) health(a ask) (any, *broker.Refusal) {
	out := healthy{Status: "ok", Version: f.opts.Version, Uptime: int64(a.now.Sub(f.opts.Started).Seconds()), Profile: a.profile.Name(),
		Catalog: a.profile.Fingerprint(), Generation: a.profile.Generation(), Backends: []backendState{}, Surface: f.Surface(a.profile, a.holder)}
	for _, name := range reached(a.profile) {
		b := backendState{Name: name, Availability: "ready"}
		if f.opts.Standing != nil {
			var id string
			if b.Availability, id = f.opts.Standing(name); id != "" {
				b.RuntimeID = &id
			}
		}
		if b.Availability == "down" {
			out.Status = "degraded"
		}
		out.Backends = append(out.Backends, b)
	}
	return out, nil
}

// Surface is the tool surface of a profile as it stands without a claim.
func (f *Family) Surface(p *catalog.Profile, holder string) ToolSurface {
	e := f.opts.Ledger.evidence(holder, p.Name())
	s := f.surface(p, claim{}, judged{}, e.called)
	s.Status = statuses[unverified]
	if e.served != nil && e.served.fingerprint != p.Fingerprint() {
		s.Status = statuses[stale]
	}
	return s
}
