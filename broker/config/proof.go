package config

import (
	"encoding/json"
	"time"

	"berth/broker/condition"
	"berth/broker/policy/proof"
)

// ConditionRule asks one thing of a call.
type ConditionRule struct {
	// Where: `args:` (for `grants` also `result:`) and a JSON pointer, `*` for each
	// item of a list, such as `args:/dryRun`.
	At string `key:"at" check:"place" required:"true"`
	// What is asked of what stands there.
	Op string `key:"op" enum:"present|absent|eq|in|prefix|contains" required:"true"`
	// What it is compared with; `present` and `absent` take none.
	Value json.RawMessage `key:"value"`
}

func (c ConditionRule) condition() (condition.Condition, error) {
	return condition.Parse(c.At, c.Op, c.Value)
}

func conditions(rules []ConditionRule) (out []condition.Condition) {
	for _, r := range rules {
		if c, err := r.condition(); err == nil { // refused with the configuration
			out = append(out, c)
		}
	}
	return out
}

// Conditions are those of the rule.
func (e EffectRule) Conditions() []condition.Condition { return conditions(e.When) }

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

// json writes a node as JSON.
func (n *node) json(out []byte) []byte {
	quoted := func(out []byte, s string) []byte {
		raw, _ := json.Marshal(s) // of a string it cannot fail
		return append(out, raw...)
	}
	switch n.kind {
	case text:
		return quoted(out, n.text)
	case number, boolean:
		return append(out, n.text...)
	case list:
		out = append(out, '[')
		for i, item := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.json(out)
		}
		return append(out, ']')
	case object:
		out = append(out, '{')
		for i, m := range n.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = m.value.json(append(quoted(out, m.key), ':'))
		}
		return append(out, '}')
	}
	return append(out, "null"...)
}
