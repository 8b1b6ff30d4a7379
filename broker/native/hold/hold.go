package hold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"berth/broker"
)

// Reader reads records.
type Reader interface {
	Record(kind, id string) (broker.Record, error)
}

// Store keeps the hold and lists the jobs.
type Store interface {
	Reader
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
}

// Board is where a hold is told.
type Board interface {
	// PostSystem posts a note of the broker itself.
	PostSystem(ctx context.Context, content string) error
	// StoreWake stores a wake that names no addressee.
	StoreWake(ctx context.Context, payload string) error
}

// Hold is the operator's stop.
type Hold struct {
	store   Store
	board   Board // nil: there is none
	now     func() time.Time
	log     *slog.Logger
	present atomic.Pointer[seen] // the last durable state that is known
	working func() ([]string, error)
}

// New makes a hold over a store. [Hold.Load] must be called before anything is
// admitted. board may be nil.
func New(store Store, board Board, now func() time.Time, log *slog.Logger) *Hold {
	return &Hold{store: store, board: board, now: now, log: log}
}

// Missions says who knows the missions that agents work on, which a restart would
// end; without it there are none. It comes before the first use.
func (h *Hold) Missions(working func() ([]string, error)) { h.working = working }

// Load reads the hold from the store.
func (h *Hold) Load() error {
	s, err := read(h.store)
	if err != nil {
		return err
	}
	h.publish(s)
	return nil
}

// Renew reads the hold from another store, for a journal that is replaced.
// What it gives makes that the state.
func (h *Hold) Renew(from Reader) (apply func(), err error) {
	s, err := read(from)
	if err != nil {
		return nil, err
	}
	return func() { h.present.Store(&s) }, nil
}

// Present is the hold in force; nil: none is.
func (h *Hold) Present() *View {
	s := h.present.Load()
	if s == nil || !s.Active {
		return nil
	}
	return &View{Reason: s.Reason, SetBy: s.SetBy, SetByUTC: broker.FormatTime(s.SetAt)}
}

// View is a hold as it is shown.
type View struct {
	Reason   string
	SetBy    string
	SetByUTC string `json:"SetByUtc"`
}

// Refuse is the answer to whoever would start an operation; nil while no hold
// is active.
func (h *Hold) Refuse(string) *broker.Refusal {
	v := h.Present()
	if v == nil {
		return nil
	}
	return broker.Refuse(broker.CodeDispatchHold,
		fmt.Sprintf("Dispatch is on hold since %s (set by %s): %s.", v.SetByUTC, v.SetBy, strings.TrimRight(v.Reason, ".")),
		map[string]any{"SetBy": v.SetBy, "SetByUtc": v.SetByUTC, "Reason": v.Reason,
			"Action": "Nothing was accepted or created. Dispatch again when the hold is cleared; ask its holder on the board."})
}

// Standing is the answer of status and engage.
type Standing struct {
	Active         bool
	Hold           *View
	UnfinishedJobs []json.RawMessage
	// WorkingMissions are the ids of the missions that agents work on: a restart
	// ends them as it ends a job. Absent when there are none.
	WorkingMissions []string `json:",omitempty"`
}

// Cleared is the answer of clear.
type Cleared struct {
	Active     bool
	Cleared    bool
	WasActive  bool
	ClearedBy  *string
	ClearedUTC string `json:"ClearedUtc"`
}

func (h *Hold) status() (any, error) {
	jobs, err := h.UnfinishedJobs()
	if err != nil {
		return nil, journalRefusal("The unfinished jobs could not be read.")
	}
	missions, err := h.WorkingMissions()
	if err != nil {
		return nil, journalRefusal("The missions that agents work on could not be read.")
	}
	v := h.Present()
	return Standing{Active: v != nil, Hold: v, UnfinishedJobs: jobs, WorkingMissions: missions}, nil
}

func (h *Hold) engage(ctx context.Context, who broker.Principal, reason, setBy string) (any, error) {
	next := Held{Active: true, Reason: reason, SetBy: setBy, SetAt: h.now(), By: who.Key()}
	before, err := h.change(ctx, func(before Held) (Held, *broker.Event) {
		return next, event(EventEngaged, who, "Dispatch was put on hold by "+setBy+": "+reason, change{SetBy: setBy, Reason: reason, Replaced: shown(before)})
	})
	if err != nil {
		return nil, h.failed("engaged", err)
	}
	h.log.Info("dispatch is on hold", slog.String("principal", who.Key()), slog.Bool("replaced", before.Active))
	h.tell(ctx, fmt.Sprintf("[hold] Dispatch is on hold (set by %s): %s", setBy, reason))
	return h.status()
}

func (h *Hold) clear(ctx context.Context, who broker.Principal, setBy string) (any, error) {
	at := h.now()
	name := setBy
	if name == "" {
		name = who.Key()
	}
	before, err := h.change(ctx, func(before Held) (Held, *broker.Event) {
		if !before.Active {
			return before, nil
		}
		return Held{By: who.Key()}, event(EventCleared, who, "The hold on dispatch was cleared by "+name+".", change{SetBy: name, Ended: shown(before)})
	})
	if err != nil {
		return nil, h.failed("cleared", err)
	}
	if before.Active {
		h.log.Info("the hold on dispatch is cleared", slog.String("principal", who.Key()))
		h.tell(ctx, fmt.Sprintf("[hold] Dispatch goes on (cleared by %s); it was held by %s: %s", name, before.SetBy, before.Reason))
	}
	return Cleared{Cleared: true, WasActive: before.Active, ClearedBy: &name, ClearedUTC: broker.FormatTime(at)}, nil
}

// failed says that it is not known whether a change is durable; what is known
// of the stored state was published.
func (h *Hold) failed(what string, err error) error {
	var refusal *broker.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	h.log.Error("a change of the hold could not be written", slog.String("change", what), slog.String("cause", err.Error()))
	return journalRefusal("The journal could not take the change; the status says whether the hold is active.")
}

func journalRefusal(message string) *broker.Refusal {
	return broker.Refuse(broker.CodeJobJournal, message, nil).Retry(time.Second)
}

// change is the payload of an event.
type change struct {
	Principal string
	SetBy     string
	Reason    string `json:",omitempty"`
	Replaced  *View  `json:",omitempty"` // the hold that was active before
	Ended     *View  `json:",omitempty"`
}

func shown(h Held) *View {
	if !h.Active {
		return nil
	}
	return &View{Reason: h.Reason, SetBy: h.SetBy, SetByUTC: broker.FormatTime(h.SetAt)}
}

func event(kind string, who broker.Principal, message string, c change) *broker.Event {
	c.Principal = who.Key()
	payload, err := json.Marshal(c)
	if err != nil {
		panic("encode the event of a hold: " + err.Error()) // texts only
	}
	return &broker.Event{EventType: kind, EntityType: "dispatch_hold", EntityID: recordID, TenantID: who.Tenant, Message: message, Payload: payload}
}

// tell posts what happened. A board that fails is logged and undoes nothing.
func (h *Hold) tell(ctx context.Context, content string) {
	if h.board == nil {
		return
	}
	if err := h.board.PostSystem(ctx, content); err != nil {
		h.log.Warn("the board did not take the note of a hold", slog.String("cause", err.Error()))
	}
	if err := h.board.StoreWake(ctx, content); err != nil {
		h.log.Warn("the wake of a hold could not be stored", slog.String("cause", err.Error()))
	}
}

// UnfinishedJobs gives all jobs that are not final, oldest first: what a restart
// would lose. The journal reads them in short steps, and each backend's lanes
// bound how many there can be.
func (h *Hold) UnfinishedJobs() ([]json.RawMessage, error) {
	page, err := h.store.Jobs(broker.JobFilter{Unfinished: true})
	if err != nil {
		return nil, err
	}
	return broker.UnfinishedViews(page.Jobs), nil
}

// WorkingMissions gives the ids of the missions that agents work on, which a
// restart would end; it is empty, never nil, when there are none.
func (h *Hold) WorkingMissions() ([]string, error) {
	if h.working == nil {
		return []string{}, nil
	}
	missions, err := h.working()
	if err != nil {
		return nil, err
	}
	return append([]string{}, missions...), nil
}
