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

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
	"berth/broker/native"
)

// Verb is the one that dispatches, Operation what its jobs are called.
const (
	Verb      = "dispatch"
	Operation = "voyage_dispatch"
)

// missionsSchema describes the missions of a dispatch. Asked.Check judges them
// first, with codes that say more than a schema can.
const missionsSchema = `{"type":"array","minItems":1,"maxItems":50,"items":{"type":"object","required":["title","description"],"properties":{` +
	`"title":{"type":"string","description":"At most 200 characters."},"description":{"type":"string","description":"What is to be done."},` +
	`"mode":{"type":"string","enum":["Implementation","Audit","Research"],"default":"Implementation","description":"Implementation delivers a commit; Audit and Research a report."},` +
	`"startFromRef":{"type":"string","description":"Branch, tag or commit that it begins at, when it depends on no mission."},` +
	`"alias":{"type":"string","description":"A name of it within this dispatch."},"dependsOnMissionAlias":{"type":"string","description":"The mission on whose branch it goes on."},` +
	`"dependsOnMissionId":{"type":"string","description":"The same, for a mission that exists."},` +
	`"preferredModel":{"type":"string","description":"low, mid, high or a model; best effort."},"capabilityHint":{"type":"string","description":"audit, reasoning-heavy, mechanical or doc-only."},` +
	`"prestagedFiles":{"type":"array","maxItems":50,"description":"Files of the broker's host, 50 MB in all.","items":{"type":"object","required":["sourcePath","destPath"],"properties":{"sourcePath":{"type":"string","description":"Absolute."},"destPath":{"type":"string","description":"Relative to the worktree."}}}},` +
	`"selectedPlaybooks":{"type":"array","description":"Not built."},"codeContextMode":` + contextModes + `,"codeContextQuery":{"type":"string"}}}}`

const contextModes = `{"type":"string","enum":["auto","off","force"],"description":"Whether briefs get a pack of code from the vessel's index: auto (when it can be searched), off, or force."}`

func (f *Family) dispatchVerbs() []native.Verb {
	v := verb(broker.Write|broker.Exec, f.dispatch, Verb, "Dispatch a voyage", "Have missions carried out on a vessel. The request is checked as a whole, then accepted as a job at once: ask job_status for its end. A job that Succeeded says that the voyage and its missions exist; ask voyage_status for how they fare. Give an idempotencyKey, so that a repeat cannot dispatch twice.",
		text("*title", "At most 200 characters."), text("*vesselId", "The vessel that the missions work on."), property{"*missions", missionsSchema}, text("description", "What the voyage is for."),
		property{"codeContextMode", contextModes}, integer("codeContextTokenBudget", "Tokens of a pack of code; 5000 when it is not given."), integer("codeContextMaxResults", "Hits in a pack of code."),
		text("objectiveId", "Not built."), text("pipelineId", "Not built."), text("pipeline", "Not built."), property{"selectedPlaybooks", `{"type":"array","description":"Not built."}`},
		property{"captainAssignments", `{"type":"array","description":"Not built."}`}, property{"skipStages", `{"type":"array","items":{"type":"string"},"description":"Not built."}`}, text("skipStagesReason", "Not built."),
		boolean("forcePreflight", "Without objectives there is no preflight; it changes nothing."), property{"idempotencyKey", `{"type":"string","minLength":1,"maxLength":128,"description":"Names this request: a repeat answers with the first job."}`})
	v.Long, v.Held, v.Facts.Keywords = true, true, []string{"voyage", "missions", "agents", "work"}
	v.Check = func(arguments json.RawMessage) *broker.Refusal {
		_, refusal := asked(arguments)
		return refusal
	}
	return []native.Verb{v}
}

// asked reads a request and judges it by itself.
func asked(arguments json.RawMessage) (dispatch.Asked, *broker.Refusal) {
	var a dispatch.Asked
	if err := (native.Ask{Arguments: arguments}).Decode(&a); err != nil {
		return a, broker.AsRefusal(err)
	}
	a.VesselID = strings.TrimSpace(a.VesselID)
	for i := range a.Missions {
		a.Missions[i].DependsOnID = strings.TrimSpace(a.Missions[i].DependsOnID)
	}
	return a, a.Check()
}

// Admit judges a call that is about to become a job, and says what the record
// calls it. Calls of other verbs are not the family's. What the arguments say by
// themselves was judged before (contracts/native.md section 4).
func (f *Family) Admit(call *broker.Call, job *broker.Job) *broker.Refusal {
	if call.Verb != Verb || call.Backend != catalog.NativeName || f.opts.Runner == nil {
		return nil
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(call.Params, &params) // policy has read it
	a, refusal := asked(params.Arguments)
	if refusal != nil {
		return refusal
	}
	ctx, cancel := f.opts.Within(context.Background(), checkTime)
	defer cancel()
	v, err := f.fits(ctx, call.Principal, a)
	if err == nil {
		_, _, err = f.resolve(ctx, v, a.Missions) // what is unknown yet is the job's to find out
	}
	if err != nil {
		if !errors.As(err, &refusal) {
			f.opts.Log.Error("a dispatch could not be judged", slog.String("call", call.ID), slog.String("cause", err.Error()))
		}
		return broker.AsRefusal(err)
	}
	job.Operation, job.VesselID = Operation, v.ID
	return nil
}

// fits judges a request by the records: its vessel, the missions that it builds
// on, and the vessel's code index.
func (f *Family) fits(ctx context.Context, who broker.Principal, a dispatch.Asked) (dispatch.Vessel, error) {
	kept, err := read[dispatch.Vessel](f, who, a.VesselID)
	if err != nil {
		return dispatch.Vessel{}, err
	}
	v := kept.Value
	if who.Role != broker.GlobalAdministrator && slices.ContainsFunc(a.Missions, func(m dispatch.AskedMission) bool { return len(m.Prestaged) > 0 }) {
		return v, broker.Refuse(broker.CodeServerPath, "Only a global administrator may name a path of the broker's host; nothing was accepted.", map[string]any{"Arguments": []string{"missions.prestagedFiles"}})
	}
	if err := f.carriedOut(v); err != nil {
		return v, err
	}
	if err := f.staged(a); err != nil {
		return v, err
	}
	for i, m := range a.Missions {
		if m.DependsOnAlias == "" && m.DependsOnID != "" {
			if _, err := f.dependency(who, v.ID, m.DependsOnID, map[string]any{"Mission": i}); err != nil {
				return v, err
			}
		}
	}
	return v, f.guard(ctx, v, a.Context())
}

// maxStaged is how much the files of one mission may have, in bytes.
const maxStaged = 50 << 20

// staged refuses missions whose files are more than a worktree takes. A file that
// is not there may come, from a mission before; it is looked for again when it is
// placed.
func (f *Family) staged(a dispatch.Asked) error {
	for i, m := range a.Missions {
		total := int64(0)
		for _, file := range m.Prestaged {
			total += f.opts.Places.FileSize(file.Source)
		}
		if total > maxStaged {
			return broker.Refuse(broker.CodePrestagedFileInvalid, fmt.Sprintf("The files of mission %d are more than %d bytes.", i, maxStaged),
				map[string]any{"Mission": i, "Bytes": total, "LimitBytes": maxStaged})
		}
	}
	return nil
}

// carriedOut refuses a vessel whose missions could never be carried out. No
// captain at all is none of these: one may come.
func (f *Family) carriedOut(v dispatch.Vessel) error {
	if v.LandingMode != dispatch.LandNone && v.LandingMode != dispatch.LandLocalMerge {
		return broker.Refuse(broker.CodeLandingUnsupported, "This build does not land branches in the way of this vessel; nothing was accepted.",
			map[string]any{"VesselId": v.ID, "LandingMode": v.LandingMode, "LandingModes": []dispatch.LandingMode{dispatch.LandNone, dispatch.LandLocalMerge}})
	}
	captains, err := list[dispatch.Captain](f, dispatch.InTenant(v.TenantID))
	if err != nil {
		return err
	}
	unbuilt := map[dispatch.Runtime]bool{}
	for _, c := range dispatch.Values(captains) {
		if len(c.AllowedPersonas) > 0 && !slices.Contains(c.AllowedPersonas, dispatch.Worker) {
			continue
		}
		if slices.Contains(dispatch.Runtimes, c.Runtime) {
			return nil
		}
		unbuilt[c.Runtime] = true
	}
	for r := range unbuilt {
		refusal := runtime.Unsupported(r)
		refusal.Message = "No captain that could take the missions has a runtime of this build; nothing was accepted."
		return refusal
	}
	return nil
}

// dependency is the mission that another one is to go on from: one of the same
// vessel, because it goes on from its branch.
func (f *Family) dependency(who broker.Principal, vessel, id string, detail map[string]any) (dispatch.Mission, error) {
	kept, err := read[dispatch.Mission](f, who, id)
	var refusal *broker.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == broker.CodeMissionNotFound, err == nil && kept.Value.VesselID != vessel:
		out := notFound(dispatch.KindMission, broker.CodeDependencyNotFound, id)
		out.Message = "Mission not found: this vessel has none of the id that dependsOnMissionId gives"
		for name, value := range detail {
			out.Detail[name] = value
		}
		return dispatch.Mission{}, out
	}
	return kept.Value, err
}

// dispatched is the result of a dispatch: the voyage, and where each mission
// begins.
type dispatched struct {
	dispatch.Voyage
	MissionStartRefs []startRef `json:"MissionStartRefs"`
}

type startRef struct {
	MissionID    string  `json:"MissionId"`
	StartFromRef *string `json:"StartFromRef"`
	Alias        *string `json:"Alias,omitempty"`
}

// dispatch is the job's work: the checks again, then the voyage's row, its
// missions, their start commits, and last the mark that it is whole. Until that
// is written no mission of it is assigned, and a start cancels it.
func (f *Family) dispatch(ctx context.Context, ask native.Ask) (any, error) {
	a, refusal := asked(ask.Arguments)
	if refusal != nil {
		return nil, refusal
	}
	who := ask.Call.Principal
	v, err := f.fits(ctx, who, a)
	if err != nil {
		return nil, err
	}
	if f.opts.Hold != nil {
		if refusal := f.opts.Hold(Operation); refusal != nil {
			return nil, refusal
		}
	}
	voyage, missions, err := f.rows(ask, a, v)
	if err != nil {
		return nil, err
	}
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		return changes(put(voyage, 0, happened(voyage, "created", who, "The voyage "+voyage.Title+" was created.")))
	})
	if err == nil {
		voyage, err = f.materialise(ctx, ask, a, v, voyage, missions)
	}
	if err != nil {
		return nil, errors.Join(err, f.undo(ctx, who, voyage.ID))
	}
	f.wake()
	if f.opts.Board != nil {
		if err := f.opts.Board.Dispatched(ctx, who, ask.Call.Origin.Participant, v, voyage.Title); err != nil {
			f.opts.Log.Warn("the board did not take the note of a dispatch", slog.String("voyage", voyage.ID), slog.String("cause", err.Error()))
		}
	}
	out := dispatched{Voyage: voyage}
	for _, m := range missions {
		out.MissionStartRefs = append(out.MissionStartRefs, startRef{m.ID, m.StartFromRef, m.Alias})
	}
	return out, nil
}

// undo cancels what a dispatch made that did not come to its end. The call may
// be over; this must happen all the same.
func (f *Family) undo(ctx context.Context, who broker.Principal, voyage string) error {
	reason := dispatch.DispatchLost
	if ctx.Err() != nil {
		reason = dispatch.Cancelled
	}
	if _, err := dispatch.Read[dispatch.Voyage](f.store, voyage); errors.Is(err, broker.ErrRecordNotFound) {
		return nil
	}
	if _, _, err := f.opts.Runner.CancelVoyage(context.WithoutCancel(ctx), who, voyage, reason); err != nil {
		f.opts.Log.Error("the voyage of a dispatch that failed could not be cancelled", slog.String("voyage", voyage), slog.String("cause", err.Error()))
	}
	return nil
}

// Cancelled ends the voyages of a job that was cancelled, whether its work went
// on or was just over.
func (f *Family) Cancelled(ctx context.Context, job broker.Job, by broker.Principal) {
	if job.Operation != Operation || f.opts.Runner == nil {
		return
	}
	voyages, err := dispatch.ReadAll[dispatch.Voyage](f.store, dispatch.OfJob(job.ID))
	for _, v := range voyages {
		if v.Value.Status.Over() {
			continue
		}
		_, _, wrong := f.opts.Runner.CancelVoyage(ctx, by, v.Value.ID, dispatch.Cancelled)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		f.opts.Log.Error("the voyage of a cancelled job could not be cancelled", slog.String("job", job.ID), slog.String("cause", err.Error()))
	}
}

// rows are the voyage of a request and its missions, in the request's order,
// owned by whoever owns the vessel.
func (f *Family) rows(ask native.Ask, a dispatch.Asked, v dispatch.Vessel) (voyage dispatch.Voyage, missions []dispatch.Mission, err error) {
	id, err := f.newID(dispatch.VoyagePrefix, ask.Now)
	if err != nil {
		return voyage, nil, err
	}
	voyage = dispatch.Voyage{ID: id, Owner: v.Owner, Title: a.Title, Description: given(a.Description), Status: dispatch.VoyageOpen, VesselID: v.ID,
		CreatedUTC: ask.Now, LastUpdateUTC: ask.Now}
	if voyage.SourceJobID, err = f.jobOf(ask.Call, v.ID); err != nil {
		return voyage, nil, err
	}
	ids, byAlias := make([]string, len(a.Missions)), map[string]string{}
	for i := range ids {
		if ids[i], err = f.newID(dispatch.MissionPrefix, ask.Now); err != nil {
			return voyage, nil, err
		}
	}
	// Ids of one millisecond sort by chance, and a list of them is to be in the
	// request's order.
	slices.Sort(ids)
	for i, m := range a.Missions {
		if m.Alias != "" {
			byAlias[m.Alias] = ids[i]
		}
	}
	for i, m := range a.Missions {
		row := dispatch.Mission{ID: ids[i], Owner: v.Owner, VoyageID: &id, VesselID: v.ID, Title: m.Title, Description: m.Description,
			Mode: cmp.Or(m.Mode, dispatch.Implementation), Persona: dispatch.Worker, Priority: defaultPriority, Alias: given(m.Alias), DependsOn: given(m.DependsOnID),
			StartFromRef: given(m.StartFromRef), PreferredModel: given(m.PreferredModel), CapabilityHint: given(m.CapabilityHint),
			ContextMode: cmp.Or(m.ContextMode, a.ContextMode, dispatch.ContextAuto), ContextQuery: given(m.ContextQuery), ContextTokens: a.ContextTokens, ContextResults: a.ContextResults,
			Prestaged: append([]dispatch.PrestagedFile{}, m.Prestaged...), Status: dispatch.MissionPending, Assignment: dispatch.AssignmentPending, CreatedUTC: ask.Now, LastUpdateUTC: ask.Now}
		if m.DependsOnAlias != "" {
			row.DependsOn = given(byAlias[m.DependsOnAlias])
		}
		if row.DependsOn != nil {
			row.Assignment = dispatch.WaitingForMission
		}
		missions = append(missions, row)
	}
	return voyage, missions, nil
}

// defaultPriority is that of a mission which says none; a lower one goes first.
const defaultPriority = 100

// given is a text that may be absent.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// jobOf finds the job whose work a call is; nil: the call is none.
func (f *Family) jobOf(call *broker.Call, vessel string) (*string, error) {
	page, err := f.store.Jobs(broker.JobFilter{Unfinished: true, VesselID: vessel, Operation: Operation})
	if err != nil {
		return nil, f.unreadable(err)
	}
	for _, j := range page.Jobs {
		if call.ID != "" && j.CallID == call.ID {
			return &j.ID, nil
		}
	}
	return nil, nil
}

// materialise writes the missions of a voyage whose row is there, pins the
// commits that they begin at, and marks the voyage as whole.
func (f *Family) materialise(ctx context.Context, ask native.Ask, a dispatch.Asked, v dispatch.Vessel, voyage dispatch.Voyage, missions []dispatch.Mission) (dispatch.Voyage, error) {
	who := ask.Call.Principal
	err := f.write(ctx, func() ([]broker.RecordChange, error) {
		plan := make([]planned, 0, len(missions))
		for _, m := range missions {
			plan = append(plan, put(m, 0, happened(m, "created", who, "The mission "+m.Title+" was created.")))
		}
		return changes(plan...)
	})
	if err != nil {
		return voyage, err
	}
	limited, cancel := f.opts.Within(ctx, resolveTime)
	defer cancel()
	commits, unknown, err := f.resolve(limited, v, a.Missions)
	switch {
	case err != nil:
		return voyage, err
	case ctx.Err() != nil:
		return voyage, ctx.Err()
	case unknown != nil:
		f.opts.Log.Warn("the start refs of a dispatch could not be resolved", slog.String("voyage", voyage.ID), slog.String("cause", unknown.Error()))
		return voyage, broker.Refuse(broker.CodeOperationFailed, "It could not be found out what the start refs name; the voyage was cancelled.",
			map[string]any{"VoyageId": voyage.ID, "VesselId": v.ID, "Action": "See that the repository can be reached, then dispatch again."})
	}
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Voyage](f, who, voyage.ID)
		if err != nil {
			return nil, err
		}
		if kept.Value.Status.Over() {
			return nil, broker.Refuse(broker.CodeCancelled, "The voyage was cancelled before it was whole.", map[string]any{"VoyageId": voyage.ID})
		}
		voyage = kept.Value
		voyage.Materialized = true
		plan := []planned{put(voyage, kept.Revision)}
		for i := range missions {
			if commit, pinned := commits[i]; pinned {
				stored, err := read[dispatch.Mission](f, who, missions[i].ID)
				if err != nil {
					return nil, err
				}
				missions[i] = stored.Value
				missions[i].StartCommit = &commit
				plan = append(plan, put(missions[i], stored.Revision))
			}
		}
		return changes(plan...)
	})
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return voyage, err
}
