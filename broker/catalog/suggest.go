package catalog

import (
	"cmp"
	"slices"
	"strings"
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
		c := candidate{name: it.name, forms: []string{plain(it.name), plain(it.verb.Upstream), plain(it.verb.Name)}, near: 2}
		if !p.exact {
			for _, a := range it.verb.Aliases {
				c.forms = append(c.forms, plain(a))
			}
		}
		out = append(out, c)
	}
	return out
}

// plain folds a name for comparison: lower case, separators dropped.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r < 128:
			return -1
		}
		return r
	}, name)
}

// Suggest lists at most three names of this profile that name may have been
// meant for: first those that are equal but for case and separators, or that
// it is the bare upstream name of, then those that are near in spelling.
// Nothing near is an empty list.
func (p *Profile) Suggest(name string) []string {
	if len(name) > maxGuess {
		return nil
	}
	if bare, cut := unprefixed(name); cut && !p.exact {
		name = bare
	}
	query := plain(name)
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
				best = min(best, distance(query, form, limit))
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

// distance is the Damerau-Levenshtein distance (adjacent letters swapped count
// as one) in bytes, or limit+1 when it is more than limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := row[0]
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit+1)
}
