package meta

import (
	"container/list"
	"slices"
	"sync"

	"berth/broker/catalog"
)

// The bounds of a ledger.
const (
	maxHolders = 16_384
	maxNamed   = 64 // names that one holder called, the newest
	maxLists   = 32 // earlier lists of a profile
	maxOf      = 4096
)

// Ledger is the record behind a handshake: which list was served to whom, which
// names were called by themselves since, and the codes of earlier lists. It is in
// memory only and bounded; what it does not know is no evidence. It is safe for
// concurrent use.
type Ledger struct {
	mu      sync.Mutex
	holders map[string]*list.Element // of *held
	recent  *list.List
	lists   map[string][]listed // by profile: the lists that were served, the newest last
}

type held struct {
	holder string
	served *listed
	pages  int
	called []string
}

// listed is a list as it was served.
type listed struct {
	fingerprint, head, tail string
	count                   int
}

// NewLedger makes an empty record.
func NewLedger() *Ledger {
	return &Ledger{holders: map[string]*list.Element{}, recent: list.New(), lists: map[string][]listed{}}
}

// Served notes that a page of a profile's list was sent to a holder; first says
// that it was the first page.
func (l *Ledger) Served(holder string, p *catalog.Profile, first bool) {
	if p.Exact() {
		return
	}
	now := listed{fingerprint: p.Fingerprint(), count: p.Len()}
	now.head, now.tail = p.Canary()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(p.Name(), now)
	h := l.of(holder)
	if first || h.served == nil || h.served.fingerprint != now.fingerprint {
		h.served, h.pages, h.called = &now, 0, nil
	}
	h.pages++
}

// Called notes that a holder called a verb by a name, itself.
func (l *Ledger) Called(holder, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.of(holder)
	if slices.Contains(h.called, name) {
		return
	}
	if len(h.called) >= maxNamed {
		h.called = slices.Delete(h.called, 0, 1)
	}
	h.called = append(h.called, name)
}

func (l *Ledger) note(profile string, now listed) {
	lists := l.lists[profile]
	if n := len(lists); n > 0 && lists[n-1].fingerprint == now.fingerprint {
		return
	}
	lists = slices.DeleteFunc(lists, func(x listed) bool { return x.fingerprint == now.fingerprint })
	if len(lists) >= maxLists {
		lists = slices.Delete(lists, 0, 1)
	}
	if _, known := l.lists[profile]; known || len(l.lists) < maxOf {
		l.lists[profile] = append(lists, now)
	}
}

func (l *Ledger) of(holder string) *held {
	if e, ok := l.holders[holder]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*held)
	}
	if l.recent.Len() >= maxHolders {
		oldest := l.recent.Back()
		delete(l.holders, l.recent.Remove(oldest).(*held).holder)
	}
	h := &held{holder: holder}
	l.holders[holder] = l.recent.PushFront(h)
	return h
}

// evidence is what is known of a holder and of its profile's lists.
type evidence struct {
	served  *listed // nil: nothing was served that is remembered
	pages   int
	called  []string
	earlier []listed
}

func (l *Ledger) evidence(holder, profile string) evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := evidence{earlier: slices.Clone(l.lists[profile])}
	if at, ok := l.holders[holder]; ok {
		h := at.Value.(*held)
		if h.served != nil {
			served := *h.served
			e.served = &served
		}
		e.pages, e.called = h.pages, slices.Clone(h.called)
	}
	return e
}
