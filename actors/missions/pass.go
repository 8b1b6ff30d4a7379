package missions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"berth/broker"
	"berth/broker/dispatch"
)

// plan is what a pass found to be done by actors of missions.
type plan struct {
	tasks []planned
	moved []string // missions that are not their procedure's any more
	wrote bool     // something that another pass may have to see

	look *sheet  // what was read of the records; nil: nothing, or they have changed since
	open *family // every open mission in it, with all that they are judged by
}

// survey reads every open mission, unless the pass did and changed nothing since.
// Those that cannot be judged, since something that they hang on cannot be read,
// are left out; with the error comes what can be.
func (p *plan) survey(s *System) (err error) {
	if p.look == nil {
		p.look = s.newSheet()
		p.open, err = p.look.everyone()
	}
	return err
}

// planned is a procedure to begin.
type planned struct {
	mission string
	hold    hold
	task    task
}

// pass makes the records what they have to be and finds what is to be done next.
// held are the procedures that were under way when it began. What one record
// hinders does not keep the others back; every error is given at the end.
func (s *System) pass(ctx context.Context, held map[string]hold, p *plan) error {
	var all []error
	for _, part := range []func(context.Context, map[string]hold, *plan) error{s.unbench, s.findLost, s.followUp, s.endVoyages, s.assignReady, s.reclaimLeft, s.findMoved} {
		if ctx.Err() != nil {
			break
		}
		all = append(all, part(ctx, held, p))
	}
	return errors.Join(all...)
}

// unbench makes the captains Idle whose bench is over.
func (s *System) unbench(ctx context.Context, _ map[string]hold, _ *plan) error {
	benched, err := readAll[dispatch.Captain](s, dispatch.InState(string(dispatch.CaptainBenched)))
	if err != nil {
		return err
	}
	var all []error
	for _, k := range benched {
		if k.Value.BenchUntil == nil || k.Value.BenchUntil.After(s.now()) {
			continue
		}
		_, err := s.commit(ctx, func(b *sheet) error {
			c, err := b.captains.get(b.store(), k.Value.ID)
			if err != nil {
				return err
			}
			if c.State != dispatch.CaptainBenched || c.BenchUntil == nil || c.BenchUntil.After(b.at) {
				return nil
			}
			c, err = c.Step(dispatch.CaptainIdle)
			c.LastUpdateUTC = b.at
			b.captains.put(c, dispatch.Event(c, "unbenched", "The bench of the captain "+c.Name+" is over.", nil))
			return err
		})
		all = append(all, unlessSettled(err))
	}
	return errors.Join(all...)
}

// unlessSettled passes over what the next pass will find otherwise.
func unlessSettled(err error) error {
	if settled(err) || errors.Is(err, broker.ErrRecordNotFound) {
		return nil
	}
	return err
}

// everyone gathers every mission that is open, with all that they are judged by.
func (b *sheet) everyone() (*family, error) {
	open, err := b.missions.list(b.sys, dispatch.Open)
	if err != nil {
		return newFamily(), err
	}
	b.openAfter = map[string][]dispatch.Mission{}
	for _, m := range open {
		if m.DependsOn != nil {
			b.openAfter[*m.DependsOn] = append(b.openAfter[*m.DependsOn], m)
		}
	}
	all := newFamily()
	var bad []error
	for _, m := range open {
		if all.have[m.ID] {
			continue
		}
		f := newFamily()
		if err := b.gather(f, m); err != nil {
			bad = append(bad, err)
			continue
		}
		all.join(f)
	}
	return all, errors.Join(bad...)
}

// followUp writes what follows from missions that have ended, and calls off what
// can never be carried out.
func (s *System) followUp(ctx context.Context, held map[string]hold, p *plan) error {
	all := []error{p.survey(s)}
	look, f := p.look, p.open
	for _, c := range dispatch.Follow(f.seen, look.at) {
		all = append(all, p.write(ctx, s, func(b *sheet) error { return b.settle(c.Mission.ID) }))
	}
	for _, m := range f.seen {
		if m.Status != dispatch.MissionPending {
			continue
		}
		if _, busy := held[m.ID]; busy {
			continue
		}
		reason, message, err := look.hopeless(m)
		if err != nil || reason == "" {
			all = append(all, err)
			continue
		}
		all = append(all, p.write(ctx, s, func(b *sheet) error { return b.callOff(m.ID, reason, message) }))
	}
	return errors.Join(all...)
}

// write commits a step of a pass, after which what was read is read again.
func (p *plan) write(ctx context.Context, s *System, build func(*sheet) error) error {
	p.look = nil
	b, err := s.commit(ctx, build)
	if err == nil && len(b.missions.order) > 0 {
		p.wrote = true
	}
	return unlessSettled(err)
}

// hopeless says why a pending mission can never be carried out; empty: it can.
func (b *sheet) hopeless(m dispatch.Mission) (dispatch.FailureReason, string, error) {
	v, err := b.voyage(m)
	if err != nil {
		return "", "", err
	}
	if v != nil && v.Status == dispatch.VoyageCancelled {
		return dispatch.Cancelled, "Its voyage was cancelled.", nil
	}
	_, err = b.vessels.get(b.store(), m.VesselID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return dispatch.ProvisionFailed, "Its vessel does not exist any more.", nil
	}
	return "", "", err
}

// callOff makes a mission that nothing is done with Cancelled, with all that
// follows.
func (b *sheet) callOff(id string, reason dispatch.FailureReason, message string) error {
	m, err := b.mission(id)
	if err != nil {
		return err
	}
	next, err := m.Step(dispatch.MissionCancelled, reason, message, b.at)
	if err != nil {
		return err
	}
	b.step(m.Status, next)
	return b.settle(id)
}

func (s *System) vessel(id string) (dispatch.Vessel, error) {
	k, err := dispatch.Read[dispatch.Vessel](s.opts.Store, id)
	return k.Value, err
}

// endVoyages ends the voyages of which nothing is open. The end of a mission
// does it too; two that end at one moment leave it to this.
func (s *System) endVoyages(ctx context.Context, _ map[string]hold, p *plan) error {
	open, err := readAll[dispatch.Voyage](s, dispatch.Open)
	if err != nil {
		return err
	}
	all := []error{p.survey(s)}
	goes := map[string]bool{}
	for _, m := range p.open.seen {
		if m.VoyageID != nil && m.Status.Open() {
			goes[*m.VoyageID] = true
		}
	}
	for _, k := range open {
		if goes[k.Value.ID] || !k.Value.Materialized {
			continue
		}
		_, err := s.commit(ctx, func(b *sheet) error {
			v, err := b.voyages.get(b.store(), k.Value.ID)
			if err != nil {
				return err
			}
			return b.endVoyage(v)
		})
		all = append(all, unlessSettled(err))
	}
	return errors.Join(all...)
}

// shared is what missions share, as a pass counts it.
type shared struct {
	agents   map[string]bool // missions that have one
	vessels  map[string]bool // that something is done with
	docks    map[string]bool // missions whose worktree stands or is being removed
	captains []dispatch.Captain
}

func (s *System) shared(b *sheet, seen []dispatch.Mission, held map[string]hold) (*shared, error) {
	u := &shared{agents: map[string]bool{}, vessels: map[string]bool{}, docks: map[string]bool{}}
	for _, m := range seen {
		if m.Status.Live() || m.Landing && m.Status == underWay {
			u.vessels[m.VesselID] = true
		}
		if m.Status.Live() {
			u.agents[m.ID] = true
		}
	}
	for _, state := range []dispatch.DockState{dispatch.DockProvisioning, dispatch.DockLeased, dispatch.DockReclaiming} {
		docks, err := b.docks.list(b.sys, dispatch.InState(string(state)))
		if err != nil {
			return nil, err
		}
		for _, d := range docks {
			u.vessels[d.VesselID] = true
			if d.MissionID != nil {
				u.docks[*d.MissionID] = true
			}
		}
	}
	taken := map[string]bool{}
	for id, h := range held {
		u.docks[id], taken[h.captain] = true, true
		u.vessels[h.vessel] = true
		if h.agent {
			u.agents[id] = true
		}
	}
	captains, err := b.captains.list(b.sys, dispatch.InState(string(dispatch.CaptainIdle)))
	u.captains = slices.DeleteFunc(captains, func(c dispatch.Captain) bool { return taken[c.ID] })
	return u, err
}

// assignReady finds who may begin, and writes of the others what they wait for.
func (s *System) assignReady(ctx context.Context, held map[string]hold, p *plan) error {
	all := []error{p.survey(s)}
	b, f := p.look, p.open
	u, err := s.shared(b, f.seen, held)
	if err != nil {
		return err
	}
	ready, waiting := dispatch.Ready(f.seen)
	for _, m := range ready {
		if _, busy := held[m.ID]; busy {
			continue
		}
		why, err := s.consider(b, m, u, p)
		if err != nil {
			all = append(all, err)
			continue
		}
		if why != "" {
			waiting[m.ID] = why
		}
	}
	s.landLeft(b, f.seen, held, p)
	return errors.Join(append(all, s.writeWaits(ctx, b, waiting))...)
}

// consider plans the assignment of a mission, or says what it waits for.
func (s *System) consider(b *sheet, m dispatch.Mission, u *shared, p *plan) (dispatch.Assignment, error) {
	if s.calledOff(m) {
		return "", nil
	}
	vessel, err := b.vessels.get(b.store(), m.VesselID)
	if err != nil {
		return "", err
	}
	captain, any := dispatch.Pick(m, u.captains)
	switch {
	case m.DependsOn != nil && u.docks[*m.DependsOn]:
		return dispatch.WaitingForMission, nil // one worktree a branch
	case u.docks[m.ID] || u.vessels[m.VesselID] && !vessel.Concurrent:
		return dispatch.WaitingForVessel, nil
	case len(u.agents) >= s.opts.MaxAgents:
		return dispatch.WaitingForResources, nil
	case !any:
		return dispatch.WaitingForCaptain, nil
	}
	id, err := s.newID(dispatch.DockPrefix)
	if err != nil {
		return "", fmt.Errorf("name a dock: %w", err)
	}
	c := &course{sys: s, id: m.ID, dock: id, captain: captain.ID, path: filepath.Join(s.opts.DocksDir, vessel.Name, m.ID)}
	p.tasks = append(p.tasks, planned{m.ID, hold{agent: true, vessel: m.VesselID, captain: captain.ID, dock: id}, c.run})
	u.agents[m.ID], u.vessels[m.VesselID], u.docks[m.ID] = true, true, true
	u.captains = slices.DeleteFunc(u.captains, func(c dispatch.Captain) bool { return c.ID == captain.ID })
	return "", nil
}

// calledOff reports whether the voyage of a mission is being cancelled.
func (s *System) calledOff(m dispatch.Mission) bool {
	return m.VoyageID != nil && s.cancelling.has(*m.VoyageID)
}

// waitsAtOnce is how many reasons are written in one step.
const waitsAtOnce = 100

// writeWaits writes what missions wait for, where it is another than before.
func (s *System) writeWaits(ctx context.Context, b *sheet, waiting map[string]dispatch.Assignment) error {
	var ids []string
	for id, why := range waiting {
		if b.missions.kept[id].Value.Assignment != why {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(ids, waitsAtOnce) {
		_, err := s.commit(ctx, func(b *sheet) error {
			for _, id := range chunk {
				m, err := b.mission(id)
				switch {
				case errors.Is(err, broker.ErrRecordNotFound):
					continue
				case err != nil:
					return err
				}
				if m.Status == dispatch.MissionPending && m.Assignment != waiting[id] {
					m.Assignment, m.LastUpdateUTC = waiting[id], b.at
					b.missions.put(m)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// landLeft plans the landings that nobody has begun: a start found them, or who
// built on them is there no more.
func (s *System) landLeft(b *sheet, seen []dispatch.Mission, held map[string]hold, p *plan) {
	builds := map[string]bool{}
	for _, m := range seen {
		if m.DependsOn != nil {
			builds[*m.DependsOn] = true
		}
	}
	for _, m := range seen {
		if _, busy := held[m.ID]; busy || m.Status != dispatch.MissionWorkProduced || builds[m.ID] || s.calledOff(m) {
			continue
		}
		p.tasks = append(p.tasks, planned{m.ID, hold{vessel: m.VesselID}, s.landing(m.ID)})
	}
}

// reclaimLeft plans the removal of worktrees that nobody removes any more.
func (s *System) reclaimLeft(_ context.Context, held map[string]hold, p *plan) error {
	docks, err := readAll[dispatch.Dock](s, dispatch.InState(string(dispatch.DockReclaiming)))
	if err != nil {
		return err
	}
	for _, k := range docks {
		at := dockOwner(k.Value)
		if _, busy := held[at]; busy || slices.ContainsFunc(p.tasks, func(t planned) bool { return t.mission == at }) {
			continue
		}
		p.tasks = append(p.tasks, planned{at, hold{vessel: k.Value.VesselID, dock: k.Value.ID}, func(context.Context, func()) error { return s.reclaimed(k.Value, false) }})
	}
	return nil
}

// dockOwner is under what a dock's procedures are counted: its mission.
func dockOwner(d dispatch.Dock) string {
	if d.MissionID != nil {
		return *d.MissionID
	}
	return d.ID
}
