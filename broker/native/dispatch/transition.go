package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// This file is what a person does to a mission's status by hand. The one path is
// the tool's and the operator API's.

func (f *Family) transitionMission(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		Status string `json:"status"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	statuses := dispatch.MissionStatuses()
	at := slices.IndexFunc(statuses, func(s dispatch.MissionStatus) bool {
		return strings.EqualFold(string(s), strings.TrimSpace(args.Status))
	})
	if at < 0 {
		return nil, broker.Refuse(broker.CodeInvalidStatus, "There is no such status of missions.", map[string]any{"Statuses": statuses})
	}
	to := statuses[at]
	if to == dispatch.MissionCancelled && kept.Value.Status.Final() {
		return nil, badStep(kept.Value, to, "") // cancel_mission alone may be repeated
	}
	if to == dispatch.MissionCancelled {
		return f.cancelled(ctx, who, kept.Value)
	}
	var next dispatch.Mission
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		if kept, err = read[dispatch.Mission](f, who, kept.Value.ID); err != nil {
			return nil, err
		}
		m := kept.Value
		if next, err = m.StepAsked(to, ask.Now); err != nil || to == dispatch.MissionAssigned {
			return nil, badStep(m, to, "")
		}
		if over, err := f.voyageOver(m); err != nil {
			return nil, err
		} else if over && to.Open() {
			return nil, badStep(m, to, "Its voyage has ended; land it again (retry_landing) or restart it (restart_mission).")
		}
		if to == dispatch.MissionComplete {
			if refusal := f.completable(ctx, m); refusal != nil {
				return nil, refusal
			}
		} else if f.opts.Runner.Running(m.ID) {
			return nil, badStep(m, to, "While its agent works, only the broker changes its status; cancel it (cancel_mission) to stop it.")
		}
		events := []broker.Event{statusChanged(next, m.Status, who)}
		switch to {
		case dispatch.MissionComplete:
			events = append(events, happened(next, "completed", who, "The mission "+next.Title+" was completed by hand."))
		case dispatch.MissionFailed:
			events = append(events, happened(next, "failed", who, "The mission "+next.Title+" was ended as failed by hand."))
		}
		return changes(put(next, kept.Revision, events...))
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return next, nil
}

// voyageOver reports whether the mission's voyage has ended, so that nothing
// would see to a mission of it that goes on.
func (f *Family) voyageOver(m dispatch.Mission) (bool, error) {
	if m.VoyageID == nil {
		return false, nil
	}
	kept, err := dispatch.Read[dispatch.Voyage](f.store, *m.VoyageID)
	if err != nil && !errors.Is(err, broker.ErrRecordNotFound) {
		return false, f.unreadable(err)
	}
	return kept.Value.Status.Over(), nil
}

// badStep refuses a step that the table of missions does not have, or that is
// the broker's alone.
func badStep(m dispatch.Mission, to dispatch.MissionStatus, action string) *broker.Refusal {
	detail := map[string]any{"MissionId": m.ID, "From": m.Status, "To": to}
	if action != "" {
		detail["Action"] = action
	}
	return broker.Refuse(broker.CodeInvalidTransition, "A mission that is "+string(m.Status)+" is not made "+string(to)+" by hand.", detail)
}

// completable is the gates of a manual completion, in the contract's order: the
// first that does not pass is the answer.
func (f *Family) completable(ctx context.Context, m dispatch.Mission) *broker.Refusal {
	blocked := func(code broker.Code) *broker.Refusal {
		return broker.Refuse(code, "Manual completion blocked: "+string(code), map[string]any{"Reason": code, "MissionId": m.ID})
	}
	judged, err := f.awaitsJudge(m)
	if err != nil {
		return broker.AsRefusal(f.unreadable(err))
	}
	vessel, err := dispatch.Read[dispatch.Vessel](f.store, m.VesselID)
	gone := errors.Is(err, broker.ErrRecordNotFound)
	if err != nil && !gone {
		return broker.AsRefusal(f.unreadable(err))
	}
	switch {
	case m.Status == dispatch.MissionReview:
		return blocked(broker.CodeCompletionReview)
	case judged:
		return blocked(broker.CodeCompletionJudge)
	case f.opts.Runner.Running(m.ID):
		return blocked(broker.CodeCompletionCaptain)
	case vessel.Value.ChecksToLand: // and this build has no checks that could pass
		return blocked(broker.CodeCompletionCheck)
	}
	if code := f.landed(ctx, m, vessel.Value, gone); code != "" {
		return blocked(code)
	}
	return nil
}

// awaitsJudge reports whether a Judge is to say what becomes of a mission's work
// and has not said it.
func (f *Family) awaitsJudge(m dispatch.Mission) (bool, error) {
	after, err := dispatch.ReadAll[dispatch.Mission](f.store, dispatch.After(m.ID))
	return slices.ContainsFunc(after, func(k dispatch.Kept[dispatch.Mission]) bool {
		return k.Value.Persona == dispatch.Judge && k.Value.Status != dispatch.MissionComplete
	}), err
}

// landed gives why a mission's commit keeps it from being called complete; "":
// it is in the history of the default branch, a dock will land it, or the
// mission delivers no commit.
func (f *Family) landed(ctx context.Context, m dispatch.Mission, v dispatch.Vessel, gone bool) broker.Code {
	if m.Mode == dispatch.Audit || m.Mode == dispatch.Research {
		return ""
	}
	docks, err := dispatch.ReadAll[dispatch.Dock](f.store, dispatch.OfMission(m.ID))
	if err != nil || gone || m.Commit == nil || f.opts.Refs == nil {
		return broker.CodeCompletionAncestry
	}
	if v.LandingMode != dispatch.LandNone && slices.ContainsFunc(docks, func(d dispatch.Kept[dispatch.Dock]) bool { return d.Value.State == dispatch.DockLeased }) {
		return ""
	}
	ctx, cancel := f.opts.Within(ctx, checkTime)
	defer cancel()
	in, err := f.opts.Refs.Landed(ctx, v, *m.Commit)
	switch {
	case err != nil:
		f.opts.Log.Warn("it could not be found out whether a commit was landed", slog.String("mission", m.ID), slog.String("cause", err.Error()))
		return broker.CodeCompletionAncestry
	case !in:
		return broker.CodeCompletionNotLanded
	}
	return ""
}
