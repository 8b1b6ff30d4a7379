package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// Index tells how fresh the index of a vessel's code is.
type Index interface {
	Freshness(ctx context.Context, v dispatch.Vessel) (dispatch.IndexState, error)
}

// The limits of what is looked at before a dispatch is accepted
// (contracts/native.md section 4).
const (
	checkTime = 10 * time.Second // all of it together
	guardTime = 3 * time.Second  // the code index, which fails open
	// resolveTime is how long a job may look for start refs: it may have to clone.
	resolveTime = 10 * time.Minute
)

// guard refuses a dispatch whose missions are to be told of code that the index
// does not have. What cannot be found out in time refuses nothing.
func (f *Family) guard(ctx context.Context, v dispatch.Vessel, mode string) error {
	if f.opts.Index == nil || mode == dispatch.ContextOff {
		return nil
	}
	ctx, cancel := f.opts.Within(ctx, guardTime)
	defer cancel()
	state, err := f.opts.Index.Freshness(ctx, v)
	if err != nil {
		f.opts.Log.Warn("the code index of a vessel could not be looked at; the dispatch goes on", slog.String("vessel", v.ID), slog.String("cause", err.Error()))
		return nil
	}
	if refusal := dispatch.CheckIndex(v.ID, mode, state); refusal != nil {
		return refusal
	}
	return nil
}

// resolve gives the commits that the missions' start refs name, by their place
// in the request. A ref that is known to be missing is refused. Others that
// could not be found out in time are the job's to look at again: until then,
// they are not in the answer; unknown has the reason of one of them.
func (f *Family) resolve(ctx context.Context, v dispatch.Vessel, missions []dispatch.AskedMission) (commits map[int]string, unknown, err error) {
	commits = map[int]string{}
	byRef := map[string]string{}
	for i, m := range missions {
		if m.StartFromRef == "" {
			continue
		}
		if f.opts.Refs == nil {
			return commits, errors.New("this broker reads no repositories"), nil
		}
		commit, known := byRef[m.StartFromRef]
		if !known {
			commit, err = f.opts.Refs.Resolve(ctx, v, m.StartFromRef)
			var fault *dispatch.Fault
			switch {
			case errors.As(err, &fault) && fault.Reason == dispatch.StartFromRefMissing:
				return nil, nil, broker.Refuse(broker.CodeStartFromRefMissing, "The repository has no branch, tag or commit of that name; the default branch is never taken instead.",
					map[string]any{"Mission": i, "StartFromRef": m.StartFromRef, "VesselId": v.ID})
			case err != nil:
				unknown = err
				continue
			}
			byRef[m.StartFromRef] = commit
		}
		commits[i] = commit
	}
	return commits, unknown, nil
}
