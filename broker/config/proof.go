package config

import (
	"time"

	"berth/broker/condition"
	"berth/broker/policy/proof"
)

// conditions are rules ready to be asked; each was looked at with the
// configuration.
func conditions(rules []ConditionRule) (out []condition.Condition) {
	for _, r := range rules {
		if c, err := condition.Parse(r.At, r.Op, r.Value); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// ProofRules hold writes back until their caller has seen what they change.
type ProofRules struct {
	// Turns the gate on; so does `BERTH_PROOF_GATE` in the environment.
	Enabled bool `key:"enabled" default:"false"`
	// Kinds of proof, by name.
	Kinds []ProofKind `key:"kinds" keyed:"Name"`
	// Which answers show a target.
	Grants []ProofGrant `key:"grants"`
	// Which calls need their targets shown.
	Needs []ProofNeed `key:"needs"`
}

// ProofKind is one kind of proof.
type ProofKind struct {
	// The kind's name.
	Name string
	// How targets are spelled alike: `path` (cleaned), `path_fold` (also without
	// upper case), `url`, `json` (any value) or `exact`.
	Canonical string `key:"canonical" default:"exact" enum:"path|path_fold|url|json|exact"`
	// What a relative path or URL is relative to.
	Base string `key:"base"`
	// How long a proof counts.
	TTL time.Duration `key:"ttl" default:"30m" min:"1s" max:"24h"`
	// Used up by the call that it allowed.
	OneShot bool `key:"one_shot" default:"true"`
	// `session`: a proof counts only in the session that earned it.
	Bind string `key:"bind" default:"principal" enum:"principal|session"`
}

// ProofGrant says which answers show a target.
type ProofGrant struct {
	// A name as it is listed (`backend__verb`), or a glob.
	Verb string `key:"verb" check:"glob" required:"true"`
	// The kind of proof.
	Kind string `key:"kind" check:"filled" required:"true"`
	// Where the targets stand in the call or its result.
	Targets []string `key:"targets" check:"place" required:"true"`
	// `error`: the answer must be an error.
	On string `key:"on" default:"success" enum:"success|error"`
	// Conditions that must all hold.
	When []ConditionRule `key:"when"`
	// Where the version stands that was seen.
	Version string `key:"version" check:"place"`
}

// ProofNeed says which calls must be proven.
type ProofNeed struct {
	// A name as it is listed (`backend__verb`), or a glob.
	Verb string `key:"verb" check:"glob" required:"true"`
	// The kind of proof.
	Kind string `key:"kind" check:"filled" required:"true"`
	// Where the targets stand in the arguments. Without any, every call is refused.
	Targets []string `key:"targets" check:"place"`
	// Where the argument stands that must be the version seen.
	Version string `key:"version" check:"place"`
}

// Config is the section as package proof takes it.
func (p ProofRules) Config() proof.Config {
	c := proof.Config{Kinds: map[string]proof.Kind{}}
	for _, k := range p.Kinds {
		c.Kinds[k.Name] = proof.Kind{Canonical: k.Canonical, Base: k.Base, TTL: k.TTL, Reusable: !k.OneShot, Session: k.Bind == "session"}
	}
	for _, g := range p.Grants {
		c.Grants = append(c.Grants, proof.Grant{Verb: g.Verb, Kind: g.Kind, Targets: g.Targets, OnError: g.On == "error", When: conditions(g.When), Version: g.Version})
	}
	for _, n := range p.Needs {
		c.Needs = append(c.Needs, proof.Need{Verb: n.Verb, Kind: n.Kind, Targets: n.Targets, Version: n.Version})
	}
	return c
}

func checkPlace(s string) error {
	_, err := condition.ParsePointer(s)
	return err
}
