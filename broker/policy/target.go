package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/schema"
	"berth/broker/shape"
)

// optionKeys are the options of a meta-call and the keys of `_meta` that they
// stand for, for callers that cannot set `_meta`.
var optionKeys = map[string]string{
	"resultTokens":      MetaResultTokens,
	"expectedRuntimeId": MetaExpectedRuntimeID,
	"idempotencyKey":    MetaIdempotencyKey,
}

// target puts the verb that a meta-call names in the place of the one that
// passes it on, and looks at it as at one that is called by its name.
func target(in *Input, plan *Plan) *broker.Refusal {
	pass := plan.Verb.Pass
	if pass == catalog.NoPass {
		return nil
	}
	p := parts(in.Arguments)
	if p.name == "" {
		return plan.Verb.Misfit("", p.wrong) // who it was meant for is not known
	}
	in.Name = p.name
	plan.Via = string(pass)
	for _, look := range []func(*Input, *Plan) *broker.Refusal{resolve, visible} {
		if refusal := look(in, plan); refusal != nil {
			return refusal
		}
	}
	if plan.Verb.Pass != catalog.NoPass {
		return broker.Refuse(broker.CodeMetaRecursion, "A call can be passed on once; name the verb that is to be called.",
			map[string]any{"verb": plan.Verb.Name, "effects": plan.Verb.Effects.Names(), "use": string(pass)})
	}
	for _, look := range []func(*Input, *Plan) *broker.Refusal{readOnly, changed} {
		if refusal := look(in, plan); refusal != nil {
			return refusal
		}
	}
	if p.wrong.Rule != "" {
		return unfit(plan, p.wrong.Pointer, p.wrong.Rule, p.wrong.Wanted)
	}
	in.Arguments = p.arguments
	return withOptions(in, plan, p.options)
}

// passed are the arguments of a meta-call, taken apart, and the first thing that
// is wrong with them. A name is given only when it alone would do.
type passed struct {
	name               string
	arguments, options json.RawMessage
	wrong              schema.Violation // the zero value: nothing
}

// parts reads the arguments of a meta-call. They are not normalised as those of
// other native verbs are: an empty text in the place of the arguments is no
// absence of them.
func parts(raw json.RawMessage) (p passed) {
	wrong := func(name, rule, wanted string) {
		if p.wrong.Rule == "" || name == "name" {
			p.wrong = schema.Violation{Pointer: "/" + name, Rule: rule, Wanted: wanted}
		}
	}
	var members []shape.Member
	if !absent(raw) {
		var err error
		if members, err = shape.Members(raw); err != nil {
			return passed{wrong: schema.Violation{Rule: "type", Wanted: "object"}}
		}
	}
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.Name] && (m.Name == "name" || m.Name == "arguments" || m.Name == "options") {
			wrong(m.Name, "unique", "once")
		}
		if seen[m.Name] && m.Name == "name" {
			p.name = ""
			return p
		}
		seen[m.Name] = true
		switch m.Name {
		case "name":
			text, ok := shape.Text(m.Value)
			if !ok || strings.TrimSpace(text) == "" {
				wrong("name", "type", "the name of a verb")
				return p
			}
			p.name = text
		case "arguments", "options":
			switch {
			case absent(m.Value):
			case !isObject(m.Value):
				wrong(m.Name, "type", "object, as JSON and not as a text")
			case m.Name == "arguments":
				p.arguments = m.Value
			default:
				p.options = m.Value
			}
		default:
			// Left out in silence, a write would run without what it was told.
			wrong(pointed(m.Name), "additionalProperties", "name, arguments and options; what the named verb takes stands inside arguments")
		}
	}
	if p.name == "" {
		wrong("name", "required", "a value")
	}
	if p.arguments == nil {
		p.arguments = json.RawMessage("{}")
	}
	return p
}

// maxMemberEcho is how much of the name of an unknown member is repeated, in bytes.
const maxMemberEcho = 64

// pointed is the name of an unknown member as a part of a pointer.
func pointed(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name[:min(len(name), maxMemberEcho)])
	return strings.ToValidUTF8(name, "")
}

// withOptions adds a meta-call's options to its `_meta`. One that says another
// thing than `_meta` does is refused: nobody can tell which was meant.
func withOptions(in *Input, plan *Plan, options json.RawMessage) *broker.Refusal {
	if absent(options) {
		return nil
	}
	given, err := shape.Members(options)
	if err != nil {
		return unfit(plan, "/options", "type", "object")
	}
	out := []byte{'{'}
	var have []shape.Member
	if !absent(in.Meta) {
		if have, err = shape.Members(in.Meta); err != nil {
			return unfit(plan, "/_meta", "type", "object")
		}
	}
	put := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	for _, m := range have {
		put(m.Raw, m.Value)
	}
	in.options = map[string]string{}
	for i, o := range given {
		key, known := optionKeys[o.Name]
		if !known {
			return unfit(plan, "/options/"+pointed(o.Name), "additionalProperties", "one of "+strings.Join(slices.Sorted(maps.Keys(optionKeys)), ", "))
		}
		twice := func(m shape.Member) bool { return m.Name == o.Name && string(m.Value) != string(o.Value) }
		other := func(m shape.Member) bool { return m.Name == key && string(m.Value) != string(o.Value) }
		if slices.ContainsFunc(given[:i], twice) || slices.ContainsFunc(have, other) {
			return unfit(plan, "/options/"+o.Name, "unique", "the same value as in _meta, or one of the two")
		}
		in.options[key] = o.Name
		put([]byte(`"`+key+`"`), o.Value)
	}
	in.Meta = append(out, '}')
	return nil
}
