package credential

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"berth/broker"
)

// Limits of attempts to log in that fail. One that succeeds does not count.
const (
	AttemptsBurst    = 10              // of one address at once
	AttemptsEvery    = 6 * time.Second // one more of an address
	AttemptsAllBurst = 100             // of all addresses at once
	AttemptsAllEvery = 100 * time.Millisecond
	maxAddresses     = 4096
)

// Attempts limits attempts to log in, for each address and over all.
type Attempts struct {
	mu    sync.Mutex
	all   *rate.Limiter
	froms map[netip.Prefix]*rate.Limiter
}

// NewAttempts makes a counter that has seen none.
func NewAttempts() *Attempts {
	return &Attempts{all: rate.NewLimiter(rate.Every(AttemptsAllEvery), AttemptsAllBurst), froms: map[netip.Prefix]*rate.Limiter{}}
}

// Begin counts an attempt from an address, or refuses it: then nothing may be
// looked up. succeeded takes it out of the count again.
func (a *Attempts) Begin(from netip.Addr, now time.Time) (succeeded func(), refusal *broker.Refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own, all := a.of(from, now).ReserveN(now, 1), a.all.ReserveN(now, 1)
	give := func() {
		own.CancelAt(now)
		all.CancelAt(now)
	}
	if wait := max(own.DelayFrom(now), all.DelayFrom(now)); wait > 0 {
		give()
		return nil, broker.Refuse(broker.CodeRateLimited, "There were too many attempts to log in; nothing was looked up.", nil).Retry(max(wait, time.Second))
	}
	return give, nil
}

// of gives the count of an address. An IPv6 network of 64 bits is one address:
// who has one has all of them.
func (a *Attempts) of(from netip.Addr, now time.Time) *rate.Limiter {
	from = from.Unmap()
	bits := 32
	if from.Is6() {
		bits = 64
	}
	where, _ := from.Prefix(bits) // of no address: the zero prefix, which is a place like any other
	if l := a.froms[where]; l != nil {
		return l
	}
	if len(a.froms) >= maxAddresses {
		a.forget(now)
	}
	l := rate.NewLimiter(rate.Every(AttemptsEvery), AttemptsBurst)
	a.froms[where] = l
	return l
}

// forget drops the addresses that have all their attempts again, else any one:
// the limit over all holds on.
func (a *Attempts) forget(now time.Time) {
	for where, l := range a.froms {
		if l.TokensAt(now) >= AttemptsBurst {
			delete(a.froms, where)
		}
	}
	for where := range a.froms {
		if len(a.froms) < maxAddresses {
			return
		}
		delete(a.froms, where)
	}
}
