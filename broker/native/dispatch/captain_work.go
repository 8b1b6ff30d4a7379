package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// number is a number of a caller, which may be written as 1.0 or 1e3.
type number json.Number

// UnmarshalJSON keeps the number's text.
func (n *number) UnmarshalJSON(raw []byte) error {
	*n = number(raw)
	return nil
}

// within is the number, or otherwise when none was given; one outside is the
// nearest one inside.
func (n number) within(otherwise, low, high int) int {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && f == 0 {
		return otherwise
	}
	return int(min(max(f, float64(low)), float64(high)))
}

func (f *Family) captainWorkVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Read, f.captainLog, "get_captain_log", "A captain's log", "Lines of the log of the mission that a captain works on, or of the last one that it had.", append([]property{captainID}, linesProperties...)...),
		verb(broker.Read, f.captainDiagnostics, "captain_diagnostics", "What a captain does", "A captain's state, its mission and dock, and what git says of the worktree.", captainID),
		verb(broker.Interrupt|broker.Write, f.stopCaptain, "stop_captain", "Stop a captain", "Kill the process of a captain; its mission ends Cancelled. One that does nothing is left alone.", captainID),
		verb(broker.Interrupt|broker.Write, f.stopAll, "stop_all", "Stop all captains", "Kill the processes of all captains; their missions end Cancelled."),
	}
}

// missionOf gives the mission that a captain works on, or the last that it had;
// nil: it never had one.
func (f *Family) missionOf(c dispatch.Captain) (*dispatch.Mission, error) {
	if c.MissionID != nil {
		kept, err := dispatch.Read[dispatch.Mission](f.store, *c.MissionID)
		switch {
		case err == nil:
			return &kept.Value, nil
		case !errors.Is(err, broker.ErrRecordNotFound):
			return nil, f.unreadable(err)
		}
	}
	had, err := list[dispatch.Mission](f, dispatch.OfCaptain(c.ID))
	if err != nil || len(had) == 0 {
		return nil, err
	}
	last := slices.MaxFunc(dispatch.Values(had), func(a, b dispatch.Mission) int {
		if a.AssignedUTC == nil || b.AssignedUTC == nil {
			return a.LastUpdateUTC.Compare(b.LastUpdateUTC)
		}
		return a.AssignedUTC.Compare(*b.AssignedUTC)
	})
	return &last, nil
}

func (f *Family) captainLog(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Captain](f, ask, "captainId")
	if err != nil {
		return nil, err
	}
	out := struct {
		CaptainID string `json:"CaptainId"`
		lines
	}{CaptainID: kept.Value.ID}
	m, err := f.missionOf(kept.Value)
	if err == nil && m != nil {
		out.lines, err = f.logOf(ask, m.ID)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// diagnostics is the answer of captain_diagnostics, in camelCase as the contract
// has it. Null is what is not there or not known.
type diagnostics struct {
	CaptainID    string                `json:"captainId"`
	State        dispatch.CaptainState `json:"state"`
	MissionID    *string               `json:"activeMissionId"`
	MissionTitle *string               `json:"activeMissionTitle"`
	Minutes      *int                  `json:"elapsedMinutes"`
	DockID       *string               `json:"dockId"`
	DockPath     *string               `json:"dockPath"`
	GitStatus    *string               `json:"dockGitStatus"`
	GitError     *string               `json:"dockGitStatusError"`
	Uncommitted  *bool                 `json:"hasUncommittedDockChanges"`
	CodeIndex    any                   `json:"codeIndex"`
}

func (f *Family) captainDiagnostics(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Captain](f, ask, "captainId")
	if err != nil {
		return nil, err
	}
	c := kept.Value
	out := diagnostics{CaptainID: c.ID, State: c.State, MissionID: c.MissionID, DockID: c.DockID}
	if c.MissionID == nil {
		return out, nil
	}
	m, err := dispatch.Read[dispatch.Mission](f.store, *c.MissionID)
	if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
		return nil, f.unreadable(err)
	}
	if err == nil {
		out.MissionTitle = &m.Value.Title
		if m.Value.StartedUTC != nil {
			minutes := max(0, int(ask.Now.Sub(*m.Value.StartedUTC).Minutes()))
			out.Minutes = &minutes
		}
		out.CodeIndex = f.indexOf(ctx, m.Value.VesselID)
	}
	if c.DockID == nil {
		return out, nil
	}
	d, err := dispatch.Read[dispatch.Dock](f.store, *c.DockID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return out, nil
	} else if err != nil {
		return nil, f.unreadable(err)
	}
	out.DockPath = &d.Value.Path
	ctx, cancel := f.opts.Within(ctx, checkTime)
	defer cancel()
	status, dirty, err := f.opts.Papers.DockStatus(ctx, d.Value)
	if err != nil {
		f.opts.Log.Warn("the worktree of a captain could not be read", slog.String("captain", c.ID), slog.String("cause", err.Error()))
		words := "git could not read the worktree; the log has the details"
		out.GitError = &words
		return out, nil
	}
	out.GitStatus, out.Uncommitted = &status, &dirty
	return out, nil
}

// indexOf tells of the code index of a vessel; nil: nothing is known of it.
func (f *Family) indexOf(ctx context.Context, vesselID string) any {
	v, err := dispatch.Read[dispatch.Vessel](f.store, vesselID)
	if err != nil || f.opts.Index == nil {
		return nil
	}
	ctx, cancel := f.opts.Within(ctx, guardTime)
	defer cancel()
	state, err := f.opts.Index.Freshness(ctx, v.Value)
	if err != nil {
		return nil
	}
	return struct {
		VesselID  string `json:"vesselId"`
		Freshness string `json:"freshness"`
	}{v.Value.ID, state.Freshness}
}

func (f *Family) stopCaptain(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Captain](f, ask, "captainId")
	if err != nil {
		return nil, err
	}
	if kept.Value.State.Busy() {
		if err := f.opts.Runner.StopCaptain(ctx, ask.Call.Principal, kept.Value.ID); err != nil {
			return nil, err
		}
	}
	return struct {
		Status    string `json:"Status"`
		CaptainID string `json:"CaptainId"`
	}{"stopped", kept.Value.ID}, nil
}

// stoppedAll is the answer of stop_all; the numbers stand in it when something
// did not work.
type stoppedAll struct {
	Status   string        `json:"Status"`
	Stopped  *int          `json:"Stopped,omitempty"`
	Failed   *int          `json:"Failed,omitempty"`
	Failures []stopFailure `json:"Failures,omitempty"`
}

type stopFailure struct {
	CaptainID string      `json:"CaptainId"`
	Reason    broker.Code `json:"Reason"`
	Message   string      `json:"Message"`
}

func (f *Family) stopAll(ctx context.Context, ask native.Ask) (any, error) {
	stopped, failed := f.opts.Runner.StopAll(ctx, ask.Call.Principal)
	if len(failed) == 0 {
		return stoppedAll{Status: "all_stopped"}, nil
	}
	n := len(failed)
	out := stoppedAll{Status: "stopped_with_failures", Stopped: &stopped, Failed: &n}
	for id, err := range failed {
		var refusal *broker.Refusal
		if !errors.As(err, &refusal) {
			f.opts.Log.Error("a captain could not be stopped", slog.String("captain", id), slog.String("cause", err.Error()))
			refusal = broker.Refuse(broker.CodeOperationFailed, "The captain could not be stopped; the log has the details.", nil)
		}
		out.Failures = append(out.Failures, stopFailure{id, refusal.Code, refusal.Message})
	}
	slices.SortFunc(out.Failures, func(a, b stopFailure) int {
		if a.CaptainID < b.CaptainID {
			return -1
		}
		return 1
	})
	return out, nil
}
