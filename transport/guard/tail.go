//go:build unix

package guard

import "sync"

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	buf  []byte // a ring once it is full
	next int    // where the oldest byte is when full
	max  int
}

func newTail(limit int) *tail { return &tail{max: limit} }

// Write keeps the end of p. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	if room := t.max - len(t.buf); room > 0 {
		k := min(room, len(p))
		t.buf = append(t.buf, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(t.buf[t.next:], p)
		t.next = (t.next + k) % t.max
		p = p[k:]
	}
	return n, nil
}

// String gives what is kept, oldest first.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[t.next:]) + string(t.buf[:t.next])
}
