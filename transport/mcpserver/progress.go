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

// maxBehind is how many notifications wait while their stream is being written:
// a busy machine is no slow reader. One more, and only the latest is kept.
const maxBehind = 8

// progress carries one call's progress from its backend to its stream. For a
// slow reader it holds the latest notification only, so that it costs nothing
// and delays nobody. A nil *progress is one that nobody listens to.
type progress struct {
	token json.RawMessage // the client's, raw
	began time.Time
	now   func() time.Time

	// ours is the last progress value that we sent in the backend's silence.
	// Owned by who writes the response, as is backend.
	ours    float64
	backend bool // the backend spoke

	mu     sync.Mutex
	behind []json.RawMessage // params without a token, oldest first
	wake   func()            // must not block; nil: nobody is to be woken
}

// newProgress gives nil when the token is none that a notification could carry.
func newProgress(token json.RawMessage, now func() time.Time) *progress {
	if len(token) == 0 || len(token) > maxProgressToken {
		return nil
	}
	if c := token[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return nil
	}
	return &progress{token: token, began: now(), now: now}
}

// onReport has wake called when there is something to take, once until it is
// taken.
func (p *progress) onReport(wake func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = wake
}

// report takes one notification of the backend. It never blocks.
func (p *progress) report(n broker.Progress) {
	p.mu.Lock()
	first := len(p.behind) == 0
	if len(p.behind) == maxBehind {
		p.behind = nil
	}
	p.behind = append(p.behind, n.Params)
	wake := p.wake
	p.mu.Unlock()
	if first && wake != nil {
		wake()
	}
}

func (p *progress) waiting() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.behind) > 0
}

// take gives what waits, with the client's token.
func (p *progress) take() (messages [][]byte) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	behind := p.behind
	p.behind = nil
	p.mu.Unlock()
	for _, params := range behind {
		if m := p.message(params); m != nil {
			messages = append(messages, m)
		}
	}
	return messages
}

// message is a notification with the client's token, or nil: when params are no
// object, and when they would count backwards from what we said ourselves (see
// own).
func (p *progress) message(params json.RawMessage) []byte {
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
