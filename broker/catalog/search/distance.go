package search

import "math/bits"

// Distance is the Damerau-Levenshtein distance (adjacent letters swapped count
// as one) in bytes, or limit+1 when it is more than limit.
//
// Our own: the Go libraries for it compute the whole table whatever the limit,
// and a query is compared with every name of a catalog.
func Distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	var space [3 * 130]int
	cells := space[:]
	width := len(b) + 1
	if 3*width > len(cells) {
		cells = make([]int, 3*width)
	}
	before, last, row := cells[:width], cells[width:2*width], cells[2*width:3*width]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		// What is further from the diagonal than the limit is over it.
		from, to := max(1, i-limit), min(len(b), i+limit)
		row[0] = i
		if from > 1 {
			row[from-1] = limit + 1
		}
		if to < len(b) {
			row[to+1] = limit + 1
		}
		least := i
		for j := from; j <= to; j++ {
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

// slack is how many slips a name of this length may hold.
func slack(name string) int { return max(1, len(name)/3) }

// letters is a set of the letters and digits of a folded name. Each slip adds or
// removes at most one of them, so two sets that differ by more than the slack
// need no comparison.
type letters uint64

func lettersOf(s string) letters {
	var out letters
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
			out |= 1 << (c - 'a')
		case c >= '0' && c <= '9':
			out |= 1 << (26 + c - '0')
		default:
			out |= 1 << (36 + c%28)
		}
	}
	return out
}

// apart is a lower bound of the distance of two names with these letters.
func (l letters) apart(other letters) int {
	return max(bits.OnesCount64(uint64(l&^other)), bits.OnesCount64(uint64(other&^l)))
}
