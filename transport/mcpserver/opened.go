package mcpserver

import (
	"hash/maphash"
	"sync/atomic"

	"berth/broker"
)

// openedSlots is how many session ids are remembered, at about a kilobyte each.
const openedSlots = 512

// opened remembers session ids that were found good, with whose they are,
// because each request of a session brings its id and checking one costs three
// hashes. It is a table in which a newer id takes the place of an older one:
// what it has forgotten is checked again.
type opened struct {
	seed  maphash.Seed // so that nobody can choose ids that fall together
	slots [openedSlots]atomic.Pointer[openedSession]
}

type openedSession struct {
	token     string
	principal broker.Principal
	session   *session // never changed
}

func (o *opened) init() { o.seed = maphash.MakeSeed() }

// open gives the session of a token that was signed with key for principal.
func (o *opened) open(token string, key []byte, principal broker.Principal) (*session, bool) {
	slot := &o.slots[maphash.String(o.seed, token)%openedSlots]
	if known := slot.Load(); known != nil && known.token == token && known.principal == principal {
		return known.session, true
	}
	ses, ok := openSession(token, key)
	if !ok || ses.principal != principal.Digest() {
		return nil, false
	}
	slot.Store(&openedSession{token: token, principal: principal, session: ses})
	return ses, true
}
