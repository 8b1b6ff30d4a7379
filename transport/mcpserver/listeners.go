package mcpserver

import (
	"slices"
	"sync"
	"time"

	"berth/broker"
)

// The bounds of what is kept for sessions that listen.
const (
	maxListenersSession = 4
	maxServed           = 20000
)

// listeners counts the streams of notifications, knows which of a session is
// the newest, and which list of tools each session was served last.
type listeners struct {
	mu       sync.Mutex
	limit    int
	open     int
	stopping bool
	sessions map[string][]*ear // oldest first
	lists    map[string]string // digest of the list last served, by session
	ended    map[string]bool   // sessions that their clients ended
}

// ear is one stream. over is closed when it must end.
type ear struct {
	session string
	over    chan struct{}
}

func (l *listeners) init(limit int) {
	l.limit, l.sessions, l.lists, l.ended = limit, map[string][]*ear{}, map[string]string{}, map[string]bool{}
}

// begin takes a place. A session that has as many streams as it may loses its
// oldest: a client that lost its connection opens a new stream before anybody
// notices that the old one is dead.
func (l *listeners) begin(session string) (*ear, *broker.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopping:
		return nil, broker.Refuse(broker.CodeShuttingDown, "The broker is stopping; try again when it is back.", nil)
	case l.open >= l.limit:
		return nil, broker.Refuse(broker.CodeOverloaded, "The broker has as many open streams as it takes.", map[string]any{"open": l.open}).Retry(time.Second)
	}
	e := &ear{session: session, over: make(chan struct{})}
	mine := l.sessions[session]
	if len(mine) >= maxListenersSession {
		close(mine[0].over)
		mine = mine[1:]
		l.open--
	}
	l.sessions[session] = append(slices.Clone(mine), e)
	l.open++
	return e, nil
}

// leave gives the place back, unless it was taken.
func (l *listeners) leave(e *ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.sessions[e.session]
	i := slices.Index(mine, e)
	if i < 0 {
		return
	}
	l.open--
	if mine = slices.Delete(slices.Clone(mine), i, i+1); len(mine) == 0 {
		delete(l.sessions, e.session)
		return
	}
	l.sessions[e.session] = mine
}

func (l *listeners) newest(e *ear) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.sessions[e.session]
	return len(mine) > 0 && mine[len(mine)-1] == e
}

// end closes the streams of a session and forgets it.
func (l *listeners) end(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lists, session)
	l.close(session)
	if len(l.ended) >= maxServed {
		for any := range l.ended {
			delete(l.ended, any)
			break
		}
	}
	l.ended[session] = true
}

// hasEnded reports whether a client ended this session. It is known of the last
// that ended in this life of the broker, which is as long as a client may be
// mistaken about it.
func (l *listeners) hasEnded(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[session]
}

// close needs the lock.
func (l *listeners) close(session string) {
	for _, e := range l.sessions[session] {
		close(e.over)
		l.open--
	}
	delete(l.sessions, session)
}

// endAll closes every stream and takes no more.
func (l *listeners) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	for session := range l.sessions {
		l.close(session)
	}
}

// served notes the list that a session gets to see.
func (l *listeners) served(session, digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(session, digest)
}

// note needs the lock. Over the bound any session is forgotten: when its list
// changes next, it hears of a change against what was there when it began to
// listen.
func (l *listeners) note(session, digest string) {
	if _, known := l.lists[session]; !known && len(l.lists) >= maxServed {
		for any := range l.lists {
			delete(l.lists, any)
			break
		}
	}
	l.lists[session] = digest
}

// baseline is what a session that has not been served a list is compared with.
func (l *listeners) baseline(session, digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.lists[session]; !known {
		l.note(session, digest)
	}
}

// differs reports, once, that a list is another than the one a session knows.
func (l *listeners) differs(session, digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists[session] == digest {
		return false
	}
	l.note(session, digest)
	return true
}
