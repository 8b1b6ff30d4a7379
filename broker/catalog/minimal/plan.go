package minimal

import (
	"slices"

	"berth/broker/catalog/schema"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plan is what holds for one value.
type plan struct {
	all     []*jsonschema.Schema // what it must fit in the end
	atoms   []*jsonschema.Schema // those, references and allOf followed
	choices [][][]*jsonschema.Schema
	seen    map[*jsonschema.Schema]bool
	name    string
	depth   int
}

const maxFollowed = 200

// expand adds a schema and what it refers to. It is false when that is too much.
func (p *plan) expand(s *jsonschema.Schema, depth int) bool {
	if s == nil || p.seen[s] {
		return true
	}
	if p.seen == nil {
		p.seen = map[*jsonschema.Schema]bool{}
	}
	if depth > maxFollowed || len(p.atoms) > maxFollowed {
		return false
	}
	p.seen[s] = true
	p.atoms = append(p.atoms, s)
	follow := []*jsonschema.Schema{s.Ref, s.RecursiveRef}
	if s.DynamicRef != nil {
		follow = append(follow, s.DynamicRef.Ref)
	}
	for _, f := range append(follow, s.AllOf...) {
		if !p.expand(f, depth+1) {
			return false
		}
	}
	for _, group := range [][]*jsonschema.Schema{s.OneOf, s.AnyOf} {
		if len(group) > 0 {
			p.choices = append(p.choices, single(group))
		}
	}
	if s.If != nil && (s.Then != nil || s.Else != nil) {
		// Without the condition first: what is not required may be what it is about.
		p.choices = append(p.choices, [][]*jsonschema.Schema{{}, {s.Else}, {s.If, s.Then}})
	}
	return true
}

func single(group []*jsonschema.Schema) [][]*jsonschema.Schema {
	out := make([][]*jsonschema.Schema, len(group))
	for i, s := range group {
		out[i] = []*jsonschema.Schema{s}
	}
	return out
}

// settled is the plan without its first choice, to be added to.
func (p plan) settled() plan {
	p.atoms = slices.Clone(p.atoms)
	p.choices = slices.Clone(p.choices[1:])
	seen := make(map[*jsonschema.Schema]bool, len(p.seen))
	for s := range p.seen {
		seen[s] = true
	}
	p.seen = seen
	return p
}

// named lists the values that the schema itself names, best first, and whether
// it takes no others.
func (p plan) named() (values []any, only bool) {
	var examples, defaults []any
	for _, s := range p.atoms {
		if s.Const != nil {
			values, only = append(values, *s.Const), true
		}
	}
	for _, s := range p.atoms {
		if s.Enum != nil {
			values, only = append(values, s.Enum.Values...), true
		}
		examples = append(examples, s.Examples...)
		if s.Default != nil {
			defaults = append(defaults, *s.Default)
		}
	}
	values = slices.Concat(values, examples, defaults)
	return slices.DeleteFunc(values, func(v any) bool { return !schema.Checkable(v) || deep(v, MaxDepth-p.depth) }), only
}

// deep reports whether v nests deeper than limit.
func deep(v any, limit int) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if limit <= 1 || deep(e, limit-1) {
				return true
			}
		}
		return limit < 1
	case []any:
		for _, e := range v {
			if limit <= 1 || deep(e, limit-1) {
				return true
			}
		}
		return limit < 1
	}
	return false
}

// preferred is the order in which types are tried where a schema leaves a choice.
var preferred = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

// types lists the types that fit every atom, best first. Without any, those
// come first of which the schema speaks.
func (p plan) types() []string {
	out := slices.Clone(preferred)
	declared := false
	for _, s := range p.atoms {
		if s.Bool != nil && !*s.Bool {
			return nil
		}
		if s.Types == nil {
			continue
		}
		declared = true
		allowed := s.Types.ToStrings()
		out = slices.DeleteFunc(out, func(t string) bool {
			return !slices.Contains(allowed, t) && (t != "integer" || !slices.Contains(allowed, "number"))
		})
	}
	if !declared {
		slices.SortStableFunc(out, func(a, b string) int { return p.mentions(b) - p.mentions(a) })
	}
	return out
}

// mentions is 1 when an atom has a keyword that is about type t.
func (p plan) mentions(t string) int {
	for _, s := range p.atoms {
		about := false
		switch t {
		case "object":
			about = len(s.Required) > 0 || len(s.Properties) > 0 || s.MinProperties != nil
		case "array":
			about = s.Items != nil || s.Items2020 != nil || len(s.PrefixItems) > 0 || s.MinItems != nil || s.Contains != nil
		case "number":
			about = s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
		case "string":
			about = s.Pattern != nil || s.MinLength != nil || s.MaxLength != nil || s.Format != nil
		}
		if about {
			return 1
		}
	}
	return 0
}
