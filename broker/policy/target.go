package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
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
	name, arguments, options, refusal := parts(plan.Verb, in.Arguments)
	if refusal != nil {
		return refusal
	}
	if in.Meta, refusal = withOptions(in.Meta, options); refusal != nil {
		return refusal
	}
	in.Name, in.Arguments = name, arguments
	plan.Via = string(pass)
	for _, look := range []func(*Input, *Plan) *broker.Refusal{resolve, visible} {
		if refusal := look(in, plan); refusal != nil {
			return refusal
		}
	}
	if plan.Verb.Pass != catalog.NoPass {
		return broker.Refuse(broker.CodeMetaRecursion, "A call can be passed on once; name the verb that is to be called.",
			map[string]any{"verb": plan.Verb.Name, "use": string(pass)})
	}
	if refusal := readOnly(in, plan); refusal != nil {
		return refusal
	}
	return changed(in, plan)
}

// parts reads the arguments of a meta-call. They are not normalised as those of
// other native verbs are: an empty text in the place of the arguments is no
// absence of them.
func parts(v *catalog.Verb, raw json.RawMessage) (name string, arguments, options json.RawMessage, refusal *broker.Refusal) {
	misfit := func(path, problem string) *broker.Refusal {
		detail := map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": problem}}}
		if call, err := v.Minimal(); err == nil {
			detail["MinimalCall"] = call
		}
		return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.", detail)
	}
	var members []shape.Member
	if !absent(raw) {
		var err error
		if members, err = shape.Members(raw); err != nil {
			return "", nil, nil, misfit("", "type: wanted object")
		}
	}
	seen := map[string]bool{}
	for _, m := range members {
		switch m.Name {
		case "name", "arguments", "options":
			if seen[m.Name] {
				return "", nil, nil, misfit("/"+m.Name, "unique: wanted once")
			}
			seen[m.Name] = true
		}
		switch m.Name {
		case "name":
			text, ok := shape.Text(m.Value)
			if !ok || strings.TrimSpace(text) == "" {
				return "", nil, nil, misfit("/name", "type: wanted the name of a verb")
			}
			name = text
		case "arguments", "options":
			if absent(m.Value) {
				continue
			}
			if !isObject(m.Value) {
				return "", nil, nil, misfit("/"+m.Name, "type: wanted object, as JSON and not as a text")
			}
			if m.Name == "arguments" {
				arguments = m.Value
			} else {
				options = m.Value
			}
		}
	}
	if name == "" {
		return "", nil, nil, misfit("/name", "required: wanted a value")
	}
	return name, arguments, options, nil
}

// withOptions adds a meta-call's options to its `_meta`. One that says another
// thing than `_meta` does is refused: nobody can tell which was meant.
func withOptions(meta, options json.RawMessage) (json.RawMessage, *broker.Refusal) {
	if absent(options) {
		return meta, nil
	}
	given, err := shape.Members(options)
	if err != nil {
		return nil, unfit("/options", "type", "object")
	}
	out := []byte{'{'}
	var have []shape.Member
	if !absent(meta) {
		if have, err = shape.Members(meta); err != nil {
			return nil, unfit("/_meta", "type", "object")
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
	for i, o := range given {
		key, known := optionKeys[o.Name]
		if !known {
			continue
		}
		twice := func(m shape.Member) bool { return m.Name == o.Name && string(m.Value) != string(o.Value) }
		other := func(m shape.Member) bool { return m.Name == key && string(m.Value) != string(o.Value) }
		if slices.ContainsFunc(given[:i], twice) || slices.ContainsFunc(have, other) {
			return nil, unfit("/options/"+o.Name, "unique", "the same value as in _meta, or one of the two")
		}
		put([]byte(`"`+key+`"`), o.Value)
	}
	return append(out, '}'), nil
}
