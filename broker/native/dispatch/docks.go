package dispatch

import (
	"context"
	"errors"
	"log/slog"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

var dockID = text("*dockId", "The Id of the dock, such as dck_mpkd6d11_aB3dE6gH9jK.")

func (f *Family) dockVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Read, f.getDock, "get_dock", "A dock", "One dock: the worktree of a mission, its branch and its state.", dockID),
		verb(broker.Destroy, f.dropped("deleted", f.dropDock), "delete_dock", "Delete a dock", "Delete a dock that no mission has, with its worktree. Its branch stays.", dockID),
		verb(broker.Destroy, f.deleteMany(f.dropDock), "delete_docks", "Delete docks", "Delete several docks, each by itself.", idsProperty),
		verb(broker.Destroy, f.dropped("purged", f.purgeDock), "purge_dock", "Purge a dock", "Delete a dock with its worktree, whatever state they are in, unless a process of its mission lives.", dockID),
		verb(broker.Write, f.repairDock, "repair_dock", "Repair a dock", "Make the missing worktree of a dock anew from its branch. Refused while a mission has it.", dockID),
		verb(broker.Destroy, f.unstickDock, "unstick_dock", "Free a dock", "Free a dock whose mission has ended and whose process is gone.", dockID),
	}
}

func (f *Family) getDock(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Dock](f, ask, "dockId")
	if err != nil {
		return nil, err
	}
	return kept.Value, nil
}

// dropped answers the verb that one dock is taken away with.
func (f *Family) dropped(word string, drop func(context.Context, broker.Principal, string) error) func(context.Context, native.Ask) (any, error) {
	return func(ctx context.Context, ask native.Ask) (any, error) {
		id, err := idOf(ask, "dockId")
		if err == nil {
			err = drop(ctx, ask.Call.Principal, id)
		}
		if err != nil {
			return nil, err
		}
		return struct {
			Status string `json:"Status"`
			DockID string `json:"DockId"`
		}{word, id}, nil
	}
}

func dockInUse(d dispatch.Dock) *broker.Refusal {
	return broker.Refuse(broker.CodeDockInUse, "A mission has the dock; nothing was changed.", map[string]any{"DockId": d.ID, "State": d.State, "MissionId": d.MissionID,
		"Action": "Wait until the mission has ended, or cancel it (cancel_mission)."})
}

// lives reports whether a process of the dock's mission is there, or a step of
// its procedure goes on.
func (f *Family) lives(d dispatch.Dock) bool {
	return d.MissionID != nil && f.opts.Runner.Running(*d.MissionID)
}

func (f *Family) dropDock(ctx context.Context, who broker.Principal, id string) error {
	return f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Dock](f, who, id)
		if err != nil {
			return nil, err
		}
		if s := kept.Value.State; s == dispatch.DockLeased || s == dispatch.DockProvisioning || f.lives(kept.Value) {
			return nil, dockInUse(kept.Value)
		}
		if kept, err = f.emptied(ctx, who, kept); err != nil {
			return nil, err
		}
		return changes(remove(kept, happened(kept.Value, "deleted", who, "The dock was deleted.")))
	})
}

// emptied gives a dock, as it is kept then, once its worktree is gone. One that
// is Available may have one: it was repaired.
func (f *Family) emptied(ctx context.Context, who broker.Principal, kept dispatch.Kept[dispatch.Dock]) (dispatch.Kept[dispatch.Dock], error) {
	if err := f.opts.Runner.Reclaim(ctx, who, kept.Value.ID); err != nil {
		return kept, err
	}
	return read[dispatch.Dock](f, who, kept.Value.ID)
}

// purgeDock deletes a dock even when git is confused: what cannot be undone by
// the rules is logged, and the record goes all the same.
func (f *Family) purgeDock(ctx context.Context, who broker.Principal, id string) error {
	reclaimed := false
	return f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Dock](f, who, id)
		if err != nil {
			return nil, err
		}
		if f.lives(kept.Value) {
			return nil, dockInUse(kept.Value)
		}
		if !reclaimed {
			reclaimed = true
			var refusal *broker.Refusal
			if err := f.opts.Runner.Reclaim(ctx, who, id); errors.As(err, &refusal) && refusal.Code == broker.CodeDockInUse {
				return nil, err
			} else if err != nil {
				f.opts.Log.Warn("the worktree of a purged dock could not be reclaimed", slog.String("dock", id), slog.String("cause", err.Error()))
			}
			if kept, err = read[dispatch.Dock](f, who, id); err != nil {
				return nil, err
			}
		}
		return changes(remove(kept, happened(kept.Value, "purged", who, "The dock was purged.")))
	})
}

func (f *Family) repairDock(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Dock](f, ask, "dockId")
	if err != nil {
		return nil, err
	}
	if s := kept.Value.State; s == dispatch.DockLeased || s == dispatch.DockProvisioning || f.lives(kept.Value) {
		return nil, dockInUse(kept.Value)
	}
	d, err := f.opts.Runner.Repair(ctx, ask.Call.Principal, kept.Value.ID)
	var fault *dispatch.Fault
	switch {
	case errors.As(err, &fault) && fault.Reason == dispatch.StartFromRefMissing:
		return nil, broker.Refuse(broker.CodeDockBranchMissing, "The branch of the dock is gone; there is nothing to make its worktree from.", map[string]any{"DockId": kept.Value.ID, "BranchName": kept.Value.Branch})
	case err != nil:
		return nil, err
	}
	return d, nil
}

func (f *Family) unstickDock(ctx context.Context, ask native.Ask) (any, error) {
	who := ask.Call.Principal
	kept, err := named[dispatch.Dock](f, ask, "dockId")
	if err != nil {
		return nil, err
	}
	d := kept.Value
	if f.lives(d) {
		return nil, dockInUse(d)
	}
	if d.MissionID != nil {
		m, err := dispatch.Read[dispatch.Mission](f.store, *d.MissionID)
		switch {
		case errors.Is(err, broker.ErrRecordNotFound):
		case err != nil:
			return nil, f.unreadable(err)
		case !m.Value.Status.Final():
			return nil, dockInUse(d)
		}
	}
	if kept, err = f.emptied(ctx, who, kept); err != nil {
		return nil, err
	}
	return kept.Value, nil
}
