package missions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"berth/broker"
	"berth/broker/dispatch"
)

// Recover makes the records say what became of what a broker before this one had
// under way. It comes before Start, and before anybody can look. The processes of
// that broker are not looked for: the guard ended them. A second call changes
// nothing.
func (s *System) Recover(ctx context.Context) error {
	for _, part := range []func(context.Context) error{s.recoverVoyages, s.recoverMissions, s.recoverCaptains, s.recoverDocks} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("recover missions: %w", err)
		}
	}
	return nil
}

// recoverVoyages cancels the voyages that were not all there, with what there is
// of them.
func (s *System) recoverVoyages(ctx context.Context) error {
	open, err := readAll[dispatch.Voyage](s, dispatch.Open)
	if err != nil {
		return err
	}
	for _, k := range open {
		if k.Value.Materialized {
			continue
		}
		_, err := s.commit(ctx, func(b *sheet) error {
			v, err := b.voyages.get(b.store(), k.Value.ID)
			if err != nil || v.Materialized || v.Status.Over() {
				return err
			}
			all, err := b.missions.list(b.sys, dispatch.OfVoyage(v.ID))
			if err != nil {
				return err
			}
			for _, m := range all {
				next, err := m.Step(dispatch.MissionCancelled, dispatch.DispatchLost, "The broker stopped while its voyage was dispatched; nothing of it was begun.", b.at)
				if err == nil {
					b.step(m.Status, next)
				}
			}
			lost := string(dispatch.DispatchLost)
			return b.stepVoyage(v, dispatch.VoyageCancelled, &lost)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverMissions fails what was under way, with all that it took.
func (s *System) recoverMissions(ctx context.Context) error {
	for _, status := range []dispatch.MissionStatus{dispatch.MissionAssigned, dispatch.MissionInProgress, dispatch.MissionWorkProduced} {
		list, err := readAll[dispatch.Mission](s, dispatch.InState(string(status)))
		if err != nil {
			return err
		}
		for _, k := range list {
			_, err := s.commit(ctx, func(b *sheet) error {
				m, err := b.mission(k.Value.ID)
				if err != nil {
					return err
				}
				if next := m.Recovered(b.at); next.Status != m.Status {
					next.Landing = false
					b.step(m.Status, next)
					if err := b.settle(m.ID); err != nil {
						// What follows is found by the first pass, too.
						s.log.Warn("what follows from a lost mission is not known yet", slog.String("mission", m.ID), slog.String("cause", err.Error()))
					}
				}
				return b.recoverHeld(m)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverHeld gives back what a mission had when the broker stopped.
func (b *sheet) recoverHeld(m dispatch.Mission) error {
	if m.CaptainID != nil {
		c, err := b.captains.get(b.store(), *m.CaptainID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return err
		}
		if err == nil && c.MissionID != nil && *c.MissionID == m.ID {
			b.recoverCaptain(c)
		}
	}
	if m.DockID == nil {
		return nil
	}
	d, err := b.docks.get(b.store(), *m.DockID)
	if err != nil {
		if errors.Is(err, broker.ErrRecordNotFound) {
			return nil
		}
		return err
	}
	return b.recoverDock(d)
}

func (b *sheet) recoverCaptain(c dispatch.Captain) {
	if next := c.Recovered(); next.State != c.State {
		next.LastUpdateUTC = b.at
		b.captains.put(next, dispatch.Event(c, "stopped", "The captain "+c.Name+" is Idle: the broker stopped.", nil))
	}
}

// recoverDock has a worktree removed, also one that was being made.
func (b *sheet) recoverDock(d dispatch.Dock) error {
	next := d.Recovered(false)
	if next.State == d.State {
		return nil
	}
	next, err := leaving(next)
	if err != nil {
		return err
	}
	next.UpdatedUTC = b.at
	b.docks.put(next)
	return nil
}

// recoverCaptains makes the captains Idle that no mission accounts for.
func (s *System) recoverCaptains(ctx context.Context) error {
	for _, state := range []dispatch.CaptainState{dispatch.CaptainWorking, dispatch.CaptainStalled, dispatch.CaptainStopping} {
		list, err := readAll[dispatch.Captain](s, dispatch.InState(string(state)))
		if err != nil {
			return err
		}
		for _, k := range list {
			_, err := s.commit(ctx, func(b *sheet) error {
				c, err := b.captains.get(b.store(), k.Value.ID)
				if err == nil {
					b.recoverCaptain(c)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverDocks has every other worktree reclaimed that is still taken.
func (s *System) recoverDocks(ctx context.Context) error {
	for _, state := range []dispatch.DockState{dispatch.DockProvisioning, dispatch.DockLeased} {
		list, err := readAll[dispatch.Dock](s, dispatch.InState(string(state)))
		if err != nil {
			return err
		}
		for _, k := range list {
			_, err := s.commit(ctx, func(b *sheet) error {
				d, err := b.docks.get(b.store(), k.Value.ID)
				if err != nil {
					return err
				}
				return b.recoverDock(d)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
