package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/broker"
)

// The events of a credential's life. Neither holds a token or a hash.
const (
	EventCreated = "credential.created"
	EventRevoked = "credential.revoked"
)

// ErrChanged is a record that somebody else has written since it was read.
var ErrChanged = errors.New("the credential has changed meanwhile")

// Stored is a record with the revision that it was read at; 0: it is new.
type Stored struct {
	Record
	Revision uint64
}

// Store keeps the records. A write is durable when it returns.
type Store interface {
	// Credentials gives every record.
	Credentials() ([]Stored, error)
	// SaveCredential writes a record and its event, if there is one, in one
	// transaction and gives the new revision. It fails with ErrChanged when the
	// record is not at the revision that it was read at.
	SaveCredential(ctx context.Context, s Stored, event *broker.Event) (revision uint64, err error)
}

// Options are what a desk needs beside its store. Now and Random are required.
type Options struct {
	Now    func() time.Time
	Random io.Reader
	// Known says what the names in a new credential may be.
	Known Known
	// Max is how many records there may be, revoked ones included; zero is 10,000.
	Max int
}

// Desk knows the credentials.
type Desk struct {
	store Store
	opts  Options
	book  atomic.Pointer[book]
	// saves is held for reading while what was written is not in the table yet.
	saves sync.RWMutex
}

// book is one state of the table; it is never changed.
type book struct {
	byID   map[string]*entry
	byHash map[digest]*entry // those that are good
}

// entry is one record as it is at the moment. A later state of the record is
// another entry, which shares its life.
type entry struct {
	Stored
	hash   digest
	caller broker.Caller
	life   *life
}

// life is what all states of a credential have in common.
type life struct {
	ctx  context.Context
	end  context.CancelFunc
	used atomic.Int64 // day of the last use, in days since 1970; 0: none was seen
}

// Open reads the records.
func Open(store Store, opts Options) (*Desk, error) {
	if opts.Now == nil || opts.Random == nil {
		return nil, errors.New("credential: Now and Random are required")
	}
	opts.Max = cmp.Or(max(0, opts.Max), 10_000)
	records, err := store.Credentials()
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	b := &book{byID: map[string]*entry{}, byHash: map[digest]*entry{}}
	for _, r := range records {
		e, err := newEntry(r, newLife())
		if err != nil {
			return nil, err
		}
		b.put(e)
	}
	d := &Desk{store: store, opts: opts}
	d.book.Store(b)
	return d, nil
}

func newLife() *life {
	l := &life{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

func newEntry(s Stored, l *life) (*entry, error) {
	e := &entry{Stored: s, life: l}
	var ok bool
	if e.hash, ok = digestOf(s.Record); !ok {
		return nil, fmt.Errorf("the credential %s has no hash that could be read", s.ID)
	}
	e.caller = broker.Caller{Principal: s.Principal(), Credential: s.ID, Profiles: s.Profiles, ReadOnly: s.ReadOnly, Shares: s.Shares, Life: l.ctx}
	return e, nil
}

// put is for a book that nobody else has yet.
func (b *book) put(e *entry) {
	b.byID[e.ID] = e
	if e.RevokedAt == nil {
		b.byHash[e.hash] = e
	} else {
		delete(b.byHash, e.hash)
	}
}

// swap puts a new state of a record into the table. Of two that come together
// the one with the later revision stays.
func (d *Desk) swap(e *entry) {
	for {
		old := d.book.Load()
		if there := old.byID[e.ID]; there != nil && there.Revision > e.Revision {
			break
		}
		next := &book{byID: maps.Clone(old.byID), byHash: maps.Clone(old.byHash)}
		next.put(e)
		if d.book.CompareAndSwap(old, next) {
			break
		}
	}
	if e.RevokedAt != nil {
		e.life.end() // after the table: what asks now is refused
	}
}

// Bearer gives the caller of a token. How long it takes says nothing about how
// much of a token is right.
func (d *Desk) Bearer(token string) (broker.Caller, bool) {
	if !looksLike(token) {
		return broker.Caller{}, false
	}
	hash := sha256.Sum256([]byte(token))
	e, ok := d.book.Load().byHash[hash]
	if !ok || subtle.ConstantTimeCompare(hash[:], e.hash[:]) != 1 {
		return broker.Caller{}, false
	}
	return d.use(e), true
}

// Caller gives the caller of a credential that is good, by its id.
func (d *Desk) Caller(id string) (broker.Caller, bool) {
	e, ok := d.book.Load().byID[id]
	if !ok || e.RevokedAt != nil {
		return broker.Caller{}, false
	}
	return d.use(e), true
}

const day = 24 * time.Hour

func (d *Desk) use(e *entry) broker.Caller {
	if today := d.opts.Now().Unix() / int64(day/time.Second); e.life.used.Load() != today {
		e.life.used.Store(today)
	}
	return e.caller
}

// Create makes a credential and gives its token, which nobody can ask for again.
func (d *Desk) Create(ctx context.Context, by broker.Principal, spec Spec) (Record, string, error) {
	spec, refusal := spec.settle(d.opts.Known)
	if refusal != nil {
		return Record{}, "", refusal
	}
	if n := len(d.book.Load().byID); n >= d.opts.Max {
		return Record{}, "", broker.Refuse(broker.CodeCredentialsFull, "There are as many credentials as the broker keeps; none was made.",
			map[string]any{"Credentials": n})
	}
	token, err := mint(d.opts.Random)
	if err != nil {
		return Record{}, "", err
	}
	now := d.opts.Now().UTC()
	id, err := broker.NewID(broker.CredentialPrefix, now, d.opts.Random)
	if err != nil {
		return Record{}, "", err
	}
	hash := sha256.Sum256([]byte(token))
	e, err := newEntry(Stored{Record: Record{ID: id, Tenant: spec.Tenant, User: spec.User, Role: spec.Role, Label: spec.Label,
		Profiles: spec.Profiles, ReadOnly: spec.ReadOnly, Shares: spec.Shares, Hash: hex.EncodeToString(hash[:]),
		CreatedAt: now, CreatedBy: by.Key()}}, newLife())
	if err != nil {
		return Record{}, "", err
	}
	event := e.event(EventCreated, by, "A credential was made for "+e.Principal().Key()+" by "+by.Key()+".", now)
	if e.Revision, err = d.store.SaveCredential(ctx, e.Stored, &event); err != nil {
		return Record{}, "", fmt.Errorf("keep a credential: %w", err)
	}
	d.swap(e)
	return e.Record, token, nil
}

// tries is how often a change is tried again when another one came between.
const tries = 5

// Revoke ends a credential: it is refused from then on, and what it began is
// told by the end of its life. One that is revoked stays as it is.
func (d *Desk) Revoke(ctx context.Context, by broker.Principal, id, reason string) (Record, error) {
	e, ok := d.book.Load().byID[id]
	for range tries {
		if !ok {
			return Record{}, broker.Refuse(broker.CodeCredentialNotFound, "There is no credential with this id.", nil)
		}
		if e.RevokedAt != nil {
			return e.Record, nil
		}
		now := d.opts.Now().UTC()
		next := *e
		next.RevokedAt, next.RevokedBy, next.LastUsed = &now, by.Key(), e.lastUsed()
		event := next.event(EventRevoked, by, "The credential of "+e.Principal().Key()+" was revoked by "+by.Key()+".", now, "Reason", cut(reason))
		if err := d.save(ctx, &next, &event); errors.Is(err, ErrChanged) {
			e, ok = d.settled(id)
			continue
		} else if err != nil {
			return Record{}, fmt.Errorf("revoke a credential: %w", err)
		}
		return next.Record, nil
	}
	return Record{}, fmt.Errorf("revoke a credential: %w", ErrChanged)
}

// settled gives an entry when the table has everything that was written before.
func (d *Desk) settled(id string) (e *entry, ok bool) {
	d.saves.Lock()
	defer d.saves.Unlock()
	e, ok = d.book.Load().byID[id]
	return e, ok
}

// save writes a later state of a record and puts it into the table.
func (d *Desk) save(ctx context.Context, e *entry, event *broker.Event) error {
	d.saves.RLock()
	defer d.saves.RUnlock()
	revision, err := d.store.SaveCredential(ctx, e.Stored, event)
	if err != nil {
		return err
	}
	e.Revision = revision
	d.swap(e)
	return nil
}

func (r Record) event(kind string, by broker.Principal, message string, now time.Time, more ...string) broker.Event {
	fields := map[string]any{"CredentialId": r.ID, "Tenant": r.Tenant, "User": r.User, "Role": r.Role, "Label": r.Label, "By": by.Key(), "ByRole": by.Role}
	for i := 0; i+1 < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	payload, _ := json.Marshal(fields) // texts cannot fail to encode
	return broker.Event{EventType: kind, EntityType: "credential", EntityID: r.ID, TenantID: r.Tenant, Message: message, Payload: payload, CreatedAt: now}
}

// maxReason bounds why a credential was revoked, in bytes.
const maxReason = 1024

func cut(reason string) string {
	if reason = strings.ToValidUTF8(reason, ""); len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return reason
}

// lastUsed is the day of the last use, of what was noted and what was seen.
func (e *entry) lastUsed() *time.Time {
	seen := e.life.used.Load()
	if seen == 0 || (e.LastUsed != nil && e.LastUsed.Unix()/int64(day/time.Second) >= seen) {
		return e.LastUsed
	}
	t := time.Unix(seen*int64(day/time.Second), 0).UTC()
	return &t
}

// List gives every record, the oldest first.
func (d *Desk) List() []Record {
	entries := d.book.Load().byID
	out := make([]Record, 0, len(entries))
	for _, e := range entries {
		r := e.Record
		r.LastUsed = e.lastUsed()
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Note writes the days of last use that are not kept yet. One that changes
// meanwhile is noted the next time.
func (d *Desk) Note(ctx context.Context) error {
	var errs []error
	for _, e := range d.book.Load().byID {
		used := e.lastUsed()
		if e.RevokedAt != nil || used == e.LastUsed {
			continue
		}
		next := *e
		next.LastUsed = used
		if err := d.save(ctx, &next, nil); err != nil && !errors.Is(err, ErrChanged) {
			errs = append(errs, fmt.Errorf("note the last use of %s: %w", e.ID, err))
		}
	}
	return errors.Join(errs...)
}
