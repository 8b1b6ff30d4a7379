package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// minPart is the shortest query that is compared by beginning and by spelling.
const minPart = 3

// maxSpelling is the longest folded query that is compared by spelling, in
// bytes; nothing longer is a slip of the pen.
const maxSpelling = 128

// match gives every verb that text matches, in no order, each once in its best class.
func (x *Index) match(text string) []Hit {
	if len(text) > MaxQuery {
		n := MaxQuery
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	text = strings.TrimSpace(text)
	words := queryWords(split(text))
	folded := Fold(text)
	if len(words) == 0 && folded == "" {
		return x.all()
	}
	m := newMatcher(x)
	m.byWords(words)
	m.byForm(split(text), len(words))
	if len(folded) >= minPart {
		m.byPrefix(folded)
		if isName(text) || x.hasUnknown(words) {
			m.bySpelling(folded, isName(text) && len(x.exact[folded]) == 0)
		}
	}
	for _, i := range x.exact[folded] {
		score := 0.0
		switch d := &x.docs[i]; {
		case strings.EqualFold(text, d.Name):
			score = 2
		case strings.EqualFold(text, d.Bare):
			score = 1
		}
		m.class[i], m.score[i] = Exact, score
	}
	return m.hits()
}

// isName reports whether a query is a single token, as a name is.
func isName(text string) bool { return !strings.ContainsAny(text, " \t\r\n") }

// hasUnknown reports whether a word stands nowhere.
func (x *Index) hasUnknown(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return x.terms[w] == nil })
}

// split takes a query apart: a sentence as prose, a single token as a name.
func split(text string) []string {
	if isName(text) {
		return nameWords(text)
	}
	return proseWords(text)
}

func (x *Index) all() []Hit {
	hits := make([]Hit, len(x.docs))
	for i := range hits {
		hits[i] = Hit{Doc: i, Class: Listed}
	}
	return hits
}

// matcher collects the best class of each verb; Listed stands for none.
type matcher struct {
	x     *Index
	class []Class
	score []float64
	found []uint8 // how many words of the query a verb has anywhere
}

func newMatcher(x *Index) *matcher {
	m := &matcher{x: x, class: make([]Class, len(x.docs)), score: make([]float64, len(x.docs)), found: make([]uint8, len(x.docs))}
	for i := range m.class {
		m.class[i] = Listed
	}
	return m
}

// hits are the verbs that have a class.
func (m *matcher) hits() []Hit {
	var hits []Hit
	for i, c := range m.class {
		if c != Listed {
			hits = append(hits, Hit{i, c, m.score[i]})
		}
	}
	return hits
}

// take sets a class when it is better than the verb's.
func (m *matcher) take(i int32, c Class, score float64) {
	if c < m.class[i] {
		m.class[i], m.score[i] = c, score
	}
}

// byWords finds the classes AllWords, Overlap and Text.
func (m *matcher) byWords(words []string) {
	n := len(m.class)
	own, cover, text := make([]uint8, n), make([]float32, n), make([]float64, n)
	inName, weight := make([]float32, n), make([]float32, n) // of one word
	for _, w := range words {
		var named, said []int32
		look := func(s string, worth float32) {
			t := m.x.terms[s]
			if t == nil {
				return
			}
			for _, i := range t.name {
				if inName[i] == 0 {
					named = append(named, i)
				}
				inName[i] = max(inName[i], worth)
			}
			for _, p := range t.text {
				if weight[p.doc] == 0 {
					said = append(said, p.doc)
				}
				weight[p.doc] = max(weight[p.doc], worth*p.weight)
			}
		}
		look(w, 1)
		for _, s := range m.x.alike[w] {
			look(s, asSynonym)
		}
		for _, i := range named {
			if inName[i] == 1 {
				own[i]++
			}
			cover[i] += inName[i]
			inName[i] = 0
		}
		for _, i := range said {
			text[i] += float64(weight[i])
			weight[i] = 0
			m.found[i]++
		}
	}
	for i := range m.class {
		switch {
		case int(own[i]) == len(words):
			m.take(int32(i), AllWords, text[i])
		case 2*cover[i] >= float32(len(words)):
			m.take(int32(i), Overlap, text[i])
		case text[i] > 0:
			m.take(int32(i), Text, text[i])
		}
	}
}

// sameForm is what a word counts for, of the whole score, that stands in the name
// as it was written and not only by its stem: "file" is more like read_file than
// like read_files.
const sameForm = 0.1

// byForm orders the verbs that match by words of their names: one that has more
// of the query somewhere comes before one that says a part of it more often, and
// of two the one that has the words as they were written.
func (m *matcher) byForm(written []string, words int) {
	for i, c := range m.class {
		if c != AllWords && c != Overlap {
			continue
		}
		m.score[i] *= float64(m.found[i]) / float64(max(1, words))
		same := 0
		for _, w := range written {
			if !empty(w) && slices.Contains(m.x.plain[i], w) {
				same++
			}
		}
		m.score[i] *= 1 + sameForm*float64(same)
	}
}

// byPrefix finds the class Prefix. The more of the name the query is, the better.
func (m *matcher) byPrefix(folded string) {
	for _, f := range m.x.begins {
		if m.class[f.doc] >= Prefix && strings.HasPrefix(f.text, folded) {
			score := float64(len(folded)) / float64(len(f.text))
			if m.class[f.doc] > Prefix || score > m.score[f.doc] {
				m.class[f.doc], m.score[f.doc] = Prefix, score
			}
		}
	}
}

// nearSpelling is the score of a name in Overlap that is also near in spelling,
// less its slips: no sum of weights comes up to it.
const nearSpelling = 1e6

// bySpelling finds the class Spelling. The fewer slips the better. A guess at a
// name, other than a sentence, that is near in spelling to one of which it has half of the
// words meant that one before others that have as many.
func (m *matcher) bySpelling(folded string, guess bool) {
	if len(folded) > maxSpelling {
		return
	}
	limit, set := slack(folded), lettersOf(folded)
	for i := range m.x.forms {
		f := &m.x.forms[i]
		overlap := guess && m.class[f.doc] == Overlap
		if (m.class[f.doc] < Spelling && !overlap) || set.apart(f.letters) > limit {
			continue
		}
		d := Distance(folded, f.text, limit)
		if d > limit {
			continue
		}
		if overlap {
			m.score[f.doc] = max(m.score[f.doc], nearSpelling-float64(d))
			continue
		}
		if score := -float64(d); m.class[f.doc] > Spelling || score > m.score[f.doc] {
			m.class[f.doc], m.score[f.doc] = Spelling, score
		}
	}
}

// Suggestion is a verb that a wrong name may have meant.
type Suggestion struct {
	Doc int
	Why Class
}

// Suggest lists at most limit verbs that name, which reaches none, may have
// meant: those that it names in another case or without their backend first,
// then by words and synonyms, beginning and spelling. What is said about a verb
// counts only when no name matches, and only if it has all words of name.
func (x *Index) Suggest(name string, limit int, keep func(doc int) bool) []Suggestion {
	if len(name) > maxSpelling || (Fold(name) == "" && len(tokens(name)) == 0) {
		return nil
	}
	hits, _ := x.Find(Query{Text: name, Keep: keep})
	if len(hits) > 0 && hits[0].Class == Text {
		words := queryWords(split(name))
		hits = slices.DeleteFunc(hits, func(h Hit) bool { return !x.says(h.Doc, words) })
	} else {
		hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Class == Text })
	}
	var out []Suggestion
	for _, h := range hits[:min(len(hits), max(limit, 0))] {
		out = append(out, Suggestion{h.Doc, h.Class})
	}
	return out
}

// Spelled lists at most limit verbs whose names begin with name, or are near to it
// in spelling. It is for a name that says whose verb is meant: that word is no
// likeness to each verb of that backend, as it would be in Suggest.
func (x *Index) Spelled(name string, limit int, keep func(doc int) bool) (out []Suggestion) {
	folded := Fold(name)
	if len(folded) < minPart || len(name) > maxSpelling {
		return nil
	}
	m := newMatcher(x)
	m.byPrefix(folded)
	m.bySpelling(folded, true)
	hits, _ := x.page(m.hits(), Query{Keep: keep, Limit: limit})
	for _, h := range hits {
		out = append(out, Suggestion{h.Doc, h.Class})
	}
	return out
}

// says reports whether the text of a verb has each word or a synonym of it.
func (x *Index) says(doc int, words []string) bool {
	has := func(s string) bool {
		t := x.terms[s]
		if t == nil {
			return false
		}
		_, found := slices.BinarySearchFunc(t.text, int32(doc), func(p posting, d int32) int { return int(p.doc - d) })
		return found
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !has(w) && !slices.ContainsFunc(x.alike[w], has) })
}

// Covers reports whether request has every word of phrase, or a synonym of it.
func (x *Index) Covers(phrase, request string) bool {
	have := queryWords(proseWords(request))
	words := queryWords(proseWords(phrase))
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool {
		return !slices.Contains(have, w) && !slices.ContainsFunc(x.alike[w], func(s string) bool { return slices.Contains(have, s) })
	})
}

// Nearest gives the name among those that exist which a wrong name is nearest to
// in spelling: of a property, for example. Of equally near ones it is the first in
// byte order; nothing near is nothing.
func Nearest(wrong string, names []string) (string, bool) {
	folded := Fold(wrong)
	if len(folded) > 0 && len(folded) < minPart {
		at := slices.IndexFunc(names, func(name string) bool { return Fold(name) == folded })
		if at < 0 {
			return "", false
		}
		return names[at], true
	}
	if len(folded) == 0 || len(folded) > maxSpelling {
		return "", false
	}
	best, least := "", slack(folded)+1
	for _, name := range names {
		if d := Distance(folded, Fold(name), slack(folded)); d < least || (d == least && best != "" && name < best) {
			best, least = name, d
		}
	}
	return best, best != ""
}
