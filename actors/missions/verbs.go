package missions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"berth/broker"
	"berth/broker/dispatch"
)

// missing gives the refusal of a record that is not there; other errors pass.
func missing(err error, code broker.Code, message, key, id string) error {
	if errors.Is(err, broker.ErrRecordNotFound) {
		return broker.Refuse(code, message, map[string]any{key: id})
	}
	return err
}

func (s *System) mission(id string) (dispatch.Mission, error) {
	k, err := dispatch.Read[dispatch.Mission](s.opts.Store, id)
	return k.Value, missing(err, broker.CodeMissionNotFound, "Mission not found", "MissionId", id)
}

// CancelMission ends a mission Cancelled: its agent with every descendant first,
// then the record. It gives the mission as it then is, also when it was
// Cancelled already. One that ended otherwise, perhaps at this moment, is refused
// as mission_terminal with its status.
func (s *System) CancelMission(ctx context.Context, by broker.Principal, id string) (dispatch.Mission, error) {
	return s.cancel(ctx, cancelledBy(by, dispatch.Cancelled), id)
}

func (s *System) cancel(ctx context.Context, why *cutOff, id string) (dispatch.Mission, error) {
	for {
		m, err := s.mission(id)
		switch {
		case err != nil:
			return m, err
		case m.Status == dispatch.MissionCancelled:
			return m, nil
		case m.Status.Final():
			return m, broker.Refuse(broker.CodeMissionTerminal, "The mission has ended "+string(m.Status)+" already; nothing was changed.", map[string]any{"MissionId": id, "Status": m.Status})
		}
		err = s.ask(ctx, &ask{mission: id, hold: hold{vessel: m.VesselID}, cut: why, task: func(context.Context, func()) error { return s.callOff(why, id) }})
		if err != nil && !errors.Is(err, errAgain) && !errors.Is(err, errLost) {
			return m, err
		}
	}
}

// callOff cancels a mission that nothing else is done with. What an assignment
// left behind is released with it.
func (s *System) callOff(why *cutOff, id string) error {
	b, err := s.commit(s.ctx, func(b *sheet) error {
		m, err := b.mission(id)
		if err != nil {
			return missing(err, broker.CodeMissionNotFound, "Mission not found", "MissionId", id)
		}
		if m.Status.Final() {
			return errLost // who asked looks again
		}
		next, err := m.Step(dispatch.MissionCancelled, why.reason, why.message, b.at)
		if err != nil {
			return broker.Refuse(broker.CodeInvalidTransition, "A mission that is "+string(m.Status)+" cannot be cancelled; nothing was changed.", map[string]any{"MissionId": id, "Status": m.Status})
		}
		next.Landing = false
		b.step(m.Status, next)
		if err := b.settle(id); err != nil {
			return err
		}
		return b.freeOf(m)
	})
	if err == nil && len(b.ended) > 0 {
		s.Wake()
	}
	return err
}

// maxRounds is how often a voyage is looked through for missions that were added
// while it was called off.
const maxRounds = 10

// CancelVoyage ends a voyage and gives it with the missions that ended Cancelled
// by it. What an agent works on is ended as by CancelMission; a landing that has
// begun is waited for; what has ended keeps its status. A voyage that is over is
// given as it is.
func (s *System) CancelVoyage(ctx context.Context, by broker.Principal, id string, reason dispatch.FailureReason) (dispatch.Voyage, []string, error) {
	s.cancelling.put(id)
	defer s.Wake()
	defer s.cancelling.take(id)
	why, open := cancelledBy(by, reason), map[string]bool{}
	for range maxRounds {
		k, err := dispatch.Read[dispatch.Voyage](s.opts.Store, id)
		if err != nil {
			return k.Value, nil, missing(err, broker.CodeVoyageNotFound, "Voyage not found", "VoyageId", id)
		}
		if k.Value.Status.Over() {
			ended, err := s.nowCancelled(id, open)
			return k.Value, ended, err
		}
		if err := s.cancelAll(ctx, why, id, open); err != nil {
			ended, readErr := s.nowCancelled(id, open)
			return k.Value, ended, errors.Join(err, readErr)
		}
		if err := s.closeVoyage(ctx, id, reason); err != nil && !errors.Is(err, errLost) {
			return k.Value, nil, err
		}
	}
	return dispatch.Voyage{}, nil, broker.Refuse(broker.CodeOverloaded, "Missions are added to the voyage while it is cancelled; cancel it again.", map[string]any{"VoyageId": id})
}

// nowCancelled lists those of a voyage's missions that were open and are
// Cancelled.
func (s *System) nowCancelled(voyage string, open map[string]bool) ([]string, error) {
	ended := []string{}
	all, err := readAll[dispatch.Mission](s, dispatch.OfVoyage(voyage))
	for _, k := range all {
		if open[k.Value.ID] && k.Value.Status == dispatch.MissionCancelled {
			ended = append(ended, k.Value.ID)
		}
	}
	return ended, err
}

// cancelAll cancels the missions of a voyage, at the same time, and notes which
// were open. Those whose work is done wait for what becomes of their chain.
func (s *System) cancelAll(ctx context.Context, why *cutOff, voyage string, open map[string]bool) error {
	all, err := readAll[dispatch.Mission](s, dispatch.OfVoyage(voyage))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for _, k := range all {
		if !k.Value.Status.Open() {
			continue
		}
		open[k.Value.ID] = true
		wait.Go(func() {
			if err := s.cancelOpen(ctx, why, k.Value.ID); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// cancelOpen is cancel of a mission of a voyage: one whose work is done is not
// called off by itself, and neither is one that failed to land.
func (s *System) cancelOpen(ctx context.Context, why *cutOff, id string) error {
	for {
		m, err := s.mission(id)
		if err != nil {
			return unlessSettled(err) // it was purged
		}
		if !m.Status.Open() || m.Status == dispatch.MissionWorkProduced && !s.Running(id) {
			return nil
		}
		err = s.ask(ctx, &ask{mission: id, hold: hold{vessel: m.VesselID}, cut: why, task: func(context.Context, func()) error {
			if now, err := s.mission(id); err != nil || now.Status == dispatch.MissionWorkProduced || !now.Status.Open() {
				return errors.Join(errLost, err)
			}
			return s.callOff(why, id)
		}})
		if err != nil && !errors.Is(err, errAgain) && !errors.Is(err, errLost) {
			return err
		}
	}
}

// closeVoyage makes a voyage Cancelled of which nothing is under way any more.
// Work that is done and was not landed ends with it.
func (s *System) closeVoyage(ctx context.Context, id string, reason dispatch.FailureReason) error {
	_, err := s.commit(ctx, func(b *sheet) error {
		v, err := b.voyages.get(b.store(), id)
		if err != nil {
			return err
		}
		if v.Status.Over() {
			return nil
		}
		all, err := b.missions.list(b.sys, dispatch.OfVoyage(id))
		if err != nil {
			return err
		}
		for _, m := range all {
			if err := b.settle(m.ID); err != nil {
				return err
			}
		}
		for _, m := range all {
			now, err := b.mission(m.ID)
			switch {
			case err != nil:
				return err
			case !now.Status.Open():
				continue
			case now.Status != dispatch.MissionWorkProduced || s.Running(m.ID):
				return errLost
			}
			next, err := now.Step(dispatch.MissionCancelled, dispatch.ChainNotLanded, "Its voyage was cancelled before it was landed.", b.at)
			if err != nil {
				return err
			}
			b.step(now.Status, next)
		}
		text := string(reason)
		return b.stepVoyage(v, dispatch.VoyageCancelled, &text)
	})
	return err
}

// StopCaptain ends what a captain works on; its mission ends Cancelled. It is
// done when the captain does nothing.
func (s *System) StopCaptain(ctx context.Context, by broker.Principal, id string) error {
	k, err := dispatch.Read[dispatch.Captain](s.opts.Store, id)
	if err != nil {
		return missing(err, broker.CodeCaptainNotFound, "Captain not found", "CaptainId", id)
	}
	if !k.Value.State.Busy() || k.Value.MissionID == nil {
		return nil
	}
	var refusal *broker.Refusal
	_, err = s.CancelMission(ctx, by, *k.Value.MissionID)
	if errors.As(err, &refusal) && (refusal.Code == broker.CodeMissionTerminal || refusal.Code == broker.CodeMissionNotFound) {
		s.Wake()   // it ended by itself; a captain that has nothing to do is found
		return nil // by the next pass
	}
	return err
}

// StopAll is StopCaptain of every captain that works, at the same time. failed
// has, by captain, what did not succeed.
func (s *System) StopAll(ctx context.Context, by broker.Principal) (stopped int, failed map[string]error) {
	failed = map[string]error{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, state := range []dispatch.CaptainState{dispatch.CaptainWorking, dispatch.CaptainStalled, dispatch.CaptainStopping} {
		busy, err := readAll[dispatch.Captain](s, dispatch.InState(string(state)))
		if err != nil {
			failed[""] = fmt.Errorf("list captains: %w", err)
			continue
		}
		for _, k := range busy {
			wait.Go(func() {
				err := s.StopCaptain(ctx, by, k.Value.ID)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed[k.Value.ID] = err
					return
				}
				stopped++
			})
		}
	}
	wait.Wait()
	return stopped, failed
}

// RetryLanding lands a mission again that failed to, and gives it as it ended.
func (s *System) RetryLanding(ctx context.Context, by broker.Principal, id string) (dispatch.Mission, error) {
	m, err := s.mission(id)
	if err != nil {
		return m, err
	}
	err = errAgain
	for errors.Is(err, errAgain) { // a procedure that was under way has ended
		err = s.ask(ctx, &ask{mission: id, hold: hold{vessel: m.VesselID}, task: func(ctx context.Context, recorded func()) error {
			if err := s.unland(by, id); err != nil {
				return err
			}
			return s.landing(id)(ctx, recorded)
		}})
	}
	if err != nil {
		return m, err
	}
	return s.mission(id)
}

// unland makes a mission that failed to land WorkProduced again, and leads its
// voyage on.
func (s *System) unland(by broker.Principal, id string) error {
	_, err := s.commit(s.ctx, func(b *sheet) error {
		m, err := b.mission(id)
		if err != nil {
			return missing(err, broker.CodeMissionNotFound, "Mission not found", "MissionId", id)
		}
		if m.Status != dispatch.MissionLandingFailed {
			return broker.Refuse(broker.CodeMissionNotLandingFailed, "The mission is "+string(m.Status)+"; only a landing that failed is tried again.", map[string]any{"MissionId": id, "Status": m.Status})
		}
		next, err := m.Step(dispatch.MissionWorkProduced, "", "", b.at)
		if err != nil {
			return err
		}
		b.step(m.Status, next)
		s.opts.Agents.Note(id, "Landing is tried again, for "+by.Key()+".")
		return b.reopen(next)
	})
	return err
}
