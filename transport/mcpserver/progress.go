package mcpserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// maxProgressToken bounds a token, which is repeated with every notification.
const maxProgressToken = 1024

// progress carries one call's progress from its backend to its stream. It
// holds the latest notification only, so that a slow reader costs nothing and
// delays nobody. A nil *progress is one that nobody listens to.
type progress struct {
	token json.RawMessage // the client's, raw
	began time.Time
	now   func() time.Time

	// ours is the last progress value that we sent in the backend's silence.
	// Owned by the handler goroutine.
	ours    float64
	backend bool // the backend spoke; handler goroutine

	mu     sync.Mutex
	latest json.RawMessage // params without a token
	ready  chan struct{}   // capacity 1
}

// newProgress gives nil when the token is none that a notification could carry.
func newProgress(token json.RawMessage, now func() time.Time) *progress {
	if len(token) == 0 || len(token) > maxProgressToken {
		return nil
	}
	if c := token[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return nil
	}
	return &progress{token: token, began: now(), now: now, ready: make(chan struct{}, 1)}
}

// report takes one notification of the backend. It never blocks.
func (p *progress) report(n broker.Progress) {
	p.mu.Lock()
	p.latest = n.Params
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// signal is ready when there is something to take; nil never is.
func (p *progress) signal() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.ready
}

func (p *progress) waiting() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest != nil
}

// take gives the latest notification with the client's token, or nil: when
// there is none, when it is no object, and when it would count backwards from
// what we said ourselves (see own).
func (p *progress) take() []byte {
	p.mu.Lock()
	params := p.latest
	p.latest = nil
	p.mu.Unlock()
	if params == nil {
		return nil
	}
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return nil // a backend's fault; without an object there is no place for the token
	}
	p.backend = true
	if raw, ok := o.Get("progress"); ok && p.ours > 0 {
		if value, err := strconv.ParseFloat(string(raw), 64); err == nil && value <= p.ours {
			return nil
		}
	}
	o.Set("progressToken", p.token)
	return jsonrpc.AppendNotification(nil, "notifications/progress", o.Bytes())
}

// own is what we say ourselves while the backend says nothing: only what is
// known, that the call was not answered yet. The values grow, as the protocol
// asks, but stay so small that a backend that begins to count later continues
// above them. After the backend's first word it is nil for good.
func (p *progress) own() []byte {
	if p == nil || p.backend {
		return nil
	}
	seconds := int(p.now().Sub(p.began).Round(time.Second).Seconds())
	value := max(float64(seconds)/1e6, p.ours+1e-6)
	p.ours = value
	params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%s,"message":%s}`, p.token,
		strconv.FormatFloat(value, 'f', 6, 64), jsonrpc.Quote(fmt.Sprintf("waiting for an answer for %d s", seconds)))
	return jsonrpc.AppendNotification(nil, "notifications/progress", params)
}
