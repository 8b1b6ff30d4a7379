package app

import (
	"errors"
	"net"
	"sync"
)

// link is a connection that knows whether anything was written on it since a
// request got it, so that "not sent" is a fact and not read from an error.
type link struct {
	net.Conn

	mu     sync.Mutex
	writes int
	begins bool // the next write is the first of a request
	sealed bool
}

var (
	errSealed = errors.New("the request was given up before it was sent")
	errStale  = errors.New("the connection had ended before the request was sent")
)

// Write does not begin a request on a connection that the other side has closed:
// what is written there is read by nobody, and the caller could not tell. What
// comes in the middle of a request may be its answer.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	switch {
	case l.sealed:
		l.mu.Unlock()
		return 0, errSealed
	case l.begins && hasEnded(l.Conn):
		l.sealed = true
		l.mu.Unlock()
		return 0, errStale
	}
	l.begins = false
	l.writes++
	l.mu.Unlock()
	return l.Conn.Write(p)
}

// mark is how much had been written when a request gets the connection, which it
// is called for.
func (l *link) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begins = true
	return l.writes
}

// seal reports whether nothing was written since mark, and then lets nothing
// be.
func (l *link) seal(mark int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes != mark {
		return false
	}
	l.sealed = true
	return true
}
