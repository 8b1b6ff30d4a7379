package help

import (
	"slices"
	"strings"

	"berth/broker/catalog/search"
)

var (
	overview = []string{
		"The list shows a part of what you may call.",
		"`find` searches all of it in your own words; an empty query pages through every name.",
		"`describe` gives the schemas, the effects and a minimal call of a name.",
		"`call_read` calls a verb that only reads, listed or not.",
		"`call_write` calls any verb, listed or not.",
		"`help` with an intent names the verbs for it; with an error text it says what to do next.",
		"`more` gives the rest of an answer that was cut.",
		"`job_status` follows a call that became a job.",
		"`session_handshake` proves whether the host shows the whole list.",
	}
	nothing = []string{
		"Nothing here fits this.",
		"`find` with an empty query pages through every name.",
	}
)

// reasons say why a verb is named, by what matched.
var reasons = map[search.Class]string{
	search.Exact:    "It has this name, but for case, separators or the name of its backend.",
	search.AllWords: "Its name has every word of it.",
	search.Overlap:  "Its name has most of the words, or words of the same meaning.",
	search.Prefix:   "Its name, or a word of it, begins like this.",
	search.Spelling: "Its name is spelled nearly like this.",
	search.Text:     "Its description speaks of this.",
	search.Listed:   "It is in the list.",
}

// Reason says why a verb matches.
func Reason(c search.Class) string { return reasons[c] }

// Named lists the names that stand in backquotes in a sentence.
func Named(sentence string) []string {
	parts := strings.Split(sentence, "`")
	var out []string
	for i := 1; i+1 < len(parts); i += 2 {
		out = append(out, parts[i])
	}
	return out
}

// Sentences lists every sentence that an answer can hold, for the check that
// each name in them is a verb.
func Sentences() []string {
	out := slices.Concat(overview, nothing)
	for _, k := range kinds {
		out = append(out, k.advice...)
	}
	return out
}
