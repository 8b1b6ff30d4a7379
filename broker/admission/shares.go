package admission

import (
	"sync"
	"time"

	bucket "golang.org/x/time/rate"

	"berth/broker"
)

// Shares holds callers to what their credentials may take of each backend: how
// many of their calls wait and run there at once, and how many begin in a time.
// Nobody waits for it: what is over the limit is refused. It is safe for
// concurrent use.
type Shares struct {
	mu   sync.Mutex
	used map[shareKey]*taken
}

type shareKey struct{ holder, backend string }

// taken is what one credential takes of one backend.
type taken struct {
	inFlight int
	rate     *bucket.Limiter // nil: its share has no rate
}

// maxIdleShares is how many that take nothing are remembered, for their rates.
const maxIdleShares = 4096

// NewShares makes an empty account.
func NewShares() *Shares { return &Shares{used: map[shareKey]*taken{}} }

// Take counts a call, or refuses it. What was taken is given back with Give,
// once. A call without a share, and one of the control lane, is not counted.
func (s *Shares) Take(c *broker.Call, now time.Time) *broker.Refusal {
	if c.Share == nil || c.Lane == broker.LaneControl {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(c, now)
	share := c.Share
	if share.InFlight > 0 && t.inFlight >= share.InFlight {
		return broker.Refuse(broker.CodeOverloaded, "This credential has as many calls in flight at "+c.Backend+" as it may; nothing was started.",
			map[string]any{"backend": c.Backend, "in_flight": t.inFlight, "limit": share.InFlight, "of": "credential"}).Retry(unknownRetry)
	}
	if t.rate != nil {
		r := t.rate.ReserveN(now, 1)
		if wait := r.DelayFrom(now); !r.OK() || wait > 0 {
			r.CancelAt(now)
			return broker.Refuse(broker.CodeRateLimited, "This credential begins calls at "+c.Backend+" faster than it may; nothing was started.",
				map[string]any{"backend": c.Backend, "per_second": share.PerSecond, "burst": share.Burst}).Retry(max(wait, time.Millisecond))
		}
	}
	t.inFlight++
	return nil
}

// Give counts a call that Take counted as over.
func (s *Shares) Give(c *broker.Call, now time.Time) {
	if c.Share == nil || c.Lane == broker.LaneControl {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := shareKey{c.Share.Holder, c.Backend}
	t := s.used[key]
	if t == nil || t.inFlight == 0 {
		return
	}
	if t.inFlight--; t.idle(now) {
		delete(s.used, key)
	}
}

// idle reports whether forgetting it loses nothing.
func (t *taken) idle(now time.Time) bool {
	return t.inFlight == 0 && (t.rate == nil || t.rate.TokensAt(now) >= float64(t.rate.Burst()))
}

func (s *Shares) of(c *broker.Call, now time.Time) *taken {
	key := shareKey{c.Share.Holder, c.Backend}
	if t := s.used[key]; t != nil {
		return t
	}
	if len(s.used) >= maxIdleShares {
		for k, t := range s.used {
			if t.idle(now) {
				delete(s.used, k)
			}
		}
	}
	t := &taken{}
	if c.Share.PerSecond > 0 {
		t.rate = bucket.NewLimiter(bucket.Limit(c.Share.PerSecond), max(1, c.Share.Burst))
	}
	s.used[key] = t
	return t
}

// weightOf is the weight of a call's caller in the queue.
func weightOf(c *broker.Call) int {
	if c.Share == nil {
		return 1
	}
	return max(1, c.Share.Weight)
}

// TicketOf is a call as the queue sees it, in a lane of its own.
func TicketOf(c *broker.Call, lane broker.Lane, timeout time.Duration) Ticket {
	return Ticket{ID: c.ID, Lane: lane, Principal: c.Principal.Key(), Session: c.Session, Weight: weightOf(c),
		Cost: max(1, c.Seats), Bytes: c.Bytes(), QueueTimeout: timeout}
}
