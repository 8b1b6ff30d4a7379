package mcpserver

import (
	"encoding/json"
	"sync"

	"berth/transport/jsonrpc"
)

// The bounds of what waits to be written to one stream.
const (
	maxOutbox      = 256
	maxOutboxBytes = 4 << 20
)

// outbox holds messages for a stream until who writes it takes them. It never
// blocks: over its bounds the newest is not taken.
type outbox struct {
	mu    sync.Mutex
	queue [][]byte
	bytes int
	wake  func() // must not block; nil: nobody is to be woken
}

func (o *outbox) onPut(wake func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake = wake
}

// put reports whether there was room.
func (o *outbox) put(message []byte) bool {
	o.mu.Lock()
	if len(o.queue) >= maxOutbox || o.bytes+len(message) > maxOutboxBytes && len(o.queue) > 0 {
		o.mu.Unlock()
		return false
	}
	first := len(o.queue) == 0
	o.queue = append(o.queue, message)
	o.bytes += len(message)
	wake := o.wake
	o.mu.Unlock()
	if first && wake != nil {
		wake()
	}
	return true
}

func (o *outbox) waiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}

func (o *outbox) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.queue
	o.queue, o.bytes = nil, 0
	return out
}

// notify takes a notification of the call's backend for the stream.
func (x *exchange) notify(method string, params json.RawMessage) {
	x.outbox.put(jsonrpc.AppendNotification(nil, method, params))
}
