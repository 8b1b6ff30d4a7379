package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"berth/broker"
)

// Store keeps records; *journal.Journal is one.
type Store interface {
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	Record(kind, id string) (broker.Record, error)
	Records(q broker.RecordQuery) ([]broker.Record, error)
	CountRecords(q broker.RecordQuery) (int, error)
}

// The kinds of records.
const (
	KindNote     = "note"
	KindSignal   = "signal"
	KindClaim    = "claim"
	KindPresence = "presence"
	KindRun      = "agentwake_run"
)

// How long things are kept.
const (
	Retention = 90 * 24 * time.Hour // of notes, signals and runs
	presence  = time.Hour
)

// Options is what a board is made of. Store, Now, Random and Log are required.
type Options struct {
	Store  Store
	Now    func() time.Time // for what nobody calls: the broker's own notes, the banner, runs
	Random io.Reader
	Log    *slog.Logger
	// AgentWake is what the configuration says; the zero value has no participant
	// and starts nothing.
	AgentWake AgentWake
	// Team says whether everybody may acknowledge without a participant key
	// inside their tenant; otherwise, or when it is nil, only a global
	// administrator does.
	Team func() bool
	// Dispatch adds the verbs that speak to captains and voyages.
	Dispatch bool
	// Due is told that a wake should start the process target. It must not block;
	// nil: nothing is started.
	Due func()
}

// Board is the service behind the verbs, the operator API and the banner.
type Board struct {
	opts Options

	mu     sync.Mutex
	target *Target // registered; nil: the configured one
}

// New makes a board.
func New(o Options) *Board {
	if o.Team == nil {
		o.Team = func() bool { return false }
	}
	return &Board{opts: o}
}

// Caller is who asks, and when.
type Caller struct {
	broker.Principal
	// Participant is the key of the request's header; empty without a valid one.
	Participant string
	Now         time.Time
}

// all reports whether the caller sees every tenant's.
func (c Caller) all() bool { return c.Role == broker.GlobalAdministrator }

// sees reports whether a record of a tenant exists for the caller. The records of
// the broker itself have none.
func (c Caller) sees(tenant string) bool { return c.all() || tenant == c.Tenant || tenant == "" }

// Lists have keys of the form what:who/tenant. No part before the slash holds
// one, so that a tenant's list cannot be another's. The list without a tenant has
// every tenant's.

// keysOf are the lists that a record of a tenant stands in.
func keysOf(list, tenant string) []string { return []string{list, list + "/" + tenant} }

// listsFor are the lists that together hold what the caller sees.
func (c Caller) listsFor(list string) []string {
	if c.all() {
		return []string{list}
	}
	return []string{list + "/" + c.Tenant, list + "/"}
}

// put writes a record. An error that is not a revision's becomes the refusal
// that tells the caller what is known.
func (b *Board) put(ctx context.Context, c broker.RecordChange, value any) error {
	if value != nil {
		raw, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode a %s: %w", c.Kind, err)
		}
		c.Value = raw
	}
	_, err := b.opts.Store.Put(ctx, c)
	switch {
	case err == nil, errors.Is(err, broker.ErrRecordRevision), errors.Is(err, broker.ErrRecordNotFound):
		return err
	case errors.Is(err, broker.ErrJournalBusy):
		return broker.Refuse(broker.CodeJobJournal, "The journal has too many writes waiting; nothing was written.", nil)
	}
	b.opts.Log.Error("a record of the board could not be written", slog.String("kind", c.Kind), slog.String("cause", err.Error()))
	return broker.Refuse(broker.CodeOutcomeUnknown, "The journal did not confirm the write; it may have happened. Look before repeating it.", nil)
}

// records reads a list. Records that cannot be decoded are logged and left out.
func (b *Board) records(q broker.RecordQuery) ([]broker.Record, error) {
	found, err := b.opts.Store.Records(q)
	if err != nil && len(found) > 0 {
		b.opts.Log.Warn("a record of the board could not be read", slog.String("kind", q.Kind), slog.String("cause", err.Error()))
		err = nil
	}
	return found, err
}

// record reads one, which has not expired; nil: there is none.
func (b *Board) record(kind, id string, now time.Time) (*broker.Record, error) {
	r, err := b.opts.Store.Record(kind, id)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case expired(r, now):
		return nil, nil
	}
	return &r, nil
}

func expired(r broker.Record, now time.Time) bool {
	return !r.Expires.IsZero() && !r.Expires.After(now)
}

func (b *Board) newID(prefix string, now time.Time) (string, error) {
	return broker.NewID(prefix, now, b.opts.Random)
}

func decode(r broker.Record, into any) error {
	if err := json.Unmarshal(r.Value, into); err != nil {
		return fmt.Errorf("the %s %s cannot be read: %w", r.Kind, r.ID, err)
	}
	return nil
}

// participantKey refuses what names no participant.
func participantKey(argument, key string) error {
	if broker.ParticipantKey(key) {
		return nil
	}
	return broker.Refuse(broker.CodeInvalidParticipant, "A participant key is 1 to 128 of A-Z a-z 0-9 . _ : -.", map[string]any{"Argument": argument})
}

func roomKey(key string) (string, error) {
	room, ok := broker.RoomKey(key)
	if !ok {
		return "", broker.Refuse(broker.CodeInvalidRoomKey, "A room key is 1 to 64 of A-Z a-z 0-9 . _ : -.", map[string]any{"Argument": "roomKey"})
	}
	return room, nil
}

// missing refuses an argument that is absent or blank.
func missing(code broker.Code, argument string) error {
	return broker.Refuse(code, "The argument "+argument+" is required.", map[string]any{"Argument": argument})
}

// unfit refuses an argument by its path.
func unfit(argument, problem string) error {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
		map[string]any{"Violations": []map[string]string{{"Path": "/" + argument, "Problem": problem}}})
}
