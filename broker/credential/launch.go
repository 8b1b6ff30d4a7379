package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"slices"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/dispatch"
)

// Launches are the tokens of agents that work on missions (contracts/native.md
// sections 1.2 and 4). Each stands for the owner of its mission, with the rights
// that the owner has at the moment, and names the mission. They live as long as
// this process and are written nowhere; of a token only its hash is kept.
//
// A token takes what its owner's credential narrows, too: profiles, read-only
// and shares. When that credential is revoked, what the agent has open ends, and
// its next request goes by another credential of the owner, or is refused when
// none is left.
//
// It is safe for concurrent use.
type Launches struct {
	desk   *Desk
	random io.Reader
	known  []broker.Principal // who needs no credential

	mu     sync.Mutex
	byHash map[digest]*launch
}

// launch is one token. What stands beside mission and hash changes under the
// lock of Launches.
type launch struct {
	mission string
	owner   broker.Principal // tenant and user
	hash    digest
	caller  broker.Caller
	end     context.CancelFunc // of the caller's life
}

// maxLaunches is how many tokens there may be at once. Each is of a mission that
// runs, so that this bounds what a forgotten Revoke can cost.
const maxLaunches = 4096

// NewLaunches makes an empty table. known are principals whose rights come from
// no credential of desk, such as broker.LocalOperator.
func NewLaunches(desk *Desk, random io.Reader, known ...broker.Principal) *Launches {
	return &Launches{desk: desk, random: random, known: known, byHash: map[digest]*launch{}}
}

// Issue makes a token for the agent of a mission, a new one each time. Without a
// user who may act it gives none and says why.
func (l *Launches) Issue(m dispatch.Mission) (token, why string) {
	n := &launch{mission: m.ID, owner: ownerOf(m)}
	token, err := mint(l.random)
	if err != nil {
		return "", "no random bytes for a token could be had"
	}
	n.hash = sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byHash) >= maxLaunches {
		return "", "there are as many launch tokens as the broker keeps"
	}
	if !l.derive(n) {
		return "", noOwner
	}
	l.byHash[n.hash] = n
	return token, ""
}

const noOwner = "its owner has no active credential in the tenant"

// Would says why Issue would make no token for a mission at this moment; empty:
// it would make one.
func (l *Launches) Would(m dispatch.Mission) (why string) {
	if _, _, ok := l.standing(ownerOf(m)); !ok {
		return noOwner
	}
	return ""
}

// ownerOf is whose rights a mission's agent has. What the record leaves open is
// the default tenant's, and the default user's.
func ownerOf(m dispatch.Mission) broker.Principal {
	return broker.Principal{Tenant: cmp.Or(m.TenantID, broker.LocalOperator.Tenant), User: cmp.Or(m.UserID, broker.LocalOperator.User)}
}

// derive gives a token the rights that its owner has now; false: none.
func (l *Launches) derive(n *launch) bool {
	caller, life, ok := l.standing(n.owner)
	if !ok {
		return false
	}
	caller.Mission = n.mission
	caller.Life, n.end = context.WithCancel(life)
	n.caller = caller
	return true
}

// standing is what an owner may do, and how long that holds.
func (l *Launches) standing(owner broker.Principal) (broker.Caller, context.Context, bool) {
	for _, p := range l.known {
		if p.Owns(owner.Tenant, owner.User) {
			return broker.Caller{Principal: p}, context.Background(), true
		}
	}
	c, ok := l.desk.widest(owner.Tenant, owner.User)
	return c, c.Life, ok
}

// widest is the credential with which a user may do most: by its role, then one
// that may write, then one that accepts every profile, then the oldest.
func (d *Desk) widest(tenant, user string) (broker.Caller, bool) {
	var best *entry
	rank := func(e *entry) [3]int {
		r := [3]int{slices.Index(broker.Roles, e.Role), 0, 0}
		if e.ReadOnly {
			r[1] = 1
		}
		if len(e.Profiles) > 0 {
			r[2] = 1
		}
		return r
	}
	for _, e := range d.book.Load().byID {
		if e.RevokedAt != nil || e.Tenant != tenant || e.User != user {
			continue
		}
		if best == nil || before(rank(e), rank(best), e.ID, best.ID) {
			best = e
		}
	}
	if best == nil {
		return broker.Caller{}, false
	}
	return best.caller, true
}

func before(a, b [3]int, aID, bID string) bool {
	return cmp.Or(slices.Compare(a[:], b[:]), strings.Compare(aID, bID)) < 0
}

// Bearer gives the caller of a token. How long it takes says nothing about how
// much of a token is right.
func (l *Launches) Bearer(token string) (broker.Caller, bool) {
	if !looksLike(token) {
		return broker.Caller{}, false
	}
	hash := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.byHash[hash]
	if !ok || subtle.ConstantTimeCompare(hash[:], n.hash[:]) != 1 {
		return broker.Caller{}, false
	}
	if n.caller.Life.Err() != nil && !l.derive(n) {
		return broker.Caller{}, false
	}
	return n.caller, true
}

// Revoke ends the tokens of a mission: each is refused from then on, and what it
// has open is told by the end of its life.
func (l *Launches) Revoke(missionID string) {
	l.mu.Lock()
	var ended []context.CancelFunc
	for hash, n := range l.byHash {
		if n.mission == missionID {
			delete(l.byHash, hash)
			ended = append(ended, n.end)
		}
	}
	l.mu.Unlock()
	for _, end := range ended { // what waits for the end may ask for the lock
		end()
	}
}
