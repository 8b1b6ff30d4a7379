package missions

import (
	"context"
	"errors"

	"berth/broker"
	"berth/broker/dispatch"
)

// findMoved finds the missions with an agent that somebody moved on by hand.
func (s *System) findMoved(_ context.Context, held map[string]hold, p *plan) error {
	var all []error
	for id, h := range held {
		if !h.agent {
			continue
		}
		k, err := dispatch.Read[dispatch.Mission](s.opts.Store, id)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			all = append(all, err)
			continue
		}
		if m := k.Value; err != nil || m.Status != dispatch.MissionPending && m.Status != dispatch.MissionWorkProduced && !works(m, h.dock) {
			p.moved = append(p.moved, id)
		}
	}
	return errors.Join(all...)
}

// works reports whether a mission is under way in a dock.
func works(m dispatch.Mission, dock string) bool {
	return m.Status.Live() && m.DockID != nil && *m.DockID == dock
}

// findLost ends what is under way by the records and by nobody's procedure: one
// failed between two steps, or a write that was given up came after all. No
// agent is left of it, since a procedure ends its agent whatever happens to it.
func (s *System) findLost(ctx context.Context, held map[string]hold, _ *plan) error {
	captains, docks := map[string]bool{}, map[string]bool{}
	for _, h := range held {
		captains[h.captain], docks[h.dock] = true, true
	}
	var all []error
	for _, status := range []dispatch.MissionStatus{dispatch.MissionAssigned, dispatch.MissionInProgress} {
		live, err := readAll[dispatch.Mission](s, dispatch.InState(string(status)))
		all = append(all, err)
		for _, k := range live {
			if _, busy := held[k.Value.ID]; busy {
				continue
			}
			_, err := s.commit(ctx, func(b *sheet) error { return b.lose(k.Value.ID) })
			all = append(all, unlessSettled(err))
		}
	}
	for _, state := range []dispatch.CaptainState{dispatch.CaptainWorking, dispatch.CaptainStalled, dispatch.CaptainStopping} {
		busy, err := readAll[dispatch.Captain](s, dispatch.InState(string(state)))
		all = append(all, err)
		for _, k := range busy {
			if !captains[k.Value.ID] {
				_, err := s.commit(ctx, func(b *sheet) error { return b.freeCaptain(k.Value.ID) })
				all = append(all, unlessSettled(err))
			}
		}
	}
	for _, state := range []dispatch.DockState{dispatch.DockProvisioning, dispatch.DockLeased} {
		taken, err := readAll[dispatch.Dock](s, dispatch.InState(string(state)))
		all = append(all, err)
		for _, k := range taken {
			if !docks[k.Value.ID] {
				_, err := s.commit(ctx, func(b *sheet) error { return b.freeDock(k.Value.ID) })
				all = append(all, unlessSettled(err))
			}
		}
	}
	return errors.Join(all...)
}

// lose fails a live mission that nobody works on.
func (b *sheet) lose(id string) error {
	m, err := b.mission(id)
	if err != nil || !m.Status.Live() {
		return err
	}
	reason, message := dispatch.LaunchFailed, "The broker lost this mission before its agent was launched; its log has the details."
	if m.Status == dispatch.MissionInProgress {
		reason, message = dispatch.ExitNonzero, "The broker lost the agent of this mission; how it ended is unknown."
	}
	next, err := m.Step(dispatch.MissionFailed, reason, message, b.at)
	if err != nil {
		return err
	}
	b.step(m.Status, next)
	if err := b.settle(id); err != nil {
		return err
	}
	return b.freeOf(m)
}

// freeOf gives back what a mission's last assignment took, as far as it still
// has it.
func (b *sheet) freeOf(m dispatch.Mission) error {
	if m.DockID == nil || m.CaptainID == nil {
		return nil
	}
	return (&course{sys: b.sys, id: m.ID, dock: *m.DockID, captain: *m.CaptainID}).release(b)
}

// freeCaptain makes a captain Idle whose mission is not under way.
func (b *sheet) freeCaptain(id string) error {
	c, err := b.captains.get(b.store(), id)
	if err != nil {
		return err
	}
	if c.MissionID != nil && c.DockID != nil {
		m, err := b.mission(*c.MissionID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return err
		}
		if err == nil && works(m, *c.DockID) {
			return nil
		}
	}
	next := c.Recovered()
	if next.State == c.State {
		return nil
	}
	next.LastUpdateUTC = b.at
	b.captains.put(next, dispatch.Event(c, "stopped", "The captain "+c.Name+" is Idle.", nil))
	return nil
}

// freeDock has a dock reclaimed whose mission is not under way.
func (b *sheet) freeDock(id string) error {
	d, err := b.docks.get(b.store(), id)
	if err != nil {
		return err
	}
	if d.MissionID != nil {
		m, err := b.mission(*d.MissionID)
		if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
			return err
		}
		if err == nil && works(m, id) {
			return nil
		}
	}
	return b.leave(d)
}
