package codeindex

import (
	"strings"
	"unicode/utf8"
)

// What counts for how much (contracts/native.md section 6). A line that defines a
// name counts as further hits of the terms that the name has; docs/code-index.md
// says why that much.
const (
	wholeInContent = 8
	wholeInPath    = 12
	termInContent  = 1
	termInPath     = 4
	maxHits        = 5  // of one term in one chunk
	definesName    = 40 // the name that the query spells
	definesWord    = 4  // each further word of the query that the name takes
	definesExactly = 2  // in the very letters of the query
	definesPart    = 6  // each term of the query that is a part of the name
	excerptLength  = 240
)

// Candidate is a chunk that may be a hit.
type Candidate struct {
	Path    string
	Content string
	Defines []string // names, as they are written
	Test    bool     // of a file of tests: what it defines counts half
}

// Score is how well a chunk fits; 0: it does not.
func (q *Query) Score(c Candidate) int {
	if len(q.Terms) == 0 {
		return 0
	}
	score := 0
	if contains(c.Content, q.Text) {
		score += wholeInContent
	}
	if contains(c.Path, q.Text) {
		score += wholeInPath
	}
	var hits, inPath [maxTerms]int
	Terms(c.Content, func(term string) {
		if i, ok := q.known[term]; ok {
			hits[i]++
		}
	})
	Terms(c.Path, func(term string) {
		if i, ok := q.known[term]; ok {
			inPath[i] = 1
		}
	})
	for i := range q.Terms {
		score += termInContent*min(hits[i], maxHits) + termInPath*inPath[i]
	}
	best := 0
	for _, name := range c.Defines {
		best = max(best, q.defines(name))
	}
	if c.Test {
		best /= 2
	}
	return score + best
}

// defines is what the definition of a name is worth.
func (q *Query) defines(name string) int {
	worth := 0
	if n := q.names[whole(name)]; n > 0 {
		worth = definesName + definesWord*(n-1)
		if q.exact[name] {
			worth += definesExactly
		}
		return worth
	}
	seen, all := 0, 0
	parts(name, func(part string) {
		all++
		if _, ok := q.known[part]; ok {
			seen++
		}
	})
	if seen < 2 {
		return 0 // one part in common is no more than a mention
	}
	worth = definesPart * seen
	if all > 0 {
		worth += definesPart * seen / all
	}
	return worth
}

// contains looks for a text in lower case without regard to case.
func contains(text, lower string) bool {
	if lower == "" {
		return false
	}
	return strings.Contains(strings.ToLower(text), lower)
}

// Excerpt is the part of a chunk around the first term that it has, 240
// characters at most.
func (q *Query) Excerpt(content string) string {
	at := len(content)
	lower := strings.ToLower(content)
	if len(lower) != len(content) { // an unusual letter: places are not the same
		lower = content
	}
	for _, text := range append([]string{q.Text}, q.Terms...) {
		if i := strings.Index(lower, text); i >= 0 {
			at = i
			break
		}
	}
	if at == len(content) {
		at = 0
	}
	start := max(0, at-excerptLength/4)
	if line := strings.LastIndexByte(content[:at], '\n') + 1; at-line < excerptLength/2 {
		start = line
	}
	for start > 0 && !utf8.RuneStart(content[start]) {
		start--
	}
	out, n := content[start:], 0
	for i := range out {
		if n == excerptLength {
			out = out[:i]
			break
		}
		n++
	}
	return strings.TrimRight(out, " \t\r\n")
}
