package credential

import (
	"context"
	"fmt"
	"time"

	"berth/broker"
)

// StayRevoked revokes in next what is revoked in present and not in next, for a
// journal that is replaced by an earlier one: a restore lets nobody in again. by
// is who restores, at when.
func StayRevoked(ctx context.Context, present, next Store, by broker.Principal, at time.Time) error {
	now, err := present.Credentials()
	if err != nil {
		return fmt.Errorf("read the credentials: %w", err)
	}
	revoked := map[string]Record{}
	for _, r := range now {
		if r.RevokedAt != nil {
			revoked[r.ID] = r.Record
		}
	}
	then, err := next.Credentials()
	if err != nil {
		return fmt.Errorf("read the credentials of the backup: %w", err)
	}
	for _, r := range then {
		out, gone := revoked[r.ID]
		if !gone || r.RevokedAt != nil {
			continue
		}
		r.RevokedAt, r.RevokedBy, r.LastUsed = out.RevokedAt, out.RevokedBy, out.LastUsed
		event := r.event(EventRevoked, by, "The credential of "+r.Principal().Key()+", revoked by "+r.RevokedBy+" since the backup was made, stays revoked.", at)
		if _, err := next.SaveCredential(ctx, r, &event); err != nil {
			return fmt.Errorf("keep a credential revoked: %w", err)
		}
	}
	return nil
}

// Renew reads the records of another store, for a journal that is replaced.
// What it gives makes them the table: a credential that is not there, or is
// revoked there, ends with all that it has open; one that is as it was goes on.
// One that was revoked since is good again only where the store says so
// ([StayRevoked]).
func (d *Desk) Renew(from Store) (apply func(), err error) {
	records, err := from.Credentials()
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	before := d.book.Load()
	next := &book{byID: map[string]*entry{}, byHash: map[digest]*entry{}}
	for _, r := range records {
		l := newLife()
		if there := before.byID[r.ID]; there != nil && there.RevokedAt == nil && r.RevokedAt == nil {
			l = there.life
		}
		e, err := newEntry(r, l)
		if err != nil {
			return nil, err
		}
		next.put(e)
	}
	return func() {
		old := d.book.Swap(next)
		for id, e := range old.byID {
			if now := next.byID[id]; now == nil || now.life != e.life {
				e.life.end()
			}
		}
	}, nil
}
