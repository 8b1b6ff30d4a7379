package shape

import (
	"strings"
	"time"
)

// Budget is what an answer may cost, in tokens (the result budget of
// contracts/catalog.md section 10). Zero is unset.
type Budget int

// The budgets. Numbers are clamped to MinBudget and MaxBudget.
const (
	MinBudget     Budget = 500
	MaxBudget     Budget = 100_000
	DefaultBudget Budget = 20_000
	Whole         Budget = -1 // never shaped
)

// ResultBudget gives the budget that counts: the call's, else the verb's, else
// the profile's, else the default. A verb whose answers are whole stays so,
// whatever a call asks for: its output schema is listed, and a cut answer would
// not meet it.
func ResultBudget(call, verb, profile Budget) Budget {
	if verb < 0 {
		return Whole
	}
	for _, b := range []Budget{max(call, 0), verb, profile} {
		switch {
		case b < 0:
			return Whole
		case b > 0:
			return min(max(b, MinBudget), MaxBudget)
		}
	}
	return DefaultBudget
}

// Limits is how one answer is shaped.
type Limits struct {
	Budget Budget
	// Factor scales counts for a model whose vocabulary is another; zero is 1.
	Factor float64
	// CountAlways counts an answer that fits by its bytes, too.
	CountAlways bool
	// CanMore says that the caller may use `more`. An answer is cut only then.
	CanMore bool
	// Complete says that the call was no read: what is cut says that the call
	// is done, so that nobody repeats it for the rest.
	Complete bool
	// Records parts a text that is one JSON string into records, none of which is
	// cut: their texts, joined, are the text. Nil, or less than two: it has none.
	Records func(text string) []string
	// Fewer is a sentence on how to ask for less at once, for an answer whose
	// records were cut.
	Fewer string
	// Until is when the rest is dropped if nobody asks for it.
	Until time.Time
}

func (l Limits) factor() float64 {
	if l.Factor <= 0 {
		return 1
	}
	return l.Factor
}

// fitsByBytes reports whether a text of so many bytes fits without being
// counted: a token has at least one byte.
func (l Limits) fitsByBytes(bytes int) bool {
	return float64(bytes)*max(1, l.factor()) <= float64(l.Budget)
}

// maxApart is the size, in bytes, up to which the texts of an answer are
// counted one by one; longer answers are counted as one text, which is an
// estimate then.
const maxApart = 1 << 20

// measure counts texts and applies the factor.
func measure(counter Counter, l Limits, texts ...string) Count {
	total := Count{Exact: true}
	bytes := 0
	for _, t := range texts {
		bytes += len(t)
	}
	if bytes > maxApart {
		total = counter.Count(strings.Join(texts, "\n"))
	} else {
		for _, t := range texts {
			n := counter.Count(t)
			total.Tokens, total.Exact = total.Tokens+n.Tokens, total.Exact && n.Exact
		}
	}
	total.Tokens = scaled(total.Tokens, l.factor())
	return total
}

// remembering is a counter for one answer, whose texts are asked for more than
// once on the way: as it came, compact, and beside the others.
type remembering struct {
	Counter
	known map[string]Count
}

func (r *remembering) Count(text string) Count {
	if n, ok := r.known[text]; ok {
		return n
	}
	n := r.Counter.Count(text)
	if len(text) <= maxApart {
		r.known[text] = n
	}
	return n
}

// longest gives the largest k up to most whose cost is within budget, starting
// near guess; costs grow with k. It is 0 when not even 1 fits. The answer was
// measured, so it fits even where the costs are not quite in order.
func longest(most, guess, budget int, cost func(k int) int) int {
	if most < 1 || cost(1) > budget {
		return 0
	}
	low, high := 1, most+1 // low fits, high does not (or is past the end)
	probe := min(max(guess, 2), most)
	for step := 1; low+1 < high; step *= 2 {
		n := cost(probe)
		if n <= budget {
			low = probe
			if n > 0 && step == 1 { // in proportion, once: most costs are nearly linear
				probe = int(min(int64(probe)*int64(budget)/int64(n), int64(most)))
			} else {
				probe += step
			}
		} else {
			high = probe
			if step == 1 {
				probe = int(int64(probe) * int64(budget) / int64(n))
			} else {
				probe -= step
			}
		}
		if probe <= low || probe >= high { // the bracket is closed: halve it
			probe = low + (high-low)/2
		}
	}
	return low
}
