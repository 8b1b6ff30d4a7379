package catalog

import (
	"cmp"
	"slices"
	"strings"

	"berth/broker/catalog/search"
)

const (
	maxSuggestions = 3
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
	out := make([]candidate, 0, len(p.items))
	for _, it := range p.items {
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

// Suggest lists at most three names of this profile that name may have been
// meant for: first those that are equal but for case and separators, or that
// it is the bare upstream name of, then those that are near in spelling.
// Nothing near is an empty list.
func (p *Profile) Suggest(name string) []string {
	if len(name) > maxGuess {
		return nil
	}
	if bare, cut := p.unprefixed(name); cut && !p.exact {
		name = bare
	}
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
	for _, h := range hits[:min(len(hits), maxSuggestions)] {
		out = append(out, h.name)
	}
	return out
}
