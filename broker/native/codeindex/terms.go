package codeindex

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of a term, in bytes, and of the terms of one query.
const (
	minTerm, maxTerm = 2, 64
	maxNumber        = 6 // a longer number is data, not a name
	maxTerms         = 16
)

// words calls each with the words of a text: runs of letters, digits and
// underscores.
func words(text string, each func(word string)) {
	start := -1
	for i := 0; i < len(text); {
		c, size := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(text[i:])
		}
		in := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c))
		switch {
		case in && start < 0:
			start = i
		case !in && start >= 0:
			each(text[start:i])
			start = -1
		}
		i += size
	}
	if start >= 0 {
		each(text[start:])
	}
}

// whole is the one form of a name in which its spellings meet: fooBar, FooBar,
// foo_bar and FOO_BAR are foobar. It is empty for a word that is no term.
func whole(word string) string {
	if n := len(word); n < minTerm || n > maxTerm || word[0] >= '0' && word[0] <= '9' && n > maxNumber {
		return ""
	}
	plain := true
	for i := range len(word) {
		if c := word[i]; c == '_' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if !plain {
		word = strings.ToLower(strings.ReplaceAll(word, "_", ""))
	}
	if len(word) < minTerm {
		return ""
	}
	return word
}

// Name is the form under which a definition is found by its name; empty: it is
// not.
func Name(name string) string { return whole(name) }

// parts calls each with the parts of a name, in lower case: at underscores, where
// a capital follows a small letter or a digit, and before the last capital of
// several that a small letter follows. A name that cannot be parted has none.
func parts(word string, each func(part string)) {
	start, found := 0, false
	give := func(end int) {
		if end-start >= minTerm {
			each(strings.ToLower(word[start:end]))
		}
		start = end
	}
	for i := 0; i < len(word); i++ {
		c := word[i]
		upper := c >= 'A' && c <= 'Z'
		switch {
		case c == '_':
			if i > start {
				found = true
				give(i)
			}
			start = i + 1
		case !upper || i == start:
		case word[i-1] < 'A' || word[i-1] > 'Z', i+1 < len(word) && word[i+1] >= 'a' && word[i+1] <= 'z':
			found = true
			give(i)
		}
	}
	if found && start < len(word) {
		give(len(word))
	}
}

// Terms calls each with the terms of a text: every word in its one form, and its
// parts. A term may come more than once.
func Terms(text string, each func(term string)) {
	words(text, func(word string) {
		w := whole(word)
		if w == "" {
			return
		}
		each(w)
		parts(word, each)
	})
}

// Query is what a caller looks for.
type Query struct {
	Text  string   // lower case, trimmed
	Terms []string // distinct
	// Names are the names that the words, one or several that follow each other,
	// may spell.
	Names []string

	exact map[string]bool // words as they were written
	words []queryWord
	known map[string]int // terms -> their place
	names map[string]run // names -> the words that spell them
}

// queryWord is a word of a query, by the places of its terms.
type queryWord struct {
	term  int
	parts []int
}

// run is a number of words that follow each other.
type run struct{ first, words int }

// maxRun is how many words of a query are read as one name at most.
const maxRun = 5

// ParseQuery reads a query. One without a single term finds nothing.
func ParseQuery(text string) Query {
	q := Query{Text: strings.ToLower(strings.TrimSpace(text)), exact: map[string]bool{}, known: map[string]int{}, names: map[string]run{}}
	var forms []string
	words(text, func(word string) {
		q.exact[word] = true
		form := whole(word)
		if form == "" {
			return
		}
		term, ok := q.add(form)
		if !ok {
			return
		}
		forms = append(forms, form)
		w := queryWord{term: term}
		parts(word, func(part string) {
			if i, ok := q.add(part); ok {
				w.parts = append(w.parts, i)
			}
		})
		q.words = append(q.words, w)
	})
	for i := range forms {
		name := ""
		for n := 1; n <= maxRun && i+n <= len(forms); n++ {
			if name += forms[i+n-1]; q.names[name].words == 0 {
				q.names[name] = run{i, n}
				q.Names = append(q.Names, name)
			}
		}
	}
	return q
}

// add gives the place of a term; false: there are too many.
func (q *Query) add(term string) (int, bool) {
	if i, ok := q.known[term]; ok {
		return i, true
	}
	if len(q.Terms) >= maxTerms {
		return 0, false
	}
	q.known[term] = len(q.Terms)
	q.Terms = append(q.Terms, term)
	return q.known[term], true
}
