package minimal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// object makes an object of the required properties, and of those that a rule of
// the schema asks for beside them.
func (b *builder) object(p plan) ([]any, error) {
	if p.depth >= MaxDepth {
		return nil, &Impossible{p.name, fmt.Sprintf("it nests deeper than %d", MaxDepth)}
	}
	p.atoms, p.seen = slices.Clone(p.atoms), maps.Clone(p.seen)
	least := 0
	var wanted []string
	want := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(wanted, n) {
				wanted = append(wanted, n)
			}
		}
	}
	for _, s := range p.atoms {
		want(s.Required...)
		if s.MinProperties != nil {
			least = max(least, *s.MinProperties)
		}
	}
	if least > maxItems || len(wanted) > maxItems {
		return nil, &Impossible{p.name, fmt.Sprintf("it has more than %d properties", maxItems)}
	}
	if len(wanted) < least {
		want(p.spare(least-len(wanted), wanted)...)
	}
	out := map[string]any{}
	for i := 0; i < len(wanted); i++ { // it grows: one property may ask for others
		if i >= maxItems {
			return nil, &Impossible{p.name, fmt.Sprintf("it has more than %d properties", maxItems)}
		}
		name := wanted[i]
		for _, s := range slices.Clone(p.atoms) {
			want(s.DependentRequired[name]...)
			switch d := s.Dependencies[name].(type) {
			case []string:
				want(d...)
			case *jsonschema.Schema:
				if err := b.also(&p, d, want); err != nil {
					return nil, err
				}
			}
			if err := b.also(&p, s.DependentSchemas[name], want); err != nil {
				return nil, err
			}
		}
		all, ok := p.property(name)
		if !ok {
			return nil, &Impossible{name, "it is required and not allowed"}
		}
		v, err := b.value(all, name, p.depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return []any{out}, nil
}

// also adds a schema that holds because a property is there.
func (b *builder) also(p *plan, s *jsonschema.Schema, want func(...string)) error {
	if s == nil {
		return nil
	}
	known := len(p.atoms)
	if !p.expand(s, 0) {
		return &Impossible{p.name, "its definitions refer to one another too often"}
	}
	for _, added := range p.atoms[known:] {
		want(added.Required...)
	}
	return nil
}

// property lists what holds for a property; ok is false when it must not be there.
func (p plan) property(name string) (all []*jsonschema.Schema, ok bool) {
	for _, s := range p.atoms {
		declared := false
		if d := s.Properties[name]; d != nil {
			all, declared = append(all, d), true
		}
		for _, re := range slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, c jsonschema.Regexp) int { return strings.Compare(a.String(), c.String()) }) {
			if re.MatchString(name) {
				all, declared = append(all, s.PatternProperties[re]), true
			}
		}
		if declared {
			continue
		}
		switch a := s.AdditionalProperties.(type) {
		case bool:
			if !a {
				return nil, false
			}
		case *jsonschema.Schema:
			all = append(all, a)
		}
	}
	return all, true
}

// spare names n further properties: declared ones first.
func (p plan) spare(n int, have []string) []string {
	var out []string
	add := func(name string) {
		if len(out) < n && !slices.Contains(have, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, s := range p.atoms {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			add(name)
		}
	}
	for i := 1; len(out) < n && i <= 2*maxItems; i++ {
		add("key" + strconv.Itoa(i))
	}
	return out
}

// array makes an array of as few items as there must be.
func (b *builder) array(p plan) ([]any, error) {
	if p.depth >= MaxDepth {
		return nil, &Impossible{p.name, fmt.Sprintf("it nests deeper than %d", MaxDepth)}
	}
	least, unique := 0, false
	var held []*jsonschema.Schema
	for _, s := range p.atoms {
		if s.MinItems != nil {
			least = max(least, *s.MinItems)
		}
		unique = unique || s.UniqueItems
		if s.Contains != nil {
			n := 1
			if s.MinContains != nil {
				n = *s.MinContains
			}
			for range min(n, maxItems+1) {
				held = append(held, s.Contains)
			}
		}
	}
	n := max(least, len(held))
	if n > maxItems {
		return nil, &Impossible{p.name, fmt.Sprintf("it has more than %d items", maxItems)}
	}
	out := make([]any, 0, n)
	for i := range n {
		all, ok := p.item(i)
		if !ok {
			return nil, &Impossible{p.name, "it needs an item that is not allowed"}
		}
		if i >= n-len(held) { // from the end: the first places may have schemas of their own
			all = append(all, held[i-(n-len(held))])
		}
		v, err := b.value(all, p.name, p.depth+1)
		if err != nil {
			return nil, err
		}
		if unique && has(out, v) {
			if v, err = b.other(all, v, out); err != nil {
				return nil, err
			}
			if v == nil {
				return nil, &Impossible{p.name, "no further items were found that differ from one another"}
			}
		}
		out = append(out, v)
	}
	return []any{out}, nil
}

// item lists what holds for one place of an array.
func (p plan) item(i int) (all []*jsonschema.Schema, ok bool) {
	for _, s := range p.atoms {
		first := s.PrefixItems
		rest := any(s.Items2020)
		if s.Items2020 == nil {
			rest = nil
		}
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			rest = items
		case []*jsonschema.Schema:
			first, rest = items, s.AdditionalItems
		}
		if i < len(first) {
			all = append(all, first[i])
			continue
		}
		switch r := rest.(type) {
		case bool:
			if !r {
				return nil, false
			}
		case *jsonschema.Schema:
			all = append(all, r)
		}
	}
	return all, true
}

// other finds a value that fits and is not among those that are there: one of
// those that the schema names, or v counted up. It is nil when there is none.
func (b *builder) other(all []*jsonschema.Schema, v any, there []any) (any, error) {
	var p plan
	for _, s := range all {
		if !p.expand(s, 0) {
			return nil, nil
		}
	}
	candidates, _ := p.named()
	for k := 1; k <= maxItems; k++ {
		switch v := v.(type) {
		case string:
			candidates = append(candidates, v+strconv.Itoa(k))
		case json.Number:
			if n, err := strconv.ParseInt(string(v), 10, 32); err == nil {
				candidates = append(candidates, json.Number(strconv.FormatInt(n+int64(k), 10)))
			}
		case bool:
			candidates = append(candidates, !v)
		}
	}
	for _, c := range candidates {
		if has(there, c) {
			continue
		}
		if ok, err := b.fits(c, all); err != nil || ok {
			return c, err
		}
	}
	return nil, nil
}

// has reports whether list holds v, as JSON.
func has(list []any, v any) bool {
	text, err := encode(v)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list, func(e any) bool {
		other, err := encode(e)
		return err == nil && string(other) == string(text)
	})
}
