package missions

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"berth/broker"
	"berth/broker/dispatch"
)

// finish writes what the mission has become, with the release of captain and
// dock in the same step. landed says that its branch was merged.
func (c *course) finish(v verdict) (landed bool, err error) {
	if v.to != dispatch.MissionWorkProduced {
		_, err := c.end(v)
		return false, err
	}
	lands, err := c.produced(v)
	if err != nil || !lands {
		return false, err
	}
	return c.sys.land(c.w, c.release)
}

// end ends the mission as v says. A mission that is not this assignment's any
// more is left as it is; what was taken is released in any case.
func (c *course) end(v verdict) (*sheet, error) {
	return c.sys.surely(c.sys.ctx, c.id, func(b *sheet) error {
		m, err := c.own(b)
		switch {
		case errors.Is(err, errLost) || err == nil && v.to == "":
		case err != nil:
			return err
		default:
			next, err := m.Step(v.to, v.reason, v.message, b.at)
			if err != nil {
				break // it was moved to where this does not lead on from
			}
			if v.found.Commit != nil {
				next.Commit = v.found.Commit
			}
			b.step(m.Status, next)
			if err := b.settle(m.ID); err != nil {
				return err
			}
		}
		return c.release(b)
	})
}

// produced writes that the work is done, and says whether it is to be merged.
func (c *course) produced(v verdict) (lands bool, err error) {
	b, err := c.sys.surely(c.sys.ctx, c.id, func(b *sheet) error {
		lands = false
		m, err := c.own(b)
		if errors.Is(err, errLost) {
			return c.release(b)
		}
		if err != nil {
			return err
		}
		way, err := b.way(m, c.w.Vessel)
		if err != nil {
			return err
		}
		for _, to := range way {
			if m.Status == to {
				continue // it was moved there by hand, or is there after all
			}
			next, err := m.Step(to, "", "", b.at)
			if err != nil {
				return c.release(b)
			}
			if v.found.Commit != nil {
				next.Commit = v.found.Commit
			}
			b.step(m.Status, next)
			m = next
		}
		if lands, err = b.lands(m); err != nil || lands {
			return err
		}
		if err := b.settle(m.ID); err != nil {
			return err
		}
		return c.release(b)
	})
	if err == nil && lands {
		c.w.Mission = b.missions.kept[c.id].Value
	}
	return lands, err
}

// way is the statuses that a mission goes through when its work is done: to
// WorkProduced, and on to Complete where nothing is left to be done about it. A
// report that stands on no branch of work that is not landed has nothing to land.
func (b *sheet) way(m dispatch.Mission, v dispatch.Vessel) ([]dispatch.MissionStatus, error) {
	if m.Mode != dispatch.Implementation && m.Status == dispatch.MissionInProgress {
		if carries, err := b.carries(m); err != nil || !carries {
			return []dispatch.MissionStatus{dispatch.MissionComplete}, err
		}
	}
	waits, err := b.waitedFor(m)
	if err != nil || waits || !keepsBranch(v) {
		return []dispatch.MissionStatus{dispatch.MissionWorkProduced}, err
	}
	return []dispatch.MissionStatus{dispatch.MissionWorkProduced, dispatch.MissionComplete}, nil
}

// waitedFor reports whether a mission that has not ended builds on this one.
func (b *sheet) waitedFor(m dispatch.Mission) (bool, error) {
	after, err := b.missions.list(b.sys, dispatch.After(m.ID))
	return slices.ContainsFunc(after, func(m dispatch.Mission) bool { return !m.Status.Final() }), err
}

// lands reports whether a mission is the last of its chain and is to be merged.
func (b *sheet) lands(m dispatch.Mission) (bool, error) {
	if m.Status != dispatch.MissionWorkProduced {
		return false, nil
	}
	waits, err := b.waitedFor(m)
	return err == nil && !waits, err
}

// carries reports whether a mission's branch has work of a mission before it
// that is not landed.
func (b *sheet) carries(m dispatch.Mission) (bool, error) {
	if m.DependsOn == nil {
		return false, nil
	}
	before, err := b.mission(*m.DependsOn)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return false, nil
	}
	return before.Status == dispatch.MissionWorkProduced, err
}

// release gives captain and dock back, as far as this assignment has them.
func (c *course) release(b *sheet) error {
	captain, err := c.mine(b)
	if err != nil {
		return err
	}
	if captain != nil && captain.State.Busy() {
		next, err := captain.Step(dispatch.CaptainIdle)
		if err != nil {
			return err
		}
		next.LastUpdateUTC = b.at
		told := dispatch.Event(*captain, "stopped", "The captain "+captain.Name+" is Idle.", nil)
		b.captains.put(next, told)
	}
	d, err := b.docks.get(b.store(), c.dock)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		return nil
	case err != nil:
		return err
	}
	return b.leave(d)
}

// leave has a dock's worktree removed, unless that is under way already.
func (b *sheet) leave(d dispatch.Dock) error {
	next, err := leaving(d)
	if err != nil || next.State == d.State {
		return err
	}
	next.UpdatedUTC = b.at
	b.docks.put(next)
	return nil
}

// leaving is a dock whose worktree is about to be removed. One that was never
// made is Failed on the way; there may be something to remove.
func leaving(d dispatch.Dock) (dispatch.Dock, error) {
	var err error
	if d.State == dispatch.DockProvisioning {
		if d, err = d.Step(dispatch.DockFailed); err != nil {
			return d, err
		}
	}
	if d.State == dispatch.DockLeased || d.State == dispatch.DockFailed {
		d, err = d.Step(dispatch.DockReclaiming)
	}
	return d, err
}

// reclaim removes a worktree and writes what became of the dock. failed says why
// the worktree could not be removed.
func (s *System) reclaim(d dispatch.Dock, landed bool) (failed, err error) {
	v, err := s.vesselOf(d)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(s.ctx, reclaimLimit)
	failed = s.opts.Docks.Reclaim(ctx, v, d, landed)
	done()
	if s.ctx.Err() != nil {
		return failed, errStopping // the next start removes it
	}
	_, err = s.surely(s.ctx, dockOwner(d), func(b *sheet) error {
		now, err := b.docks.get(b.store(), d.ID)
		if errors.Is(err, broker.ErrRecordNotFound) || err == nil && now.State != dispatch.DockReclaiming {
			return nil
		}
		if err != nil {
			return err
		}
		to, text := dispatch.DockAvailable, (*string)(nil)
		if failed != nil {
			sentence := "The worktree could not be removed."
			if fault := (*dispatch.Fault)(nil); errors.As(failed, &fault) {
				sentence = fault.Message
			}
			to, text = dispatch.DockFailed, &sentence
		}
		if now, err = now.Step(to); err != nil {
			return err
		}
		now.Error, now.UpdatedUTC = text, b.at
		b.docks.put(now)
		return nil
	})
	return failed, err
}

// reclaimed is reclaim that nobody asked for: what failed is logged.
func (s *System) reclaimed(d dispatch.Dock, landed bool) error {
	failed, err := s.reclaim(d, landed)
	if failed != nil && err == nil {
		s.log.Warn("a worktree could not be removed", slog.String("dock", d.ID), slog.String("cause", failed.Error()))
	}
	return err
}

// vesselOf is the vessel of a dock; of one that is gone its id is known.
func (s *System) vesselOf(d dispatch.Dock) (dispatch.Vessel, error) {
	v, err := s.vessel(d.VesselID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return dispatch.Vessel{ID: d.VesselID, Owner: d.Owner}, nil
	}
	return v, err
}
