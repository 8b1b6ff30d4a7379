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
	definition     = 40 // of a name that is all of the query
	inItsLetters   = 2  // a name that the query has in the very letters
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
		best = max(best, q.defines(name, &inPath))
	}
	if c.Test {
		best /= 2
	}
	return score + best
}

// defines is what the definition of a name is worth: in full where the name and
// the path have every word of the query and the query has every part of the name,
// and by the shares of both elsewhere. A name that the query has nothing of is
// worth nothing.
func (q *Query) defines(name string, inPath *[maxTerms]int) int {
	form := whole(name)
	all, matched := 0, 0
	var has [maxTerms]bool
	count := func(part string) {
		all++
		if i, ok := q.known[part]; ok {
			matched++
			has[i] = true
		}
	}
	parts(name, count)
	if all == 0 {
		count(form)
	}
	run := q.names[form]
	if run.words > 0 {
		matched = all
	}
	if matched == 0 {
		return 0
	}
	covered := 0
	for i, w := range q.words {
		switch {
		case run.words > 0 && i >= run.first && i < run.first+run.words, has[w.term], inPath[w.term] > 0:
			covered++
		case len(w.parts) > 0:
			every := true
			for _, p := range w.parts {
				every = every && has[p]
			}
			if every {
				covered++
			}
		}
	}
	worth := definition * covered * matched / (len(q.words) * all)
	if q.exact[name] {
		worth += inItsLetters
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
