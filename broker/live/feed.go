// Package live hands events to those who read along at this moment: warnings
// and changes that no journal holds.
//
// A [Feed] owns its readers. It keeps nothing for who comes later, and a reader
// that does not keep up is cut off, never passed over in silence, so that
// whoever publishes never waits. It is safe for concurrent use and starts no
// goroutine.
package live

import (
	"sync"

	"berth/broker"
)

// Pending is how many events may wait for one reader.
const Pending = 128

// Feed is the stream of what happens now. The zero value is ready.
type Feed struct {
	mu      sync.Mutex
	readers map[*Reader]struct{}
}

// Reader is one who reads along.
type Reader struct {
	feed   *Feed
	events chan broker.Event
}

// Read begins to read along. The reader must be stopped.
func (f *Feed) Read() *Reader {
	r := &Reader{feed: f, events: make(chan broker.Event, Pending)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == nil {
		f.readers = map[*Reader]struct{}{}
	}
	f.readers[r] = struct{}{}
	return r
}

// Events gives what is published, in order. It is closed when the reader was
// cut off.
func (r *Reader) Events() <-chan broker.Event { return r.events }

// Stop ends the reading; it may be called more than once.
func (r *Reader) Stop() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	delete(r.feed.readers, r)
}

// Publish hands e to every reader without waiting for any.
func (f *Feed) Publish(e broker.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		select {
		case r.events <- e:
		default:
			delete(f.readers, r)
			close(r.events)
		}
	}
}
