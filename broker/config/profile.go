package config

import (
	"slices"
	"strings"

	"berth/broker/catalog"
	"berth/broker/shape"
)

// ProfileRule is a profile, or what applies to whoever is served by one that
// exists. Neither is a fence: what is not listed can be called all the same.
type ProfileRule struct {
	// The profile's name.
	Name string
	// Lists and runs only verbs that read; every other is refused as
	// `read_only_session` before its arguments are looked at.
	ReadOnly bool `key:"read_only" default:"false"`
	// What is listed: the required set, then what each selector matches, in this
	// order, as long as it fits. The first match counts.
	Select []SelectorRule `key:"select"`
	// What is not listed whatever `select` says. The required set is.
	Exclude []SelectorRule `key:"exclude"`
	// Verbs that must be listed, by name, besides the broker's own.
	Required []string `key:"required" check:"filled"`
	// The limits of a client: `cursor` (40 in the list, names of 60 characters with
	// what it puts before them) or `vscode` (128 in the list, names of 64; it
	// counts its own tools and other servers', too, so set less).
	Preset string `key:"preset" enum:"cursor|vscode"`
	// Tools in the list; without it the preset's.
	MaxTools int `key:"max_tools" min:"1" max:"10000"`
	// What the list may cost, in o200k tokens; 10000 without it. A verb that would
	// pass it is skipped and the next is tried.
	MaxTokens int `key:"max_tokens" min:"100" max:"1000000"`
	// What the instructions may cost, in o200k tokens; 800 without it.
	InstructionsTokens int `key:"instructions_tokens" min:"100" max:"100000"`
	// What one answer may cost, in tokens, where verb and call say nothing;
	// `whole`: it is never cut.
	ResultTokens shape.Budget `key:"result_tokens"`
	// Scales counts of answers for a model with another vocabulary.
	TokenFactor float64 `key:"token_factor" default:"1" min:"0.1" max:"10"`
	// `always` counts the tokens of answers that fit by their bytes, too.
	CountTokens string `key:"count_tokens" default:"needed" enum:"needed|always"`
	// Puts `_meta["berth/call"]` on results.
	Envelope bool `key:"envelope" default:"true"`
	// Adds a minimal valid call to a backend's error result.
	Guidance bool `key:"guidance" default:"true"`
}

// SelectorRule is a conjunction: a verb is selected when all that is said fits.
type SelectorRule struct {
	// A glob over the names of verbs; beside `backend` over that backend's own
	// names, too.
	Verb string `key:"verb" check:"glob"`
	// A backend's name.
	Backend string `key:"backend" check:"filled"`
	// The contract of an app, whatever its backend is called.
	Surface string `key:"surface" check:"filled"`
	// A family of verbs: a backend's name, or one of the broker's own families.
	Family string `key:"family" check:"filled"`
	// `read`: verbs that never do more than read.
	Effects string `key:"effects" enum:"read"`
}

func (s SelectorRule) selector() catalog.Selector {
	return catalog.Selector{Verb: s.Verb, Backend: s.Backend, Surface: s.Surface, Family: s.Family, ReadsOnly: s.Effects == "read"}
}

// Spec is the profile as the catalog takes it.
func (p ProfileRule) Spec() catalog.ProfileSpec {
	spec := catalog.ProfileSpec{Name: p.Name, Preset: p.Preset, MaxTools: p.MaxTools, MaxTokens: p.MaxTokens, Required: p.Required, ReadOnly: p.ReadOnly,
		InstructionsTokens: p.InstructionsTokens,
		Answers: catalog.Answers{ResultTokens: p.ResultTokens, TokenFactor: p.TokenFactor, CountAlways: p.CountTokens == "always",
			NoEnvelope: !p.Envelope, NoGuidance: !p.Guidance}}
	for _, s := range p.Select {
		spec.Select = append(spec.Select, s.selector())
	}
	for _, s := range p.Exclude {
		spec.Exclude = append(spec.Exclude, s.selector())
	}
	return spec
}

// checkProfiles refuses profiles that cannot be served, and rules for those that
// nothing is served by.
func (c *Config) checkProfiles(r *report, berth *node) {
	taken := []string{catalog.NativeName}
	for _, b := range c.Backends {
		taken = append(taken, b.Name)
	}
	for _, p := range c.Broker.Profiles {
		n := find(berth, "profiles", p.Name)
		spec := p.Spec()
		exists := p.Name == catalog.Full || p.Name == catalog.Essential || slices.Contains(taken, p.Name)
		if err := catalog.CheckSpec(spec, taken); err != nil {
			r.refuse(n, "%v", err)
			continue
		}
		switch {
		case exists:
		case len(p.Select) == 0:
			r.refuse(n, "%s is no profile: it is neither a backend nor berth, essential or full, and it selects nothing", quote(p.Name))
		case !backendName.MatchString(p.Name) || strings.Trim(p.Name, ".") == "":
			r.refuse(n, "%s cannot name a profile: use 1 to 64 of A-Z a-z 0-9 . _ -", quote(p.Name))
		case slices.Contains(contracts, p.Name):
			r.refuse(n, "%s: this is the name of a contract of its own", catalog.CodeProfileNameTaken)
		}
	}
}

// contracts are names that exact profiles have or may come to have.
var contracts = []string{"resmon", "armada"}
