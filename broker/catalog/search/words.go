package search

import (
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// Fold gives the form in which whole names are compared: lower case, separators
// dropped. Characters outside ASCII stay as they are.
func Fold(name string) string {
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

// nameWords splits a name at separators, case humps and digits:
// "readHTTPFile2" is read, http, file, 2. The words are in lower case.
func nameWords(name string) []string {
	var out []string
	for _, token := range tokens(name) {
		out = append(out, humps(token)...)
	}
	return out
}

// proseWords splits a sentence. A word with humps that begins in lower case is
// an identifier and gives its parts; one that begins in upper case (GitHub) is
// one word, as it is for its reader.
func proseWords(text string) []string {
	var out []string
	for _, token := range tokens(text) {
		if first := token[0]; first >= 'a' && first <= 'z' {
			if parts := humps(token); len(parts) > 1 {
				out = append(out, parts...)
				continue
			}
		}
		out = append(out, strings.ToLower(token))
	}
	return out
}

// tokens gives the runs of letters and digits. An apostrophe ends a word and
// takes the rest of it along: "backend's" is backend.
func tokens(text string) []string {
	var out []string
	start, skip := -1, false
	for i, r := range text {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case word && start < 0 && !skip:
			start = i
		case !word:
			if start >= 0 {
				out = append(out, text[start:i])
			}
			skip = (r == '\'' || r == '’') && start >= 0
			start = -1
		}
	}
	if start >= 0 {
		out = append(out, text[start:])
	}
	return out
}

// humps splits a token where its case or kind changes.
func humps(token string) []string {
	runes := []rune(token)
	var out []string
	start := 0
	cut := func(i int) {
		if i > start {
			out = append(out, strings.ToLower(string(runes[start:i])))
		}
		start = i
	}
	for i := 1; i < len(runes); i++ {
		before, here := runes[i-1], runes[i]
		switch {
		case unicode.IsDigit(before) != unicode.IsDigit(here):
			cut(i)
		case unicode.IsUpper(here) && !unicode.IsUpper(before):
			cut(i)
		case unicode.IsUpper(before) && unicode.IsLower(here) && i-1 > start:
			cut(i - 1) // the last capital of a run begins the next word
		}
	}
	cut(len(runes))
	return out
}

// stem gives the form in which words are compared.
func stem(word string) string { return english.Stem(word, true) }

// functionWords are words of the closed classes of English (pronouns, quantifiers,
// modal verbs, prepositions) and of asking for something, which the stop words of
// the stemmer's list leave out.
var functionWords = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`please want need would like could may might must shall let us something thing one
		another anything anyone every everything everyone nothing nobody someone somebody several many much whose
		without within upon per via also already still yet ever never always else rather quite am im ive id
		ought cannot cant dont doesnt isnt whether though although unless since till toward towards among across along onto`) {
		out[w] = true
	}
	return out
}()

// empty reports whether a word says nothing about what is asked for.
func empty(word string) bool {
	return len(word) == 1 && word[0] >= 'a' || english.IsStopWord(word) || functionWords[word]
}

// queryWords gives the stems of a query, each once, at most MaxWords: those
// that mean something, or all when none does.
func queryWords(words []string) []string {
	pick := func(all bool) []string {
		var out []string
		seen := map[string]bool{}
		for _, w := range words {
			if !all && empty(w) {
				continue
			}
			if s := stem(w); !seen[s] && len(out) < MaxWords {
				seen[s] = true
				out = append(out, s)
			}
		}
		return out
	}
	if out := pick(false); len(out) > 0 {
		return out
	}
	return pick(true)
}
