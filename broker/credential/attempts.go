package credential

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"berth/broker"
)

// Limits of attempts to log in that fail. One that succeeds does not count, and
// for a day its address is under its own limit alone: who floods from many
// addresses must not lock out those who are known.
const (
	AttemptsBurst    = 10              // of one address at once
	AttemptsEvery    = 6 * time.Second // one more of an address
	AttemptsAllBurst = 100             // of all addresses at once
	AttemptsAllEvery = 100 * time.Millisecond
	knownFor         = 24 * time.Hour
	maxAddresses     = 4096 // that are counted, and again that are known
)

// Attempts limits attempts to log in, for each address and over all.
type Attempts struct {
	mu    sync.Mutex
	all   *rate.Limiter
	froms map[netip.Prefix]*rate.Limiter
	known map[netip.Prefix]time.Time // when somebody last logged in from there
}

// NewAttempts makes a counter that has seen none.
func NewAttempts() *Attempts {
	return &Attempts{all: rate.NewLimiter(rate.Every(AttemptsAllEvery), AttemptsAllBurst), froms: map[netip.Prefix]*rate.Limiter{}, known: map[netip.Prefix]time.Time{}}
}

// Begin counts an attempt from an address, or refuses it: then nothing may be
// looked up. succeeded takes it out of the count again.
func (a *Attempts) Begin(from netip.Addr, now time.Time) (succeeded func(), refusal *broker.Refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	where := placeOf(from)
	counts := []*rate.Reservation{a.of(where, now).ReserveN(now, 1)}
	if last, known := a.known[where]; !known || now.Sub(last) >= knownFor {
		counts = append(counts, a.all.ReserveN(now, 1))
	}
	wait := time.Duration(0)
	for _, c := range counts {
		wait = max(wait, c.DelayFrom(now))
	}
	give := func() {
		for _, c := range counts {
			c.CancelAt(now)
		}
	}
	if wait > 0 {
		give()
		return nil, broker.Refuse(broker.CodeRateLimited, "There were too many attempts to log in; nothing was looked up.", nil).Retry(max(wait, time.Second))
	}
	return func() {
		give()
		a.know(where, now)
	}, nil
}

// know remembers that somebody logged in from a place. Where too many are known,
// the one that is known longest is forgotten.
func (a *Attempts) know(where netip.Prefix, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.known[where]; !known && len(a.known) >= maxAddresses {
		oldest := where
		for other, last := range a.known {
			if oldest == where || last.Before(a.known[oldest]) {
				oldest = other
			}
		}
		delete(a.known, oldest)
	}
	a.known[where] = now
}

// placeOf is an address as it is counted. An IPv6 network of 64 bits is one
// address: who has one has all of them.
func placeOf(from netip.Addr) netip.Prefix {
	from = from.Unmap()
	bits := 32
	if from.Is6() {
		bits = 64
	}
	where, _ := from.Prefix(bits) // of no address: the zero prefix, which is a place like any other
	return where
}

// of gives the count of a place.
func (a *Attempts) of(where netip.Prefix, now time.Time) *rate.Limiter {
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
