//go:build unix

package dock

import (
	"context"

	"berth/broker/dispatch"
)

// Landed reports whether a commit of a vessel's repository is in the history of
// its default branch.
func (d *Docks) Landed(ctx context.Context, v dispatch.Vessel, commit string) (bool, error) {
	repo, _, err := d.follow(ctx, v)
	if err != nil {
		return false, err
	}
	base, _, err := d.base(ctx, repo, v)
	if err != nil {
		return false, err
	}
	return repo.Contains(ctx, base, commit)
}
