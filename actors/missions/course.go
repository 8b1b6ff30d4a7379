package missions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// course is the work on one mission from its assignment to the release of all
// that it took. One goroutine goes through it.
type course struct {
	sys      *System
	id       string // of the mission
	dock     string // the new dock's id: it names this assignment
	captain  string
	path     string
	w        Work
	launched bool

	heard   atomic.Int64  // when the last line came, unix nanoseconds
	line    chan struct{} // capacity 1: one came
	agent   Agent
	stalled bool            // as the captain's record says
	noted   int64           // the line that the record knows of
	fault   *dispatch.Fault // what collecting found the mission to end with
}

// cutOff is what becomes of a mission whose work is cut short.
type cutOff struct {
	to      dispatch.MissionStatus
	reason  dispatch.FailureReason
	message string
}

// Error makes it a cause.
func (c *cutOff) Error() string { return string(c.reason) }

var errTimeout = &cutOff{dispatch.MissionFailed, dispatch.MissionTimeout, "The mission did not end in its time."}

// cancelledBy is the cause of a caller's cancel.
func cancelledBy(by broker.Principal, reason dispatch.FailureReason) *cutOff {
	return &cutOff{dispatch.MissionCancelled, reason, "It was cancelled by " + by.Key() + "."}
}

// verdict is what the work came to.
type verdict struct {
	cutOff
	found Collected
}

func (c *course) failed(reason dispatch.FailureReason, message string) verdict {
	return verdict{cutOff: cutOff{dispatch.MissionFailed, reason, message}}
}

// run takes the mission and sees it to its end. ctx ends when the work is to be
// cut short; what is written about its end does not end with it.
func (c *course) run(ctx context.Context, recorded func()) error {
	s := c.sys
	c.line = make(chan struct{}, 1)
	if err := c.assign(ctx); err != nil {
		if errors.Is(err, errLost) || errors.Is(err, broker.ErrRecordNotFound) {
			return nil // the next pass sees what it has become
		}
		return fmt.Errorf("assign a mission: %w", err)
	}
	v := c.guardedWork(ctx)
	if s.opts.Tokens != nil {
		s.opts.Tokens.Revoke(c.id)
	}
	if s.ctx.Err() != nil {
		return errStopping
	}
	landed, err := c.finish(v)
	if err != nil {
		return err
	}
	recorded()
	return s.reclaimed(c.w.Dock, landed)
}

// guardedWork is work whose panic ends the mission and leaves no agent.
func (c *course) guardedWork(ctx context.Context) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			c.sys.log.Error("the procedure of a mission panicked", slog.String("mission", c.id), slog.String("panic", fmt.Sprint(r)))
			if c.agent != nil {
				c.kill()
			}
			v = c.failed(dispatch.LaunchFailed, "The broker failed to carry on this mission; its log has the details.")
		}
	}()
	return c.work(ctx)
}

// assign takes mission, captain and dock in one step, or nothing.
func (c *course) assign(ctx context.Context) error {
	b, err := c.sys.commit(ctx, func(b *sheet) error {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		return c.take(b)
	})
	if err == nil {
		c.w.Mission, c.w.Dock, c.w.Captain = b.missions.kept[c.id].Value, b.docks.kept[c.dock].Value, b.captains.kept[c.captain].Value
	}
	return err
}

func (c *course) take(b *sheet) error {
	m, err := b.mission(c.id)
	if err != nil {
		return err
	}
	captain, err := b.captains.get(b.store(), c.captain)
	if err != nil {
		return err
	}
	voyage, err := b.voyage(m)
	if err != nil {
		return err
	}
	if _, fits := dispatch.Pick(m, []dispatch.Captain{captain}); !fits || m.Status != dispatch.MissionPending || b.sys.calledOff(m) || voyage != nil && (!voyage.Materialized || voyage.Status == dispatch.VoyageCancelled) {
		return errLost
	}
	if c.w.Vessel, err = b.sys.vessel(m.VesselID); err != nil {
		return err
	}
	branch, err := c.branch(b, m)
	if err != nil {
		return err
	}
	if err := b.dropDocks(m.ID); err != nil {
		return err
	}
	next, err := m.Step(dispatch.MissionAssigned, "", "", b.at)
	if err != nil {
		return err
	}
	next.Assignment, next.CaptainID, next.DockID = dispatch.Provisioning, &captain.ID, &c.dock
	if captain, err = captain.Step(dispatch.CaptainWorking); err != nil {
		return err
	}
	captain.MissionID, captain.DockID, captain.LastUpdateUTC = &m.ID, &c.dock, b.at
	b.step(m.Status, next)
	b.captains.put(captain)
	b.docks.put(dispatch.Dock{ID: c.dock, Owner: m.Owner, VesselID: m.VesselID, MissionID: &m.ID, CaptainID: &captain.ID, Path: c.path,
		Branch: branch, State: dispatch.DockProvisioning, CreatedUTC: b.at, UpdatedUTC: b.at})
	if err := b.reopen(next); err != nil {
		return err
	}
	if c.w.Voyage, err = b.voyage(next); err != nil {
		return err
	}
	return nil
}

// branchOf is the branch of a mission that begins one.
func branchOf(mission string) string { return "berth/" + mission }

// branch names the branch that the mission works on, and finds the mission that
// it goes on from. A sole dependant goes on with the branch of the one before;
// of several each begins its own, at that one's commit.
func (c *course) branch(b *sheet, m dispatch.Mission) (string, error) {
	c.w.Before = nil
	if m.DependsOn == nil {
		return branchOf(m.ID), nil
	}
	before, err := b.mission(*m.DependsOn)
	if err != nil {
		return "", err
	}
	if before.Status != dispatch.MissionWorkProduced && before.Status != dispatch.MissionComplete {
		return "", errLost
	}
	if before.Branch == nil || before.VesselID != m.VesselID {
		return branchOf(m.ID), nil // it never ran, or elsewhere: there is nothing to go on from
	}
	c.w.Before = &before
	others, err := b.missions.list(b.sys, dispatch.After(before.ID))
	if err != nil {
		return "", err
	}
	if len(others) > 1 {
		return branchOf(m.ID), nil
	}
	return *before.Branch, nil
}

// dropDocks deletes the records of a mission's earlier docks, which stood where
// its new one will.
func (b *sheet) dropDocks(mission string) error {
	docks, err := b.docks.list(b.sys, dispatch.OfMission(mission))
	if err != nil {
		return err
	}
	for _, d := range docks {
		if d.State != dispatch.DockAvailable && d.State != dispatch.DockFailed {
			return errLost
		}
		b.docks.drop(d.ID)
	}
	return nil
}

// work prepares, launches and watches, and says what it came to.
func (c *course) work(ctx context.Context) verdict {
	if v, ok := c.prepare(ctx); !ok {
		return v
	}
	ctx, done := context.WithTimeoutCause(ctx, c.sys.opts.MissionTimeout, errTimeout)
	defer done()
	if v, ok := c.launch(ctx); !ok {
		return v
	}
	if err := c.begun(ctx); err == nil {
		err = c.watch(ctx)
		if err == nil { // it ended by itself
			return c.judged(c.agent.End())
		}
	}
	why := context.Cause(ctx)
	c.kill()
	return c.cutShort(why)
}

// cutShort is the verdict on work that did not come to its end, because of why.
func (c *course) cutShort(why error) verdict {
	v := verdict{}
	if off := (*cutOff)(nil); errors.As(why, &off) {
		v.cutOff = *off
	}
	if c.launched && c.sys.ctx.Err() == nil {
		v.found = c.collect(cutLimit)
	}
	return v
}

// stopped is the verdict on a step that failed with err: it was cut short, or
// the mission was moved on, or err says why, or reason does.
func (c *course) stopped(ctx context.Context, err error, reason dispatch.FailureReason, message string) verdict {
	if ctx.Err() != nil || settled(err) {
		return c.cutShort(context.Cause(ctx))
	}
	c.sys.log.Warn("a step of a mission failed", slog.String("mission", c.id), slog.String("reason", string(reason)), slog.String("cause", err.Error()))
	if fault := (*dispatch.Fault)(nil); errors.As(err, &fault) {
		return c.failed(fault.Reason, fault.Message)
	}
	c.sys.opts.Agents.Note(c.id, message+" The cause: "+err.Error())
	return c.failed(reason, message)
}

// started is what an event says of the commit that a mission begins at.
type started struct {
	Ref    *string `json:"StartFromRef"`
	Commit string  `json:"StartCommit"`
	Branch string  `json:"BranchName"`
}

// prepare makes the dock.
func (c *course) prepare(ctx context.Context) (verdict, bool) {
	s := c.sys
	limited, done := context.WithTimeout(ctx, prepareLimit)
	defer done()
	if err := c.freeBranch(limited); err != nil {
		return c.stopped(ctx, err, dispatch.ProvisionFailed, "The worktree could not be made."), false
	}
	prepared, err := s.opts.Docks.Prepare(limited, c.w)
	if err != nil {
		return c.stopped(ctx, err, dispatch.ProvisionFailed, "The worktree could not be made."), false
	}
	for _, warning := range prepared.Warnings {
		s.opts.Agents.Note(c.id, warning)
	}
	b, err := s.surely(ctx, c.id, func(b *sheet) error {
		m, err := c.own(b)
		if err != nil {
			return err
		}
		d, err := b.docks.get(b.store(), c.dock)
		if err != nil {
			return err
		}
		if d.State == dispatch.DockProvisioning {
			if d, err = d.Step(dispatch.DockLeased); err != nil {
				return err
			}
			d.UpdatedUTC = b.at
			b.docks.put(d)
		}
		m.StartCommit, m.Branch, m.Assignment, m.LastUpdateUTC = &prepared.StartCommit, &d.Branch, dispatch.Assigned, b.at
		b.missions.put(m, dispatch.Event(m, "start_ref_resolved", "The mission begins at "+prepared.StartCommit+".", payload(started{m.StartFromRef, prepared.StartCommit, d.Branch})))
		return nil
	})
	if err != nil {
		return c.stopped(ctx, err, "", ""), false
	}
	c.w.Mission, c.w.Dock = b.missions.kept[c.id].Value, b.docks.kept[c.dock].Value
	return verdict{}, true
}

// freeBranch removes what is left of the worktrees of the mission before, which
// would hold the branch that this one goes on with.
func (c *course) freeBranch(ctx context.Context) error {
	if c.w.Before == nil || *c.w.Before.Branch != c.w.Dock.Branch {
		return nil
	}
	docks, err := readAll[dispatch.Dock](c.sys, dispatch.OfMission(c.w.Before.ID))
	if err != nil {
		return err
	}
	for _, k := range docks {
		if err := c.sys.opts.Docks.Reclaim(ctx, c.w.Vessel, k.Value, false); err != nil {
			return fmt.Errorf("remove the worktree of the mission before: %w", err)
		}
	}
	return nil
}

// own reads the mission, if this assignment still works on it.
func (c *course) own(b *sheet) (dispatch.Mission, error) {
	m, err := b.mission(c.id)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return m, errLost
	}
	if err == nil && (m.DockID == nil || *m.DockID != c.dock || !m.Status.Live() && m.Status != dispatch.MissionWorkProduced) {
		return m, errLost
	}
	return m, err
}

// launch starts the agent.
func (c *course) launch(ctx context.Context) (verdict, bool) {
	s := c.sys
	limited, done := context.WithTimeout(ctx, briefLimit)
	defer done()
	brief, err := s.opts.Briefs.Brief(limited, c.w)
	if err != nil {
		return c.stopped(ctx, err, dispatch.LaunchFailed, "The brief could not be written."), false
	}
	token := ""
	if s.opts.Deliver {
		why := ""
		if token, why = s.opts.Tokens.Issue(c.w.Mission); token == "" {
			s.opts.Agents.Note(c.id, strings.TrimSpace("The agent gets no token. "+why))
		}
	}
	starting, started := context.WithTimeout(ctx, startLimit)
	defer started()
	if ctx.Err() != nil {
		return c.cutShort(context.Cause(ctx)), false
	}
	c.heard.Store(s.now().UnixNano())
	agent, err := s.opts.Agents.Start(starting, c.w, brief, token, c.hear)
	if err != nil {
		return c.stopped(ctx, err, dispatch.LaunchFailed, "The agent's program could not be started."), false
	}
	c.agent, c.launched = agent, true
	return verdict{}, true
}

// hear takes a line of the agent.
func (c *course) hear(Beat) {
	c.heard.Store(c.sys.now().UnixNano())
	select {
	case c.line <- struct{}{}:
	default:
	}
}

// begun writes that the agent runs.
func (c *course) begun(ctx context.Context) error {
	pid, at := c.agent.PID(), shown(c.agent.Started())
	b, err := c.sys.surely(ctx, c.id, func(b *sheet) error {
		m, err := c.own(b)
		if err != nil {
			return err
		}
		captain, err := c.mine(b)
		if err != nil {
			return err
		}
		if m.Status == dispatch.MissionAssigned {
			next, err := m.Step(dispatch.MissionInProgress, "", "", b.at)
			if err != nil {
				return err
			}
			next.ProcessID, next.ProcessStarted = &pid, &at
			b.step(m.Status, next)
		}
		if captain != nil {
			captain.ProcessID, captain.ProcessStarted, captain.LastHeartbeat, captain.LastUpdateUTC = &pid, &at, &b.at, b.at
			b.captains.put(*captain, dispatch.Event(*captain, "launched", "The captain "+captain.Name+" was launched.", payload(map[string]int{"ProcessId": pid})))
		}
		return nil
	})
	if err == nil {
		c.w.Mission = b.missions.kept[c.id].Value
	}
	return err
}

// mine reads the captain, if this assignment still has it; nil: it has not.
func (c *course) mine(b *sheet) (*dispatch.Captain, error) {
	captain, err := b.captains.get(b.store(), c.captain)
	if errors.Is(err, broker.ErrRecordNotFound) || err == nil && (captain.DockID == nil || *captain.DockID != c.dock) {
		return nil, nil
	}
	return &captain, err
}

// kill ends the agent with every descendant. It is tried until none is left, or
// until who stops the system waits no longer.
func (c *course) kill() {
	retry := newBackoff()
	for {
		ctx, done := context.WithTimeout(context.Background(), killLimit)
		err := c.agent.Stop(ctx)
		done()
		if err == nil {
			return
		}
		c.sys.log.Error("an agent could not be ended", slog.String("mission", c.id), slog.Int("pid", c.agent.PID()), slog.String("cause", err.Error()))
		wait := time.NewTimer(retry.NextBackOff())
		select {
		case <-c.agent.Done():
			wait.Stop()
			return
		case <-c.sys.forced:
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}
