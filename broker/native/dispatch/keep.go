package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// missing is the code of a record that is not there.
var missing = map[string]broker.Code{
	dispatch.KindVessel: broker.CodeVesselNotFound, dispatch.KindCaptain: broker.CodeCaptainNotFound, dispatch.KindDock: broker.CodeDockNotFound,
	dispatch.KindMission: broker.CodeMissionNotFound, dispatch.KindVoyage: broker.CodeVoyageNotFound,
}

// read gives a record that the caller may know of; another's reads as one that
// never existed.
func read[R dispatch.Stored](f *Family, who broker.Principal, id string) (dispatch.Kept[R], error) {
	kept, err := dispatch.Read[R](f.store, id)
	kind := kept.Value.Kind()
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		return kept, notFound(kind, missing[kind], id)
	case err != nil:
		return kept, f.unreadable(err)
	case !kept.Value.Whose().Readable(who):
		return dispatch.Kept[R]{}, notFound(kind, missing[kind], id)
	}
	return kept, nil
}

// named is read of the record that an argument names.
func named[R dispatch.Stored](f *Family, ask native.Ask, argument string) (dispatch.Kept[R], error) {
	id, err := idOf(ask, argument)
	if err != nil {
		return dispatch.Kept[R]{}, err
	}
	return read[R](f, ask.Call.Principal, id)
}

// list gives every record of a list.
func list[R dispatch.Stored](f *Family, of string) ([]dispatch.Kept[R], error) {
	kept, err := dispatch.ReadAll[R](f.store, of)
	if err != nil {
		return nil, f.unreadable(err)
	}
	return kept, nil
}

// unreadable refuses what the journal could not give.
func (f *Family) unreadable(err error) error { return native.Unreadable(f.opts.Log, err) }

// maxEcho is how much of an id that names nothing is repeated, in bytes.
const maxEcho = 64

func notFound(kind string, code broker.Code, id string) *broker.Refusal {
	if len(id) > maxEcho {
		id = strings.ToValidUTF8(id[:maxEcho], "") + "..."
	}
	word := strings.ToUpper(kind[:1]) + kind[1:]
	return broker.Refuse(code, word+" not found", map[string]any{word + "Id": id})
}

// newID makes an id of a kind.
func (f *Family) newID(prefix string, now time.Time) (string, error) {
	return broker.NewID(prefix, now, f.opts.Random)
}

// maxGiven is the most that a record has which a caller writes, in bytes. It leaves
// room for what becomes of it: a mission whose end does not fit would never have one.
const maxGiven = broker.MaxRecord - 64<<10

// tries is how often a change is made again that met a newer record.
const tries = 8

// write makes the changes that plan finds, as one step. Plan reads what it
// changes; it is asked again when another write came in between.
func (f *Family) write(ctx context.Context, plan func() ([]broker.RecordChange, error)) error {
	for try := 1; ; try++ {
		changes, err := plan()
		if err != nil || len(changes) == 0 {
			return err
		}
		if slices.ContainsFunc(changes, func(c broker.RecordChange) bool { return len(c.Value) > maxGiven }) {
			return broker.Refuse(broker.CodeInvalid, fmt.Sprintf("The record would have more than %d bytes; nothing was written.", maxGiven), map[string]any{"LimitBytes": maxGiven})
		}
		_, err = f.store.PutAll(ctx, changes...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, broker.ErrRecordRevision), errors.Is(err, broker.ErrRecordNotFound):
			if try < tries {
				continue
			}
			return broker.Refuse(broker.CodeOverloaded, "Others keep changing the record; nothing was written.", nil).Retry(time.Second)
		case errors.Is(err, broker.ErrJournalBusy):
			return broker.Refuse(broker.CodeJobJournal, "The journal has too many writes waiting; nothing was written.", nil).Retry(time.Second)
		case ctx.Err() != nil:
			return err
		}
		f.opts.Log.Error("a record could not be written", slog.String("cause", err.Error()))
		return broker.Refuse(broker.CodeOutcomeUnknown, "The journal did not confirm the write; it may have happened. Look before repeating it.", nil)
	}
}

// change reads a record, has it changed, and writes it with the event of it. An
// empty word writes none.
func change[R dispatch.Stored](ctx context.Context, f *Family, who broker.Principal, id, word, message string, step func(R) (R, error)) (R, error) {
	var next R
	err := f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[R](f, who, id)
		if err != nil {
			return nil, err
		}
		if next, err = step(kept.Value); err != nil {
			return nil, err
		}
		return changes(put(next, kept.Revision, happened(next, word, who, message)))
	})
	return next, err
}

// put is dispatch.Write with the events as a list.
func put[R dispatch.Stored](r R, revision uint64, events ...broker.Event) planned {
	c, err := dispatch.Write(r, revision, events...)
	return planned{c, err}
}

// remove is the change that deletes a record where it was read.
func remove[R dispatch.Stored](kept dispatch.Kept[R], events ...broker.Event) planned {
	return planned{broker.RecordChange{Kind: kept.Value.Kind(), ID: kept.Value.Key(), If: &kept.Revision, Events: events}, nil}
}

// planned is a change, or why it could not be made.
type planned struct {
	change broker.RecordChange
	err    error
}

// changes gives them, or the first reason against.
func changes(of ...planned) ([]broker.RecordChange, error) {
	out := make([]broker.RecordChange, 0, len(of))
	for _, p := range of {
		if p.err != nil {
			return nil, p.err
		}
		out = append(out, p.change)
	}
	return out, nil
}

// happened is the event of a change that somebody asked for.
func happened[R dispatch.Stored](r R, word string, by broker.Principal, message string) broker.Event {
	payload, _ := json.Marshal(map[string]string{"By": by.Key()}) // text
	return dispatch.Event(r, word, message, payload)
}

// wake says that records have changed, to whoever carries missions out.
func (f *Family) wake() {
	if f.opts.Runner != nil {
		f.opts.Runner.Wake()
	}
}

// live counts the missions of a list that an agent works on.
func (f *Family) live(of string) (int, error) {
	found, err := f.store.Records(broker.RecordQuery{Kind: dispatch.KindMission, Key: dispatch.Live(of), Limit: 1000})
	if err != nil {
		return 0, f.unreadable(err)
	}
	return len(found), nil
}

// deleteMany deletes one after the other; one that cannot be deleted does not
// stop the rest.
func (f *Family) deleteMany(one func(ctx context.Context, who broker.Principal, id string) error) func(context.Context, native.Ask) (any, error) {
	return func(ctx context.Context, ask native.Ask) (any, error) {
		var args struct {
			IDs []string `json:"ids"`
		}
		if err := ask.Decode(&args); err != nil {
			return nil, err
		}
		if len(args.IDs) == 0 {
			return nil, broker.Refuse(broker.CodeMissingIDs, "The argument ids is required.", map[string]any{"Argument": "ids"})
		}
		out := broker.DeletedMany{Status: "Deleted", Skipped: []broker.Skipped{}}
		for _, id := range args.IDs {
			err := one(ctx, ask.Call.Principal, strings.TrimSpace(id))
			var refusal *broker.Refusal
			switch {
			case err == nil:
				out.Deleted++
				continue
			case ctx.Err() != nil:
				return nil, err
			case !errors.As(err, &refusal):
				f.opts.Log.Error("a record could not be deleted", slog.String("cause", err.Error()))
				refusal = broker.AsRefusal(err)
			}
			out.Skipped = append(out.Skipped, broker.Skipped{ID: id, Reason: refusal.Code})
		}
		switch {
		case out.Deleted == 0:
			out.Status = "NoneDeleted"
		case len(out.Skipped) > 0:
			out.Status = "PartiallyDeleted"
		}
		return out, nil
	}
}
