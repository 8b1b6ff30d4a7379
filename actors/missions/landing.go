package missions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"berth/broker"
	"berth/broker/dispatch"
)

// noVessel stands for the landing mode of a vessel that was deleted.
const noVessel dispatch.LandingMode = "deleted"

// keepsBranch reports whether work of the vessel is left on its branch.
func keepsBranch(v dispatch.Vessel) bool {
	return v.LandingMode == dispatch.LandNone || v.LandingMode == ""
}

// land brings the work of a mission that is WorkProduced to where its vessel has
// it, and ends the mission with it. What release adds is written with the end. A
// landing that has begun is not cut short by a cancel: whether it had merged
// would not be known.
func (s *System) land(w Work, release func(*sheet) error) (landed bool, err error) {
	if !keepsBranch(w.Vessel) {
		b, err := s.surely(s.ctx, w.Mission.ID, func(b *sheet) error {
			m, err := b.mission(w.Mission.ID)
			if err != nil || m.Landing && m.Status == dispatch.MissionWorkProduced {
				return err
			}
			if m.Status != dispatch.MissionWorkProduced {
				return errLost
			}
			m.Landing, m.LastUpdateUTC = true, b.at
			b.missions.put(m)
			return nil
		})
		if err != nil {
			if settled(err) || errors.Is(err, broker.ErrRecordNotFound) {
				return false, s.releaseOnly(w.Mission.ID, release)
			}
			return false, err
		}
		w.Mission = b.missions.kept[w.Mission.ID].Value
	}
	v, landed := s.merge(w)
	if s.ctx.Err() != nil && !landed {
		return false, errStopping
	}
	_, err = s.surely(s.ctx, w.Mission.ID, func(b *sheet) error {
		m, err := b.mission(w.Mission.ID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return err
		}
		if next, stepErr := m.Step(v.to, v.reason, v.message, b.at); err == nil && stepErr == nil {
			next.Landing = false
			b.step(m.Status, next)
			if err := b.settle(m.ID); err != nil {
				return err
			}
		}
		return release(b)
	})
	return landed, err
}

// releaseOnly gives back what a landing that became impossible had.
func (s *System) releaseOnly(mission string, release func(*sheet) error) error {
	_, err := s.surely(s.ctx, mission, release)
	return err
}

// merge does what the vessel's landing mode says, and gives what the mission
// becomes. landed is true when something was merged.
func (s *System) merge(w Work) (end cutOff, landed bool) {
	failed := func(reason dispatch.FailureReason, message string) (cutOff, bool) {
		return cutOff{dispatch.MissionLandingFailed, reason, message}, false
	}
	switch w.Vessel.LandingMode {
	case noVessel:
		return failed(dispatch.LandingBroken, "Its vessel does not exist any more.")
	case dispatch.LandNone, "":
		return cutOff{to: dispatch.MissionComplete}, false
	case dispatch.LandLocalMerge:
	default:
		return failed(dispatch.LandingBroken, "The landing mode "+string(w.Vessel.LandingMode)+" of the vessel is not built.")
	}
	commit, err := s.guardedLand(w)
	if err == nil {
		s.opts.Agents.Note(w.Mission.ID, "Landed on "+w.Vessel.DefaultBranch+" as "+commit+".")
		return cutOff{to: dispatch.MissionComplete}, true
	}
	s.log.Warn("a landing failed", slog.String("mission", w.Mission.ID), slog.String("cause", err.Error()))
	if fault := (*dispatch.Fault)(nil); errors.As(err, &fault) {
		return failed(fault.Reason, fault.Message)
	}
	if s.ctx.Err() == nil {
		s.opts.Agents.Note(w.Mission.ID, "The landing failed: "+err.Error())
	}
	return failed(dispatch.LandingBroken, "The work could not be merged into "+w.Vessel.DefaultBranch+".")
}

func (s *System) guardedLand(w Work) (commit string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("landing panicked: %v", r)
		}
	}()
	ctx, done := context.WithTimeout(s.ctx, landLimit)
	defer done()
	return s.opts.Docks.Land(ctx, w)
}

// landing is the procedure of a landing that no agent's end leads to.
func (s *System) landing(id string) task {
	return func(ctx context.Context, recorded func()) error {
		w, err := s.workOf(id)
		if err != nil {
			if errors.Is(err, broker.ErrRecordNotFound) {
				return nil
			}
			return err
		}
		if err := context.Cause(ctx); err != nil || w.Mission.Status != dispatch.MissionWorkProduced {
			return nil // it is asked for again, or called off
		}
		landed, err := s.land(w, func(*sheet) error { return nil })
		if err != nil || !landed || w.Dock.ID == "" {
			return err
		}
		recorded()
		// The branch of what is landed goes, where the vessel has it so.
		ctx, done := context.WithTimeout(s.ctx, reclaimLimit)
		defer done()
		if err := s.opts.Docks.Reclaim(ctx, w.Vessel, w.Dock, true); err != nil {
			s.log.Warn("what is left of a landed mission could not be removed", slog.String("mission", id), slog.String("cause", err.Error()))
		}
		return nil
	}
}

// workOf reads a mission with all that it was carried out with.
func (s *System) workOf(id string) (Work, error) {
	b := s.newSheet()
	var w Work
	var err error
	if w.Mission, err = b.mission(id); err != nil {
		return w, err
	}
	if w.Voyage, err = b.voyage(w.Mission); err != nil {
		return w, err
	}
	if w.Vessel, err = s.vessel(w.Mission.VesselID); errors.Is(err, broker.ErrRecordNotFound) {
		w.Vessel = dispatch.Vessel{ID: w.Mission.VesselID, LandingMode: noVessel}
	} else if err != nil {
		return w, err
	}
	if w.Mission.DockID != nil {
		w.Dock, err = b.docks.get(b.store(), *w.Mission.DockID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return w, err
		}
	}
	if w.Mission.CaptainID != nil {
		w.Captain, err = b.captains.get(b.store(), *w.Mission.CaptainID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return w, err
		}
	}
	return w, nil
}
