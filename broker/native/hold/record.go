package hold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"berth/broker"
)

// The one record, and its events.
const (
	Kind         = "hold"
	recordID     = "dispatch"
	EventEngaged = "dispatch_hold.engaged"
	EventCleared = "dispatch_hold.cleared"
)

// Held is the record: the hold that is active, or that none is.
type Held struct {
	Active bool `json:"active"`
	// Of an active hold.
	Reason string    `json:"reason,omitempty"`
	SetBy  string    `json:"setBy,omitempty"`
	SetAt  time.Time `json:"setAt,omitzero"`
	// By is the principal of the last change.
	By string `json:"by"`
}

// seen is the record with its revision; the zero value: there was never one.
type seen struct {
	Held
	revision uint64
}

func decode(r broker.Record) (seen, error) {
	s := seen{revision: r.Revision}
	if err := json.Unmarshal(r.Value, &s.Held); err != nil {
		return s, fmt.Errorf("read the hold: %w", err)
	}
	return s, nil
}

// read gives the record as it is stored.
func read(from Reader) (seen, error) {
	r, err := from.Record(Kind, recordID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, fmt.Errorf("read the hold: %w", err)
	}
	return decode(r)
}

// maxTries bounds how often a change that met another one is tried again.
const maxTries = 10

// change replaces the record by what next makes of it, with an event, and gives
// the state before. A nil next value changes nothing.
func (h *Hold) change(ctx context.Context, next func(before Held) (Held, *broker.Event)) (before Held, err error) {
	for range maxTries {
		stored, err := read(h.store)
		if err != nil {
			return before, err
		}
		now, event := next(stored.Held)
		if event == nil {
			h.publish(stored)
			return stored.Held, nil
		}
		value, err := json.Marshal(now)
		if err != nil {
			return before, fmt.Errorf("write the hold: %w", err)
		}
		r, err := h.store.Put(ctx, broker.RecordChange{Kind: Kind, ID: recordID, If: &stored.revision, Value: value, Events: []broker.Event{*event}})
		if errors.Is(err, broker.ErrRecordRevision) {
			continue // somebody else was faster
		}
		if err != nil {
			// It may have been written all the same: what holds is what is stored.
			return before, errors.Join(fmt.Errorf("write the hold: %w", err), h.Load())
		}
		h.publish(seen{now, r.Revision})
		return stored.Held, nil
	}
	return before, errors.New("write the hold: others change it all the time")
}

// publish takes a state that is durable, unless a later one is known.
func (h *Hold) publish(s seen) {
	for {
		known := h.present.Load()
		if known != nil && known.revision > s.revision || h.present.CompareAndSwap(known, &s) {
			return
		}
	}
}
