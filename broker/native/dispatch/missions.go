package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/dispatch"
	"berth/broker/native"
)

var missionID = text("*missionId", "The Id of the mission, such as msn_mpkd6d2a_k4S8tZ1xV7b.")

func (f *Family) missionVerbs() []native.Verb {
	create := verb(broker.Write|broker.Exec, f.createMission, "create_mission", "Create a mission", "Have one mission carried out on a vessel, alone or within a voyage that goes on.",
		text("*title", "At most 200 characters."), text("*description", "What is to be done."), text("*vesselId", "The vessel that it works on."), text("voyageId", "The voyage that it belongs to."),
		text("persona", "Worker when it is not given."), text("mode", "Implementation (when it is not given), Audit or Research."), text("dependsOnMissionId", "The mission on whose branch it goes on."),
		integer("priority", "100 when it is not given; a lower one goes first."), property{"selectedPlaybooks", `{"type":"array","description":"Not built."}`}, text("startFromRef", "Branch, tag or commit that it begins at, when it depends on no mission."))
	restart := verb(broker.Write|broker.Exec, f.restartMission, "restart_mission", "Restart a mission", "Have a mission that ended Failed or Cancelled carried out anew, from its beginning.", missionID,
		text("title", "A new title."), text("description", "A new description."))
	create.Held, restart.Held = true, true
	transition := verb(broker.Write|broker.Interrupt, f.transitionMission, "transition_mission_status", "Change a mission's status", "Put a mission into another status by hand, as its table of transitions allows. Complete must pass the gates of a manual completion; Cancelled stops its process.", missionID,
		text("*status", "The status, such as Complete or Cancelled."))
	transition.Rules = stores(transition.Name)
	return []native.Verb{create, restart, transition,
		verb(broker.Write, f.updateMission, "update_mission", "Change a mission", "Change the given fields of a mission that was not assigned yet; the others stay.", missionID,
			text("title", "At most 200 characters."), text("description", "What is to be done."), integer("priority", "A lower one goes first."), text("branchName", "A branch to note with it. Its agent works on one of its own, which takes its place."),
			text("prUrl", "The pull request of its branch."), text("persona", "Who takes it."), clearable("parentMissionId", "The mission that it is a part of."),
			clearable("dependsOnMissionId", "The mission on whose branch it goes on."), text("vesselId", "The vessel that it works on."), text("voyageId", "The voyage that it belongs to.")),
		verb(broker.Interrupt|broker.Write, f.cancelMission, "cancel_mission", "Cancel a mission", "Stop a mission: its process is killed, then it is Cancelled.", missionID),
		verb(broker.Write|broker.Exec, f.retryLanding, "retry_landing", "Land a mission again", "Try the landing of a mission again that ended LandingFailed, and answer with its end.", missionID),
		verb(broker.Destroy, func(ctx context.Context, ask native.Ask) (any, error) {
			id, err := idOf(ask, "missionId")
			if err == nil {
				err = f.dropMission(ctx, ask.Call.Principal, id)
			}
			if err != nil {
				return nil, err
			}
			return struct {
				Status    string `json:"Status"`
				MissionID string `json:"MissionId"`
			}{"deleted", id}, nil
		}, "purge_mission", "Delete a mission", "Delete a mission that nobody works on, with its docks, log, diff and output.", missionID),
		verb(broker.Destroy, f.deleteMany(f.dropMission), "delete_missions", "Delete missions", "Delete several missions, each by itself.", idsProperty),
	}
}

// stores are the rules by which a change of status only writes: of every status
// that is there, but Cancelled.
func stores(name string) []catalog.EffectRule {
	var statuses []dispatch.MissionStatus
	for _, s := range dispatch.MissionStatuses() {
		if s != dispatch.MissionCancelled {
			statuses = append(statuses, s)
		}
	}
	raw, _ := json.Marshal(statuses) // text
	c, err := condition.Parse("args:/status", condition.In, raw)
	if err != nil {
		panic("the condition of a verb: " + err.Error()) // constants
	}
	return []catalog.EffectRule{{Verb: name, When: []condition.Condition{c}, Is: broker.Write}}
}

// The limits of what a caller says of a mission, in characters.
const (
	maxMissionTitle = 200
	maxPersona      = 100
	maxURL          = 2000
)

// missionArguments are those of create_mission and update_mission.
type missionArguments struct {
	Title       *string         `json:"title"`
	Description *string         `json:"description"`
	VesselID    *string         `json:"vesselId"`
	VoyageID    *string         `json:"voyageId"`
	Persona     *string         `json:"persona"`
	Mode        dispatch.Mode   `json:"mode"`
	DependsOn   *string         `json:"dependsOnMissionId"`
	Parent      *string         `json:"parentMissionId"`
	Priority    *int            `json:"priority"`
	Branch      *string         `json:"branchName"`
	PR          *string         `json:"prUrl"`
	Playbooks   json.RawMessage `json:"selectedPlaybooks"`
	StartRef    string          `json:"startFromRef"`
}

// check judges them by themselves.
func (a missionArguments) check() *broker.Refusal {
	tooLong := func(s *string, limit int) bool { return s != nil && utf8.RuneCountInString(*s) > limit }
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	switch {
	case tooLong(a.Title, maxMissionTitle) || blank(a.Title):
		return invalid("title", fmt.Sprintf("is blank or longer than %d characters", maxMissionTitle))
	case tooLong(a.Description, dispatch.MaxText) || blank(a.Description):
		return invalid("description", fmt.Sprintf("is blank or longer than %d characters", dispatch.MaxText))
	case tooLong(a.Persona, maxPersona) || blank(a.Persona) || a.Persona != nil && strings.ContainsFunc(*a.Persona, unicode.IsControl):
		return invalid("persona", "is blank, too long or holds a control character")
	case a.Mode != "" && !a.Mode.Valid():
		return broker.Refuse(broker.CodeInvalidMissionMode, "The mission has a mode that does not exist.", map[string]any{"Modes": []dispatch.Mode{dispatch.Implementation, dispatch.Audit, dispatch.Research}})
	case a.Branch != nil && dispatch.CheckBranch(*a.Branch) != nil:
		return invalid("branchName", "is no name of a branch")
	case tooLong(a.PR, maxURL) || a.PR != nil && strings.ContainsFunc(*a.PR, unicode.IsControl):
		return invalid("prUrl", "is too long or holds a control character")
	case len(a.Playbooks) > 0 && string(a.Playbooks) != "[]" && string(a.Playbooks) != "null":
		return notBuilt("selectedPlaybooks")
	case a.StartRef != "" && set(a.DependsOn):
		return invalid("startFromRef", "is for a mission that depends on no other: this one goes on from the other's branch")
	}
	return nil
}

func (f *Family) createMission(ctx context.Context, ask native.Ask) (any, error) {
	var a missionArguments
	if err := ask.Decode(&a); err != nil {
		return nil, err
	}
	if refusal := a.check(); refusal != nil {
		return nil, refusal
	}
	who := ask.Call.Principal
	vessel, err := named[dispatch.Vessel](f, ask, "vesselId")
	if err != nil {
		return nil, err
	}
	v := vessel.Value
	if err := f.carriedOut(v); err != nil {
		return nil, err
	}
	id, err := f.newID(dispatch.MissionPrefix, ask.Now)
	if err != nil {
		return nil, err
	}
	m := dispatch.Mission{ID: id, Owner: dispatch.OwnedBy(who), VesselID: v.ID, Title: *a.Title, Description: *a.Description, Mode: cmp.Or(a.Mode, dispatch.Implementation),
		Persona: dispatch.Worker, Priority: defaultPriority, StartFromRef: given(a.StartRef), ContextMode: dispatch.ContextAuto, Prestaged: []dispatch.PrestagedFile{},
		Status: dispatch.MissionPending, Assignment: dispatch.AssignmentPending, CreatedUTC: ask.Now}
	limited, cancel := f.opts.Within(ctx, checkTime)
	commits, _, err := f.resolve(limited, v, []dispatch.AskedMission{{StartFromRef: a.StartRef}})
	cancel()
	if err != nil {
		return nil, err
	}
	if commit, pinned := commits[0]; pinned {
		m.StartCommit = &commit
	}
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		next, voyages, err := f.placed(who, m, a, ask)
		if err != nil {
			return nil, err
		}
		m = next
		return changes(append(voyages, put(m, 0, happened(m, "created", who, "The mission "+m.Title+" was created.")))...)
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return m, nil
}

// placed gives a mission with what was asked for it, and the changes of the
// voyages that it comes into or leaves: they are written with it, so that none
// ends meanwhile without it.
func (f *Family) placed(who broker.Principal, m dispatch.Mission, a missionArguments, ask native.Ask) (dispatch.Mission, []planned, error) {
	from := m.VoyageID
	m.Title, m.Description, m.Persona = cmp.Or(deref(a.Title), m.Title), cmp.Or(deref(a.Description), m.Description), cmp.Or(strings.TrimSpace(deref(a.Persona)), m.Persona)
	m.LastUpdateUTC = ask.Now
	if a.Priority != nil {
		m.Priority = *a.Priority
	}
	if set(a.Branch) {
		m.Branch = a.Branch
	}
	if set(a.PR) {
		m.PRURL = a.PR
	}
	if set(a.VesselID) && strings.TrimSpace(*a.VesselID) != m.VesselID {
		vessel, err := read[dispatch.Vessel](f, who, strings.TrimSpace(*a.VesselID))
		if err != nil {
			return m, nil, err
		}
		if err := f.carriedOut(vessel.Value); err != nil {
			return m, nil, err
		}
		m.VesselID, m.StartCommit = vessel.Value.ID, nil
	}
	if set(a.VoyageID) {
		m.VoyageID = given(strings.TrimSpace(*a.VoyageID))
	}
	voyages, err := f.between(who, from, m, ask)
	if err != nil {
		return m, nil, err
	}
	if m, err = f.related(who, m, a); err != nil {
		return m, nil, err
	}
	return m, voyages, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// between are the changes of the voyage that a mission was in and of the one
// that it is to be in, which must go on and be of its vessel.
func (f *Family) between(who broker.Principal, from *string, m dispatch.Mission, ask native.Ask) (out []planned, err error) {
	if from != nil && deref(from) != deref(m.VoyageID) {
		if left, err := read[dispatch.Voyage](f, who, *from); err == nil {
			left.Value.LastUpdateUTC = ask.Now
			out = append(out, put(left.Value, left.Revision))
		}
	}
	if m.VoyageID == nil {
		return out, nil
	}
	kept, err := read[dispatch.Voyage](f, who, *m.VoyageID)
	switch {
	case err != nil:
		return nil, err
	case kept.Value.Status.Over():
		return nil, invalid("voyageId", "names a voyage that has ended")
	case kept.Value.VesselID != m.VesselID:
		return nil, invalid("voyageId", "names a voyage of another vessel")
	}
	kept.Value.LastUpdateUTC = ask.Now
	return append(out, put(kept.Value, kept.Revision)), nil
}

// related gives the mission with the missions that it depends on and is a part
// of, which the caller must know of.
func (f *Family) related(who broker.Principal, m dispatch.Mission, a missionArguments) (dispatch.Mission, error) {
	if a.DependsOn != nil {
		m.DependsOn = given(strings.TrimSpace(*a.DependsOn))
	}
	switch moved := a.DependsOn != nil || set(a.VesselID); {
	case moved && m.DependsOn != nil:
		if _, err := f.dependency(who, m.VesselID, *m.DependsOn, nil); err != nil {
			return m, err
		}
		if ring, err := f.ring(who, m); err != nil || ring != nil {
			return m, cmp.Or(err, error(broker.Refuse(broker.CodeMissionAliasCycle, "Missions would depend on each other in a ring; nothing was written.", map[string]any{"Missions": ring})))
		}
		m.Assignment, m.StartFromRef, m.StartCommit = dispatch.WaitingForMission, nil, nil
	case moved:
		m.Assignment = dispatch.AssignmentPending
	}
	if a.Parent == nil {
		return m, nil
	}
	if m.ParentID = given(strings.TrimSpace(*a.Parent)); m.ParentID != nil {
		parent, err := read[dispatch.Mission](f, who, *m.ParentID)
		if err != nil || parent.Value.ID == m.ID {
			if r := broker.AsRefusal(err); err == nil || r.Code == broker.CodeMissionNotFound {
				err = notFound(dispatch.KindMission, broker.CodeParentNotFound, *m.ParentID)
			}
			return m, err
		}
	}
	return m, nil
}

// ring gives the missions of a circle that m would be in, or nil.
func (f *Family) ring(who broker.Principal, m dispatch.Mission) ([]string, error) {
	walked := []string{m.ID}
	for at := m.DependsOn; at != nil; {
		if slices.Contains(walked, *at) {
			return walked, nil
		}
		walked = append(walked, *at)
		kept, err := dispatch.Read[dispatch.Mission](f.store, *at)
		if err != nil {
			return nil, nil // what it depended on was deleted
		}
		at = kept.Value.DependsOn
	}
	return nil, nil
}

func (f *Family) updateMission(ctx context.Context, ask native.Ask) (any, error) {
	var a missionArguments
	if err := ask.Decode(&a); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	a.Mode, a.StartRef, a.Playbooks = "", "", nil // not of this verb
	if refusal := a.check(); refusal != nil {
		return nil, refusal
	}
	var next dispatch.Mission
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		if kept, err = read[dispatch.Mission](f, who, kept.Value.ID); err != nil {
			return nil, err
		}
		if m := kept.Value; m.Status != dispatch.MissionPending {
			return nil, broker.Refuse(broker.CodeMissionNotEditable, "The mission is "+string(m.Status)+"; only one that is Pending can be changed.", map[string]any{"MissionId": m.ID, "Status": m.Status})
		}
		var voyages []planned
		if next, voyages, err = f.placed(who, kept.Value, a, ask); err != nil {
			return nil, err
		}
		return changes(append(voyages, put(next, kept.Revision, happened(next, "updated", who, "The mission "+next.Title+" was changed.")))...)
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return next, nil
}

func (f *Family) restartMission(ctx context.Context, ask native.Ask) (any, error) {
	var a missionArguments
	if err := ask.Decode(&a); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	a = missionArguments{Title: a.Title, Description: a.Description}
	if refusal := a.check(); refusal != nil {
		return nil, refusal
	}
	var next dispatch.Mission
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		if kept, err = read[dispatch.Mission](f, who, kept.Value.ID); err != nil {
			return nil, err
		}
		voyage, err := f.restartable(kept.Value, ask)
		if err != nil {
			return nil, err
		}
		from := kept.Value.Status
		if next, err = kept.Value.Restarted(ask.Now); err != nil {
			return nil, err
		}
		next.Title, next.Description = cmp.Or(deref(a.Title), next.Title), cmp.Or(deref(a.Description), next.Description)
		return changes(append(voyage, put(next, kept.Revision, statusChanged(next, from, who)))...)
	})
	if err != nil {
		return nil, err
	}
	if f.opts.Board != nil {
		if err := f.opts.Board.Restarted(ctx, who, next); err != nil { // the mission is restarted all the same
			f.opts.Log.Warn("the board did not take the signal of a restart", slog.String("mission", next.ID), slog.String("cause", err.Error()))
		}
	}
	f.wake()
	return next, nil
}

// restartable gives the change of the voyage that goes on when a mission of it
// is restarted, or says why that cannot be.
func (f *Family) restartable(m dispatch.Mission, ask native.Ask) ([]planned, error) {
	refuse := func(message string, detail map[string]any) *broker.Refusal {
		detail["MissionId"], detail["Status"] = m.ID, m.Status
		return broker.Refuse(broker.CodeMissionNotRestartable, message, detail)
	}
	if _, err := m.Restarted(ask.Now); err != nil {
		return nil, refuse("The mission is "+string(m.Status)+"; only one that is Failed or Cancelled can be restarted.", map[string]any{})
	}
	if f.opts.Runner.Running(m.ID) {
		return nil, refuse("The mission's end is still being seen to; restart it in a moment.", map[string]any{}).Retry(time.Second)
	}
	if m.DependsOn != nil {
		dep, err := dispatch.Read[dispatch.Mission](f.store, *m.DependsOn)
		switch {
		case errors.Is(err, broker.ErrRecordNotFound):
			return nil, refuse("The mission that it depends on was deleted; dispatch it anew.", map[string]any{"DependsOnMissionId": *m.DependsOn})
		case err != nil:
			return nil, f.unreadable(err)
		}
		if s := dep.Value.Status; s == dispatch.MissionFailed || s == dispatch.MissionCancelled {
			return nil, refuse("The mission that it depends on ended "+string(s)+"; restart that one first.", map[string]any{"DependsOnMissionId": dep.Value.ID, "DependencyStatus": s})
		}
	}
	if m.VoyageID == nil {
		return nil, nil
	}
	kept, err := dispatch.Read[dispatch.Voyage](f.store, *m.VoyageID)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		return nil, refuse("Its voyage was deleted; dispatch the mission anew.", map[string]any{"VoyageId": *m.VoyageID})
	case err != nil:
		return nil, f.unreadable(err)
	}
	v := kept.Value
	if v.Status == dispatch.VoyageFailed {
		if v, err = v.Step(dispatch.VoyageInProgress, ask.Now); err != nil {
			return nil, err
		}
		v.Reason = nil
	}
	if v.Status.Over() {
		return nil, refuse("Its voyage ended "+string(v.Status)+" and cannot go on; dispatch the mission anew.", map[string]any{"VoyageId": v.ID, "VoyageStatus": v.Status})
	}
	v.LastUpdateUTC = ask.Now
	return []planned{put(v, kept.Revision)}, nil
}

// statusChanged is the event of a mission that somebody put into another status.
func statusChanged(m dispatch.Mission, from dispatch.MissionStatus, by broker.Principal) broker.Event {
	payload, _ := json.Marshal(map[string]any{"By": by.Key(), "From": from, "To": m.Status}) // text
	return dispatch.Event(m, "status_changed", fmt.Sprintf("The mission %s went from %s to %s.", m.Title, from, m.Status), payload)
}

func (f *Family) cancelMission(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	return f.cancelled(ctx, ask.Call.Principal, kept.Value)
}

func (f *Family) cancelled(ctx context.Context, who broker.Principal, m dispatch.Mission) (any, error) {
	if m.Status == dispatch.MissionComplete || m.Status == dispatch.MissionFailed {
		return nil, broker.Refuse(broker.CodeMissionTerminal, "The mission has ended "+string(m.Status)+" and cannot be cancelled.", map[string]any{"MissionId": m.ID, "Status": m.Status})
	}
	m, err := f.opts.Runner.CancelMission(ctx, who, m.ID)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (f *Family) retryLanding(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	if m := kept.Value; m.Status != dispatch.MissionLandingFailed {
		return nil, broker.Refuse(broker.CodeMissionNotLandingFailed, "The mission is "+string(m.Status)+"; only a landing that failed can be tried again.", map[string]any{"MissionId": m.ID, "Status": m.Status})
	}
	m, err := f.opts.Runner.RetryLanding(ctx, ask.Call.Principal, kept.Value.ID)
	if err != nil {
		return nil, err
	}
	return struct {
		Success bool             `json:"Success"`
		Mission dispatch.Mission `json:"Mission"`
	}{m.Status == dispatch.MissionComplete, m}, nil
}

// dropMission deletes a mission that nobody works on with all that belongs to it.
func (f *Family) dropMission(ctx context.Context, who broker.Principal, id string) error {
	err := f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Mission](f, who, id)
		if err != nil {
			return nil, err
		}
		m := kept.Value
		if m.Status.Live() || f.opts.Runner.Running(id) {
			return nil, broker.Refuse(broker.CodeMissionActive, "The mission is being worked on; nothing was deleted.", map[string]any{"MissionId": id, "Status": m.Status, "Action": "Wait until it has ended, or cancel it (cancel_mission)."})
		}
		if err := f.waitedFor(m, nil); err != nil {
			return nil, err
		}
		docks, err := f.docksOf(ctx, who, m)
		if err != nil {
			return nil, err
		}
		return changes(append(docks, remove(kept, happened(m, "deleted", who, "The mission "+m.Title+" was deleted.")))...)
	})
	if err != nil {
		return err
	}
	if err := f.opts.Papers.Remove(id); err != nil {
		f.opts.Log.Warn("what is kept of a deleted mission could not be removed", slog.String("mission", id), slog.String("cause", err.Error()))
	}
	f.wake()
	return nil
}
