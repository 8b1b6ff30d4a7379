package mcpserver

import (
	"maps"
	"slices"
	"sync"
)

// talks are the calls that wait for their harness, by id.
type talks struct {
	mu    sync.Mutex
	open  map[talkID]*talk
	each  map[string]int
	bytes int // of their open questions
	ended bool
}

// enter makes a talk one that can be continued. It is idempotent.
func (ts *talks) enter(t *talk) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.ended {
		return false
	}
	if ts.open[t.id] == t {
		return true
	}
	if len(ts.open) >= maxTalks || ts.each[t.who] >= maxTalksEach {
		return false
	}
	if ts.open == nil {
		ts.open, ts.each = map[talkID]*talk{}, map[string]int{}
	}
	ts.open[t.id] = t
	ts.each[t.who]++
	return true
}

func (ts *talks) leave(t *talk) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.open[t.id] != t {
		return
	}
	delete(ts.open, t.id)
	if ts.each[t.who]--; ts.each[t.who] == 0 {
		delete(ts.each, t.who)
	}
}

func (ts *talks) find(id talkID) *talk {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.open[id]
}

// take keeps room for a question, if there is.
func (ts *talks) take(bytes int) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.bytes+bytes > maxTalksBytes {
		return false
	}
	ts.bytes += bytes
	return true
}

func (ts *talks) give(bytes int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.bytes -= bytes
}

// end cancels the calls whose harness is away; no other call can follow them.
func (ts *talks) end() {
	ts.mu.Lock()
	ts.ended = true
	open := slices.Collect(maps.Values(ts.open))
	ts.mu.Unlock()
	for _, t := range open {
		t.expire()
	}
}
