package meta

import (
	"slices"
	"strings"

	"berth/broker/catalog"
)

// ToolSurface is what a harness should show of a profile, and what is known of
// what it shows (contracts/catalog.md section 8). Handshake, health and the
// operator API show this one object.
type ToolSurface struct {
	Schema     string `json:"schema"`
	Status     string `json:"status"`
	Tier       string `json:"tool_tier"`
	TierSource string `json:"tier_source,omitempty"`

	FullRegistry int  `json:"full_registry_tool_count"`
	Advertised   int  `json:"advertised_tool_count"`
	ToolCount    *int `json:"tool_count"`

	MinimumSafe   int              `json:"minimum_safe_tool_count"`
	Required      []string         `json:"required_tools"`
	Present       map[string]*bool `json:"required_tools_present"`
	Missing       []string         `json:"missing_required_tools"`
	Sample        []string         `json:"available_tools_sample"`
	Degraded      bool             `json:"degraded_host_tool_surface"`
	DegradedIfAny []string         `json:"degraded_if_missing_any"`
}

// claim is what a caller says of what its harness shows it. A nil pointer was
// not said.
type claim struct {
	available *[]string
	missing   []string
	count     *int
}

// The bounds of what is looked at and repeated of a claim.
const (
	// maxClaim is the longest name that is looked up, in bytes: over any that is
	// listed, with what a harness puts before it.
	maxClaim  = 256
	maxSample = 10
)

// judged is a claim against the catalog.
type judged struct {
	available map[string]bool // outward names that are claimed to be there
	missing   map[string]bool
	foreign   int
	unknown   []string
}

// judge reads a claim. Names of other servers are counted and passed over; a
// name in the broker's own form that reaches nothing is unknown.
func judge(p *catalog.Profile, c claim) judged {
	j := judged{available: map[string]bool{}, missing: map[string]bool{}}
	read := func(names []string, into map[string]bool) {
		for _, name := range names {
			outward, ours := claimed(p, name)
			switch {
			case outward != "":
				into[outward] = true
			case ours:
				if len(j.unknown) < maxSample {
					j.unknown = append(j.unknown, clip(name))
				}
			default:
				j.foreign++
			}
		}
	}
	if c.available != nil {
		read(*c.available, j.available)
	}
	read(c.missing, j.missing)
	return j
}

// claimed finds the verb of a name as a harness shows it, with or without what
// it puts before names. ours says that the name has the broker's own form.
func claimed(p *catalog.Profile, name string) (outward string, ours bool) {
	if len(name) > maxClaim {
		return "", false
	}
	if v, ok := p.Named(name); ok {
		return p.Outward(v), true
	}
	for i := range name {
		rest, cut := "", false
		for _, sep := range []string{"__", ".", "/", ":"} {
			if strings.HasPrefix(name[i:], sep) {
				rest, cut = name[i+len(sep):], true
			}
		}
		if !cut || rest == "" {
			continue
		}
		if v, ok := p.Named(rest); ok {
			return p.Outward(v), true
		}
	}
	if backend, _, said := strings.Cut(name, "__"); said && p.HasBackend(backend) {
		return "", true
	}
	return "", strings.HasPrefix(name, catalog.NativeName+"__") || strings.HasPrefix(name, catalog.NativeName+".") || strings.HasPrefix(name, "mcp__"+catalog.NativeName+"__")
}

// surface is the tool surface of a profile, judged by a claim and by what was
// called.
func (f *Family) surface(p *catalog.Profile, c claim, j judged, called []string) ToolSurface {
	required := p.Required()
	s := ToolSurface{Schema: "berth-tool-surface-v1", Tier: f.opts.Tier, TierSource: f.opts.TierSource,
		FullRegistry: p.Reachable(), Advertised: p.Len(), ToolCount: c.count, MinimumSafe: len(required), Required: append([]string{}, required...),
		Present: map[string]*bool{}, Missing: []string{}, Sample: []string{}, DegradedIfAny: append([]string{}, required...)}
	if c.available != nil {
		for _, name := range (*c.available)[:min(len(*c.available), maxSample)] {
			s.Sample = append(s.Sample, clip(name))
		}
	}
	for _, name := range required {
		gone := j.missing[name] || (c.available != nil && !j.available[name])
		there := !gone && (j.available[name] || slices.Contains(called, name))
		switch {
		case gone:
			s.Missing = append(s.Missing, name)
			s.Present[name] = ptr(false)
		case there:
			s.Present[name] = ptr(true)
		default:
			s.Present[name] = nil // no evidence
		}
	}
	s.Degraded = len(s.Missing) > 0
	return s
}

func ptr[T any](v T) *T { return &v }
