package credential

import "fmt"

// Renew reads the records of another store, for a journal that is replaced.
// What it gives makes them the table: a credential that is not there, or is
// revoked there, ends with all that it has open; one that is as it was goes on.
// A credential that was revoked since is good again, as the store says.
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
