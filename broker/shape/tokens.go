package shape

import (
	"maps"
	"math"
	"sync"
)

// Count is how many tokens a text has.
type Count struct {
	Tokens int
	Exact  bool // false: an estimate
}

// Counter counts the tokens of a text. The same text has the same count, and
// never more tokens than bytes. It is safe for concurrent use; package o200k
// has the one that counts.
type Counter interface {
	Count(text string) Count
}

// Encoding is the vocabulary that counts are in.
const Encoding = "o200k"

// Tokens is what is known of the size of an answer, for `_meta["berth/call"]`.
type Tokens struct {
	Out      *int    `json:"out"` // null when nothing was counted
	Bytes    int     `json:"bytes"`
	Encoding string  `json:"encoding"`
	Exact    bool    `json:"exact"`
	Factor   float64 `json:"factor"`
}

// maxCosts bounds what Costs remembers.
const maxCosts = 1 << 16

// Costs remembers the cost of texts by their digest, so that the listed form
// of a verb is counted once for all snapshots. It is safe for concurrent use;
// its lock is held for map work, never while something is counted.
type Costs struct {
	counter Counter

	mu      sync.Mutex
	known   map[string]int
	asked   map[string]bool // of what is known
	counted uint64
}

// NewCosts makes a store of costs, with those that an earlier process counted;
// known may be nil.
func NewCosts(counter Counter, known map[string]int) *Costs {
	c := &Costs{counter: counter, known: map[string]int{}, asked: map[string]bool{}}
	maps.Copy(c.known, known)
	return c
}

// Of gives the cost of the text that has this digest; it counts when the
// digest is new.
func (c *Costs) Of(digest, text string) int {
	c.mu.Lock()
	n, ok := c.known[digest]
	if ok {
		c.asked[digest] = true
	}
	c.mu.Unlock()
	if ok {
		return n
	}
	n = c.counter.Count(text).Tokens
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCosts {
		for old := range c.known { // any: Retain is what keeps this small
			delete(c.known, old)
			delete(c.asked, old)
			break
		}
	}
	c.known[digest], c.asked[digest] = n, true
	c.counted++
	return n
}

// Counted is how often something had to be counted.
func (c *Costs) Counted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted
}

// Retain forgets what neither is among these digests nor was asked for, and
// gives what is left, to be stored with the catalog.
func (c *Costs) Retain(digests map[string]bool) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(d string, _ int) bool { return !digests[d] && !c.asked[d] })
	return maps.Clone(c.known)
}

// scaled applies a token factor; zero is 1. It rounds up.
func scaled(tokens int, factor float64) int {
	if factor <= 0 || factor == 1 {
		return tokens
	}
	return int(math.Min(math.Ceil(float64(tokens)*factor), math.MaxInt32))
}
