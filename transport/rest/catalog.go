package rest

import (
	"net/http"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
)

// CatalogPage is the answer of GET /api/v1/catalog: every record, for operators.
type CatalogPage struct {
	Page[Record]
	Generation  uint64
	Digest      string
	Tier        string // the profile of an endpoint that names none
	TierSource  string // default, environment, or unrecognized
	Profiles    []string
	Quarantined []Quarantined
	Pending     []string // backends of which nothing is known
}

// Record is one verb of the registry.
type Record struct {
	Name          string
	Upstream      string
	Aliases       []string
	Backend       string
	Family        string
	Surface       *string
	Summary       string
	Keywords      []string
	Effects       []string
	EffectsSource string
	Conditional   bool // single arguments may do less
	Scope         []string
	Transports    []string
	Availability  string
	Rank          int
	Essential     bool
	Required      bool
	ResultTokens  any // a number, "whole", or null
	Long          bool
	Seats         int
	Digest        string
	Tokens        *int    // in a list; null when it was not asked for
	Changed       *string // digest of what a pinned backend lists now
	Unchecked     *string // why its arguments are not checked
}

// Quarantined is something that is not served as it was listed.
type Quarantined struct {
	Backend string
	Verb    string
	Profile string // that is not as it is configured
	Pattern string // of the configuration, that selects nothing
	Code    string
	Reason  string
	Extent  string
}

// ProfileView is the answer of GET /api/v1/profiles/{name}.
type ProfileView struct {
	Success            bool
	Profile            string
	Exact              bool
	Catalog            string // the fingerprint of the list
	Tools              int
	Tokens             *int // what the list costs, as it is rendered
	MaxTools           *int
	MaxTokens          *int
	InstructionsTokens *int
	Callable           int // listed or not
	Required           []string
	Listed             []ListedVerb
	Skipped            []SkippedVerb
	Pending            []string
}

// ListedVerb is a line of a profile's list.
type ListedVerb struct {
	Name   string
	Tokens *int
}

// SkippedVerb was selected and does not fit.
type SkippedVerb struct {
	Name   string
	Reason string // over_tools, over_tokens or name_too_long
	Tokens int
}

// catalog answers with the whole registry. Tokens are counted when the query
// asks for them: counting loads a vocabulary.
func (a *api) catalog(r *http.Request) (any, error) {
	counted, err := truth(r, "tokens")
	if err != nil {
		return nil, err
	}
	snapshot := a.Calls.Catalog()
	full, ok := a.seen(r, snapshot, catalog.Full)
	if !ok {
		return nil, profileUnknown(catalog.Full)
	}
	available := map[string]catalog.Availability{}
	for _, b := range a.Views.Backends(r.Context()) {
		available[b.Name] = b.State.Availability()
	}
	out := CatalogPage{Generation: snapshot.Generation(), Digest: snapshot.Digest(), Tier: a.Tier, TierSource: a.TierSource,
		Profiles: snapshot.Selections(), Quarantined: []Quarantined{}, Pending: list(full.Pending())}
	costs := full.Costs()
	if !counted {
		costs = nil
	}
	var records []Record
	for _, v := range snapshot.Verbs() {
		if known, ok := full.Resolve(v.Name); ok && known == v {
			records = append(records, recordView(v, available[v.Backend], costs))
		}
	}
	out.Page = page(records)
	if !seesAll(r) { // the digest and the faults are of verbs that he may not know of
		out.Digest = full.Digest()
		return out, nil
	}
	for _, q := range append(snapshot.Quarantined(), snapshot.Notes()...) {
		out.Quarantined = append(out.Quarantined, Quarantined{q.Backend, q.Verb, q.Profile, q.Pattern, q.Code, q.Reason, string(q.Extent)})
	}
	return out, nil
}

func recordView(v *catalog.Verb, availability catalog.Availability, costs *shape.Costs) Record {
	r := Record{Name: v.Name, Upstream: v.Upstream, Aliases: list(v.Aliases), Backend: v.Backend, Family: v.Family, Summary: v.Summary,
		Keywords: list(v.Keywords), Effects: v.Effects.Names(), EffectsSource: v.EffectsSource, Conditional: len(v.Conditional) > 0,
		Scope: []string{}, Transports: []string{}, Availability: string(v.Availability(availability)), Rank: v.Rank, Essential: v.Essential, Required: v.Required,
		Long: v.Long, Seats: max(1, v.Seats), Digest: v.Digest(), Changed: text(v.Changed), Unchecked: text(v.Unchecked())}
	if v.Surface != nil {
		r.Surface = &v.Surface.Name
	}
	for _, role := range v.Scope {
		r.Scope = append(r.Scope, string(role))
	}
	for _, t := range v.Transports {
		r.Transports = append(r.Transports, string(t))
	}
	switch {
	case v.ResultTokens == shape.Whole:
		r.ResultTokens = "whole"
	case v.ResultTokens > 0:
		r.ResultTokens = int(v.ResultTokens)
	}
	if n, ok := v.Tokens(costs); ok {
		r.Tokens = &n
	}
	return r
}

// profileView answers with what one profile lists, what it costs and what did
// not fit.
func (a *api) profileView(r *http.Request) (any, error) {
	name := r.PathValue("name")
	p, ok := a.seen(r, a.Calls.Catalog(), name)
	if !ok || name == "" {
		return nil, profileUnknown(name)
	}
	out := ProfileView{Success: true, Profile: p.Name(), Exact: p.Exact(), Catalog: p.Fingerprint(), Tools: p.Len(), Callable: len(p.Reach()),
		Required: list(p.Required()), Listed: []ListedVerb{}, Skipped: []SkippedVerb{}, Pending: list(p.Pending())}
	if maxTools, maxTokens, bounded := p.Budget(); bounded {
		out.MaxTokens = &maxTokens
		if maxTools > 0 {
			out.MaxTools = &maxTools
		}
	}
	costs, total := p.EntryCosts()
	for i, e := range p.Entries() {
		line := ListedVerb{Name: e.Name}
		if costs != nil {
			line.Tokens = &costs[i]
		}
		out.Listed = append(out.Listed, line)
	}
	if costs != nil {
		out.Tokens = &total
	}
	if !p.Exact() {
		if n, counted := p.InstructionsCost(); counted {
			out.InstructionsTokens = &n
		}
	}
	for _, s := range p.Skipped() {
		out.Skipped = append(out.Skipped, SkippedVerb(s))
	}
	return out, nil
}

// surface answers with the tool surface that health and the handshake show a
// caller of a profile (?profile=, the tier without it) who claimed nothing.
func (a *api) surface(r *http.Request) (any, error) {
	if a.Surface == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "There is no tool surface here.", nil)
	}
	name := r.URL.Query().Get("profile")
	if name == "" {
		name = a.Tier
	}
	p, ok := a.seen(r, a.Calls.Catalog(), name)
	if !ok {
		return nil, profileUnknown(name)
	}
	return a.Surface(p), nil
}

// acceptCatalog takes what a pinned backend lists now.
func (a *api) acceptCatalog(r *http.Request) (any, error) {
	if a.Accept == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "Nothing is pinned here.", nil)
	}
	if refusal := a.Accept.AcceptCatalog(r.Context(), r.PathValue("name")); refusal != nil {
		return nil, refusal
	}
	return struct{ Success bool }{true}, nil
}

var _ Accepter = (*actors.System)(nil)
