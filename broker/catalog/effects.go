package catalog

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/condition"
	"berth/broker/shape"
)

// hints are the annotations of an entry that effects are read from and written
// to. A nil pointer is absent or no boolean.
type hints struct {
	present bool            // there is an annotations object
	raw     json.RawMessage // it, compact
	title   json.RawMessage

	readOnly, destructive, idempotent, openWorld *bool
}

func readHints(annotations json.RawMessage) hints {
	members, err := shape.Members(annotations)
	if err != nil {
		return hints{}
	}
	h := hints{present: true, raw: annotations}
	for _, m := range members {
		switch m.Name {
		case "title":
			if _, ok := shape.Text(m.Value); ok {
				h.title = m.Value
			}
		case "readOnlyHint":
			h.readOnly = boolean(m.Value)
		case "destructiveHint":
			h.destructive = boolean(m.Value)
		case "idempotentHint":
			h.idempotent = boolean(m.Value)
		case "openWorldHint":
			h.openWorld = boolean(m.Value)
		}
	}
	return h
}

func boolean(v json.RawMessage) *bool {
	var b bool
	switch string(v) {
	case "true":
		b = true
	case "false":
	default:
		return nil
	}
	return &b
}

// EffectRule is an operator's word on what the verbs that match a glob
// (path.Match over upstream names) do. The first rule whose conditions all hold
// counts. Conditions look at the arguments only.
type EffectRule struct {
	Verb string
	When []condition.Condition // all must hold; none: always
	Is   broker.Effects
}

// effectsOf finds an upstream verb's effects from the first source that
// answers: the upper bound, and the rules that narrow it for some arguments.
func effectsOf(verb string, rules Rules, h hints) (broker.Effects, string, []EffectRule) {
	if chain := rulesFor(verb, rules.Effects); len(chain) > 0 {
		last := len(chain) - 1
		if len(chain[last].When) > 0 {
			return broker.UnknownEffects, "", chain // nothing says what the other calls do; checkEffects refuses it
		}
		return chain[last].Is, FromOperator, chain[:last:last]
	}
	if !rules.TrustAnnotations || !h.present {
		return broker.UnknownEffects, FromUnknown, nil
	}
	return h.effects(), FromAnnotation, nil
}

// effects is what a backend's annotations claim.
func (h hints) effects() broker.Effects {
	switch {
	case h.readOnly != nil && *h.readOnly:
		return broker.Read
	case h.destructive != nil && !*h.destructive:
		return broker.Write
	}
	return broker.Write | broker.Destroy
}

// rulesFor lists the rules that select a verb, up to the first without a
// condition: nothing after it is ever reached.
func rulesFor(verb string, rules []EffectRule) (chain []EffectRule) {
	for _, r := range rules {
		if !matches(r.Verb, verb) {
			continue
		}
		chain = append(chain, r)
		if len(r.When) == 0 {
			break
		}
	}
	return chain
}

// checkEffects says why a verb's effects cannot be used: a rule with a
// condition that allows more than the one without, none without a condition,
// or a condition on something that is no argument. The code is empty when they can.
func (v *Verb) checkEffects() (code, reason string) {
	if v.EffectsSource == "" {
		return CodeEffectsWidens, "Its effects have rules with conditions and none without, which says what every other call does."
	}
	for _, r := range v.Conditional {
		if r.Is&^v.Effects != 0 {
			return CodeEffectsWidens, "A rule with conditions says " + strings.Join(r.Is.Names(), " and ") + ", which the rule without conditions (" + strings.Join(v.Effects.Names(), " and ") + ") does not hold."
		}
		for _, c := range r.When {
			if c.At.Origin != condition.Arguments || !c.At.InSchema(v.InputSchema) {
				return CodePointer, "The condition on " + c.At.String() + " names nothing in the input schema."
			}
		}
	}
	return "", ""
}

// EffectsFault says why the verb's rules for single arguments cannot be used;
// it is empty for every verb of a snapshot.
func (v *Verb) EffectsFault() string {
	_, reason := v.checkEffects()
	return reason
}

// EffectsFor judges a call by its arguments: the first rule whose conditions
// all hold, else the upper bound. A doubt (arguments that cannot be read, a
// name that stands twice) leaves the upper bound.
func (v *Verb) EffectsFor(arguments json.RawMessage) broker.Effects {
	for _, r := range v.Conditional {
		if condition.All(r.When, condition.Call{Arguments: arguments}) {
			return r.Is
		}
	}
	return v.Effects
}

// Permits says for what a read-only caller may use a verb: for every call, for
// those that the rules (whose conditions must hold) let through, or for none.
func (v *Verb) Permits() (always bool, when []EffectRule) {
	if v.Effects.ReadOnly() {
		return true, nil
	}
	for _, r := range v.Conditional {
		if r.Is.ReadOnly() {
			when = append(when, r)
		}
	}
	return false, when
}

// CheckEffectRules judges an operator's rules without a catalog: each rule with
// conditions needs a later one without for the same glob, `*`, or a glob that
// selects it, and must not allow more. It gives the index of the first rule
// that fails and why. What only the verbs can show is found by Build.
func CheckEffectRules(rules []EffectRule) (at int, reason string, ok bool) {
	for i, r := range rules {
		if len(r.When) == 0 {
			continue
		}
		for _, c := range r.When {
			if c.At.Origin != condition.Arguments {
				return i, "effects are decided before there is a result, so a condition looks at args:", false
			}
		}
		j := slices.IndexFunc(rules[i:], func(w EffectRule) bool {
			return len(w.When) == 0 && (w.Verb == r.Verb || w.Verb == "*" || matches(w.Verb, r.Verb))
		})
		if j < 0 {
			return i, "a rule with conditions needs one without after it, for the same verbs: it says what every other call does", false
		}
		if r.Is&^rules[i+j].Is != 0 {
			return i, "a rule with conditions may only narrow the one without", false
		}
	}
	return 0, "", true
}

// RulesFromAnnotations are the rules that trusting a backend's annotations
// would give, for review by an operator: one for each tool that has any, by name.
func RulesFromAnnotations(tools []broker.Tool) []EffectRule {
	var out []EffectRule
	for _, t := range tools {
		if e, err := readEntry(t); err == nil && e.hints.present {
			out = append(out, EffectRule{Verb: literal(t.Name), Is: e.hints.effects()})
		}
	}
	slices.SortStableFunc(out, func(a, b EffectRule) int { return strings.Compare(a.Verb, b.Verb) })
	return out
}

// literal is the glob that selects exactly one name.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// listedAnnotations are the annotations of the merged list: the backend's own
// where they are what the effects came from, else computed from the effects.
// Other hints pass only from a source that is trusted.
func listedAnnotations(h hints, effects broker.Effects, source string, trusted bool) json.RawMessage {
	if source == FromAnnotation {
		return h.raw
	}
	out := []byte{'{'}
	add := func(name string, value string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"`+name+`":`+value...)
	}
	flag := func(name string, value bool) {
		if value {
			add(name, "true")
		} else {
			add(name, "false")
		}
	}
	if h.title != nil {
		add("title", string(h.title))
	}
	flag("readOnlyHint", source != FromUnknown && effects.ReadOnly())
	flag("destructiveHint", source == FromUnknown || effects&broker.Destroy != 0)
	if source == FromUnknown {
		flag("openWorldHint", true)
	} else if trusted {
		if h.idempotent != nil {
			flag("idempotentHint", *h.idempotent)
		}
		if h.openWorld != nil {
			flag("openWorldHint", *h.openWorld)
		}
	}
	return append(out, '}')
}

// matches reports whether a glob selects a verb; a broken glob selects nothing.
func matches(glob, verb string) bool {
	ok, err := path.Match(glob, verb)
	return err == nil && ok
}

// badGlob reports whether a glob is broken.
func badGlob(glob string) bool {
	_, err := path.Match(glob, "")
	return err != nil
}

// pick finds the value of the most specific glob that selects verb: the verb's
// own name, then the longest pattern, then the first in byte order, and last
// the empty one, which stands for the whole backend.
func pick[V any](table map[string]V, verb string) (value V, ok bool) {
	if v, found := table[verb]; found {
		return v, true
	}
	globs := make([]string, 0, len(table))
	for g := range table {
		if matches(g, verb) {
			globs = append(globs, g)
		}
	}
	if len(globs) == 0 {
		value, ok = table[""]
		return value, ok
	}
	best := slices.MinFunc(globs, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return table[best], true
}
