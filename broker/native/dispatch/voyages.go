package dispatch

import (
	"context"
	"errors"
	"log/slog"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

var voyageID = text("*voyageId", "The Id of the voyage, such as vyg_mpkd6d11_aB3dE6gH9jK.")

const fieldsSchema = `{"type":"array","items":{"type":"string","enum":["titles","statuses","commitHashes","dependsOn","prestaged","persona","model"]},"description":"Only these fields of each mission."}`

func (f *Family) voyageVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Read, f.voyageStatus, "voyage_status", "How a voyage stands", "A voyage and its missions: counts by status, or the missions themselves.", voyageID,
			property{"summary", `{"type":"boolean","default":true,"description":"Counts by status and by what missions wait for."}`}, boolean("includeMissions", "The missions, in the order of their dispatch."),
			boolean("includeDescription", "Their descriptions, cut at 4096 characters."), boolean("includeDiffs", "Their saved diffs, cut."), boolean("includeLogs", "The ends of their logs, cut."), property{"includeFields", fieldsSchema}),
		verb(broker.Interrupt|broker.Write, f.cancelVoyage, "cancel_voyage", "Cancel a voyage", "Stop a voyage: its processes are killed, then its missions that have not ended are Cancelled. What has ended stays as it is.", voyageID),
		verb(broker.Destroy, func(ctx context.Context, ask native.Ask) (any, error) {
			id, err := idOf(ask, "voyageId")
			if err != nil {
				return nil, err
			}
			n, err := f.dropVoyage(ctx, ask.Call.Principal, id)
			if err != nil {
				return nil, err
			}
			return purgedVoyage{"deleted", id, n}, nil
		}, "purge_voyage", "Delete a voyage", "Delete a voyage that has ended, with its missions, their docks, logs, diffs and outputs.", voyageID),
		verb(broker.Destroy, f.deleteMany(func(ctx context.Context, who broker.Principal, id string) error {
			_, err := f.dropVoyage(ctx, who, id)
			return err
		}), "delete_voyages", "Delete voyages", "Delete several voyages that have ended, each by itself.", idsProperty),
	}
}

// voyageStanding is the answer of voyage_status; what was not asked for is left
// out.
type voyageStanding struct {
	Voyage       VoyageRow                      `json:"Voyage"`
	Total        *int                           `json:"TotalMissions,omitempty"`
	ByStatus     map[dispatch.MissionStatus]int `json:"MissionCountsByStatus,omitempty"`
	ByAssignment map[dispatch.Assignment]int    `json:"MissionCountsByAssignmentState,omitempty"`
	Missions     *[]MissionRow                  `json:"Missions,omitempty"`
}

func (f *Family) voyageStatus(_ context.Context, ask native.Ask) (any, error) {
	var args struct {
		Summary     *bool    `json:"summary"`
		Missions    bool     `json:"includeMissions"`
		Description bool     `json:"includeDescription"`
		Diffs       bool     `json:"includeDiffs"`
		Logs        bool     `json:"includeLogs"`
		Fields      []string `json:"includeFields"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	kept, err := named[dispatch.Voyage](f, ask, "voyageId")
	if err != nil {
		return nil, err
	}
	missions, err := list[dispatch.Mission](f, dispatch.OfVoyage(kept.Value.ID))
	if err != nil {
		return nil, err
	}
	total := len(missions)
	out := voyageStanding{Voyage: voyageRow(kept.Value, args.Description)}
	if args.Summary == nil || *args.Summary {
		out.Total, out.ByStatus, out.ByAssignment = &total, map[dispatch.MissionStatus]int{}, map[dispatch.Assignment]int{}
		for _, m := range missions {
			out.ByStatus[m.Value.Status]++
			out.ByAssignment[m.Value.Assignment]++
		}
	}
	if !args.Missions {
		out.Total = &total
		return out, nil
	}
	rows := make([]MissionRow, 0, total)
	for _, m := range missions {
		row := missionRow(m.Value, args.Description)
		if args.Diffs {
			if diff, ok, err := f.diff(m.Value); err != nil {
				return nil, f.paperless(m.Value.ID, err)
			} else if ok {
				row.Diff = cut(diff)
			}
		}
		if args.Logs {
			if row.Log, err = f.logEnd(m.Value.ID); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row.chosen(args.Fields))
	}
	out.Missions = &rows
	return out, nil
}

// logEndLines is how much of a log is shown among others.
const logEndLines = 40

// logEnd gives the last lines of a mission's log; nil: it has none.
func (f *Family) logEnd(missionID string) (*cutText, error) {
	_, _, total, err := f.opts.Papers.Log(missionID, 0, 1)
	if err != nil || total == 0 {
		return nil, f.paperless(missionID, err)
	}
	text, _, _, err := f.opts.Papers.Log(missionID, max(0, total-logEndLines), logEndLines)
	if err != nil {
		return nil, f.paperless(missionID, err)
	}
	return cut(text), nil
}

// paperless says that what is kept in files could not be read.
func (f *Family) paperless(missionID string, err error) error {
	if err == nil {
		return nil
	}
	f.opts.Log.Error("what is kept of a mission could not be read", slog.String("mission", missionID), slog.String("cause", err.Error()))
	return broker.Refuse(broker.CodeOperationFailed, "What is kept of the mission in files could not be read; the log has the details.", map[string]any{"MissionId": missionID})
}

// cancelledVoyage is the answer of cancel_voyage.
type cancelledVoyage struct {
	Voyage    dispatch.Voyage `json:"Voyage"`
	Cancelled []string        `json:"CancelledMissions"` // ids of those that this call ended
}

func (f *Family) cancelVoyage(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Voyage](f, ask, "voyageId")
	if err != nil {
		return nil, err
	}
	v, cancelled, err := f.opts.Runner.CancelVoyage(ctx, ask.Call.Principal, kept.Value.ID, dispatch.Cancelled)
	if err != nil {
		return nil, err
	}
	if cancelled == nil {
		cancelled = []string{}
	}
	return cancelledVoyage{v, cancelled}, nil
}

type purgedVoyage struct {
	Status   string `json:"Status"`
	VoyageID string `json:"VoyageId"`
	Missions int    `json:"MissionsDeleted"`
}

// dropVoyage deletes a voyage that has ended with all that belongs to it, and
// gives how many missions that were.
func (f *Family) dropVoyage(ctx context.Context, who broker.Principal, id string) (int, error) {
	var gone []dispatch.Kept[dispatch.Mission]
	plan := func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Voyage](f, who, id)
		if err != nil {
			return nil, err
		}
		if gone, err = list[dispatch.Mission](f, dispatch.OfVoyage(id)); err != nil {
			return nil, err
		}
		inside := map[string]bool{}
		active := []string{}
		for _, m := range gone {
			inside[m.Value.ID] = true
			if m.Value.Status.Live() || f.opts.Runner.Running(m.Value.ID) {
				active = append(active, m.Value.ID)
			}
		}
		if !kept.Value.Status.Over() || len(active) > 0 {
			return nil, broker.Refuse(broker.CodeVoyageActive, "The voyage goes on; nothing was deleted.", map[string]any{"VoyageId": id, "Status": kept.Value.Status, "ActiveMissions": active,
				"Action": "Wait until it has ended, or cancel it (cancel_voyage)."})
		}
		out := []planned{remove(kept, happened(kept.Value, "deleted", who, "The voyage "+kept.Value.Title+" was deleted."))}
		for _, m := range gone {
			if err := f.waitedFor(m.Value, inside); err != nil {
				return nil, err
			}
		}
		for _, m := range gone {
			docks, err := f.docksOf(ctx, who, m.Value)
			if err != nil {
				return nil, err
			}
			out = append(append(out, remove(m)), docks...)
		}
		return changes(out...)
	}
	if err := f.write(ctx, plan); err != nil {
		return 0, err
	}
	var err error
	for _, m := range gone {
		err = errors.Join(err, f.opts.Papers.Remove(m.Value.ID))
	}
	if err != nil {
		f.opts.Log.Warn("what is kept of deleted missions could not be removed", slog.String("voyage", id), slog.String("cause", err.Error()))
	}
	f.wake()
	return len(gone), nil
}

// waitedFor refuses the deletion of a mission that others wait for: they would
// wait for ever. Those that are deleted with it are none of them.
func (f *Family) waitedFor(m dispatch.Mission, but map[string]bool) error {
	after, err := list[dispatch.Mission](f, dispatch.After(m.ID))
	if err != nil {
		return err
	}
	waiting := []string{}
	for _, other := range dispatch.Values(after) {
		if other.Status == dispatch.MissionPending && !but[other.ID] {
			waiting = append(waiting, other.ID)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return broker.Refuse(broker.CodeMissionActive, "Missions that have not begun go on from this one; nothing was deleted.", map[string]any{"MissionId": m.ID, "WaitingMissions": waiting,
		"Action": "Cancel them first, or have them depend on another one (update_mission)."})
}

// docksOf gives the changes that delete a mission's docks, whose worktrees are
// removed before.
func (f *Family) docksOf(ctx context.Context, who broker.Principal, m dispatch.Mission) ([]planned, error) {
	docks, err := list[dispatch.Dock](f, dispatch.OfMission(m.ID))
	if err != nil {
		return nil, err
	}
	var out []planned
	for _, d := range docks {
		if d, err = f.emptied(ctx, who, d); err != nil {
			return nil, err
		}
		out = append(out, remove(d))
	}
	return out, nil
}
