package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"berth/broker/catalog/search"
)

const (
	// maxGuess is the longest name that is compared, in bytes; nothing longer
	// is a slip of the pen.
	maxGuess = 128
	minGuess = 3
)

// candidate is a listed name with its folded forms.
type candidate struct {
	name  string
	forms []string // folded: outward, bare upstream, canonical, aliases
	near  int      // how many of forms, from the start, are compared by spelling
}

func (p *Profile) candidates() []candidate {
	out := make([]candidate, 0, len(p.reach))
	for _, it := range p.reach {
		c := candidate{name: it.name, forms: []string{search.Fold(it.name), search.Fold(it.verb.Upstream), search.Fold(it.verb.Name)}, near: 2}
		if !p.exact {
			for _, a := range it.verb.Aliases {
				c.forms = append(c.forms, search.Fold(a))
			}
		}
		out = append(out, c)
	}
	return out
}

// Suggestion is a verb that a wrong name may have meant.
type Suggestion struct {
	Name string
	Verb *Verb
	Why  search.Class
}

// Suggestions lists at most limit verbs that name, which reaches none, may have
// meant: of an exact profile those that are near in spelling, of another those
// that the index finds among all that are visible. Nothing near is an empty list.
func (p *Profile) Suggestions(name string, limit int) []Suggestion {
	if len(name) > maxGuess {
		return nil
	}
	var out []Suggestion
	if p.exact {
		for _, near := range p.spelled(name, limit) {
			out = append(out, Suggestion{near, p.byName[near], search.Spelling})
		}
		return out
	}
	if bare, cut := p.unprefixed(name); cut {
		name = bare
	}
	index := p.Index()
	// Whose verb was meant is said by the name, and is no likeness to every verb
	// of that backend.
	if backend, bare, said := strings.Cut(name, "__"); said && bare != "" {
		of := func(doc int) bool { return isOf(p.reach[doc].verb, backend) }
		if p.HasBackend(backend) {
			near := index.Suggest(bare, limit, of)
			if len(near) == 0 {
				near = index.Spelled(name, limit, of)
			}
			if len(near) == 0 {
				near = index.Suggest(bare, limit, nil)
			}
			return p.suggestions(near)
		}
	}
	return p.suggestions(index.Suggest(name, limit, nil))
}

// isOf reports whether a verb is of the backend that a name begins with.
func isOf(v *Verb, backend string) bool { return v.Backend == backend || fold(v.Backend) == backend }

// HasBackend reports whether a caller of this profile may see a verb of the
// backend that a name begins with.
func (p *Profile) HasBackend(backend string) bool {
	return slices.ContainsFunc(p.Backends(), func(name string) bool { return name == backend || fold(name) == backend })
}

// Backends lists, in byte order, those of which a caller may see a verb. One
// that is denied for reading only is seen: it is refused by name, not unknown.
func (p *Profile) Backends() []string {
	seen := map[string]bool{}
	for _, v := range p.byName {
		seen[v.Backend] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (p *Profile) suggestions(near []search.Suggestion) (out []Suggestion) {
	for _, s := range near {
		out = append(out, Suggestion{p.reach[s.Doc].name, p.reach[s.Doc].verb, s.Why})
	}
	return out
}

// spelled lists names that are equal to name but for case and separators, or
// that it is another name of, then those that are near in spelling.
func (p *Profile) spelled(name string, most int) []string {
	query := search.Fold(name)
	if query == "" {
		return nil
	}
	type found struct {
		name     string
		distance int
	}
	var hits []found
	limit := max(1, len(query)/3)
	for _, c := range p.words() {
		best := limit + 1
		if slices.Contains(c.forms, query) {
			best = 0
		} else if len(query) >= minGuess {
			for _, form := range c.forms[:c.near] {
				best = min(best, search.Distance(query, form, limit))
			}
		}
		if best <= limit {
			hits = append(hits, found{c.name, best})
		}
	}
	slices.SortFunc(hits, func(a, b found) int {
		return cmp.Or(a.distance-b.distance, strings.Compare(a.name, b.name))
	})
	var out []string
	for _, h := range hits[:min(len(hits), most)] {
		out = append(out, h.name)
	}
	return out
}
