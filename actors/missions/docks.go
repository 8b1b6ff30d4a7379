package missions

import (
	"context"
	"errors"
	"fmt"

	"berth/broker"
	"berth/broker/dispatch"
)

func (s *System) dockOf(id string) (dispatch.Dock, error) {
	k, err := dispatch.Read[dispatch.Dock](s.opts.Store, id)
	return k.Value, missing(err, broker.CodeDockNotFound, "Dock not found", "DockId", id)
}

func dockInUse(d dispatch.Dock) *broker.Refusal {
	return broker.Refuse(broker.CodeDockInUse, "The dock is in use; nothing was changed.", map[string]any{"DockId": d.ID, "State": d.State, "MissionId": d.MissionID})
}

// Reclaim removes the worktree of a dock that nothing is done with. The dock is
// Available afterwards; an error that is no refusal says that the worktree could
// not be removed, and the dock is Failed.
func (s *System) Reclaim(ctx context.Context, by broker.Principal, dockID string) error {
	return s.atDock(ctx, dockID, func() error {
		b, err := s.commit(s.ctx, func(b *sheet) error {
			d, err := b.docks.get(b.store(), dockID)
			if err != nil {
				return missing(err, broker.CodeDockNotFound, "Dock not found", "DockId", dockID)
			}
			if err := b.idle(d); err != nil {
				return err
			}
			return b.leave(d)
		})
		if err != nil {
			return err
		}
		d := b.docks.kept[dockID].Value
		s.opts.Agents.Note(dockOwner(d), "The worktree is removed, for "+by.Key()+".")
		failed, err := s.reclaim(d, false)
		if err == nil && failed != nil {
			err = fmt.Errorf("remove a worktree: %w", failed)
		}
		return err
	})
}

// Repair makes the worktree of a dock anew, from its branch. The Fault
// start_from_ref_missing says that the branch is gone.
func (s *System) Repair(ctx context.Context, by broker.Principal, dockID string) (dispatch.Dock, error) {
	err := s.atDock(ctx, dockID, func() error {
		b := s.newSheet()
		d, err := b.docks.get(b.store(), dockID)
		if err != nil {
			return missing(err, broker.CodeDockNotFound, "Dock not found", "DockId", dockID)
		}
		if err := b.idle(d); err != nil {
			return err
		}
		if d.State != dispatch.DockAvailable && d.State != dispatch.DockFailed {
			return dockInUse(d)
		}
		w := Work{Dock: d, Mission: dispatch.Mission{ID: dockOwner(d), Owner: d.Owner, VesselID: d.VesselID, StartFromRef: &d.Branch}}
		if w.Vessel, err = s.vessel(d.VesselID); err != nil {
			return missing(err, broker.CodeVesselNotFound, "Vessel not found", "VesselId", d.VesselID)
		}
		limited, done := context.WithTimeout(s.ctx, prepareLimit)
		defer done()
		if _, err := s.opts.Docks.Prepare(limited, w); err != nil {
			return err
		}
		s.opts.Agents.Note(w.Mission.ID, "The worktree was made anew, for "+by.Key()+".")
		return s.repaired(d)
	})
	if err != nil {
		return dispatch.Dock{}, err
	}
	return s.dockOf(dockID)
}

// repaired makes a dock that had failed Available.
func (s *System) repaired(d dispatch.Dock) error {
	for _, to := range []dispatch.DockState{dispatch.DockReclaiming, dispatch.DockAvailable} {
		if d.State == dispatch.DockAvailable {
			return nil
		}
		b, err := s.commit(s.ctx, func(b *sheet) error {
			now, err := b.docks.get(b.store(), d.ID)
			if err != nil {
				return err
			}
			if now, err = now.Step(to); err != nil {
				return err
			}
			now.Error, now.UpdatedUTC = nil, b.at
			b.docks.put(now)
			return nil
		})
		if err != nil {
			return err
		}
		d = b.docks.kept[d.ID].Value
	}
	return nil
}

// atDock does something at a dock while nothing else is done with its mission.
func (s *System) atDock(ctx context.Context, id string, do func() error) error {
	d, err := s.dockOf(id)
	if err != nil {
		return err
	}
	for {
		err = s.ask(ctx, &ask{mission: dockOwner(d), hold: hold{vessel: d.VesselID, dock: id}, atOnce: true, task: func(context.Context, func()) error { return do() }})
		switch {
		case errors.Is(err, errHeld):
			return dockInUse(d)
		case !errors.Is(err, errAgain):
			return err
		}
	}
}

// idle refuses a dock on whose mission an agent works, or is about to.
func (b *sheet) idle(d dispatch.Dock) error {
	if d.MissionID == nil {
		return nil
	}
	m, err := b.mission(*d.MissionID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return nil
	}
	if err == nil && m.Status.Live() && m.DockID != nil && *m.DockID == d.ID {
		return dockInUse(d)
	}
	return err
}
