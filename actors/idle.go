package actors

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"berth/broker"
)

// idle ends a run that gives no sign of life. Whatever passes between backend
// and caller is one; while the caller is being asked, it is the caller's turn
// and nothing is expected of the backend.
type idle struct {
	limit  time.Duration
	expire func()

	mu     sync.Mutex
	timer  *time.Timer
	asking int
}

func newIdle(limit time.Duration, expire func()) *idle {
	i := &idle{limit: limit, expire: expire}
	i.timer = time.AfterFunc(limit, i.due)
	return i
}

func (i *idle) due() {
	i.mu.Lock()
	asking := i.asking > 0
	i.mu.Unlock()
	if !asking {
		i.expire()
	}
}

func (i *idle) stop() { i.timer.Stop() }

// alive starts the limit anew; asking says by how much the number of open
// questions changes.
func (i *idle) alive(asking int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asking += asking
	i.timer.Reset(i.limit)
}

// watch gives a peer whose use is a sign of life.
func (i *idle) watch(peer broker.Peer) broker.Peer {
	out := peer
	out.Progress = func(p broker.Progress) {
		i.alive(0)
		if peer.Progress != nil {
			peer.Progress(p)
		}
	}
	out.Notify = func(method string, params json.RawMessage) {
		i.alive(0)
		if peer.Notify != nil {
			peer.Notify(method, params)
		}
	}
	if peer.Request != nil {
		out.Request = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
			i.alive(1)
			defer i.alive(-1)
			return peer.Request(ctx, method, params)
		}
	}
	return out
}
