package actors

import (
	"encoding/json"
	"sync"
)

// Notice is something a backend said outside of any call, or that the catalog
// changed. Method and Params are those of a notification of the protocol.
type Notice struct {
	Backend string
	Session string // whose instance of the backend it is; empty: everybody's
	Method  string
	Params  json.RawMessage
}

// CatalogChanged is the method of the notice that there is a new snapshot of
// the registry. Whether what a session is served differs is the listener's to
// find out.
const CatalogChanged = "berth/catalog"

// maxNotices bounds what waits for one listener.
const maxNotices = 256

// hub passes notices on to those who listen. It is safe for concurrent use and
// never blocks: a slow listener keeps the newest of each kind, and past the
// bound is told that it missed some.
type hub struct {
	mu        sync.Mutex
	listeners map[*Listener]bool
}

// Listener takes notices of the backends that it wants.
type Listener struct {
	hub    *hub
	wants  func(Notice) bool
	signal chan struct{}

	mu      sync.Mutex
	order   []string
	waiting map[string]Notice
	missed  bool
}

// Listen begins to take the notices for which wants says yes; wants is called
// with a lock held and must not block. End the listener with Close.
func (s *System) Listen(wants func(Notice) bool) *Listener { return s.hub.listen(wants) }

func (h *hub) listen(wants func(Notice) bool) *Listener {
	l := &Listener{hub: h, wants: wants, signal: make(chan struct{}, 1), waiting: map[string]Notice{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners = map[*Listener]bool{}
	}
	h.listeners[l] = true
	return l
}

func (h *hub) publish(n Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.wants(n) {
			l.put(n)
		}
	}
}

// put keeps one of equal notices. A catalog change has no content, so one that
// waits is enough.
func (l *Listener) put(n Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := n.Backend + "\x00" + n.Session + "\x00" + n.Method + "\x00" + string(n.Params)
	if _, ok := l.waiting[key]; !ok {
		if len(l.order) >= maxNotices {
			l.missed = true
			return
		}
		l.order = append(l.order, key)
	}
	l.waiting[key] = n
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Signal receives when there is something to take.
func (l *Listener) Signal() <-chan struct{} { return l.signal }

// Take gives what has come since the last time, in order, and whether some was
// missed because it was not taken in time.
func (l *Listener) Take() (notices []Notice, missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range l.order {
		notices = append(notices, l.waiting[key])
	}
	missed, l.missed = l.missed, false
	l.order, l.waiting = nil, map[string]Notice{}
	return notices, missed
}

// Close ends the listener. It is idempotent.
func (l *Listener) Close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.listeners, l)
}

// Publish tells the listeners what a part of the broker itself has to say.
func (s *System) Publish(n Notice) { s.hub.publish(n) }
