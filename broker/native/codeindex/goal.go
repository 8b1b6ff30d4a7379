package codeindex

import "strings"

// passing are words that say nothing of code: a goal is prose, and a query has
// room for few terms.
var passing = func() map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(`a about after again all also an and any are as at be because been before both but by can could did do does done each
		either else every few first for from get give had has have having here how if in into is it its just last let like made make makes many may more most much
		must near need never next no not now of off on once one only onto or other our out over own per please same second see shall should show since so some such
		sure take than that the their them then there these they thing this those through to too two under until up upon us use used uses using very was way we well
		were what when where whether which while who whose why will with within without would yes yet you your`) {
		out[word] = true
	}
	return out
}()

// goalQuery is what a goal is searched by: its words without those that say
// nothing, the ones that look like names first.
func goalQuery(goal string) string {
	var names, rest []string
	for field := range strings.FieldsSeq(goal) {
		word := strings.Trim(field, ".,;:!?()[]{}<>\"'`*")
		switch {
		case word == "" || passing[strings.ToLower(word)]:
		case strings.Contains(field, "`") || strings.Contains(field, "()") || looksLikeName(word):
			names = append(names, word)
		default:
			rest = append(rest, word)
		}
	}
	return strings.Join(append(names, rest...), " ")
}

// looksLikeName reports whether a word is written as names in code are: with a
// capital or a mark inside.
func looksLikeName(word string) bool {
	capitals := 0
	for i := range len(word) {
		switch c := word[i]; {
		case c == '_', c == '.', c == ':', c == '/':
			return true
		case c >= 'A' && c <= 'Z' && i > 0:
			capitals++
		}
	}
	return capitals > 0 && word != strings.ToUpper(word)
}
