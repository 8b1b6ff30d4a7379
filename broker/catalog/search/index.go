package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// The limits of a query: bytes and words beyond them are not looked at.
const (
	MaxQuery = 1024
	MaxWords = 32
)

// The weights of BM25 (contracts/catalog.md section 7), and what a word of a name
// counts for where one of the description is 1. The summary counts once by
// itself and once as part of the description.
const (
	k1         = 1.2
	b          = 0.75
	nameWeight = 2
	// asSynonym is what a synonym is worth of the word itself.
	asSynonym = 0.5
)

// Doc is what the index knows of one verb.
type Doc struct {
	Name        string   // the name under which it is listed; no two are equal
	Bare        string   // what its backend calls it; empty: the same
	Aliases     []string // other names that reach it
	Backend     string
	Family      string
	Description string   // begins with the summary
	Parameters  []string // names of properties
	Keywords    []string
}

// Class says by what a verb matches; a lower one is better. Its numbers are those
// of the contract's table.
type Class int

// The classes.
const (
	Exact    Class = iota // a name of the verb, but for case and separators
	AllWords              // every word is a word of the name
	Overlap               // half of the words are, a synonym counting half
	Prefix                // the query begins the name or one of its words
	Spelling              // the name is a few slips away
	Text                  // what is said about the verb
	Listed                // an empty query: everything, in the order of the list
)

var classNames = [...]string{"exact", "all_words", "overlap", "prefix", "spelling", "text", "listed"}

func (c Class) String() string { return classNames[c] }

// Options of an index. The zero value has the built-in synonyms only.
type Options struct {
	Synonyms [][]string // groups of words to add to the table
}

// Index finds verbs. Verbs are named by their place in the slice it was made of.
type Index struct {
	docs   []Doc
	order  []int // places, by name
	rank   []int // the place of each verb in order
	exact  map[string][]int32
	forms  []form // what a spelling is compared with
	begins []begin
	terms  map[string]*term
	plain  [][]string // by verb: the words of its own name, as they stand there
	alike  map[string][]string
}

// form is a folded name.
type form struct {
	doc     int32
	text    string
	letters letters
}

// begin is a folded name or one of its words.
type begin struct {
	doc  int32
	text string
}

// term is where one stem stands.
type term struct {
	name []int32   // verbs whose name has it
	text []posting // its BM25 contribution to each verb that has it
}

type posting struct {
	doc    int32
	weight float32
}

// New makes an index. Two calls with the same verbs, in whatever order, rank alike.
func New(docs []Doc, options Options) *Index {
	x := &Index{docs: slices.Clone(docs), exact: map[string][]int32{}, terms: map[string]*term{}, alike: alike(options.Synonyms)}
	x.order = make([]int, len(docs))
	for i := range x.order {
		x.order[i] = i
	}
	slices.SortFunc(x.order, func(i, j int) int { return strings.Compare(docs[i].Name, docs[j].Name) })
	x.rank = make([]int, len(docs))
	for at, i := range x.order {
		x.rank[i] = at
	}
	w := newWeigher(len(docs))
	x.plain = make([][]string, len(docs))
	for i := range docs {
		x.names(int32(i))
		x.plain[i] = nameWords(x.docs[i].Bare)
		w.add(int32(i), &docs[i], x)
	}
	w.finish(x)
	return x
}

// Len is the number of verbs.
func (x *Index) Len() int { return len(x.docs) }

// Doc gives what the index knows of a verb.
func (x *Index) Doc(i int) Doc { return x.docs[i] }

// names enters the names of a verb in their folded forms, and their words.
func (x *Index) names(i int32) {
	d := &x.docs[i]
	if d.Bare == "" {
		d.Bare = d.Name
	}
	for at, name := range append([]string{d.Name, d.Bare}, d.Aliases...) {
		folded := Fold(name)
		if folded == "" || slices.Contains(x.exact[folded], i) {
			continue
		}
		x.exact[folded] = append(x.exact[folded], i)
		if at < 2 {
			x.forms = append(x.forms, form{i, folded, lettersOf(folded)})
			x.begins = append(x.begins, begin{i, folded})
		}
	}
	seen := map[string]bool{}
	for _, word := range append(nameWords(d.Name), nameWords(d.Bare)...) {
		if seen[word] {
			continue
		}
		seen[word] = true
		x.begins = append(x.begins, begin{i, word})
		t := x.term(stem(word))
		if len(t.name) == 0 || t.name[len(t.name)-1] != i {
			t.name = append(t.name, i)
		}
	}
}

func (x *Index) term(stem string) *term {
	t := x.terms[stem]
	if t == nil {
		t = &term{}
		x.terms[stem] = t
	}
	return t
}

// weigher counts words and then weighs them.
type weigher struct {
	counts  map[string][]posting
	lengths []float32
	stems   map[string]string // of words that were met before
}

func newWeigher(verbs int) *weigher {
	return &weigher{counts: map[string][]posting{}, lengths: make([]float32, verbs), stems: map[string]string{}}
}

func (w *weigher) add(i int32, d *Doc, x *Index) {
	words := func(weight float32, list []string) {
		for _, word := range list {
			if empty(word) {
				continue
			}
			s, known := w.stems[word]
			if !known {
				s = stem(word)
				w.stems[word] = s
			}
			w.lengths[i] += weight
			list := w.counts[s]
			if n := len(list); n > 0 && list[n-1].doc == i {
				list[n-1].weight += weight
				continue
			}
			w.counts[s] = append(list, posting{i, weight})
		}
	}
	names := func(weight float32, list []string) {
		for _, name := range list {
			words(weight, nameWords(name))
		}
	}
	names(nameWeight, []string{d.Bare})
	words(1, proseWords(Summary(d.Description)))
	names(1, []string{d.Backend, d.Family})
	names(1, d.Aliases)
	names(1, d.Parameters)
	names(1, d.Keywords)
	words(1, proseWords(d.Description))
}

// Summary is the first sentence of a description, or its first line when that is
// shorter.
func Summary(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	sentence, _, _ := strings.Cut(line, ". ")
	return sentence
}

// finish turns counts into contributions.
func (w *weigher) finish(x *Index) {
	total := float32(0)
	for _, l := range w.lengths {
		total += l
	}
	n := float64(len(w.lengths))
	mean := math.Max(1, float64(total)/math.Max(1, n))
	for s, list := range w.counts {
		held := float64(len(list))
		idf := math.Log(1 + (n-held+0.5)/(held+0.5))
		for i := range list {
			tf := float64(list[i].weight)
			length := float64(w.lengths[list[i].doc])
			list[i].weight = float32(idf * tf * (k1 + 1) / (tf + k1*(1-b+b*length/mean)))
		}
		x.term(s).text = list
	}
}

// Hit is a verb that matches. A higher score is better, within its class.
type Hit struct {
	Doc   int
	Class Class
	Score float64
}

// Query asks an index.
type Query struct {
	Text string
	Keep func(doc int) bool // nil: all
	// Standing orders equals: ready before not, advertised before not. Lower is
	// first; nil: all are alike.
	Standing      func(doc int) int
	Offset, Limit int // Limit 0 or less: all from Offset on
}

// Find gives a page of the verbs that match, best first, and how many match. A
// text without letters and digits gives everything, in the order of the list.
func (x *Index) Find(q Query) (page []Hit, total int) {
	return x.page(x.match(q.Text), q)
}

// page orders hits and cuts the page out that q asks for.
func (x *Index) page(hits []Hit, q Query) (page []Hit, total int) {
	if q.Keep != nil {
		hits = slices.DeleteFunc(hits, func(h Hit) bool { return !q.Keep(h.Doc) })
	}
	if q.Standing == nil {
		q.Standing = func(int) int { return 0 }
	}
	slices.SortFunc(hits, func(a, c Hit) int {
		if a.Class == Listed {
			return x.rank[a.Doc] - x.rank[c.Doc]
		}
		return cmp.Or(int(a.Class-c.Class), cmp.Compare(c.Score, a.Score), q.Standing(a.Doc)-q.Standing(c.Doc), x.rank[a.Doc]-x.rank[c.Doc])
	})
	total = len(hits)
	from := min(max(q.Offset, 0), total)
	to := total
	if q.Limit > 0 {
		to = min(from+q.Limit, total)
	}
	return hits[from:to], total
}
